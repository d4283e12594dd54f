"""Snapshots: what decides what environments will show next, as data, and how it is read off objects.

Of a ``VecEnv`` a ``Snapshot`` holds columns, one entry per sub-env. Of an ``Env``, whose state may be anything, it is
pickled: the same bytes under every backend.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.batching.slab import Slab
from sekai.spaces import Space

#: The name under which what has been drawn from a generator that all sub-envs share is kept.
RNG = "rng"


class Kept(NamedTuple):
    """What one layer of a VecEnv, itself or a wrapper around it, keeps of some sub-envs.

    Attributes:
        columns: One entry for each of them, by name.
        shared: What is the same for all sub-envs and no step changes, by name: where it is restored it has to agree.
        whole: What all sub-envs share and steps change, by name; empty of a part of them.
    """

    columns: Mapping[str, NDArray[Any]]
    shared: dict[str, Any]
    whole: dict[str, Any] | None


class SlabColumns(Mapping[str, NDArray[Any]]):
    """Columns that lie in one stretch of memory, of which arrays are made when somebody asks for them.

    Args:
        slab: Where they lie.
        count: Entries of each.

    Attributes:
        slab: The same.
        count: The same.
        memory: u1, the memory; its values are undefined at first.
        starts: i8, where the columns begin.
    """

    def __init__(self, slab: Slab, count: int) -> None:
        self.slab = slab
        self.count = count
        self.starts, size = _places(slab, count)
        self._owner = np.empty(size // 8, np.uint64)  # aligned for any number
        self.memory = self._owner.view(np.uint8)

    @classmethod
    def of(cls, slab: Slab, columns: Mapping[str, NDArray[Any]]) -> SlabColumns:
        """A copy of columns, among which are those of the slab."""
        made = cls(slab, len(columns[slab.columns[0].name]))
        for each in slab.columns:
            made.view(each.name)[...] = columns[each.name]
        return made

    def freeze(self) -> SlabColumns:
        """The same, never to be written to again."""
        self._owner.flags.writeable = self.memory.flags.writeable = False
        return self

    def take(self, rows: NDArray[np.intp]) -> SlabColumns:
        """The columns of some of the entries."""
        from sekai.kernels.slabs import copy_rows

        taken = SlabColumns(self.slab, len(rows))
        sizes = np.array([each.row_bytes for each in self.slab.columns])
        copy_rows(self.memory, self.starts, rows, taken.memory, taken.starts, np.arange(len(rows)), sizes)
        return taken.freeze()

    def view(self, name: str) -> NDArray[Any]:
        """A column as an array over the memory."""
        for each, start in zip(self.slab.columns, self.starts.tolist(), strict=True):
            if each.name == name:
                array: NDArray[Any] = np.ndarray((self.count, *each.shape), each.dtype, self.memory, start)
                return array
        raise KeyError(name)

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self.view(name)
        array.flags.writeable = False
        return array

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in self.slab.columns)

    def __len__(self) -> int:
        return len(self.slab.columns)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


@functools.lru_cache(maxsize=256)
def _places(slab: Slab, count: int) -> tuple[NDArray[np.int64], int]:
    """Where the columns of a slab begin, and its size."""
    return np.array([start for _, start in slab.places(count)]), slab.nbytes(count)


def spread(column: NDArray[Any], count: int) -> NDArray[Any]:
    """A column of as many entries: that of one sub-env is all sub-envs'."""
    return column if len(column) == count else np.repeat(column, count, axis=0)


class Snapshot:
    """The state of some sub-envs, from which they, or others, go on after ``VecEnv.restore()``.

    It is data: it can be pickled, compared, indexed (``snapshot[3]``, a slice, a list or mask of rows) and joined with
    others of the same market (``Snapshot.concatenate``), and nothing that happens later changes it.

    Attributes:
        market: The name of the VecEnv's class, and those of the wrappers around it, from the inside out.
        observation_space: Of one sub-env.
        action_space: Of one sub-env.
        columns: By name, arrays with one entry per sub-env, read-only. Of sub-envs that are Env objects, bytes.
        shared: By name, what the sub-envs have in common and no step changes: parameters of the whole market, say.
            Arrays and objects stand as digests.
        whole: By name, what they have in common and steps change: the generator of a ``NativeVecEnv``, statistics of
            wrappers. None of a part of the sub-envs.
    """

    def __init__(
        self,
        market: tuple[str, ...],
        spaces: tuple[Space[Any], Space[Any]],
        columns: Mapping[str, NDArray[Any]],
        shared: dict[str, Any],
        whole: dict[str, Any] | None,
    ) -> None:
        self.market = market
        self.observation_space, self.action_space = spaces
        self.columns = columns
        self.shared = shared
        self.whole = whole
        if not isinstance(columns, SlabColumns):
            for column in columns.values():
                column.flags.writeable = False

    @classmethod
    def concatenate(cls, snapshots: Sequence[Snapshot]) -> Snapshot:
        """The sub-envs of several snapshots in one.

        Raises:
            TypeError: One is none.
            ValueError: There are none, or they are of different markets or parameters.
        """
        first = next(iter(snapshots), None)
        if first is None:
            raise ValueError("Snapshot.concatenate(snapshots): expected at least one snapshot, got none")
        for k, each in enumerate(snapshots):
            where = f"Snapshot.concatenate(snapshots): snapshot {k}"
            if not isinstance(each, Snapshot):
                raise TypeError(f"{where}: expected a Snapshot, got {each!r}")
            each.require(first, where)
            if each.shares_generator:
                raise ValueError(f"{where}: expected sub-envs of their own, got some that share a generator")
            require_equal(first.shared, each.shared, where)
        columns = {name: np.concatenate([each.columns[name] for each in snapshots]) for name in first.columns}
        return cls(first.market, first._spaces, columns, dict(first.shared), None)

    def require(self, other: Snapshot, where: str) -> None:
        """ValueError if it is of another market, other spaces or another layout than ``other``."""
        self.require_of(other.market, other._spaces, where)
        require_equal(other.layout, self.layout, where)

    def require_of(self, market: tuple[str, ...], spaces: tuple[Space[Any], Space[Any]], where: str) -> None:
        """ValueError if it is of another market or other spaces."""
        if self.market != market:
            raise ValueError(f"{where}: expected one of {' in '.join(market)}, got one of {' in '.join(self.market)}")
        for name, expected, got in zip(("observation_space", "action_space"), spaces, self._spaces, strict=True):
            if expected != got:
                raise ValueError(f"{where}: {name}: expected {expected}, got {got}")

    @property
    def shares_generator(self) -> bool:
        """Whether the sub-envs share a generator that has been drawn from, and can be restored all together only."""
        return self.whole is not None and RNG in self.whole

    def require_complete(self, where: str) -> None:
        """ValueError if a column has another number of entries than there are sub-envs."""
        for name, column in () if isinstance(self.columns, SlabColumns) else self.columns.items():
            if len(column) != len(self):
                raise ValueError(f"{where}: {name}: expected {len(self)} entries, got {len(column)}")

    @property
    def layout(self) -> dict[str, str]:
        """The dtype of each column and the shape of an entry: its version, which does not depend on the package's."""
        return layout_of(self.columns)

    @property
    def nbytes(self) -> int:
        """The memory of its columns, bytes."""
        return sum(
            sum(map(_size, column.tolist())) if column.dtype == object else column.nbytes
            for column in self.columns.values()
        )

    @property
    def _spaces(self) -> tuple[Space[Any], Space[Any]]:
        return self.observation_space, self.action_space

    def __len__(self) -> int:
        return self.columns.count if isinstance(self.columns, SlabColumns) else len(next(iter(self.columns.values())))

    def __getitem__(self, rows: Any) -> Snapshot:
        """A snapshot of some of the sub-envs; of one, for a number.

        Raises:
            IndexError: There is no such sub-env.
            ValueError: The sub-envs share a generator that has been drawn from, and belong together.
        """
        if self.shares_generator:
            raise ValueError(f"{self!r}[{rows!r}]: expected all of them, since they share a generator")
        picked = np.atleast_1d(np.arange(len(self))[rows])
        columns: Mapping[str, NDArray[Any]]
        if isinstance(self.columns, SlabColumns):
            columns = self.columns.take(picked)
        else:
            columns = {name: column[picked] for name, column in self.columns.items()}
        return Snapshot(self.market, self._spaces, columns, dict(self.shared), None)

    def __iter__(self) -> Iterator[Snapshot]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether it holds the same, bit for bit."""
        if not isinstance(other, Snapshot):
            return NotImplemented
        named = ("market", "observation_space", "action_space", "layout", "shared")
        is_same = all(getattr(self, name) == getattr(other, name) for name in named)
        return (
            is_same
            and (self.whole or None) == (other.whole or None)
            and all(
                column.tolist() == other.columns[name].tolist()
                if column.dtype == object
                else column.tobytes() == other.columns[name].tobytes()
                for name, column in self.columns.items()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for column in self.columns.values():  # which a copy of it is not
            column.flags.writeable = False

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} sub-env{'s' * (len(self) != 1)} of {' in '.join(self.market)}>"


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else len(pickle.dumps(value))


# -- what must agree ---------------------------------------------------------------------------------------


def fingerprint(value: Any, where: str) -> Any:
    """By what to tell whether another value is the same: a number, a word or None itself, else a digest.

    Raises:
        TypeError: It cannot be kept: a socket, a lock, a live feed.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array {value.dtype} {value.shape} {_digest(np.ascontiguousarray(value).tobytes())}"
    if isinstance(value, (set, frozenset)):  # in no order
        each = sorted(str(fingerprint(item, where)) for item in value)
        return f"{type(value).__qualname__} {_digest(repr(each).encode())}"
    return f"{type(value).__qualname__} {_digest(dumps(value, where))}"


def _digest(content: bytes) -> str:
    import hashlib  # which nobody needs who takes no snapshots

    return hashlib.sha256(content).hexdigest()


def require_equal(expected: Mapping[str, Any], got: Mapping[str, Any], where: str) -> None:
    """ValueError, which names what differs, unless two sets of fingerprints are the same."""
    for name in differing(expected, got):
        one, other = (side.get(name, "none") for side in (expected, got))
        raise ValueError(f"{where}: {name}: expected {one}, got {other}")


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of what two sets of fingerprints have not alike; NaN is NaN."""
    if one == other:
        return []
    pairs = ((name, one.get(name, "none"), other.get(name, "none")) for name in sorted({*one, *other}))
    return [name for name, a, b in pairs if a != b and not (a != a and b != b)]


def require_columns(expected: Mapping[str, NDArray[Any]], got: Mapping[str, NDArray[Any]]) -> None:
    """ValueError, which names what differs, unless columns have the same names, dtypes and shapes of an entry."""
    require_equal(layout_of(expected), layout_of(got), "restore(snapshot): the layout of its columns")


def layout_of(columns: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """The dtype of each column and the shape of an entry, as text."""
    return {name: f"{column.dtype} {column.shape[1:]}" for name, column in sorted(columns.items())}


def dumps(value: Any, where: str) -> bytes:
    """Pickle a value, also one of a class of the main module.

    Raises:
        TypeError: It cannot be pickled.
    """
    import cloudpickle

    try:
        pickled: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{where}: expected what can be pickled, got {value!r} ({error})") from error
    return pickled


# -- attributes of an object -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def ignored(kind: type) -> frozenset[str]:
    """The attributes that a class and its bases say are no state, by ``snapshot_ignores``."""
    found: set[str] = set()
    for each in kind.__mro__:
        names = vars(each).get("snapshot_ignores", ())
        found.update([names] if isinstance(names, str) else names)
    return frozenset(found)


def is_of_kit(method: Any) -> bool:
    """Whether a method is one of the kit's own, not a subclass's."""
    return bool(method.__module__.partition(".")[0] == "sekai")


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    found = dict(getattr(owner, "__dict__", {}))
    found.update((name, getattr(owner, name)) for name in _slots_of(owner.__class__) if hasattr(owner, name))
    return found


@functools.lru_cache(maxsize=256)
def _slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases, as the interpreter has them."""
    found = []
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{each.__name__.lstrip('_')}{name}" if is_private else name)
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def state_of_layers(layers: Sequence[Any], count: int) -> bytes:
    """The attributes of the first layers of a stack of an env and wrappers, pickled together.

    Where one refers to a layer, in a bound method, say, the layer itself takes its place again when they are put back;
    what two of them share they go on sharing.

    Args:
        layers: All of them, from the outside in.
        count: How many to pickle.

    Raises:
        TypeError: An attribute cannot be pickled; the message names it.
    """
    states = [_state_of(layer) for layer in layers[:count]]
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
    left_out = {"env", *ignored(layer.__class__)} if hasattr(layer, "env") else ignored(layer.__class__)
    return {name: value for name, value in attributes_of(layer).items() if name not in left_out}


def _dump(value: Any, layers: Sequence[Any]) -> bytes:
    import cloudpickle

    numbers = {id(layer): k for k, layer in enumerate(layers)}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, each: Any) -> Any:
            return numbers.get(id(each))

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def load_states(pickled: bytes, layers: Sequence[Any]) -> list[dict[str, Any]]:
    """What ``state_of_layers`` gave, for as many layers of another stack of the same classes."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, number: Any) -> Any:
            return layers[number]

    states: list[dict[str, Any]] = Unpickler(io.BytesIO(pickled)).load()
    return states


def put_state_back(layer: Any, state: Mapping[str, Any]) -> None:
    """Give a layer the attributes that it had."""
    for name in _state_of(layer).keys() - state.keys():
        delattr(layer, name)
    for name, value in state.items():
        object.__setattr__(layer, name, value)


class StateByAttributes:
    """A layer of a VecEnv whose state is those of its attributes that are arrays with an entry per sub-env.

    A subclass that holds state in another way writes ``_snapshot_rows`` and ``_restore_rows``.
    """

    num_envs: Any

    #: Attributes that decide nothing of what is shown next, which snapshots leave out.
    snapshot_ignores: ClassVar[tuple[str, ...]] = ()

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """What a market or a wrapper holds of some sub-envs, as arrays of their own with an entry for each.

        The default has the attributes that are arrays with a first axis of ``num_envs``, and named tuples of such. What
        decides steps, is altered by them and is held in another way is for a subclass to add, with ``_restore_rows``.

        Args:
            indices: intp (k,), the sub-envs.
        """
        arrays, _ = self.__attributes()
        return {name: array.take(indices, axis=0) for name, array in arrays.items()}

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        """Take over what ``_snapshot_rows`` has given of as many sub-envs, perhaps of another env of this class.

        Args:
            indices: intp (k,), the sub-envs.
            rows: By name, arrays with an entry for each.
        """
        arrays, _ = self.__attributes()
        for name, values in rows.items():
            arrays[name][indices] = values

    def _snapshot_arrays(self) -> dict[str, NDArray[Any]]:
        """The attributes that a snapshot takes for state, live; none where a subclass says itself what it holds."""
        return self.__attributes()[0] if is_of_kit(type(self)._snapshot_rows) else {}

    def _snapshot_others(self) -> dict[str, Any]:
        """Fingerprints of the attributes that a snapshot takes to stay as they are, likewise."""
        if not is_of_kit(type(self)._snapshot_rows):
            return {}
        where = f"snapshot(): {type(self).__name__}"
        return {name: fingerprint(value, f"{where}.{name}") for name, value in self.__attributes()[1].items()}

    @staticmethod
    def _snapshot_base_names() -> frozenset[str]:
        """The attributes that are the kit's own, of which it says itself what becomes of them."""
        raise NotImplementedError

    def __attributes(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        kind: Any = type(self)
        names = attributes_of(self).keys() - ignored(kind) - self._snapshot_base_names()
        return split_attributes(self, sorted(names), self.num_envs) if names else ({}, {})


def split_attributes(owner: Any, names: Iterable[str], num_envs: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The attributes of an object that are arrays with an entry per sub-env, and the others.

    Of a named tuple of arrays each is one, under the name "attribute.field".
    """
    columns: dict[str, NDArray[Any]] = {}
    others: dict[str, Any] = {}

    def sort(path: str, value: Any) -> None:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            for field, item in zip(value._fields, value, strict=True):
                sort(f"{path}.{field}", item)
        elif isinstance(value, np.ndarray) and value.ndim and len(value) == num_envs and _is_written(value):
            columns[path] = value
        else:
            others[path] = value

    attributes = attributes_of(owner)
    for name in names:
        sort(name, attributes[name])
    return columns, others


def _is_written(array: NDArray[Any]) -> bool:
    """Whether an array may be state of rows: not one that nobody writes to, nor one of objects, which are shared."""
    return array.flags.writeable and not array.dtype.hasobject


def is_same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are the same, bit for bit."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def require_untouched(layer: Any, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> None:
    """ValueError where rows of an array would change that nothing has been seen to change.

    What all sub-envs share may have as many entries as there are sub-envs by chance: a table of prices, say, of which
    an entry would be moved to another place.
    """
    for name, array in layer._snapshot_arrays().items():
        if name in layer._untouched and name in columns:
            if not is_same(array[rows], spread(columns[name], len(rows)).astype(array.dtype, copy=False)):
                where = f"restore(snapshot): {type(layer).__name__}.{name}"
                raise ValueError(
                    f"{where}: expected what steps and resets alter, or the same in these rows, got an array that they "
                    f"leave as it is; name it in snapshot_ignores if all sub-envs share it, or say that it is state by "
                    f"_snapshot_rows() and _restore_rows()"
                )
