"""What a vector environment shows, call by call, as copies that can be compared row by row."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.batching.infos import FINAL_OBSERVATION, RESET_INFO, copy_info
from sekai.batching.masks import check_masks
from sekai.results import VecResetResult, VecStepResult
from sekai.spaces import mask_space
from sekai.testing.values import describe, name_error, same, show
from sekai.vector import NativeVecEnv, VecEnv

#: What the parts of masks are called by.
MASKS = "action_mask()"

#: What ``reset()`` or ``step()`` returned.
Result: TypeAlias = "VecResetResult[Any] | VecStepResult[Any]"


class CallFailed(Exception):
    """A call raised, or returned something that is no result; the message is the problem."""


class Call(NamedTuple):
    """One call of a VecEnv.

    Attributes:
        where: "reset", or "step 12".
        actions: The batch that was handed to it, a copy of its own; None for a reset.
        result: What it returned.
        masks: What ``action_mask()`` said after it; None where there are no masks.
    """

    where: str
    actions: Any
    result: Result
    masks: Any = None


@dataclass(frozen=True)
class Shown:
    """A copy of what one call of a VecEnv returned.

    Attributes:
        where: "reset", or "step 12".
        num_envs: The number of rows.
        parts: What it returned by name, each with a first axis of the rows: "rewards", "observations" (a nested batch
            by its arrays, "observations['book']"), the info columns of a native env ("infos['price']"), and what
            ``action_mask()`` said ("action_mask()", likewise).
        infos: The dicts of any other env; they are not compared between runs, since they may hold times.
        ends: By row the terminal observation and the info of the reset, where the call carried them.
        shared_draws: The state of the generator that the sub-envs of a native env share; None for any other env.
    """

    where: str
    num_envs: int
    parts: dict[str, Any]
    infos: list[Any] = field(default_factory=list)
    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    shared_draws: Any = None

    @property
    def done(self) -> list[int]:
        """The rows that are done after the call."""
        if "terminated" not in self.parts:
            return []
        rows: list[int] = np.flatnonzero(self.parts["terminated"] | self.parts["truncated"]).tolist()
        return rows


@dataclass(frozen=True)
class Difference:
    """Where two runs part.

    Attributes:
        where: The call, and the place in what it returned: "step 12: observations[2, 0]".
        row: The row in the first of the two runs.
        expected: What the first run has there.
        got: What the second one has.
    """

    where: str
    row: int
    expected: Any
    got: Any

    def problem(self, because: str, when: str = "", sub_env: object = None) -> str:
        """The difference as a problem: "where: expected X <because>, got Y <when> (sub-env i)".

        Args:
            because: Why the first run's value was to be expected.
            when: What was otherwise in the second run.
            sub_env: Which sub-env it is; None for the row.
        """
        expected, got = f"expected {show(self.expected)}{because}", f"got {show(self.got)}{when}"
        return f"{self.where}: {expected}, {got} (sub-env {self.row if sub_env is None else sub_env})"


# -- copying what is shown ----------------------------------------------------------------------------------


def calls(vec: VecEnv[Any, Any], seeds: Sequence[int], actions: Iterable[Any]) -> Iterator[Call]:
    """Reset a VecEnv and step it.

    Args:
        vec: The VecEnv.
        seeds: One per sub-env.
        actions: One batch per step.

    Raises:
        CallFailed: A call raised, or returned something that is no result.
    """
    result = _result_of(vec.reset, "reset", VecResetResult, seed=list(seeds))
    yield Call("reset", None, result, masks_of(vec, "reset"))
    yield from steps(vec, actions)


def steps(vec: VecEnv[Any, Any], actions: Iterable[Any], first: int = 1) -> Iterator[Call]:
    """Step a VecEnv on from where it is.

    Args:
        vec: The VecEnv.
        actions: One batch per step.
        first: The number of the first of these steps.

    Raises:
        CallFailed: A call raised, or returned something that is no result.
    """
    for number, batch in enumerate(actions, start=first):
        where = f"step {number}"
        given = layout.copy_batch(batch)
        result = _result_of(vec.step, where, VecStepResult, given)
        yield Call(where, given, result, masks_of(vec, where))


def _result_of(call: Callable[..., Any], where: str, kind: type[Any], *args: Any, **kwargs: Any) -> Any:
    expected = f"a {kind.__name__}"
    try:
        result = call(*args, **kwargs)
    except Exception as error:
        raise CallFailed(f"{where}: expected {expected}, got {name_error(error)}") from error
    if not isinstance(result, kind):
        raise CallFailed(f"{where}: expected {expected}, got {describe(result)}")
    return result


def masks_of(vec: VecEnv[Any, Any], where: str) -> Any:
    """The masks of all sub-envs now; None where there are none.

    Raises:
        CallFailed: They are no batch of masks.
    """
    if not vec.has_action_mask:
        return None
    try:
        masks = vec.action_mask()
        check_masks(mask_space(vec.action_space), vec.num_envs, masks, "action_mask()")
    except Exception as error:
        raise CallFailed(f"{where}: action_mask(): expected a batch of masks, got {name_error(error)}") from error
    return masks


def play(
    vec: VecEnv[Any, Any], seeds: Sequence[int], actions: Iterable[Any], rows: Container[int] | None = None
) -> Iterator[Shown]:
    """As ``calls``, copied."""
    for call in calls(vec, seeds, actions):
        yield copy_shown(vec, call, rows)


def copy_shown(vec: VecEnv[Any, Any], call: Call, rows: Container[int] | None = None) -> Shown:
    """A copy of everything that a call returned.

    Args:
        vec: The VecEnv.
        call: The call.
        rows: The rows of which to keep how an episode ended; None for all. A dict for each of thousands takes long.
    """
    result = call.result
    parts = {name: layout.copy_batch(part) for name, part in layout.named_parts(result.observations, "observations")}
    if call.masks is not None:
        parts |= {name: np.array(part) for name, part in layout.named_parts(call.masks, MASKS)}
    if isinstance(result, VecStepResult):
        parts |= {name: getattr(result, name).copy() for name in ("rewards", "terminated", "truncated")}
    infos: list[Any] = []
    end_keys = [FINAL_OBSERVATION]
    if isinstance(result.infos, InfoList):
        parts |= {f"infos[{key!r}]": layout.copy_batch(column) for key, column in result.infos.columns.items()}
        end_keys.append(RESET_INFO)
    else:
        infos = [copy_info(info) for info in result.infos]
    ends = {}
    for row in np.flatnonzero(result.dones).tolist():
        if (rows is None or row in rows) and FINAL_OBSERVATION in result.infos[row]:
            info = result.infos[row]
            ends[row] = copy_info({key: info[key] for key in end_keys if key in info})
    return Shown(call.where, vec.num_envs, parts, infos, ends, shared_draws(vec))


def shared_draws(vec: VecEnv[Any, Any]) -> Any:
    """The state of the generator that the sub-envs of a native env share; None for any other env."""
    native = vec.unwrapped
    return native.rng.bit_generator.state if isinstance(native, NativeVecEnv) else None


# -- comparing them ----------------------------------------------------------------------------------------


def first_difference(
    expected: Iterable[Shown],
    got: Iterable[Shown],
    rows: Sequence[int] | None = None,
    got_rows: Sequence[int] | None = None,
    *,
    shared_draws: bool = False,
) -> Difference | None:
    """Where the second run first differs from the first one; None if it does not.

    Args:
        expected: One run.
        got: The other. The shorter run ends the comparison.
        rows: Which rows of the first run are compared; None for all.
        got_rows: With which rows of the second one; None for the same.
        shared_draws: Whether the sub-envs draw from one generator. What one draws may then move the numbers of the
            others, as the contract allows, so that runs are compared only while it is in the same state in both.
    """
    for one, other in zip(expected, got, strict=False):
        if shared_draws and one.shared_draws != other.shared_draws:
            return None
        difference = difference_between(one, other, rows, got_rows)
        if difference is not None:
            return difference
    return None


def difference_between(
    expected: Shown, got: Shown, rows: Sequence[int] | None = None, got_rows: Sequence[int] | None = None
) -> Difference | None:
    """As ``first_difference``, of one call."""
    rows = range(expected.num_envs) if rows is None else rows
    got_rows = rows if got_rows is None else got_rows
    if not rows:
        return None
    for name in dict.fromkeys([*expected.parts, *got.parts]):
        where = f"{got.where}: {name}"
        if name not in expected.parts or name not in got.parts:
            one, other = ("an array" if name in each.parts else "nothing" for each in (expected, got))
            return Difference(where, rows[0], one, other)
        one, other = _take(expected.parts[name], rows), _take(got.parts[name], got_rows)
        place = _first_place(one, other)
        if place is not None:
            row = rows[place[0]]
            index = ", ".join(map(str, (row, *place[1:])))
            return Difference(f"{where}[{index}]", row, _item(one, place), _item(other, place))
    for row, got_row in zip(rows, got_rows, strict=True) if expected.ends or got.ends else ():
        end, got_end = expected.ends.get(row, {}), got.ends.get(got_row, {})
        for key in {**end, **got_end}:
            if not same(end.get(key), got_end.get(key)):
                return Difference(f"{got.where}: infos[{row}][{key!r}]", row, end.get(key), got_end.get(key))
    return None


def _take(part: Any, rows: Sequence[int]) -> Any:
    if isinstance(rows, range) and rows.step == 1:
        return part[rows.start : rows.stop]
    return part[list(rows)] if isinstance(part, np.ndarray) else [part[row] for row in rows]


def _first_place(one: Any, other: Any) -> tuple[int, ...] | None:
    """The index of the first item in which two parts differ; None if they do not."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray) or one.dtype == object:
        return next(((row,) for row, pair in enumerate(zip(one, other, strict=True)) if not same(*pair)), None)
    texts = one.dtype.kind == other.dtype.kind and one.dtype.kind in "SU"  # as wide as the longest in any row
    if one.shape != other.shape or not (texts or one.dtype == other.dtype):
        return (0,)
    unequal: NDArray[np.bool_] = one != other
    if one.dtype.kind in "fc":
        unequal &= (one == one) | (other == other)  # NaN equals NaN
    if not unequal.any():
        return None
    return tuple(int(index) for index in np.unravel_index(unequal.argmax(), unequal.shape))


def _item(part: Any, place: tuple[int, ...]) -> Any:
    """The item at an index, a number without its NumPy type."""
    item = part[place] if isinstance(part, np.ndarray) else part[place[0]]
    return item.item() if isinstance(item, np.generic) else item
