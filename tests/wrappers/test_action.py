"""Actions that come late, stick or are repeated; and what is warned of around an AutoReset."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from script_env import LINE, ScriptEnv, ends_after

import sekai
from sekai.env import ObservationWrapper, Wrapper
from sekai.errors import InvalidAction
from sekai.results import StepResult
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from sekai.wrappers import (
    AutoReset,
    DelayAction,
    DelayObservation,
    FrameStackObservation,
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    RepeatAction,
    StickyAction,
    TimeLimit,
)

#: A script without an end: an env repeats its last step.
FOREVER = [([0.0], 0.0, False, False, {})]


class Recording(ScriptEnv):
    """Keeps the actions of all steps."""

    def __init__(self, script, action_space):
        super().__init__(script, action_space=action_space)
        self.actions = []

    def step(self, action):
        self.actions.append(np.array(action).tolist())
        return super().step(action)


def acted(drive, env, actions):
    """What an env is stepped with, after a reset."""
    drive.reset(env)
    env.unwrapped.actions.clear()
    for action in actions:
        drive.step(env, action)
    return env.unwrapped.actions


# -- DelayAction -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay, expected", [(0, [1, 2, 3, 4]), (1, [0, 1, 2, 3]), (3, [0, 0, 0, 1]), (9, [0] * 4)])
def test_late_actions(drive, delay, expected):
    env = DelayAction(Recording(ends_after(9), Discrete(5)), delay)
    assert env.delay == delay and env.initial_action == 0
    for _ in range(2):
        assert acted(drive, env, [1, 2, 3, 4]) == expected


def test_late_actions_of_an_env_that_resets_itself(drive):
    env = DelayAction(AutoReset(Recording(ends_after(3), Discrete(9))), 1, initial_action=7)
    assert acted(drive, env, [1, 2, 3, 4, 5]) == [7, 1, 2, 7, 4]


def test_an_action_is_what_it_was_when_it_was_chosen():
    env = DelayAction(Recording(ends_after(9), Box(1.0, 2.0, (1,))), 1)
    env.reset()
    action = np.float32([1.5])
    env.step(action)
    action[:] = 2.0
    env.step(action)
    assert env.unwrapped.actions == [[1.0], [1.5]]


# -- what is not in the space ------------------------------------------------------------------------------

PARTS = Dict({"size": Box(-1.0, 1.0, (2,)), "side": Discrete(3, start=1)})
LATER = {"delay": lambda env: DelayAction(env, 2), "sticky": lambda env: StickyAction(env, 0.5, (1, 3))}
OUTSIDE = {
    "above": (Box(0.0, 1.0, (2,)), np.float32([0.5, 1.5])),
    "nan": (Box(-np.inf, np.inf, (1,)), np.float32([np.nan])),
    "shape": (Box(0.0, 1.0, (2,)), np.float32([0.5])),
    "dtype": (Discrete(3), 1.5),
    "number": (Discrete(3), 3),
    "item": (MultiDiscrete([2, 3]), np.array([1, 3])),
    "bits": (MultiBinary(2), [0, 2]),
    "part": (PARTS, {"size": np.zeros(2, np.float32), "side": 0}),
    "key": (PARTS, {"size": np.zeros(2, np.float32)}),
}


@pytest.mark.parametrize("wrap", LATER.values(), ids=LATER)
@pytest.mark.parametrize(("space", "wrong"), OUTSIDE.values(), ids=OUTSIDE)
def test_an_action_that_is_not_in_the_space_is_refused_at_once_and_changes_nothing(drive, wrap, space, wrong):
    env, other = (wrap(Recording(FOREVER, space)) for _ in range(2))
    space.seed(0)
    given = [space.sample() for _ in range(8)]
    for each in (env, other):
        drive.reset(each, seed=1)
        drive.step(each, given[0])
    for action in given[1:]:
        with pytest.raises(InvalidAction, match=r"Action: step\(action\): expected an element of .*, got "):
            drive.step(env, wrong)
        drive.step(env, action), drive.step(other, action)
    assert str(env.unwrapped.actions) == str(other.unwrapped.actions) and len(env.unwrapped.actions) == 8


@pytest.mark.parametrize("wrap", LATER.values(), ids=LATER)
def test_what_is_in_the_space_once_it_is_cast_arrives_as_it_was_chosen(wrap):
    env = wrap(Recording(FOREVER, Box(0.0, 1.0, (2,))))
    env.reset(seed=1)
    env.step(np.array([0.5, 1.0 + 1e-12]))
    env.step([0, 1])
    env.step((0.25, 1)), env.step(np.float32([0, 0]))
    assert [0.5, 1.0 + 1e-12] in env.unwrapped.actions


# -- StickyAction ------------------------------------------------------------------------------------------


def test_an_action_sticks_as_often_as_it_should_and_the_first_never():
    env = StickyAction(Recording(FOREVER, Discrete(10**6)), 0.25)
    env.reset(seed=0)
    for k in range(4000):
        env.step(k)
    stuck = np.array(env.unwrapped.actions) != np.arange(4000)
    assert not stuck[0] and 0.22 < stuck.mean() < 0.28
    last = np.maximum.accumulate(np.where(stuck, 0, np.arange(4000)))
    assert env.unwrapped.actions == last.tolist()


def test_an_action_sticks_for_as_long_as_it_should():
    env = StickyAction(Recording(FOREVER, Discrete(10**6)), 0.1, (2, 4))
    env.reset(seed=0)
    for k in range(4000):
        env.step(k)
    free = np.flatnonzero(np.array(env.unwrapped.actions) == np.arange(4000))
    runs = np.diff(free) - 1
    assert set(runs[runs > 0].tolist()) >= {2, 3, 4} and runs[runs > 0].min() == 2
    assert 0.06 < (runs > 0).mean() < 0.14


def test_sticking_ends_with_the_episode(drive):
    env = StickyAction(AutoReset(Recording(ends_after(3), Discrete(100))), 0.9, 50)
    drive.reset(env, seed=0)
    for k in range(12):
        drive.step(env, k)
    assert env.unwrapped.actions[::3] == [0, 3, 6, 9]


class Drawing(Recording):
    """Shows draws from its generator."""

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.rng.random()
        return super().reset(options=options)

    def step(self, action):
        super().step(action)
        return StepResult(self.rng.random(1), 0.0, False, False, {})


@pytest.mark.parametrize("make_seed", [lambda: 5, lambda: np.random.default_rng(5)], ids=["integer", "generator"])
@pytest.mark.parametrize("begin", ["reset", "reseed"])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_env_draws_what_it_would_without(drive, make_seed, begin, layers):
    bare, env = Drawing(FOREVER, Discrete(9)), Drawing(FOREVER, Discrete(9))
    sticky = env
    for _ in range(layers):
        sticky = StickyAction(sticky, 0.9)
    seeds = [make_seed() for _ in range(2)]
    for each, seed in zip((bare, sticky), seeds, strict=True):
        drive.reset(each, seed=1 if begin == "reseed" else seed)
        if begin == "reseed":
            each.reseed(seed)
    assert [drive.step(bare).observation for _ in range(9)] == [drive.step(sticky).observation for _ in range(9)]
    if isinstance(seeds[0], np.random.Generator):
        assert env.rng is seeds[1] and seeds[0].random() == seeds[1].random()


def test_reseeding_and_generators():
    def run(begin):
        env = StickyAction(Recording(ends_after(99), Discrete(100)), 0.5)
        begin(env)
        env.unwrapped.actions.clear()
        for k in range(40):
            env.step(k)
        return env.unwrapped.actions

    def reseeded(env):
        env.reset(seed=1)
        env.reseed(3)

    assert run(lambda env: env.reset(seed=3)) == run(reseeded) != run(lambda env: env.reset(seed=1))
    one, other = (run(lambda env: env.reset(seed=np.random.default_rng(5))) for _ in range(2))
    assert one == other
    assert run(lambda env: env.reset()) != run(lambda env: env.reset())


def test_a_generator_that_an_env_draws_nothing_from_gives_each_episode_and_each_sub_env_its_own():
    generator = np.random.default_rng(5)
    envs = [Recording(FOREVER, Discrete(100)) for _ in range(2)]
    stuck = []
    with sekai.SyncVecEnv([lambda env=env: StickyAction(env, 0.5) for env in envs]) as vec:
        for _ in range(2):
            for env in envs:
                env.actions.clear()
            vec.reset(seed=[generator] * 2)
            for k in range(40):
                vec.step([k, k])
            stuck += [tuple(env.actions) for env in envs]
    assert len(set(stuck)) == 4


def test_a_generator_without_a_seed_sequence_is_drawn_from():
    class Counting:
        """Seeds as NumPy asks for them, and has no children."""

        def generate_state(self, n_words, dtype=np.uint32):
            return np.arange(n_words, dtype=dtype)

    np.random.bit_generator.ISeedSequence.register(Counting)
    generator, other = (np.random.Generator(np.random.PCG64(Counting())) for _ in range(2))
    StickyAction(Recording(FOREVER, Discrete(100)), 0.5).reset(seed=generator)
    assert generator.random() != other.random()


@pytest.mark.parametrize("seed", [1, np.random.default_rng(1)], ids=["integer", "generator"])
def test_one_around_another_draws_by_itself(seed):
    env = StickyAction(StickyAction(Recording(FOREVER, Discrete(10**6)), 0.5), 0.5)
    env.reset(seed=seed)
    for k in range(400):
        env.step(k)
    assert (np.array(env.unwrapped.actions) != np.arange(400)).mean() > 0.68


def test_the_seed_decides_and_snapshots_go_on():
    def run(env):
        for k in range(40):
            env.step(k)
        return env.unwrapped.actions

    envs = [StickyAction(Recording(ends_after(99), Discrete(100)), 0.5, (1, 3)) for _ in range(3)]
    for env, seed in zip(envs, (3, 3, 4), strict=True):
        env.reset(seed=seed)
    kept = envs[0].snapshot()
    first, again, other = (list(run(env)) for env in envs)
    assert first == again != other
    envs[2].restore(kept)
    assert run(envs[2]) == first


WRONG = {
    "below": ((-0.1,), ValueError, "expected a repeat_action_probability of at least 0 and below 1, got -0.1"),
    "certain": ((1.0,), ValueError, "expected a repeat_action_probability of at least 0 and below 1, got 1.0"),
    "nan": ((np.nan,), ValueError, "expected a repeat_action_probability of at least 0"),
    "text": (("often",), TypeError, "expected a repeat_action_probability that is a number, got 'often'"),
    "never": ((0.5, 0), ValueError, "repeat_action_duration: expected at least 1, got 0"),
    "order": ((0.5, (3, 2)), ValueError, r"expected a repeat_action_duration \(least, most\) in order"),
    "too long": ((0.5, (1, 2**31)), ValueError, "expected a repeat_action_duration below 2147483648"),
    "three": ((0.5, (1, 2, 3)), ValueError, "expected a repeat_action_duration, or the least and the most"),
    "float": ((0.5, 1.5), TypeError, "repeat_action_duration: expected an integer, got float"),
}


@pytest.mark.parametrize("args, error, message", WRONG.values(), ids=WRONG)
def test_wrong_chances(args, error, message):
    with pytest.raises(error, match=f"^StickyAction: {message}"):
        StickyAction(ScriptEnv(ends_after(1)), *args)


# -- RepeatAction ------------------------------------------------------------------------------------------


def test_repeated_actions(drive):
    script = [([float(k)], 10.0**k, k == 4, False, {"k": k}) for k in range(5)]
    env = RepeatAction(Recording(script, Discrete(9)), 2)
    drive.reset(env)
    results = [drive.step(env, action) for action in (3, 4, 5)]
    assert env.unwrapped.actions == [3, 3, 4, 4, 5]
    assert [result.reward for result in results] == [11.0, 1100.0, 10000.0]
    assert [result.observation.tolist() for result in results] == [[1.0], [3.0], [4.0]]
    assert [result.terminated for result in results] == [False, False, True]
    assert [result.info for result in results] == [{"k": 1}, {"k": 3}, {"k": 4}]


def test_repeats_stop_where_an_env_resets_itself(drive):
    env = RepeatAction(AutoReset(Recording(ends_after(3), Discrete(9))), 2)
    drive.reset(env)
    results = [drive.step(env) for _ in range(3)]
    assert [result.reward for result in results] == [2.0, 1.0, 2.0]
    assert results[1].info["final_observation"] == [3.0] and results[1].observation == [0.0]


def test_counts_are_checked():
    with pytest.raises(ValueError, match="^RepeatAction: num_repeats: expected at least 1, got 0"):
        RepeatAction(ScriptEnv(ends_after(1)), 0)
    with pytest.raises(ValueError, match="^DelayAction: delay: expected at least 0, got -1"):
        DelayAction(ScriptEnv(ends_after(1)), -1)
    with pytest.raises(ValueError, match=r"^DelayAction: expected an initial_action in Discrete\(2\), got 5"):
        DelayAction(ScriptEnv(ends_after(1)), 1, initial_action=5)


# -- around an AutoReset -----------------------------------------------------------------------------------


class Counting(ObservationWrapper):
    """Counts the steps of an episode, as one that asks its reset() for it."""

    steps = 0

    def observation(self, obs):
        return obs + self.steps

    def step(self, action):
        self.steps += 1
        return super().step(action)

    def reset(self, **kwargs):
        self.steps = 0
        return super().reset(**kwargs)


class CountingAsync(Wrapper):
    async def async_reset(self, **kwargs):
        return await super().async_reset(**kwargs)


class Halving(Wrapper):
    """Keeps nothing."""

    def step(self, action):
        result = self.env.step(action)
        return StepResult(result.observation, result.reward / 2, result.terminated, result.truncated, result.info)


@pytest.mark.parametrize(
    "wrap", [Counting, CountingAsync, lambda env: TimeLimit(env, 5)], ids=["reset", "async_reset", "limit"]
)
@pytest.mark.parametrize("between", [lambda env: env, OrderEnforcing], ids=["next to it", "further in"])
def test_what_an_autoreset_inside_passes_by_is_warned_of(wrap, between):
    with pytest.warns(UserWarning, match=r"around AutoReset: expected AutoReset outermost, got it inside") as warned:
        wrap(between(AutoReset(ScriptEnv(ends_after(2)))))
    assert len(warned) == 1
    AutoReset(wrap(between(ScriptEnv(ends_after(2)))))  # says nothing


class Remembering(Counting):
    def __init__(self, env, more=0):
        super().__init__(env)
        self.steps = more


class RememberingMore(Remembering):
    def __init__(this, env):  # by another name, and kept in a cell
        super().__init__(env, 1)
        this.again = lambda: this


WARNED = {
    "no __init__": lambda env: Counting(env),
    "one": lambda env: Remembering(env),
    "two": lambda env: RememberingMore(env),
    "of the kit": lambda env: TimeLimit(env, 5),
}


@pytest.mark.parametrize("wrap", WARNED.values(), ids=WARNED)
def test_the_warning_points_at_the_line_that_wraps(wrap):
    with pytest.warns(UserWarning, match="around AutoReset") as warned:
        wrap(AutoReset(ScriptEnv(ends_after(2))))
    assert (warned[0].filename, warned[0].lineno) == (__file__, wrap.__code__.co_firstlineno)


def test_the_warning_points_at_the_line_that_makes_an_env_with_wrappers():
    wrappers = (sekai.WrapperSpec("AutoReset", AutoReset), sekai.WrapperSpec("Counting", Counting))
    sekai.register("WalksInside-v0", lambda: ScriptEnv(ends_after(2)), additional_wrappers=wrappers)
    try:
        with pytest.warns(UserWarning, match="around AutoReset") as warned:
            line = inspect.currentframe().f_lineno + 1
            sekai.make("WalksInside-v0")
    finally:
        sekai.deregister("WalksInside-v0")
    assert (warned[0].filename, warned[0].lineno) == (__file__, line)


FOLLOWING = {
    "stateless": Halving,
    "stack": lambda env: FrameStackObservation(env, 2),
    "delay": lambda env: DelayObservation(env, 2),
    "sticky": lambda env: StickyAction(env, 0.5),
    "latency": lambda env: DelayAction(env, 1),
    "statistics": RecordEpisodeStatistics,
    "reward": NormalizeReward,
    "autoreset": AutoReset,
}


@pytest.mark.parametrize("wrap", FOLLOWING.values(), ids=FOLLOWING)
def test_what_follows_an_autoreset_inside_is_not(wrap):
    assert wrap(AutoReset(ScriptEnv(ends_after(2)))).observation_space.shape[-1:] == LINE.shape
