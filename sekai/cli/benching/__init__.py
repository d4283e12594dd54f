"""What ``sekai bench`` measures with: the sub-envs, their times, their profiles, the report."""
