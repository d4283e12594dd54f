"""Packages that announce their environments through an entry-point group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: The group in which installed packages name a callable that registers their environments.
GROUP = "sekai.envs"


@dataclass(frozen=True)
class Plugin:
    """One announcement.

    Attributes:
        key: What tells it from the others.
        origin: The plug-in and its package, for messages.
        load: Imports the callable that registers.
    """

    key: str
    origin: str
    load: Callable[[], Callable[[], Any]]


def find_plugins(group: str) -> list[Plugin]:
    """The plug-ins of an entry-point group; nothing of theirs is imported."""
    import importlib.metadata

    plugins: dict[str, Plugin] = {}
    for entry_point in importlib.metadata.entry_points(group=group):
        package = "unknown package" if entry_point.dist is None else f"package {entry_point.dist.name!r}"
        origin = f"plug-in {entry_point.name!r} ({package}, {entry_point.value!r})"
        # An editable install beside a source tree on sys.path announces the same plug-in twice.
        key = f"{entry_point.name} = {entry_point.value}"
        plugins.setdefault(key, Plugin(key, origin, entry_point.load))
    return list(plugins.values())
