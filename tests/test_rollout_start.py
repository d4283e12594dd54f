"""Rollouts that begin with a snapshot: futures from one state, the same however made, and what a record says of it."""

from __future__ import annotations

import itertools
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from test_rollout_compiled import FIELDS, StepByStep
from test_rollout_compiled import lean as quote
from toys import BOX1, Draws
from vector.backends import assert_same, make

import sekai
from sekai import (
    Discrete,
    VecDelayAction,
    VecDelayObservation,
    VecFrameStackObservation,
    VecNormalizeObservation,
    VecObservationWrapper,
    VecRecordEpisodeStatistics,
    VecTransformObservation,
    VecWrapper,
)
from sekai.kernels import jit, streams
from sekai.rollouts import Rollout
from sekai.vector import KernelVecEnv, NativeVecEnv
from sims.market_making import MarketMakingVecEnv, Randomized
from sims.metrics import episodes
from sims.trading import TradingVecEnv

N = 4


class State(NamedTuple):
    wealth: np.float64
    left: np.int64


class Params(NamedTuple):
    drift: float = 0.1
    steps: int = 20


@jit
def reset_row(params, state, random, i):
    state.wealth[i], state.left[i] = streams.normal(random, i), params.steps


@jit
def step_row(params, state, random, i, action):
    gain = params.drift + action * streams.normal(random, i)
    state.wealth[i] += gain
    state.left[i] -= 1
    return gain, state.left[i] == 0, False


@jit
def observe_row(state, i, observation):
    observation[0] = state.wealth[i]


class Rows(KernelVecEnv):
    """A market of one row function; an episode has 20 steps, and the wealth that it begins with is drawn."""

    Params, State = Params, State
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space, infos = BOX1, Discrete(2), ("wealth",)


@jit
def lean(observation, action):
    """Acts where wealth is high."""
    action[0] = observation[0] > 0.0


@jit
def half(observation, action):
    action[0] = 0.5


def rows(n=N, **kwargs):
    return Rows(n, drift=Randomized(0.1, 0.2), **kwargs)


def quoting(n=N, **kwargs):
    return MarketMakingVecEnv(n, n_steps=20, volatility=Randomized(1.0, 2.0), **kwargs)


def trading(n=N):
    return TradingVecEnv(n, lookback=4, episode_length=11, actions="weight")


MARKETS = {"rows": (rows, lean), "quoting": (quoting, quote), "trading": (trading, half)}


class Arrays(NativeVecEnv):
    """Walks that end above their sub-env's number; frozen ones go on where nobody sees it."""

    def __init__(self, n=N, **kwargs):
        super().__init__(n, BOX1, Discrete(2), **kwargs)
        self.level = np.zeros(n)

    def _reset_envs(self, indices, options):
        self.level[indices] = 0.0

    def _observe(self):
        return self.level[:, None]

    def _step(self, actions):
        moved = self.streams
        drawn = np.array([streams.normal(moved, i) for i in range(self.num_envs)])
        self.level = self.level + actions + drawn
        return self.level.copy(), self.level > np.arange(self.num_envs), np.zeros(self.num_envs, bool), {}


def draws(backend):
    return lambda **kwargs: make(backend, [lambda length=n: Draws(length) for n in (3, 5, 50, 7)], **kwargs)


BACKENDS = {"rows": rows, "arrays": Arrays, **{name: draws(name) for name in ("sync", "async", "proc")}}
WRAPPERS = {
    "bare": lambda vec: vec,
    "normalised": VecNormalizeObservation,
    "remembered": lambda vec: VecDelayObservation(VecFrameStackObservation(VecDelayAction(vec, 1), 2), 1),
    "transformed": lambda vec: VecTransformObservation(VecRecordEpisodeStatistics(vec), np.tanh),
}


def seeded_policy(vec):
    """A policy whose actions follow from observations, whatever the spaces."""
    space = vec.batch_action_space

    def act(observations):
        space.seed(int(1000 * float(abs(observations).sum())))
        return space.sample()

    return act


def by_hand(vec, policy, num_steps, seen):
    """The same steps in a loop over ``step()``, from what is seen first on."""
    kept = {name: [] for name in ("observations", "actions", "rewards", "terminated", "truncated")}
    for _ in range(num_steps):
        actions = policy(seen)
        result = vec.step(actions)
        parts = seen, actions, result.rewards, result.terminated, result.truncated
        for column, part in zip(kept.values(), parts, strict=True):
            column.append(part)
        seen = result.observations
    return {**{name: np.array(column) for name, column in kept.items()}, "last_observations": seen}


def case(name, wrapper, autoreset):
    label = f"{name}-{wrapper}-{'autoreset' if autoreset else 'freezing'}"
    is_slow = name == "proc" and (wrapper, autoreset) != ("transformed", False)
    return pytest.param(name, wrapper, autoreset, id=label, marks=[pytest.mark.slow] * is_slow)


@pytest.mark.parametrize(
    "name, wrapper, autoreset", [case(*each) for each in itertools.product(BACKENDS, WRAPPERS, (True, False))]
)
def test_it_goes_on_as_the_snapshot_would_have(name, wrapper, autoreset):
    with WRAPPERS[wrapper](BACKENDS[name](autoreset=autoreset)) as vec:
        policy = seeded_policy(vec)
        seen = vec.reset(seed=3).observations
        for _ in range(6):
            seen = vec.step(policy(seen)).observations
        start = pickle.loads(pickle.dumps(vec.snapshot()))
        was_frozen = vec.frozen
        assert was_frozen.any() or autoreset or name == "rows"
        expected = by_hand(vec, policy, 9, seen)
        with WRAPPERS[wrapper](BACKENDS[name](autoreset=autoreset)) as other:  # never reset
            record = sekai.rollout(other, policy, 9, start=start)
        for part, values in expected.items():
            assert_same(values, getattr(record, part), part)
        assert_same(~was_frozen, record.continued)
        assert record.frozen[:, was_frozen].all()


@pytest.mark.parametrize("rows", [slice(None), 2], ids=["each-its-own", "one-for-all"])
@pytest.mark.parametrize(
    "market", ["rows", *(pytest.param(name, marks=pytest.mark.slow) for name in ("quoting", "trading"))]
)
def test_the_compiled_and_the_stepped_form_give_the_same_numbers(market, rows):
    make_market, policy = MARKETS[market]
    vec, twin = make_market(), make_market()
    sekai.rollout(vec, policy, 7, seed=4, infos=("wealth",), progress=False)
    start = vec.snapshot()[rows]
    rolled = sekai.rollout(vec, policy, 70, start=start, infos=("wealth",), progress=False)
    stepped = sekai.rollout(twin, StepByStep(policy, twin), 70, start=start, infos=("wealth",), progress=False)
    for name in (*FIELDS, "infos", "continued", "history"):
        assert_same(getattr(stepped, name), getattr(rolled, name), name)
    assert len(rolled.episode_ends) >= 2 * N and vec.snapshot(range(N)) == twin.snapshot(range(N))
    if len(start) == 1:
        assert (rolled.rewards == rolled.rewards[:, :1]).all()


def test_futures_with_streams_of_their_own_begin_alike_and_part():
    source, vec = rows(), rows(50)
    roll(source, 7, seed=4)
    vec.restore(source.snapshot(1))
    vec.reseed(7)
    start = vec.snapshot()
    record = sekai.rollout(vec, always, 13, start=start, infos=("wealth",), progress=False)
    assert (record.observations[0] == record.observations[0, 0]).all()
    assert len({*record.infos["wealth"][-1].tolist()}) == 50
    again = sekai.rollout(vec, always, 13, start=start, infos=("wealth",), progress=False)
    assert_same(record.to_dict(), again.to_dict())


def always(observations):
    return np.ones(len(observations), int)


def roll(vec, num_steps, **kwargs):
    return sekai.rollout(vec, lean, num_steps, infos=("wealth",), progress=False, **kwargs)


# -- what is said of episodes that were under way ----------------------------------------------------------------


def test_a_first_episode_is_what_is_left_of_it():
    vec = rows()
    whole = roll(vec, 50, seed=1)
    assert whole.continued is None and whole.episode_is_whole.all()
    roll(vec, 13, seed=1)
    record = roll(vec, 37, start=vec.snapshot())
    assert record.continued.tolist() == [True] * N
    assert record.episode_lengths.tolist() == [7] * N + [20] * N
    assert record.episode_is_whole.tolist() == [False] * N + [True] * N
    assert record.episode_returns[:N] == pytest.approx(whole.rewards[13:20].sum(axis=0), rel=1e-12)
    assert_same(whole.episode_returns[N:], record.episode_returns[N:])
    assert_same(record.continued, record.to_dict()["continued"])
    assert "continued" not in whole.to_dict()
    paths = episodes(record, "wealth", start=None)
    assert_same(whole.infos["wealth"][13:20, 2], paths[2])
    with pytest.raises(ValueError, match=r"episodes\(start\): expected None of a record that begins in the middle of"):
        episodes(record, "wealth", start=0.0)
    assert len(episodes(whole, "wealth", start=0.0)[0]) == 21


@pytest.mark.slow
def test_an_episode_on_a_history_begins_there_where_the_record_goes_on_with_it():
    vec = trading()
    whole = sekai.rollout(vec, half, 11, seed=1, progress=False)
    sekai.rollout(vec, half, 5, seed=1, progress=False)
    record = sekai.rollout(vec, half, 6, start=vec.snapshot(), progress=False)
    assert record.episode_lengths.tolist() == [6] * N
    assert_same(whole.episode_starts + 5, record.episode_starts)


def test_statistics_of_whole_episodes_are_in_the_infos():
    def market():
        return VecRecordEpisodeStatistics(rows())

    vec, other = market(), market()
    roll(vec, 13, seed=1)
    roll(other, 7, start=vec.snapshot())
    roll(vec, 20, seed=1)
    kept, expected = other.tracker.episodes, vec.tracker.episodes
    assert [each.episode_length for each in kept] == [20] * N
    assert [each.episode_return for each in kept] == [each.episode_return for each in expected]


# -- what is refused ---------------------------------------------------------------------------------------------


def test_what_a_snapshot_does_not_go_with():
    vec = rows()
    vec.reset(seed=0)
    start = vec.snapshot()
    vec.step(np.ones(N, int))
    before = vec.snapshot()
    for arguments, error, message in (
        ({"start": start, "seed": 0}, ValueError, r"rollout\(seed=...\): expected None with start=, .* got 0"),
        ({"start": start, "options": {}}, ValueError, r"rollout\(options=...\): expected None with start=, .* got {}"),
        ({"start": 3}, TypeError, r"rollout\(start=...\): expected a Snapshot or None, got 3"),
        ({"start": start[[0, 1]]}, ValueError, r"restore\(snapshot\): expected one of 1 or 4 sub-envs, got one of 2"),
    ):
        with pytest.raises(error, match=message):
            sekai.rollout(vec, lean, 3, progress=False, **arguments)
    assert vec.snapshot() == before


class Noisy(Arrays):
    """Shows its level with noise of its own."""

    def _observe(self):
        made = self.streams
        return self.level[:, None] + np.array([[streams.normal(made, i)] for i in range(self.num_envs)])


class Blurred(Arrays):
    """Likewise, from the generator that all sub-envs share."""

    def _observe(self):
        return self.level[:, None] + self.rng.normal(size=(self.num_envs, 1))


class Own(VecWrapper):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)


class Shifting(VecWrapper):
    def _after_reset(self, result):
        result.observations[:] += 1.0
        return result


class Marking(VecObservationWrapper):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)

    def observation(self, obs):
        return obs


@pytest.mark.parametrize(
    "market, message",
    [
        (Noisy, r"Noisy._observe\(\): expected it to draw nothing"),
        (Blurred, r"Blurred._observe\(\): expected it to draw nothing"),
        (lambda: Own(Arrays()), "Own: expected an _observe_now"),
        (lambda: Shifting(Arrays()), "Shifting: expected an _observe_now"),
        (lambda: Marking(Arrays()), "Marking: expected an _observe_now"),
    ],
    ids=["noisy", "blurred", "own-reset", "after-reset", "observation"],
)
def test_what_does_not_say_what_it_shows_is_named(market, message):
    vec = market()
    vec.reset(seed=0)
    vec.step(np.zeros(N, int))
    start = vec.snapshot()
    with pytest.raises(NotImplementedError, match=message):
        sekai.rollout(vec, lambda seen: np.zeros(N, int), 3, start=start)
    assert vec.snapshot() == start


class Counted(VecObservationWrapper):
    """Counts what it shows, but not the last observations of episodes."""

    def __init__(self, venv):
        super().__init__(venv)
        self.count = np.zeros(self.num_envs)

    def observation(self, obs):
        self.count += 1.0
        return obs + 1.0

    def final_observation(self, obs):
        return obs + 1.0


def test_nothing_is_counted_by_showing_it_again():
    vec = Counted(Arrays())
    vec.reset(seed=0)
    seen = vec.step(np.zeros(N, int)).observations
    record = sekai.rollout(vec, lambda seen: np.zeros(N, int), 3, start=vec.snapshot())
    assert_same(seen, record.observations[0])
    assert vec.count.tolist() == [5.0] * N


def test_the_memory_of_an_earlier_record_is_taken():
    vec = rows()
    used = roll(vec, 9, seed=0)
    start = vec.snapshot()
    fresh = roll(vec, 9, start=start)
    again = roll(vec, 9, start=start, out=used)
    assert isinstance(again, Rollout) and again.rewards is used.rewards
    assert_same(fresh.to_dict(), again.to_dict())
