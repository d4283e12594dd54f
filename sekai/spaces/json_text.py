"""Spaces as JSON, to be saved beside a model and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces.bounds import Bounds, check_dtype, compact, plain_numbers
from sekai.spaces.box import Box
from sekai.spaces.composite import Dict, Tuple
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.sequence import Sequence
from sekai.spaces.space import Space, check_shape


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
        TypeError: It is no text.
        ValueError: It is no such text; which part of the space is wrong is told. No number is made into another.
    """
    import json

    if not isinstance(text, str):
        raise TypeError(f"space_from_json: expected a text, got {type(text).__name__}")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"space_from_json: expected what space_to_json wrote, got {_shown(text)}, which is no JSON: {error}"
        ) from None
    return _from_data(data, "space_from_json(text)")


def _to_data(space: Any) -> dict[str, Any]:
    if type(space) not in _WRITE:
        known = ", ".join(kind.__name__ for kind in _WRITE)
        raise TypeError(f"space_to_json: expected one of {known}, got {space!r} of {type(space).__name__}")
    return {"type": type(space).__name__, **_WRITE[type(space)](space)}


def _from_data(data: Any, where: str) -> Space[Any]:
    """The space that some data are; ``where`` is what error messages call it."""
    given = dict(data) if isinstance(data, dict) else {}
    kind = given.pop("type", None)
    if not isinstance(kind, str) or kind not in _READ:
        raise ValueError(f'{where}: expected an object with a "type" of {", ".join(_READ)}, got {_shown(data)}')
    fields, read = _READ[kind]
    if given.keys() != {*fields}:
        raise ValueError(f"{where}: {kind}: expected the fields {', '.join(fields)}, got {', '.join(given) or 'none'}")
    if kind in _READ_PARTS:
        given.update(_READ_PARTS[kind](where, **given))
    try:
        return read(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


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


def _write_integers(integers: Any) -> Any:
    return np.asarray(integers).tolist()


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
        "fill_value": _spell(plain_numbers(space.fill_value)),
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


def _read_each(given: Any, where: str, is_meant: Callable[[Any], bool], expected: str) -> Any:
    """Numbers, in lists or not, once each of them is known to be what is meant; infinities out of their text."""
    if isinstance(given, list):
        return [_read_each(each, where, is_meant, expected) for each in given]
    if not is_meant(given):
        raise ValueError(f"{where}: expected {expected}, got {_shown(given)}")
    return float(given) if isinstance(given, str) else given


def _read_numbers(given: Any, where: str, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return _read_each(given, where, lambda each: type(each) in (bool, int), "true, false, 1 or 0")
    expected = 'a number, "inf" or "-inf"'
    return _read_each(given, where, lambda each: type(each) in (int, float) or each in ("inf", "-inf"), expected)


def _read_integers(given: Any, where: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    integers = _read_each(given, where, lambda each: type(each) is int, "integers")
    try:
        return np.broadcast_to(np.array(integers, np.int64), shape)
    except (ValueError, OverflowError):
        expected = f"one integer, or some of shape {shape}, that fit int64"
        raise ValueError(f"{where}: expected {expected}, got {_shown(given)}") from None


def _read_list(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise ValueError(f"{where}: expected a list, got {_shown(given)}")
    return given


def _read_shape(given: Any, where: str) -> tuple[int, ...]:
    return check_shape(_read_list(given, where), where)


def _read_dtype(given: Any, where: str) -> np.dtype[Any]:
    if not isinstance(given, str):
        raise ValueError(f"{where} dtype: expected the name of one, got {_shown(given)}")
    return check_dtype(given, where)


def _read_box(*, low: Any, high: Any, shape: Any, dtype: Any) -> Box:
    kind = _read_dtype(dtype, "Box")
    bounds = _read_numbers(low, "Box low", kind), _read_numbers(high, "Box high", kind)
    return Box(*bounds, _read_shape(shape, "Box shape"), kind)


def _read_masked_box(*, low: Any, high: Any, shape: Any, dtype: Any, fill_value: Any, **sizes: Any) -> MaskedBox:
    kind = _read_dtype(dtype, "MaskedBox")
    bounds = _read_numbers(low, "MaskedBox low", kind), _read_numbers(high, "MaskedBox high", kind)
    fill = _read_numbers(fill_value, "MaskedBox fill_value", kind)
    batch_shape = _read_shape(sizes["batch_shape"], "MaskedBox batch_shape")
    shape = _read_shape(shape, "MaskedBox shape")
    return MaskedBox(*bounds, shape, max_size=sizes["max_size"], dtype=kind, fill_value=fill, batch_shape=batch_shape)


def _read_multi_discrete(*, nvec: Any, start: Any, dtype: Any, shape: Any) -> MultiDiscrete:
    axes = _read_shape(shape, "MultiDiscrete shape")
    counts, starts = (
        _read_integers(given, f"MultiDiscrete {name}", axes) for name, given in (("nvec", nvec), ("start", start))
    )
    return MultiDiscrete(counts, _read_dtype(dtype, "MultiDiscrete"), start=starts)


def _read_multi_binary(*, n: Any) -> MultiBinary:
    return MultiBinary(n if isinstance(n, int) else _read_list(n, "MultiBinary n"))


def _read_sequence(*, feature_space: Any, max_length: Any, stack: Any) -> Sequence:
    if not isinstance(stack, bool):
        raise ValueError(f"Sequence stack: expected true or false, got {_shown(stack)}")
    return Sequence(feature_space, max_length=max_length, stack=stack)


def _read_pairs(where: str, spaces: Any) -> dict[str, Any]:
    pairs = []
    for pair in _read_list(spaces, f"{where}: Dict spaces"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"{where}: Dict spaces: expected pairs of a key and a space, got {_shown(pair)}")
        pairs.append((pair[0], _from_data(pair[1], f"{where}[{pair[0]!r}]")))
    return {"spaces": pairs}


#: By the name of a space's class: the fields that are written, and what makes the space of them.
_READ: dict[str, tuple[tuple[str, ...], Callable[..., Space[Any]]]] = {
    "Box": (("low", "high", "shape", "dtype"), _read_box),
    "Discrete": (("n", "start"), Discrete),
    "MultiDiscrete": (("nvec", "start", "dtype", "shape"), _read_multi_discrete),
    "MultiBinary": (("n",), _read_multi_binary),
    "MaskedBox": (("low", "high", "shape", "dtype", "max_size", "fill_value", "batch_shape"), _read_masked_box),
    "Dict": (("spaces",), lambda spaces: Dict(spaces)),
    "Tuple": (("spaces",), lambda spaces: Tuple(spaces)),
    "Sequence": (("feature_space", "max_length", "stack"), _read_sequence),
}

#: Of those with parts: what reads the parts, so that an error in one is told as of that.
_READ_PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "Dict": _read_pairs,
    "Tuple": lambda where, spaces: {
        "spaces": [
            _from_data(part, f"{where}[{at}]") for at, part in enumerate(_read_list(spaces, f"{where}: Tuple spaces"))
        ]
    },
    "Sequence": lambda where, feature_space, **others: {
        "feature_space": _from_data(feature_space, f"{where}.feature_space")
    },
}
