"""What the caller hands in - seeds, options, values, actions - as one item per sub-env."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.infos import copy_info, copy_value
from sekai.checks import as_real, check_count
from sekai.seeding import check_seed, make_seed_sequence
from sekai.spaces import Space, zero_sample
from sekai.types import OptionsType, SeedType

#: Options of the resets that autoreset makes: one dict for all, or a function of the sub-env's index.
AutoresetOptions: TypeAlias = "dict[str, Any] | Callable[[int], OptionsType] | None"

_SEEDS = "reset(seed=...)"

#: Types of values that nobody can change.
_PLAIN = {int, float, bool, str, type(None)}


def _seed_list(seed: Any, n: int) -> list[Any] | None:
    """The entries of a list of seeds, its length checked; None for anything that is no list."""
    if isinstance(seed, np.ndarray) and seed.ndim > 0:
        if seed.ndim > 1 or (seed.dtype.kind not in "iuO" and seed.size):
            raise TypeError(f"{_SEEDS}: expected a 1-D integer array, got shape {seed.shape} of dtype {seed.dtype}")
        seed = seed.tolist()  # plain integers, which need not be checked one by one
    if not isinstance(seed, (list, tuple)):
        return None
    if len(seed) != n:
        raise ValueError(f"{_SEEDS}: expected {n} seeds (num_envs), got {len(seed)}")
    return list(seed)


def spread_seeds(seed: Any, n: int) -> list[SeedType]:
    """One seed per sub-env.

    Args:
        seed: None continues every stream; an integer derives one independent seed per sub-env; a list, tuple or
            1-D integer array holds one each, where None continues that stream and a generator is used as it is.
        n: The number of sub-envs.

    Raises:
        TypeError: A seed is no integer (a bool is none), or one generator was given for all sub-envs.
        ValueError: A seed is negative, or a list has another length than ``n``.
    """
    if seed is None:
        return [None] * n
    entries = _seed_list(seed, n)
    if entries is None:
        return list(make_seed_sequence(check_seed(seed, _SEEDS), n))
    return [
        entry if entry is None or isinstance(entry, np.random.Generator) else _check_entry(entry, i)
        for i, entry in enumerate(entries)
    ]


def _check_entry(entry: Any, i: int) -> int:
    # Most are plain integers: of thousands, an error message for each would be most of a reset.
    return entry if type(entry) is int and entry >= 0 else check_seed(entry, f"{_SEEDS}, sub-env {i}")


def merge_seeds(seed: Any, n: int, rng: Callable[[], np.random.Generator]) -> np.random.SeedSequence | None:
    """One seed for a generator that all sub-envs share; None when the current one goes on.

    Args:
        seed: As for ``spread_seeds``. The entries of a list are combined into one seed, to which a None entry
            contributes a draw from the current stream; a list of only None continues it.
        n: The number of sub-envs.
        rng: Gives the current generator.

    Raises:
        TypeError: A seed is no integer (a bool or a generator is none).
        ValueError: A seed is negative, or a list has another length than ``n``.
    """
    if seed is None:
        return None
    if isinstance(seed, np.ndarray) and seed.dtype == np.uint64 and seed.shape == (n,):
        return _sequence_of(seed, n)  # with no list made of thousands
    entries = _seed_list(seed, n)
    if entries is None:
        return np.random.SeedSequence(check_seed(seed, _SEEDS))
    checked = [None if entry is None else _check_entry(entry, i) for i, entry in enumerate(entries)]
    if all(entry is None for entry in checked):
        return None
    values = [int(rng().integers(2**63)) if entry is None else entry for entry in checked]
    return _sequence_of(values, n)


def _sequence_of(values: list[int] | NDArray[np.uint64], n: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(
        _words_of(values), spawn_key=(n,)
    )  # the key tells a list from an integer of its words


def _words_of(values: list[int] | NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The 32-bit words of integers, each with their number before them, so that no two lists have the same."""
    try:
        numbers = np.array(values, np.uint64)
    except OverflowError:
        words: list[int] = []
        for value in values:
            count = max(1, -(-value.bit_length() // 32))
            words += [count, *((value >> (32 * word)) & 0xFFFFFFFF for word in range(count))]
        return np.array(words, np.uint32)
    high = numbers >> np.uint64(32)
    table = np.stack([1 + (high > 0), numbers & np.uint64(0xFFFFFFFF), high], axis=1).astype(np.uint32)
    flat: NDArray[np.uint32] = table[np.stack([high >= 0, high >= 0, high > 0], axis=1)]
    return flat  # an array, of which NumPy takes thousands a hundred times as quickly as of a list


def draw_seeds(seed: Any, n: int, *, beside: bool = False) -> Any:
    """Seeds in which each generator in a list has given way to a draw from it; any other seed as it is.

    For an env whose sub-envs have no generators of their own. Nothing is drawn if a seed is refused.

    Args:
        seed: As for ``spread_seeds``.
        n: The number of sub-envs.
        beside: Whether an env draws from the generators itself: each gives way to a child of its seed sequence, each
            time another one, and its own numbers stay as they are.

    Raises:
        TypeError: A seed of such a list is no integer (a bool is none).
        ValueError: One is negative, or the list has another length than ``n``.
    """
    if isinstance(seed, np.ndarray) and seed.dtype == object and seed.ndim == 1:
        seed = seed.tolist()
    if not isinstance(seed, (list, tuple)):
        return seed
    if not any(isinstance(entry, np.random.Generator) for entry in seed if entry.__class__ is not int):
        return seed
    draw = _spawn_seed if beside else draw_seed
    return [draw(entry) if isinstance(entry, np.random.Generator) else entry for entry in spread_seeds(seed, n)]


def draw_seed(generator: np.random.Generator) -> int:
    """The seed that a generator contributes where there is no place for itself."""
    return int(generator.integers(2**63))


def _spawn_seed(generator: np.random.Generator) -> int:
    """A seed of a child of a generator; of one without a seed sequence, as others than NumPy's may be, a draw."""
    sequence = generator.bit_generator.seed_seq
    if not isinstance(sequence, np.random.SeedSequence):
        return draw_seed(generator)
    [child] = sequence.spawn(1)
    return int(child.generate_state(1, np.uint64)[0] >> np.uint64(1))


def copy_options(options: Any) -> OptionsType:
    """Options of an env's own, at any depth; what cannot be copied (a lock, an open file) is handed on as it is."""
    if options is None:
        return None
    # Of thousands of sub-envs, going through each takes milliseconds.
    if _PLAIN.issuperset(map(type, options.values())):
        return dict(options)
    return copy_info(options)


def spread_options(options: Any, n: int) -> list[OptionsType]:
    """One options dict (or None) per sub-env, a copy of its own at any depth (see ``copy_options``).

    Raises:
        TypeError: Options are neither a dict, None, nor a list of those.
        ValueError: A list has another length than ``n``.
    """
    if options is None:
        return [None] * n
    if isinstance(options, dict):
        return [copy_options(options) for _ in range(n)]
    if not isinstance(options, (list, tuple)):
        raise TypeError(f"reset(options=...): expected a dict, None or a list of them, got {type(options).__name__}")
    if len(options) != n:
        raise ValueError(f"reset(options=...): expected {n} options (num_envs), got {len(options)}")
    for i, entry in enumerate(options):
        if entry is not None and not isinstance(entry, dict):
            raise TypeError(f"reset(options=...): expected a dict or None for sub-env {i}, got {type(entry).__name__}")
    return [copy_options(entry) for entry in options]


def spread_resets(seed: Any, options: Any, n: int) -> list[tuple[SeedType, OptionsType]]:
    """One pair of seed and options per sub-env; raises what ``spread_seeds`` and ``spread_options`` do."""
    return list(zip(spread_seeds(seed, n), spread_options(options, n), strict=True))


def row_seeds(seed: Any, rows: NDArray[np.intp], n: int) -> list[SeedType]:
    """One seed for each of some sub-envs: of an integer those that a reset of all with it would give them.

    Args:
        seed: As for ``spread_seeds``; a list holds one for each of these sub-envs.
        rows: The sub-envs.
        n: The number of all.

    Raises:
        TypeError: A seed is no integer (a bool is none), or one generator was given for several.
        ValueError: A seed is negative, or a list has another length than ``rows``.
    """
    if seed is None or _seed_list(seed, len(rows)) is not None:
        return spread_seeds(seed, len(rows))
    every = spread_seeds(seed, n)
    return [every[row] for row in rows.tolist()]


def check_rows(indices: Any, n: int, where: str, *, distinct: bool = False) -> NDArray[np.intp]:
    """Which sub-envs are meant: intp (k,).

    Args:
        indices: Their numbers, one number, or a mask of all; None for all.
        n: The number of sub-envs.
        where: What the error message calls it.
        distinct: Whether none may be named twice.

    Raises:
        TypeError: They are no integers.
        ValueError: There is no such sub-env, or one is named twice.
    """
    if indices is None:
        return np.arange(n)
    if type(indices) is int and 0 <= indices < n:  # for thousands of calls with one
        return np.array([indices], np.intp)
    rows = np.atleast_1d(np.asarray(indices))
    if rows.dtype == np.bool_:
        if rows.shape != (n,):
            raise ValueError(f"{where}: expected a mask of shape ({n},) (num_envs), got {rows.shape}")
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
        raise TypeError(f"{where}: expected integers, or a mask of sub-envs, got {indices!r}")
    wrong = (rows < 0) | (rows >= n)
    if wrong.any():
        raise ValueError(f"{where}: expected sub-envs in [0, {n - 1}], got {rows[wrong].tolist()}")
    if distinct and len(np.unique(rows)) < len(rows):
        raise ValueError(f"{where}: expected each sub-env once, got {rows.tolist()}")
    return rows.astype(np.intp)


def even_slices(n: int, parts: int) -> list[slice]:
    """The rows of a batch of ``n`` cut into so many parts, whose sizes differ by at most one, the longer ones first."""
    fewest, more = divmod(n, parts)
    stops = [part * fewest + min(part, more) for part in range(parts + 1)]
    return [slice(start, stop) for start, stop in zip(stops[:-1], stops[1:], strict=True)]


def check_autoreset_options(options: Any) -> AutoresetOptions:
    """The ``autoreset_options=`` of a vector environment; TypeError unless a dict, a callable or None."""
    if options is None or isinstance(options, dict) or callable(options):
        return options  # type: ignore[no-any-return]
    raise TypeError(
        f"autoreset_options: expected a dict, a callable of the sub-env's index or None, got {type(options).__name__}"
    )


def autoreset_option(options: AutoresetOptions, i: int) -> OptionsType:
    """The options with which autoreset resets sub-env ``i``, a copy of its own."""
    if options is None:
        return None
    given = options if isinstance(options, dict) else options(i)
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"autoreset_options({i}): expected a dict or None, got {type(given).__name__}")
    return copy_options(given)


def autoreset_every_option(options: AutoresetOptions, rows: NDArray[np.intp]) -> list[OptionsType]:
    """The options with which autoreset resets some sub-envs."""
    if options is None:
        return [None] * len(rows)
    return [autoreset_option(options, row) for row in rows.tolist()]


def spread_values(name: str, values: Any, n: int, of: str = "num_envs") -> list[Any]:
    """One value per sub-env: a list holds one each, anything else (a tuple or array too) is one for all.

    Raises:
        ValueError: A list has another length than ``n``, which the message calls ``of``.
    """
    if not isinstance(values, list):
        return [values] * n
    if len(values) != n:
        raise ValueError(f"set_attr({name!r}): expected {n} values ({of}), got a list of {len(values)}")
    return values


def check_actions(space: Space[Any], n: int, actions: Any) -> Any:
    """The actions as a batch in the space's dtypes; not copied where they fit already.

    A list is one action per sub-env, whatever the space; of a ``Tuple`` space, a tuple is the batch.

    Raises:
        ValueError: Their number, shape, dtype or structure is another than that of the batch.
    """
    return layout.as_batch(space, n, actions, "step(actions)")


def plain_actions(space: Space[Any], n: int, actions: Any) -> Any:
    """As ``check_actions``, in arrays that are C-contiguous, aligned and writable: a kernel has one form for them.

    Arrays in another layout, or read-only ones, are copied.
    """
    batch = layout.as_batch(space, n, actions, "step(actions)")
    if batch.__class__ is np.ndarray:
        return batch if batch.flags.carray else batch.copy()
    return layout.map_parts(lambda part: part.copy() if _is_odd(part) else part, batch)


def _is_odd(part: Any) -> bool:
    return isinstance(part, np.ndarray) and not part.flags.carray


def hold_actions(actions: Any, held: Any, frozen: NDArray[np.bool_]) -> Any:
    """The actions with those of frozen sub-envs replaced by the ones they acted with last.

    Args:
        actions: The batch of actions.
        held: The batch that was acted with last.
        frozen: bool (n,).

    Returns:
        Fresh arrays.
    """
    rows = np.flatnonzero(frozen)
    merged = layout.copy_batch(actions)
    layout.put(merged, rows, layout.take(held, rows))
    return merged


def initial_action_of(space: Space[Any], action: Any, where: str) -> Any:
    """The action that is taken before any other.

    Raises:
        ValueError: It is not in the space.
    """
    if action is None:
        return zero_sample(space)
    if not space.contains(action):
        raise ValueError(f"{where}: expected an initial_action in {space}, got {action!r}")
    return copy_value(action)


def check_sticking(probability: Any, duration: Any, where: str) -> tuple[float, tuple[int, int]]:
    """The arguments of ``StickyAction``: the probability, and the least and the most steps.

    Raises:
        TypeError: One is of another type.
        ValueError: One is out of range.
    """
    chance = as_real(probability)
    if chance is None:
        raise TypeError(f"{where}: expected a repeat_action_probability that is a number, got {probability!r}")
    if not 0 <= chance < 1:
        raise ValueError(f"{where}: expected a repeat_action_probability of at least 0 and below 1, got {probability}")
    pair = tuple(duration) if isinstance(duration, (tuple, list)) else (duration, duration)
    if len(pair) != 2:
        raise ValueError(f"{where}: expected a repeat_action_duration, or the least and the most, got {duration!r}")
    least, most = (check_count(each, f"{where}: repeat_action_duration") for each in pair)
    if least > most:
        raise ValueError(f"{where}: expected a repeat_action_duration (least, most) in order, got {duration!r}")
    if most >= 2**31:  # the draws have 32 bits
        raise ValueError(f"{where}: expected a repeat_action_duration below {2**31}, got {duration!r}")
    return chance, (least, most)
