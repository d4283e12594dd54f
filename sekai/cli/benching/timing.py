"""How fast a vector environment steps: timed in turns, so that a machine that is busy for a while slows all alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from sekai.cli.policies import Policy

if TYPE_CHECKING:
    from sekai.vector import VecEnv


class Block(NamedTuple):
    """Some steps in a row.

    Attributes:
        steps: How many, of the whole vector.
        seconds: Time inside ``step()``; the policy is not in it.
    """

    steps: int
    seconds: float

    @property
    def seconds_per_step(self) -> float:
        """Seconds of one ``step()``."""
        return self.seconds / self.steps


class Stepper:
    """A vector environment and a policy that go on stepping.

    Args:
        vec: A VecEnv with autoreset on.
        policy: From a batch of observations to a batch of actions.
        seed: Of the first reset.

    Attributes:
        first_step_seconds: Time in ``reset()`` and the first ``step()``, which may compile kernels.
    """

    def __init__(self, vec: VecEnv[Any, Any], policy: Policy, seed: int) -> None:
        self._vec = vec
        self._policy = policy
        start = perf_counter()
        self._observations = vec.reset(seed=seed).observations
        setup = perf_counter() - start
        self.first_step_seconds = setup + self._step()

    def run(self, seconds: float) -> Block:
        """Step for about so many seconds of wall time, and once at least."""
        end = perf_counter() + seconds
        steps, inside = 1, self._step()
        while perf_counter() < end:
            inside += self._step()
            steps += 1
        return Block(steps, inside)

    def _step(self) -> float:
        actions = self._policy(self._observations)
        start = perf_counter()
        result = self._vec.step(actions)
        elapsed = perf_counter() - start
        self._observations = result.observations
        return elapsed


@dataclass(eq=False)
class Cell:
    """One way of running the environment, and how fast it went.

    Attributes:
        mode: One of ``sekai.registry.build.MODES``.
        num_envs: Number of sub-envs.
        threads: Threads of large native batches; None in the other modes.
        workers: Worker processes of mode "proc"; None in the other modes.
        first_step_seconds: Time in ``reset()`` and the first ``step()``.
        blocks: What was timed, one per round.
    """

    mode: str
    num_envs: int
    threads: int | None
    workers: int | None
    first_step_seconds: float = math.nan
    blocks: list[Block] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps of the whole vector that were timed."""
        return sum(block.steps for block in self.blocks)

    @property
    def speeds(self) -> list[float]:
        """Steps of single sub-envs per second of ``step()``, one per round."""
        return [block.steps * self.num_envs / block.seconds for block in self.blocks]

    @property
    def env_steps_per_second(self) -> float:
        """The median of the rounds; NaN before the first."""
        return median(self.speeds) if self.blocks else math.nan

    @property
    def seconds_per_step(self) -> float:
        """Seconds that one ``step()`` of all sub-envs takes; NaN before the first round."""
        return self.num_envs / self.env_steps_per_second

    @property
    def spread(self) -> float:
        """Half of what lies between the slowest and the fastest round, as a share of the median; NaN before two."""
        speeds = self.speeds
        return (max(speeds) - min(speeds)) / 2 / self.env_steps_per_second if len(speeds) > 1 else math.nan


def take_turns(
    cells: Sequence[Cell],
    run: Callable[[Cell, float], Block],
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[int], Any],
) -> None:
    """Time every cell once a round, in an order that alternates. A round before the first warms up and does not count.

    Args:
        cells: Their ``blocks`` are added to.
        run: Steps a cell for about so many seconds.
        seconds: Of each cell, over all rounds.
        rounds: How many.
        progress: Called after each block with 1.
    """
    for turn in range(rounds + 1):
        for cell in cells if turn % 2 == 0 else reversed(cells):
            block = run(cell, seconds / (rounds + 1))
            if turn > 0:
                cell.blocks.append(block)
            progress(1)
