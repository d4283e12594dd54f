"""What ``sekai bench`` measures with: the copies, their times, their profiles, the report."""
