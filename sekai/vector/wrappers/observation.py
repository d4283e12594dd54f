"""Batches of observations on another scale, of another dtype, or in part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.arguments import Fixed
from sekai.batching.flat import flatten_batch
from sekai.batching.nested import batch_length
from sekai.observations import Casting, Filtering, Rescaling
from sekai.spaces import flatten_space
from sekai.types import ActType
from sekai.vector.base import VecEnv
from sekai.vector.wrappers.base import VecObservationWrapper


class VecRescaleObservation(VecObservationWrapper[Any, ActType, Any]):
    """Maps observations from the bounds of the observation space to ``[min_obs, max_obs]``.

    What ``RescaleObservation`` is for one env.

    Args:
        venv: A VecEnv whose observation space is a ``Box`` of floats.
        min_obs: What becomes the lower bound; a number, or an array that broadcasts to the shape of one observation.
        max_obs: What becomes the upper bound; above ``min_obs`` everywhere.

    Raises:
        TypeError: The observation space is no ``Box`` of floats.
        ValueError: The new bounds are not ascending, of another shape, infinite elsewhere than the space's, or further
            apart than the largest float.
    """

    def __init__(self, venv: VecEnv[Any, ActType], min_obs: ArrayLike, max_obs: ArrayLike) -> None:
        super().__init__(venv)
        self._rescale = Rescaling(venv.observation_space, min_obs, max_obs, "VecRescaleObservation")
        self.observation_space = self._rescale.space

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_rescale",)  # the space tells what it does

    def observation(self, obs: Any) -> Any:
        """The batch on the other scale."""
        return self._rescale(obs, self._buffers)

    def _final_observations(self, batch: Any, n: int) -> Any:
        return self._rescale(batch)


class VecDtypeObservation(VecObservationWrapper[Any, ActType, Any]):
    """Shows observations in another dtype, as ``DtypeObservation`` does for one env.

    Args:
        venv: A VecEnv whose observation space is a ``Box``, ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``.
        dtype: bool, an integer or a float of at most 64 bits.

    Attributes:
        dtype: The ``numpy.dtype``.

    Raises:
        TypeError: The observation space is another, or the dtype no number's.
        ValueError: A bound of the space does not fit the dtype.
    """

    dtype: Any = Fixed()

    def __init__(self, venv: VecEnv[Any, ActType], dtype: DTypeLike) -> None:
        super().__init__(venv)
        self._cast = Casting(venv.observation_space, dtype, "VecDtypeObservation")
        self.dtype = self._cast.dtype
        self.observation_space = self._cast.space

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_cast", "dtype")  # the space tells what it does

    def observation(self, obs: Any) -> Any:
        """The batch in the other dtype.

        Raises:
            InvalidObservation: A number has no place among the integers of the dtype or is NaN, or is beyond the
                greatest float; infinities and NaN stay floats.
        """
        return self._cast(obs, self._buffers)

    def _final_observations(self, batch: Any, n: int) -> Any:
        return self._cast(batch)


class VecFilterObservation(VecObservationWrapper[Any, ActType, Any]):
    """Shows some parts of a dict or tuple of observations, as ``FilterObservation`` does for one env.

    Args:
        venv: A VecEnv whose observation space is a ``Dict`` or a ``Tuple``.
        filter_keys: The keys, or the positions, of what is shown, in that order.

    Attributes:
        filter_keys: A tuple of the keys, or of the positions from 0 on.

    Raises:
        TypeError: The observation space is another, or ``filter_keys`` no list of keys.
        ValueError: There are none, one is not in the space, or is given twice.
    """

    filter_keys: Any = Fixed()

    def __init__(self, venv: VecEnv[Any, ActType], filter_keys: Iterable[str | int]) -> None:
        super().__init__(venv)
        self._filter = Filtering(venv.observation_space, filter_keys, "VecFilterObservation")
        self.filter_keys = self._filter.keys
        self.observation_space = self._filter.space

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_filter", "filter_keys")

    def _snapshot_others(self) -> dict[str, Any]:
        return {**super()._snapshot_others(), "filter_keys": repr(self._filter.keys)}

    def observation(self, obs: Any) -> Any:
        """The parts that are shown."""
        return self._filter(obs)

    def _final_observations(self, batch: Any, n: int) -> Any:
        return self._filter(batch)


class VecFlattenObservation(VecObservationWrapper[NDArray[Any], ActType, Any]):
    """Flattens every observation, however nested, into one vector, as ``FlattenObservation`` does for one env.

    Args:
        venv: The VecEnv to wrap.

    Raises:
        ValueError: Observations have no fixed length (``Sequence``).
    """

    def __init__(self, venv: VecEnv[Any, ActType]) -> None:
        super().__init__(venv)
        self._flat = flatten_space(venv.observation_space)
        self.observation_space = self._flat

    snapshot_ignores: ClassVar[tuple[str, ...]] = ("_flat",)  # the space inside tells what it does

    def observation(self, obs: Any) -> NDArray[Any]:
        """The batch as vectors, (N, k) (see ``sekai.space_utils.flatten``)."""
        n = batch_length(obs)
        return flatten_batch(
            self.venv.observation_space, self._flat, obs, self.num_envs if n is None else n, self._buffers
        )

    def _final_observations(self, batch: Any, n: int) -> NDArray[Any]:
        return flatten_batch(self.venv.observation_space, self._flat, batch, n)
