"""Running statistics of arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import as_numbers

#: Which statistics a normaliser keeps: of everything seen, or exponentially weighted towards the present.
StatsKind: TypeAlias = Literal["running", "ewm"]

#: From how many numbers, and of how many samples, a batch is for compiled kernels. NumPy does as well with fewer, so
#: that a process which sees no more, as with some hundred envs written in Python, never loads Numba.
MANY_NUMBERS, MANY_SAMPLES = 2048, 64

_KINDS = "biuf"  # of dtypes that count as numbers
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))  # what the kernels are compiled for

#: Numbers beyond this do not count: the sum of many of their squares would not fit a float64.
LARGEST = 1e140


class ArrayStats(ABC):
    """Mean and population variance of arrays of one shape, updated in batches, in float64.

    Variances are sums of squared deviations from a mean, never differences of large numbers, so that they
    survive a mean that is large beside them. A sample that holds a NaN, an infinity or a number beyond 1e140
    does not count: one of them would leave the statistics without meaning for good.

    Batches of at least 2,048 numbers and 64 samples are worked on by compiled kernels, whose first use imports Numba;
    the size alone decides, so that the same batch gives the same statistics on every backend.

    Attributes:
        kind: The name ``make_stats()`` knows the class by.
        shape: Shape of one sample.
        mean: float64 (*shape), 0 at first.
        var: float64 (*shape), 1 at first.
        count: Number of samples seen.
    """

    kind: ClassVar[StatsKind]
    _scalars: ClassVar[tuple[str, ...]]  # the numbers that belong to the state, beside mean and variance

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)
        self.mean: NDArray[np.float64] = np.zeros(self.shape)
        self.var: NDArray[np.float64] = np.ones(self.shape)
        self.count = 0.0

    @property
    def std(self) -> NDArray[np.float64]:
        """float64 (*shape), the square root of ``var``."""
        return np.asarray(np.sqrt(self.var))

    def update(self, batch: ArrayLike) -> None:
        """Take in a batch of samples, of shape (k, *shape); one without samples that count changes nothing.

        Raises:
            TypeError: The batch does not hold real numbers.
            ValueError: The batch has another shape.
        """
        samples = as_numbers(batch, f"{type(self).__name__}.update", _KINDS)
        if samples.ndim == 0 or samples.shape[1:] != self.shape:
            expected = ("k", *self.shape)
            raise ValueError(
                f"{type(self).__name__}.update: expected a batch of shape ({', '.join(map(str, expected))}), "
                f"got {samples.shape}"
            )
        if not len(samples):
            return
        mean, var, in_range = _moments(samples)
        if not in_range:
            # Looked for only now that something is known to be wrong: most batches pay nothing for it.
            columns = np.array(samples.reshape(len(samples), -1).T, dtype=np.float64, order="C")
            samples = samples.take(np.flatnonzero((np.abs(columns) <= LARGEST).all(axis=0)), axis=0)
            if not len(samples):
                return
            mean, var, _ = _moments(samples)
        self.merge(mean, var, len(samples))

    def update_from_moments(self, mean: ArrayLike, var: ArrayLike, count: float) -> None:
        """Take in a batch of ``count`` samples by its mean and population variance, both of shape (*shape).

        Raises:
            ValueError: A moment has another shape or holds a NaN or an infinity, or a variance or the count is
                negative.
        """
        moments = np.asarray(mean, dtype=np.float64), np.asarray(var, dtype=np.float64)
        for name, moment in zip(("mean", "var"), moments, strict=True):
            if moment.shape != self.shape:
                raise ValueError(
                    f"{type(self).__name__}.update_from_moments: expected a {name} of shape {self.shape}, "
                    f"got {moment.shape}"
                )
        if not _in_range(*moments) or (moments[1] < 0).any():
            raise ValueError(
                f"{type(self).__name__}.update_from_moments: expected a finite mean and a finite var of at least 0, "
                f"got {mean!r} and {var!r}"
            )
        if not 0 <= count < np.inf:
            raise ValueError(f"{type(self).__name__}.update_from_moments: expected a count of at least 0, got {count}")
        if count > 0:
            self.merge(*moments, count)

    def normalize(self, x: ArrayLike, epsilon: float = 1e-8, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """``(x - mean) / sqrt(var + epsilon)``.

        Args:
            x: One sample, or a batch with any number of leading axes. A NaN stays one.
            epsilon: Keeps the divisor above zero.
            out: Where to write the result, a C-contiguous array of the shape of ``x``; None for a new float64
                array.

        Raises:
            TypeError: ``x`` does not hold real numbers.
            ValueError: The last axes of ``x`` are not those of a sample, or ``out`` is of another shape or not
                C-contiguous.
        """
        where = f"{type(self).__name__}.normalize"
        samples = as_numbers(x, where, _KINDS)
        lead = samples.ndim - len(self.shape)
        if lead < 0 or samples.shape[lead:] != self.shape:
            expected = ", ".join(("...", *map(str, self.shape)))
            raise ValueError(f"{where}: expected samples of shape ({expected}), got {samples.shape}")
        if out is None:
            out = np.empty(samples.shape)
        elif out.shape != samples.shape or not out.flags.c_contiguous:
            raise ValueError(f"{where}: expected a C-contiguous out of shape {samples.shape}, got {out.shape}")
        factor = 1.0 / np.sqrt(self.var + epsilon)
        if _are_many(samples, self.mean.size) and out.dtype in _FLOATS:
            moment_kernels().normalize_columns(_flat(samples), self.mean.ravel(), factor.ravel(), out.reshape(-1))
        else:
            out[...] = np.subtract(samples, self.mean, dtype=np.float64) * factor
        return out

    def learn_and_normalize(
        self,
        x: ArrayLike,
        epsilon: float,
        clip: float | None,
        out: NDArray[Any],
        others: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Take in a batch, and normalise it by what is known then: of many samples, in one compiled call.

        Args:
            x: A batch of samples, (k, *shape).
            epsilon: Keeps the divisor above zero.
            clip: Normalised values are clipped to ``[-clip, clip]``; None for no clipping.
            out: Where to write the result, a C-contiguous array of the shape of ``x``.
            others: Samples that are normalised without counting, (m, *shape); None for none.

        Returns:
            The others, normalised into a new array of the dtype of ``out``.

        Raises:
            TypeError: The batch does not hold real numbers.
            ValueError: The batch has another shape.
        """
        samples = as_numbers(x, f"{type(self).__name__}.update", _KINDS)
        others = samples[:0] if others is None else others
        others_out = np.empty(others.shape, out.dtype)
        if samples.shape[1:] == self.shape and _are_many(samples, self.mean.size) and out.dtype in _FLOATS:
            bound = np.inf if clip is None else clip
            prior, flat, flat_others = self.prior(len(samples)), _flat(samples), _flat(others)
            learnt = moment_kernels().learn_and_normalize(
                flat, flat_others, prior, LARGEST, epsilon, bound, out.reshape(-1), others_out.reshape(-1)
            )
            if learnt is not None:
                mean, var = learnt
                self.take(mean.reshape(self.shape), var.reshape(self.shape), len(samples))
                return others_out
        self.update(samples)
        for values, normalized in ((samples, out), (others, others_out)):
            self.normalize(values, epsilon, normalized)
            if clip is not None:
                np.clip(normalized, -clip, clip, out=normalized)
        return others_out

    def state_dict(self) -> dict[str, Any]:
        """The statistics as plain data: strings, numbers and lists, which ``json`` can write."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "mean": self.mean.tolist(),
            "var": self.var.tolist(),
            **{name: float(getattr(self, name)) for name in self._scalars},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore statistics saved by ``state_dict()``; on an error nothing has changed.

        A half-life is no part of them and stays.

        Raises:
            ValueError: They are of another kind or shape, or no statistics at all: a negative variance, say.
        """
        where = f"{type(self).__name__}.load_state_dict"
        if not isinstance(state, Mapping) or not self.state_dict().keys() <= state.keys():
            raise ValueError(f"{where}: expected the keys {sorted(self.state_dict())}, got {state!r}")
        if state["kind"] != self.kind:
            raise ValueError(f"{where}: expected statistics of kind {self.kind!r}, got {state['kind']!r}")
        shape = state["shape"]
        if not isinstance(shape, (list, tuple)) or tuple(shape) != self.shape:
            got = tuple(shape) if isinstance(shape, list) else shape
            raise ValueError(f"{where}: expected the shape {self.shape}, got {got!r}")
        mean, var = (_load_array(state[name], self.shape, f"{where}: {name}") for name in ("mean", "var"))
        if not _in_range(mean, var) or (var < 0).any():
            raise ValueError(f"{where}: expected a finite mean and a finite var of at least 0, got {mean} and {var}")
        scalars = {name: _load_scalar(state[name], f"{where}: {name}") for name in self._scalars}
        self.mean, self.var = mean, var
        for name, value in scalars.items():
            setattr(self, name, value)

    def merge(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: float) -> None:
        """Take in ``count`` samples, at least one, by moments that are known to be in order.

        Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance", equation 1.5.

        Args:
            mean: float64 (*shape).
            var: float64 (*shape), the population variance.
            count: How many samples they are of.
        """
        before, var_before, kept, added = self.prior(count)
        before = mean if before is None else before
        delta = mean - before
        shift = delta * added
        self.take(np.asarray(before + shift), np.asarray((var_before + delta * shift) * kept + var * added), count)

    @abstractmethod
    def prior(self, count: float) -> tuple[NDArray[np.float64] | None, NDArray[np.float64], float, float]:
        """What ``count`` more samples are merged with: mean, None for theirs, and variance, with the shares of both."""

    @abstractmethod
    def take(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: float) -> None:
        """Go on with the mean and the variance, float64 (*shape), that ``count`` more samples have led to."""


class RunningMeanStd(ArrayStats):
    """Mean and variance of everything seen.

    Before the first batch the mean is 0 and the variance 1. That variance stays in as a prior worth
    ``epsilon`` samples; the prior's mean is the first batch's own, so that data far from 0 get no variance
    from it.

    Args:
        shape: Shape of one sample.
        epsilon: Weight of the prior, in samples; ``count`` starts there.

    Attributes:
        mean: float64 (*shape).
        var: float64 (*shape), of the population.
        count: Samples so far, and ``epsilon``.

    Raises:
        ValueError: ``epsilon`` is negative.
    """

    kind = "running"
    _scalars = ("count", "epsilon")

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        super().__init__(shape)
        if not epsilon >= 0:
            raise ValueError(f"RunningMeanStd: expected an epsilon of at least 0, got {epsilon}")
        self.epsilon = float(epsilon)
        self.count = self.epsilon

    def prior(self, count: float) -> tuple[NDArray[np.float64] | None, NDArray[np.float64], float, float]:
        """See ``ArrayStats.prior``."""
        mean = None if self.count == self.epsilon else self.mean
        return mean, self.var, self.count / (self.count + count), count / (self.count + count)

    def take(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: float) -> None:
        """See ``ArrayStats.take``."""
        self.mean, self.var = mean, var
        self.count += count


class ExponentialMovingStats(ArrayStats):
    """Mean and variance in which older batches count exponentially less.

    Every ``update()`` is one step of the decay, however many samples the batch holds: a batch has weight 1
    when it comes in, 1/2 after ``halflife`` more updates.

    Args:
        shape: Shape of one sample.
        halflife: Updates after which a batch counts half.

    Attributes:
        mean: float64 (*shape).
        var: float64 (*shape), of the population.
        decay: What one update multiplies the weight of all earlier batches by, ``0.5 ** (1 / halflife)``.
        weight: Total weight of the batches so far.

    Raises:
        ValueError: ``halflife`` is not above 0.
    """

    kind = "ewm"
    _scalars = ("count", "weight")

    def __init__(self, shape: tuple[int, ...] = (), halflife: float = 1000.0) -> None:
        super().__init__(shape)
        if not halflife > 0:
            raise ValueError(f"ExponentialMovingStats: expected a halflife above 0, got {halflife}")
        self.halflife = float(halflife)
        self.decay = 0.5 ** (1.0 / self.halflife)
        self.weight = 0.0

    def prior(self, count: float) -> tuple[NDArray[np.float64] | None, NDArray[np.float64], float, float]:
        """See ``ArrayStats.prior``; however many they are, the samples weigh 1."""
        kept = self.decay * self.weight
        return self.mean, self.var, kept / (kept + 1.0), 1.0 / (kept + 1.0)

    def take(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: float) -> None:
        """See ``ArrayStats.take``."""
        self.mean, self.var = mean, var
        self.weight = self.decay * self.weight + 1.0
        self.count += count


def make_stats(kind: StatsKind, shape: tuple[int, ...] = (), halflife: float = 1000.0) -> ArrayStats:
    """The statistics called ``kind``.

    Args:
        kind: "running" or "ewm".
        shape: Shape of one sample.
        halflife: In updates; of "ewm" alone.

    Raises:
        ValueError: No statistics are called that.
    """
    if kind == "running":
        return RunningMeanStd(shape)
    if kind == "ewm":
        return ExponentialMovingStats(shape, halflife)
    raise ValueError(f"stats: expected 'running' or 'ewm', got {kind!r}")


def _load_array(value: Any, shape: tuple[int, ...], where: str) -> NDArray[np.float64]:
    try:
        array = as_numbers(value, where, _KINDS)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: expected numbers in an array of shape {shape}, got {value!r}") from None
    # An array without elements has lost its last axes as a list.
    if array.shape != shape and (array.size or 0 not in shape):
        raise ValueError(f"{where}: expected an array of shape {shape}, got {array.shape}")
    return array.astype(np.float64).reshape(shape)


def _load_scalar(value: Any, where: str) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or not 0 <= value < np.inf:
        raise ValueError(f"{where}: expected a finite number of at least 0, got {value!r}")
    return float(value)


def _in_range(mean: NDArray[np.float64], var: NDArray[np.float64]) -> bool:
    """Whether moments are finite and of samples that are not too large to go on with."""
    # The largest of some numbers is NaN if one of them is, and NaN is below nothing.
    largest = np.maximum.reduce
    return bool(
        largest(np.abs(mean), axis=None, initial=0) <= LARGEST and largest(var, axis=None, initial=0) <= LARGEST**2
    )


@cache
def moment_kernels() -> ModuleType:
    """``sekai.kernels.moments``, imported by the first batch for it; the others pay for no import statement."""
    from sekai.kernels import moments

    return moments


def _are_many(samples: NDArray[Any], width: int) -> bool:
    """Whether samples of ``width`` numbers each are for compiled kernels."""
    return samples.size >= max(MANY_NUMBERS, MANY_SAMPLES * width)


def _flat(samples: NDArray[Any]) -> NDArray[Any]:
    """Samples as the kernels take them: one after the other, float32 where that holds them and float64 elsewhere."""
    if samples.dtype not in _FLOATS or not samples.flags.c_contiguous:
        samples = np.ascontiguousarray(samples, np.float32 if np.can_cast(samples.dtype, np.float32) else np.float64)
    return samples.reshape(-1)


def _moments(samples: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Mean and population variance over the first axis, and whether they are in range.

    Those of samples that are not finite are not, without a warning.
    """
    shape, width = samples.shape[1:], samples[0].size
    if _are_many(samples, width):
        mean, var, in_range = moment_kernels().column_moments(_flat(samples), width, LARGEST)
        return mean.reshape(shape), var.reshape(shape), in_range
    mean, var = _few_moments(samples)
    return mean, var, _in_range(mean, var)


@np.errstate(over="ignore", invalid="ignore")
def _few_moments(samples: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population variance over the first axis, by NumPy."""
    n, shape = len(samples), samples.shape[1:]
    if n <= samples[0].size:
        rows = samples.astype(np.float64)
        mean = rows.mean(axis=0)
        rows -= mean
        return mean, np.square(rows, out=rows).mean(axis=0)
    # NumPy loops over the last axis innermost, which for many samples of few numbers means many loops of almost no
    # length: 2,000 samples of 2 take ten times as long as their transpose.
    columns = np.array(samples.reshape(n, -1).T, dtype=np.float64, order="C")
    means = np.add.reduce(columns, axis=1) / n
    columns -= means[:, None]
    variances = np.einsum("ij,ij->i", columns, columns) / n
    return means.reshape(shape), variances.reshape(shape)
