"""A sekai Env as a gymnasium Env, and a gymnasium Env as a sekai Env."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium_toys import Drifting, assert_same, check_with_gymnasium, each_market
from masked_envs import Combined, Corridor, mask_at
from toys import Draughtsman, Draws, T, Toy

import sekai
from sekai import Box, MaskedBox, ResetResult, Sequence, StepResult, SyncVecEnv
from sekai.compat.gymnasium import (
    EnvFromGymnasium,
    GymnasiumEnv,
    from_gymnasium,
    from_gymnasium_vector,
    to_gymnasium,
)

# -- to gymnasium ------------------------------------------------------------------------------------------


@each_market
def test_gymnasium_s_checker_finds_no_fault_with_a_market(market):
    check_with_gymnasium(to_gymnasium(sekai.make(market)))


@each_market
def test_the_numbers_of_a_market_are_its_own(market):
    ours, theirs = sekai.make(market), to_gymnasium(sekai.make(market))
    ours.action_space.seed(0)
    for seed in (5, None):
        reset = ours.reset(seed=seed)
        assert_same((reset.observation, reset.info), theirs.reset(seed=seed))
        for _ in range(20):
            action = ours.action_space.sample()
            step = ours.step(action)
            expected = (step.observation, step.reward, step.terminated, step.truncated, step.info)
            assert_same(expected, theirs.step(action))


def test_it_is_a_real_env():
    env = to_gymnasium(sekai.TimeLimit(Draws(), 2))
    assert isinstance(env, gymnasium.Env) and type(env) is GymnasiumEnv
    assert env.unwrapped is env
    assert env.observation_space == gym_spaces.Box(0, 1, (3,), np.float64)
    assert env.render_mode is None and env.render() is None
    assert env.metadata == {"render_modes": []}
    assert env.spec is None
    check_with_gymnasium(env)


def test_e3_what_the_env_draws_is_drawn():
    env = to_gymnasium(sekai.TimeLimit(Draughtsman(), 2))
    assert env.render_mode == "rgb_array"
    assert env.metadata == {"render_modes": ["rgb_array", "ansi"], "render_fps": 12}
    env.reset()
    env.step(0)
    assert env.render().tolist() == np.ones((4, 6, 3)).tolist()
    cart_pole = to_gymnasium(from_gymnasium(gymnasium.make("CartPole-v1")))
    assert (cart_pole.render_mode, cart_pole.metadata["render_fps"]) == (None, 50)


def test_gymnasium_s_wrappers_go_around_it():
    wrapped = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(to_gymnasium(Draws(9)), 3))
    wrapped.reset(seed=1)
    for _ in range(3):
        *_, terminated, truncated, info = wrapped.step(0)
    assert (terminated, truncated, info["episode"]["l"]) == (False, True, 3)


def test_observations_have_the_dtype_of_their_space():
    env = to_gymnasium(Toy([([1.0], 1, np.True_, 0, {})], obs=Box(-9, 9, (1,), np.float32), r0=[0.5]))
    observation, _ = env.reset()
    assert (observation.dtype, observation.tolist()) == (np.float32, [0.5])
    observation, reward, terminated, truncated, _ = env.step(0)
    assert observation.dtype == np.float32
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]


def test_an_observation_of_the_wrong_shape_is_named():
    env = to_gymnasium(Toy([], r0=[0.5, 0.5]))
    with pytest.raises(sekai.InvalidObservation, match=r"expected an observation of shape \(1,\), got shape \(2,\)"):
        env.reset()


class Reusing(sekai.Env):
    """Hands out the same array and the same info again and again."""

    observation_space = Box(0, 99, (1,), np.float64)
    action_space = sekai.Discrete(2)

    def __init__(self):
        self.memory, self.info = np.zeros(1), {"path": []}

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.memory[:] = 0
        return ResetResult(self.memory, self.info)

    def step(self, action):
        self.memory += 1
        self.info["path"].append(action)
        return StepResult(self.memory, 0.0, False, False, self.info)


def test_what_is_returned_is_a_copy():
    env = to_gymnasium(Reusing())
    first, first_info = env.reset()
    second, *_, second_info = env.step(1)
    third, *_, third_info = env.step(0)
    assert [first.tolist(), second.tolist(), third.tolist()] == [[0], [1], [2]]
    assert [info["path"] for info in (first_info, second_info, third_info)] == [[], [1], [1, 0]]


def test_the_random_stream_is_the_env_s():
    inner = Draws()
    env = to_gymnasium(inner)
    assert env.np_random_seed == -1
    env.reset(seed=7)
    assert env.np_random is inner.rng
    assert env.np_random_seed == 7
    env.reset()
    assert env.np_random_seed == 7  # it goes on
    generator = np.random.default_rng(3)
    env.np_random = generator
    assert inner.rng is generator
    assert env.np_random_seed == -1
    assert env.reset()[0].tolist() == np.random.default_rng(3).random(3).tolist()


def test_options_reach_the_env():
    inner = Toy([])
    to_gymnasium(inner).reset(seed=2, options={"start": 3})
    assert (inner.last_seed, inner.last_options) == (2, {"start": 3})


def test_attributes_are_the_env_s():
    inner = Toy([([1.0], 1.0, False, False, {})])
    env = to_gymnasium(sekai.OrderEnforcing(inner))
    env.reset()
    env.step(1)
    assert env.last_action == 1
    assert env.get_wrapper_attr("add")(1, b=2) == 4
    assert env.has_wrapper_attr("n_step") and not env.has_wrapper_attr("nothing")
    with pytest.raises(AttributeError, match="nothing"):
        env.get_wrapper_attr("nothing")
    assert env.set_wrapper_attr("k", 8) is True
    assert inner.k == 8
    assert gymnasium.wrappers.TimeLimit(env, 3).set_wrapper_attr("k", 9) is True
    assert inner.k == 9
    assert env.set_wrapper_attr("nothing", 1, force=False) is False
    assert not hasattr(inner, "nothing")
    space = gym_spaces.Discrete(3)
    env.set_wrapper_attr("action_space", space)
    assert env.action_space is space and inner.action_space == sekai.Discrete(2)


def test_what_is_assigned_reaches_the_env():
    inner = Toy(T(3))
    inner._private = 1
    env = to_gymnasium(sekai.OrderEnforcing(inner))
    env.k = 11
    assert (inner.k, env.k) == (11, 11)
    env.set_wrapper_attr("k", 12)
    assert (inner.k, env.k) == (12, 12)
    env.rng = generator = np.random.default_rng(0)
    assert inner.rng is generator
    env.own, env._private = 1, 2  # which the env has not; which is private
    env.metadata = {"render_modes": [], "name": "toy"}
    env.spec = None
    assert (env.own, env._private, env.metadata["name"]) == (1, 2, "toy")
    assert inner._private == 1 and not {"own", "metadata", "spec"} & vars(inner).keys()


def test_a_market_s_parameters_can_be_changed():
    env = to_gymnasium(sekai.make("MarketMaking-v0"))
    env.reset(seed=0)
    assert env.set_wrapper_attr("volatility", 3.0) is True
    assert env.sekai_env.unwrapped.vec.volatility == 3.0
    env.volatility = 4.0
    assert env.sekai_env.unwrapped.vec.volatility == env.volatility == 4.0


def statistics(episode_return, length):
    """The keys of gymnasium's ``RecordEpisodeStatistics``."""
    return {"r": episode_return, "l": length, "t": pytest.approx(0.0, abs=60.0)}


def test_the_kit_s_statistics_are_in_gymnasium_s_layout():
    env = to_gymnasium(sekai.RecordEpisodeStatistics(Toy(T(2))))
    env.reset()
    assert "episode" not in env.step(0)[-1]
    assert env.step(0)[-1]["episode"] == statistics(2.0, 2)
    theirs = gymnasium.wrappers.RecordEpisodeStatistics(to_gymnasium(Toy(T(2))))
    theirs.reset()
    theirs.step(0)
    assert theirs.step(0)[-1]["episode"] == statistics(2.0, 2)


def test_so_are_those_of_an_env_that_resets_itself():
    env = to_gymnasium(sekai.AutoReset(sekai.RecordEpisodeStatistics(Toy(T(1)))))
    env.reset()
    info = env.step(0)[-1]
    assert info["episode"] == info["final_info"]["episode"] == statistics(1.0, 1)


def test_close_closes_the_env():
    inner = Toy([])
    with to_gymnasium(inner):
        pass
    assert inner.n_close == 1


def test_it_can_be_copied_and_pickled():
    env = to_gymnasium(Draws())
    env.reset(seed=4)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = env.step(0)
    for twin in twins:
        assert_same(expected, twin.step(0))


@each_market
def test_the_spec_builds_the_env_anew(market):
    limited = sekai.make(market, max_episode_steps=3)
    spec = to_gymnasium(limited).spec
    assert (spec.id, spec.max_episode_steps) == (f"sekai/{market}", 3)
    again = gymnasium.make(spec)
    limited.reset(seed=1)
    again.reset(seed=1)
    for _ in range(3):
        action = again.action_space.sample()
        observation, reward, terminated, truncated, _ = again.step(action)
        step = limited.step(action)
        assert_same(
            (step.observation, step.reward, step.terminated, step.truncated),
            (observation, reward, terminated, truncated),
        )
    assert truncated
    assert to_gymnasium(sekai.make("MarketMaking-v0", volatility=3.0)).spec.kwargs["volatility"] == 3.0


def test_elements_without_a_fixed_layout_go_through():
    class Orders(Toy):
        """Takes a set of orders, shows the trades."""

    book = MaskedBox(0.0, 9.0, (2,), max_size=3)
    trades = Sequence(Box(0, 1, (1,)), max_length=2)
    inner = Orders([(([0.5],), 0.0, False, False, {})], obs=trades, act=book, r0=())
    env = to_gymnasium(inner)
    observation, _ = env.reset()
    assert observation == () and observation in env.observation_space
    action = env.action_space.sample()
    observation, *_ = env.step(action)
    assert observation in env.observation_space
    assert inner.last_action is action and action in book


def test_only_an_env_is_taken():
    for wrong in (Drifting(), sekai.make_vec("Trading-v0", 2), None):
        with pytest.raises(
            TypeError, match=r"to_gymnasium: expected a sekai.Env \(for a VecEnv: to_gymnasium_vector\)"
        ):
            to_gymnasium(wrong)


# -- from gymnasium ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_sekai_s_checker_finds_no_fault_with_gymnasium_s_envs(name):
    with warnings.catch_warnings():  # the checker steps on after the end of an episode, at which CartPole warns
        warnings.filterwarnings("ignore", ".*even though this environment has already returned")
        assert sekai.check_env(from_gymnasium(gymnasium.make(name))) == []


def test_the_numbers_of_a_gymnasium_env_are_its_own():
    theirs, ours = Drifting(), from_gymnasium(Drifting())
    assert isinstance(ours, sekai.Env) and type(ours) is EnvFromGymnasium
    for seed in (5, None, np.int64(6)):
        observation, info = theirs.reset(seed=None if seed is None else int(seed))
        assert_same((observation, info), (lambda reset: (reset.observation, reset.info))(ours.reset(seed=seed)))
        for _ in range(3):
            step = ours.step(1)
            assert_same(theirs.step(1), (step.observation, step.reward, step.terminated, step.truncated, step.info))


def test_there_and_back_gives_the_same_numbers():
    for market in ("MarketMaking-v0", "Trading-v0"):
        ours, there_and_back = sekai.make(market), from_gymnasium(to_gymnasium(sekai.make(market)))
        assert there_and_back.observation_space == ours.observation_space
        assert_same(ours.reset(seed=3).observation, there_and_back.reset(seed=3).observation)
        action = ours.action_space.sample()
        assert_same(ours.step(action).info, there_and_back.step(action).info)


def test_sync_and_async_take_gymnasium_s_envs():
    results = []
    for backend in (SyncVecEnv, sekai.AsyncVecEnv):
        vec = backend([lambda: sekai.TimeLimit(from_gymnasium(Drifting()), 4)] * 3)
        vec.reset(seed=2)
        vec.batch_action_space.seed(0)
        results.append([vec.step(vec.batch_action_space.sample()) for _ in range(9)])
    assert_same(*results)
    assert any(result.dones.any() for result in results[0])


def test_an_action_has_the_dtype_of_gymnasium_s_space():
    inner = Drifting()
    inner.action_space = gym_spaces.Dict(
        side=gym_spaces.Tuple([gym_spaces.Discrete(3, dtype=np.int32), gym_spaces.MultiDiscrete([2], dtype=np.int8)]),
        more=gym_spaces.Sequence(gym_spaces.Discrete(2)),
    )
    env = from_gymnasium(inner)
    env.reset()
    env.step({"side": (np.int64(2), np.array([1], np.int8)), "more": (np.int64(1),)})
    assert inner.last_action in inner.action_space
    assert type(inner.last_action["side"][0]) is np.int32


@pytest.mark.parametrize(
    "space",
    [
        gym_spaces.Sequence(gym_spaces.Discrete(3, dtype=np.int32)),
        gym_spaces.Sequence(gym_spaces.Discrete(3, dtype=np.int32), stack=True),
        gym_spaces.Sequence(gym_spaces.Sequence(gym_spaces.Discrete(3, dtype=np.int8))),
        gym_spaces.Sequence(gym_spaces.Dict(a=gym_spaces.Tuple([gym_spaces.Discrete(3, dtype=np.int8)])), stack=True),
    ],
    ids=repr,
)
def test_so_have_the_features_of_a_sequence(space):
    inner = Drifting()
    inner.action_space = space
    env = from_gymnasium(inner)
    env.reset()
    env.action_space.seed(0)
    for _ in range(8):
        env.step(env.action_space.sample())
        assert inner.last_action in space


def test_the_random_stream_is_gymnasium_s():
    inner = Drifting()
    env = from_gymnasium(gymnasium.wrappers.TimeLimit(inner, 3))
    env.reset(seed=4)
    assert env.rng is inner.np_random
    assert env.rng_seed == 4
    generator = np.random.default_rng(1)
    env.reset(seed=generator)
    assert inner.np_random is generator
    assert env.rng_seed is None
    env.rng = np.random.default_rng(2)
    assert inner.np_random.random() == np.random.default_rng(2).random()
    with pytest.raises(ValueError, match=r"reset\(seed=...\): expected an integer of at least 0, got -1"):
        env.reset(seed=-1)


def test_attributes_are_found_in_every_layer():
    inner = Drifting()
    env = from_gymnasium(gymnasium.wrappers.TimeLimit(inner, 3))
    env.reset()
    wrapped = sekai.OrderEnforcing(env)
    assert wrapped.get_attr("end") == 0.3
    assert wrapped.get_attr("twice")(2, plus=1) == 5
    assert wrapped.has_attr("_max_episode_steps") is False  # private names stay private
    wrapped.set_attr("end", 0.7)
    assert inner.end == 0.7
    for name in ("metadata", "observation_space"):  # sekai's Env has these itself
        before = getattr(inner, name)
        env.set_attr(name, "other")
        assert (env.get_attr(name), getattr(inner, name)) == ("other", before)
    with pytest.raises(AttributeError, match="nothing"):
        wrapped.set_attr("nothing", 1)
    assert not hasattr(inner, "nothing")
    with pytest.raises(AttributeError, match="nothing"):
        env.get_attr("nothing")


def test_what_is_assigned_reaches_the_layer_that_has_it():
    inner = Drifting()
    inner._end = 1
    env = from_gymnasium(gymnasium.wrappers.RecordEpisodeStatistics(inner))
    env.end = 0.9
    assert (inner.end, env.end) == (0.9, 0.9)
    env.episode_count = 7
    assert env.gymnasium_env.episode_count == env.episode_count == 7
    env.set_attr("end", 0.8)
    assert (inner.end, env.end) == (0.8, 0.8)
    env.own, env._end, env.spec = 1, 2, 3  # which no layer has; which is private; which is of sekai's Env
    assert (env.own, env._end, env.spec) == (1, 2, 3)
    assert inner._end == 1 and inner.spec is None and not hasattr(inner, "own")


def test_options_and_close_reach_the_gymnasium_env():
    inner = Drifting()
    with from_gymnasium(inner) as env:
        env.reset(options={"a": 1})
    assert inner.last_options == {"a": 1}
    assert inner.closed == 1
    assert "Drifting" in str(env)


def test_a_copy_is_independent():
    env = from_gymnasium(Drifting())
    env.reset(seed=1)
    twin = pickle.loads(pickle.dumps(env))
    assert_same(env.step(0).observation, twin.step(0).observation)
    assert_same(env.step(0).observation, copy.deepcopy(twin).step(0).observation)


def test_only_a_gymnasium_env_is_taken():
    for wrong in (Draws(), None, gymnasium.make_vec("CartPole-v1", 2)):
        match = r"from_gymnasium: expected a gymnasium.Env \(for a VectorEnv: from_gymnasium_vector\), got"
        with pytest.raises(TypeError, match=match):
            from_gymnasium(wrong)


class Pops(Drifting):
    """Takes its options apart, as gymnasium envs are used to."""

    def reset(self, *, seed=None, options=None):
        self.price = options.pop("prices").pop(0) if options else None
        return super().reset(seed=seed, options=options)


def test_a11_the_options_of_the_caller_stay_as_they_were():
    options = {"prices": [1, 2, 3]}
    env = from_gymnasium(Pops())
    env.reset(options=options)
    assert env.price == 1 and options == {"prices": [1, 2, 3]}
    vec = SyncVecEnv([lambda: from_gymnasium(Pops())] * 3)
    vec.reset(options=options)
    assert vec.get_attr("price") == [1, 1, 1] and options == {"prices": [1, 2, 3]}
    theirs = from_gymnasium_vector(gymnasium.vector.SyncVectorEnv([Pops], autoreset_mode="SameStep"))
    theirs.reset(options=options)
    assert options == {"prices": [1, 2, 3]}


@pytest.mark.parametrize("backend", [SyncVecEnv, sekai.AsyncVecEnv, partial(sekai.ProcVecEnv, num_workers=1)])
def test_a12_one_gymnasium_env_behind_several_sub_envs_is_noticed(backend):
    env = Drifting()
    with pytest.raises(ValueError, match=r"env_fns\[1\] gave the same env object as env_fns\[0\]"):
        backend([lambda: from_gymnasium(env)] * 2)


def test_a12_whatever_is_wrapped_around_it_on_either_side():
    env, toy = Drifting(), Toy(T(3))
    for env_fns in (
        [
            lambda: from_gymnasium(env),
            lambda: sekai.TimeLimit(from_gymnasium(gymnasium.wrappers.OrderEnforcing(env)), 3),
        ],
        [lambda: toy, lambda: from_gymnasium(to_gymnasium(toy))],
        [lambda: from_gymnasium(to_gymnasium(sekai.TimeLimit(toy, 3)))] * 2,
    ):
        with pytest.raises(ValueError, match="gave the same env object"):
            SyncVecEnv(env_fns)


def test_a_gymnasium_env_is_reseeded_in_mid_episode():
    env, twin = from_gymnasium(Drifting()), from_gymnasium(Drifting())
    for each in (env, twin):
        each.reset(seed=1)
    env.reseed(None)
    assert env.rng.random() == twin.rng.random()
    env.reseed(5)
    assert env.rng.random() == gymnasium.utils.seeding.np_random(5)[0].random()


# -- action masks ------------------------------------------------------------------------------------------


class Sized(Corridor):
    action_space = sekai.MultiDiscrete([[3], [2]], start=[[5], [0]])

    def action_mask(self):
        return (super().action_mask(),), ([0, 1],)


class Flagged(Corridor):
    action_space = sekai.MultiBinary(3)

    def action_mask(self):
        return [0, 1, 2]


def at(position, env):
    env.reset(seed=0)
    env.unwrapped.position = position
    return env


def test_masks_are_told_as_flat_arrays_of_bools():
    for kind, expected in (
        (Corridor, [True, True, False]),
        (Sized, [True, True, False, False, True]),
        (Flagged, [True, False, False, True, True, True]),
    ):
        env = gymnasium.wrappers.TimeLimit(to_gymnasium(sekai.TimeLimit(kind(), 9)), 9)
        assert env.has_wrapper_attr("action_masks")
        at(2, env.unwrapped.sekai_env)
        masks = env.get_wrapper_attr("action_masks")()
        assert masks.dtype == np.bool_ and masks.tolist() == expected
    for env in map(to_gymnasium, (Toy(T(3)), Combined(), sekai.make("MarketMaking-v0"))):
        assert not env.has_wrapper_attr("action_masks")


class TheirCorridor(gymnasium.Env):
    """With the method that ``sb3_contrib.MaskablePPO`` looks for."""

    observation_space = gym_spaces.Box(-2.0, 2.0, (1,))
    action_space = gym_spaces.Discrete(3)
    position = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_masks()[action]
        self.position += int(action) - 1
        return np.float32([self.position]), 0.0, False, False, {}

    def action_masks(self):
        return np.array(mask_at(self.position))


def test_masks_of_a_gymnasium_env_are_taken_over():
    env = from_gymnasium(gymnasium.wrappers.TimeLimit(TheirCorridor(), 50))
    assert env.has_action_mask and sekai.check_env(env, n_steps=40) == []
    vec = SyncVecEnv([lambda: sekai.ActionMaskObservation(from_gymnasium(TheirCorridor()))] * 2)
    vec.reset(seed=0)
    vec.step(np.array([2, 1]))
    assert vec.step(np.array([2, 1])).observations["action_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert not from_gymnasium(gymnasium.make("CartPole-v1")).has_action_mask


@pytest.mark.parametrize("kind", [Corridor, Sized, Flagged])
def test_masks_come_back_as_they_were(kind):
    env = at(-2, kind())
    there_and_back = from_gymnasium(to_gymnasium(env))
    mask = sekai.space_utils.as_mask(env.action_space, env.action_mask())
    assert_same(mask, sekai.space_utils.as_mask(env.action_space, there_and_back.action_mask()))


@pytest.mark.parametrize(
    ("masks", "text"),
    [
        (np.ones(4, bool), r"action_masks\(\) of .*: expected shape \(6,\), got \(4,\)"),
        (np.array([1, 1, 0, 0, 1, 1]), r"expected 0 or 1 to be left for each element, got \[1, 1, 0, 0, 1, 1\]"),
    ],
    ids=["shape", "nothing left"],
)
def test_faulty_masks_of_a_gymnasium_env(masks, text):
    theirs = TheirCorridor()
    theirs.action_space, theirs.action_masks = gym_spaces.MultiBinary(3), lambda: masks
    with pytest.raises(ValueError, match=text):
        from_gymnasium(theirs).action_mask()
