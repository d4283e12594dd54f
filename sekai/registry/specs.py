"""What is known of an environment before it is built: its id, where it comes from, how to build it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sekai.checks import check_count
from sekai.registry.entry_points import (
    EntryPoint,
    check_entry_point,
    check_no_vec_env,
    describe_entry_point,
    load_entry_point,
)

if TYPE_CHECKING:
    from sekai.env import Env

ID_FORM = "[namespace/]Name[-vN]"

#: The ``max_episode_steps`` of ``make`` and ``make_vec`` that removes the time limit of the spec.
NO_LIMIT = -1

# The look-ahead keeps a half-written version ("Name-v", "Name-v01") from passing as part of the name.
_ID = re.compile(
    r"(?:(?P<namespace>[A-Za-z0-9_-]+)/)?"
    r"(?!.*-v(?:0[0-9]+)?\Z)"
    r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*?)"
    r"(?:-v(?P<version>[0-9]+))?"
)


def parse_id(id: str) -> tuple[str | None, str, int | None]:
    """Namespace, name and version of an id.

    Raises:
        TypeError: The id is not text.
        ValueError: It has another form than ``[namespace/]Name[-vN]``.
    """
    if not isinstance(id, str):
        raise TypeError(f"environment id: expected a str of the form {ID_FORM}, got {type(id).__name__}")
    match = _ID.fullmatch(id)
    if match is None:
        raise ValueError(f"environment id: expected the form {ID_FORM}, got {id!r}")
    version = match["version"]
    return match["namespace"], match["name"], None if version is None else int(version)


def _check_kwargs(kwargs: Any, where: str) -> dict[str, Any]:
    if not isinstance(kwargs, Mapping) or not all(isinstance(key, str) for key in kwargs):
        raise TypeError(f"{where}: expected a mapping with str keys, got {kwargs!r}")
    return dict(kwargs)


def copy_kwargs(kwargs: Mapping[str, Any], given: Collection[str] = ()) -> dict[str, Any]:
    """Arguments of which each environment gets its own.

    Args:
        kwargs: Names and values. Values are copied deeply; those that cannot be (locks, connections) are shared.
        given: Names of those that the caller of ``make`` gave, which are handed on as they are.
    """
    return {name: value if name in given else _copy(value) for name, value in kwargs.items()}


def _copy(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # what a value raises that refuses to be copied is its own affair
        return value


def _check_number(value: Any, where: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{where}: expected a number or None, got {value!r}")
    return float(value)


@dataclass(frozen=True)
class WrapperSpec:
    """A wrapper to put around an environment when it is built.

    Attributes:
        name: What the wrapper is called in listings.
        entry_point: ``"module:attr"`` or a callable; it is called as ``entry_point(env, **kwargs)``.
        kwargs: Further arguments, copied deeply for each environment.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The entry point has another form than ``"module:attr"``.
    """

    name: str
    entry_point: EntryPoint
    kwargs: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        where = f"WrapperSpec({self.name!r})"
        if not isinstance(self.name, str):
            raise TypeError(f"{where}: name: expected a str, got {type(self.name).__name__}")
        check_entry_point(self.entry_point, f"{where}: entry_point")
        object.__setattr__(self, "kwargs", _check_kwargs(self.kwargs, f"{where}: kwargs"))

    def __call__(self, env: Env[Any, Any]) -> Env[Any, Any]:
        """The environment, wrapped."""
        wrap = load_entry_point(self.entry_point, f"WrapperSpec({self.name!r})")
        return wrap(env, **copy_kwargs(self.kwargs))  # type: ignore[no-any-return]


#: What can be put around an environment: a WrapperSpec, or a callable that takes it and returns it wrapped.
WrapperLike: TypeAlias = "WrapperSpec | Callable[[Env[Any, Any]], Env[Any, Any]]"


def check_wrappers(wrappers: Any, where: str) -> tuple[WrapperLike, ...]:
    """A sequence of wrappers as a tuple.

    Raises:
        TypeError: It is no sequence, or one of its items cannot be called.
    """
    if isinstance(wrappers, str) or not isinstance(wrappers, Sequence):
        raise TypeError(f"{where}: expected a sequence of callables, got {type(wrappers).__name__}")
    for index, wrapper in enumerate(wrappers):
        if not callable(wrapper):
            raise TypeError(f"{where}[{index}]: expected a WrapperSpec or a callable, got {type(wrapper).__name__}")
    return tuple(wrappers)


@dataclass(frozen=True)
class EnvSpec:
    """How to build one kind of environment.

    One with neither entry point has a name and what is said of it, and cannot be built or registered.

    Attributes:
        id: ``[namespace/]Name[-vN]``.
        entry_point: ``"module:attr"`` or a callable that returns an ``Env``.
        reward_threshold: The return from which the task counts as solved.
        nondeterministic: Whether episodes differ even when seed, options and actions are the same.
        max_episode_steps: The time limit, in steps; None for none.
        kwargs: Arguments of the entry points.
        additional_wrappers: What to put around each environment, innermost first.
        vector_entry_point: ``"module:attr"`` or a callable that returns a ``VecEnv``; it is called as
            ``vector_entry_point(num_envs, **kwargs)``, with ``num_envs`` by keyword where its signature names that, and
            with ``max_episode_steps=`` when there is a limit.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The id or an entry point has the wrong form, or the time limit is below 1 or hidden in ``kwargs``.
    """

    id: str
    entry_point: EntryPoint | None = None
    reward_threshold: float | None = None
    nondeterministic: bool = False
    max_episode_steps: int | None = None
    kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    additional_wrappers: tuple[WrapperLike, ...] = ()
    vector_entry_point: EntryPoint | None = None

    def __post_init__(self) -> None:
        parse_id(self.id)
        where = f"environment {self.id!r}"
        for name in ("entry_point", "vector_entry_point"):
            if getattr(self, name) is not None:
                check_entry_point(getattr(self, name), f"{where}: {name}")
        if self.entry_point is not None:
            check_no_vec_env(self.entry_point, where)
        if self.reward_threshold is not None:
            threshold = _check_number(self.reward_threshold, f"{where}: reward_threshold")
            object.__setattr__(self, "reward_threshold", threshold)
        if not isinstance(self.nondeterministic, (bool, np.bool_)):
            raise TypeError(f"{where}: nondeterministic: expected a bool, got {self.nondeterministic!r}")
        limit = self.max_episode_steps
        if limit is not None:
            limit = check_count(limit, f"{where}: max_episode_steps ({NO_LIMIT} in make() means none)")
        kwargs = _check_kwargs(self.kwargs, f"{where}: kwargs")
        if "max_episode_steps" in kwargs:
            raise ValueError(f"{where}: max_episode_steps is an argument of its own, not one of kwargs")
        wrappers = check_wrappers(self.additional_wrappers, f"{where}: additional_wrappers")
        object.__setattr__(self, "nondeterministic", bool(self.nondeterministic))
        object.__setattr__(self, "max_episode_steps", limit)
        object.__setattr__(self, "kwargs", kwargs)
        object.__setattr__(self, "additional_wrappers", wrappers)

    @property
    def namespace(self) -> str | None:
        """The part of the id before the slash, or None."""
        return parse_id(self.id)[0]

    @property
    def name(self) -> str:
        """The id without namespace and version."""
        return parse_id(self.id)[1]

    @property
    def version(self) -> int | None:
        """The number at the end of the id, or None."""
        return parse_id(self.id)[2]

    def require_entry_point(self) -> None:
        """Refuse what cannot be built.

        Raises:
            ValueError: There is no entry point at all.
        """
        if self.entry_point is None and self.vector_entry_point is None:
            expected = "expected an entry_point, a vector_entry_point or both, got neither"
            raise ValueError(f"environment {self.id!r}: {expected}; sekai.spec({self.id!r}) is what is registered")

    def resolve(self, max_episode_steps: int | None, kwargs: Mapping[str, Any]) -> EnvSpec:
        """This spec with the arguments of one ``make`` written into it, its own ones copied deeply.

        Args:
            max_episode_steps: None keeps the time limit, -1 removes it, anything else replaces it.
            kwargs: Arguments that take precedence over those of the spec.
        """
        if max_episode_steps is None:
            limit = self.max_episode_steps
        elif isinstance(max_episode_steps, (int, np.integer)) and max_episode_steps == NO_LIMIT:
            limit = None
        else:
            limit = max_episode_steps
        return replace(self, max_episode_steps=limit, kwargs={**copy_kwargs(self.kwargs), **kwargs})

    def make(self, *, max_episode_steps: int | None = None, **kwargs: Any) -> Env[Any, Any]:
        """Build one environment, whether the spec is registered or not.

        Args:
            max_episode_steps: As ``EnvRegistry.make`` takes it.
            **kwargs: Arguments of the entry point, taking precedence over those of the spec.
        """
        from sekai.registry.build import make_env

        return make_env(self, max_episode_steps, kwargs)

    def to_json(self) -> str:
        """This spec as JSON text, from which ``from_json`` makes an equal one.

        Raises:
            ValueError: An entry point or wrapper is a callable, or a value does not survive JSON (NaN and the
                infinities are no JSON).
        """
        from sekai.registry.serial import spec_to_json

        return spec_to_json(self)

    @staticmethod
    def from_json(text: str) -> EnvSpec:
        """The spec that ``to_json`` wrote.

        Raises:
            ValueError: The text is no JSON object with the fields of a spec.
        """
        from sekai.registry.serial import spec_from_json

        return spec_from_json(text)

    def pprint(self, *, disable_print: bool = False) -> str | None:
        """Print the fields that differ from their defaults, one a line.

        Args:
            disable_print: Return the text instead.
        """
        shown = {"id": self.id}
        for item in fields(self)[1:]:
            value = getattr(self, item.name)
            if value is None or value is False or value == () or value == {}:
                continue
            shown[item.name] = describe_entry_point(value) if item.name.endswith("entry_point") else repr(value)
        width = max(map(len, shown))
        text = "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())
        if disable_print:
            return text
        print(text)
        return None
