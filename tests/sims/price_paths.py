"""Price models called alone, in a loop of their own, without a market around them."""

from __future__ import annotations

import numba
import numpy as np
from numba.extending import NativeValue, unbox

from sekai.kernels import jit, streams
from sekai.kernels.constants import Constant, ConstantType


@unbox(ConstantType)
def _unbox_constant(kind, value, compiled):
    """Markets make constants in compiled code; here they come from Python."""
    return NativeValue(compiled.context.get_dummy_value())


@jit
def _walk(model, dt, state, random, prices):
    derived = model.derive(model, dt)
    for i in range(prices.shape[1]):
        model.begin(model, derived, state, random, i, prices[0, i])
        for step in range(1, prices.shape[0]):
            prices[step, i] = model.move(model, derived, state, random, i, prices[step - 1, i])


def walk(model, num_paths, steps, dt, price=100.0, seed=0):
    """The prices (steps + 1, num_paths) of paths with the seeds from ``seed`` on, and the state at their ends."""
    kinds = [model.State.__annotations__[name] for name in model.State._fields]
    state = model.State(*(np.zeros(num_paths, "int64" if "int64" in str(kind) else "float64") for kind in kinds))
    prices = np.full((steps + 1, num_paths), price)
    _walk(as_compiled(model), dt, state, streams.make_streams(range(seed, seed + num_paths)), prices)
    return prices, state


@jit
def _derive(model, dt):
    return model.derive(model, dt)


def derive(model, dt):
    """What follows from the parameters per step."""
    return _derive(as_compiled(model), dt)


def as_compiled(model):
    """With what a market makes of words and None: constants to the compiler."""
    if numba.config.DISABLE_JIT:
        return model
    return model._replace(
        **{
            name: Constant(value)
            for name, value in model._asdict().items()
            if value is None or isinstance(value, (str, bool))
        }
    )
