"""Spaces as JSON, to be saved beside a model and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces.bounds import Bounds, compact, plain_numbers
from sekai.spaces.box import Box
from sekai.spaces.composite import Dict, Tuple
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.sequence import Sequence
from sekai.spaces.space import Space


def space_to_json(space: Space[Any]) -> str:
    """A space as a text that ``space_from_json`` reads, without its generator.

    Raises:
        TypeError: It is, or has a part, of a class that is not of ``sekai.spaces``.
    """
    import json  # here, to keep `import sekai` quick

    return json.dumps(_to_data(space), allow_nan=False)


def space_from_json(text: str) -> Space[Any]:
    """The space that ``space_to_json`` wrote, equal to it in bounds and dtypes; its generator is a new one.

    Raises:
        ValueError: It is no such text.
    """
    import json

    try:
        return _from_data(json.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        shown = text if len(str(text)) <= 80 else f"{text[:80]}..."
        raise ValueError(f"space_from_json: expected what space_to_json wrote, got {shown!r} ({error!r})") from None


def _to_data(space: Any) -> dict[str, Any]:
    if type(space) not in _WRITE:
        known = ", ".join(kind.__name__ for kind in _WRITE)
        raise TypeError(f"space_to_json: expected one of {known}, got {space!r} of {type(space).__name__}")
    return {"type": type(space).__name__, **_WRITE[type(space)](space)}


def _from_data(data: dict[str, Any]) -> Space[Any]:
    given = dict(data)
    return _READ[given.pop("type")](**given)


def _write_bounds(bounds: Bounds) -> dict[str, Any]:
    low, high = (_write_bound(each, bounds.shape) for each in bounds.as_given())
    return {"low": low, "high": high, "shape": list(bounds.shape), "dtype": bounds.dtype.name}


def _write_bound(bound: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """One number where all are the same, else nested lists; infinities as text, which JSON has no numbers for."""
    if 0 in shape:
        return 0
    is_one = bool((bound == bound.flat[0]).all())
    return _spell(plain_numbers(bound.flat[0] if is_one else np.broadcast_to(bound, shape)))


def _spell(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_spell(each) for each in numbers]
    return repr(numbers) if isinstance(numbers, float) and np.isinf(numbers) else numbers


def _read(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_read(each) for each in numbers]
    return float(numbers) if isinstance(numbers, str) else numbers


def _read_box(*, low: Any, high: Any, shape: list[int], dtype: str) -> Box:
    return Box(_read(low), _read(high), shape, np.dtype(dtype))


def _read_masked_box(*, low: Any, high: Any, shape: list[int], dtype: str, **others: Any) -> MaskedBox:
    return MaskedBox(_read(low), _read(high), shape, dtype=np.dtype(dtype), **others)


def _write_integers(integers: Any) -> Any:
    return np.asarray(integers).tolist()


def _read_multi_discrete(*, nvec: Any, start: Any, dtype: str, shape: list[int]) -> MultiDiscrete:
    counts, starts = (np.broadcast_to(np.array(each, np.int64), shape) for each in (nvec, start))
    return MultiDiscrete(counts, np.dtype(dtype), start=starts)


_WRITE: dict[Any, Callable[[Any], dict[str, Any]]] = {
    Box: lambda space: _write_bounds(space.bounds),
    Discrete: lambda space: {"n": space.n, "start": space.start},
    MultiDiscrete: lambda space: {
        "nvec": _write_integers(compact(space.nvec)),
        "start": _write_integers(compact(space.start)),
        "dtype": space.dtype.name,
        "shape": list(space.shape),
    },
    MultiBinary: lambda space: {"n": space.n if isinstance(space.n, int) else list(space.n)},
    MaskedBox: lambda space: {
        **_write_bounds(space.bounds),
        "max_size": space.max_size,
        "fill_value": plain_numbers(space.fill_value),
        "batch_shape": list(space.batch_shape),
    },
    Dict: lambda space: {"spaces": [[key, _to_data(part)] for key, part in space.items()]},  # pairs keep their order
    Tuple: lambda space: {"spaces": [_to_data(part) for part in space]},
    Sequence: lambda space: {
        "feature_space": _to_data(space.feature_space),
        "max_length": space.max_length,
        "stack": space.stack,
    },
}

_READ: dict[str, Callable[..., Space[Any]]] = {
    "Box": _read_box,
    "Discrete": Discrete,
    "MultiDiscrete": _read_multi_discrete,
    "MultiBinary": MultiBinary,
    "MaskedBox": _read_masked_box,
    "Dict": lambda spaces: Dict([(key, _from_data(part)) for key, part in spaces]),
    "Tuple": lambda spaces: Tuple([_from_data(part) for part in spaces]),
    "Sequence": lambda feature_space, **others: Sequence(_from_data(feature_space), **others),
}
