"""The contract of every VecEnv, on shards of Env objects and of native envs in Ray actors."""

import inspect

import pytest
import test_contract
from backends import assert_same, of_worker, scripted
from compat.ray_cluster import UsedAgain, ray_started
from test_contract import Builder, play
from toys import BOX1, NativeToy, T, fns

from sekai import SyncVecEnv
from sekai.compat.ray import RayVecEnv


class Shards(Builder):
    """Builds VecEnvs in Ray actors."""

    snapshot_every = 3

    def error(self, kind):
        return of_worker(kind)

    def spread(self, make, count):
        return self.keep(RayVecEnv(make, count, num_shards=self.backend, snapshot_every=self.snapshot_every))


class ShardsOfRows(Shards):
    def __call__(self, env_fns, *, autoreset_options=None, **kwargs):
        def make(rows):
            options = autoreset_options
            if callable(options):
                options = lambda index: autoreset_options(rows.start + index)  # noqa: E731
            return SyncVecEnv(env_fns[rows.start : rows.stop], autoreset_options=options, **kwargs)

        return self.spread(make, max(1, len(env_fns)))


class ShardsOfToys(Shards):
    snapshot_every = 0  # their state is not in arrays alone

    def __call__(self, *scripts, obs=BOX1, act=None, r0=(0.0,), i0=None, autoreset_options=None, **kwargs):
        def make(rows):
            options = autoreset_options
            if callable(options):
                options = lambda index: autoreset_options(rows.start + index)  # noqa: E731
            own = scripts[rows.start : rows.stop]
            return NativeToy(own, obs, act, r0, i0, autoreset_options=options, **kwargs)

        return self.spread(make, len(scripts))


#: In one shard of all: what it tells counts the sub-envs of the shard.
IN_ONE = {
    "test_a_failed_autoreset_needs_a_reset",
    "test_a_wrong_observation_is_never_broadcast",
    "test_autoreset_options",
    "test_options_for_all_or_one_per_sub_env",
}
#: What is wrong with a shard's arguments is said in its actor.
OTHERWISE = {"test_construction_errors", "test_autoreset_options_of_a_wrong_type"}


def _is_meant(name, test):
    builders = {"toys", "rows"} & inspect.signature(test).parameters.keys()
    return name.startswith("test_") and name not in OTHERWISE and bool(builders)


globals().update(
    (name, test) for name, test in inspect.getmembers(test_contract, inspect.isfunction) if _is_meant(name, test)
)


@pytest.fixture(scope="module")
def actors():
    with ray_started():
        yield UsedAgain()


def shards_of(kind, request, actors, monkeypatch):
    monkeypatch.setattr("sekai.compat.ray.pool.ray", actors)
    count = 1 if request.node.originalname in IN_ONE else request.param
    builder = kind(count)
    yield builder
    builder.close()


@pytest.fixture(params=[2], ids=["two-shards"])
def rows(request, actors, monkeypatch):
    yield from shards_of(ShardsOfRows, request, actors, monkeypatch)


@pytest.fixture(params=[1, 2], ids=["one-shard", "two-shards"])
def toys(request, actors, monkeypatch):
    yield from shards_of(ShardsOfToys, request, actors, monkeypatch)


@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
def test_all_kinds_of_shards_agree_with_one_vec_env(actors, monkeypatch, autoreset):
    monkeypatch.setattr("sekai.compat.ray.pool.ray", actors)
    scripts = [T(1), T(3), [([9.0], 2.5, False, False, {}), ([8.0], -1.0, True, True, {})]]
    expected = play(scripted("sync", *scripts, autoreset=autoreset), 9)
    for build in (ShardsOfRows(2), ShardsOfRows(3)):
        assert_same(expected, play(build(fns(*scripts), autoreset=autoreset), 9))
        build.close()
    for build in (ShardsOfToys(1), ShardsOfToys(3)):
        assert_same(expected, play(build(*scripts, autoreset=autoreset), 9))
        build.close()
