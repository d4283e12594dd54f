"""What a row market can be told: one value for all sub-envs, one for each, or a range to draw from.

Fields are known by their paths: "price", and "model.sigma" for the field ``sigma`` of a part ``model``, a field that is
a named tuple itself.
"""

from __future__ import annotations

import inspect
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from sekai.checks import as_real, check_integer


def as_int64(value: Any, where: str) -> int:
    """An integer that a column can hold.

    Raises:
        TypeError: It is none.
        ValueError: It has more than 64 bits.
    """
    number = check_integer(value, where)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{where}: expected an integer of 64 bits, got {number}")
    return number


@dataclass(frozen=True)
class Randomized:
    """A parameter that each sub-env draws anew, uniformly from [low, high], at each of its resets, from its own stream.

    Attributes:
        low: The least value.
        high: The greatest.

    Raises:
        TypeError: A bound is no number.
        ValueError: A bound, or the distance between them, is not finite, or ``low`` is above ``high``.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        bounds = [as_real(self.low), as_real(self.high)]
        if None in bounds:
            raise TypeError(f"Randomized(low, high): expected numbers, got {self.low!r} and {self.high!r}")
        low, high = (float(bound) for bound in bounds if bound is not None)
        if not (math.isfinite(low) and math.isfinite(high - low) and low <= high):
            raise ValueError(f"Randomized(low, high): expected finite low <= high, got {low} and {high}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


class Tree(NamedTuple):
    """A named tuple class, and what its fields are.

    Attributes:
        kind: The class.
        fields: By name, their annotations; of parts, trees.
    """

    kind: Any
    fields: dict[str, Any]

    def leaves(self, path: str = "") -> dict[str, Any]:
        """The annotations of all fields, those of parts too, by their paths."""
        found: dict[str, Any] = {}
        for name, each in self.fields.items():
            found.update(each.leaves(f"{path}{name}.") if isinstance(each, Tree) else {path + name: each})
        return found

    def build(self, leaf: Callable[[str], Any], path: str = "", make: Callable[..., Any] | None = None) -> Any:
        """A record of it.

        Args:
            leaf: From the path of a field to its value.
            path: What paths begin with.
            make: ``make(kind, values)`` instead of a named tuple.
        """
        values = [
            each.build(leaf, f"{path}{name}.", make) if isinstance(each, Tree) else leaf(path + name)
            for name, each in self.fields.items()
        ]
        return self.kind(*values) if make is None else make(self.kind, tuple(values))

    def flatten(self, record: Any, path: str = "") -> dict[str, Any]:
        """The values of a record, by their paths.

        Raises:
            TypeError: A part is no record of its class.
        """
        found: dict[str, Any] = {}
        for name, each in self.fields.items():
            value = getattr(record, name)
            if not isinstance(each, Tree):
                found[path + name] = value
            elif type(value) is each.kind:  # a subclass may have other functions
                found.update(each.flatten(value, f"{path}{name}."))
            else:
                raise TypeError(f"{path}{name}: expected a {each.kind.__name__}, got {value!r}")
        return found


def flat_record(record: Any, path: str = "") -> dict[str, Any]:
    """The values of a named tuple, those of named tuples in it too, by their paths."""
    found: dict[str, Any] = {}
    for name, value in zip(record._fields, record, strict=True):
        found.update(flat_record(value, f"{path}{name}.") if hasattr(value, "_fields") else {path + name: value})
    return found


class PartOf(NamedTuple):
    """The annotation of a field whose class is one that a part brings along; see ``part_of``."""

    part: str
    name: str


def part_of(part: str, name: str) -> Any:
    """Annotate a field of ``State``, or of what ``derive_row`` returns, that belongs to a part of any class.

    Where ``Params`` has a field annotated ``tuple``, an env may be given a named tuple of whichever class there. What
    such a part keeps in columns, and what follows from it, are named tuple classes that are attributes of its class.

    Args:
        part: The field of ``Params``.
        name: The attribute of its class, a named tuple class: "State", say. Where the field holds no part, a word, say,
            an empty named tuple takes its place.

    Examples:
        >>> class Params(NamedTuple):
        ...     prices: tuple = Geometric()
        >>> class State(NamedTuple):
        ...     prices: part_of("prices", "State")
    """
    return PartOf(part, name)


class NoPart(NamedTuple):
    """What a field annotated ``part_of`` has where there is no part; ``derive_row`` then returns ``NoPart()`` there."""


def read_tree(kind: Any, where: str, parts: Mapping[str, Any] | None = None) -> Tree:
    """What the fields of a named tuple class are.

    Args:
        kind: The class.
        where: What error messages call it.
        parts: The classes of the parts that an env was given in fields for any, by their names; None where no such
            fields may be.

    Raises:
        TypeError: It is none, an annotation names what its module does not have, or a part lacks a class.
    """
    annotations = annotations_of(kind, where)
    fields = {}
    for name in kind._fields:
        path = f"{where}.{name}"
        if "__" in name:
            raise TypeError(f"{path}: expected a name without two underscores in a row")
        each = annotations[name]
        if parts is None and (isinstance(each, PartOf) or takes_parts(each)):
            raise TypeError(f"{path}: expected parts of any class to be fields of a market's own, not of a part")
        if isinstance(each, PartOf):
            each = _class_of_part(each, path, parts or {})
        elif takes_parts(each):
            each = (parts or {}).get(name, each)
        fields[name] = read_tree(each, path) if _is_named_tuple(each) else each
    return Tree(kind, fields)


def _class_of_part(wanted: PartOf, where: str, parts: Mapping[str, Any]) -> Any:
    if wanted.part not in parts:
        return NoPart
    kind = parts[wanted.part]
    found = getattr(kind, wanted.name, None)
    if not _is_named_tuple(found):
        expected = f"expected a part whose class has a named tuple class {wanted.name!r}"
        raise TypeError(f"{wanted.part}: {expected}, for {where}, got {kind.__name__}")
    return found


def is_part(value: Any) -> bool:
    """Whether a value is a named tuple, as which parts are given."""
    return _is_named_tuple(type(value))


class Parameter(NamedTuple):
    """One field of ``Params``, as its annotation says.

    Attributes:
        name: Its path.
        number: ``float``, ``int``, or None if it is never a number.
        constants: Types of values that are fixed when the env is made: of ``str``, ``bool``, ``NoneType``.
        is_array: Whether it may be an array that all rows share.
        is_object: Whether it may be anything at all, and is for plain Python functions alone.
        is_part: Whether it may be a part of any class, and then has fields of its own instead.
    """

    name: str
    number: type | None
    constants: tuple[type, ...]
    is_array: bool
    is_object: bool = False
    is_part: bool = False

    @property
    def expected(self) -> str:
        """What error messages ask for."""
        forms = []
        if self.number is float:
            forms.append("a number, one per sub-env, or Randomized(low, high)")
        elif self.number is int:
            forms.append("an integer, or one per sub-env")
        forms += ["an array"] * self.is_array + ["a named tuple"] * self.is_part
        names = {str: "a string", bool: "a bool", type(None): "None"}
        return " or ".join([*forms, *(names[kind] for kind in self.constants)])

    def check(self, value: Any) -> Any:
        """A value as a float, an int, a read-only array, a ``Randomized`` or a constant.

        Raises:
            TypeError: It is none of what the annotation says.
            ValueError: A number is not finite, or there is not a row of them.
        """
        if self.is_object:
            return value
        if np.ma.is_masked(value):
            raise ValueError(f"{self.name}: expected numbers, got an array with masked entries: {value!r}")
        if isinstance(value, np.bool_):
            value = bool(value)
        if type(value) in self.constants:
            return value
        if self.is_array and not isinstance(value, Randomized):
            array = np.array(value, order="C")
            if array.dtype.kind not in "biuf" or not array.ndim:
                raise TypeError(f"{self.name}: expected {self.expected}, got {value!r}")
            array = array.astype(array.dtype.newbyteorder("="), copy=False)  # Numba knows no other
            array.flags.writeable = False
            return array
        if self.number is not None and isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value):
            return self._check_column(value)
        if isinstance(value, Randomized) and self.number is float:
            return value
        if self.number is int and not isinstance(value, (bool, str)) and value is not None:
            return as_int64(value, self.name)
        number = as_real(value) if self.number is float else None
        if number is None:
            raise TypeError(f"{self.name}: expected {self.expected}, got {value!r}")
        if not math.isfinite(number):
            raise ValueError(f"{self.name}: expected a finite number, got {value}")
        return number

    def _check_column(self, value: Any) -> NDArray[Any]:
        try:
            column = np.asarray(value)
        except ValueError:  # ragged
            raise ValueError(f"{self.name}: expected one number per sub-env, got {value!r}") from None
        if column.dtype.kind not in ("iu" if self.number is int else "iuf"):
            raise TypeError(f"{self.name}: expected {self.expected}, got {value!r}")
        if column.ndim != 1 or not column.size:
            raise ValueError(f"{self.name}: expected one number per sub-env, got an array of shape {column.shape}")
        if self.number is int and column.dtype.kind == "u":
            as_int64(column.max(), self.name)
        column = column.astype(np.int64 if self.number is int else np.float64)
        good = np.isfinite(column)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(f"{self.name}: expected a finite number, got {column[row]} (sub-env {row})")
        column.flags.writeable = False
        return column


def read_parameters(tree: Tree, where: str) -> tuple[Parameter, ...]:
    """The fields of a ``Params`` class.

    Raises:
        TypeError: An annotation says nothing that is known.
    """
    return tuple(read_parameter(path, annotation, f"{where}.") for path, annotation in tree.leaves().items())


def read_parameter(name: str, annotation: Any, owner: str = "") -> Parameter:
    """One field of a ``Params`` class; ``owner`` is what error messages put before its name.

    Raises:
        TypeError: The annotation says nothing that is known.
    """
    if annotation in (Any, object):
        return Parameter(name, None, (), False, is_object=True)
    parts = list(get_args(annotation)) if get_origin(annotation) in (Union, types.UnionType) else [annotation]
    kinds = [part if isinstance(part, type) else get_origin(part) for part in parts]
    numbers_of = [float if issubclass(kind, (float, np.floating)) else int for kind in kinds if _is_number(kind)]
    constants = tuple(kind for kind in kinds if kind in (str, bool, type(None)))
    is_array = any(isinstance(kind, type) and issubclass(kind, np.ndarray) for kind in kinds)
    of_parts = takes_parts(annotation)
    known = len(numbers_of) + len(constants) + is_array + of_parts
    if known < len(kinds) or not kinds or (numbers_of and (is_array or of_parts)):
        expected = "an annotation of float, int, bool, str, None, np.ndarray, tuple or Any"
        raise TypeError(f"{owner}{name}: expected {expected}, got {annotation}")
    number = float if float in numbers_of else int if numbers_of else None
    return Parameter(name, number, constants, is_array, is_part=of_parts)


def takes_parts(annotation: Any) -> bool:
    """Whether a field may hold a part of any class."""
    return annotation is tuple or tuple in get_args(annotation)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (float, int, np.floating, np.integer)) and kind is not bool


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def annotations_of(kind: Any, where: str) -> dict[str, Any]:
    """The annotations of a named tuple class, evaluated.

    Raises:
        TypeError: It is none, or one of them names what its module does not have.
    """
    if not _is_named_tuple(kind):
        raise TypeError(f"{where}: expected a named tuple class, got {kind!r}")
    found = {}
    for each in reversed(kind.__mro__):
        found.update(inspect.get_annotations(each))
    scope = vars(sys.modules[kind.__module__])
    try:
        for name, annotation in found.items():  # text, where the module has "from __future__ import annotations"
            text = getattr(annotation, "__forward_arg__", annotation)
            found[name] = eval(text, scope) if isinstance(text, str) else annotation
    except (NameError, AttributeError) as error:
        raise TypeError(f"{where}: expected annotations that name what the module has, got {error}") from None
    if not set(kind._fields) <= set(found):
        raise TypeError(f"{where}: expected an annotation of each field (typing.NamedTuple), got {list(found)}")
    return found


class Values:
    """Parameters by path, checked, as they were given.

    Args:
        tree: The ``Params`` class.
        parameters: Its fields.
        given: A value for each, checked.

    Attributes:
        tree: The same.
        given: The same.
        columns: Paths of those with one value per sub-env.
        ranges: Paths of those that are drawn.
    """

    def __init__(self, tree: Tree, parameters: Iterable[Parameter], given: dict[str, Any]) -> None:
        self.tree = tree
        self.given = given
        told = [(each, given[each.name]) for each in parameters if not each.is_object]
        self.columns = [each.name for each, value in told if isinstance(value, np.ndarray) and not each.is_array]
        self.ranges = [each.name for each, value in told if isinstance(value, Randomized)]

    @property
    def record(self) -> Any:
        """As a ``Params``."""
        return self.tree.build(self.given.__getitem__)

    def combinations(self) -> Iterator[tuple[Any, str]]:
        """The ``Params`` of numbers of each sub-env, and what an error message says of it.

        Of a range both ends are taken, and of several each with each. Where that is too many (more than 6 ranges, or 64
        sub-envs that differ), it is each upper end with the lower ones of the others, and all upper ends together.
        """
        columns = {name: self.given[name] for name in self.columns}
        base = {**self.given, **{name: self.given[name].low for name in self.ranges}}
        rows = [0]
        if columns:
            table = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.values()], axis=1)
            rows = sorted(np.unique(table, axis=0, return_index=True)[1].tolist())
        for row in rows:
            numbers_of_row = {name: column[row].item() for name, column in columns.items()}
            lower, where = {**base, **numbers_of_row}, f" (sub-env {row})" if columns else ""
            yield self.tree.build(lower.__getitem__), where
            few = len(self.ranges) <= 6 and len(rows) <= 64
            for count in range(1, len(self.ranges) + 1) if few else (1, len(self.ranges)):
                for names in itertools.combinations(self.ranges, count):
                    upper = {**lower, **{name: self.given[name].high for name in names}}
                    ends = " and of ".join(str(self.given[name]) for name in names)
                    yield self.tree.build(upper.__getitem__), f" (the upper end of {ends}){where}"


def paths_read(params: SharedParams) -> set[str]:
    """The paths of the parameters that have been read."""
    return params._read


class SharedParams:
    """What plain Python functions of a market are given: the parameters that are one value for all sub-envs.

    Args:
        values: All parameters.
        reader: What reads them, for error messages.
        tree: The part whose fields they are; None for all.
        path: What the paths of its fields begin with.
    """

    def __init__(self, values: Values, reader: str, tree: Tree | None = None, path: str = "") -> None:
        self._values = values
        self._reader = reader
        self._tree = values.tree if tree is None else tree
        self._path = path
        self._read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        given, path, field = self._values.given, self._path + name, self._tree.fields.get(name)
        if isinstance(field, Tree):
            part = SharedParams(self._values, self._reader, field, f"{path}.")
            part._read = self._read
            return part
        if path not in given:
            if self._path and hasattr(self._tree.kind, name) and not name.startswith("_"):
                return self._of_class(name)
            raise AttributeError(f"{self._reader}: expected one of the parameters {list(given)}, got {path!r}")
        self._read.add(path)
        if path in self._values.columns or path in self._values.ranges:
            raise ValueError(f"{path}: expected one value for all sub-envs, since {self._reader} depends on it")
        return given[path]

    def _of_class(self, name: str) -> Any:
        """What a part's class has besides its fields: a function in a ``staticmethod``, a class or a constant."""
        value = inspect.getattr_static(self._tree.kind, name)
        if isinstance(value, staticmethod):
            return value.__func__
        if hasattr(type(value), "__get__") and not isinstance(value, type):
            where = f"{self._tree.kind.__name__}.{name}"
            raise TypeError(f"{where}: expected a staticmethod or a constant, as a part is many here, got {value!r}")
        return value
