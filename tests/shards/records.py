"""Records of rollouts, compared bit for bit."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from sekai.rollouts import Rollout
from sekai.rollouts.joining import Joining
from sekai.shards.rolling import ShardedWork


def assert_identical(expected, got, path="record"):
    """The same nesting, dtypes, shapes and bytes."""
    assert type(expected) is type(got), f"{path}: {type(expected)} and {type(got)}"
    if isinstance(expected, Rollout):
        for each in fields(Rollout):
            assert_identical(getattr(expected, each.name), getattr(got, each.name), each.name)
    elif isinstance(expected, dict):
        assert list(expected) == list(got), path
        for key in expected:
            assert_identical(expected[key], got[key], f"{path}[{key!r}]")
    elif isinstance(expected, (tuple, list)):
        assert len(expected) == len(got), path
        for k, (one, other) in enumerate(zip(expected, got, strict=True)):
            assert_identical(one, other, f"{path}[{k}]")
    elif isinstance(expected, np.ndarray):
        assert (expected.dtype, expected.shape) == (got.dtype, got.shape), path
        if expected.dtype == object:
            assert_identical(expected.ravel().tolist(), got.ravel().tolist(), path)
        else:
            assert expected.tobytes() == got.tobytes(), path
    elif expected == expected:  # NaN is NaN
        assert expected == got, path
    else:
        assert got != got, path


def in_shards(make, policy, steps, num_envs, infos=(), backwards=True, **kwargs):
    """The rollout of all rows, put together here of those of shards."""
    sharded = ShardedWork(make, policy, steps, num_envs=num_envs, infos=infos, joined=True, **kwargs)
    joining = Joining(num_envs, infos)
    numbers = range(len(sharded))
    for k in reversed(numbers) if backwards else numbers:
        joining.add(sharded.rows[k], sharded.work.do(sharded.shard(k)))
    return joining.rollout()
