"""The run that every other one is compared with: how its VecEnv is built, what goes in, and what it showed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.env import Env
from sekai.seeding import make_seed_sequence
from sekai.testing.shown import CallFailed, Difference, Shown, calls, first_difference
from sekai.testing.values import describe, name_error
from sekai.vector import NativeVecEnv, VecEnv
from sekai.vector.asked import unheeded
from sekai.vector.random_actions import random_actions

#: Builds a VecEnv of so many sub-envs.
Factory = Callable[..., VecEnv[Any, Any]]


class Unheeded(CallFailed):
    """A VecEnv has not what its factory was asked for."""


class VecEnvFactory:
    """Builds the VecEnv under test.

    Args:
        factory: Called as ``factory(num_envs, **arguments)``.
        arguments: What it is called with each time.
    """

    def __init__(self, factory: Factory, **arguments: Any) -> None:
        self._call = factory
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
            vec = self._call(num_envs, **self._arguments)
        except Exception as error:
            raise CallFailed(f"factory({call}): expected a VecEnv, got {name_error(error)}") from error
        if not isinstance(vec, VecEnv):
            remedy = "; check_env(env) is for an Env" if isinstance(vec, Env) else ""
            raise CallFailed(f"factory({call}): expected a VecEnv, got {describe(vec)}{remedy}")
        if vec.num_envs != num_envs:
            vec.close()
            raise CallFailed(f"factory({call}): expected {num_envs} sub-envs (num_envs), got {vec.num_envs}")
        # Autoreset has a check of its own, of what is shown at the ends of episodes.
        lost = unheeded(vec, {name: value for name, value in self._arguments.items() if name != "autoreset"})
        if lost is not None:
            vec.close()
            raise Unheeded(f"factory: {lost}")
        return vec

    def lost_arguments(self, **arguments: Any) -> list[str]:
        """Which of some arguments the factory takes, but does nothing with."""
        found = []
        for name, value in arguments.items():
            try:
                self.having(**{name: value})
            except Unheeded as failure:
                found.append(str(failure))
            except CallFailed:  # of another reason, which is told where the argument is needed
                pass
        return found

    def having(self, **arguments: Any) -> VecEnvFactory | None:
        """The same with further arguments; None if the factory does not take them.

        Trying is the one way to know: a ``**kwargs`` in the signature may be handed on to what does not take them.
        """
        factory = VecEnvFactory(self._call, **{**self._arguments, **arguments})
        try:
            with factory.open(1):
                pass
        except CallFailed as failure:
            if isinstance(failure.__cause__, TypeError) and any(f"'{name}'" in str(failure) for name in arguments):
                return None
            raise
        return factory


@dataclass(frozen=True)
class Inputs:
    """What goes into a run.

    Attributes:
        seeds: One per sub-env; those of more sub-envs begin with those of fewer.
        actions: One batch per step.
        other_actions: As many others.
        refused: Whether a row may refuse actions that were drawn for another state, as an Env with a mask may; all of
            them are such as the masks allow then. A native market takes every action of its space.
    """

    seeds: list[int]
    actions: list[Any]
    other_actions: list[Any]
    refused: bool = False

    @classmethod
    def draw(cls, vec: VecEnv[Any, Any], n_steps: int, seed: int) -> Inputs:
        """Seeds and random actions that follow from one seed."""
        ours, others, *seeds = make_seed_sequence(seed, vec.num_envs + 2)
        batches: list[list[Any]] = []
        for each in (ours, others):
            space = deepcopy(vec.batch_action_space)
            space.seed(each)
            samples = (space.sample() for _ in range(n_steps))
            batches.append([layout.as_batch(vec.action_space, vec.num_envs, sample) for sample in samples])
        return cls(seeds, batches[0], batches[1])

    def allowed(self, vec: VecEnv[Any, Any], seed: int) -> Inputs:
        """The same with actions that the masks of a VecEnv allow, by a run of it; as they are where it has none.

        Where it fails they are the old ones from there on: the next run will fail there too, and say so.
        """
        if not vec.has_action_mask:
            return self
        rng = np.random.default_rng(seed)
        drawn: list[Any] = []

        def draw() -> Iterator[Any]:
            for _ in self.actions:
                try:
                    drawn.append(layout.as_batch(vec.action_space, vec.num_envs, random_actions(vec, rng)))
                except Exception:  # no masks, or such as leave nothing
                    return
                yield drawn[-1]

        with suppress(CallFailed):
            for _ in calls(vec, self.seeds, draw()):
                pass
        actions = drawn + self.actions[len(drawn) :]
        refused = not isinstance(vec.unwrapped, NativeVecEnv)
        return replace(self, actions=actions, refused=refused)


@dataclass(frozen=True)
class ReferenceRun:
    """The first run of a market, which every later one is compared with.

    Attributes:
        factory: Builds the market.
        num_envs: The number of sub-envs.
        inputs: What went in.
        shown: What it showed: the reset, then each step.
        draws_shared: Whether its sub-envs draw from one generator, ``self.rng``.
    """

    factory: VecEnvFactory
    num_envs: int
    inputs: Inputs
    shown: list[Shown]
    draws_shared: bool

    @property
    def observation_bytes(self) -> int:
        """Bytes that the observation of one sub-env takes, at least 1."""
        batch = [part for name, part in self.shown[0].parts.items() if name.startswith("observations")]
        return max(1, sum(int(getattr(part, "nbytes", 0)) for part in batch) // self.num_envs)

    def difference(
        self, got: Iterable[Shown], rows: Sequence[int] | None = None, got_rows: Sequence[int] | None = None
    ) -> Difference | None:
        """Where another run differs from this one (see ``first_difference``)."""
        return first_difference(self.shown, got, rows, got_rows, shared_draws=self.draws_shared)
