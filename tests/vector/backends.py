"""The backends the contract runs on, by name."""

from toys import NativeToy, fns

from sekai import AsyncVecEnv, SyncVecEnv

# Backends that take env_fns.
ROW_BACKENDS = {"sync": SyncVecEnv, "async": AsyncVecEnv}

ALL_BACKENDS = [*ROW_BACKENDS, "native"]

_OF_THE_VEC_ENV = ("autoreset", "autoreset_options", "max_episode_steps")


def make_toys(backend, *scripts, **kwargs):
    """A VecEnv of sub-envs that follow the scripts (see toys.Toy), on any backend."""
    if backend == "native":
        return NativeToy(scripts, **kwargs)
    of_the_vec_env = {key: kwargs.pop(key) for key in _OF_THE_VEC_ENV if key in kwargs}
    return ROW_BACKENDS[backend](fns(*scripts, **kwargs), **of_the_vec_env)
