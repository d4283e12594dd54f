"""What a VecEnv and the wrappers around it keep, each its own, in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sekai.snapshots.snapshot import Kept


def prefixes_of(layers: Sequence[Any]) -> list[str]:
    """What the names of the state of each layer begin with: nothing, and of a wrapper its class.

    Args:
        layers: From the inside out.
    """
    names = [type(layer).__name__ for layer in layers]
    counts = [names[: k + 1].count(name) for k, name in enumerate(names)]
    wrappers = zip(names[1:], counts[1:], strict=True)
    return ["", *(f"{name}{count if count > 1 else ''}: " for name, count in wrappers)]


def join_layers(prefixes: Sequence[str], parts: Sequence[Kept]) -> Kept:
    """What all layers have kept, by names that begin with the layer's."""

    def joined(of_layers: Sequence[Any]) -> Any:
        if None in of_layers:
            return None
        return {
            prefix + name: value
            for prefix, part in zip(prefixes, of_layers, strict=True)
            for name, value in part.items()
        }

    return Kept(*map(joined, zip(*parts, strict=True)))


def split_layers(prefixes: Sequence[str], kept: Kept) -> list[Kept]:
    """What each layer has kept, by its own names, of what all have."""
    wrappers = tuple(filter(None, prefixes))

    def of_layer(prefix: str, part: Any) -> Any:
        if part is None:
            return None
        return {
            name.removeprefix(prefix): value
            for name, value in part.items()
            if (name.startswith(prefix) if prefix else not name.startswith(wrappers))
        }

    return [Kept(*(of_layer(prefix, part) for part in kept)) for prefix in prefixes]
