"""The whole step of a market in one compiled call, from functions of one row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.core import types

from sekai.kernels.batch import PARALLEL_FROM, Spread
from sekai.kernels.fields import Fields, structure
from sekai.kernels.jit import compile_kernel
from sekai.kernels.market import Market, Record
from sekai.kernels.reasons import being_compiled, is_of_compiler, name_of_type, reason_of
from sekai.kernels.returned import WRITES, is_nothing, is_number
from sekai.kernels.rolling import act, unwritten
from sekai.kernels.source import MarketSource


class Rolling(NamedTuple):
    """Some steps of a rollout.

    Attributes:
        serial: ``serial(n, first, steps, *arrays, *market arrays, *parameters)`` on one thread.
        parallel: The same with the number of threads after ``n``.
        take_apart: The parameters of the policy as they are passed.
    """

    serial: Any
    parallel: Any
    take_apart: Callable[[Any], tuple[Any, ...]]


class Fused:
    """The compiled functions of a market, each written when it is first asked for.

    Args:
        market: What they are made from.
    """

    def __init__(self, market: Market) -> None:
        self.market = market
        self._steps: dict[str, tuple[Any, Any]] = {}
        self._rollouts: dict[Any, Rolling] = {}

    def step(self, mode: str) -> Spread:
        """The step of all rows, ``step(n, addresses, *results, *actions, *arrays)``: how many ended.

        It is -1 if an action is refused. Results are rewards, flags, each array of observations, and the bytes of
        infos. The addresses are of the memory, of results, which it writes there itself, and of ``kept``.

        Each time another one is made of the same functions: when several threads are quicker depends on what goes on
        between the steps, so one batch of a market says nothing of another.

        Args:
            mode: What becomes of rows that end: "reset", "keep" (their terminal observations are kept, and somebody
                else resets them), "freeze", or "go on" (nothing).
        """
        if mode not in self._steps:
            writer = MarketSource(self.market, self.market.told)
            writer.compile(writer.step(mode))
            self._steps[mode] = writer.spread()
        return Spread(*self._steps[mode], self.market.parallel_from or PARALLEL_FROM, explain=self.explain)

    def rollout(self, policy: Any, parameters: Any, infos: tuple[str, ...], action_width: int) -> Rolling:
        """Some steps of a rollout with a policy of rows, for a market of one array of observations and one of actions.

        Args:
            policy: Compiled, ``policy(parameters, observation, action)``.
            parameters: What it is given: a named tuple of scalars and arrays.
            infos: The keys to be recorded.
            action_width: Items of an action.
        """
        key = (policy, structure(parameters), infos)
        if key not in self._rollouts:
            if len(self._rollouts) >= _MOST_FUSED:  # a notebook that defines its policy again makes another each time
                del self._rollouts[next(iter(self._rollouts))]
            writer = MarketSource(self.market, infos, apart=True)
            fields = Fields("parameters", parameters, writer.scope)
            dtype = self.market.actions.parts[0].dtype
            writer.scope.update(_policy=policy, _act=act, _unwritten=unwritten(np.dtype(dtype)))
            source = f"def take_apart(parameters):\n    return ({fields.taken_apart},)"
            writer.compile([*writer.roll(fields, action_width), source])
            self._rollouts[key] = Rolling(*writer.spread(), writer.scope["take_apart"])
        return self._rollouts[key]

    @functools.cached_property
    def reset(self) -> Any:
        """``reset(n, rows, addresses, *options, *infos, *arrays)`` begins episodes in some rows."""
        return self._alone(MarketSource.reset)

    @functools.cached_property
    def observe(self) -> Any:
        """``observe(n, rows, addresses, *observations, *arrays)`` writes what some rows show."""
        return self._alone(MarketSource.observe)

    @functools.cached_property
    def mask(self) -> Any:
        """``mask(n, rows, addresses, *masks, *arrays)`` writes what some rows may do."""
        return self._alone(MarketSource.mask)

    @functools.cached_property
    def derive(self) -> Any:
        """``derive(n, rows, addresses, *arrays)`` works out what follows from the parameters of some rows."""
        return self._alone(MarketSource.follow)

    def explain(self, error: Exception) -> None:
        """Say which row function it is that Numba cannot compile; nothing of any other error.

        Raises:
            TypeError: With the names of the market and the function, and Numba's reason.
        """
        functions = {what: function for what, (function, _) in self.market.functions.items()}
        if not is_of_compiler(error):
            return
        compiled = being_compiled(error)
        reason = reason_of(error, self._records)
        blamed = [
            what
            for what, function in functions.items()
            if repr(function.py_func) in str(error) or function.py_func in compiled
        ]
        follows = [each.name.removeprefix("d_").replace("__", ".") for each, _ in self.market.follows]
        wanted: dict[str, tuple[str, Callable[[Any], bool]]] = {
            "step": ("a number and two bools (reward, terminated, truncated)", _is_step),
            "derive": (f"numbers ({', '.join(follows)})", lambda kind: _are_numbers(kind, len(follows))),
            **{what: (f"nothing (it writes into {argument})", is_nothing) for what, argument in WRITES.items()},
        }
        for what, (expected, fits) in wanted.items():
            for signature in functions[what].nopython_signatures if what in functions else ():
                if not fits(signature.return_type):  # whatever else is said then follows from it
                    blamed = [what]
                    reason = f"expected it to return {expected}, got {name_of_type(signature.return_type)}"
        if blamed:
            code = functions[blamed[0]].py_func.__code__
            where = f"{self.market.name}.{blamed[0]}_row ({code.co_filename}, line {code.co_firstlineno})"
            raise TypeError(f"{where}: {reason}") from None

    @property
    def _records(self) -> list[Any]:
        """The classes of all named tuples that row functions get."""
        waiting: list[Any] = [self.market.params, self.market.state, self.market.derived, self.market.options]
        found = []
        while waiting:
            each = waiting.pop()
            if isinstance(each, Record):
                found.append(each.kind)
                waiting += each.fields
        return found

    def _alone(self, write: Any) -> Any:
        writer = MarketSource(self.market, self.market.told)
        function = writer.compile(write(writer))["alone"]
        function.__qualname__ = f"{self.market.name}_{write.__name__}"
        compiled = compile_kernel(function)

        def call(*args: Any) -> None:
            try:
                compiled(*args)
            except Exception as error:
                self.explain(error)
                raise

        return call


def _flat(kind: Any) -> list[Any]:
    """The types in a tuple, those of tuples in it too."""
    return [each for item in kind for each in _flat(item)] if isinstance(kind, types.BaseTuple) else [kind]


def _is_step(kind: Any) -> bool:
    """Whether a Numba type is a tuple of a number and two bools."""
    is_tuple = isinstance(kind, types.BaseTuple) and len(kind) == 3
    return is_tuple and is_number(kind[0]) and all(isinstance(each, types.Boolean) for each in (kind[1], kind[2]))


def _are_numbers(kind: Any, count: int) -> bool:
    """Whether a Numba type is a tuple of so many numbers."""
    flat = _flat(kind) if isinstance(kind, types.BaseTuple) else []
    return len(flat) == count and all(isinstance(each, (types.Number, types.Boolean)) for each in flat)


_FUSED: dict[Any, Fused] = {}
_MOST_FUSED = 64


def fuse(market: Market) -> Fused:
    """The compiled functions of a market, those of an equal one if they have been made before."""
    key = market.key
    if key not in _FUSED:
        if len(_FUSED) >= _MOST_FUSED:  # a notebook that defines its market again makes others each time
            del _FUSED[next(iter(_FUSED))]
        _FUSED[key] = Fused(market)
    return _FUSED[key]
