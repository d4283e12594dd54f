"""EnvSpec to JSON and back."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

from sekai.registry.specs import EnvSpec, WrapperSpec


def spec_to_json(spec: EnvSpec) -> str:
    """See ``EnvSpec.to_json``."""
    where = f"EnvSpec({spec.id!r}).to_json()"
    data: dict[str, Any] = {item.name: getattr(spec, item.name) for item in fields(spec)}
    for name in ("entry_point", "vector_entry_point"):
        _check_text(data[name], f"{where}: {name}")
    data["kwargs"] = _check_values(spec.kwargs, f"{where}: kwargs")
    data["additional_wrappers"] = [
        _wrapper_data(wrapper, f"{where}: additional_wrappers[{index}]")
        for index, wrapper in enumerate(spec.additional_wrappers)
    ]
    if spec.reward_threshold is not None and not math.isfinite(spec.reward_threshold):
        raise ValueError(f"{where}: reward_threshold: JSON holds finite numbers only, got {spec.reward_threshold}")
    return json.dumps(data, allow_nan=False)


def spec_from_json(text: str) -> EnvSpec:
    """See ``EnvSpec.from_json``."""
    where = "EnvSpec.from_json()"
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"{where}: expected a JSON object, got text that is no JSON ({error})") from error
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected a JSON object, got {type(data).__name__}")
    known = [item.name for item in fields(EnvSpec)]
    strange = sorted(set(data) - set(known))
    if strange or "id" not in data:
        raise ValueError(f"{where}: expected 'id' and any of the fields {known}, got {sorted(data)}")
    try:
        wrappers = tuple(WrapperSpec(**wrapper) for wrapper in data.pop("additional_wrappers", ()))
        return EnvSpec(**data, additional_wrappers=wrappers)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _wrapper_data(wrapper: Any, where: str) -> dict[str, Any]:
    if not isinstance(wrapper, WrapperSpec):
        raise ValueError(f"{where}: expected a WrapperSpec (JSON holds no callables), got {wrapper!r}")
    _check_text(wrapper.entry_point, f"{where}: entry_point")
    kwargs = _check_values(wrapper.kwargs, f"{where}: kwargs")
    return {"name": wrapper.name, "entry_point": wrapper.entry_point, "kwargs": kwargs}


def _check_text(entry_point: Any, where: str) -> None:
    if callable(entry_point):
        raise ValueError(f"{where}: expected 'module:attr' (JSON holds no callables), got {entry_point!r}")


def _check_values(kwargs: dict[str, Any], where: str) -> dict[str, Any]:
    """The arguments, once each is known to come back from JSON as it was (a tuple would come back a list)."""
    for name, value in kwargs.items():
        try:
            survives = _same(json.loads(json.dumps(value, allow_nan=False)), value)
        except (TypeError, ValueError):
            survives = False
        if not survives:
            raise ValueError(
                f"{where}[{name!r}]: expected a value that JSON can hold "
                f"(None, bool, int, finite float, str, list, dict with str keys), got {value!r}"
            )
    return kwargs


def _same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from True and from 1.0, at every depth."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return bool(left == right)
