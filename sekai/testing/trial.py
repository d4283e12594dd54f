"""The market under test: how it is built, what it is driven with, and what it showed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sekai.seeding import make_seed_sequence
from sekai.testing.outcomes import CallFailed, Difference, Outcome, first_difference
from sekai.testing.values import describe, name_error
from sekai.vector import VecEnv

#: Builds a VecEnv of so many sub-envs.
Factory = Callable[..., VecEnv[Any, Any]]


class Market:
    """Builds the VecEnv under test.

    Args:
        factory: Called as ``factory(num_envs, **arguments)``.
        arguments: What it is called with each time.
    """

    def __init__(self, factory: Factory, **arguments: Any) -> None:
        self._factory = factory
        self._arguments = arguments

    @contextmanager
    def open(self, num_envs: int) -> Iterator[VecEnv[Any, Any]]:
        """A VecEnv of so many sub-envs, which is closed in the end.

        Raises:
            CallFailed: The factory raised or returned something else, or closing failed.
        """
        vec = self._build(num_envs)
        try:
            yield vec
        finally:
            try:
                vec.close()
            except Exception as error:
                raise CallFailed(f"close(): expected no error, got {name_error(error)}") from error

    def _build(self, num_envs: int) -> VecEnv[Any, Any]:
        call = ", ".join([str(num_envs), *(f"{name}={value!r}" for name, value in self._arguments.items())])
        try:
            vec = self._factory(num_envs, **self._arguments)
        except Exception as error:
            raise CallFailed(f"factory({call}): expected a VecEnv, got {name_error(error)}") from error
        if not isinstance(vec, VecEnv):
            raise CallFailed(f"factory({call}): expected a VecEnv, got {describe(vec)}")
        if vec.num_envs != num_envs:
            vec.close()
            raise CallFailed(f"factory({call}): expected {num_envs} sub-envs (num_envs), got {vec.num_envs}")
        return vec

    def having(self, **arguments: Any) -> Market | None:
        """The same market with further arguments; None if the factory does not take them.

        Trying is the one way to know: a ``**kwargs`` in the signature may be handed on to what does not take them.
        """
        market = Market(self._factory, **{**self._arguments, **arguments})
        try:
            with market.open(1):
                pass
        except CallFailed as failure:
            if isinstance(failure.__cause__, TypeError) and any(f"'{name}'" in str(failure) for name in arguments):
                return None
            raise
        return market


@dataclass(frozen=True)
class Drive:
    """What a market is driven with.

    Attributes:
        seeds: One per sub-env; those of more sub-envs begin with those of fewer.
        actions: One batch per step.
        other_actions: As many others.
    """

    seeds: list[int]
    actions: list[Any]
    other_actions: list[Any]

    @classmethod
    def draw(cls, vec: VecEnv[Any, Any], n_steps: int, seed: int) -> Drive:
        """Seeds and random actions that follow from one seed."""
        ours, others, *seeds = make_seed_sequence(seed, vec.num_envs + 2)
        batches = []
        for each in (ours, others):
            space = deepcopy(vec.batch_action_space)
            space.seed(each)
            batches.append([space.sample() for _ in range(n_steps)])
        return cls(seeds, *batches)


@dataclass(frozen=True)
class Trial:
    """A market and its first run, which every later one is compared with.

    Attributes:
        market: Builds it.
        num_envs: The number of sub-envs.
        drive: What it was driven with.
        recorded: What it showed: the reset, then each step.
        draws_shared: Whether its sub-envs draw from one generator, ``self.rng``.
    """

    market: Market
    num_envs: int
    drive: Drive
    recorded: list[Outcome]
    draws_shared: bool

    def difference(
        self, got: Iterable[Outcome], rows: Sequence[int] | None = None, got_rows: Sequence[int] | None = None
    ) -> Difference | None:
        """Where another run differs from the recorded one (see ``first_difference``)."""
        return first_difference(self.recorded, got, rows, got_rows, shared_draws=self.draws_shared)
