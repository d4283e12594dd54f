"""What a step returns, looked at by the compiler: a number and two bools, none of which stands for another."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic


def is_number(kind: Any) -> bool:
    """Whether a Numba type is one of real numbers; a bool is none."""
    return isinstance(kind, (types.Integer, types.Float))


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


def _plain_reward_of(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"step_row: expected a number as reward, got {value!r}")
    return value


def _plain_flag_of(value: Any) -> Any:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"step_row: expected bools as terminated and truncated, got {value!r}")
    return value


if numba.config.DISABLE_JIT:
    reward_of, flag_of = _plain_reward_of, _plain_flag_of
else:
    #: A reward as it is, where it is a number.
    reward_of = intrinsic(_reward_of)
    #: A flag as it is, where it is a bool.
    flag_of = intrinsic(_flag_of)
