"""A whole rollout in one compiled loop: policy and market, row by row, step after step.

The rows are cut into blocks that stay in a core's cache for all steps of a call, and the blocks are spread over
threads. It gives the numbers that calls of policy and ``step()`` give, since both are the same functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from sekai.kernels import threads
from sekai.kernels.batch import BLOCK, BOUNDS_ARE_CHECKED, jit_batch
from sekai.kernels.columns import rows_between
from sekai.kernels.fields import Fields, structure
from sekai.kernels.jit import compile_kernel, jit

#: From how many rows on a rollout is spread over threads: fewer than a single step is, as many steps are made at once.
ROLLED_PARALLEL_FROM = 4 * BLOCK


class RolledStep(NamedTuple):
    """What a market writes in one step of a compiled rollout, of ``n`` rows.

    Attributes:
        observations: (n, ...), what is shown after the step: of a row whose episode ended, the first observation of the
            next one.
        final_observations: (n, ...), the terminal observation, in the rows whose episode ended alone.
        rewards: f8 (n,).
        terminated: bool (n,), False so far.
        truncated: bool (n,).
        invalid: bool (n,), whether the action is one that ``step()`` refuses.
    """

    observations: NDArray[Any]
    final_observations: NDArray[Any]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    invalid: NDArray[np.bool_]


class Recording(NamedTuple):
    """The arrays of a compiled rollout, time first.

    Attributes:
        observations: (T, N, ...), those of the next step filled already.
        last_observations: (N, ...), what is shown after step T.
        actions: (T, N, ...).
        rewards: f8 (T, N).
        terminated: bool (T, N), False so far.
        truncated: bool (T, N).
        final_observations: (K, N, ...), those of the K steps of a call.
        refused: i8 (threads, 2), step and row of the earliest invalid action; -1 where there was none.
    """

    observations: NDArray[Any]
    last_observations: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_observations: NDArray[Any]
    refused: NDArray[np.int64]


def roll(
    advance: Callable[..., None],
    policy: Callable[..., None],
    first: int,
    steps: int,
    now: int,
    parameters: Any,
    shared: Any,
    columns: Any,
    recording: Recording,
    infos: Any,
) -> None:
    """Make some steps of a rollout.

    Args:
        advance: Compiled, ``advance(shared, columns, now, actions, before, infos, outcome)``; see
            ``sekai.vector.compiled_step.CompiledStep``.
        policy: Compiled, ``policy(parameters, observation, action)``: reads one observation, flattened and read-only,
            and writes one action, flattened.
        first: The first of them, as the recording counts them.
        steps: How many.
        now: What ``advance`` gets as the first one's count.
        parameters: What ``policy`` gets.
        shared: What ``advance`` gets.
        columns: What ``advance`` gets the rows of.
        recording: Written, on as many threads as ``refused`` has rows.
        infos: A named tuple of arrays (L, N), written: step ``t`` is row ``(t + 1) % L``, and row ``first % L`` holds
            what went before.
    """
    given = {"parameters": parameters, "shared": shared, "columns": columns, "recording": recording, "infos": infos}
    widths = math.prod(recording.observations.shape[2:]), math.prod(recording.actions.shape[2:])
    key = (advance, policy, widths, *(structure(value) for value in given.values()))
    rolling = _ROLLING.get(key)
    if rolling is None:
        if len(_ROLLING) >= _MOST_LOOPS:
            del _ROLLING[next(iter(_ROLLING))]
        rolling = _ROLLING[key] = Rolling(advance, policy, widths, given)
    num_threads = len(recording.refused)
    before = threads.enter(num_threads) if num_threads > 1 else 0
    if not before:
        rolling.serial(first, steps, now, *rolling.take_apart(**given))
        return
    try:
        rolling.parallel(first, steps, now, *rolling.take_apart(**given))
    except SystemError as error:  # what a thread raised
        raise error.__cause__ or error from None
    finally:
        threads.leave(before)


#: The loops made so far, the last ones: a notebook that defines its policy again makes another each time.
_ROLLING: dict[Any, Rolling] = {}
_MOST_LOOPS = 64


class Rolling:
    """The loops of one market and one policy, serial and parallel.

    Args:
        advance: See ``roll``.
        policy: Likewise.
        widths: Of an observation and of an action, flattened. The loop is written for them, since the compiler
            vectorises a loop over rows only if it knows how far apart they are.
        given: The arguments after ``now``, by name, or others like them.
    """

    def __init__(
        self,
        advance: Callable[..., None],
        policy: Callable[..., None],
        widths: tuple[int, int],
        given: dict[str, Any],
    ) -> None:
        scope: dict[str, Any] = {
            "__name__": advance.__module__,
            "_rows": rows_between,
            "_empty": np.empty,
            "_bool": np.bool_,
            "_some": some,
            "_first_of": first_of,
            "_act": act,
            "_seen_rows": seen_rows,
            "_taken_rows": taken_rows,
            "_policy": policy,
            "_advance": advance,
            "_Outcome": RolledStep,
            "_prange": numba.prange,
        }
        fields = {name: Fields(name, value, scope) for name, value in given.items()}
        source = _write_source(fields, *widths)
        exec(compile(source, f"<rollout of {advance.__name__} and {policy.__name__}>", "exec"), scope)
        self.serial, self.parallel = compile_kernel(scope["serial"]), compile_kernel(scope["parallel"], parallel=True)
        self.take_apart: Callable[..., tuple[Any, ...]] = scope["take_apart"]


def _write_source(fields: dict[str, Fields], observation_width: int, action_width: int) -> str:
    whole = {name: each.put_together("{}") for name, each in fields.items()}
    recorded = dict(zip(Recording._fields, fields["recording"].names, strict=True))
    before, after = (fields["infos"].put_together(f"{{0}}[{at} % len({{0}})][lo:hi]") for at in ("step", "(step + 1)"))
    loop = f"""
        for lo in range(start, stop, {BLOCK}):
            hi = min(lo + {BLOCK}, stop)
            rows = {fields["columns"].put_together("_rows({}, lo, hi)")}
            invalid = _empty(hi - lo, _bool)
            for k in range(steps):
                step = first + k
                seen, taken = {recorded["observations"]}[step][lo:hi], {recorded["actions"]}[step][lo:hi]
                _act(
                    _policy,
                    {whole["parameters"]},
                    _seen_rows(seen, {observation_width}),
                    _taken_rows(taken, {action_width}),
                )
                if step + 1 < len({recorded["observations"]}):
                    shown = {recorded["observations"]}[step + 1][lo:hi]
                else:
                    shown = {recorded["last_observations"]}[lo:hi]
                outcome = _Outcome(
                    shown,
                    {recorded["final_observations"]}[k][lo:hi],
                    {recorded["rewards"]}[step][lo:hi],
                    {recorded["terminated"]}[step][lo:hi],
                    {recorded["truncated"]}[step][lo:hi],
                    invalid,
                )
                _advance({whole["shared"]}, rows, now + k, taken, {before}, {after}, outcome)
                if _some(invalid) and not 0 <= {recorded["refused"]}[thread, 0] <= step:
                    {recorded["refused"]}[thread, 0] = step
                    {recorded["refused"]}[thread, 1] = lo + _first_of(invalid)
"""
    names = ", ".join(name for each in fields.values() for name in each.names)
    return f"""
def serial(first, steps, now, {names}):
    start, stop = 0, {recorded["rewards"]}.shape[1]
    for thread in range(1):{loop}

def parallel(first, steps, now, {names}):
    n = {recorded["rewards"]}.shape[1]
    num_threads = len({recorded["refused"]})
    for thread in _prange(num_threads):
        start, stop = thread * n // num_threads, (thread + 1) * n // num_threads{loop}

def take_apart({", ".join(fields)}):
    return ({", ".join(each.taken_apart for each in fields.values())},)
"""


def rolling_threads(num_envs: int) -> int:
    """How many threads a rollout of so many sub-envs is worth."""
    return threads.get_num_threads() if num_envs >= ROLLED_PARALLEL_FROM and not BOUNDS_ARE_CHECKED else 1


def rows_view(*, writable: bool) -> Any:
    """Make the function ``as_rows(array, width)``.

    It shows a C-contiguous array (n, ...) as rows (n, width), where the width is a number written in the source.

    Args:
        writable: Whether the rows can be written to.
    """

    def as_rows(typing_context: Any, array: Any, width: Any) -> Any:
        if array.layout != "C":
            raise TypeError(f"as_rows: expected a C-contiguous array, got {array}")
        rows = array.copy(ndim=2, readonly=not writable)

        def view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole, flat = make_array(array)(context, builder, arguments[0]), make_array(rows)(context, builder)
            item = context.get_abi_sizeof(context.get_data_type(array.dtype))
            constant = functools.partial(context.get_constant, types.intp)
            populate_array(
                flat,
                data=whole.data,
                shape=[builder.extract_value(whole.shape, 0), constant(width.literal_value)],
                strides=[constant(width.literal_value * item), constant(item)],
                itemsize=constant(item),
                meminfo=whole.meminfo,
                parent=whole.parent,
            )
            return impl_ret_borrowed(context, builder, rows, flat._getvalue())

        return rows(array, width), view

    return intrinsic(prefer_literal=True)(as_rows)


#: What a policy sees lies where the rollout keeps it, hence nobody may write to it.
seen_rows, taken_rows = rows_view(writable=False), rows_view(writable=True)


@jit
def act(policy: Any, parameters: Any, observations: NDArray[Any], actions: NDArray[Any]) -> None:
    """Let a row policy act on every row, of observations and actions flattened to (n, width)."""
    for i in range(len(observations)):
        policy(parameters, observations[i], actions[i])


@functools.lru_cache(maxsize=64)
def with_parameters(policy: Callable[..., None]) -> Callable[..., None]:
    """A row policy ``policy(observation, action)`` as one with parameters, which it ignores."""

    def act_without(parameters: Any, observation: NDArray[Any], action: NDArray[Any]) -> None:
        policy(observation, action)

    act_without.__qualname__ = policy.__qualname__
    return jit(act_without)


@functools.lru_cache(maxsize=64)
def batch_of(policy: Callable[..., None]) -> Callable[..., None]:
    """A row policy for a batch: ``act_on(parameters, observations, actions)``."""

    def act_on(parameters: Any, observations: NDArray[Any], actions: NDArray[Any]) -> None:
        n = len(observations)
        act(policy, parameters, observations.reshape((n, -1)), actions.reshape((n, -1)))

    act_on.__qualname__ = f"{policy.__qualname__}_on_rows"
    return jit_batch(shared="parameters")(act_on)


@jit
def some(flags: NDArray[np.bool_]) -> bool:
    """Whether any flag, bool (n,), is set; without a branch, since mostly none is and a loop without is vectorised."""
    found = False
    for i in range(len(flags)):
        found |= flags[i]
    return found


@jit
def first_of(flags: NDArray[np.bool_]) -> int:
    """Where the first flag, bool (n,), is set; n if none is."""
    for i in range(len(flags)):
        if flags[i]:
            return i
    return len(flags)


@jit
def gather_ends(ended: NDArray[np.bool_], indices: NDArray[np.intp]) -> int:
    """Write step and row of every True into ``indices`` (k, 2), as far as it reaches; how many there are.

    Args:
        ended: bool (K, N).
        indices: i8 (k, 2), written.
    """
    count = 0
    steps, num_rows = ended.shape
    for step in range(steps):
        row = ended[step]
        for lo in range(0, num_rows, 256):
            block = row[lo : lo + 256]
            if some(block):
                for i in range(len(block)):
                    if block[i]:
                        if count < len(indices):
                            indices[count, 0] = step
                            indices[count, 1] = lo + i
                        count += 1
    return count
