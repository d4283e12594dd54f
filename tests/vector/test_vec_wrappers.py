"""Vector wrappers: one test per sentence of the specification, over every backend."""

import asyncio
import dataclasses
import json
import pickle
from contextlib import ExitStack

import numpy as np
import pytest
from backends import KINDS, on_rows, scripted
from toys import BOX1, INF, Draws, NativeToy, NCount, T, Toy, Z

import sekai
from sekai import (
    AsyncVecEnv,
    Box,
    Dict,
    Discrete,
    EpisodeStats,
    InfoList,
    InMemoryTracker,
    MaskedBox,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    Sequence,
    SyncVecEnv,
    Tuple,
    VecActionWrapper,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecObservationWrapper,
    VecRecordEpisodeStatistics,
    VecRewardWrapper,
    VecTransformObservation,
    VecTransformReward,
    VecWrapper,
)

NESTED = Dict(
    {
        "price": Box(-INF, INF, (2,), np.float64),
        "book": Tuple((MaskedBox(-INF, INF, (1,), max_size=3, dtype=np.float64), Discrete(5))),
    }
)


def nested(k):
    """An observation of NESTED with k (at most 3) occupied slots."""
    book = MaskedBox(-INF, INF, (1,), max_size=3, dtype=np.float64).pack(np.arange(1.0, k + 1)[:, None] * 10)
    return {"price": np.array([k, -k], dtype=np.float64), "book": (book, k)}


def nested_script(n):
    return [(nested(k), float(k), k == n, False, {}) for k in range(1, n + 1)]


@pytest.fixture
def keep():
    """Gives back the VecEnv it is given, and closes it after the test."""
    with ExitStack() as kept:
        yield kept.enter_context


@pytest.fixture(params=KINDS)
def toys(request, keep):
    def build(*scripts, **kwargs):
        return keep(scripted(request.param, *scripts, **kwargs))

    return build


class AddOne(VecObservationWrapper):
    def observation(self, obs):
        return obs + 1


class Halve(VecRewardWrapper):
    def reward(self, rewards):
        return rewards / 2


class Flip(VecActionWrapper):
    def action(self, actions):
        return 1 - np.asarray(actions)


# -- VecWrapper ----------------------------------------------------------------------------------------------


def test_a_wrapper_is_transparent(toys):
    inner = toys(T(2), T(3), autoreset=False)
    vec = VecWrapper(VecWrapper(inner))
    assert vec.venv.venv is inner and vec.unwrapped is inner
    assert (vec.num_envs, vec.autoreset, vec.metadata, vec.spec) == (2, False, inner.metadata, None)
    assert vec.observation_space is inner.observation_space and vec.action_space is inner.action_space
    assert vec.batch_action_space is inner.batch_action_space
    assert vec.batch_observation_space is inner.batch_observation_space
    vec.reset()
    vec.step([0, 0])
    vec.step([0, 0])
    assert vec.frozen.tolist() == [True, False]
    assert vec.get_attr("k") == [2, 2] and vec.call("add", 1) == [3, 3]
    vec.set_attr("k", [7, 8])
    assert inner.get_attr("k") == [7, 8]
    assert repr(vec) == f"<VecWrapper<VecWrapper{inner!r}>>"
    vec.close()
    assert vec.closed and inner.closed


def test_public_attributes_are_read_from_inside(keep):
    vec = keep(VecWrapper(NCount([2])))
    assert vec.T.tolist() == [2]
    with pytest.raises(AttributeError, match="nope"):
        vec.nope  # noqa: B018
    with pytest.raises(AttributeError, match="_clock"):
        vec._clock  # noqa: B018


def test_spaces_delegate_unless_assigned(toys):
    vec = VecWrapper(toys(T(2), T(2)))
    vec.observation_space = Box(0, 1, (3,))
    assert vec.batch_observation_space == Box(0, 1, (2, 3))
    assert vec.venv.observation_space == BOX1
    assert vec.batch_action_space is vec.venv.batch_action_space


def test_only_a_vec_env_can_be_wrapped():
    with pytest.raises(TypeError, match="VecNormalizeReward: expected a VecEnv, got Draws"):
        VecNormalizeReward(Draws())


def test_async_calls_stay_concurrent(keep):
    meeting = []

    class Meets(Draws):
        async def async_step(self, action):
            meeting.append(self)
            while len(meeting) < 3:
                await asyncio.sleep(0)
            return self.step(action)

    vec = keep(VecNormalizeReward(AddOne(VecRecordEpisodeStatistics(Flip(Halve(AsyncVecEnv([Meets] * 3)))))))

    async def play():
        await vec.async_reset(seed=1)
        return await vec.async_step([0, 0, 0])

    assert asyncio.run(play()).rewards.shape == (3,)


@pytest.mark.parametrize("kind", [VecWrapper, AddOne, Halve, Flip, VecNormalizeReward, VecRecordEpisodeStatistics])
def test_a_subclass_that_overrides_only_step_gets_an_async_step_that_runs_it(keep, kind):
    class Loud(kind):
        def step(self, actions):
            return "stepped", super().step(actions).rewards.tolist()

    vec = keep(Loud(NCount([5])))
    vec.reset()
    name, _ = asyncio.run(vec.async_step([0]))
    assert name == "stepped"


# -- the three kinds -----------------------------------------------------------------------------------------


def test_observations_and_final_observations_are_transformed(toys):
    vec = AddOne(toys(T(1), T(2)))
    assert vec.reset().observations.tolist() == [[1.0], [1.0]]
    result = vec.step([0, 0])
    assert result.observations.tolist() == [[1.0], [2.0]]
    assert result.infos[0]["final_observation"].tolist() == [2.0]
    assert "final_observation" not in result.infos[1]


def test_final_observation_can_be_overridden(toys):
    class Own(AddOne):
        def final_observation(self, obs):
            assert obs.shape == (1,)
            return obs * 100

    vec = Own(AddOne(toys(T(1), T(2))))
    vec.reset()
    assert vec.step([0, 0]).infos[0]["final_observation"].tolist() == [200.0]


def test_final_observations_of_another_space(toys):
    space = Dict({"twice": Box(-INF, INF, (1,), np.float64)})
    vec = VecTransformObservation(toys(T(1), T(1)), lambda obs: {"twice": 2 * obs}, space)
    assert vec.observation_space is space
    assert vec.reset().observations in vec.batch_observation_space
    infos = vec.step([0, 0]).infos
    assert [info["final_observation"]["twice"].tolist() for info in infos] == [[2.0], [2.0]]


def test_a_read_info_sees_the_transformed_final_observation(keep):
    class Reads(VecWrapper):
        def step(self, actions):
            result = self.venv.step(actions)
            assert result.infos[0]["final_observation"].tolist() == [1.0]
            return result

    vec = keep(AddOne(Reads(NCount([1, 2]))))
    vec.reset()
    assert vec.step([0, 0]).infos[0]["final_observation"].tolist() == [2.0]


def test_a_frozen_sub_env_goes_on_showing_the_same_observation(toys):
    counter = iter(range(1000))
    vec = VecTransformObservation(toys(T(1), T(9), autoreset=False), lambda obs: obs + next(counter))
    vec.reset()
    shown = [vec.step([0, 0]).observations for _ in range(4)]
    assert [obs[0, 0] for obs in shown] == [2.0] * 4
    assert [obs[1, 0] for obs in shown] == [2.0, 4.0, 6.0, 8.0]
    shown[-1][:] = 99
    assert vec.step([0, 0]).observations[0, 0] == 2.0
    vec.reset()
    assert vec.step([0, 0]).observations[0, 0] != 2.0


def test_rewards_are_transformed_and_stay_zero_where_frozen(toys):
    vec = VecTransformReward(Halve(toys(T(1), T(9), autoreset=False)), lambda r: r + 1)
    vec.reset()
    assert vec.step([0, 0]).rewards.tolist() == [1.5, 1.5]
    result = vec.step([0, 0])
    assert result.rewards.tolist() == [0.0, 1.5] and result.rewards.dtype == np.float64


def test_a_reward_transform_of_another_shape_is_refused(toys):
    vec = VecTransformReward(toys(T(9), T(9)), np.sum)
    vec.reset()
    with pytest.raises(ValueError, match=r"VecTransformReward.reward\(\): expected shape \(2,\), got \(\)"):
        vec.step([0, 0])


def test_actions_are_transformed(keep):
    native = keep(NativeToy([T(9), T(9)]))
    vec = Flip(native)
    vec.reset()
    vec.step([0, 1])
    assert native.last_action.tolist() == [1, 0]


# -- VecRecordEpisodeStatistics ------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", [True, False])
def test_statistics_of_each_sub_env(toys, autoreset):
    script = [([1.0], 1.0, False, False, {}), ([2.0], 10.0, False, True, {})]
    vec = VecRecordEpisodeStatistics(toys(script, T(3), autoreset=autoreset))
    vec.reset()
    results = [vec.step([0, 0]) for _ in range(6)]
    reported = {(s.extra["env_index"], s.episode_return, s.episode_length) for s in vec.tracker.episodes}
    assert reported == {(0, 11.0, 2), (1, 3.0, 3)}
    assert len(vec.tracker.episodes) == (5 if autoreset else 2)
    first = results[1].infos[0]["episode"]
    assert first.done and first.truncated and not first.terminated
    assert first.elapsed_time == first.end_time - first.start_time >= 0
    assert [["episode" in info for info in r.infos] for r in results[:3]] == [
        [False, False],
        [True, False],
        [False, True],
    ]


def test_the_record_of_an_episode_is_like_any_other(toys):
    vec = VecRecordEpisodeStatistics(toys(T(1), T(9)))
    vec.reset()
    episode = vec.step([0, 0]).infos[0]["episode"]
    assert episode is vec.tracker.episodes[0]
    values = {field.name: getattr(episode, field.name) for field in dataclasses.fields(EpisodeStats)}
    assert type(episode) is EpisodeStats and values["extra"] == {"env_index": 0}
    assert episode == EpisodeStats(**values) == pickle.loads(pickle.dumps(episode))
    assert repr(episode) == repr(EpisodeStats(**values))
    assert dataclasses.replace(episode, terminated=False).episode_return == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        episode.episode_return = 2.0


def test_statistics_are_those_of_the_single_env_wrapper(toys, keep):
    vec = VecRecordEpisodeStatistics(toys(T(2), T(3)))
    singles = keep(SyncVecEnv([lambda n=n: RecordEpisodeStatistics(Toy(T(n))) for n in (2, 3)]))
    vec.reset(), singles.reset()
    for _ in range(7):
        infos, expected = vec.step([0, 0]).infos, singles.step([0, 0]).infos
        for info, single in zip(infos, expected, strict=True):
            assert ("episode" in info) == ("episode" in single)
            if "episode" in info:
                for field in ("episode_return", "episode_length", "terminated", "truncated"):
                    assert getattr(info["episode"], field) == getattr(single["episode"], field)


def test_a_reset_in_mid_episode_records_nothing_and_clears_all(toys):
    vec = VecRecordEpisodeStatistics(toys(T(3), T(3)))
    vec.reset()
    vec.step([0, 0])
    vec.reset()
    for _ in range(3):
        vec.step([0, 0])
    assert [(s.episode_return, s.episode_length) for s in vec.tracker.episodes] == [(3.0, 3)] * 2


def test_a_tracker_of_ones_own_and_the_size_of_the_default_one(toys):
    tracker = InMemoryTracker(1)
    vec = VecRecordEpisodeStatistics(toys(T(1)), tracker)
    assert vec.tracker is tracker
    small = VecRecordEpisodeStatistics(toys(T(1)), deque_size=2)
    small.reset()
    for _ in range(5):
        small.step([0])
    assert len(small.tracker.episodes) == 2


class Each(InMemoryTracker):
    """Counts what it is told of one by one."""

    def on_episode_end(self, stats):
        super().on_episode_end(stats)
        self.told = [*getattr(self, "told", []), stats.extra["env_index"]]


class AtOnce(Each):
    def on_episodes_end(self, episodes):
        self.told = [*getattr(self, "told", []), [stats.extra["env_index"] for stats in episodes]]


def test_a_tracker_is_told_of_each_episode_or_of_all_that_ended_in_a_step(toys):
    for kind, told in ((Each, [0, 2, 0, 1, 2]), (AtOnce, [[0, 2], [0, 1, 2]])):
        vec = VecRecordEpisodeStatistics(toys(T(1), T(2), T(1)), kind())
        vec.reset()
        for _ in range(2):
            vec.step([0, 0, 0])
        assert vec.tracker.told == told

    proxy = VecRecordEpisodeStatistics(toys(T(1)), HandsOn(InMemoryTracker()))
    proxy.reset()
    proxy.step([0])
    assert len(proxy.tracker.stats) == 1
    plain = VecRecordEpisodeStatistics(toys(T(1)), Reported())
    plain.reset()
    assert plain.step([0]).infos[0]["episode"] is plain.tracker.stats[0]


class HandsOn:
    """Has a method of its own and hands on the rest."""

    def __init__(self, tracker):
        self.tracker, self.stats = tracker, []

    def on_episode_end(self, stats):
        self.stats.append(stats)

    def __getattr__(self, name):
        return getattr(self.tracker, name)


class Reported:
    """Has what the protocol says, and no more."""

    def __init__(self):
        self.stats = []

    def on_episode_end(self, stats):
        self.stats.append(stats)


# -- normalisers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"stats": "ewm", "halflife": 3.0}, {"clip": 0.5}, {"epsilon": 1.0}], ids=str)
def test_observations_are_normalised_like_those_of_the_single_env_wrapper(keep, options):
    vec = keep(VecNormalizeObservation(SyncVecEnv([Draws]), **options))
    single = NormalizeObservation(Draws(), **options)
    assert vec.observation_space == single.observation_space
    np.testing.assert_array_equal(vec.reset(seed=[4]).observations[0], single.reset(seed=4).observation)
    for _ in range(20):
        result, expected = vec.step([0]), single.step(0)
        if expected.done:
            expected_final, expected = expected, single.reset()
            final = result.infos[0]["final_observation"]
            assert final.shape == expected_final.observation.shape
            break
        np.testing.assert_array_equal(result.observations[0], expected.observation)
    assert result.observations in vec.batch_observation_space


def test_any_nesting_of_spaces(toys):
    vec = VecNormalizeObservation(toys(nested_script(3), nested_script(2), obs=NESTED, r0=nested(0)))
    vec.reset()
    for _ in range(7):
        result = vec.step([0, 0])
        assert result.observations in vec.batch_observation_space
        for info in result.infos:
            if "final_observation" in info:
                assert info["final_observation"] in vec.observation_space
    assert result.observations["book"][1].dtype == np.int64  # passed through
    mask = result.observations["book"][0]["mask"].astype(bool)
    assert (result.observations["book"][0]["values"][~mask] == 0).all()
    assert vec.obs_rms["price"].mean.shape == (2,)
    assert vec.obs_rms["book"][1] is None


def test_masked_slots_count_only_where_occupied(toys):
    vec = VecNormalizeObservation(toys(nested_script(2), nested_script(3), obs=NESTED, r0=nested(0)))
    vec.reset()
    vec.step([0, 0])  # one slot of 10 in both
    vec.step([0, 0])  # sub-env 0 has begun again with none; sub-env 1 has slots of 10 and 20
    stats = vec.obs_rms["book"][0]
    assert stats.mean == pytest.approx([12.5], rel=1e-4)  # the prior of 1e-4 samples counts too
    assert round(float(np.ravel(stats.count)[0])) == 4


@on_rows
def test_sequences_pass_through(keep, backend):
    obs = Dict({"seq": Sequence(Discrete(3)), "x": BOX1})
    script = [({"seq": (1, 2), "x": [float(k)]}, 0.0, k == 2, False, {}) for k in (1, 2)]
    vec = keep(VecNormalizeObservation(scripted(backend, script, script, obs=obs, r0={"seq": (), "x": [0.0]})))
    vec.reset()
    assert vec.step([0, 0]).observations["seq"] == [(1, 2), (1, 2)]
    assert vec.step([0, 0]).infos[0]["final_observation"]["seq"] == (1, 2)


def test_reset_observations_count_final_and_frozen_ones_do_not(toys):
    vec = VecNormalizeObservation(toys(T(2), T(4), autoreset=False))
    count = vec.obs_rms.count
    seen = []
    vec.reset()
    seen.append(vec.obs_rms.count - count)
    for _ in range(5):
        count = vec.obs_rms.count
        vec.step([0, 0])
        seen.append(vec.obs_rms.count - count)
    assert np.round(seen).tolist() == [2, 2, 2, 1, 1, 0]
    auto = VecNormalizeObservation(toys(T(1), T(4)))
    auto.reset()
    count = auto.obs_rms.count
    auto.step([0, 0])
    assert round(auto.obs_rms.count - count) == 2


def test_frozen_statistics(toys):
    vec = VecNormalizeObservation(VecNormalizeReward(toys(T(3), T(5))))
    vec.reset()
    for _ in range(4):
        vec.step([0, 0])
    vec.update_running_mean = vec.venv.update_running_mean = False
    states = vec.state_dict(), vec.venv.state_dict()
    for _ in range(4):
        vec.step([0, 0])
    assert (vec.state_dict(), vec.venv.state_dict()) == states


def test_rewards_are_scaled_like_those_of_the_single_env_wrapper(keep):
    vec = keep(VecNormalizeReward(SyncVecEnv([lambda: Draws(6)]), gamma=0.9))
    single = NormalizeReward(Draws(6), gamma=0.9)
    vec.reset(seed=[4]), single.reset(seed=4)
    for _ in range(30):
        result, expected = vec.step([0]), single.step(0)
        assert result.rewards[0] == expected.reward
        if expected.done:
            single.reset()


def test_returns_are_reset_per_sub_env_and_by_reset(toys):
    vec = VecNormalizeReward(toys(T(2), T(9)), gamma=1.0)
    vec.reset()
    seen = []
    for _ in range(3):
        vec.step([0, 0])
        seen.append(vec.returns.tolist())
    assert seen == [[1.0, 1.0], [0.0, 2.0], [1.0, 3.0]]
    count = vec.return_rms.count
    vec.reset()
    assert vec.returns.tolist() == [0.0, 0.0] and vec.return_rms.count == count


def test_frozen_sub_envs_do_not_update_the_return_statistics(toys):
    vec = VecNormalizeReward(toys(T(1), T(9), autoreset=False))
    vec.reset()
    vec.step([0, 0])
    count = vec.return_rms.count
    assert vec.step([0, 0]).rewards[0] == 0
    assert round(vec.return_rms.count - count) == 1


@pytest.mark.parametrize(
    ("wrap", "other"),
    [
        (VecNormalizeObservation, lambda venv: VecNormalizeObservation(venv, stats="ewm")),
        (VecNormalizeReward, None),
    ],
    ids=["observation", "reward"],
)
def test_state_dicts(toys, keep, wrap, other):
    vec = wrap(toys(T(3), T(5)))
    vec.reset()
    for _ in range(4):
        vec.step([0, 0])
    state = vec.state_dict()
    text = json.dumps(state)
    for _ in range(4):
        vec.step([0, 0])
    assert json.dumps(state) == text  # a snapshot
    assert vec.state_dict() != state
    wider = wrap(toys(T(3), T(5), T(7)))
    wider.load_state_dict(json.loads(text))
    assert wider.state_dict() == state
    for wrong in ({}, [], {**state, "kind": "ewm"}, {**state, "kind": "nope"}):
        with pytest.raises(ValueError, match="expected"):
            vec.load_state_dict(wrong)
    if other is not None:
        with pytest.raises(ValueError, match="kind"):
            other(toys(T(3))).load_state_dict(state)
        with pytest.raises(ValueError, match="shape"):
            wrap(keep(NativeToy([T(1)], obs=Box(-1, 1, (3,)), r0=np.zeros(3)))).load_state_dict(state)


# -- large batches -------------------------------------------------------------------------------------------

MANY = 2100  # sub-envs that are many enough for compiled kernels


def all_three(venv):
    return VecNormalizeReward(VecNormalizeObservation(VecRecordEpisodeStatistics(venv)))


@pytest.mark.parametrize("autoreset", [True, False])
def test_a_large_batch_gives_the_same_on_every_backend(keep, autoreset):
    rng = np.random.default_rng(0)
    scripts = [
        [([x], x, k == 1 + row % 4, False, {}) for k, x in enumerate(rng.normal(size=5).tolist())]
        for row in range(MANY)
    ]
    native, sync = (all_three(keep(scripted(kind, *scripts, autoreset=autoreset))) for kind in ("native", "sync"))
    native.reset(), sync.reset()
    for _ in range(6):
        results = [vec.step([0] * MANY) for vec in (native, sync)]
        for name in ("observations", "rewards", "terminated", "truncated"):
            np.testing.assert_array_equal(*(getattr(result, name) for result in results))
        finals = [[info.get("final_observation") for info in result.infos] for result in results]
        assert finals[0] == finals[1]
    assert native.state_dict() == sync.state_dict() and native.venv.state_dict() == sync.venv.state_dict()
    np.testing.assert_array_equal(native.returns, sync.returns)


def test_large_results_are_snapshots(keep):
    vec = all_three(keep(NCount(1 + np.arange(5000) % 7)))
    vec.reset()
    results = [vec.step(Z(vec)) for _ in range(9)]
    copies = [(result.observations.copy(), result.rewards.copy()) for result in results]
    for _ in range(3):
        vec.step(Z(vec))
    for result, (observations, rewards) in zip(results, copies, strict=True):
        np.testing.assert_array_equal(result.observations, observations)
        np.testing.assert_array_equal(result.rewards, rewards)
    twin = all_three(keep(NCount(1 + np.arange(5000) % 7)))
    twin.reset()
    for expected in results:
        result = twin.step(Z(twin))
        np.testing.assert_array_equal(result.rewards, expected.rewards)
        result.observations[:], result.rewards[:] = 99, 99


class Returns(VecObservationWrapper):
    """Returns what ``how(self, obs)`` does."""

    def __init__(self, venv, how):
        super().__init__(venv)
        self.how, self.stored = how, np.zeros((venv.num_envs, 1))

    def observation(self, obs):
        return self.how(self, obs)

    def final_observation(self, obs):
        return obs

    def store(self, obs):
        self.stored[:] = obs
        return self.stored

    def lend(self, obs):
        lent = self._buffers.take(obs.shape, obs.dtype)
        lent[:] = obs
        return lent


RETURNS = {
    "what it was given": lambda self, obs: obs,
    "a view of that": lambda self, obs: obs[:],
    "a new array": lambda self, obs: obs + 0,
    "a stored array": Returns.store,
    "a view of one": lambda self, obs: self.store(obs)[:],
    "a read-only view of one": lambda self, obs: np.broadcast_to(self.store(obs), obs.shape),
    "lent memory": Returns.lend,
}


@pytest.mark.parametrize("how", RETURNS.values(), ids=RETURNS)
@pytest.mark.parametrize("num_envs", [3, 5000])
@pytest.mark.parametrize("autoreset", [True, False])
def test_a10_observations_are_snapshots_whatever_a_wrapper_returns(keep, how, num_envs, autoreset):
    lengths = 2 + np.arange(num_envs) % 4
    vec = keep(Returns(Returns(NCount(lengths, autoreset=autoreset), how), how))
    plain = keep(NCount(lengths, autoreset=autoreset))
    kept = [(vec.reset().observations, plain.reset().observations)]
    kept += [(vec.step(Z(vec)).observations, plain.step(Z(plain)).observations) for _ in range(8)]
    for got, expected in kept:
        np.testing.assert_array_equal(got, expected)
    for got, _ in kept:
        got[:] = 99
        np.testing.assert_array_equal(vec.step(Z(vec)).observations, plain.step(Z(plain)).observations)


@pytest.mark.parametrize("how", RETURNS.values(), ids=RETURNS)
def test_a10_memory_of_wrapped_observations_is_used_again(keep, how):
    vec = keep(Returns(NCount([9] * 5000), how))
    vec.reset()
    assert len({vec.step(Z(vec)).observations.ctypes.data for _ in range(30)}) <= 5


def test_a10_a_wrapper_cannot_write_to_what_it_has_returned(keep):
    lent = []
    vec = keep(Returns(NCount([9] * 5000), lambda self, obs: lent.append(self.lend(obs)) or lent[-1]))
    observations = vec.reset().observations
    with pytest.raises(ValueError, match="read-only"):
        lent[0][:] = 9
    assert not observations.any() and np.shares_memory(observations, lent[0])


# -- over a native env ---------------------------------------------------------------------------------------


class Untouchable(InfoList):
    """An InfoList no dict of which may be built."""

    def _build(self, row):
        raise AssertionError(f"dict {row} was built")


def test_over_a_native_env_no_wrapper_builds_a_dict(keep, monkeypatch):
    import sekai.batching.episodes

    monkeypatch.setattr(sekai.batching.episodes, "InfoList", Untouchable)
    scripts = [[(obs, r, t, u, {"x": 1.0}) for obs, r, t, u, _ in T(n)] for n in (1, 2, 3)]
    vec = keep(NativeToy(scripts, i0={"x": 0.0}, max_episode_steps=2))
    vec = VecNormalizeReward(VecNormalizeObservation(AddOne(Halve(VecRecordEpisodeStatistics(vec)))))
    vec.reset()
    for _ in range(6):
        infos = vec.step(Z(vec)).infos
        assert isinstance(infos, Untouchable)
        assert infos.columns["x"].tolist() == [1.0] * 3
        assert infos.final("final_observation").shape == (len(infos.done), 1)
        assert [s.extra["env_index"] for s in (infos.final("episode") if len(infos.done) else [])] == list(infos.done)
    with pytest.raises(AssertionError, match="dict 0 was built"):
        infos[0]  # noqa: B018


@pytest.mark.parametrize("name", ["VecNormalizeObservation", "VecDtypeObservation"])
def test_over_a_native_env_terminal_observations_pass_through_what_a_subclass_writes(keep, name):
    kit = getattr(sekai, name)

    class Sevens:
        def final_observation(self, obs):
            return super().final_observation(obs) * 0.0 + 7.0

    class Own(Sevens, kit):
        pass

    given = (np.float64,) if name == "VecDtypeObservation" else ()
    vec = Own(keep(NativeToy([T(1), T(2)])), *given)
    vec.reset()
    infos = vec.step(Z(vec)).infos
    assert infos.done.tolist() == [0] and infos.final("final_observation").tolist() == [[7.0]]
