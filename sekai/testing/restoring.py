"""Whether a market goes on from a snapshot as it went on when the snapshot was made."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from sekai.batching import layout
from sekai.env import Env, Wrapper
from sekai.errors import VecEnvWorkerError
from sekai.snapshots import Snapshot
from sekai.snapshots.agreement import fingerprint
from sekai.snapshots.attributes import is_of_kit
from sekai.testing.reference import ReferenceRun, VecEnvFactory
from sekai.testing.shown import (
    MASKS,
    CallFailed,
    Shown,
    calls,
    copy_shown,
    difference_between,
    first_difference,
    masks_of,
    play,
    steps,
)
from sekai.testing.values import name_error
from sekai.vector import NativeVecEnv, VecEnv, VecWrapper
from sekai.vector.sub_envs.in_process import InProcessVecEnv

#: Steps that a run goes on for from a snapshot.
STEPS = 32
#: Errors by which a market says that it cannot be kept.
CANNOT_BE_KEPT = (NotImplementedError, TypeError)


class _CannotBeKept(Exception):
    """A market says so; the message is what it says."""


def check_restoring(reference: ReferenceRun, hints: list[str], *, apart: bool) -> list[str]:
    """Take a snapshot on the way, go on, go back, and go on again, there and in another VecEnv.

    Args:
        reference: The run that has to be repeated.
        hints: Gets why the market cannot be kept, if it says that it cannot.
        apart: Whether some sub-envs are restored without the others, too, and one of them into all.
    """
    return _check(reference, len(reference.inputs.actions) // 2, hints, apart, "")


def check_restoring_frozen(
    reference: ReferenceRun, frozen: VecEnvFactory, hints: list[str], *, apart: bool
) -> list[str]:
    """As ``check_restoring``, with autoreset off and some sub-envs frozen.

    Args:
        reference: A run with autoreset in which episodes end.
        frozen: The same market with autoreset off.
        hints: As before.
        apart: As before.
    """
    ends = (number for number, shown in enumerate(reference.shown) if shown.done)
    at = min(next(ends), len(reference.inputs.actions) - 1)  # one step is left at least
    inputs = reference.inputs
    with frozen.open(reference.num_envs) as vec:
        shown = list(play(vec, inputs.seeds, inputs.actions[: at + STEPS]))
    still = replace(reference, factory=frozen, shown=shown)
    return _check(still, at, hints, apart, "autoreset=False, ")


def _check(reference: ReferenceRun, at: int, hints: list[str], apart: bool, prefix: str) -> list[str]:
    check = _Restoring(reference, at)
    try:
        return [f"{prefix}{problem}" for problem in islice(check.problems(apart), 1)]
    except CallFailed as failure:
        return [f"{prefix}{failure}"]
    except _CannotBeKept as reason:
        hints.append(str(reason))
        return []


class _Restoring:
    """Runs from a snapshot on.

    Args:
        reference: The run that is repeated.
        at: The number of the step after which the snapshot is made; 0 for the reset.
    """

    def __init__(self, reference: ReferenceRun, at: int) -> None:
        self._reference = reference
        self._at = at
        self._where = reference.shown[at].where
        self._everyone = list(range(reference.num_envs))
        self._later = slice(at, at + STEPS)
        self._expected = reference.shown[at + 1 : at + 1 + STEPS]

    def problems(self, apart: bool) -> Iterator[str]:
        """Problems as they come up."""
        with (
            self._reference.factory.open(len(self._everyone)) as vec,
            self._reference.factory.open(len(self._everyone)) as other,
        ):
            kept = self._go_to(vec)
            copied = self._pickled(kept)
            yield from self._compare(self._go_on(vec), " whether or not snapshot() is called before")
            changed = _changed_columns(copied, kept)
            if changed:
                yield f"snapshot() of {self._where}: expected it to stay as it was made, got another {changed} later on"
            for target, name in ((vec, ""), (other, " into another VecEnv")):
                self._restore(target, copied, None)
                when = f" after restore() of {self._where}{name}"
                yield from self._compare_masks(target, when)
                yield from self._compare(self._go_on(target), ", as before", when, explain=True)
            if apart:
                if not self._reference.inputs.refused:
                    yield from self._compare_some(vec, other, copied)
                yield from self._compare_branches(other, copied)
                yield from self._compare_part(other, copied)

    def _compare_masks(self, vec: VecEnv[Any, Any], when: str) -> Iterator[str]:
        """Ask a restored VecEnv for its masks, before anything is stepped that may make them anew."""
        masks = masks_of(vec, f"{self._where}{when}")
        if masks is None:
            return
        before = self._reference.shown[self._at]
        restored = replace(before, parts={name: np.array(part) for name, part in layout.named_parts(masks, MASKS)})
        before = replace(before, parts={name: before.parts[name] for name in restored.parts})
        difference = difference_between(before, restored, np.flatnonzero(~vec.frozen).tolist())
        if difference is not None:
            yield difference.problem(", as before", when + self._named())

    def _compare_part(self, vec: VecEnv[Any, Any], kept: Snapshot) -> Iterator[str]:
        """Take a snapshot of some sub-envs, where that of all was taken."""
        rows = self._everyone[1::2]
        self._restore(vec, kept, None)
        part = self._snapshot_of(vec, rows)
        others = [name for name, column in kept.columns.items() if column.dtype != object]  # of which a pickle may vary
        expected = self._part_of(kept, rows).columns
        wrong = [name for name in others if expected[name].tobytes() != part.columns[name].tobytes()]
        if wrong:
            yield (
                f"snapshot({rows}) of {self._where}: expected what snapshot() has of these sub-envs, "
                f"got another {', '.join(wrong)}"
            )

    def _compare_some(self, vec: VecEnv[Any, Any], other: VecEnv[Any, Any], kept: Snapshot) -> Iterator[str]:
        """Restore some sub-envs, in other places, in one of two VecEnvs that are in the same state."""
        rows = self._everyone[::2]
        targets = [self._everyone[-1] - row for row in rows]
        others = [row for row in self._everyone if row not in targets]
        inputs = self._reference.inputs
        batches = [layout.copy_batch(batch) for batch in inputs.other_actions[self._later]]
        for batch, own in zip(batches, inputs.actions[self._later], strict=True):
            layout.put(batch, np.array(targets), layout.take(own, np.array(rows)))
        self._restore(vec, self._part_of(kept, rows), targets)
        when = f" after restore() of sub-envs {rows} of {self._where} to {targets}"
        for expected, one, two in zip(
            self._expected, self._play(vec, batches), self._play(other, batches), strict=True
        ):
            difference = difference_between(expected, one, rows, targets)
            if difference is not None:
                yield difference.problem(", as before", when)
                return
            difference = difference_between(two, one, others)
            if difference is not None:
                yield difference.problem(", since this sub-env has not been restored", when)
                return

    def _compare_branches(self, vec: VecEnv[Any, Any], kept: Snapshot) -> Iterator[str]:
        """Let all sub-envs go on from one."""
        row = self._everyone[len(self._everyone) // 2]
        n = len(self._everyone)
        batches = [layout.take(batch, np.full(n, row)) for batch in self._reference.inputs.actions[self._later]]
        self._restore(vec, self._part_of(kept, [row]), None)
        when = f" after restore() of sub-env {row} of {self._where} to all"
        for expected, got in zip(self._expected, self._play(vec, batches), strict=True):
            difference = difference_between(expected, got, [row] * n, self._everyone)
            if difference is not None:
                yield difference.problem(", as before", when)
                return

    def _go_to(self, vec: VecEnv[Any, Any]) -> Snapshot:
        """Run a VecEnv up to the snapshot, and make that."""
        inputs = self._reference.inputs
        for _ in islice(calls(vec, inputs.seeds, inputs.actions), self._at + 1):
            pass
        return self._snapshot_of(vec, None)

    def _snapshot_of(self, vec: VecEnv[Any, Any], rows: list[int] | None) -> Snapshot:
        where = f"snapshot({'' if rows is None else rows}) after {self._where}: expected a Snapshot"
        try:
            kept = vec.snapshot(rows)
        except Exception as error:
            reason = f"{where}, got {_name(error)}"
            if isinstance(error, CANNOT_BE_KEPT) or getattr(error, "exc_type", "") in {
                each.__name__ for each in CANNOT_BE_KEPT
            }:
                raise _CannotBeKept(f"{reason}; so going back to it was not seen") from error
            raise CallFailed(reason) from error
        if not isinstance(kept, Snapshot):
            raise CallFailed(f"{where}, got {kept!r}")
        return kept

    def _pickled(self, kept: Snapshot) -> Snapshot:
        """What becomes of a snapshot that is pickled and read again."""
        where = f"snapshot() after {self._where}: expected one that can be pickled"
        try:
            copied: Snapshot = pickle.loads(pickle.dumps(kept))
        except Exception as error:
            raise CallFailed(f"{where}, got {name_error(error)}") from error
        return copied

    def _restore(self, vec: VecEnv[Any, Any], kept: Snapshot, rows: Any) -> None:
        where = f"restore() of {self._where}"
        where += "" if rows is None else f" to sub-envs {rows}"
        try:
            vec.restore(kept, rows)
        except Exception as error:
            raise CallFailed(f"{where}: expected it to go on from there, got {_name(error)}") from error

    def _part_of(self, kept: Snapshot, rows: list[int]) -> Snapshot:
        try:
            return kept[rows]
        except Exception as error:
            raise CallFailed(f"snapshot()[{rows}]: expected some sub-envs of it, got {name_error(error)}") from error

    def _go_on(self, vec: VecEnv[Any, Any]) -> Iterator[Shown]:
        return self._play(vec, self._reference.inputs.actions[self._later])

    def _play(self, vec: VecEnv[Any, Any], batches: list[Any]) -> Iterator[Shown]:
        for call in steps(vec, batches, self._at + 1):
            yield copy_shown(vec, call)

    def _compare(self, got: Iterator[Shown], because: str, when: str = "", *, explain: bool = False) -> Iterator[str]:
        """The first difference from the run that is repeated; and, to explain it, what is not put back."""
        difference = first_difference(self._expected, got)
        if difference is not None:
            yield difference.problem(because, when + (self._named() if explain else ""))

    def _named(self) -> str:
        """What is not put back, as the end of a problem; empty where nothing is known of it."""
        names = self._not_put_back()
        return f"; not put back: {', '.join(names)}" if names else ""

    def _not_put_back(self) -> list[str]:
        """The attributes that are not the same after a restore as they were."""
        with self._reference.factory.open(len(self._everyone)) as vec:
            kept = self._go_to(vec)
            before = _attributes(vec)
            for _ in self._go_on(vec):
                pass
            self._restore(vec, kept, None)
            after = _attributes(vec)
        return sorted({key[1] for key in {*before, *after} if before.get(key) != after.get(key)})


def _changed_columns(one: Snapshot, other: Snapshot) -> str:
    """The columns in which two snapshots of the same sub-envs differ, as text."""
    return ", ".join(
        name for name, column in one.columns.items() if pickle.dumps(column) != pickle.dumps(other.columns.get(name))
    )


def _name(error: Exception) -> str:
    """An exception as a problem shows it, without where in a worker it was raised."""
    return f"{error.exc_type}: {error.message}" if isinstance(error, VecEnvWorkerError) else name_error(error)


def _attributes(vec: VecEnv[Any, Any]) -> dict[tuple[int, str], Any]:
    owners: list[Any] = []
    for layer in vec._snapshot_layers:
        owners += (
            [each for env in layer.envs for each in layers_of(env)] if isinstance(layer, InProcessVecEnv) else [layer]
        )
    return attributes_of(owners)


def layers_of(env: Env[Any, Any]) -> list[Env[Any, Any]]:
    """The wrappers of an env, and itself."""
    return [*env] if isinstance(env, Wrapper) else [env]


def attributes_of(owners: list[Any]) -> dict[tuple[int, str], Any]:
    """What tells apart the attributes that classes outside of the kit have given objects.

    Returns:
        By the number of the object and "class.attribute".
    """
    found = {}
    for number, owner in enumerate(owners):
        kind: Any = type(owner)
        names = owner._snapshot_base_names() if isinstance(owner, (NativeVecEnv, VecWrapper)) else {"env"}
        for name in vars(owner).keys() - names if not is_of_kit(kind) else ():
            try:
                found[number, f"{kind.__name__}.{name}"] = fingerprint(vars(owner)[name], "")
            except TypeError:  # nothing can be said of it
                continue
    return found
