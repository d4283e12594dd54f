"""RayVecEnv: the numbers of one VecEnv, whatever dies on the way."""

import asyncio
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from compat.ray_cluster import NODE, STORE, UsedAgain, ended, ray_started
from masked_envs import Combined, Corridor, CorridorVec
from ray_walk import Fees, N, Walk, walks
from toys import BOX1, NCount, T, Toy, Z, fns
from vector.backends import assert_same

import sekai
from sekai import (
    AsyncCallPending,
    Box,
    Discrete,
    EnvSpec,
    NativeVecEnv,
    ResetResult,
    StepResult,
    SyncVecEnv,
    VecEnvClosed,
    VecEnvWorkerError,
    VecNormalizeObservation,
    VecRecordEpisodeStatistics,
)
from sekai.batching.info_list import InfoList
from sekai.compat.ray import RayVecEnv
from sekai.space_utils import concatenate


@pytest.fixture(scope="module")
def cluster():
    with ray_started() as cluster:
        yield cluster


@pytest.fixture
def vec_env(cluster):
    """Builds RayVecEnvs of actors of their own."""
    made = []

    def build(make=walks, num_envs=N, **kwargs):
        made.append(RayVecEnv(make, num_envs, **{"num_shards": 2, "snapshot_every": 4, **kwargs}))
        return made[-1]

    yield build
    for vec in made:
        vec.close()


@pytest.fixture
def on_used_actors(stock, monkeypatch, vec_env):
    """The same of actors that have been used before, for tests that kill none."""
    monkeypatch.setattr("sekai.compat.ray.pool.ray", stock)
    return vec_env


@pytest.fixture(scope="module")
def stock(cluster):
    return UsedAgain()


def kill(vec, shard):
    """End a shard's process at once."""
    pid = vec.shards[shard].pid
    os.kill(pid, signal.SIGKILL)
    ended(pid)


def everything(vec, hurt=lambda moment: None):
    """All that changes a VecEnv, and what it shows; ``hurt`` is called in between."""
    actions = np.random.default_rng(3).integers(0, 3, (20, N))
    shown = [vec.reset(seed=5)]
    for k in range(20):
        hurt(k)
        if k == 3:
            vec.set_attr("scale", 2.0)
        if k == 6:
            shown.append(vec.reset_envs([4, 1], seed=9, options={"from": 100.0}))
        if k == 9:
            vec.set_attr("scale", [0.5, 0.25], indices=[0, 3])
            shown.append(vec.call("jump", 3.0))
        if k == 12:
            vec.reseed(17)
        if k == 15:
            kept = vec.snapshot()
        if k == 17:
            vec.restore(kept)
        shown.append(vec.step(actions[k]))
    return [*shown, vec.get_attr("scale"), vec.call_at([2], "jump", 1.0)]


@pytest.mark.parametrize(
    ("every", "shards"),
    [(4, 2), pytest.param(1, 1, marks=pytest.mark.slow), pytest.param(100, 3, marks=pytest.mark.slow)],
)
def test_lost_shards_change_no_number(vec_env, every, shards):
    with walks(range(N)) as vec:
        expected = everything(vec)
    vec = vec_env(num_shards=shards, snapshot_every=every, max_restarts=20)
    moments = {0: 0, 4: shards - 1, 10: 0, 13: shards - 1, 18: 0}
    got = everything(vec, lambda k: kill(vec, moments[k]) if k in moments else None)
    assert_same(expected, got)


def test_without_a_loss_the_numbers_are_those_of_one_vec_env(on_used_actors):
    with walks(range(N)) as vec:
        expected = everything(vec)
    for shards in (1, 2, 5):
        with on_used_actors(num_shards=shards) as vec:
            assert_same(expected, everything(vec))


class Gated(Toy):
    """Waits in a step as long as there is a file, and says so by another."""

    gate = ""

    def step(self, action):
        if self.gate:
            Path(self.gate).with_suffix(".begun").touch()
        while self.gate and os.path.exists(self.gate):
            time.sleep(0.01)
        return super().step(action)


def gated(rows):
    return SyncVecEnv(fns(*[T(9)] * len(rows), cls=Gated))


async def begun(gate):
    """Wait until a sub-env waits at its gate; a bound for a hang."""
    for _ in range(3000):
        if gate.with_suffix(".begun").exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no sub-env has begun its step")


@pytest.fixture
def gate(tmp_path):
    path = tmp_path / "gate.closed"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def test_a_process_that_dies_in_the_middle_of_an_async_step(vec_env, gate):
    vec = vec_env(gated, 4)
    vec.reset()
    vec.step(Z(vec))
    vec.set_attr("gate", ["", "", str(gate), ""])

    async def lose():
        pid = vec.shards[1].pid
        task = asyncio.create_task(vec.async_step(np.zeros(4, int)))
        await begun(gate)
        os.kill(pid, signal.SIGKILL)
        gate.unlink()
        result = await task
        assert vec.shards[1].pid != pid
        return result

    assert asyncio.run(lose()).observations.tolist() == [[2.0]] * 4
    assert vec.get_attr("n_step") == [2] * 4  # not twice


def test_streams_without_a_seed_are_the_same_after_a_loss(vec_env):
    vec = vec_env(num_envs=2, snapshot_every=100)
    vec.reset()
    kept = vec.snapshot()
    kill(vec, 0)
    with walks(range(2)) as other:
        other.restore(kept)
        assert_same(other.step([1, 1]), vec.step([1, 1]))
        vec.restore(other.snapshot())
        kill(vec, 1)
        assert_same(other.step([1, 1]), vec.step([1, 1]))


def test_a_vec_env_that_begins_with_a_snapshot(vec_env):
    with walks(range(2)) as other:
        other.reset(seed=1)
        vec = vec_env(num_envs=2)
        vec.restore(other.snapshot())
        kill(vec, 0)
        assert_same(other.step([1, 1]), vec.step([1, 1]))


def test_what_the_caller_changes_after_a_call_is_repeated_as_it_was(vec_env):
    def play(vec, change):
        generator, options, actions, scales = np.random.default_rng(3), {"from": 5.0}, np.ones(2, int), [2.0, 3.0]
        vec.reset(seed=[generator, 4], options=options)
        vec.set_attr("scale", scales)
        vec.step(actions)
        change(generator, options, actions, scales)
        return vec.step([0, 0])

    def change(generator, options, actions, scales):
        generator.random(9)
        options["from"], actions[:], scales[0] = 7.0, 0, 9.0
        kill(vec, 0)

    with walks(range(2)) as local:
        expected = play(local, lambda *given: None)
    vec = vec_env(num_envs=2, num_shards=1, snapshot_every=100)
    vec.reset()  # from where it goes on
    assert_same(expected, play(vec, change))


def test_global_generators_go_on_where_they_were(vec_env):
    runs = []
    for hurt in (lambda vec: None, lambda vec: kill(vec, 1)):
        with vec_env(partial(walks, wild=True), snapshot_every=2) as vec:
            vec.reset(seed=1)
            shown = [vec.step([0] * N) for _ in range(5)]
            hurt(vec)
            runs.append([*shown, vec.step([0] * N)])
    assert_same(*runs)


def test_losses_beyond_max_restarts(vec_env):
    vec = vec_env(max_restarts=1)
    vec.reset(seed=0)
    kill(vec, 1)
    vec.step([0] * N)
    node, pid = vec.shards[1].node, vec.shards[1].pid
    kill(vec, 1)
    for _ in range(2):
        with pytest.raises(VecEnvWorkerError, match="the shard of sub-envs 3 to 4 was lost on node") as caught:
            vec.step([0] * N)
        assert caught.value.rank == 3 and node in str(caught.value) and "max_restarts=1" in str(caught.value)
    vec.close()
    ended(pid)


def test_a_node_that_is_removed(vec_env, cluster):
    nodes = [cluster.add_node(num_cpus=2, resources={"spare": 2}, **NODE) for _ in range(2)]
    with walks(range(N)) as vec:
        expected = everything(vec)
    vec = vec_env(ray_options={"resources": {"spare": 1}})
    gone = []

    def remove(moment):
        if moment == 10:
            lost = vec.shards[0].node_id
            gone.append(next(node for node in nodes if node.node_id == lost))
            cluster.remove_node(gone[0])

    try:
        assert_same(expected, everything(vec, remove))
        assert {shard.node_id for shard in vec.shards} == {node.node_id for node in nodes if node not in gone}
    finally:
        vec.close()
        for node in nodes:
            if node not in gone:
                cluster.remove_node(node)


def wide(rows, width=150_000):
    return SyncVecEnv([partial(Wide, width)] * len(rows))


class Wide(Walk):
    """A walk that shows a megabyte, which is part of its state."""

    action_space = Box(-1, 1, (2,), np.float64)

    def __init__(self, width):
        super().__init__(length=6)
        self.observation_space = Box(-np.inf, np.inf, (width,), np.float64)
        self.seen = np.zeros(width)

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.seen = self.rng.random(len(self.seen))
        return ResetResult(self.seen, result.info)

    def step(self, action):
        result = super().step(float(action.sum()))
        self.seen = self.seen + self.at
        return StepResult(self.seen, result.reward, result.terminated, result.truncated, result.info)


def test_an_object_store_that_is_full(vec_env):
    import ray

    held = [ray.put(np.full(2**20, k, np.float64)) for k in range(1 + STORE // 2**23)]  # so that all of it is in use
    actions = np.random.default_rng(3).uniform(-1, 1, (9, 4, 2))
    vec = vec_env(wide, 4, snapshot_every=2)
    pids = [shard.pid for shard in vec.shards]
    with wide(range(4)) as local:
        assert_same(local.reset(seed=5), vec.reset(seed=5))
        for k, action in enumerate(actions):
            if k == 6:
                kill(vec, 1)
            assert_same(local.step(action), vec.step(action))
        pids += [shard.pid for shard in vec.shards]
        local.restore(vec.snapshot())
        assert_same(local.step(actions[0]), vec.step(actions[0]))
    assert [ray.get(each)[-1] for each in held] == list(range(len(held)))
    vec.close()
    for pid in pids:
        ended(pid)


class Crash(Toy):
    """Takes its process with it."""

    def step(self, action):
        if self.k == 1:
            os._exit(3)
        return super().step(action)


def test_a_market_that_ends_its_process_is_not_tried_for_ever(vec_env):
    vec = vec_env(lambda rows: SyncVecEnv(fns(T(9), cls=Crash)), 1, max_restarts=2)
    vec.reset()
    vec.step([0])
    with pytest.raises(VecEnvWorkerError, match="the shard of sub-env 0 was lost on node .*, 3 times in all"):
        vec.step([0])


class Picky(Toy):
    def step(self, action):
        result = super().step(action)
        if action == 1:
            raise ZeroDivisionError("no price")
        return result


def test_an_exception_of_the_market_is_raised_at_once_and_repeated_with_the_rest(vec_env):
    vec = vec_env(lambda rows: SyncVecEnv(fns(*[T(9)] * len(rows), cls=Picky)), 4)
    vec.reset()
    pids = [shard.pid for shard in vec.shards]
    with pytest.raises(VecEnvWorkerError, match=r"no price \(in the shard of sub-envs 2 to 3") as caught:
        vec.step([0, 0, 0, 1])
    assert caught.value.exc_type == "ZeroDivisionError" and caught.value.rank == 2
    assert 'raise ZeroDivisionError("no price")' in caught.value.remote_traceback
    assert [shard.pid for shard in vec.shards] == pids
    kill(vec, 1)
    assert vec.get_attr("n_step") == [1] * 4
    assert vec.step([0] * 4).observations.tolist() == [[2.0]] * 4


def test_a_corrupt_snapshot_changes_nothing(on_used_actors):
    vec = on_used_actors()
    vec.reset(seed=0)
    kept = vec.snapshot()
    column = kept.columns["env"].copy()
    column[4] = b"no pickle"
    spaces = kept.observation_space, kept.action_space
    broken = sekai.Snapshot(kept.market, spaces, kept.kept._replace(columns={**kept.columns, "env": column}))
    with pytest.raises(ValueError, match="restore.snapshot., sub-env 1: expected what snapshot.. gave"):
        vec.restore(broken)
    with pytest.raises(ValueError, match="expected one of"):
        vec.restore(kept[:2])
    assert vec.snapshot() == kept


class Held(Toy):
    """Cannot be kept."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lock = threading.Lock()


def test_a_market_that_cannot_be_kept_says_so_and_has_no_recovery(vec_env):
    make = lambda rows: SyncVecEnv(fns(*[T(9)] * len(rows), cls=Held))  # noqa: E731
    with pytest.warns(RuntimeWarning, match=r"cannot be kept in a snapshot.*snapshot\(\): Held.lock"):
        vec_env(make, 2)
    vec = vec_env(make, 2, snapshot_every=0)
    vec.reset()
    assert vec.step([0, 0]).observations.tolist() == [[1.0]] * 2
    kill(vec, 0)
    with pytest.raises(VecEnvWorkerError, match="the shard of sub-env 0 was lost on node .* without snapshots"):
        vec.step([0, 0])


class LateHeld(Toy):
    def reset(self, *, seed=None, options=None):
        self.lock = threading.Lock()
        return super().reset(seed=seed, options=options)


def test_what_only_a_reset_makes_is_said_at_the_first_reset(on_used_actors):
    vec = on_used_actors(lambda rows: SyncVecEnv(fns(*[T(9)] * len(rows), cls=LateHeld)), 2)
    with pytest.warns(RuntimeWarning, match="LateHeld.lock"):
        vec.reset()
    assert vec.step([0, 0]).observations.tolist() == [[1.0]] * 2


# -- time ----------------------------------------------------------------------------------------------------


def test_a_call_that_takes_too_long_names_the_slow_ones(vec_env, gate):
    vec = vec_env(gated, 4, step_timeout=3.0, close_timeout=0.1)
    vec.reset()
    vec.set_attr("gate", ["", "", "", str(gate)])
    with pytest.raises(VecEnvWorkerError, match="the shard of sub-envs 2 to 3 took longer than 3.0 s") as caught:
        vec.step([0] * 4)
    assert caught.value.exc_type == "TimeoutError" and caught.value.rank == 2
    gate.unlink()
    assert vec.step([0] * 4).observations.tolist() == [[2.0]] * 4  # the one that took too long is through


def test_calls_do_not_overlap_and_closing_ends_a_pending_one(vec_env, gate):
    vec = vec_env(gated, 2, close_timeout=0.1)
    vec.reset()
    vec.set_attr("gate", str(gate))
    pids = [shard.pid for shard in vec.shards]

    async def main():
        task = asyncio.create_task(vec.async_step([0, 0]))
        await begun(gate)
        with pytest.raises(AsyncCallPending, match=r"RayVecEnv.step\(\): an earlier step\(\) is still running"):
            vec.step([0, 0])
        vec.close()
        with pytest.raises(VecEnvClosed, match="closed while a call was going on"):
            await task

    asyncio.run(main())
    for pid in pids:
        ended(pid)


def test_closing_ends_a_call_of_another_thread(vec_env, gate):
    vec = vec_env(gated, 2, close_timeout=0.1)
    vec.reset()
    vec.set_attr("gate", str(gate))
    raised = []

    def step():
        try:
            vec.step([0, 0])
        except VecEnvClosed as error:
            raised.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    asyncio.run(begun(gate))
    vec.close()
    thread.join(60)
    assert len(raised) == 1


def test_a_cancelled_call_leaves_nothing_stale(on_used_actors, gate):
    vec = on_used_actors(gated, 2)
    vec.reset()
    vec.set_attr("gate", str(gate))

    async def main():
        task = asyncio.create_task(vec.async_step([0, 0]))
        await begun(gate)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gate.unlink()
    assert vec.step([0, 0]).observations.tolist() == [[2.0]] * 2


def test_no_process_is_left(vec_env):
    vec = vec_env()
    vec.reset()
    pids = [shard.pid for shard in vec.shards]
    vec.close()
    vec.close()
    for pid in pids:
        ended(pid)
    dropped = RayVecEnv(walks, 2, num_shards=1)
    (shard,) = dropped.shards
    del dropped
    ended(shard.pid)


class Grumpy(Toy):
    def close(self):
        raise OSError("stuck")


def test_a_shard_that_cannot_be_closed(vec_env):
    vec = vec_env(lambda rows: SyncVecEnv(fns(T(1), cls=Grumpy)), 2)
    pids = [shard.pid for shard in vec.shards]
    with pytest.raises(VecEnvWorkerError, match="stuck"):
        vec.close()
    for pid in pids:
        ended(pid)


# -- the rest ------------------------------------------------------------------------------------------------


class Lucky(NativeVecEnv):
    """Draws from the generator that all sub-envs share."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, BOX1, Discrete(2), **kwargs)
        self.at = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.at[indices] = self.rng.random(len(indices))

    def _observe(self):
        return self.at[:, None]

    def _step(self, actions):
        self.at += self.rng.random(self.num_envs)
        ends = self.at > 3
        return self.at, ends, np.zeros_like(ends), {"twice": 2 * self.at}


def lucky(rows):
    return Lucky(len(rows), max_episode_steps=9)


def test_a_generator_that_a_shard_shares_comes_back_with_it(vec_env):
    runs = []
    for hurt in (lambda vec: None, lambda vec: kill(vec, 0)):
        with vec_env(lucky) as vec:
            vec.reset(seed=2)
            runs.append([vec.step([0] * N) for _ in range(6)])
            kept = vec.snapshot()
            hurt(vec)
            runs[-1] += [vec.step([0] * N) for _ in range(6)]
            vec.restore(kept)
            assert_same(runs[-1][6:], [vec.step([0] * N) for _ in range(6)])
    assert_same(*runs)
    assert not np.array_equal(runs[0][0].observations[:2], runs[0][0].observations[3:])
    with pytest.raises(ValueError, match="rng: expected one generator, got those of 2 parts"):
        lucky(range(N)).restore(kept)
    single = lucky(range(N))
    single.reset()
    with vec_env(lucky) as vec:
        with pytest.raises(ValueError, match="rng: expected a generator for each of 2 parts, got one"):
            vec.restore(single.snapshot())


def test_a_call_for_some_rows_of_a_native_market_is_one_for_all(on_used_actors):
    shown = []
    for vec in (Fees(N), on_used_actors(lambda rows: Fees(len(rows)))):
        vec.reset()
        told = vec.call_at([1], "charge", 0.5)
        shown.append([told, vec.step([0] * N), vec.get_attr("fee")])
    assert_same(*shown)


def counts(rows):
    return NCount([3 + row for row in rows])


def test_a_generator_that_nobody_has_drawn_from(on_used_actors):
    with counts(range(N)) as native:
        vec = on_used_actors(counts)
        for each in (native, vec):
            each.reset(seed=1)
        native.restore(vec.snapshot())
        vec.restore(native.snapshot())
        assert_same(native.step([0] * N), vec.step([0] * N))
    draws = [generator.random() for generator in vec.get_attr("rng", indices=[0, N - 1])]
    assert draws[0] != draws[1]  # of two shards


def test_a_native_market_with_parameters_of_each_sub_env(vec_env):
    volatilities = [1.0, 2.0, 3.0, 4.0, 5.0]

    def play(vec, hurt):
        actions = vec.batch_action_space
        actions.seed(1)
        shown = [vec.reset(seed=3)]
        for step in range(12):
            if step == 2:
                vec.set_attr("arrival_rate", 120.0)
            if step == 9:
                hurt()
            shown.append(vec.step(actions.sample()))
        shown.append(vec.get_attr("volatility"))
        return shown, vec.snapshot()

    with sekai.make_vec("MarketMaking-v0", N, volatility=volatilities) as native:
        expected, kept = play(native, lambda: None)
        vec = vec_env("MarketMaking-v0", kwargs={"volatility": volatilities}, num_shards=2)
        got, same = play(vec, lambda: kill(vec, 1))
        assert_same(expected, got)
        assert same == kept
        native.restore(same[::-1])
        vec.restore(kept[::-1])
        action = native.batch_action_space.sample()
        assert_same(native.step(action), vec.step(action))
        assert isinstance(vec.step(action).infos, InfoList)


def test_wrappers_and_rollouts(on_used_actors):
    def wrapped(vec):
        return VecNormalizeObservation(VecRecordEpisodeStatistics(vec))

    def policy(observations):
        return (observations[:, 0] > 0).astype(int)

    shown = []
    for vec in (wrapped(walks(range(N))), wrapped(on_used_actors())):
        with vec:
            record = sekai.rollout(vec, policy, 30, seed=4, infos=["at"])
            shown.append([record.observations, record.rewards, record.infos, vec.obs_rms.mean])
    assert_same(*shown)


@pytest.mark.parametrize("points", [{"entry_point": Walk}, {"vector_entry_point": Lucky}], ids=["entry", "vector"])
def test_make_vec_with_shards(on_used_actors, points):
    spec = EnvSpec("Walk-v0", max_episode_steps=5, **points)
    ours = {"num_shards": 2, "snapshot_every": 3}
    vec = sekai.make_vec(spec, 4, vectorization_mode="ray", vector_kwargs={**ours, "autoreset": False})
    with vec, sekai.make_vec(spec, 4, vector_kwargs={"autoreset": False}) as expected:
        assert isinstance(vec, RayVecEnv) and vec.spec.id == "Walk-v0"
        assert not vec.autoreset and len(vec.shards) == 2
        results = []
        for each in (vec, expected):
            each.reset(seed=3)
            results.append([each.step([1, 0, 1, 0]) for _ in range(6)][-1])
        assert results[0].truncated.any() and results[0].dones.all() and vec.frozen.all()
        if "entry_point" in points:
            assert_same(*results)


def corridors(cls, rows):
    return SyncVecEnv([cls for _ in rows])


def mixed(rows):
    """Masks in the first shard alone."""
    return SyncVecEnv([partial(Perhaps, rows.start == 0) for _ in rows])


class Perhaps(Corridor):
    def __init__(self, is_masked):
        super().__init__()
        self.is_masked = is_masked

    @property
    def has_action_mask(self):
        return self.is_masked

    def action_mask(self):
        return [True, True, False] if self.is_masked else None


@pytest.mark.parametrize(
    "make",
    [
        partial(corridors, Corridor),
        partial(corridors, Combined),
        lambda rows: CorridorVec(len(rows)),
        lambda rows: sekai.make_vec("MarketMaking-v0", len(rows), max_inventory=1),
    ],
    ids=["flat", "nested", "native", "quotes"],
)
def test_action_masks_of_all_shards(on_used_actors, make):
    vec = on_used_actors(make)
    assert vec.has_action_mask
    with pytest.raises(sekai.ResetRequired, match=r"action_mask\(\)"):
        vec.action_mask()
    with make(range(N)) as expected:
        for each in (vec, expected):
            each.reset(seed=2)
        for _ in range(5):
            masks = expected.action_mask()
            assert_same(masks, vec.action_mask())
            actions = [expected.action_space.sample(mask) for mask in expected.call("action_mask")]
            actions = concatenate(expected.action_space, actions)
            assert_same(expected.step(actions), vec.step(actions))


def test_action_masks_of_some_shards(on_used_actors):
    vec = on_used_actors(mixed)
    vec.reset(seed=2)
    assert vec.has_action_mask
    assert vec.action_mask().tolist() == [[1, 1, 0]] * 3 + [[1, 1, 1]] * 2
    vec.action_mask()[:] = 0  # the caller's own
    assert vec.action_mask().any()


def test_there_may_be_no_masks_and_faulty_ones_are_named(on_used_actors):
    assert on_used_actors().action_mask() is None and not on_used_actors().has_action_mask
    vec = on_used_actors(partial(corridors, Faulty))
    vec.reset()
    with pytest.raises(VecEnvWorkerError, match=r"action_mask\(\): sub-env 0: expected .*shape \(3,\)"):
        vec.action_mask()
    vec.close()
    with pytest.raises(VecEnvClosed, match=r"action_mask\(\)"):
        vec.action_mask()


class Faulty(Corridor):
    def action_mask(self):
        return [True]


def test_autoreset_options_are_told_the_number_in_the_whole(on_used_actors):
    vec = sekai.make_vec(
        EnvSpec("Toy-v0", entry_point=partial(Toy, T(1))),
        4,
        vectorization_mode="ray",
        vector_kwargs={"num_shards": 2, "autoreset_options": lambda index: {"index": index}},
    )
    with vec:
        vec.reset()
        vec.step([0] * 4)
        assert vec.get_attr("last_options") == [{"index": index} for index in range(4)]


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"num_shards": 0}, ValueError, "num_shards: expected"),
        ({"snapshot_every": -1}, ValueError, "snapshot_every: expected"),
        ({"max_restarts": 1.5}, TypeError, "max_restarts: expected an integer"),
        ({"ray_options": {"lifetime": "detached"}}, ValueError, "ray_options: expected none of what RayVecEnv itself"),
        ({"make": SyncVecEnv}, TypeError, r"RayVecEnv\(make\): expected an id, or a callable"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments(vec_env, kwargs, error, message):
    with pytest.raises(error, match=message):
        vec_env(**kwargs)


def test_shards_have_the_same_spaces(on_used_actors):
    def make(rows):
        return SyncVecEnv(fns(T(1), obs=Box(-1, 1, (1 + rows.start,))))

    with pytest.raises(sekai.SpaceMismatch, match="the shard of sub-env 1: expected the observation_space of that of"):
        on_used_actors(make, 2)


def test_what_cannot_be_sent_is_refused_before_any_shard_hears_of_it(on_used_actors):
    vec = on_used_actors()
    vec.reset(seed=0)
    kept = vec.snapshot()
    options = [None] * (N - 1) + [{"lock": threading.Lock()}]
    with pytest.raises(TypeError, match="RayVecEnv, reset: an argument cannot be pickled"):
        vec.reset(options=options)
    vec.reset(seed=0)
    assert_same(vec.step([0] * N), (vec.restore(kept), vec.step([0] * N))[1])


def test_it_is_not_copied(on_used_actors):
    import copy

    with pytest.raises(TypeError, match="a RayVecEnv has actors and cannot be pickled or copied"):
        copy.copy(on_used_actors())
