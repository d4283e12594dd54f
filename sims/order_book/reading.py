"""The parameters of an order-book env, as policies and measurements read them off it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.vector import Randomized


def read_shared(vec: Any, where: str, actions: str, *names: str) -> dict[str, Any]:
    """Parameters that all sub-envs share.

    Args:
        vec: A VecEnv of the order book, on any backend.
        where: What the error message calls the caller.
        actions: The actions that the env has to take.
        *names: Fields of ``LimitOrderBookParams``; none for all of them.

    Returns:
        Their values by name.

    Raises:
        ValueError: The env takes other actions, or a parameter differs between sub-envs or is drawn.
    """
    # One record for all sub-envs; or one each, where they are envs of their own.
    records = list({id(record): record for record in vec.get_attr("params")}.values())
    for record in records:
        if record.actions != actions:
            raise ValueError(f"{where}: expected an env with actions={actions!r}, got {record.actions!r}")
    shared = {}
    for name in names or records[0]._fields:
        first, *others = (getattr(record, name) for record in records)
        if any(isinstance(value, (np.ndarray, Randomized)) for value in (first, *others)):
            raise ValueError(f"{where}: expected one {name} for all sub-envs, got {first!r}")
        if any(value != first for value in others):
            raise ValueError(f"{where}: expected one {name} for all sub-envs, got {first!r} and others")
        shared[name] = first
    return shared
