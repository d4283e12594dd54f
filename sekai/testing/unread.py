"""What a class has under a name that nobody reads, where one is near that may be meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from sekai.env import Env
from sekai.vector import NativeVecEnv, VecEnv

#: What subclasses may leave out, so that nobody would notice it misspelt. Not all: a helper may be called _observe_row.
_HOOKS = {
    NativeVecEnv: ("_reset_infos", "_action_mask", "_snapshot_rows", "_restore_rows", "snapshot_ignores"),
    Env: ("action_mask", "snapshot_ignores"),
}


def unread_hints(env: Env[Any, Any] | VecEnv[Any, Any]) -> list[str]:
    """Hints at attributes of the class of a ``NativeVecEnv`` or an ``Env`` that nearly have the name of a hook."""
    hints: list[str] = []
    kind = type(env)
    for base, hooks in _HOOKS.items():
        if not isinstance(env, base):
            continue
        written = {name for each in kind.__mro__ for name in vars(each)} - set(dir(base))
        for hook in hooks:
            if getattr(kind, hook, None) is getattr(base, hook, None):
                for name in get_close_matches(hook, written, cutoff=0.9):
                    hints.append(
                        f"{kind.__name__}.{name}: it is none of the names that are looked for; is {hook} meant?"
                    )
    return hints
