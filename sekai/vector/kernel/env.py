"""KernelVecEnv: a native environment made from functions of one row."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.batching.episodes import EndedBatch
from sekai.batching.info_list import InfoList
from sekai.errors import InvalidAction
from sekai.results import StepResult, VecResetResult, VecStepResult
from sekai.snapshots.snapshot import Kept
from sekai.spaces import MultiDiscrete, mask_space
from sekai.types import ActType, InfoArrays, ObsType, OptionsType, SeedType
from sekai.vector.attributes import shared
from sekai.vector.kernel.attributes import (
    ColumnAttribute,
    ParameterAttribute,
    ParametersAsAttributes,
)
from sekai.vector.kernel.binding import Binding
from sekai.vector.kernel.definition import (
    WRITTEN,
    Definition,
    bind_parameters,
    check_parameters,
    leaves,
    make_space,
    read_definition,
    require_no_verdict,
    with_parts,
)
from sekai.vector.kernel.market import make_market
from sekai.vector.kernel.options import ResetOptions
from sekai.vector.kernel.parameters import (
    SharedParams,
    Values,
    annotations_of,
)
from sekai.vector.kernel.probing import is_action, items_written, say_refused
from sekai.vector.kernel.rolling import Rolling
from sekai.vector.kernel.rows import as_argument
from sekai.vector.kernel.snapshots import MemoryRows
from sekai.vector.native.env import NativeVecEnv

#: What a subclass overrides to be run by the path of ``NativeVecEnv``.
_HOOKS = ("_step", "_observe", "_observe_rows", "_reset_envs", "_reset_infos")

#: The attributes that an env has by this class.
_OWN_NAMES = frozenset(
    {
        *("_action_array", "_bound", "_definition", "_fixed", "_is_fused", "_is_masked", "_is_observed", "_leaves"),
        *("_memory_rows", "_mode", "_options", "_options_of_reset", "_prepared", "_values"),
    }
)
_NAMES_OF_BASE = NativeVecEnv._snapshot_base_names() | _OWN_NAMES

_NONE = np.empty(0, dtype=np.intp)
_NONE.flags.writeable = False


_MarketT = TypeVar("_MarketT", bound="KernelVecEnv[Any, Any]")


class KernelVecEnv(ParametersAsAttributes[ObsType, ActType]):
    """A native vector env made from functions of one row, with its whole step in one compiled call.

    A subclass writes, as attributes of the class:

    - ``Params``: a named tuple class with defaults, what the market can be told. A ``float`` may be given as one
      number, one per sub-env, or ``Randomized`` (drawn at each reset from the sub-env's own stream); an ``int`` as one
      or one per sub-env; a ``str``, a ``bool`` or None is fixed when the env is made, and a constant to the compiler; a
      ``np.ndarray`` is shared by all sub-envs; an ``Any`` is whatever it is, fixed too, and for the functions in plain
      Python below alone: row functions find None there. Parameters are attributes, and ``set_attr`` changes them:
      a range is its middle until the next reset draws from it;
    - ``State``: a named tuple class whose annotations are the dtypes of columns (``price: np.float64``), or
      ``column(dtype, *shape)``. Columns are attributes too, to be read;
    - a field of either may be a named tuple class itself, a part with row functions of its own, for several markets
      (``params.model.sigma``, ``state.model.price[i]``); of ``Params`` also ``tuple``, for a part of whichever class an
      env is given (see ``part_of``);
    - ``Options`` (optional): a named tuple class of numbers with defaults, what ``reset(options=)`` may say;
    - ``reset_row``, which begins an episode; ``step_row``, which acts and returns reward, terminated, truncated; and
      ``observe_row``, which writes what is seen into an array, every item each time: what is in it before is anything.
      Each is compiled by ``sekai.kernels.jit``, and is called with the arguments that it names, in any order:
      ``params`` and ``derived`` (as numbers, whatever they were given as), ``state`` (columns, to be indexed by ``i``),
      ``random`` (the streams), ``i``, ``elapsed`` (the steps before this one in ``step_row``, those taken in
      ``observe_row``), ``action``, ``observation``, ``options``. An action of shape () is a number, one of a ``Dict``
      space a named tuple;
    - ``mask_row`` (optional): which actions make sense, for ``action_mask()``. It is given ``mask`` as an int8 array of
      ones, (n,) for an action of ``Discrete(n)``, and writes 0 where one does not; for several choices ``mask`` is a
      tuple of such arrays, or a named tuple (see ``sekai.space_utils.mask_space``). It is called when somebody asks.
      Both it and ``observe_row`` write into the array, ``mask[...] = ...``: ``mask = ...`` leaves it as it was;
    - ``derive_row`` (optional): from ``params`` to a named tuple of numbers, annotated like ``State``, at construction,
      when a parameter is changed, and when one is drawn; and ``prepare`` (optional), in plain Python: from the
      parameters that all sub-envs share to a named tuple of arrays and numbers. Both are ``derived`` in row functions;
    - ``check(params)`` and ``check_options(params, options)`` (optional), in plain Python: raise ValueError with the
      argument's name where numbers are out of their range;
    - ``observation_space`` and ``action_space``: a space, or a function of the parameters;
    - ``infos`` and ``reset_infos``: names of columns and parameters that a step and a reset tell, or a function of the
      parameters that returns them. A parameter that is ``Randomized`` is told by both, whether named or not;
    - ``held_parameters`` (optional): by the name of a parameter, the column that holds what it was when the episode
      began: ``set_attr`` checks a change of others with what it holds, too, for the sake of episodes under way, and
      ``restore(parameters="keep")`` the parameters in force with what those of the snapshot began with;
    - ``parallel_from`` (optional): from how many sub-envs on a step is tried on several threads, for a market whose
      step is long; else from 8,192 on, and rollouts from 4,096.

    The order of a step: actions that are not finite or not in their space are refused, before anything has changed;
    ``step_row``, ``observe_row``, the time limit; info columns; then for each sub-env that ended, its terminal
    observation is kept, parameters are drawn, ``reset_row`` and ``observe_row`` are called. It is the same in rollouts.

    A subclass that overrides one of the hooks of ``NativeVecEnv`` is run as any other native env is, step by step. One
    whose ``__init__`` has further keyword arguments (what is read once, before there are parameters) is built with them
    as with parameters.

    Args:
        num_envs: The number N of sub-envs, at least 1.
        autoreset: Whether the step that ends an episode begins the next one (see ``VecEnv``).
        max_episode_steps: Truncate every sub-env after this many steps; None for no limit.
        autoreset_options: The options of the resets that autoreset makes (see ``NativeVecEnv``).
        **params: The fields of ``Params``.

    Raises:
        TypeError: The class is not written as above, or an argument is of the wrong type.
        ValueError: An argument is out of its range, or there is not one value per sub-env.
    """

    Params: ClassVar[Any]
    State: ClassVar[Any]
    observation_space: Any  # of a class, it may be a function; of an env, it is a space
    action_space: Any
    parallel_from: ClassVar[int | None] = None
    infos: ClassVar[Any] = ()
    reset_infos: ClassVar[Any] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if any("step_row" in vars(kind) for kind in cls.__mro__):
            cls._definition = definition = read_definition(cls, _is_reserved)
            are_shared = {each.name for each in definition.parameters if each.is_array or each.is_object}
            made = {name: ParameterAttribute(name, name in are_shared) for name in definition.params.fields}
            for name, attribute in (made | {name: ColumnAttribute(name) for name in definition.state.fields}).items():
                written = inspect.getattr_static(cls, name, None)
                if not (written is None or isinstance(written, (ParameterAttribute, ColumnAttribute))):
                    expected = "expected no attribute of the name of a field of Params or State"
                    raise TypeError(f"{cls.__name__}.{name}: {expected}, got {written!r}")
                setattr(cls, name, attribute)
            for path, column in cls.held_parameters.items():
                if path not in definition.params.fields or column not in definition.state.fields:
                    expected = "expected columns of State by fields of Params"
                    raise TypeError(f"{cls.__name__}.held_parameters: {expected}, got {column!r} by {path!r}")
            cls.__signature__ = _signature(definition, cls.__init__)  # type: ignore[attr-defined]

    def __init__(
        self,
        num_envs: int,
        *,
        autoreset: bool = True,
        max_episode_steps: int | None = None,
        autoreset_options: inputs.AutoresetOptions = None,
        **params: Any,
    ) -> None:
        definition = getattr(type(self), "_definition", None)
        if definition is None:
            raise TypeError(f"{type(self).__name__}.step_row: expected a function of one row, got none")
        given = bind_parameters(definition, params)
        self._definition = definition = with_parts(definition, given)
        values = check_parameters(definition, definition.params.flatten(given))
        spaces, read = {}, set()
        for which in definition.spaces:
            spaces[which], names = make_space(definition, which, values)
            read |= names
        super().__init__(
            num_envs,
            spaces["observation_space"],
            spaces["action_space"],
            autoreset=autoreset,
            max_episode_steps=max_episode_steps,
            autoreset_options=autoreset_options,
        )
        self._is_fused = not any(name in vars(kind) for kind in _before_base(type(self)) for name in _HOOKS)
        if not self._is_fused:
            self._mode = "go on"
        elif not autoreset:
            self._mode = "freeze"
        else:
            self._mode = "keep" if callable(self._native.autoreset_options) else "reset"
        self._leaves = [leaves(spaces[which], f"{definition.name}.{which}") for which in definition.spaces]
        parts, nested = self._leaves[1]
        # Of the one array that a batch of actions is, so that one that fits is known at once; None of several.
        is_one = nested is False
        self._action_array = ((num_envs, *parts[0].shape), np.dtype(parts[0].dtype)) if is_one else (None, None)
        self._fixed = read | {each.name for each in definition.parameters if each.is_object}
        self._memory_rows: MemoryRows | None = None
        self._is_observed = self._is_masked = False  # by ``observe_row`` and ``mask_row``, once
        self._options_of_reset: dict[str, NDArray[Any]] | None = None  # of the one that goes on, checked
        self._install(values, values.given)
        given = self._native.autoreset_options
        if isinstance(given, dict):
            for name, value in self._options.columns([given], "autoreset_options").items():
                self._bound.columns[f"slot_o_{name}"][0] = value[0]

    # -- parameters and memory -----------------------------------------------------------------------------

    def _install(self, values: Values, changed: Collection[str]) -> None:
        """Take over parameters: compiled functions for them, and memory that holds them and what follows.

        Args:
            values: The parameters.
            changed: The paths of those that are new.
        """
        definition, name = self._definition, type(self).__name__
        for column in values.columns:
            if len(values.given[column]) != self.num_envs:
                got = len(values.given[column])
                raise ValueError(f"{column}: expected {self.num_envs} values (num_envs), got {got}")
        prepared = None
        if "prepare" in definition.plain:
            prepared = definition.plain["prepare"](SharedParams(values, f"{name}.prepare"))
            if not hasattr(prepared, "_fields"):
                raise TypeError(f"{name}.prepare: expected it to return a named tuple, got {prepared!r}")
        follows = self._class_derived() if "derive_row" in definition.functions else None
        spaces = {"observation_space": self.observation_space, "action_space": self.action_space}
        market, sized = make_market(definition, values, prepared, follows, spaces, self._native.clock.limit is not None)
        self._fixed = self._fixed | sized
        self._values, self._prepared, self._memory_rows = values, prepared, None
        before = getattr(self, "_bound", None)
        self._bound = Binding(market, self.num_envs, self._mode, values, changed, prepared, before)
        self._bind_clock_and_streams()
        self._options = self._reset_options(market)
        if follows is not None:
            self._bound.derive(np.arange(self.num_envs if values.columns or values.ranges else 1))

    def _class_derived(self) -> Any:
        """The class of what ``derive_row`` returns, by its annotation or its return statement."""
        function = self._definition.functions["derive_row"][0]
        plain = getattr(function, "py_func", function)
        kind = inspect.get_annotations(plain, eval_str=True).get("return")
        if kind is None or not hasattr(kind, "_fields"):
            where = f"{type(self).__name__}.derive_row"
            raise TypeError(f"{where}: expected a named tuple class as the annotation of what it returns, got {kind!r}")
        return kind

    def _reset_options(self, market: Any) -> ResetOptions:
        definition = self._definition

        def check(told: Any) -> None:
            where = f"{definition.name}.check_options"
            require_no_verdict(definition.plain["check_options"](SharedParams(self._values, where), told), where)

        kind = None if market.options is None else market.options.kind
        dtypes = [each.dtype for each in market.option_fields]
        return ResetOptions(kind, dtypes, check if "check_options" in definition.plain else None)

    def _bind_clock_and_streams(self) -> None:
        columns = self._bound.columns
        self._native.clock.live_in(columns["slot_now"], columns["began"], columns["slot_limit"])
        self._native.streams.live_in(columns["key"], columns["counter"])

    @property
    @shared
    def params(self) -> Any:
        """The parameters as a ``Params``, as they were given, or have been changed since."""
        return self._values.record

    @property
    @shared
    def compiled_step(self) -> Any:
        """The compiled step of all sub-envs, with its ``dispatchers``, for tools that look into them."""
        return self._bound.step

    @property
    @shared
    def row_functions(self) -> list[Any]:
        """The functions of one row that it is made from."""
        return [function for function, _ in self._definition.functions.values()]

    # -- resets and the hooks ------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: list[SeedType] | SeedType = None,
        options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    ) -> VecResetResult[Any]:
        """Reset all sub-envs (see ``VecEnv.reset``); options that are refused change nothing."""
        self._require_open("reset()")
        if options and type(self)._reset_envs is KernelVecEnv._reset_envs:  # else it may know of more
            if isinstance(options, dict):
                self._options_of_reset = self._options.columns([options], "reset(options=...)")
            else:
                every = inputs.spread_options(options, self.num_envs)
                self._options_of_reset = self._options.columns(every, "reset(options=...)", range(self.num_envs))
        try:
            return super().reset(seed=seed, options=options)
        finally:
            self._options_of_reset = None

    def _reset_some(self, rows: NDArray[np.intp], given: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        options = [each for _, each in given]
        if any(options) and type(self)._reset_envs is KernelVecEnv._reset_envs:
            self._options_of_reset = self._options.columns(options, "reset(options=...)", rows)
        try:
            return super()._reset_some(rows, given)
        finally:
            self._options_of_reset = None

    def _reset_envs(self, indices: NDArray[np.intp], options: Sequence[dict[str, Any] | None]) -> None:
        given = self._options_of_reset
        if given is None:
            given = (
                self._options.columns(options, "reset(options=...)", indices)
                if any(options)
                else self._options.defaults()
            )
        self._begin(indices, given)

    def _begin(self, indices: NDArray[np.intp], given: dict[str, NDArray[Any]]) -> None:
        if self._bound.uses_streams:
            self.streams  # noqa: B018 - seeded when first asked for
        self._bound.reset(np.ascontiguousarray(indices, dtype=np.intp), given.values())

    def _reset_infos(self, indices: NDArray[np.intp]) -> InfoArrays:
        return self._bound.reset_infos(indices)

    def _observe(self) -> Any:
        return self._observe_rows(np.arange(self.num_envs))

    def _observe_rows(self, indices: NDArray[np.intp]) -> Any:
        rows = np.ascontiguousarray(indices, dtype=np.intp)
        parts = self._bound.market.observations.parts
        buffers = self._native.buffers if len(rows) == self.num_envs else self._native.rows_buffers
        if not self._is_observed and len(rows):
            self._check_observed(rows[:1])
            self._is_observed = True
        seen = [buffers.take((len(rows), *part.shape), part.dtype) for part in parts]
        self._bound.observe(rows, seen)
        return self._as_batch(0, seen)

    def _action_mask(self) -> Any:
        masks = self._bound.market.masks
        if masks is None:  # a subclass says of itself that it has masks
            return None
        if not self._is_masked:
            self._written(self._bound.mask, masks.parts, np.arange(1), self._name_of_masks)
            self._is_masked = True
        space = mask_space(self.action_space)
        arrays = []
        for each, part in zip(leaves(space, "")[0], masks.parts, strict=True):
            arrays.append(self._native.buffers.take((self.num_envs, *part.shape), part.dtype))
            arrays[-1].fill(2 if isinstance(each, MultiDiscrete) else 1)
        self._bound.mask(np.arange(self.num_envs), arrays)
        return _as_batch(leaves(space, ""), arrays)

    @property
    def _name_of_masks(self) -> str:
        is_row = type(self)._action_mask is KernelVecEnv._action_mask
        return f"{type(self).__name__}.mask_row: mask" if is_row else super()._name_of_masks

    @property
    def has_action_mask(self) -> bool:
        """Whether the market says which actions make sense."""
        own = type(self)
        is_hook = own._action_mask is not KernelVecEnv._action_mask or own.action_mask is not NativeVecEnv.action_mask
        return is_hook or "mask_row" in self._definition.functions

    def _check_observed(self, row: NDArray[np.intp]) -> None:
        """Refuse an ``observe_row`` that leaves out items of what it is given, or writes on behind them."""
        where = f"{type(self).__name__}.observe_row: observation"
        parts = self._bound.market.observations.parts
        for part, items in zip(parts, self._written(self._bound.observe, parts, row, where), strict=True):
            if not items.all():
                left = np.argwhere(~items.reshape(part.shape))[0].tolist()
                expected = f"expected all items of shape {part.shape} to be written"
                raise ValueError(f"{where}: {expected}, not so that at {left}")

    def _written(
        self, write: Callable[..., None], parts: Sequence[Any], row: NDArray[np.intp], where: str
    ) -> list[NDArray[np.bool_]]:
        """Which items of the arrays that it is given a row function writes; IndexError if it writes on behind them."""

        def write_row(arrays: list[NDArray[Any]]) -> None:
            shaped = [array.reshape(1, *part.shape) for array, part in zip(arrays, parts, strict=True)]
            try:
                write(row, shaped)
            except IndexError as error:  # in plain Python, or with bounds checks
                raise IndexError(f"{where}: {error}") from error

        return items_written([(part.dtype, part.width) for part in parts], write_row, where)

    def _step(self, actions: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], InfoArrays]:
        self._bound.columns["frozen"][:] = self._native.episodes.frozen
        arrays = self._bound.results.new()
        self._run(actions, arrays)
        infos = self._bound.results.told(arrays[-1])
        infos.pop("elapsed_steps", None)
        return arrays[0], arrays[1], arrays[2], infos

    # -- the step ------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> VecStepResult[Any]:
        """Step all sub-envs with a batch of actions (see ``VecEnv.step``)."""
        if not self._is_fused:
            return super().step(actions)
        self._require_reset()
        shape, dtype = self._action_array
        if not (actions.__class__ is np.ndarray and actions.shape == shape and actions.dtype == dtype):
            actions = inputs.check_actions(self.action_space, self.num_envs, actions)
        self._has_reset = False  # until what an end asks for is through
        bound = self._bound
        arrays = bound.results.new()
        total = self._run(actions, arrays)
        rewards, terminated, truncated, *seen, told = arrays
        done = bound.columns["ended"][:total].copy() if total else _NONE
        absent = ended = None
        if self._mode == "freeze":
            absent = bound.columns["absent"].copy()
        elif total:
            finals = self._as_batch(0, [final[:total].copy() for final in bound.finals])
            if self._mode == "keep":
                resets = self._reset_ended(done, seen)
            else:
                resets = {key: column[:total].copy() for key, column in bound.resets.items()}
            ended = EndedBatch(self.observation_space, finals, resets)
        else:
            ended = self._native.none_ended
        read = partial(bound.results.told, told)  # when somebody asks
        infos = InfoList.of_columns(self.num_envs, read, done=done, ended=ended, absent=absent)
        self._has_reset = True
        return VecStepResult(self._as_batch(0, seen), rewards, terminated, truncated, infos)

    def _run(self, actions: Any, arrays: list[NDArray[Any]]) -> int:
        """Call the compiled step, which writes into arrays as ``Results.new`` makes them: how many ended."""
        bound = self._bound
        given = self._flat_actions(actions)
        total: int = bound.step(self.num_envs, bound.addresses, *arrays, *given, *bound.arrays)
        if total < 0:
            self._has_reset = True
            self._refuse(actions)
        return total

    def step_alone(self, actions: Any) -> StepResult[Any]:
        """A step of an env of one sub-env without autoreset, with no batch made of its result.

        Args:
            actions: A batch of one action, in the dtypes of the action space.

        Raises:
            InvalidAction: The action is not finite, or not in the action space.
        """
        self._require_reset()
        self._has_reset = False  # until the step is through
        arrays, told = self._bound.scratch
        self._run(actions, arrays)
        self._has_reset = True
        rewards, terminated, truncated, *seen, _ = arrays
        info = {} if self._bound.columns["absent"].item(0) else {key: read(0) for key, read in told}
        batch = self._as_batch(0, seen)
        if batch.__class__ is np.ndarray and batch.ndim > 1:
            observation = batch[0].copy()
        else:
            row = next(layout.iterate(self.observation_space, batch, 1))
            observation = layout.copy_row(self.observation_space, row)
        return StepResult(observation, rewards.item(0), terminated.item(0), truncated.item(0), info)

    @property
    def steps_alone(self) -> bool:
        """Whether ``step_alone()`` may stand for ``step()``."""
        return self._is_fused and self.num_envs == 1 and self._mode == "freeze" and type(self).step is KernelVecEnv.step

    def _flat_actions(self, actions: Any) -> list[NDArray[Any]]:
        names = self._leaves[1][1]
        if names is False and actions.flags.carray:
            return [actions]
        parts = [actions] if names is False else list(actions) if names is True else [actions[name] for name in names]
        return [part if part.flags.carray else np.array(part, order="C") for part in parts]

    def _as_batch(self, which: int, arrays: list[NDArray[Any]]) -> Any:
        return _as_batch(self._leaves[which], arrays)

    def _reset_ended(self, done: NDArray[np.intp], seen: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Reset the sub-envs that ended with the options that a function of their index gives; they show it."""
        options = inputs.autoreset_every_option(self._native.autoreset_options, done)
        self._reset_envs(done, options)
        rows = self._observe_rows(done)
        names = self._leaves[0][1]
        parts = [rows] if names is False else list(rows) if names is True else [rows[name] for name in names]
        for array, part in zip(seen, parts, strict=True):
            array[done] = part.reshape((len(done), *array.shape[1:]))
        return {key: np.array(column) for key, column in self._reset_infos(done).items()}

    def _refuse(self, actions: Any) -> None:
        """Say whose action is none; nothing has changed."""
        frozen = self._bound.columns["frozen"]
        for row, action in enumerate(layout.iterate(self.action_space, actions, self.num_envs)):
            if not frozen[row] and not is_action(self.action_space, action):
                raise InvalidAction(f"step(actions): {say_refused(self.action_space, action)}{self.where(row)}")
        raise AssertionError("step(actions): an action was refused that is in the space")

    # -- rollouts

    @property
    @shared
    def told(self) -> dict[str, np.dtype[Any]]:
        """The dtypes of the infos that a compiled rollout can record, by their keys."""
        return {key: np.dtype(each.dtype) for key, each in self._bound.market.told.items() if not each.shape}

    @property
    def can_roll(self) -> bool:
        """Whether ``sekai.rollout`` can run it in one compiled loop with a policy of rows."""
        one_array = self._leaves[0][1] is False and self._leaves[1][1] is False
        return self._is_fused and self._mode == "reset" and one_array and type(self).step is KernelVecEnv.step

    def roll(self, policy: Any, parameters: Any, infos: tuple[str, ...]) -> Rolling:
        """What makes steps of a rollout, for ``sekai.rollouts``; see ``Rolling``."""
        return Rolling(self, policy, parameters, infos)

    # -- snapshots -----------------------------------------------------------------------------------------

    @property
    def _snapshot_memory(self) -> MemoryRows:
        if self._memory_rows is None:
            self._memory_rows = MemoryRows(self)
        return self._memory_rows

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        if not self._is_fused:
            return super()._snapshot_keep(rows, is_whole)
        return self._snapshot_memory.snapshot(rows, is_whole)

    def _show_ends(self, observations: Any) -> None:
        if not self._is_fused:
            super()._show_ends(observations)
        elif not self.autoreset:
            rows = self._bound.columns["frozen"].nonzero()[0]
            layout.put(observations, rows, self._as_batch(0, [final[rows] for final in self._bound.finals]))

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        if keep_parameters:
            self._snapshot_memory.require_shapes(kept.shared)
            kept = self._snapshot_memory.with_own_parameters(rows, kept)
        else:
            self._snapshot_memory.require_own_parameters(kept.columns)
        prepare = self._snapshot_memory.restorer if self._is_fused else super()._snapshot_restorer
        commit = prepare(rows, kept, keep_parameters)
        if keep_parameters:
            self._check_kept_parameters(rows, kept.columns)
        return commit

    def _snapshot_rows(self, indices: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        kept = self._snapshot_memory.keep(indices)
        own = {name.removeprefix("state."): column for name, column in kept.items() if name.startswith("state.")}
        return super()._snapshot_rows(indices) | own

    def _restore_rows(self, indices: NDArray[np.intp], rows: dict[str, NDArray[Any]]) -> None:
        kept = dict(self._snapshot_memory.keep(indices))  # whose streams and clock are back already
        own = {name.removeprefix("state."): name for name in kept if name.startswith("state.")}
        kept |= {name: rows[short] for short, name in own.items()}
        super()._restore_rows(indices, {name: column for name, column in rows.items() if name not in own})
        self._snapshot_memory.put_back(indices, kept)

    def _snapshot_shared(self) -> dict[str, Any]:
        return self._snapshot_memory.shared(super()._snapshot_shared()).copy()

    @staticmethod
    def _snapshot_base_names() -> frozenset[str]:
        return _NAMES_OF_BASE

    # -- what follows from the memory ----------------------------------------------------------------------

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array(self._bound.columns["frozen"]) if self._is_fused else super().frozen

    def __copy__(self: _MarketT) -> _MarketT:
        return copy.deepcopy(self)  # clock and streams live in the memory of one env

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_bound": self._bound.memory}
        for name in ("_definition", "_memory_rows", "_options"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        memory = self.__dict__.pop("_bound")
        self._definition = with_parts(type(self)._definition, self._values.record)
        for each in self._definition.parameters:
            value = self._values.given[each.name]
            if isinstance(value, np.ndarray) and not each.is_object:
                value.flags.writeable = False  # which a copy of it is not
        self._install(self._values, self._values.given)
        self._bound.memory[...] = memory


def _is_reserved(name: str) -> bool:
    """Whether a name is one of the base class, or of what a market's class writes."""
    annotated = (vars(kind).get("__annotations__", ()) for kind in KernelVecEnv.__mro__)
    return hasattr(KernelVecEnv, name) or name in WRITTEN or any(name in names for names in annotated)


def _before_base(kind: type) -> list[type]:
    return list(kind.__mro__[: kind.__mro__.index(KernelVecEnv)])


def _as_batch(leaves: Any, arrays: list[NDArray[Any]]) -> Any:
    """The arrays of the parts of a space, nested like it."""
    spaces, names = leaves
    if names is False and spaces[0].shape:
        return arrays[0]
    shaped = [
        array.reshape(len(array)) if space.shape == () and array.ndim == 2 else array
        for space, array in zip(spaces, arrays, strict=True)
    ]
    if names is False:
        return shaped[0]
    return tuple(shaped) if names is True else dict(zip(names, shaped, strict=True))


def _signature(definition: Definition, init: Callable[..., None]) -> inspect.Signature:
    """The parameters of a market, then what an ``__init__`` of its own takes besides, then those of every market."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    defaults = definition.params.kind._field_defaults
    told = annotations_of(definition.params.kind, f"{definition.name}.Params")
    params = [
        inspect.Parameter(
            name, keyword, default=defaults.get(name, inspect.Parameter.empty), annotation=as_argument(told[name])
        )
        for name in definition.params.fields
    ]
    base = inspect.signature(KernelVecEnv.__init__).parameters.values()
    ours = [each for each in base if each.name not in ("self", "params")]
    known = {each.name for each in (*params, *ours)}
    own = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(init).parameters.values()
        if each.kind is keyword and each.name not in known
    ]
    return inspect.Signature([ours[0], *params, *own, *ours[1:]])
