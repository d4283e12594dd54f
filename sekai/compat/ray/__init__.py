"""More than one machine, on Ray, with the numbers of one machine: rollouts in tasks, vector envs in actors.

Raises:
    ImportError: Ray is not installed.
"""

from __future__ import annotations

try:
    import ray as _ray  # noqa: F401 - what is not there is to be said here
except ModuleNotFoundError as error:
    if error.name != "ray":  # it is there, what it needs itself is not
        raise
    raise ImportError('sekai.compat.ray needs Ray: pip install ".[ray]" in the clone') from error

from sekai.compat.ray.rollout import rollout, rollout_shards
from sekai.compat.ray.shard import Place
from sekai.compat.ray.vec_env import RayVecEnv
from sekai.shards.rolling import PerShard

__all__ = ["PerShard", "Place", "RayVecEnv", "rollout", "rollout_shards"]
