"""What row functions return, looked at by the compiler.

Of a step that is a number and two bools, none standing for another; nothing of those that write into what they get.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

#: What row functions that return nothing write into.
WRITES = {"reset": "state", "observe": "observation", "mask": "mask"}


def is_number(kind: Any) -> bool:
    """Whether a Numba type is one of real numbers; a bool is none."""
    return isinstance(kind, (types.Integer, types.Float))


def is_nothing(kind: Any) -> bool:
    """Whether a Numba type is that of what a function without a ``return`` returns."""
    return isinstance(kind, types.NoneType)


def _as_it_is(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return arguments[0]


def _reward_of(typing_context: Any, value: Any) -> Any:
    if not is_number(value):
        raise TypingError(f"step_row: expected a number as reward, got {value}")
    return value(value), _as_it_is


def _flag_of(typing_context: Any, value: Any) -> Any:
    if not isinstance(value, types.Boolean):
        raise TypingError(f"step_row: expected bools as terminated and truncated, got {value}")
    return value(value), _as_it_is


def _whole_of(typing_context: Any, value: Any) -> Any:
    if isinstance(value, (types.Optional, types.NoneType)):
        raise TypingError(f"expected every branch to return something, got {value}")
    return value(value), _as_it_is


def _nothing_of(typing_context: Any, value: Any) -> Any:
    if not is_nothing(value):
        raise TypingError(f"expected nothing to be returned by what writes into its arguments, got {value}")
    return value(value), _as_it_is


def _plain_nothing_of(value: Any) -> Any:
    if value is not None:
        names = ", ".join(f"{what}_row (it writes into {argument})" for what, argument in WRITES.items())
        raise TypeError(f"expected nothing to be returned by {names}, got {value!r}")
    return value


def _plain_whole_of(value: Any) -> Any:
    if value is None:
        raise TypeError("expected every branch of a row function to return something, got None")
    return value


def _plain_reward_of(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"step_row: expected a number as reward, got {value!r}")
    return value


def _plain_flag_of(value: Any) -> Any:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"step_row: expected bools as terminated and truncated, got {value!r}")
    return value


if numba.config.DISABLE_JIT:
    whole_of, reward_of, flag_of = _plain_whole_of, _plain_reward_of, _plain_flag_of
    nothing_of = _plain_nothing_of
else:
    #: What a function returned as it is, where it cannot be None: the compiler would find out only when it is.
    whole_of = intrinsic(_whole_of)
    #: A reward as it is, where it is a number.
    reward_of = intrinsic(_reward_of)
    #: A flag as it is, where it is a bool.
    flag_of = intrinsic(_flag_of)
    #: What a function returned as it is, where that is nothing.
    nothing_of = intrinsic(_nothing_of)
