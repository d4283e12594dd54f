"""The good market with a compiled step, and one for each fault of one that ``check_vec_env`` knows."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from broken_markets import GoodVec, move_row

from sekai.kernels import jit
from sekai.kernels.streams import Streams, philox, uniform
from sekai.vector.compiled_step import CompiledStep


class Faults(NamedTuple):
    """What a compiled step does otherwise than ``step()``; as it stands, nothing.

    Attributes:
        reward: Is added to rewards.
        shown: Is added to observations.
        told: Is added to the info.
        early: At which age it says that the episode is over, without ending it.
        late: Whether it shows the end of an episode after the reset.
        writes: Whether it writes into the actions.
        accepts: Whether it takes what is no number.
        most: The largest action that it takes.
        by_row: (N,), is added to rewards, read as if the rows of a block were those of the batch.
        by_thread: Is added to rewards once for each thread that comes before the one that runs it.
    """

    by_row: np.ndarray
    reward: float = 0.0
    shown: float = 0.0
    told: float = 0.0
    early: int = 0
    late: bool = False
    writes: bool = False
    accepts: bool = False
    most: float = 1.0
    by_thread: float = 0.0


class RolledColumns(NamedTuple):
    level: np.ndarray
    age: np.ndarray
    random: Streams


class RolledInfos(NamedTuple):
    level: np.ndarray
    age: np.ndarray


@jit
def show_row(level, age, observation):
    observation[0] = level
    observation[1] = age / 12


@jit
def roll_good(faults, columns, now, actions, before, infos, outcome):
    level, age, random = columns.level, columns.age, columns.random
    for i in range(len(level)):
        push = np.float64(actions[i, 0])
        outcome.invalid[i] = push > faults.most or (np.isnan(push) and not faults.accepts)
        word, _, _, _ = philox(random.key[i], random.counter[i])
        random.counter[i] += np.uint64(1)
        level[i] = move_row(level[i], push, word)
        age[i] += 1
        outcome.rewards[i] = -level[i] * level[i] + faults.reward + faults.by_row[i]
        if faults.by_thread:
            outcome.rewards[i] += faults.by_thread * numba.get_thread_id()
        outcome.terminated[i] = abs(level[i]) > 1.5
        outcome.truncated[i] = age[i] >= 12 or age[i] == faults.early
        infos.level[i], infos.age[i] = level[i] + faults.told, age[i]
        show_row(level[i], age[i], outcome.observations[i])
        outcome.final_observations[i, :] = outcome.observations[i]
        if outcome.terminated[i] or age[i] >= 12:
            level[i], age[i] = uniform(random, i) - 0.5, 0
            show_row(level[i], age[i], outcome.observations[i])
            if faults.late:
                outcome.final_observations[i, :] = outcome.observations[i]
        outcome.observations[i, 0] += faults.shown
        if faults.writes:
            actions[i, 0] = 0.0


class RolledVec(GoodVec):
    """No fault: the good market with a compiled step."""

    faults: dict = {}

    def _by_row(self):
        return np.zeros(self.num_envs)

    def _columns(self):
        return RolledColumns(self.level, self.age, self.streams)

    def _infos(self):
        return RolledInfos(self.level, self.age)

    def _compiled_step(self):
        faults = Faults(self._by_row(), **self.faults)
        return CompiledStep(roll_good, faults, self._columns(), self.episode_clock.now, self._infos())


class RolledRewards(RolledVec):
    faults = {"reward": 1.0}


class RolledObservations(RolledVec):
    faults = {"shown": 1.0}


class RolledThreads(RolledVec):
    faults = {"by_thread": 1.0}


class RolledFlags(RolledVec):
    faults = {"early": 5}


class RolledInfoColumns(RolledVec):
    faults = {"told": 1.0}


class RolledFinals(RolledVec):
    faults = {"late": True}


class RolledActions(RolledVec):
    faults = {"writes": True}


class RolledAcceptance(RolledVec):
    faults = {"accepts": True}


class RolledRefusal(RolledVec):
    faults = {"most": 0.5}


class RolledBlocks(RolledVec):
    """Pays more in rows 1,050 to 1,149, which the compiled step counts within a block."""

    def _by_row(self):
        by_row = np.zeros(self.num_envs)
        by_row[1050:1150] = 1.0
        return by_row

    def _advance(self, push):
        level, rewards = super()._advance(push)
        return level, rewards + self._by_row()


class RolledStreams(RolledVec):
    """Draws from copies of the streams."""

    def _columns(self):
        key, counter = self.streams
        return super()._columns()._replace(random=Streams(key, counter.copy()))


class RolledState(RolledVec):
    """Moves a copy of the state."""

    def _columns(self):
        return super()._columns()._replace(age=self.age.copy())


class RolledAfterwards(RolledVec):
    """Steps otherwise once it has been rolled out."""

    bias = 0.0

    def _absorb(self, observations, infos):
        self.bias = 0.1

    def _push(self, actions):
        return super()._push(actions) + self.bias


class RolledStuck(RolledVec):
    """Cannot be stepped once it has been rolled out."""

    def _absorb(self, observations, infos):
        self.level = None


class OtherInfos(NamedTuple):
    price: np.ndarray


class RolledOtherInfos(RolledVec):
    def _infos(self):
        return OtherInfos(self.level)


class RolledDict(RolledVec):
    def _infos(self):
        return {"level": self.level}


class RolledNever(RolledVec):
    def _compiled_step(self):
        raise KeyError("level")
