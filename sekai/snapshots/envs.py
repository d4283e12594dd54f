"""The state of an env and the wrappers around it, whatever their attributes are."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from sekai.snapshots.attributes import attributes_of, ignored, slots_of

#: Types of values that nobody can change, and of which a copy is as good.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


def state_of_layers(layers: Sequence[Any], count: int) -> Any:
    """The attributes of the first layers of a stack of an env and wrappers: pickled together, unless all are plain.

    Where one refers to a layer, in a bound method, say, the layer itself takes its place again when they are put back;
    what two of them share they go on sharing.

    Args:
        layers: All of them, from the outside in.
        count: How many to pickle.

    Raises:
        TypeError: An attribute cannot be pickled; the message names it.
    """
    states, are_plain = [], True
    for layer in layers[:count]:
        state = _state_of(layer)
        are_plain = are_plain and _PLAIN.issuperset(map(type, state.values()))
        states.append(state)
    if are_plain:
        return tuple(states)
    try:
        return _dump(states, layers)
    except Exception as whole:
        for layer, state in zip(layers, states, strict=False):
            for name, value in state.items():
                try:
                    _dump(value, layers)
                except Exception as error:
                    where = f"snapshot(): {type(layer).__name__}.{name}"
                    raise TypeError(f"{where}: expected what can be pickled, got {value!r} ({error})") from error
        raise TypeError(f"snapshot(): {layers[0]!r}: expected what can be pickled ({whole})") from whole


def _state_of(layer: Any) -> dict[str, Any]:
    state = attributes_of(layer)
    for name in _left_out(layer.__class__):
        state.pop(name, None)
    return state


@functools.lru_cache(maxsize=256)
def _left_out(kind: type) -> frozenset[str]:
    return ignored(kind) | {"env"}  # what a wrapper wraps is a layer itself


@functools.cache
def _pickler() -> Any:
    """A class of picklers for which layers are numbers."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, buffer: io.BytesIO, layers: Sequence[Any]) -> None:
            super().__init__(buffer)
            self._numbers = {id(layer): k for k, layer in enumerate(layers)}

        def persistent_id(self, each: Any) -> Any:
            return self._numbers.get(id(each))

    return Pickler


class _Unpickler(pickle.Unpickler):
    """Puts layers in the place of their numbers."""

    def __init__(self, buffer: io.BytesIO, layers: Sequence[Any]) -> None:
        super().__init__(buffer)
        self._layers = layers

    def persistent_load(self, number: Any) -> Any:
        return self._layers[number]


def _dump(value: Any, layers: Sequence[Any]) -> bytes:
    buffer = io.BytesIO()
    _pickler()(buffer, layers).dump(value)
    return buffer.getvalue()


def load_states(kept: Any, layers: Sequence[Any]) -> Sequence[dict[str, Any]]:
    """What ``state_of_layers`` gave, for as many layers of another stack of the same classes."""
    if isinstance(kept, tuple):
        return kept
    states: list[dict[str, Any]] = _Unpickler(io.BytesIO(kept), layers).load()
    return states


def put_state_back(layer: Any, state: Mapping[str, Any]) -> None:
    """Give a layer the attributes that it had, where they were: past what a property of such a name would do."""
    own, slots, left_out = layer.__dict__, slots_of(layer.__class__), _left_out(layer.__class__)
    for name in [*own]:
        if name not in state and name not in left_out:
            del own[name]
    for name in slots:
        if name in state:
            object.__setattr__(layer, name, state[name])
        elif name not in left_out and hasattr(layer, name):
            object.__delattr__(layer, name)
    own.update({name: state[name] for name in state.keys() - slots} if slots else state)
