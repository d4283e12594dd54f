"""The backends every case runs on, how to build each from env_fns or scripts, and how to compare what they give."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from toys import BOX1, NativeToy, fns

from sekai import AsyncVecEnv, InfoList, SyncVecEnv, TimeLimit, VecEnvAttributeError, VecEnvWorkerError
from sekai.vector import ProcVecEnv

#: Backends whose Env objects live in this process: each is called as factory(env_fns, *, autoreset, autoreset_options).
ROWS = {"sync": SyncVecEnv, "async": AsyncVecEnv}

#: Backends whose Env objects live in worker processes, called in the same way.
PROCS = {
    "proc": ProcVecEnv,
    "proc-pipe": partial(ProcVecEnv, shared_memory=False),
    "proc-grouped": partial(ProcVecEnv, num_workers=2),
    "proc-grouped-pipe": partial(ProcVecEnv, num_workers=2, shared_memory=False),
}

#: Every backend, in every variant.
ALL = [*ROWS, *PROCS, "native"]

#: Two of PROCS that between them take every way an observation, an action or an info can go.
TWO_PROCS = ["proc", "proc-grouped-pipe"]

#: Every kind of backend.
KINDS = [*ROWS, *TWO_PROCS, "native"]

#: A ``KernelVecEnv``, for scripts that a row market can have: of observations (1,), infos that are all declared and no
#: options but those that are.
ROW_MARKET = "row-market"

everywhere = pytest.mark.parametrize("backend", KINDS)
on_rows = pytest.mark.parametrize("backend", [*ROWS, *TWO_PROCS])

#: The same with worker processes of one kind only, for tests of many parameters: starting processes takes its time.
everywhere_once = pytest.mark.parametrize("backend", [*ROWS, "proc", "native"])
on_rows_once = pytest.mark.parametrize("backend", [*ROWS, "proc"])

#: For tests that look at a sub-env, or change one, in this process.
here = pytest.mark.parametrize("backend", [*ROWS, "native"])
on_rows_here = pytest.mark.parametrize("backend", list(ROWS))

both_modes = pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])


def error(backend, kind):
    """What an exception of class ``kind`` in a sub-env is for the caller; AttributeError in the use of an attribute."""
    return of_worker(kind) if backend in PROCS else kind


def of_worker(kind):
    return VecEnvAttributeError if kind is AttributeError else VecEnvWorkerError


def make(backend, env_fns, **kwargs):
    return {**ROWS, **PROCS}[backend](env_fns, **kwargs)


def scripted(backend, *scripts, obs=BOX1, act=None, r0=(0.0,), i0=None, max_episode_steps=None, **kwargs):
    """One sub-env per script (see ``toys.Toy``) on any backend, the native one included."""
    toy = {"obs": obs, "act": act, "r0": r0, "i0": i0}
    if backend == "native":
        return NativeToy(scripts, **toy, max_episode_steps=max_episode_steps, **kwargs)
    if backend == ROW_MARKET:
        from row_toys import row_toys  # which imports Numba

        assert obs is BOX1 and act is None
        return row_toys(scripts, r0=r0, i0=i0, max_episode_steps=max_episode_steps, **kwargs)
    env_fns = fns(*scripts, **toy)
    if max_episode_steps is not None:
        env_fns = [lambda env_fn=env_fn: TimeLimit(env_fn(), max_episode_steps) for env_fn in env_fns]
    return make(backend, env_fns, **kwargs)


def assert_same(expected, got, where="it"):
    """Equal values in equal containers, dtypes and shapes included, at any depth."""
    if hasattr(expected, "infos"):
        assert type(expected) is type(got), where
        for field in fields(expected):
            assert_same(getattr(expected, field.name), getattr(got, field.name), f"{where}.{field.name}")
    elif isinstance(expected, dict):
        assert isinstance(got, dict), where
        assert expected.keys() == got.keys(), where
        for key in expected:
            assert_same(expected[key], got[key], f"{where}[{key!r}]")
    elif is_columns(expected) and is_columns(got) and len(expected) > 100:  # the dicts of thousands take minutes
        assert len(expected) == len(got), where
        assert_same(of_columns(expected), of_columns(got), where)
    elif isinstance(expected, (list, tuple)):
        assert isinstance(got, (list, tuple)), where
        assert isinstance(expected, tuple) == isinstance(got, tuple), where
        assert len(expected) == len(got), where
        for i, (left, right) in enumerate(zip(expected, got, strict=True)):
            assert_same(left, right, f"{where}[{i}]")
    elif isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray), where
        assert expected.dtype == got.dtype, where
        # Thousands of small arrays in infos are mostly equal bit for bit, which is quick to see.
        if expected.dtype == object or expected.shape != got.shape or expected.tobytes() != got.tobytes():
            np.testing.assert_array_equal(expected, got, err_msg=where)
    else:
        assert expected == got, where


def is_columns(infos):
    return isinstance(infos, InfoList) and infos.is_untouched


def of_columns(infos):
    """All that infos tell, without a dict."""
    told = {"columns": dict(infos.columns), "done": infos.done, "absent": infos.absent, "extras": dict(infos.extras)}
    if infos.has_final_observations:
        told |= {key: infos.final(key) for key in ("final_observation", "reset_info")}
    return told


def scribble(value):
    """Overwrite every array and dict of a result, as careless user code might."""
    if hasattr(value, "infos"):
        for field in fields(value):
            scribble(getattr(value, field.name))
    elif isinstance(value, dict):
        for item in value.values():
            scribble(item)
        if all(isinstance(key, str) for key in value):
            value["scribbled"] = True
    elif isinstance(value, (list, tuple)):
        for item in value:
            scribble(item)
    elif isinstance(value, np.ndarray):
        value[...] = 1 if value.dtype != object else None
