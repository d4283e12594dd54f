"""Snapshots: what decides what environments will show next, as data, and how it is read off objects.

Of a ``VecEnv`` a ``Snapshot`` holds columns, one entry per sub-env. Of an ``Env``, whose state may be anything, it is
pickled: the same bytes under every backend.
"""

from sekai.snapshots.snapshot import Snapshot

__all__ = ["Snapshot"]
