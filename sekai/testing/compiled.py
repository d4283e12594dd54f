"""Whether a market's compiled step gives the numbers that its ``step()`` gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.infos import FINAL_OBSERVATION
from sekai.kernels import get_num_threads, jit, set_num_threads
from sekai.kernels.batch import BLOCK
from sekai.kernels.rolling import ROLLED_PARALLEL_FROM
from sekai.rollouts import Rollout, rollout
from sekai.rollouts.compiled import RowPolicy
from sekai.testing.outside import is_refused, outside_actions, show_action
from sekai.testing.reference import Inputs, ReferenceRun, VecEnvFactory
from sekai.testing.snapshots import Call, CallFailed, Snapshot, first_difference, take_snapshot
from sekai.testing.values import describe, name_error
from sekai.vector import NativeVecEnv
from sekai.vector.compiled_step import CompiledStep

#: Steps of a rollout of few rows, in which episodes of hundreds of steps end.
_STEPS = 1000
#: Rows of a wide rollout, more than one of the blocks that rows are cut into, of one that is spread over threads, and
#: the steps of both.
_WIDE_ROWS, _SPREAD_ROWS, _WIDE_STEPS = 2 * BLOCK + 3, ROLLED_PARALLEL_FROM + 3, 16
#: Bytes that the observations of a rollout may take.
_MOST_BYTES = 2**27
#: Steps after a rollout.
_STEPS_AFTER = 3
#: Actions that the policy chooses from.
_CHOICES = 64


@jit
def choose(table: NDArray[Any], observation: NDArray[Any], action: NDArray[Any]) -> None:
    """A policy of rows for any space: what is observed picks an action from a table.

    Args:
        table: Actions, flattened, (k, width).
        observation: Flattened.
        action: Flattened, (width,), written.
    """
    mixed = 1
    for number in observation:
        x = float(number)
        # The mantissa, so that numbers of any size pick.
        digits = int(math.frexp(x)[0] * 2.0**24) if math.isfinite(x) else 0
        mixed = (31 * mixed + digits) % 1000003
    for k in range(len(action)):
        action[k] = table[mixed % len(table), k]


class Chooser:
    """The same as ``rollout`` takes it.

    Args:
        table: Actions, (k, ...).
    """

    def __init__(self, table: NDArray[Any]) -> None:
        self.table = table.reshape(len(table), -1)

    def row_policy(self) -> tuple[Any, Any]:
        """The compiled function and what it is called with."""
        return choose, self.table


def check_compiled_step(reference: ReferenceRun, factory: VecEnvFactory) -> list[str]:
    """Hold a rollout in compiled code against one by ``step()``, if the market offers that: few rows, then many.

    Args:
        reference: The first run.
        factory: Builds the market, without a time limit, since with one there is no compiled step.
    """
    with factory.open(reference.num_envs) as vec:
        native = vec.unwrapped
        offer = _compiled_step(native, reference.inputs.seeds) if isinstance(native, NativeVecEnv) else None
    if offer is None:
        return []
    if not isinstance(offer, CompiledStep) or not hasattr(offer.infos, "_fields"):
        return [f"compiled_step(): expected a CompiledStep whose infos are a named tuple, got {describe(offer)}"]
    for space in (native.observation_space, native.action_space):
        if not isinstance(layout.allocate(space, 0), np.ndarray):
            return [f"compiled_step(): expected None, since a batch of {space} is not one array, got a CompiledStep"]
    unknown = [key for key in offer.infos._fields if f"infos[{key!r}]" not in reference.snapshots[1].parts]
    if unknown:
        return [f"compiled_step(): expected info columns that step() gives, got {unknown}"]
    for num_envs, most_steps, num_threads in (
        (reference.num_envs, _STEPS, 1),
        (_WIDE_ROWS, _WIDE_STEPS, 1),
        (_SPREAD_ROWS, _WIDE_STEPS, 2),
    ):
        num_steps = min(most_steps, _MOST_BYTES // (num_envs * reference.observation_bytes))
        with factory.open(num_envs) as stepped, factory.open(num_envs) as rolled, _threads(num_threads):
            twins = _Twins(stepped.unwrapped, rolled.unwrapped, list(offer.infos._fields), reference.inputs.seeds[0])
            problem = next(twins.problems(num_steps), None) if num_steps else None
        if problem is not None:
            on_threads = f" on {num_threads} threads" if num_threads > 1 else ""
            return [problem.replace("compiled rollout", f"compiled rollout{on_threads}", 1)]
    return []


@contextmanager
def _threads(num_threads: int) -> Iterator[None]:
    before = get_num_threads()
    set_num_threads(num_threads)
    try:
        yield
    finally:
        set_num_threads(before)


def _compiled_step(native: NativeVecEnv[Any, Any], seeds: list[int]) -> Any:
    try:
        native.reset(seed=list(seeds))
        return native.compiled_step()
    except Exception as error:
        raise CallFailed(f"compiled_step(): expected a CompiledStep or None, got {name_error(error)}") from error


class _Twins:
    """Two copies of a native market, of which one is rolled out in compiled code.

    Args:
        stepped: The other one.
        rolled: That one.
        infos: The info columns that are compared.
        seed: Seeds and actions follow from it.
    """

    def __init__(self, stepped: Any, rolled: Any, infos: list[str], seed: int) -> None:
        self.stepped = stepped
        self.rolled = rolled
        self.infos = infos
        self.inputs = Inputs.draw(stepped, _WIDE_STEPS, seed)

    def problems(self, num_steps: int) -> Iterator[str]:
        """Problems as they come up, of which the first says most."""
        chooser: Any = Chooser(np.concatenate(self.inputs.actions)[:_CHOICES])
        by_step = RowPolicy(choose, chooser.table, self.stepped.action_space)  # no more than callable, so step by step
        difference = first_difference(
            _snapshots(self._roll_out("rollout by step()", self.stepped, by_step, num_steps)),
            _snapshots(self._roll_out("compiled rollout", self.rolled, chooser, num_steps)),
        )
        if difference is not None:
            yield f"compiled rollout, {difference.problem(', as step() gives')}"
        difference = first_difference(self._step_on(self.stepped, num_steps), self._step_on(self.rolled, num_steps))
        if difference is not None:
            yield f"after a compiled rollout, {difference.problem(', as after so many calls of step()')}"
        yield from self._refuse()

    def _roll_out(self, name: str, native: NativeVecEnv[Any, Any], policy: Any, num_steps: int) -> Rollout:
        try:
            return rollout(native, policy, num_steps, seed=list(self.inputs.seeds), infos=self.infos, progress=False)
        except Exception as error:
            raise CallFailed(f"{name}: expected {num_steps} steps, got {name_error(error)}") from error

    def _step_on(self, native: NativeVecEnv[Any, Any], num_steps: int) -> Iterator[Snapshot]:
        """What a rollout has left behind, then what a few more steps show."""
        where = f"step {num_steps}"
        try:
            left = {f"streams.{name}": column for name, column in native.streams._asdict().items()}
            left["elapsed_steps"] = native.elapsed_steps
            yield Snapshot(where, native.num_envs, {**left, "_observe()": np.asarray(native._observe())})
            for number, actions in enumerate(self.inputs.other_actions[:_STEPS_AFTER], start=num_steps + 1):
                where = f"step {number}"
                yield take_snapshot(native, Call(where, actions, native.step(layout.copy_batch(actions))))
        except Exception as error:
            raise CallFailed(f"after a rollout, {where}: expected no error, got {name_error(error)}") from error

    def _refuse(self) -> Iterator[str]:
        """Whether both refuse the same actions."""
        space, seeds = self.stepped.action_space, self.inputs.seeds
        for actions in outside_actions(space, self.inputs.actions[0]):
            chooser: Any = Chooser(actions[:1])
            try:
                rollout(self.rolled, chooser, 1, seed=list(seeds), progress=False)
                got = "accepted"
            except Exception:
                got = "refused"
            expected = "refused" if is_refused(self.stepped, seeds, actions) else "accepted"
            if got != expected:
                action = show_action(space, actions)
                yield f"compiled rollout: action {action}: expected it to be {expected}, as by step(), got it {got}"


def _snapshots(record: Rollout) -> Iterator[Snapshot]:
    """A rollout as calls of a VecEnv show it, with the actions; without copies."""
    num_steps, num_envs = record.rewards.shape
    ends: list[dict[int, Any]] = [{} for _ in range(num_steps)]
    for (step, row), final in zip(record.final_indices.tolist(), record.final_observations, strict=True):
        ends[step][row] = {FINAL_OBSERVATION: final}
    yield Snapshot("reset", num_envs, {"observations": record.observations[0]})
    for step in range(num_steps):
        shown = record.observations[step + 1] if step + 1 < num_steps else record.last_observations
        parts = {name: getattr(record, name)[step] for name in ("actions", "rewards", "terminated", "truncated")}
        parts |= {f"infos[{key!r}]": column[step] for key, column in record.infos.items()}
        yield Snapshot(f"step {step + 1}", num_envs, {"observations": shown, **parts}, ends=ends[step])
