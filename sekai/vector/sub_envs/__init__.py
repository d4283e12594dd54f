"""Sub-envs that are ``Env`` objects in this process: one after another, or concurrently on an event loop."""
