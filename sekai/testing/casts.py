"""What is lost where the hooks of a native market return other dtypes than they should, which the base class casts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.testing.reference import ReferenceRun
from sekai.testing.shown import calls
from sekai.vector import NativeVecEnv

#: What ``_step()`` returns first.
_OUTPUTS = {"rewards": np.dtype(np.float64), "terminated": np.dtype(np.bool_), "truncated": np.dtype(np.bool_)}
#: How much of what a number changes by, from step to step, its cast may lose.
_TOLERANCE = 0.01


def cast_hints(reference: ReferenceRun) -> list[str]:
    """Listen in on ``_step()`` and ``_observe()`` of a native market: what do they return in another dtype?"""
    with reference.factory.open(reference.num_envs) as vec:
        native = vec.unwrapped
        if not isinstance(native, NativeVecEnv):
            return []
        casts = _Casts(native)
        for _ in calls(vec, reference.inputs.seeds, reference.inputs.actions):
            pass
    return list(casts.hints())


class _Casts:
    """Listens in on the hooks of a native market."""

    def __init__(self, native: NativeVecEnv[Any, Any]) -> None:
        self._other_dtypes: dict[str, str] = {}
        self._rounded: dict[str, _Rounded] = {}
        batch = layout.allocate(native.observation_space, native.num_envs)
        self._expected = {
            name: part.dtype for name, part in layout.named_parts(batch, "observations") if hasattr(part, "dtype")
        }
        step, observe = native._step, native._observe

        def listening_step(actions: Any) -> Any:
            outputs = step(actions)
            for (name, dtype), values in zip(_OUTPUTS.items(), outputs, strict=False):
                self._look("_step()", name, np.asarray(values).dtype, dtype)
            return outputs

        def listening_observe() -> Any:
            batch = observe()
            for name, values in layout.named_parts(batch, "observations"):
                if name in self._expected:
                    self._look_at_numbers(name, np.asarray(values), self._expected[name])
            return batch

        vars(native).update(_step=listening_step, _observe=listening_observe)

    def _look(self, hook: str, name: str, got: np.dtype[Any], expected: np.dtype[Any]) -> None:
        if got == expected:
            return
        if expected.kind == "b":
            loss = "which is converted at each step"
        elif got.kind == "f":
            loss = f"which holds {np.finfo(got).precision + 1} digits"
        else:
            loss = "in which fractions are lost, if any were written into it"
        self._other_dtypes.setdefault(name, f"{hook}: {name}: expected {expected}, got {got}, {loss}")

    def _look_at_numbers(self, name: str, numbers: NDArray[Any], expected: np.dtype[Any]) -> None:
        """The contract allows float64 for float32, which many a market observes in: that alone is no hint."""
        if numbers.dtype == expected or expected.kind != "f":
            return
        if numbers.dtype.kind == "f":
            self._rounded.setdefault(name, _Rounded(expected)).add(numbers)
        else:
            self._look("_observe()", name, numbers.dtype, expected)

    def hints(self) -> Iterator[str]:
        """What the run has shown."""
        yield from self._other_dtypes.values()
        for name, rounded in self._rounded.items():
            yield from rounded.hints(f"_observe(): {name}")


class _Rounded:
    """An array of floats over time, and how far it is from what its cast makes of it.

    Args:
        dtype: What it is cast to.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._last: Any = None
        self._moved: Any = 0.0
        self._off: Any = 0.0

    def add(self, numbers: NDArray[Any]) -> None:
        """Take in the next ones, (num_envs, ...)."""
        with np.errstate(all="ignore"):  # what is not finite is a problem of its own
            self._off += np.abs(numbers.astype(self._dtype) - numbers).sum(axis=0)
            if self._last is not None:
                self._moved += np.abs(numbers - self._last).sum(axis=0)
        self._last = numbers.copy()

    def hints(self, name: str) -> Iterator[str]:
        """The first element whose cast loses much of what it changes by."""
        with np.errstate(all="ignore"):
            loss = np.asarray(self._off / self._moved)
        for first in np.argwhere((loss > _TOLERANCE) & np.isfinite(loss))[:1].tolist():
            place = (0, *first)
            number = self._last[place]
            cast = f"{number} becomes {number.astype(self._dtype)} (sub-env 0)"
            yield (
                f"{name}[{', '.join(map(str, place))}]: expected {self._dtype}, got {number.dtype}, whose cast loses "
                f"{loss[place[1:]]:.0%} of what it changes by: {cast}"
            )
