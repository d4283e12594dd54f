"""From what all rows are built from to what builds the rows of a shard."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sekai.registry import default_registry
from sekai.registry.build import build_vec_env, choose_mode, entry_point_of
from sekai.registry.entry_points import load_entry_point
from sekai.registry.specs import EnvSpec
from sekai.shards.cutting import where_rows
from sekai.snapshots.attributes import attributes_of
from sekai.vector import VecEnv
from sekai.vector.kernel.rows import field_annotation, take_rows

#: How deep in an argument a list of one entry per row is looked for.
_DEPTH = 8


class ShardMaker:
    """Builds the VecEnvs of shards, each of its own rows alone.

    Of an id the arguments that differ between rows are cut with them: the fields of a market's ``Params`` that are
    numbers, where they are given as one per row, in named tuples too. What rows share stays as it is, also if it has
    as many entries as there are rows. The market's class says which is which, by its signature, which functions that
    choose a class may have as ``__signature__``. Where neither says so, an argument with as many entries as there are
    rows is refused.

    Args:
        make: An id, an ``EnvSpec``, or a callable that takes a ``range`` of rows and returns a VecEnv of them.
        num_envs: The number N of all rows.
        kwargs: Of an id, what ``make_vec`` takes by keyword besides ``num_envs``: arguments of the environment,
            ``vectorization_mode``, ``vector_kwargs``, ``wrappers``, ``max_episode_steps``. A function as
            ``autoreset_options`` is told the number of the row in the whole.
        where: What error messages begin with.

    Raises:
        EnvNotFound: Nothing is registered under the id.
        TypeError: ``make`` is neither, or a callable is given with ``kwargs``.
        ValueError: The mode does not suit the environment.
    """

    def __init__(
        self, make: Any, num_envs: int, kwargs: Mapping[str, Any] | None = None, where: str = "rollout"
    ) -> None:
        self._num_envs = num_envs
        self._where = where
        self._spec: EnvSpec | None = None
        self._make = make
        self._arguments: list[dict[str, Any]] = []
        if isinstance(make, (str, EnvSpec)):
            self._read_id(make, dict(kwargs or {}))
            return
        if not callable(make) or (isinstance(make, type) and issubclass(make, VecEnv)):
            expected = "expected an id, or a callable of the rows such as lambda rows: Market(len(rows))"
            raise TypeError(f"{where}(make): {expected}, got {make!r}")
        if kwargs:
            raise TypeError(f"{where}(kwargs=...): expected none with a callable, got {sorted(kwargs)}")

    def _read_id(self, make: str | EnvSpec, kwargs: dict[str, Any]) -> None:
        self._spec = spec = default_registry.spec(make)
        options = {name: kwargs.pop(name, None) for name in ("vectorization_mode", "vector_kwargs", "wrappers")}
        self._wrappers = options["wrappers"] or ()
        self._arguments = [dict(spec.kwargs), dict(options["vector_kwargs"] or {}), kwargs]
        self._mode = choose_mode(spec, options["vectorization_mode"], self._wrappers)
        self._annotations: dict[str, Any] = {}
        if self._mode == "native":
            build = load_entry_point(entry_point_of(spec, self._mode), f"environment {spec.id!r}")
            self._annotations = _fields_of(build)

    def of(self, rows: range) -> Callable[[], VecEnv[Any, Any]]:
        """What builds the VecEnv of some rows; pickled, it holds no more of the arguments than these need.

        The call raises what ``Recipe.build`` does.

        Raises:
            ValueError: As ``own``.
        """
        return partial(self.recipe(len(rows) < self._num_envs).build, rows, self.own(rows))

    def recipe(self, is_cut: bool) -> Recipe:
        """What all shards have in common.

        Args:
            is_cut: Whether there are several.

        Raises:
            ValueError: As ``own``.
        """
        if self._spec is None:
            return Recipe(self._make, [], (), self._where)
        cut = self.own(range(1)) if is_cut else [{} for _ in self._arguments]
        shared = [
            {name: value for name, value in given.items() if name not in own}
            for given, own in zip(self._arguments, cut, strict=True)
        ]
        return Recipe(replace(self._spec, kwargs={}), shared, (self._mode, self._wrappers), self._where)

    def own(self, rows: range) -> list[dict[str, Any]]:
        """The arguments that differ between rows, as these have them; none where they are all.

        Raises:
            ValueError: An argument has not one value for each row, or is not known to be the same for all rows.
        """
        if self._spec is None or len(rows) == self._num_envs:
            return [{} for _ in self._arguments]
        return [self._cut(given, rows) for given in self._arguments]

    def _cut(self, arguments: Mapping[str, Any], rows: range) -> dict[str, Any]:
        cut: dict[str, Any] = {}
        for name, value in arguments.items():
            if name == "autoreset_options":
                if callable(value):
                    cut[name] = _OfRows(value, rows.start)
            elif self._mode == "native" and name in self._annotations:
                own = take_rows(self._annotations[name], value, rows, self._num_envs, name)
                if own is not value:
                    cut[name] = own
            elif self._mode == "native" and _has_one_each(value, self._num_envs, _DEPTH):
                id = "" if self._spec is None else self._spec.id
                raise ValueError(
                    f"{self._where}(kwargs=...): {name}: expected an argument of which {id!r} says whether rows share "
                    f"it, got {self._num_envs} entries (num_envs) of one of which it does not; give a callable of the "
                    f"rows that cuts it or not: lambda rows: sekai.make_vec({id!r}, len(rows), {name}=...)"
                )
        return cut


def _fields_of(build: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the arguments that are fields of a market's ``Params``, by name."""
    try:
        parameters = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):  # a callable that does not tell
        return {}
    told = {each.name: field_annotation(each.annotation) for each in parameters}
    return {name: annotation for name, annotation in told.items() if annotation is not None}


class Recipe:
    """What the VecEnvs of all shards are built from, but for the arguments that are cut.

    Args:
        make: A spec without arguments, or a callable of the rows.
        shared: Of a spec the arguments of its own, those of the vector class, and those of the environment.
        how: Of a spec the mode, and the wrappers around each sub-env.
        where: What error messages begin with.
    """

    def __init__(self, make: Any, shared: list[dict[str, Any]], how: tuple[Any, ...], where: str) -> None:
        self._make = make
        self._shared = shared
        self._how = how
        self._where = where

    def build(self, rows: range, own: list[dict[str, Any]]) -> VecEnv[Any, Any]:
        """The VecEnv of some rows.

        Args:
            rows: Which.
            own: What ``ShardMaker.own`` gives of them.

        Raises:
            TypeError: What was built is no VecEnv.
            ValueError: It has another number of sub-envs.
            Exception: Whatever the market raises.
        """
        if isinstance(self._make, EnvSpec):
            given, of_class, of_env = ({**shared, **cut} for shared, cut in zip(self._shared, own, strict=True))
            mode, wrappers = self._how
            vec: Any = build_vec_env(replace(self._make, kwargs=given), len(rows), mode, of_class, wrappers, of_env)
        else:
            vec = self._make(rows)
        where = f"{self._where}(make), {where_rows(rows)}"
        if not isinstance(vec, VecEnv):
            raise TypeError(f"{where}: expected a VecEnv, got {type(vec).__name__}")
        if vec.num_envs != len(rows):
            vec.close()
            raise ValueError(f"{where}: expected a VecEnv of {len(rows)} sub-envs, got {vec.num_envs}")
        return vec


class _OfRows:
    """A function of the number of a row in the whole, as one of its number in a shard."""

    def __init__(self, function: Callable[[int], Any], start: int) -> None:
        self._function = function
        self._start = start

    def __call__(self, index: int) -> Any:
        return self._function(self._start + index)


def _has_one_each(value: Any, count: int, depth: int) -> bool:
    """Whether something in an argument has ``count`` entries; also where it is too deep in it to be seen."""
    if value is None or isinstance(value, (str, bytes, int, float, complex, np.generic, type)) or callable(value):
        return False
    if isinstance(value, np.ndarray):
        return count in value.shape or value.dtype == object
    if depth == 0:
        return True
    if isinstance(value, Mapping):
        items = list(value.values())
    else:
        try:
            if len(value) == count:
                return True
        except TypeError:
            pass
        items = list(value) if isinstance(value, (list, tuple, set, frozenset)) else list(attributes_of(value).values())
    return any(_has_one_each(each, count, depth - 1) for each in items)
