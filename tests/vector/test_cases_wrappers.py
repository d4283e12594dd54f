"""Cases 7.x and 8.x: statistics and normalisers around a VecEnv, and the async methods that follow the sync ones."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from backends import assert_same, both_modes, everywhere, here, make, on_rows, scripted
from toys import BOX1, INF, NCount, T, Toy, Z, fns

from sekai import (
    AutoReset,
    Box,
    Dict,
    Discrete,
    InMemoryTracker,
    MaskedBox,
    NormalizeReward,
    SyncVecEnv,
    TransformReward,
    Tuple,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecTransformObservation,
    VecTransformReward,
    VecWrapper,
)


def episodes_of(v):
    return list(v.tracker.episodes)


def by_env(v):
    found = {}
    for stats in episodes_of(v):
        found.setdefault(stats.extra["env_index"], []).append((stats.episode_return, stats.episode_length))
    return found


# -- 7.2 ---------------------------------------------------------------------------------------------------


class Rising(Toy):
    """Episodes of one step with reward 1, 10, 100, ..."""

    def step(self, action):
        return type(super().step(action))([1.0], 10.0 ** (self.n_reset - 1), True, False, {})


class NativeRising(NCount):
    episodes = 0

    def _step(self, actions):
        _, terminated, truncated, infos = super()._step(actions)
        self.episodes += 1
        return np.full(self.num_envs, 10.0 ** (self.episodes - 1)), terminated, truncated, infos


@everywhere
def test_7_2_every_accumulator_is_cleared(backend):
    inner = NativeRising([1, 1]) if backend == "native" else make(backend, fns(T(1), T(1), cls=Rising))
    with VecRecordEpisodeStatistics(inner) as v:
        v.reset()
        infos = [v.step(Z(v)).infos for _ in range(3)]
        assert [info[0]["episode"].episode_return for info in infos] == [1.0, 10.0, 100.0]
        assert [info[1]["episode"].episode_length for info in infos] == [1, 1, 1]
        first, second, third = (info[0]["episode"] for info in infos)
        assert first.end_time == second.start_time
        assert second.end_time == third.start_time
        for stats in (first, second, third):
            assert stats.elapsed_time == stats.end_time - stats.start_time >= 0
            assert stats.terminated
            assert not stats.truncated


@everywhere
@both_modes
def test_7_2_a_reset_in_mid_episode_clears_all_and_records_nothing(backend, autoreset):
    with VecRecordEpisodeStatistics(scripted(backend, T(3), T(5), autoreset=autoreset)) as v:
        v.reset()
        v.step(Z(v))
        v.step(Z(v))
        v.reset()
        assert episodes_of(v) == []
        for _ in range(3):
            r = v.step(Z(v))
        assert by_env(v) == {0: [(3.0, 3)]}
        assert "episode" not in r.infos[1]
        v.reset()
        for _ in range(5):
            v.step(Z(v))
        assert by_env(v)[1] == [(5.0, 5)]


@everywhere
def test_7_2_a_reset_that_fails_keeps_the_count(backend):
    with VecRecordEpisodeStatistics(scripted(backend, T(2), T(9))) as v:
        v.reset()
        v.step(Z(v))
        with pytest.raises(ValueError, match="seed"):
            v.reset(seed=-1)
        v.step(Z(v))
        assert by_env(v) == {0: [(2.0, 2)]}


# -- 7.3 ---------------------------------------------------------------------------------------------------


@everywhere
def test_7_3_each_episode_is_recorded_once_without_autoreset(backend):
    with VecRecordEpisodeStatistics(scripted(backend, T(1), T(4), autoreset=False)) as v:
        v.reset()
        finished, results = np.zeros(2, bool), []
        while not finished.all():
            results.append(v.step(Z(v)))
            finished |= results[-1].dones
        results += [v.step(Z(v)), v.step(Z(v))]
        assert by_env(v) == {0: [(1.0, 1)], 1: [(4.0, 4)]}
        recorded = [["episode" in info for info in r.infos] for r in results]
        assert recorded == [[True, False], [False] * 2, [False] * 2, [False, True], [False] * 2, [False] * 2]


@everywhere
def test_7_3_again_after_a_reset_and_frozen_for_long(backend):
    with VecRecordEpisodeStatistics(scripted(backend, T(2), T(300), autoreset=False)) as v:
        for _ in range(2):
            v.reset()
            for _ in range(301):
                v.step(Z(v))
        assert by_env(v) == {0: [(2.0, 2)] * 2, 1: [(300.0, 300)] * 2}


@on_rows
@both_modes
def test_7_3_sub_envs_that_reset_themselves(backend, autoreset):
    inner = make(backend, [lambda: AutoReset(Toy(T(2))), lambda: Toy(T(3))], autoreset=autoreset)
    with VecRecordEpisodeStatistics(inner) as v:
        v.reset()
        for _ in range(6):
            v.step(Z(v))
        assert by_env(v) == {0: [(2.0, 2)] * 3, 1: [(3.0, 3)] * (2 if autoreset else 1)}


@everywhere
@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)], ids=str)
def test_7_3_the_flags_and_the_tracker(backend, flags):
    class Tracker(InMemoryTracker):
        pass

    tracker = Tracker(max_episodes=2)
    script = [([1.0], 0.5, False, False, {}), ([2.0], 0.25, *flags, {})]
    with VecRecordEpisodeStatistics(scripted(backend, script, script), tracker) as v:
        v.reset()
        for _ in range(4):
            r = v.step(Z(v))
        assert v.tracker is tracker
        assert len(tracker.episodes) == 2
        stats = r.infos[1]["episode"]
        assert (stats.episode_return, stats.terminated, stats.truncated) == (0.75, *flags)
        assert tracker.summary()["mean_length"] == 2.0


# -- 8.1 ---------------------------------------------------------------------------------------------------


def known(v, mean, var, count=100.0):
    v.load_state_dict(
        {"kind": "running", "stats": {**v.state_dict()["stats"], "mean": mean, "var": var, "count": count}}
    )


@everywhere
def test_8_1_the_terminal_observation_is_normalised(backend):
    script = [([6.0], 0.0, True, False, {})]
    with VecNormalizeObservation(scripted(backend, script, script, r0=(2.0,)), epsilon=0.0) as v:
        known(v, [2.0], [4.0])
        v.update_running_mean = False
        assert v.reset().observations.tolist() == [[0.0], [0.0]]
        r = v.step(Z(v))
        assert [info["final_observation"].tolist() for info in r.infos] == [[2.0], [2.0]]
        assert r.observations.tolist() == [[0.0], [0.0]]
        assert v.obs_rms.count == 100.0


@everywhere
@both_modes
@pytest.mark.parametrize("kind", ["running", "ewm"])
def test_8_1_the_count_grows_by_the_sub_envs_that_were_stepped(backend, autoreset, kind):
    with VecNormalizeObservation(scripted(backend, T(2), T(4), autoreset=autoreset), stats=kind) as v:
        start = v.obs_rms.count
        v.reset()
        counts = []
        for _ in range(300):
            v.step(Z(v))
            counts.append(v.obs_rms.count - start)
        if autoreset:
            assert counts == pytest.approx([2 + 2 * k for k in range(1, 301)])
        else:
            assert counts == pytest.approx([4, 6, 7, 8] + [8] * 296)
        v.reset()
        assert v.obs_rms.count - start == pytest.approx(counts[-1] + 2)


@everywhere
def test_8_1_a_frozen_sub_env_goes_on_showing_what_it_showed(backend):
    drift = [([100.0 * k], 0.0, False, False, {}) for k in range(1, 60)]
    with VecNormalizeObservation(scripted(backend, T(1), drift, autoreset=False)) as v:
        v.reset()
        end = v.step(Z(v)).observations[0].tolist()
        for _ in range(50):
            assert v.step(Z(v)).observations[0].tolist() == end


MIXED = Dict({"box": BOX1, "set": MaskedBox(-INF, INF, (), max_size=2, dtype=np.float64), "n": Tuple((Discrete(9),))})


def mixed(x, mask, n):
    return {"box": [x], "set": {"values": np.array([x, x]) * mask, "mask": np.array(mask)}, "n": (n,)}


@everywhere
def test_8_1_any_space(backend):
    script = [(mixed(6.0, [1, 0], 3), 0.0, True, False, {})]
    with VecNormalizeObservation(scripted(backend, script, obs=MIXED, r0=mixed(2.0, [0, 1], 4)), epsilon=0.0) as v:
        state = v.state_dict()
        state["stats"]["box"].update(mean=[2.0], var=[4.0])
        state["stats"]["set"].update(mean=2.0, var=4.0)
        v.load_state_dict(state)
        v.update_running_mean = False
        v.reset()
        r = v.step(Z(v))
        final = r.infos[0]["final_observation"]
        assert final["box"].tolist() == [2.0]
        assert final["set"]["values"].tolist() == [2.0, 0.0]
        assert final["set"]["mask"].tolist() == [1, 0]
        assert final["n"] == (3,)
        assert r.observations["set"]["values"].tolist() == [[0.0, 0.0]]
        assert v.observation_space.contains(final)
        assert v.batch_observation_space.contains(r.observations)


@everywhere
def test_8_1_wrappers_around_wrappers_transform_the_terminal_observation_in_order(backend):
    script = [([6.0], 0.0, True, False, {})]
    inner = VecTransformObservation(scripted(backend, script, r0=(2.0,)), lambda obs: obs + 1)
    with VecTransformObservation(VecTransformObservation(inner, lambda obs: obs * 10), lambda obs: obs - 3) as v:
        assert v.reset().observations.tolist() == [[27.0]]
        r = v.step(Z(v))
        assert r.infos[0]["final_observation"].tolist() == [67.0]
        assert r.observations.tolist() == [[27.0]]


class Rewrites(VecWrapper):
    """Changes terminal observations the plain way, in the dicts."""

    def step(self, actions):
        result = self.venv.step(actions)
        for info in result.infos:
            if "final_observation" in info:
                info["final_observation"] = info["final_observation"] + 100.0
        return result


@everywhere
def test_8_1_what_a_wrapper_wrote_into_an_info_is_what_the_next_one_transforms(backend):
    script = [([6.0], 0.0, True, False, {})]
    with VecTransformObservation(Rewrites(scripted(backend, script)), lambda obs: obs * 2) as v:
        v.reset()
        r = v.step(Z(v))
        assert r.infos[0]["final_observation"].tolist() == [212.0]


@everywhere
def test_8_1_a_transform_may_change_the_space(backend):
    space = Box(-INF, INF, (2,), np.float64)
    script = [([6.0], 0.0, True, False, {})]
    for autoreset in (True, False):
        inner = scripted(backend, script, T(5), autoreset=autoreset)
        with VecTransformObservation(inner, lambda obs: np.repeat(obs, 2, axis=1), space) as v:
            v.reset()
            for _ in range(3):
                r = v.step(Z(v))
                assert v.batch_observation_space.contains(r.observations)
                if autoreset:
                    assert r.infos[0]["final_observation"].tolist() == [6.0, 6.0]
                else:
                    assert r.observations[0].tolist() == [6.0, 6.0]


@everywhere
def test_8_1_a_transform_may_return_an_array_that_cannot_be_written(backend):
    ones = np.broadcast_to(np.ones(1), (2, 1))
    with VecTransformObservation(scripted(backend, T(1), T(5), autoreset=False), lambda obs: ones[: len(obs)]) as v:
        v.reset()
        for _ in range(4):
            assert v.step(Z(v)).observations.tolist() == [[1.0], [1.0]]


@everywhere
def test_8_1_a_transform_that_returns_its_own_array_finds_it_as_it_was(backend):
    table = np.array([[10.0], [20.0]])
    seen = []

    def look_up(obs):
        seen.append(table.tolist())
        table[:] += 1
        return table

    with VecTransformObservation(scripted(backend, T(1), T(9), autoreset=False), look_up) as v:
        v.reset()
        for _ in range(4):
            v.step(Z(v))
    assert seen == [[[10.0 + k], [20.0 + k]] for k in range(5)]


@everywhere
def test_8_1_an_observation_that_fails_once_leaves_nothing_behind(backend):
    class Fails(VecNormalizeObservation):
        fail = False

        def observation(self, obs):
            if self.fail:
                raise ZeroDivisionError
            return super().observation(obs)

    with Fails(scripted(backend, T(1), T(9), autoreset=False)) as v:
        v.reset()
        v.step(Z(v))
        v.fail = True
        with pytest.raises(ZeroDivisionError):
            v.step(Z(v))
        v.fail = False
        before = v.obs_rms.count
        v.reset()
        assert v.obs_rms.count == before + 2


@here
def test_8_1_a_transform_that_fails_as_an_episode_ends_shows_nothing_of_an_earlier_one(backend):
    fail = []

    def once(obs):
        if fail:
            raise fail.pop()
        return obs * 10

    first, second = [([1.0], 0.0, True, False, {})], T(9)
    with VecTransformObservation(scripted(backend, first, second, autoreset=False), once) as v:
        v.reset()
        v.step(Z(v))
        assert v.step(Z(v)).observations.tolist() == [[10.0], [20.0]]
        first[0] = ([5.0], 0.0, True, False, {})  # the script of the next episode
        v.reset()
        fail.append(ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            v.step(Z(v))
        assert v.step(Z(v)).observations.tolist() == [[50.0], [20.0]]
        assert v.step(Z(v)).observations.tolist() == [[50.0], [30.0]]


@here
def test_8_1_a_reset_past_the_wrapper_releases_its_frozen_rows(backend):
    first = T(1)
    with VecTransformObservation(scripted(backend, first, T(9), autoreset=False), lambda obs: obs * 10) as v:
        v.reset()
        v.step(Z(v))
        v.step(Z(v))
        v.unwrapped.reset()
        first[:] = T(5)  # the script of the next episode
        assert [v.step(Z(v)).observations.tolist() for _ in range(2)] == [[[10.0], [10.0]], [[20.0], [20.0]]]


# -- 8.4 ---------------------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("kind", ["running", "ewm"])
def test_8_4_the_variance_survives_a_large_mean(backend, kind):
    space = Box(-INF, INF, (1,), np.float32)
    scripts = [[([1e6 + i], 0.0, False, False, {})] * 60 for i in range(3)]
    envs = [scripted(backend, *scripts, obs=space, r0=[1e6 + 1])] if backend == "native" else []
    if not envs:
        env_fns = [lambda i=i: Toy(scripts[i], obs=space, r0=[1e6 + i]) for i in range(3)]
        envs = [make(backend, env_fns)]
    with VecNormalizeObservation(envs[0], stats=kind) as v:
        v.reset()
        for _ in range(50):
            r = v.step(Z(v))
        np.testing.assert_allclose(r.observations[:, 0], [-1.2247, 0.0, 1.2247], atol=0.02)
        assert v.obs_rms.mean.dtype == v.obs_rms.var.dtype == np.float64
        assert v.obs_rms.mean[0] == pytest.approx(1e6 + 1, abs=1e-6)


@everywhere
@pytest.mark.parametrize("kind", ["running", "ewm"])
def test_8_4_of_one_sub_env_whose_observations_come_one_after_another(backend, kind):
    space = Box(-INF, INF, (1,), np.float32)
    script = [([1e6 + k % 3], 0.0, False, False, {}) for k in range(303)]
    with VecNormalizeObservation(scripted(backend, script, obs=space, r0=[1e6 + 2]), stats=kind) as v:
        v.reset()
        seen = [v.step(Z(v)).observations[0, 0] for _ in range(303)]
        np.testing.assert_allclose(seen[-3:], [-1.2247, 0.0, 1.2247], atol=0.02)


@everywhere
def test_8_4_of_rewards(backend):
    scripts = [[([0.0], 1e9 + i, True, False, {})] for i in range(3)]
    with VecNormalizeReward(scripted(backend, *scripts), gamma=0.0, epsilon=0.0) as v:
        v.reset()
        for _ in range(1000):
            r = v.step(Z(v))
        assert np.diff(r.rewards) == pytest.approx([1.2247, 1.2247], abs=0.01)


# -- 8.7 ---------------------------------------------------------------------------------------------------

TRUNCATED = [([1.0], 1.0, False, False, {}), ([2.0], 1.0, False, True, {})]


@everywhere
def test_8_7_the_return_starts_again_with_every_episode(backend):
    seen = []
    with VecNormalizeReward(scripted(backend, TRUNCATED, T(5)), gamma=1.0) as v:
        record_updates(v, seen)
        v.reset()
        for _ in range(4):
            v.step(Z(v))
        assert [each[0] for each in seen] == [1.0, 2.0, 1.0, 2.0]
        assert [each[1] for each in seen] == [1.0, 2.0, 3.0, 4.0]
        count = v.return_rms.count
        v.reset()
        assert v.returns.tolist() == [0.0, 0.0]
        assert v.return_rms.count == count
        v.step(Z(v))
        assert seen[-1].tolist() == [1.0, 1.0]


def record_updates(v, seen):
    update = v.return_rms.update
    v.return_rms.update = lambda batch: (seen.append(np.array(batch)), update(batch))


@everywhere
def test_8_7_frozen_sub_envs_do_not_count(backend):
    seen = []
    with VecNormalizeReward(scripted(backend, TRUNCATED, T(5), autoreset=False), gamma=0.5) as v:
        record_updates(v, seen)
        for _ in range(2):
            v.reset()
            start = v.return_rms.count
            for k in range(1, 301):
                r = v.step(Z(v))
                if k > 2:
                    assert r.rewards[0] == 0.0
                if k > 5:
                    assert r.rewards[1] == 0.0
            assert v.return_rms.count == pytest.approx(start + 2 + 5)
    assert [each.tolist() for each in seen if len(each)][:5] == [[1.0, 1.0], [1.5, 1.5], [1.75], [1.875], [1.9375]]


@everywhere
def test_8_7_the_return_goes_on_while_the_statistics_are_frozen(backend):
    seen = []
    with VecNormalizeReward(scripted(backend, T(9)), gamma=1.0) as v:
        record_updates(v, seen)
        v.reset()
        v.step(Z(v))
        v.update_running_mean = False
        v.step(Z(v))
        assert v.return_rms.count == pytest.approx(1.0, abs=1e-3)
        v.update_running_mean = True
        v.step(Z(v))
        assert [each.tolist() for each in seen] == [[1.0], [3.0]]


def test_8_7_vector_and_single_give_the_same():
    rewards = [([0.0], float(k * k), k == 5, False, {}) for k in range(1, 6)]
    single = SyncVecEnv([lambda: NormalizeReward(Toy(rewards))])
    with single, VecNormalizeReward(SyncVecEnv(fns(rewards))) as vector:
        for v in (single, vector):
            v.reset()
        for _ in range(12):
            assert vector.step([0]).rewards == pytest.approx(single.step([0]).rewards, rel=1e-12)


# -- 8.10 --------------------------------------------------------------------------------------------------

NORMALIZERS = {
    "observation": (VecNormalizeObservation, lambda v: v.obs_rms),
    "ewm": (lambda v: VecNormalizeObservation(v, stats="ewm", halflife=10.0), lambda v: v.obs_rms),
    "reward": (VecNormalizeReward, lambda v: v.return_rms),
}


@everywhere
@pytest.mark.parametrize("wrap, stats_of", NORMALIZERS.values(), ids=NORMALIZERS)
def test_8_10_a_state_is_plain_data_of_its_own(backend, wrap, stats_of):
    with wrap(scripted(backend, T(3), T(5))) as w, wrap(scripted(backend, *[T(4)] * 5)) as other:
        w.reset()
        for _ in range(5):
            w.step(Z(w))
        s = w.state_dict()
        kept, text = copy.deepcopy(s), json.dumps(s)
        for _ in range(5):
            w.step(Z(w))
        assert s == kept == json.loads(text)
        other.load_state_dict(json.loads(text))
        assert other.state_dict() == s
        other.reset()
        other.step(Z(other))
        assert s == kept
        w.load_state_dict(s)
        assert_same(w.state_dict(), kept)
        stats_of(w).mean[...] = 5.0  # nor is it shared with what it was loaded into
        assert s == kept


@pytest.mark.parametrize(
    "other",
    [
        lambda: VecNormalizeObservation(NCount([1]), stats="ewm"),
        lambda: VecNormalizeObservation(SyncVecEnv(fns(T(1), obs=Box(-1, 1, (2,)), r0=[0, 0]))),
        lambda: VecNormalizeObservation(SyncVecEnv(fns(T(1), obs=Dict({"x": BOX1})))),
        lambda: VecNormalizeReward(NCount([1])),
    ],
    ids=["kind", "shape", "nesting", "reward"],
)
def test_8_10_a_state_of_another_shape_or_kind_is_refused_and_changes_nothing(other):
    with VecNormalizeObservation(NCount([2])) as v, other() as w:
        v.reset()
        before = v.state_dict()
        with pytest.raises(ValueError, match="load_state_dict"):
            v.load_state_dict(w.state_dict())
        assert v.state_dict() == before
        for nonsense in (None, {}, 3, {"kind": "running", "stats": None}):
            with pytest.raises(ValueError, match="load_state_dict"):
                v.load_state_dict(nonsense)
    with VecNormalizeReward(NCount([2])) as v, VecNormalizeObservation(NCount([1])) as w:
        with pytest.raises(ValueError, match="load_state_dict"):
            v.load_state_dict(w.state_dict())


# -- reward wrappers on frozen rows ------------------------------------------------------------------------


@everywhere
@both_modes
def test_a_frozen_sub_env_earns_nothing_whatever_the_transforms(backend, autoreset):
    v = scripted(backend, T(1), T(9), autoreset=autoreset)
    v = VecTransformReward(VecTransformReward(v, lambda rewards: rewards + 1.0), lambda rewards: np.exp(rewards))
    with VecRecordEpisodeStatistics(v) as v:
        v.reset()
        for k in range(1, 9):
            rewards = v.step(Z(v)).rewards
            assert rewards[1] == np.exp(2.0)
            assert rewards[0] == (np.exp(2.0) if autoreset or k == 1 else 0.0)
        assert by_env(v)[0][0] == (np.exp(2.0), 1)


@on_rows
def test_a_frozen_sub_env_earns_nothing_even_if_its_own_wrapper_adds_to_every_reward(backend):
    env_fns = [lambda n=n: TransformReward(Toy(T(n)), lambda reward: reward + 1.0) for n in (1, 9)]
    with make(backend, env_fns, autoreset=False) as v:
        v.reset()
        assert [v.step(Z(v)).rewards.tolist() for _ in range(3)] == [[2.0, 2.0], [0.0, 2.0], [0.0, 2.0]]


@everywhere
def test_a_reward_transform_of_another_shape_is_refused(backend):
    with VecTransformReward(scripted(backend, T(9), T(9)), lambda rewards: rewards[:, None]) as v:
        v.reset()
        with pytest.raises(ValueError, match=r"reward\(\): expected shape \(2,\), got \(2, 1\)"):
            v.step(Z(v))
