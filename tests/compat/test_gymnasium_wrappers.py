"""The kit's wrappers against gymnasium's of the same names, around the same env."""

from __future__ import annotations

import inspect

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium import wrappers as theirs
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as theirs_of_many

import sekai
from sekai.compat.gymnasium import from_gymnasium, from_gymnasium_vector

BOX = spaces.Box(np.float32([0, -1, -4]), np.float32([8, 1, 4]))
OPEN = spaces.Box(np.float32([0, -np.inf, -np.inf]), np.float32([np.inf, 3, np.inf]))
NAMED = spaces.Dict(a=spaces.Box(0, 1, (2, 2)), b=spaces.Discrete(3), c=spaces.Dict(d=spaces.MultiBinary(2)))
PLACED = spaces.Tuple((spaces.Discrete(5), BOX, spaces.MultiDiscrete([2, 3])))


class Showing(gymnasium.Env):
    """Observes draws from its space, ends after four steps, and keeps the actions it was stepped with."""

    def __init__(self, space=BOX, action_space=None, drawn=True):
        self.observation_space = space
        self.action_space = spaces.Discrete(4000) if action_space is None else action_space
        self.drawn = drawn
        self.acted = []
        self.episodes = 0

    def observe(self):
        self.observation_space.seed(100 * self.episodes + self.steps)
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.acted.append(np.array(action).tolist())
        return self.observe(), 2.0 * self.steps - 5.0, self.steps == 4 and self.drawn, False, {}


#: By name: the space, the class's arguments.
OBSERVATIONS = {
    "rescale": (BOX, "RescaleObservation", (np.float32([-1, 0, 1]), np.float32([1, 2, 3])), {}),
    "rescale_open": (
        OPEN,
        "RescaleObservation",
        (np.float32([1, -np.inf, -np.inf]), np.float32([np.inf, 5, np.inf])),
        {},
    ),
    "dtype": (BOX, "DtypeObservation", (np.int32,), {}),
    "dtype_of_numbers": (spaces.Discrete(5, start=2), "DtypeObservation", (np.float32,), {}),
    "dtype_of_several": (spaces.MultiDiscrete([3, 4]), "DtypeObservation", (np.int32,), {}),
    "dtype_of_binary": (spaces.MultiBinary(3), "DtypeObservation", (np.float64,), {}),
    "filter": (NAMED, "FilterObservation", (["c", "a"],), {}),
    "filter_places": (PLACED, "FilterObservation", ([2, 0],), {}),
    "flatten": (spaces.Box(0, 1, (2, 2)), "FlattenObservation", (), {}),
    "flatten_names": (NAMED, "FlattenObservation", (), {}),
    "flatten_places": (PLACED, "FlattenObservation", (), {}),
    "time": (BOX, "TimeAwareObservation", (), {}),
    "time_share": (BOX, "TimeAwareObservation", (True, True), {}),
    "time_in_parts": (NAMED, "TimeAwareObservation", (), {"dict_time_key": "when"}),
    "time_beside": (BOX, "TimeAwareObservation", (False,), {}),
    "time_in_a_dict": (NAMED, "TimeAwareObservation", (False, True), {}),
    "time_in_a_tuple": (PLACED, "TimeAwareObservation", (False,), {}),
    "stack": (BOX, "FrameStackObservation", (3,), {}),
    "stack_zero": (NAMED, "FrameStackObservation", (2,), {"padding_type": "zero"}),
    "stack_given": (BOX, "FrameStackObservation", (3,), {"padding_type": np.float32([1, 0, 2])}),
    "delay": (PLACED, "DelayObservation", (2,), {}),
    "no_delay": (BOX, "DelayObservation", (0,), {}),
}
each_observation = pytest.mark.parametrize("space, name, args, kwargs", OBSERVATIONS.values(), ids=OBSERVATIONS)


def alike(expected, got):
    """The same numbers in the same places; of one vector, in whatever float it is."""
    if isinstance(expected, dict):
        assert expected.keys() == got.keys()
        for key in expected:
            alike(expected[key], got[key])
    elif isinstance(expected, tuple):
        assert len(expected) == len(got)
        for one, other in zip(expected, got, strict=True):
            alike(one, other)
    else:
        one, other = np.asarray(expected), np.asarray(got)
        assert one.shape == other.shape and one.dtype.kind == other.dtype.kind
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)


def limited(space):
    """The env with a limit, by gymnasium and by the kit."""
    return theirs.TimeLimit(Showing(space), 3), sekai.TimeLimit(from_gymnasium(Showing(space)), 3)


@each_observation
def test_one_env_shows_what_it_does_there(space, name, args, kwargs):
    inner, outer = limited(space)
    env, ours = getattr(theirs, name)(inner, *args, **kwargs), getattr(sekai, name)(outer, *args, **kwargs)
    for seed in (1, None):
        alike(env.reset(seed=seed)[0], ours.reset(seed=seed).observation)
        for _ in range(3):
            step = ours.step(0)
            alike(env.step(0)[0], step.observation)
            assert step.observation in ours.observation_space
    space = env.observation_space
    if isinstance(space, spaces.Box):  # the bounds are the same
        alike((space.low, space.high), (ours.observation_space.low, ours.observation_space.high))


def test_the_time_comes_last_in_a_vector_where_gymnasium_sorts_it_in():
    space = spaces.Dict(position=spaces.Box(2, 3, (1,)), wealth=spaces.Box(5, 6, (1,)))
    inner, outer = limited(space)
    sorted_in, last = theirs.TimeAwareObservation(inner), sekai.TimeAwareObservation(outer)
    vec = sekai.VecTimeAwareObservation(sekai.SyncVecEnv([lambda: limited(space)[1]]))
    assert vec.observation_space == last.observation_space
    for each in (sorted_in, last, vec):
        each.reset()
    for _ in range(2):
        position, time, wealth = sorted_in.step(0)[0]
        alike(np.float32([position, wealth, time]), last.step(0).observation)
        alike(np.float32([[position, wealth, time]]), vec.step([0]).observations)
    bounds = sorted_in.observation_space.high[[0, 2, 1]]
    alike(bounds, last.observation_space.high)


@pytest.mark.parametrize(
    "space, name, args, kwargs",
    [each for each in OBSERVATIONS.values() if hasattr(theirs_of_many, each[1])],
    ids=[key for key, each in OBSERVATIONS.items() if hasattr(theirs_of_many, each[1])],
)
def test_many_show_what_they_do_there(space, name, args, kwargs):
    envs = SyncVectorEnv([lambda: Showing(space)] * 3, autoreset_mode=AutoresetMode.DISABLED)
    wrapped = getattr(theirs_of_many, name)(envs, *args, **kwargs)
    vec = sekai.SyncVecEnv([lambda: from_gymnasium(Showing(space))] * 3, autoreset=False)
    ours = getattr(sekai, f"Vec{name}")(vec, *args, **kwargs)
    with ours:
        alike(wrapped.reset(seed=1)[0], ours.reset(seed=1).observations)
        for _ in range(3):
            alike(wrapped.step(np.zeros(3, int))[0], ours.step([0, 0, 0]).observations)


class Told(Showing):
    """Knows its limit itself."""

    def __init__(self):
        super().__init__()
        self.max_episode_steps = 6


class Specified(Showing):
    """Has a limit by its spec alone."""

    spec = gymnasium.envs.registration.EnvSpec("Specified-v0", Showing, max_episode_steps=40)


LIMITED = {
    "made": (lambda: gymnasium.make("CartPole-v1"), 500),
    "made_otherwise": (lambda: theirs.TimeLimit(gymnasium.make("CartPole-v1"), 30), 30),
    "specified": (Specified, 40),
    "wrapped": (lambda: theirs.OrderEnforcing(theirs.TimeLimit(Showing(), 7)), 7),
    "told": (Told, 6),
}
each_limited = pytest.mark.parametrize("make, limit", LIMITED.values(), ids=LIMITED)


@each_limited
def test_the_limit_of_steps_is_gymnasium_s(make, limit):
    ours = sekai.TimeAwareObservation(sekai.OrderEnforcing(from_gymnasium(make())))
    assert ours.max_timesteps == ours.env.get_attr("max_episode_steps") == limit
    with sekai.SyncVecEnv([lambda: from_gymnasium(make())] * 2) as vec:
        assert sekai.VecTimeAwareObservation(vec).max_timesteps == limit


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@each_limited
def test_so_is_that_of_many(kind, make, limit):
    with from_gymnasium_vector(kind([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP)) as vec:
        if make is Specified:  # of which gymnasium's vector environment knows nothing
            with pytest.raises(ValueError, match="expected one limit of steps for all sub-envs"):
                sekai.VecTimeAwareObservation(vec)
        else:
            assert sekai.VecTimeAwareObservation(vec).max_timesteps == limit
            assert vec.get_attr("max_episode_steps", [1]) == [limit]


def test_the_limit_of_a_vector_env_s_own_spec():
    envs = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    with from_gymnasium_vector(envs, autoreset=False) as vec:
        assert sekai.VecTimeAwareObservation(vec, normalize_time=True).max_timesteps == 500


def test_a_limit_that_only_gymnasium_knows_stays():
    env, own = from_gymnasium(theirs.TimeLimit(Showing(), 7)), from_gymnasium(Told())
    with pytest.raises(AttributeError, match="max_episode_steps: expected an attribute of the gymnasium env, .* none"):
        env.set_attr("max_episode_steps", 9)
    own.set_attr("max_episode_steps", 9)
    assert (env.max_episode_steps, own.max_episode_steps, own.unwrapped.gymnasium_env.max_episode_steps) == (7, 9, 9)
    assert not from_gymnasium(Showing()).has_attr("max_episode_steps")
    with from_gymnasium_vector(SyncVectorEnv([Showing], autoreset_mode=AutoresetMode.SAME_STEP)) as vec:
        with pytest.raises(AttributeError, match="max_episode_steps"):
            vec.get_attr("max_episode_steps")
        with pytest.raises(AttributeError, match="max_episode_steps"):
            vec.set_attr("max_episode_steps", 3)


def test_the_time_of_a_made_env_is_that_of_gymnasium():
    env = theirs.TimeAwareObservation(gymnasium.make("CartPole-v1"))
    ours = sekai.TimeAwareObservation(from_gymnasium(gymnasium.make("CartPole-v1")))
    alike(env.reset(seed=3)[0], ours.reset(seed=3).observation)
    for action in (0, 1, 1):
        alike(env.step(action)[0], ours.step(action).observation)


REWARDS = [(-1.0, 2.0), (None, 0.0), (0, None), (np.array(-1.0), np.array(2.0))]


@pytest.mark.parametrize("bounds", REWARDS, ids=str)
def test_clipped_rewards(bounds):
    env, ours = theirs.ClipReward(Showing(), *bounds), sekai.ClipReward(from_gymnasium(Showing()), *bounds)
    envs = theirs_of_many.ClipReward(SyncVectorEnv([Showing] * 2, autoreset_mode=AutoresetMode.SAME_STEP), *bounds)
    vec = sekai.VecClipReward(sekai.SyncVecEnv([lambda: from_gymnasium(Showing())] * 2), *bounds)
    for each in (env, ours, envs, vec):
        each.reset()
    for _ in range(4):
        assert env.step(0)[1] == ours.step(0).reward
        assert envs.step(np.zeros(2, int))[1].tolist() == vec.step([0, 0]).rewards.tolist()


@pytest.mark.parametrize("duration", [1, (2, 5)], ids=str)
def test_sticky_actions_stick_as_often_and_as_long(duration):
    """By chances of their own: gymnasium's wrapper takes them from the env's stream."""
    inner, other = Showing(drawn=False), Showing(drawn=False)
    env, ours = theirs.StickyAction(inner, 0.3, duration), sekai.StickyAction(from_gymnasium(other), 0.3, duration)
    env.reset(seed=4), ours.reset(seed=4)
    for k in range(4000):
        env.step(k), ours.step(k)
    stuck, also = (np.array(each.acted) != np.arange(4000) for each in (inner, other))
    assert abs(stuck.mean() - also.mean()) < 0.04
    np.testing.assert_array_equal(other.acted, np.maximum.accumulate(np.where(also, 0, np.arange(4000))))
    lengths = [set((np.diff(np.flatnonzero(~each)) - 1).tolist()) for each in (stuck, also)]
    assert min(lengths[0] - {0}) == min(lengths[1] - {0}) == np.min(duration)


def test_repeated_actions():
    env, ours = theirs.RepeatAction(Showing(), 3), sekai.RepeatAction(from_gymnasium(Showing()), 3)
    env.reset(), ours.reset()
    for _ in range(2):
        observation, reward, terminated, truncated, _ = env.step(0)
        step = ours.step(0)
        alike(observation, step.observation)
        assert (reward, terminated, truncated) == (step.reward, step.terminated, step.truncated)


def test_what_is_reversed_is_what_gymnasium_s_action_would_become():
    space = spaces.Box(np.float32([0, -3]), np.float32([1, 5]))
    inner = Showing(action_space=space, drawn=False)
    env = theirs.RescaleAction(inner, np.float32([-1, 0]), np.float32([1, 2]))
    ours = sekai.RescaleAction(from_gymnasium(Showing(action_space=space)), [-1, 0], [1, 2])
    env.reset()
    env.action_space.seed(0)
    for _ in range(20):
        action = env.action_space.sample()
        env.step(action)
        reached = np.clip(np.float32(inner.acted[-1]), space.low, space.high)
        np.testing.assert_allclose(ours.reverse_action(reached), action, rtol=1e-5, atol=1e-6)


ACTIONS = spaces.Box(np.float32([0, -3]), np.float32([1, 5]))
BOUNDS = {"ClipAction": (), "RescaleAction": (np.float32([-1, 0]), np.float32([1, 2]))}


@pytest.mark.parametrize("name", BOUNDS)
def test_actions_arrive_as_they_do_there(name):
    args = BOUNDS[name]
    inner, other = (Showing(action_space=ACTIONS, drawn=False) for _ in range(2))
    env, ours = getattr(theirs, name)(inner, *args), getattr(sekai, name)(from_gymnasium(other), *args)
    many, others = ([Showing(action_space=ACTIONS, drawn=False) for _ in range(2)] for _ in range(2))
    envs = SyncVectorEnv([lambda env=each: env for each in many], autoreset_mode=AutoresetMode.DISABLED)
    envs = getattr(theirs_of_many, name)(envs, *args)
    vec = sekai.SyncVecEnv([lambda env=each: from_gymnasium(env) for each in others])
    vec = getattr(sekai, f"Vec{name}")(vec, *args)
    for each in (env, ours, envs, vec):
        each.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(*((-9, 9) if name == "ClipAction" else args), size=2).astype(np.float32)
        env.step(action), ours.step(action)
        envs.step(np.stack([action] * 2)), vec.step(np.stack([action] * 2))
    for acted in (other.acted, *(each.acted for each in (*many, *others))):
        np.testing.assert_allclose(acted, inner.acted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [([0, 0], [1, np.inf], ([-1, 0], [1, np.inf])), ([-np.inf, 0], [0, 1], ([-np.inf, 0], [1, 1]))],
    ids=["above", "below"],
)
def test_open_sides_of_actions_are_refused_where_gymnasium_leaves_them(low, high, bounds):
    space = spaces.Box(np.float32(low), np.float32(high))
    bounds = tuple(map(np.float32, bounds))
    theirs.RescaleAction(Showing(action_space=space), *bounds)
    with pytest.raises(ValueError, match="RescaleAction: expected a bounded action space"):
        sekai.RescaleAction(from_gymnasium(Showing(action_space=space)), *bounds)


def test_what_lies_outside_is_refused_where_gymnasium_hands_it_on():
    inner, other = Showing(action_space=ACTIONS), Showing(action_space=ACTIONS)
    env, ours = (
        theirs.RescaleAction(inner, np.float32(-1), np.float32(1)),
        sekai.RescaleAction(from_gymnasium(other), -1.0, 1.0),
    )
    env.reset(), ours.reset()
    env.step(np.float32([2, 0]))
    assert inner.acted == [[1.5, 1.0]]
    with pytest.raises(sekai.InvalidAction, match="RescaleAction: expected an action in"):
        ours.step(np.float32([2, 0]))
    sekai.ClipAction(ours).step(np.float32([2, 0]))
    assert other.acted == [[1.0, 1.0]]


def test_one_number_for_all_observations_is_refused_where_gymnasium_shows_it():
    theirs.RescaleObservation(Showing(), np.float32(1), np.float32(1))
    with pytest.raises(ValueError, match="expected min_obs < max_obs, got 1.0 and 1.0"):
        sekai.RescaleObservation(from_gymnasium(Showing()), 1.0, 1.0)


# -- how they are made -------------------------------------------------------------------------------------

#: Arguments after the env that differ, as the docs say: the kit's, gymnasium's.
OTHER_ARGUMENTS = {
    "OrderEnforcing": ([], ["disable_render_order_enforcing"]),
    "RecordEpisodeStatistics": (["tracker", "deque_size"], ["buffer_length", "stats_key"]),
    "TransformObservation": (["func", "new_observation_space"], ["func", "observation_space"]),
    "VecRecordEpisodeStatistics": (["tracker", "deque_size"], ["buffer_length", "stats_key"]),
    "VecTransformObservation": (
        ["func", "new_observation_space"],
        ["func", "observation_space", "single_observation_space"],
    ),
}


def shared_wrappers():
    """The wrappers of one env and of a batch that both have, by the kit's names."""
    for name in sekai.__all__:
        kind = getattr(sekai, name)
        if isinstance(kind, type) and issubclass(kind, (sekai.Wrapper, sekai.VecWrapper)):
            is_of_many = issubclass(kind, sekai.VecWrapper)
            home, its_name = (theirs_of_many, name.removeprefix("Vec")) if is_of_many else (theirs, name)
            if hasattr(home, its_name):
                yield name, kind, getattr(home, its_name)


SHARED = list(shared_wrappers())


def test_shared_wrappers_are_found():
    names = [name for name, _, _ in SHARED]
    assert len(names) >= 25 and {"StickyAction", "TimeLimit", "VecClipReward", *OTHER_ARGUMENTS} <= {*names}


@pytest.mark.parametrize("name, kind, there", SHARED, ids=[name for name, _, _ in SHARED])
def test_a_wrapper_takes_the_arguments_of_gymnasium_s(name, kind, there):
    env, *own = inspect.signature(kind).parameters.values()
    env_there, *arguments = inspect.signature(there).parameters.values()
    assert (env.name, env_there.name) == ("venv" if name.startswith("Vec") else "env", "env")
    known = [each.name for each in arguments]
    own = [each for each in own if each.name in known or each.kind is not each.KEYWORD_ONLY]  # more of these may be
    if name in OTHER_ARGUMENTS:
        assert ([each.name for each in own], [each.name for each in arguments]) == OTHER_ARGUMENTS[name]
        return
    described = [[(each.name, each.kind, each.default) for each in these] for these in (own, arguments)]
    assert described[0] == described[1]
