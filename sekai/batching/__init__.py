"""The layer below every vector backend and wrapper: spaces, arrays and dicts only.

It never sees an environment, a process or a loop.
"""
