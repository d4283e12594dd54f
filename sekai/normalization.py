"""Normalising batches of observations and rewards: what the single-env and the vector wrappers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.buffers import Buffers
from sekai.spaces import Box, Dict, MaskedBox, Space, Tuple
from sekai.stats import LARGEST, MANY_NUMBERS, ArrayStats, RunningMeanStd, StatsKind, make_stats, moment_kernels

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class ObservationNormalizer:
    """Running statistics of every ``Box`` leaf of a space, and the normalisation of batches by them.

    A leaf is normalised to ``(x - mean) / sqrt(var + epsilon)``, number by number. Of a ``MaskedBox`` only
    the occupied slots count, all slots sharing the statistics of one element, and empty slots keep the fill
    value. Leaves of any other kind pass through as they are.

    What is NaN or infinite is shown as it comes but not learnt from: a leaf (of a ``MaskedBox``: a slot) that
    holds such a number does not count in the statistics.

    Args:
        space: Space of one observation, nested as deep as it likes.
        kind: "running" for statistics of everything seen, "ewm" for exponentially weighted ones.
        halflife: Of "ewm": updates after which a batch counts half.
        epsilon: Added to the variance.
        clip: Normalised values are clipped to ``[-clip, clip]``; None for no clipping.

    Attributes:
        space: Space of one normalised observation: ``Box`` and ``MaskedBox`` leaves are unbounded, or
            bounded by ``clip``, in float32, or in float64 where they were.
        stats: The statistics, nested like the space; None for a leaf that passes through.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        space: Space[Any],
        *,
        kind: StatsKind = "running",
        halflife: float = 1000.0,
        epsilon: float = 1e-8,
        clip: float | None = None,
    ) -> None:
        if not epsilon >= 0:
            raise ValueError(f"normalization: expected an epsilon of at least 0, got {epsilon}")
        if clip is not None and not clip > 0:
            raise ValueError(f"normalization: expected a clip above 0 or None, got {clip}")
        make_stats(kind, (), halflife)  # refuses them even where no leaf has statistics
        self.kind = kind
        self.epsilon = epsilon
        self.clip = clip
        self._source = space
        self.space: Space[Any] = _normalized_space(space, np.inf if clip is None else clip)
        self.stats: Any = _map_leaves(lambda leaf: _leaf_stats(leaf, kind, halflife), space)

    def update(self, batch: Any, rows: NDArray[np.bool_] | None = None) -> None:
        """Take in a batch of observations.

        Args:
            batch: n observations, nested like the space, arrays with a leading axis of n.
            rows: bool (n,), which of them count; None for all.
        """
        _map_leaves(lambda leaf, stats, values: _update(leaf, stats, values, rows), *self._trees(batch))

    def learn_and_normalize(self, batch: Any, finals: Any, buffers: Buffers) -> tuple[Any, Any]:
        """``update()`` with all of a batch, and ``normalize()`` it by what is known then, in one pass over it.

        Args:
            batch: n observations, nested like the space, arrays with a leading axis of n, the same in every call.
            finals: Observations that are normalised without counting, nested likewise; None for none.
            buffers: Where large arrays for ``Box`` leaves come from.

        Returns:
            The batch and ``finals``, normalised.
        """
        trees = (*self._trees(batch), *(() if finals is None else (finals,)))
        if type(self._source) is Box:  # the common case without a function call for each step of the way
            normalized, others = self._learn_leaf(buffers, *trees)
            return normalized, others
        pairs = _map_leaves(partial(self._learn_leaf, buffers), *trees)
        normalized = _map_leaves(lambda _, pair: pair[0], self._source, pairs)
        return normalized, None if finals is None else _map_leaves(lambda _, pair: pair[1], self._source, pairs)

    def _learn_leaf(
        self, buffers: Buffers, leaf: Space[Any], stats: ArrayStats | None, values: Any, finals: Any = None
    ) -> tuple[Any, Any]:
        if stats is None or (type(leaf) is not Box and isinstance(leaf, MaskedBox)):
            _update(leaf, stats, values, None)
            normalized = self._normalize_leaf(leaf, stats, values, buffers)
            return normalized, None if finals is None else self._normalize_leaf(leaf, stats, finals, None)
        samples = np.asarray(values)
        out = buffers.take(samples.shape, _float_dtype(leaf.dtype))
        return out, stats.learn_and_normalize(samples, self.epsilon, self.clip, out, finals)

    def normalize(self, batch: Any, buffers: Buffers | None = None) -> Any:
        """A batch of observations, normalised into new arrays by the statistics as they are.

        Args:
            batch: n observations, nested like the space, arrays with a leading axis of n. Leaves that pass
                through are handed on, not copied.
            buffers: Where large arrays for ``Box`` leaves come from, if n is the same in every call.
        """
        return _map_leaves(
            lambda leaf, stats, values: self._normalize_leaf(leaf, stats, values, buffers), *self._trees(batch)
        )

    def state_dict(self) -> dict[str, Any]:
        """The statistics as plain data: dicts, lists, strings, numbers and None, which ``json`` can write."""
        return {
            "kind": self.kind,
            "stats": _map_leaves(lambda _, stats: stats and stats.state_dict(), self._source, self.stats),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore statistics saved by ``state_dict()``; on an error nothing has changed.

        Raises:
            ValueError: They are of another kind, shape or nesting.
        """
        if not isinstance(state, Mapping) or not {"kind", "stats"} <= state.keys():
            raise ValueError(f"load_state_dict: expected the keys 'kind' and 'stats', got {state!r}")
        if state["kind"] != self.kind:
            raise ValueError(f"load_state_dict: expected statistics of kind {self.kind!r}, got {state['kind']!r}")
        for stats in (deepcopy(self.stats), self.stats):  # a rehearsal first: all leaves or none
            _load(self._source, stats, state["stats"], "stats")

    def _trees(self, batch: Any) -> tuple[Space[Any], Any, Any]:
        return self._source, self.stats, batch

    def _normalize_leaf(self, leaf: Space[Any], stats: ArrayStats | None, values: Any, buffers: Buffers | None) -> Any:
        if stats is None:
            return values
        if isinstance(leaf, MaskedBox):
            occupied = np.asarray(values["mask"]).astype(bool)
            slots = np.asarray(values["values"])
            normalized = np.full(slots.shape, leaf.fill_value, dtype=_float_dtype(leaf.dtype))
            normalized[occupied] = self._scaled(slots[occupied], stats, normalized.dtype, None)
            return {"values": normalized, "mask": np.array(values["mask"])}
        return self._scaled(np.asarray(values), stats, _float_dtype(leaf.dtype), buffers)

    def _scaled(
        self, values: NDArray[Any], stats: ArrayStats, dtype: np.dtype[Any], buffers: Buffers | None
    ) -> NDArray[Any]:
        out = np.empty(values.shape, dtype) if buffers is None else buffers.take(values.shape, dtype)
        scaled = stats.normalize(values, self.epsilon, out=out)
        return scaled if self.clip is None else np.clip(scaled, -self.clip, self.clip, out=scaled)


class DiscountedReturn:
    """The running discounted return of ``n`` envs, and rewards divided by its standard deviation.

    The scheme of OpenAI baselines' ``VecNormalize``: every env's return is ``gamma`` times itself plus the
    reward, starts at 0 with each episode, and all of them feed one variance. A reward that is NaN or infinite
    neither enters the return nor counts; it is shown as it comes.

    Args:
        n: Number of envs.
        gamma: Discount factor in [0, 1].
        epsilon: Added to the variance.

    Attributes:
        returns: float64 (n,), the discounted returns so far.
        return_rms: Running statistics of the returns.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(self, n: int, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"normalization: expected a gamma in [0, 1], got {gamma}")
        if not epsilon >= 0:
            raise ValueError(f"normalization: expected an epsilon of at least 0, got {epsilon}")
        self.gamma = gamma
        self.epsilon = epsilon
        self.returns: NDArray[np.float64] = np.zeros(n)
        self.return_rms = RunningMeanStd()
        self._buffers = Buffers()

    def step(
        self,
        rewards: NDArray[np.float64],
        dones: NDArray[np.bool_],
        live: NDArray[np.bool_] | None = None,
        *,
        learn: bool = True,
    ) -> NDArray[np.float64]:
        """Take one step's rewards into the returns, and those into the statistics; then scale the rewards.

        Args:
            rewards: float64 (n,).
            dones: bool (n,), the envs whose episode has ended, and whose return starts again.
            live: bool (n,), which envs were stepped; None for all.
            learn: Whether the statistics take the returns in; the returns go on in either case.

        Returns:
            The rewards, float64 (n,), divided by the standard deviation of the returns.
        """
        out = self._buffers.take(rewards.shape, np.float64)
        if learn and len(rewards) >= MANY_NUMBERS:  # all in one pass, for the reason given at that number
            stats = self.return_rms
            known = float(stats.mean), float(stats.var), stats.count, stats.count != stats.epsilon
            step_returns = moment_kernels().step_returns
            mean, var, count = step_returns(
                rewards, dones, live, self.gamma, self.returns, known, LARGEST, self.epsilon, out
            )
            if count:
                stats.take(np.asarray(mean), np.asarray(var), count)
            return out
        self._advance(rewards, live, learn)
        np.multiply(rewards, 1.0 / np.sqrt(self.return_rms.var + self.epsilon), out=out)
        self.returns[dones] = 0.0
        return out

    def _advance(self, rewards: NDArray[np.float64], live: NDArray[np.bool_] | None, learn: bool) -> None:
        finite = np.isfinite(rewards)
        if not finite.all():
            live = finite if live is None else live & finite
        if live is None:
            self.returns *= self.gamma
            self.returns += rewards
        else:
            self.returns[live] = self.returns[live] * self.gamma + rewards[live]
        if learn:
            self.return_rms.update(self.returns if live is None else self.returns[live])

    def reset(self) -> None:
        """Start all returns again; the statistics stay."""
        self.returns[:] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The statistics, without the returns under way, as plain data that ``json`` can write."""
        return self.return_rms.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore statistics saved by ``state_dict()``, of any number of envs; the returns stay.

        Raises:
            ValueError: They are of another kind or shape.
        """
        self.return_rms.load_state_dict(state)


def _map_leaves(function: Callable[..., Any], space: Space[Any], *trees: Any) -> Any:
    """Call ``function(leaf_space, *leaves)`` at every leaf; results nested like the space."""
    if type(space) is Box:  # the common case first: isinstance is slow on abstract classes
        return function(space, *trees)
    if isinstance(space, Dict):
        return {
            key: _map_leaves(function, inner, *(tree[key] for tree in trees)) for key, inner in space.spaces.items()
        }
    if isinstance(space, Tuple):
        return tuple(_map_leaves(function, inner, *(tree[i] for tree in trees)) for i, inner in enumerate(space.spaces))
    return function(space, *trees)


def _float_dtype(dtype: Any) -> np.dtype[Any]:
    return _FLOAT64 if dtype == _FLOAT64 else _FLOAT32


def _normalized_space(space: Space[Any], bound: float) -> Space[Any]:
    if isinstance(space, Dict):
        return Dict({key: _normalized_space(inner, bound) for key, inner in space.spaces.items()})
    if isinstance(space, Tuple):
        return Tuple([_normalized_space(inner, bound) for inner in space.spaces])
    if isinstance(space, Box):
        return Box(-bound, bound, space.shape, _float_dtype(space.dtype))
    if isinstance(space, MaskedBox):
        return MaskedBox(
            -bound,
            bound,
            space.shape,
            max_size=space.max_size,
            dtype=_float_dtype(space.dtype),
            fill_value=space.fill_value.item(),
            batch_shape=space.batch_shape,
        )
    return space


def _leaf_stats(leaf: Space[Any], kind: StatsKind, halflife: float) -> ArrayStats | None:
    if isinstance(leaf, (Box, MaskedBox)):
        return make_stats(kind, leaf.shape, halflife)
    return None


def _update(leaf: Space[Any], stats: ArrayStats | None, values: Any, rows: NDArray[np.bool_] | None) -> None:
    if stats is None:
        return
    if isinstance(leaf, MaskedBox):
        counted = np.asarray(values["mask"]).astype(bool)
        if rows is not None:
            counted[~rows] = False
        stats.update(np.asarray(values["values"])[counted])
    else:
        stats.update(values if rows is None else np.asarray(values)[rows])


def _load(space: Space[Any], stats: Any, state: Any, where: str) -> None:
    """Load nested states into nested statistics; ``where`` names the place in an error."""
    if isinstance(space, Dict):
        if not isinstance(state, Mapping) or state.keys() != space.spaces.keys():
            expected = list(space.spaces)
            raise ValueError(f"load_state_dict: {where}: expected the keys {expected}, got {state!r}")
        for key, inner in space.spaces.items():
            _load(inner, stats[key], state[key], f"{where}[{key!r}]")
    elif isinstance(space, Tuple):
        if not isinstance(state, (list, tuple)) or len(state) != len(space.spaces):
            raise ValueError(f"load_state_dict: {where}: expected {len(space.spaces)} entries in a list, got {state!r}")
        for i, inner in enumerate(space.spaces):
            _load(inner, stats[i], state[i], f"{where}[{i}]")
    elif stats is None:
        if state is not None:
            raise ValueError(f"load_state_dict: {where}: expected None (no statistics), got {state!r}")
    else:
        try:
            stats.load_state_dict(state)
        except ValueError as error:
            raise ValueError(f"load_state_dict: {where}: {error}") from error
