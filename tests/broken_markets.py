"""One good small market, and one for each fault that ``check_vec_env`` knows: the good one with exactly that fault."""

from __future__ import annotations

import random
from dataclasses import replace

import numba
import numpy as np

from sekai.errors import InvalidAction
from sekai.kernels import get_num_threads, jit, jit_batch
from sekai.kernels.streams import Streams, philox, uniform, uniform_of
from sekai.spaces import Box, Dict, Discrete, Sequence, Tuple
from sekai.vector import NativeVecEnv


@jit
def move_row(level, push, word):
    return 0.9 * level + push + 0.2 * (uniform_of(word) - 0.5)


@jit_batch()
def advance_good(streams, level, push, new_level, reward):
    for i in range(len(level)):
        word, _, _, _ = philox(streams.key[i], streams.counter[i])
        streams.counter[i] += np.uint64(1)
        new_level[i] = move_row(level[i], push[i], word)
        reward[i] = -new_level[i] * new_level[i]


@jit
def start_rows(streams, indices, level):
    for i in indices:
        level[i] = uniform(streams, i) - 0.5


class GoodVec(NativeVecEnv):
    """A level that decays and is pushed about; episodes end outside of [-1.5, 1.5], or after twelve steps."""

    def __init__(self, num_envs, **kwargs):
        space = Box(-10.0, 10.0, (2,), np.float32)
        super().__init__(num_envs, space, Box(-1.0, 1.0, (1,), np.float32), **kwargs)
        self.level = np.zeros(num_envs)
        self.age = np.zeros(num_envs, dtype=np.int64)

    def _reset_envs(self, indices, options):
        self.level = self.level.copy()
        start_rows(self.streams, indices, self.level)
        self.age[indices] = 0

    def _observe(self):
        return np.column_stack([self.level, self.age / 12]).astype(np.float32)

    def _push(self, actions):
        return actions[:, 0].astype(np.float64)

    def _advance(self, push):
        """New levels and the rewards."""
        level, rewards = np.empty(self.num_envs), np.empty(self.num_envs)
        advance_good(self.streams, self.level, push, level, rewards)
        return level, rewards

    def _check(self, actions):
        if np.isnan(actions).any():
            raise InvalidAction("expected a number, got nan")

    def _step(self, actions):
        self._check(actions)
        self.level, rewards = self._advance(self._push(actions))
        self.age = self.age + 1
        return rewards, np.abs(self.level) > 1.5, self.age >= 12, {"level": self.level, "age": self.age}

    def _reset_infos(self, indices):
        return {"age": self.age[indices]}


class NestedVec(NativeVecEnv):
    """Observations that are a dict, a space without a fixed layout among them; episodes of five steps."""

    def __init__(self, num_envs, **kwargs):
        space = Dict(a=Box(0.0, 9.0, (), np.float64), c=Sequence(Discrete(3)))
        super().__init__(num_envs, space, Tuple([Discrete(3)]), **kwargs)
        self.age = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.age[indices] = 0.0

    def _observe(self):
        return {"a": self.age, "c": [(np.int64(0),) * int(age) for age in self.age]}

    def _step(self, actions):
        if not self.action_space.contains((actions[0][0],)):
            raise InvalidAction("expected 0, 1 or 2")
        self.age += 1.0
        infos = {"tags": np.array(["x"] * self.num_envs)}
        return actions[0].astype(float), self.age == 5, np.zeros(self.num_envs, bool), infos


# -- shapes, dtypes, values --------------------------------------------------------------------------------


class WrongObservationShape(GoodVec):
    def _observe(self):
        return super()._observe()[:, :1]


class WrongInfoLength(GoodVec):
    def _step(self, actions):
        rewards, terminated, truncated, infos = super()._step(actions)
        return rewards, terminated, truncated, {**infos, "level": self.level[:-1]}


class ResetInfosOfAll(GoodVec):
    """Right at a reset of all sub-envs, too long when autoreset resets some."""

    def _reset_infos(self, indices):
        return {"age": self.age}


class NotANumber(GoodVec):
    def _observe(self):
        observations = super()._observe()
        observations[self.age == 3, 0] = np.nan
        return observations


class InfiniteReward(GoodVec):
    def _step(self, actions):
        rewards, *others = super()._step(actions)
        rewards[self.age == 2] = np.inf
        return rewards, *others


class OutsideSpace(GoodVec):
    def _observe(self):
        observations = super()._observe()
        observations[self.age == 2, 1] = 11.0
        return observations


class AnotherResult(GoodVec):
    """Each step's result with other fields."""

    def step(self, actions):
        self.before = self.frozen
        result = super().step(actions)
        return replace(result, **self.others(result))


class WrongObservationDtype(AnotherResult):
    def others(self, result):
        return {"observations": result.observations.astype(np.float64)}


class WrongRewardDtype(AnotherResult):
    def others(self, result):
        return {"rewards": result.rewards.astype(np.float32)}


class WrongRewardShape(AnotherResult):
    def others(self, result):
        return {"rewards": result.rewards[:, None]}


class WrongFlagDtype(AnotherResult):
    def others(self, result):
        return {"truncated": result.truncated.astype(np.int64)}


class TooFewInfos(AnotherResult):
    def others(self, result):
        return {"infos": list(result.infos)[1:]}


class NoInfo(AnotherResult):
    def others(self, result):
        return {"infos": [*list(result.infos)[:-1], None]}


class BareTuple(GoodVec):
    def step(self, actions):
        result = super().step(actions)
        return result.observations, result.rewards, result.dones, result.infos


class Raises(GoodVec):
    def _step(self, actions):
        raise KeyError("price")


# -- memory ------------------------------------------------------------------------------------------------


class RewritesInfos(GoodVec):
    """An info column of a result that the next step writes to again."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.column = np.zeros(num_envs)

    def step(self, actions):
        result = super().step(actions)
        self.column[:] = result.infos.columns["level"]
        result.infos.columns["level"] = self.column
        return result


class SharesRewards(AnotherResult):
    """The rewards returned are state, that the next step replaces."""

    def _advance(self, push):
        level, rewards = super()._advance(push)
        rewards += 0.1 * getattr(self, "last", 0.0)
        return level, rewards

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        self.last = np.array(getattr(self, "last", np.zeros(self.num_envs)))
        self.last[indices] = 0.0

    def others(self, result):
        self.last = np.where(result.dones, 0.0, result.rewards)
        return {"rewards": self.last}


class SharesObservations(AnotherResult):
    """The observations returned are state, that the next step replaces."""

    def _push(self, actions):
        shown = getattr(self, "shown", None)
        return super()._push(actions) if shown is None else super()._push(actions) + shown[:, 1]

    def reset(self, **kwargs):
        self.shown = None
        return super().reset(**kwargs)

    def others(self, result):
        self.shown = result.observations
        return {}


class SharesInfos(SharesRewards):
    """The same array as an info column."""

    def others(self, result):
        result.infos.columns["last"] = super().others(result)["rewards"]
        return {}


class WritesActions(GoodVec):
    def _push(self, actions):
        actions *= 0.5
        return super()._push(actions)


class KeepsActions(GoodVec):
    """The push is that of the step before, which is read from the caller's memory."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.before = np.zeros((num_envs, 1), np.float32)

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        self.before = np.array(self.before)
        self.before[indices] = 0.0

    def _push(self, actions):
        before, self.before = self.before, actions
        return super()._push(before)


# -- random draws ------------------------------------------------------------------------------------------


class NumpyGlobal(GoodVec):
    def _push(self, actions):
        return super()._push(actions) + 0.1 * np.random.random()


class PythonGlobal(GoodVec):
    def _push(self, actions):
        return super()._push(actions) + 0.1 * random.random()


@jit
def advance_by_numba(push):
    for i in range(len(push)):
        push[i] += 0.1 * np.random.random()


class NumbaGlobal(GoodVec):
    def _push(self, actions):
        push = super()._push(actions)
        advance_by_numba(push)
        return push


class Unseeded(GoodVec):
    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.own = np.random.default_rng()

    def _push(self, actions):
        return super()._push(actions) + 0.1 * self.own.random(self.num_envs)


class Remembers(GoodVec):
    """Something survives a reset."""

    total = 0.0

    def _push(self, actions):
        self.total += 0.01
        return super()._push(actions) + self.total


class SharedGenerator(GoodVec):
    """No fault: draws from the generator that sub-envs share."""

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        self.level[indices] += 0.1 * self.rng.random(len(indices))

    def _push(self, actions):
        return super()._push(actions) + 0.1 * self.rng.standard_normal(self.num_envs)


class SharedGeneratorOtherRows(SharedGenerator):
    def _push(self, actions):
        return np.roll(super()._push(actions), 1)


# -- independence ------------------------------------------------------------------------------------------


class ResetsAll(GoodVec):
    def _reset_envs(self, indices, options):
        super()._reset_envs(np.arange(self.num_envs), options)


class OtherRows(GoodVec):
    def _push(self, actions):
        push = super()._push(actions)
        return push + 0.1 * np.roll(push, 1)


class OtherSeeds(GoodVec):
    """Each sub-env draws from the stream of the one before."""

    @property
    def streams(self):
        key, counter = super().streams
        return Streams(np.roll(key, 1), counter)


class NumEnvs(GoodVec):
    def _advance(self, push):
        level, rewards = super()._advance(push)
        return level, rewards / self.num_envs


class LargeBatches(GoodVec):
    """Computes otherwise from 1,000 rows on."""

    def _advance(self, push):
        level, rewards = super()._advance(push)
        return level, rewards + (self.num_envs > 1000)


class Threads(GoodVec):
    def _push(self, actions):
        return super()._push(actions) + 0.01 * get_num_threads()


@numba.njit(parallel=True)
def advance_on_own_threads(push):
    shift = 0.01 * numba.get_num_threads()
    for i in numba.prange(len(push)):
        push[i] += shift


class OwnThreads(GoodVec):
    """Takes its threads from Numba."""

    def _push(self, actions):
        push = super()._push(actions)
        advance_on_own_threads(push)
        return push


# -- episodes ----------------------------------------------------------------------------------------------


class ShowsTheEnd(AnotherResult):
    """The observation of an ended sub-env is still that of the episode before."""

    def others(self, result):
        observations = result.observations.copy()
        if self.autoreset:
            for row in np.flatnonzero(result.dones):
                observations[row] = result.infos[row]["final_observation"]
        return {"observations": observations}


class NoFinalObservation(AnotherResult):
    def others(self, result):
        infos = [{key: info[key] for key in info if key != "final_observation"} for info in result.infos]
        return {"infos": infos}


class FinalAfterReset(GoodVec):
    """Shows the start of the next episode where the end of the last one was asked for."""

    def _observe_rows(self, indices):
        self._reset_envs(indices[self.age[indices] >= 12], [])
        return super()._observe_rows(indices)


class ResetsTooEarly(GoodVec):
    """Resets ended sub-envs itself, before the base class asks for what they show."""

    def _step(self, actions):
        rewards, terminated, truncated, infos = super()._step(actions)
        infos = {key: column.copy() for key, column in infos.items()}
        self._reset_envs(np.flatnonzero(terminated | truncated), [])
        return rewards, terminated, truncated, infos


class ResetsInItsKernel(GoodVec):
    """As before, but where nobody can listen in."""

    def _reset_envs(self, indices, options):
        self.level = self.level.copy()
        self.level[indices] = self.age[indices] = 0

    def _step(self, actions):
        rewards, terminated, truncated, infos = super()._step(actions)
        done = terminated | truncated
        self.level, self.age = np.where(done, 0.0, self.level), np.where(done, 0, self.age)
        return rewards, terminated, truncated, infos


class FrozenReward(AnotherResult):
    def others(self, result):
        return {"rewards": np.where(self.before, -1.0, result.rewards)}


class FrozenMoves(AnotherResult):
    def others(self, result):
        return {"observations": self._observe()} if self.before.any() else {}


class FrozenInfos(AnotherResult):
    def others(self, result):
        return {"infos": [info or {"age": 0} for info in result.infos]} if self.before.any() else {}


class FrozenReadsOn(GoodVec):
    """Reads past its data where it should leave a frozen sub-env alone."""

    def _step(self, actions):
        np.zeros(13)[self.age]
        return super()._step(actions)


class FrozenNever(GoodVec):
    @property
    def frozen(self):
        return np.zeros(self.num_envs, bool)


class OtherEnd(GoodVec):
    """Pays otherwise when autoreset is off."""

    def _advance(self, push):
        level, rewards = super()._advance(push)
        return level, rewards * (0.5 if self.num_envs > 1 and not self.autoreset else 1.0)


class AutoresetAlways(GoodVec):
    def __init__(self, num_envs, *, autoreset=True, **kwargs):
        super().__init__(num_envs, **kwargs)


# -- observing ---------------------------------------------------------------------------------------------


class ObservingCounts(GoodVec):
    """What is shown depends on how often it has been looked at."""

    looks = 0

    def reset(self, **kwargs):
        self.looks = 0
        return super().reset(**kwargs)

    def _observe(self):
        self.looks += 1
        observations = super()._observe()
        observations[:, 0] += 0.01 * self.looks
        return observations


class ObservingMoves(GoodVec):
    """Shows the same twice, but has moved something that it does not show."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.bias = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        self.bias[indices] = 0.0

    def _observe(self):
        self.bias += 0.01 * (self.age == 5)
        return super()._observe()

    def _push(self, actions):
        return super()._push(actions) + self.bias


class ObservingDraws(GoodVec):
    def _observe(self):
        self.rng.random()
        return super()._observe()


class ObservesOtherRows(GoodVec):
    def _observe_rows(self, indices):
        return self._observe()[: len(indices)]


# -- kernels -----------------------------------------------------------------------------------------------


@numba.jit(forceobj=True)
def advance_as_objects(push):
    return push


class ObjectMode(GoodVec):
    def _push(self, actions):
        return advance_as_objects(super()._push(actions))


@numba.njit(parallel=True)
def advance_serially(push):
    for i in range(len(push)):
        if push[i] > 10.0:
            raise ValueError("too much")


class NotParallel(GoodVec):
    def _push(self, actions):
        push = super()._push(actions)
        advance_serially(push)
        return push


def advance_slowly(push):
    return push


class PlainKernel(GoodVec):
    def _push(self, actions):
        return advance_slowly(super()._push(actions))


@jit_batch()
def advance_one_by_one(push, out):
    last = 0.0
    for i in range(len(push)):
        last = push[i] if push[i] != last else last / (1.0 + push[i] * push[i])
        out[i] = last


class NotVectorised(GoodVec):
    def _push(self, actions):
        push, out = super()._push(actions), np.empty(self.num_envs)
        advance_one_by_one(push, out)
        return push


@jit_batch()
def advance_with_libm(push, out):
    for i in range(len(push)):
        out[i] = np.exp(push[i])


class CallsLibm(GoodVec):
    def _push(self, actions):
        push, out = super()._push(actions), np.empty(self.num_envs)
        advance_with_libm(push, out)
        return push
