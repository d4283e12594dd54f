"""Packages that announce their environments through an entry-point group."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

#: The group in which installed packages name a callable that registers their environments.
GROUP = "sekai.envs"


def load_plugins(group: str, loading: Callable[[str], AbstractContextManager[None]]) -> list[str]:
    """Import every plug-in of a group and call it.

    One that fails does not keep the others from loading.

    Args:
        group: The entry-point group.
        loading: Opened around each call, with a text that names the plug-in.

    Returns:
        What failed, one text for each: which plug-in, of which package, and the error.
    """
    import importlib.metadata

    failures = []
    seen = set()
    for entry_point in importlib.metadata.entry_points(group=group):
        # An editable install beside a source tree on sys.path announces the same plug-in twice.
        if (entry_point.name, entry_point.value) in seen:
            continue
        seen.add((entry_point.name, entry_point.value))
        package = "unknown package" if entry_point.dist is None else f"package {entry_point.dist.name!r}"
        origin = f"plug-in {entry_point.name!r} ({package}, {entry_point.value!r})"
        try:
            with loading(origin):
                entry_point.load()()
        # Whatever a foreign package raises, it must not take everybody else's environments away.
        except Exception as error:
            failures.append(f"{origin} failed to load: {type(error).__name__}: {error}")
    return failures
