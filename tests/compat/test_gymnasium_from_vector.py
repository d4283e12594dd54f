"""A gymnasium VectorEnv of any autoreset mode as a VecEnv."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics, TransformReward
from gymnasium_toys import MARKETS, Drifting, assert_same
from toys import Z

import sekai
from sekai import InvalidObservation, ResetRequired, SyncVecEnv, VecEnvClosed
from sekai.compat.gymnasium import (
    VecEnvFromGymnasium,
    from_gymnasium,
    from_gymnasium_vector,
    to_gymnasium_vector,
)

SAME_STEP, NEXT_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED
each_mode = pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP, DISABLED], ids=lambda mode: mode.name)


def sync(n, mode, **kwargs):
    return SyncVectorEnv([Drifting] * n, autoreset_mode=mode, **kwargs)


def expected_of(n, **kwargs):
    """What sekai itself makes of the same sub-envs."""
    return SyncVecEnv([lambda: from_gymnasium(Drifting())] * n, **kwargs)


# -- with autoreset: exactly what SyncVecEnv gives ---------------------------------------------------------


@each_mode
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("n", [1, 5])
def test_every_mode_gives_what_sekai_makes_of_the_sub_envs(mode, copy, n):
    ours, theirs = expected_of(n), from_gymnasium_vector(sync(n, mode, copy=copy))
    assert isinstance(theirs, sekai.VecEnv) and type(theirs) is VecEnvFromGymnasium
    assert theirs.observation_space == ours.observation_space
    ended = 0
    for seed in (4, list(range(n)), [None] * n, None):
        assert_same(ours.reset(seed=seed), theirs.reset(seed=seed), f"reset(seed={seed})")
        for k in range(15):
            actions = Z(ours)
            result = ours.step(actions)
            assert_same(result, theirs.step(actions), f"step {k}")
            ended += result.dones.sum()
    assert ended > 10 * n
    assert theirs.frozen.tolist() == [False] * n


@each_mode
def test_sub_envs_in_worker_processes_give_the_same(mode):
    envs = AsyncVectorEnv([Drifting] * 2, autoreset_mode=mode, context="spawn")
    ours = expected_of(2)
    with from_gymnasium_vector(envs) as theirs:
        assert_same(ours.reset(seed=1), theirs.reset(seed=1))
        for _ in range(12):
            actions = Z(ours)
            assert_same(ours.step(actions), theirs.step(actions))
        assert theirs.get_attr("end") == [0.3, 0.3]
        with pytest.raises(AttributeError, match="nothing"):
            theirs.call("nothing")
        theirs.step(actions)  # usable still


@pytest.mark.parametrize(
    "market", [pytest.param(each, marks=pytest.mark.slow if each == "LimitOrderBook-v0" else ()) for each in MARKETS]
)
def test_there_and_back_gives_the_same(market):
    ours, other = (sekai.make_vec(market, 4, max_episode_steps=3) for _ in range(2))
    theirs = from_gymnasium_vector(to_gymnasium_vector(other))
    assert_same(ours.reset(seed=1).observations, theirs.reset(seed=1).observations)
    for _ in range(7):
        actions = Z(ours)
        expected, got = ours.step(actions), theirs.step(actions)
        assert_same(list(expected.infos), got.infos)
        assert_same((expected.observations, expected.rewards), (got.observations, got.rewards))


def test_rollouts_take_it():
    record = sekai.rollout(
        from_gymnasium_vector(sync(3, SAME_STEP)), lambda obs: np.zeros(3, int), 20, seed=1, progress=False
    )
    assert record.rewards.shape == (20, 3)
    assert len(record.episode_returns) > 5


# -- without autoreset: frozen -----------------------------------------------------------------------------


@each_mode
@pytest.mark.parametrize("copy", [True, False])
def test_every_mode_freezes_as_sekai_does(mode, copy):
    ours, theirs = expected_of(5, autoreset=False), from_gymnasium_vector(sync(5, mode, copy=copy), autoreset=False)
    for seed in (4, 5):
        assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
        for k in range(15):
            actions = Z(ours)
            assert_same(ours.step(actions), theirs.step(actions), f"step {k}")
            assert theirs.frozen.tolist() == ours.frozen.tolist()
        assert theirs.frozen.all()


# With same-step autoreset, an ended sub-env has been reset already, and draws anew at a reset by hand.
@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED], ids=lambda mode: mode.name)
def test_sekai_s_checker_finds_no_fault_with_it(mode):
    def build(n, autoreset=True):
        return from_gymnasium_vector(sync(n, mode), autoreset=autoreset)

    (hint,) = sekai.check_vec_env(build)
    assert hint.startswith("hint: snapshot() after step 50: expected a Snapshot, got NotImplementedError: ")


@each_mode
def test_a_frozen_sub_env_is_not_given_actions(mode):
    envs = sync(2, mode)
    for env, end in zip(envs.envs, (0.0, 1.0), strict=True):
        env.end = end
    vec = from_gymnasium_vector(envs, autoreset=False)
    vec.reset()
    vec.step(np.array([1, 2]))
    vec.step(np.array([0, 99]))
    assert [env.last_action for env in envs.envs] == [0, 2]


# -- what is refused ---------------------------------------------------------------------------------------


def test_next_step_autoreset_of_anything_else_is_refused():
    cart_poles = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    for envs in (cart_poles, RecordEpisodeStatistics(sync(2, NEXT_STEP))):
        with pytest.raises(ValueError, match="expected same-step .*, got next-step .* pass autoreset=False"):
            from_gymnasium_vector(envs)
    vec = from_gymnasium_vector(cart_poles, autoreset=False)
    vec.reset(seed=3)
    expected = cart_poles.unwrapped.state.T.copy()
    for _ in range(200):
        last = vec.step(np.ones(2, int))
        if not vec.frozen.any():
            expected = last.observations
    assert vec.frozen.all() and last.rewards.tolist() == [0, 0] and last.infos == [{}, {}]
    assert not np.array_equal(expected, last.observations)


def test_a_mode_must_be_known():
    class Silent(SyncVectorEnv):
        def __init__(self):
            super().__init__([Drifting], autoreset_mode=SAME_STEP)
            self.metadata = {}

    with pytest.raises(ValueError, match="expected metadata.* to say what becomes of sub-envs .* pass autoreset_mode="):
        from_gymnasium_vector(Silent())
    for mode in (SAME_STEP, "SameStep"):
        vec = from_gymnasium_vector(Silent(), autoreset_mode=mode)
        assert_same(expected_of(1).reset(seed=1), vec.reset(seed=1))
    with pytest.raises(ValueError, match="autoreset_mode: expected one of 'NextStep', 'SameStep', .*, got 'Later'"):
        from_gymnasium_vector(Silent(), autoreset_mode="Later")


def test_a_same_step_env_that_hides_the_end_is_named():
    class Hides(SyncVectorEnv):
        def step(self, actions):
            *rest, infos = super().step(actions)
            infos.pop("final_obs", None)
            return *rest, infos

    vec = from_gymnasium_vector(Hides([lambda: Drifting(end=1.0)] * 2, autoreset_mode=SAME_STEP))
    vec.reset()
    with pytest.raises(InvalidObservation, match="sub-env 0: expected 'final_obs' in the infos"):
        vec.step(np.zeros(2, int))
    with pytest.raises(ResetRequired):
        vec.step(np.zeros(2, int))


def test_only_a_vector_env_is_taken():
    for wrong in (Drifting(), sekai.make_vec("Trading-v0", 2), None):
        match = r"from_gymnasium_vector: expected a gymnasium.vector.VectorEnv \(for an Env: from_gymnasium\), got"
        with pytest.raises(TypeError, match=match):
            from_gymnasium_vector(wrong)


# -- wrappers, infos, inputs -------------------------------------------------------------------------------


def test_gymnasium_s_statistics_come_through():
    # Of same-step autoreset alone: after a reset by a mask, gymnasium 1.4 counts the other sub-envs from 0 again.
    envs = RecordEpisodeStatistics(TransformReward(sync(3, SAME_STEP), lambda rewards: rewards + 1))
    vec = from_gymnasium_vector(envs)
    ours = sekai.VecRecordEpisodeStatistics(sekai.VecTransformReward(expected_of(3), lambda rewards: rewards + 1))
    assert_same(ours.reset(seed=2), vec.reset(seed=2))
    ended = 0
    for _ in range(15):
        actions = Z(ours)
        expected, got = ours.step(actions), vec.step(actions)
        for left, right in zip(expected.infos, got.infos, strict=True):
            assert ("episode" in left) == ("episode" in right)
            if "episode" in left:
                ended += 1
                assert right["episode"]["l"] == left["episode"].episode_length
                np.testing.assert_allclose(right["episode"]["r"], left["episode"].episode_return)
                assert "episode" not in right["reset_info"]
                assert_same(left["reset_info"], right["reset_info"])
    assert ended > 5


class Tells(Drifting):
    """Has infos of its own that are called as gymnasium's statistics are."""

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"episode": self.resets}

    def step(self, action):
        *result, info = super().step(action)
        return *result, (info | {"episode": self.resets} if self.tells else info)


@each_mode
@pytest.mark.parametrize("tells", [True, False])
def test_infos_called_as_the_statistics_are_stay_where_they_are(mode, tells):
    class Each(Tells):
        pass

    Each.tells = tells
    ours = SyncVecEnv([lambda: from_gymnasium(Each())] * 3)
    theirs = from_gymnasium_vector(SyncVectorEnv([Each] * 3, autoreset_mode=mode))
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    for k in range(12):
        assert_same(ours.step(Z(ours)), theirs.step(Z(ours)), f"step {k}")


class Bare(gymnasium.vector.VectorEnv):
    """A vector environment of its own kind, whose infos have few masks and whose arrays are live."""

    metadata = {"autoreset_mode": SAME_STEP}

    def __init__(self):
        self.num_envs = 2
        self.single_observation_space = gym_spaces.Box(-9, 9, (1,), np.float32)
        self.single_action_space = gym_spaces.Discrete(3, dtype=np.int32)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, 2)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, 2)
        self.level = np.zeros((2, 1), np.float32)
        self.last_seed = self.last_actions = None
        self.gains = np.array([1.0, 2.0])

    def reset(self, *, seed=None, options=None):
        self.last_seed = seed
        self.level[:] = 0
        return self.level, {}

    def step(self, actions):
        self.last_actions = actions
        self.level += 1
        never = np.zeros(2, bool)
        infos = {
            "who": np.array(["a", "b"]),
            "all": 3,
            "_odd": np.arange(2),
            "few": np.arange(2.0),
            "_few": [True, False],
        }
        return self.level, np.ones(2, np.float32), never, never, infos

    def plus(self, amount):
        return self.gains + amount


def test_a_vector_env_of_its_own_kind():
    envs = Bare()
    vec = from_gymnasium_vector(envs)
    vec.reset(seed=5)
    assert envs.last_seed == 5  # as it is: it may take no list
    vec.reset(seed=[5, None])
    assert envs.last_seed == [5, None]
    first = vec.step(np.array([2, 0]))
    second = vec.step(np.array([1, 1]))
    assert envs.last_actions.dtype == np.int32
    assert (first.observations.tolist(), second.observations.tolist()) == ([[1], [1]], [[2], [2]])
    assert first.rewards.dtype == np.float64
    assert first.infos == [{"who": "a", "all": 3, "_odd": 0, "few": 0.0}, {"who": "b", "all": 3, "_odd": 1}]
    assert vec.get_attr("gains") == [1, 2]
    assert vec.call("plus", 1) == [2, 3]
    vec.set_attr("gains", [3, 4])
    assert envs.gains.tolist() == [3, 4]
    with pytest.raises(AttributeError, match="nothing"):
        vec.set_attr("nothing", 1)


def test_sub_env_attributes():
    envs = SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(Drifting(), 9)] * 2, autoreset_mode=SAME_STEP)
    vec = from_gymnasium_vector(TransformReward(envs, lambda rewards: rewards))
    vec.reset()
    assert vec.get_attr("end") == [0.3, 0.3]
    assert vec.call("twice", 2, plus=1) == [5, 5]
    vec.set_attr("end", [0.1, 0.2])
    assert [env.unwrapped.end for env in envs.envs] == [0.1, 0.2]
    vec.set_attr("end", 0.5)
    assert vec.get_attr("end") == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"set_attr\('end'\): expected 2 values"):
        vec.set_attr("end", [1])
    for call in (lambda: vec.set_attr("nothing", 1), lambda: vec.get_attr("nothing"), lambda: vec.call("nothing")):
        with pytest.raises(AttributeError, match="sub-env 0: .* has no attribute 'nothing'"):
            call()


@pytest.mark.parametrize("mode", ["native", "sync"])
def test_attributes_there_and_back(mode):
    plain, other = (sekai.make_vec("MarketMaking-v0", 3, vectorization_mode=mode) for _ in range(2))
    vec = from_gymnasium_vector(to_gymnasium_vector(other))
    assert vec.get_attr("params") == vec.call("params") == other.get_attr("params")
    for values in (0.5, [0.5, 0.6, 0.7]):
        plain.set_attr("volatility", values)
        vec.set_attr("volatility", values)
        assert_same(plain.get_attr("volatility"), other.get_attr("volatility"))
    with pytest.raises(AttributeError, match="nothing"):
        vec.get_attr("nothing")


def test_one_value_for_all_stays_one():
    other = sekai.make_vec("MarketMaking-v0", 2)
    other.label = "none"
    vec = from_gymnasium_vector(to_gymnasium_vector(other))
    vec.set_attr("label", "some")
    assert other.label == "some"


def test_a_tuple_is_one_value_for_all():
    """As in sekai; to gymnasium it is one value each."""
    other = SyncVecEnv([lambda: from_gymnasium(Drifting())] * 2)
    vec = from_gymnasium_vector(to_gymnasium_vector(other))
    vec.set_attr("end", (1, 2))
    assert other.get_attr("end") == vec.get_attr("end") == [(1, 2), (1, 2)]


def test_inputs_are_checked_before_anything_is_reset():
    envs = sync(2, SAME_STEP)
    vec = from_gymnasium_vector(envs)
    with pytest.raises(ResetRequired):
        vec.step(np.zeros(2, int))
    vec.reset(seed=1, options={"a": 1})
    assert [env.last_options for env in envs.envs] == [{"a": 1}] * 2
    for match, error, arguments in (
        ("expected 2 seeds", ValueError, {"seed": [1]}),
        ("sub-env 1: expected an integer or None, got Generator", TypeError, {"seed": [1, np.random.default_rng()]}),
        ("expected one dict for all sub-envs, got list", TypeError, {"options": [{}, {}]}),
        ("expected no 'reset_mask'", ValueError, {"options": {"reset_mask": np.array([True, False])}}),
    ):
        with pytest.raises(error, match=match):
            vec.reset(**arguments)
    with pytest.raises(ValueError, match=r"step\(actions\): expected shape \(2,\)"):
        vec.step(np.zeros(3, int))
    assert [env.resets for env in envs.envs] == [1, 1]
    vec.step(np.zeros(2, int))  # goes on


def test_close():
    envs = sync(2, SAME_STEP)
    vec = from_gymnasium_vector(envs)
    vec.reset()
    assert "SyncVectorEnv" in repr(vec)
    vec.close()
    vec.close()
    assert vec.closed and [env.closed for env in envs.envs] == [1, 1]
    for call in (
        vec.reset,
        lambda: vec.step(np.zeros(2, int)),
        lambda: vec.get_attr("end"),
        lambda: vec.call("twice", 1),
    ):
        with pytest.raises(VecEnvClosed):
            call()
