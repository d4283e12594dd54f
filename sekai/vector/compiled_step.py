"""What a native market says of its step to a loop that runs in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class CompiledStep(NamedTuple):
    """The step of a native market, autoreset included, as a compiled function of rows.

    Attributes:
        advance: Compiled, ``advance(shared, columns, now, actions, before, infos, outcome)``. It makes one step of the
            rows it is given: reads ``actions``, moves the arrays in ``columns`` on in place, writes the info columns of
            the step into ``infos`` (those of the step before are ``before``), fills ``outcome`` (a
            ``sekai.kernels.rolling.RolledStep``), and begins a new episode in the rows whose episode ended.
        shared: What is the same for all rows: a scalar, an array or a named tuple of them.
        columns: A tuple, or named tuple, of arrays (num_envs, ...), the live state.
        now: ``episode_clock.now``; ``advance`` gets it counted up with each step.
        infos: A named tuple of the info columns of a step (num_envs,), as they are now; its fields are the keys of the
            infos, and ``before`` and ``infos`` are such tuples.
    """

    advance: Callable[..., None]
    shared: Any
    columns: tuple[Any, ...]
    now: int
    infos: Any


#: The methods of a native market that its compiled step stands for.
_WHAT_A_STEP_IS = frozenset(("step", "reset", "_step", "_observe", "_observe_rows", "_reset_envs", "_reset_infos"))


def stands_for_step(market: type) -> bool:
    """Whether no class of a market overrides what the class that wrote its ``_compiled_step`` does in a step."""
    for kind in market.__mro__:
        if "_compiled_step" in vars(kind):
            return True
        if not _WHAT_A_STEP_IS.isdisjoint(vars(kind)):
            return False
    return False
