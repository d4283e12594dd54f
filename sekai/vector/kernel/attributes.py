"""The attributes that a row market has by its parameters and by the columns of its state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs
from sekai.batching.slab import as_word
from sekai.types import ActType, ObsType
from sekai.vector.kernel.binding import Binding
from sekai.vector.kernel.definition import WRITTEN, Definition, check_parameters
from sekai.vector.kernel.parameters import Randomized, Tree, Values, is_part
from sekai.vector.native.env import NativeVecEnv


class MarketAttribute:
    """An attribute of a market that is a field of ``Params`` or of ``State``.

    Args:
        name: Of the field.
    """

    _of: str  # which of the two, in the market's definition
    _reader: str  # the market's method that reads one

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, market: Any, owner: type) -> Any:
        if market is None:
            return self
        if self._name not in getattr(market._definition, self._of).fields:  # a subclass has others
            raise AttributeError(f"{type(market).__name__!r} object has no attribute {self._name!r}")
        return getattr(market, self._reader)(self._name)


class ParameterAttribute(MarketAttribute):
    """One that is a parameter, as it is in force.

    Args:
        name: Of the parameter.
        is_shared: Whether it is an array, or an object, that all sub-envs share.
    """

    _of, _reader = "params", "_read_parameter"

    def __init__(self, name: str, is_shared: bool) -> None:
        super().__init__(name)
        self._sekai_shared = is_shared
        self.__doc__ = f"The parameter ``{name}`` in force: one value for all sub-envs, or one each (num_envs,)."

    def __set__(self, market: Any, value: Any) -> None:
        market._change_parameter(self._name, value)


class ColumnAttribute(MarketAttribute):
    """One that is a column of the state: a copy where it is read."""

    _of, _reader = "state", "_read_column"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__doc__ = f"The column ``{name}`` of the state, (num_envs, ...), a copy; of a part, a record of them."

    def __set__(self, market: Any, value: Any) -> None:
        # Row functions rely on what they have written: an index, say, is within its array.
        raise AttributeError(
            f"{self._name}: expected it to be changed by step() and reset() alone; it is a state column"
        )


class ParametersAsAttributes(NativeVecEnv[ObsType, ActType]):
    """A native env whose parameters are attributes that can be changed, and whose columns are some to be read."""

    held_parameters: ClassVar[Mapping[str, str]] = {}

    _definition: Definition  # of an env, with the parts that it was given
    _values: Values
    _bound: Binding
    _fixed: set[str]

    @abstractmethod
    def _install(self, values: Values, changed: Collection[str]) -> None:
        """Take over parameters.

        Args:
            values: All of them.
            changed: The paths of those that are new.
        """

    @abstractmethod
    def _bind_clock_and_streams(self) -> None:
        """Let clock and streams live in the memory that there is now."""

    def _read_parameter(self, path: str) -> Any:
        """As it is in force; of a part, a record of them."""
        tree = self._definition.params.fields.get(path)
        if isinstance(tree, Tree):
            return tree.build(self._read_parameter, f"{path}.")
        column = self._bound.columns.get(f"p_{as_word(path)}")
        return self._values.given[path] if column is None else np.array(column)

    def _change_parameter(self, name: str, value: Any) -> None:
        definition, before = self._definition, self._values.given
        tree = definition.params.fields[name]
        if not isinstance(tree, Tree):
            if is_part(value) and any(each.name == name and each.is_part for each in definition.parameters):
                expected = "expected it to stay as it was when the env was made, no part"
                raise AttributeError(f"{name}: {expected}, got {value!r}")
            given = {name: value}
        elif type(value) is tree.kind:
            given = tree.flatten(value, f"{name}.")
        else:
            raise TypeError(f"{name}: expected a {tree.kind.__name__}, got {value!r}")
        changed = {}
        for parameter in definition.parameters:
            path = parameter.name
            if path in given and not (isinstance(tree, Tree) and given[path] is before[path]):
                changed[path] = parameter.check(_one_range(path, given[path]))
                if isinstance(before[path], np.ndarray) and parameter.is_array:
                    # Row functions are compiled for its axes; and where a sub-env is in an array of a part, which any
                    # market may have, is part of its state.
                    length = None if "." not in path else before[path].shape
                    axes, got = before[path].ndim, np.shape(changed[path])
                    if len(got) != axes or length not in (None, got):
                        expected = f"an array of {axes} axes" if length is None else f"an array of shape {length}"
                        raise ValueError(f"{path}: expected {expected}, as before, got shape {got}")
                constants = (str, bool, type(None))
                is_fixed = path in self._fixed or any(isinstance(each[path], constants) for each in (before, changed))
                if is_fixed and not (isinstance(tree, Tree) and np.array_equal(changed[path], before[path])):
                    expected = "expected it to stay as it was when the env was made"
                    raise AttributeError(f"{path}: {expected}, got {given[path]!r}")
        here = dict(self.__dict__)
        try:
            given = {**before, **changed}
            values = check_parameters(definition, given)
            if self._has_reset and not self.held_parameters.keys() & changed:
                self._check_held(given, self._read_column)
            self._install(values, changed)
            if self._bound.uses_streams and self._has_reset:
                self.streams  # noqa: B018 - those of the reset, if nothing has asked for them yet
        except BaseException:  # what has been made of it is new memory
            self.__dict__.update(here)
            self._bind_clock_and_streams()
            raise

    def _check_held(self, given: Mapping[str, Any], read_column: Callable[[str], Any]) -> None:
        """Check parameters with what episodes under way began with.

        Args:
            given: The parameters.
            read_column: What reads a column of these episodes' state.

        Raises:
            ValueError: The market refuses them.
        """
        if self.held_parameters:
            held = {path: read_column(column) for path, column in self.held_parameters.items()}
            check_parameters(self._definition, {**given, **held})

    def _check_kept_parameters(self, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> None:
        """ValueError where the parameters in force are none for the episodes of a snapshot, which began with others."""

        def read(path: str) -> NDArray[Any]:
            now = self._read_column(path)
            now[rows] = columns[f"state.{path}"]
            return now  # type: ignore[no-any-return]

        given = self._values.given | {path: self._read_parameter(path) for path in self._values.ranges}
        try:
            self._check_held(given, read)
        except ValueError as error:
            raise ValueError(f"restore(parameters='keep'): {error}") from error

    def _read_column(self, path: str) -> Any:
        tree = self._definition.state.fields.get(path)
        if isinstance(tree, Tree):
            return tree.build(self._read_column, f"{path}.")
        return np.array(self._bound.columns[f"s_{as_word(path)}"])

    def _read_attr(self, name: str) -> list[Any]:  # of a part its numbers in each sub-env
        found = super()._read_attr(name)
        return found if name not in self._definition.params.fields else self._split_part(name) or found

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method, or read an attribute, of every sub-env (see ``VecEnv.call``)."""
        found = super().call(method, *args, **kwargs)
        return found if method not in self._definition.params.fields else self._split_part(method) or found

    def _split_part(self, name: str) -> list[Any]:
        """A part of ``Params`` for each sub-env; none of what is no part."""
        tree = self._definition.params.fields[name]
        if not isinstance(tree, Tree):
            return []
        are_rows = {*self._values.columns, *self._values.ranges}
        read = {path: self._read_parameter(path) for path in tree.leaves(f"{name}.")}
        return [
            tree.build(lambda path: read[path][row] if path in are_rows else read[path], f"{name}.")  # noqa: B023
            for row in range(self.num_envs)
        ]

    def set_attr(self, name: str, values: list[Any] | Any, indices: Any = None, *, force: bool = False) -> None:
        """Change an attribute of sub-envs (see ``VecEnv.set_attr``).

        Raises:
            ValueError: A parameter that is drawn at resets is to be changed for some sub-envs alone: the others would
                not draw it any more.
        """
        ranges = [path for path in self._values.ranges if path == name or path.startswith(f"{name}.")]
        if indices is not None and ranges:
            expected = f"expected all sub-envs, since {ranges[0]} is drawn at resets ({self._values.given[ranges[0]]})"
            raise ValueError(f"set_attr({name!r}, indices=...): {expected}, got {indices!r}")
        super().set_attr(name, values, indices, force=force)

    def _write_attr(self, name: str, values: list[Any] | Any) -> None:
        if name in WRITTEN:
            raise AttributeError(f"set_attr: {type(self).__name__}.{name}: expected it to stay as the class writes it")
        tree = self._definition.params.fields.get(name)
        if isinstance(tree, Tree) and isinstance(values, list):
            every = inputs.spread_values(name, values, self.num_envs)
            for each in every:
                if type(each) is not tree.kind:
                    raise TypeError(f"{name}: expected a {tree.kind.__name__} for each sub-env, got {each!r}")
            rows = [tree.flatten(each, f"{name}.") for each in every]
            values = tree.build(lambda path: _joined([row[path] for row in rows]), f"{name}.")
        parameter = next((each for each in self._definition.parameters if each.name == name), None)
        if parameter is not None and parameter.is_array and isinstance(values, list):
            every = inputs.spread_values(name, values, self.num_envs)
            if not all(np.array_equal(each, every[0]) for each in every):
                raise ValueError(f"{name}: expected one array for all sub-envs, got others for some")
            values = every[0]
        elif parameter is not None and isinstance(values, np.ndarray) and values.ndim and not parameter.is_array:
            values = list(values)  # one for each sub-env
        super()._write_attr(name, values)


def _joined(values: list[Any]) -> Any:
    """One value for each sub-env, or one for all where they are the same."""
    return values[0] if all(each is values[0] or np.array_equal(each, values[0]) for each in values) else values


def _one_range(path: str, value: Any) -> Any:
    """The values of ``set_attr``, one ``Randomized`` instead of one for each sub-env."""
    every = value.tolist() if isinstance(value, np.ndarray) and value.dtype == object else value
    if not isinstance(every, list) or not any(isinstance(each, Randomized) for each in every):
        return every
    if any(each != every[0] for each in every):
        raise ValueError(f"{path}: expected one Randomized(low, high) for all sub-envs, got {every}")
    return every[0]
