"""Worker processes: ``ProcVecEnv``, its pool of workers, and what goes between them."""
