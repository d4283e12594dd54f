"""NativeVecEnv: every sub-env at once, as arrays."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.batching import inputs, layout
from sekai.batching.buffers import Buffers
from sekai.batching.episodes import EndedBatch, MaskEpisodes
from sekai.batching.info_list import InfoList
from sekai.batching.infos import copy_columns
from sekai.batching.masks import check_masks, full_masks, rows_of_masks
from sekai.checks import check_count
from sekai.errors import InvalidObservation
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots.agreement import fingerprint, require_columns, require_equal
from sekai.snapshots.attributes import StateByAttributes, require_untouched
from sekai.snapshots.columns import spread
from sekai.snapshots.snapshot import Kept
from sekai.spaces import Space, mask_space
from sekai.spaces.space import name_instead
from sekai.types import ActType, InfoArrays, ObsType, OptionsType, SeedType
from sekai.vector.base import VecEnv
from sekai.vector.native.clock import Clock
from sekai.vector.native.generator import SharedGenerator
from sekai.vector.native.seeded import SeededStreams

if TYPE_CHECKING:
    from sekai.kernels.streams import Streams


_NO_ROWS = np.empty(0, dtype=np.intp)

#: The attributes that an env has by this class.
_OWN_NAMES = frozenset(
    {
        *("num_envs", "observation_space", "action_space", "autoreset", "spec", "metadata", "render_mode"),
        *("_native", "_closed", "_has_reset", "_batch_spaces", "_is_examined", "_untouched"),
        *(f"_NativeVecEnv__{name}" for name in ("last_actions", "name_of_step", "name_of_observe")),
    }
)
_FLOAT64, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)


class _Parts:
    """What the base class keeps, in one place, so that no name of a subclass gets in its way.

    Attributes:
        clock: The steps of each episode.
        episodes: Who is frozen.
        streams: The random streams.
        generator: What sub-envs share besides.
        buffers: The memory of results.
        rows_buffers: The memory of results of some sub-envs: as many sizes as there are, so none is kept.
        autoreset_options: As given.
        none_ended: What a step in which no episode ended adds to infos.
    """

    def __init__(
        self,
        clock: Clock,
        episodes: MaskEpisodes,
        streams: SeededStreams,
        buffers: Buffers,
        autoreset_options: inputs.AutoresetOptions,
        none_ended: EndedBatch,
    ) -> None:
        self.clock = clock
        self.episodes = episodes
        self.streams = streams
        self.generator = SharedGenerator()
        self.buffers = buffers
        self.rows_buffers = Buffers(least=sys.maxsize)
        self.autoreset_options = autoreset_options
        self.none_ended = none_ended


class NativeVecEnv(StateByAttributes, VecEnv[ObsType, ActType]):
    """A market whose sub-envs are rows of arrays, moved on together.

    State is in arrays whose first axis has ``num_envs`` entries. A subclass writes:

    - ``_reset_envs(indices, options)``, which begins episodes in some sub-envs;
    - ``_observe()``, which gives what all of them show, as a batch;
    - ``_step(actions)``, which moves all of them on;
    - if it likes ``_reset_infos(indices)``, arrays that a reset tells of some sub-envs, and ``_observe_rows(indices)``,
      what some of them show, where that costs less than observing all.

    The rest is done here: seeds, options of each sub-env, autoreset within the step or freezing without, a time limit,
    ``ResetRequired`` where ``reset()`` has been forgotten, copies of all that is returned, and infos that become dicts
    when somebody reads them.

    Frozen sub-envs are stepped too: ``_step()`` finds the action that each of them took last, and ``self.frozen``
    says which they are; their streams stay where they are. It has to leave them alone if it would otherwise run out of
    data, or if what they hold is still to be read, or to go on with in their next episode.

    There are two ways to draw. Kernels draw from ``self.streams``, one random stream per sub-env: a sub-env's numbers
    are then those of its seed under any backend. ``self.rng`` is one NumPy generator for all of them, for draws of
    whole arrays: with it they have the same distribution under every backend, and the same numbers only where nothing
    is drawn.

    ``reset(seed=...)`` takes what every VecEnv takes. For the streams, an int derives one seed per sub-env, and a list
    holds one each, where a None entry goes on with that stream. The generator is seeded by the int, or by all entries
    of the list together; in the place of None stands a number drawn from it, in that of a Generator one drawn from that
    one, and with nothing but None it goes on. A Generator for all is no seed: TypeError.

    ``snapshot()`` keeps the streams, the clock, the generator, and of this object the attributes that are arrays, or
    named tuples of arrays, whose first axis has ``num_envs`` entries. All others are taken to stay as they are:
    ``snapshot()`` raises if a step alters one, ``restore()`` if it is not the same. ``snapshot_ignores``, a tuple of
    names in the class, says which are no state; what is held in another way is for ``_snapshot_rows()`` and
    ``_restore_rows()``.

    ``get_attr(name)`` and ``call(name)`` find attributes and methods of this object. Of an array whose first axis has
    ``num_envs`` entries each sub-env gets its own, unless the member is marked ``@shared``; all else is everybody's.
    ``set_attr(name, values)`` changes what is there, a list to an array of one value each; AttributeError of a name
    that is not, or that is this base class's own (a method, a space, ``num_envs``, what begins with an underscore).

    Args:
        num_envs: The number N of sub-envs, at least 1.
        observation_space: The space of one sub-env's observations.
        action_space: The space of one sub-env's actions.
        autoreset: Whether the step that ends an episode begins the next one (see ``VecEnv``).
        max_episode_steps: Truncate every sub-env after this many steps, its infos carrying ``elapsed_steps``, as
            ``TimeLimit`` does; None for no limit.
        autoreset_options: The options of the resets that autoreset makes: a dict, or a callable of the sub-env's
            index; None passes none.

    Raises:
        TypeError: ``num_envs`` or ``max_episode_steps`` is no integer, or a space is no Space.
        ValueError: ``num_envs`` or ``max_episode_steps`` is below 1.
    """

    def __init__(
        self,
        num_envs: int,
        observation_space: Space[ObsType],
        action_space: Space[ActType],
        *,
        autoreset: bool = True,
        max_episode_steps: int | None = None,
        autoreset_options: inputs.AutoresetOptions = None,
    ) -> None:
        self.num_envs = check_count(num_envs, "num_envs")
        for name, space in (("observation_space", observation_space), ("action_space", action_space)):
            if not isinstance(space, Space):
                got = name_instead(space, type(space).__name__)
                raise TypeError(f"{name}: expected a sekai Space, got {got}")
        self.observation_space = observation_space
        self.action_space = action_space
        self.autoreset = bool(autoreset)
        self._native = _Parts(
            Clock(self.num_envs, max_episode_steps),
            MaskEpisodes(self.num_envs, self.autoreset),
            SeededStreams(self.num_envs),
            Buffers(),
            inputs.check_autoreset_options(autoreset_options),
            EndedBatch(observation_space, layout.allocate(observation_space, 0), {}),
        )
        self.__last_actions: Any = None
        self.__name_of_step = f"{type(self).__name__}._step()"
        self.__name_of_observe = f"{type(self).__name__}._observe()"

    # -- what a subclass writes ----------------------------------------------------------------------------

    @abstractmethod
    def _reset_envs(self, indices: NDArray[np.intp], options: Sequence[dict[str, Any] | None]) -> None:
        """(Re)initialise some sub-envs.

        Args:
            indices: intp (k,), the sub-envs to reset.
            options: One options dict (or None) per index.
        """

    @abstractmethod
    def _observe(self) -> Any:
        """The batched observation of all sub-envs; may be live state, which is copied."""

    def _observe_rows(self, indices: NDArray[np.intp]) -> Any:
        """The batch of observations of some sub-envs; terminal ones are asked for before autoreset.

        The default takes them from ``_observe()``. Override it where a few cost less than all.

        Args:
            indices: intp (k,), the sub-envs.
        """
        return layout.take(self.__check_observations(self._observe(), self.num_envs), indices)

    @abstractmethod
    def _step(self, actions: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], InfoArrays]:
        """Advance every sub-env.

        Args:
            actions: The batch of actions, in the dtypes of the action space, each array C-contiguous and writable, so
                that a kernel is compiled once; whether they lie in the space is for the market to check. It may be the
                caller's own memory: do not write to it, and copy what is to be kept.

        Returns:
            ``(rewards, terminated, truncated, infos)``, three arrays (num_envs,), and info arrays with a leading
            ``num_envs`` axis. They may be live state: all of them are copied but those of ``_new_array()``.
        """

    def _reset_infos(self, indices: NDArray[np.intp]) -> InfoArrays:
        """Info arrays of freshly reset sub-envs, with a leading axis of ``len(indices)``; the default has none."""
        return {}

    def _action_mask(self) -> Any:
        """Which actions make sense now, a batch of masks; the default has none.

        The masks are for policies: ``step()`` still takes every action of the action space, and does what the market
        says of one that was left out. May be live state, which is copied.

        Returns:
            None where nothing is left out; else bools or integers, nested like
            ``sekai.space_utils.mask_space(action_space)``, each part with a first axis of ``num_envs``: (num_envs, n)
            for a ``Discrete``, a tuple of such arrays for a ``MultiDiscrete``.
        """
        return None

    @property
    def _name_of_masks(self) -> str:
        """What error messages call the batch of masks: what the market's author has written."""
        return f"{type(self).__name__}._action_mask()"

    def _new_array(self, dtype: DTypeLike, *shape: int) -> NDArray[Any]:
        """An array (num_envs, *shape) for what ``_step()`` and ``_observe()`` return, its values undefined.

        Large ones are taken over without a copy, and cannot be written to afterwards. Their memory is used again once
        nobody refers to them any more, which saves a large batch most of its time. It is for one step: what is returned
        a second time is copied. What was returned belongs to the caller, who may change it: keep neither the array nor
        a view of it, through which one would write into results.

        Args:
            dtype: Of the array.
            shape: What follows the axis of the sub-envs.
        """
        return self._native.buffers.take((self.num_envs, *shape), dtype)

    def where(self, index: int) -> str:
        """Which sub-env an error message speaks of, to be put at its end; nothing where there is but one.

        That one may be a sub-env of another vector env, which counts it otherwise.
        """
        return f" (sub-env {index})" if self.num_envs > 1 else ""

    # -- the contract --------------------------------------------------------------------------------------

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs with a batch of actions (see ``VecEnv.step``)."""
        self._require_reset()
        actions = self.__actions(actions)
        frozen = _NO_ROWS if self.autoreset else self._native.episodes.frozen.nonzero()[0]
        drawn = self._native.streams.counters(frozen) if frozen.size else None
        rewards, terminated, truncated, columns = self.__outputs(self._step(actions))
        if drawn is not None:  # what was drawn for them belongs to their next episode
            self._native.streams.put_back(frozen, drawn)
        self._native.clock.tick(None if self.autoreset else self._native.episodes.frozen, truncated, columns)
        ended = self._native.episodes.freeze_step(rewards, terminated, truncated)
        self._has_reset = not ended.size  # until what an end asks for is through: sub-envs are between two episodes
        infos = self._native.episodes.infos(columns, ended, self.__reset_ended(ended) if self.autoreset else None)
        observations = self.__observations()
        self._native.episodes.freeze_observations(observations)
        self._has_reset = True
        return VecStepResult(observations, rewards, terminated, truncated, infos)

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs (see ``VecEnv.reset``)."""
        self._require_open("reset()")
        every_options = inputs.spread_options(options, self.num_envs)
        seed = inputs.draw_seeds(seed, self.num_envs)
        seed_sequence = inputs.merge_seeds(seed, self.num_envs, lambda: self.rng)
        self._has_reset = False
        self._native.streams.reseed(seed)
        self._native.generator.reseed(seed_sequence)
        everyone = np.arange(self.num_envs)
        self._native.episodes.begin()
        columns = self.__restart(everyone, every_options)
        observations = self.__observations()
        self._has_reset = True
        return VecResetResult(observations, InfoList.of_columns(self.num_envs, columns))

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        return inputs.autoreset_every_option(self._native.autoreset_options, rows)

    def _reset_some(self, rows: NDArray[np.intp], given: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        seeds = inputs.draw_seeds([seed for seed, _ in given], len(rows))
        self._has_reset = False
        self._native.streams.reseed_some(rows, seeds)
        self._native.episodes.thaw(rows)
        columns = self.__restart(rows, [options for _, options in given])
        observed = self.__check_observations(self._observe_rows(rows), rows.size)
        observations = layout.own_batch(observed, self._native.rows_buffers)
        self._has_reset = True
        return VecResetResult(observations, InfoList.of_columns(rows.size, columns))

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        drawn = inputs.draw_seeds(seeds, len(rows))
        # Of an int, or none, as it is: what is drawn from the generators of a list is drawn once.
        merged = whole if whole is None or np.ndim(whole) == 0 else drawn  # type: ignore[arg-type]
        sequence = inputs.merge_seeds(merged, self.num_envs, lambda: self.rng)
        if whole is None:
            self._native.streams.reseed_some(rows, drawn)
        else:  # of an int, thousands follow at once
            self._native.streams.reseed(merged)
        self._native.generator.reseed(sequence)

    # -- snapshots -----------------------------------------------------------------------------------------

    @staticmethod
    def _snapshot_base_names() -> frozenset[str]:
        """The attributes of this class's own."""
        return _OWN_NAMES

    def _snapshot_shared(self) -> dict[str, Any]:
        """What is the same for all sub-envs and no step changes: a snapshot of another is no snapshot of this."""
        return self._snapshot_settings() | self._snapshot_others()

    def _snapshot_settings(self) -> dict[str, Any]:
        """What of this class's arguments a snapshot depends on."""
        options: Any = self._native.autoreset_options
        if options is not None:
            options = "a function" if callable(options) else fingerprint(options, "snapshot(): autoreset_options")
        return {"max_episode_steps": self._native.clock.limit, "autoreset_options": options}

    _has_numbers_alone = True

    def _require_untouched(self, rows: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> None:
        require_untouched(self, rows, {name: columns[f"state.{name}"] for name in self._untouched})

    def _snapshot_ends(self, rows: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        """Columns of what frozen sub-envs show, and of the actions that they took last."""
        columns = self._native.episodes.keep(self.observation_space, rows)
        if not self.autoreset:
            columns |= layout.columns_of(self.action_space, self.__last_actions, rows, "last action")
        return columns

    def _restore_ends(self, rows: NDArray[np.intp], columns: dict[str, NDArray[Any]]) -> None:
        self._native.episodes.put_back(self.observation_space, rows, columns)
        if not self.autoreset:
            if self.__last_actions is None:
                self.__last_actions = layout.allocate(self.action_space, self.num_envs)
            acted = layout.batch_of(self.action_space, columns, "last action", len(rows))
            self.__last_actions = layout.copy_batch(self.__last_actions)
            layout.put(self.__last_actions, rows, acted)

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        whole = self._native.generator.keep(rows, is_whole)
        return Kept(self.__columns(rows), self._snapshot_shared(), whole)

    def __columns(self, rows: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        streams = self._native.streams.get()
        state = self._snapshot_rows(rows)
        for name, column in state.items():
            if len(column) != len(rows):
                where = f"{type(self).__name__}._snapshot_rows(): {name}"
                raise ValueError(f"{where}: expected an entry for each of {len(rows)} sub-envs, got {len(column)}")
        return {
            "random.key": streams.key.take(rows),
            "random.counter": streams.counter.take(rows),
            "elapsed_steps": self._native.clock.elapsed.take(rows),
            **self._snapshot_ends(rows),
            **{f"state.{name}": column for name, column in state.items()},
        }

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        require_columns(self.__columns(rows[:0]), kept.columns)
        if not keep_parameters:
            require_equal(self._snapshot_shared(), kept.shared, "restore(snapshot)")
        if kept.whole is None:
            self._require_untouched(rows, kept.columns)
        commit_generator = self._native.generator.restorer(rows, kept.whole)
        columns = {name: spread(column, len(rows)) for name, column in kept.columns.items()}

        def commit() -> None:
            streams = self._native.streams.get()
            streams.key[rows], streams.counter[rows] = columns["random.key"], columns["random.counter"]
            self._native.clock.began[rows] = self._native.clock.now - columns["elapsed_steps"]
            self._restore_ends(rows, columns)
            self._restore_rows(
                rows, {name.removeprefix("state."): each for name, each in columns.items() if name.startswith("state.")}
            )
            commit_generator()

        return commit

    def _observe_now(self) -> Any:
        """What the sub-envs show now (see ``VecEnv._observe_now``).

        Raises:
            NotImplementedError: It draws random numbers to observe, so that it would show something else each time.
        """
        everyone = np.arange(self.num_envs)
        counters, drawn = self._native.streams.counters(everyone), self._native.generator.state()
        observations = self.__observations()
        moved = not np.array_equal(self._native.streams.counters(everyone), counters)
        if moved or self._native.generator.state() != drawn:
            self._native.streams.put_back(everyone, counters)
            self._native.generator.go_back(drawn)
            raise NotImplementedError(
                f"{self.__name_of_observe}: expected it to draw nothing, to show again what it has shown, got one that "
                f"draws random numbers"
            )
        self._show_ends(observations)
        return observations

    def _show_ends(self, observations: Any) -> None:
        """Write into a batch what frozen sub-envs show, in place."""
        self._native.episodes.show_frozen(observations)

    # -- action masks --------------------------------------------------------------------------------------

    def action_mask(self) -> Any:
        """Which actions make sense now in each sub-env (see ``VecEnv.action_mask``)."""
        self._require_open("action_mask()")
        if not self.has_action_mask:
            return None
        self._require_begun("action_mask()")
        batch = self._action_mask()
        if batch is None:
            return full_masks(self.action_space, self.num_envs)
        batch = check_masks(mask_space(self.action_space), self.num_envs, batch, self._name_of_masks)
        return layout.own_batch(batch, self._native.buffers)

    @property
    def has_action_mask(self) -> bool:
        """Whether the market says which actions make sense."""
        own = type(self)
        is_hook = own._action_mask is not NativeVecEnv._action_mask
        return is_hook or own.action_mask is not NativeVecEnv.action_mask

    def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method, or read an attribute, of every sub-env (see ``VecEnv.call``)."""
        if method == "action_mask" and self.has_action_mask:  # in which a sub-env's part is at any depth
            return rows_of_masks(self.action_space, self.action_mask(), self.num_envs)
        return super().call(method, *args, **kwargs)

    def close(self) -> None:
        """Mark the environment as closed; closing again does nothing."""
        self._closed = True

    def _write_attr(self, name: str, values: list[Any] | Any) -> None:
        if name == "max_episode_steps" and self.__is_limited():
            every = inputs.spread_values(name, values, self.num_envs)
            limits = {check_count(each, f"set_attr({name!r})") for each in every}
            if len(limits) > 1:
                raise ValueError(f"set_attr({name!r}): expected one limit for all sub-envs, got {values}")
            self.max_episode_steps = limits.pop()
        else:
            super()._write_attr(name, values)

    @property
    def max_episode_steps(self) -> int:
        """Steps after which an episode is truncated, as ``TimeLimit`` has it; AttributeError without a limit.

        It can be changed, for the steps from then on, but not be taken away or added. A subclass whose base has no
        limit may have an attribute of this name for its own use.
        """
        if self.__is_limited():
            return self._native.clock.limit  # type: ignore[return-value]
        try:
            return vars(self)["max_episode_steps"]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no attribute 'max_episode_steps': no time limit") from None

    @max_episode_steps.setter
    def max_episode_steps(self, limit: Any) -> None:
        if self.__is_limited():
            self._native.clock.change_limit(limit)
        else:
            vars(self)["max_episode_steps"] = limit

    @property
    def autoreset_options_given(self) -> inputs.AutoresetOptions:
        """The options of the resets that autoreset makes, as they were given; None for none."""
        return self._native.autoreset_options

    def __is_limited(self) -> bool:
        native = vars(self).get("_native")  # missing before the base class is initialised
        return native is not None and native.clock.limit is not None

    @property
    def rng(self) -> np.random.Generator:
        """The generator for draws of all sub-envs at once; before any seed, one of the system's entropy."""
        return self._native.generator.get()

    def _is_rng_drawn(self) -> bool:
        """Whether anything has come from the generator that sub-envs share."""
        return self._native.generator.is_drawn

    @property
    def streams(self) -> Streams:
        """The random streams of the sub-envs, live: ``Streams(key, counter)``, uint64 (num_envs,) each.

        Kernels draw from them with ``sekai.kernels.streams``. The stream of a sub-env is the one its seed names, as
        ``SyncVecEnv`` would hand it out, and goes on through autoreset. (Imports numba.)
        """
        return self._native.streams.get()

    @property
    def elapsed_steps(self) -> NDArray[np.int64]:
        """int64 (num_envs,): the steps each sub-env has taken in its episode, limit or not."""
        return self._native.clock.elapsed

    @property
    def episode_clock(self) -> Clock:
        """The steps of the sub-envs as a kernel reads them: ``now`` and, live, when each episode ``began``."""
        return self._native.clock

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array(self._native.episodes.frozen)

    # -- the parts of a step: under names that no subclass will use by accident ----------------------------

    def __actions(self, actions: Any) -> Any:
        """The actions as the kernel takes them, a frozen sub-env's being the one it acted with last."""
        actions = inputs.plain_actions(self.action_space, self.num_envs, actions)
        if not self.autoreset:
            frozen = self._native.episodes.frozen
            if frozen.any():
                actions = inputs.hold_actions(actions, self.__last_actions, frozen)
                self.__last_actions = actions
            else:
                self.__last_actions = layout.copy_batch(actions)
        return actions

    def __outputs(
        self, outputs: tuple[Any, Any, Any, InfoArrays]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, NDArray[Any]]]:
        """Snapshots of what ``_step()`` returned."""
        try:
            rewards, terminated, truncated, columns = outputs
        except (TypeError, ValueError):
            expected = "expected (rewards, terminated, truncated, infos)"
            raise TypeError(f"{self.__name_of_step}: {expected}, got {type(outputs).__name__} {outputs!r}") from None
        if not isinstance(columns, Mapping):
            raise TypeError(f"{self.__name_of_step}: expected infos that map keys to arrays, got {columns!r}")
        return (
            self.__column(rewards, _FLOAT64, "rewards"),
            self.__column(terminated, _BOOL, "terminated"),
            self.__column(truncated, _BOOL, "truncated"),
            copy_columns(columns, self.num_envs, self.__name_of_step, self._native.buffers) if columns else {},
        )

    def __column(self, values: Any, dtype: np.dtype[Any], name: str) -> Any:
        if values.__class__ is np.ndarray and values.dtype == dtype and values.shape == (self.num_envs,):
            return self._native.buffers.own(values)
        column = np.asarray(values)
        if column.shape != (self.num_envs,):
            expected = f"expected shape ({self.num_envs},) (num_envs)"
            raise ValueError(f"{self.__name_of_step}: {name}: {expected}, got {column.shape}")
        if column.dtype.kind not in "biuf":
            raise TypeError(f"{self.__name_of_step}: {name}: expected numbers, got dtype {column.dtype}")
        if dtype == _BOOL and not np.isin(column, (0, 1)).all():
            raise ValueError(f"{self.__name_of_step}: {name}: expected bools, got {column.dtype} other than 0 and 1")
        return column.astype(dtype)

    def __observations(self) -> Any:
        """A snapshot of the batch of observations."""
        return layout.own_batch(self.__check_observations(self._observe(), self.num_envs), self._native.buffers)

    def __check_observations(self, batch: Any, count: int) -> Any:
        """A batch of ``count`` observations in the dtypes of the space."""
        return layout.as_batch(self.observation_space, count, batch, self.__name_of_observe, InvalidObservation)

    def __reset_ended(self, ended: NDArray[np.intp]) -> EndedBatch:
        """Autoreset: keep the terminal observations of the sub-envs that ended, then reset them."""
        if not ended.size:
            return self._native.none_ended
        observed = self.__check_observations(self._observe_rows(ended), ended.size)
        final_observations = layout.own_batch(observed, self._native.rows_buffers)
        options = inputs.autoreset_every_option(self._native.autoreset_options, ended)
        return EndedBatch(self.observation_space, final_observations, self.__restart(ended, options))

    def __restart(self, indices: NDArray[np.intp], options: Sequence[dict[str, Any] | None]) -> dict[str, NDArray[Any]]:
        """Reset some sub-envs; snapshots of their reset infos."""
        self._native.clock.restart(indices)
        self._reset_envs(indices, options)
        where = f"{type(self).__name__}._reset_infos()"
        columns = self._reset_infos(indices)
        if not isinstance(columns, Mapping):
            raise TypeError(f"{where}: expected infos that map keys to arrays, got {columns!r}")
        return copy_columns(columns, len(indices), where, self._native.rows_buffers)
