"""ProcVecEnv: the sub-envs in worker processes; this is the parent's half."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.checks import check_count, check_seconds
from sekai.cores import usable_cores
from sekai.errors import ResetRequired, SpaceMismatch, VecEnvWorkerError
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots.snapshot import Kept
from sekai.types import ActType, InfoDict, ObsType, OptionsType, SeedType
from sekai.vector.failures import OWN, Failure, worker_error
from sekai.vector.guard import CallGuard
from sekai.vector.processes.pickles import dump_each
from sekai.vector.processes.pool import WorkerPool
from sekai.vector.processes.shared_memory import AVAILABLE, Block, SharedFile
from sekai.vector.processes.worker import (
    CALL,
    COMMIT,
    GET_ATTR,
    GO_BACK,
    HAS_ATTR,
    KEEP,
    OPEN,
    PREPARE,
    RESEED,
    RESET,
    RESET_SOME,
    SET_ATTR,
    STEP,
    Description,
    Plan,
)
from sekai.vector.processes.worker_choice import WorkerChoice
from sekai.vector.remote import RemoteVecEnv
from sekai.vector.sub_envs.restoring import keep_envs, read_envs
from sekai.vector.sub_envs.sub_env import (
    EnvFn,
    check_env_fns,
    check_same_space,
    list_infos,
    masks_of_sub_envs,
)

#: What the kit itself refuses in a worker while sub-envs are built, by the name it is reported under (see
#: ``Failure.describe``): it is the same error as on any other backend.
_OWN_ERRORS = {OWN + kind.__name__: kind for kind in (SpaceMismatch, ValueError, TypeError)}


#: The attributes that are made anew with other workers, and those of them that stay as a user knows them.
_SEEN_FROM_OUTSIDE = ("observation_space", "action_space", "metadata")
_OF_WORKERS = (
    "_pool",
    "_stop",
    "_block",
    "_observations",
    "_shared_memory",
    "_actions_are_shared",
    "_kind_of_sub_envs",
    *_SEEN_FROM_OUTSIDE,
)


class ProcVecEnv(RemoteVecEnv[ObsType, ActType]):
    """Sub-envs in worker processes, one in each, or several where ``num_workers`` says so.

    For simulators that keep a core busy. Where a step waits for a network, ``AsyncVecEnv`` does the same without
    processes, and a market that can be written with arrays is quicker by far as a ``NativeVecEnv``.

    Numeric actions, rewards, flags and observations whose shape does not change (all spaces but ``Sequence``) go
    through shared memory; what is pickled is infos that hold something.

    A worker begins as a fresh interpreter ("forkserver", on Windows "spawn"), which imports the script: what the
    script does when it is run belongs under ``if __name__ == "__main__":``. ``env_fns`` may be lambdas and classes of
    that script, since cloudpickle sends them. A worker uses one numba and one BLAS thread, unless the environment
    variables say otherwise.

    The global generators of a worker (NumPy's, Python's, and torch's where it is loaded) are its own. They start from
    OS entropy, and a reset with seeds starts them from those of the worker's sub-envs, so that the same seeds and
    number of workers repeat what sub-envs draw from them. ``Env.rng`` does not depend on the number of workers.

    If a sub-env raises, so does the call: ``VecEnvWorkerError``, with the index and the worker's traceback. Nothing of
    that call is kept, though other sub-envs may have made the step, and the next call works. Ctrl-C is the parent's
    alone; what an interrupted call leaves unread is thrown away by the next one, and after a ``reset()`` or
    ``restore()`` that is, one of all sub-envs has to come.
    A generator given as a seed is copied to its worker; the caller's own does not go on with it.
    A worker that dies also raises ``VecEnvWorkerError``, at once and in every later call: its rank is the first
    sub-env the worker ran, and the message names the worker and all its sub-envs.

    Args:
        env_fns: Called in the workers, each gives one sub-env. Where one fails, nothing of the others is left: what
            has been built is closed, and no worker runs on.
        autoreset: Whether the step that ends an episode begins the next one (see ``VecEnv``).
        context: How processes start, by multiprocessing's name for it; None for the way above.
        close_timeout: Seconds ``close()`` waits for workers before terminating them, and that they have to close
            their sub-envs when this process ends without it, even by a signal.
        num_workers: How many processes share the sub-envs, as evenly as it goes; None, or more than there are
            sub-envs, for one each. "auto" begins with one and finds out over the first steps with how many a step is
            the quickest, at most as many as there are cores. Where the number changes, all sub-envs are built anew by
            their env_fns and go on from snapshots of the old ones, with the same numbers; that step takes as long as
            starting processes does, in ``async_step()`` too, where the event loop waits for it. Sub-envs that cannot
            be kept or built again stay where they are, and a warning says so. What a snapshot does not hold begins
            anew: a worker's global generators, variables of modules, what a callable of ``autoreset_options`` counts.
        shared_memory: Whether observations go through shared memory (True, an error where the space has no fixed
            layout) or pipes (False); None for the former wherever it can be.
        autoreset_options: The options of the resets that autoreset makes: a dict, or a callable of the sub-env's
            index; None passes none.
        step_timeout: Seconds a call may take; a longer one raises ``VecEnvWorkerError`` naming the slow sub-envs, and
            the VecEnv stays closable. None for no limit.
        daemon: Whether workers are daemonic: terminated with the parent, and without processes of their own.

    Raises:
        SpaceMismatch: The sub-envs' spaces differ.
        TypeError: An argument or an env_fn is of the wrong type.
        ValueError: An argument is out of range, or shared memory is required but the observation space has no fixed
            layout.
        VecEnvWorkerError: An env_fn raised.
    """

    _CALL, _GET_ATTR = CALL, GET_ATTR
    _pool: WorkerPool

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        autoreset: bool = True,
        context: str | None = None,
        close_timeout: float = 5.0,
        num_workers: int | Literal["auto"] | None = None,
        shared_memory: bool | None = None,
        autoreset_options: inputs.AutoresetOptions = None,
        step_timeout: float | None = None,
        daemon: bool = True,
    ) -> None:
        self._env_fns = check_env_fns(env_fns)
        self.num_envs = len(self._env_fns)
        self.autoreset = bool(autoreset)
        self._has_action_mask: bool | None = None  # nobody has asked
        self._step_timeout = None if step_timeout is None else check_seconds(step_timeout, "step_timeout")
        self._close_seconds = check_seconds(close_timeout, "close_timeout")
        self._choice = WorkerChoice(self.num_envs, usable_cores()) if num_workers == "auto" else None
        if self._choice is not None:
            workers = self._choice.number
        else:
            workers = self.num_envs if num_workers is None else check_count(num_workers, "num_workers")
        if shared_memory and not AVAILABLE:
            raise ValueError("shared_memory=True: this platform cannot hand shared memory to a starting process")
        self._asked_to_share = shared_memory
        self._is_behind = False
        self._autoreset_options = inputs.check_autoreset_options(autoreset_options)
        self._context, self._daemon = _check_context(context), daemon
        self._lock = threading.Lock()
        self._guard = CallGuard(type(self).__name__, self._lock)
        try:
            self._start(min(workers, self.num_envs))
        except BaseException:
            self._closed = True
            raise

    def _start(self, num_workers: int) -> None:
        """Start the workers; nothing is left of them if a sub-env cannot be built."""
        from multiprocessing.util import Finalize

        with ExitStack() as once_built:
            file = None
            if self._asked_to_share is not False and AVAILABLE:
                file = SharedFile()
                once_built.callback(file.close)
            plans = self._plans(num_workers, file)
            self._pool = WorkerPool(plans, self._context, self._daemon, self._close_seconds, self._lock)
            # Also when nobody closes it: when this object is dropped, or before the interpreter waits for its children.
            self._stop = Finalize(self, self._pool.stop, args=(self._close_seconds,), exitpriority=10)
            try:
                self._open(file, self._asked_to_share)
            except BaseException:
                self._stop()
                raise

    def _plans(self, num_workers: int, file: SharedFile | None) -> list[Plan]:
        import cloudpickle

        plans = []
        spare = usable_cores() - 1  # beside the parent's
        for worker, rows in enumerate(inputs.even_slices(self.num_envs, num_workers)):
            plans.append(
                Plan(
                    cloudpickle.dumps(self._env_fns[rows]),
                    cloudpickle.dumps(self._autoreset_options),
                    self.autoreset,
                    rows.start,
                    self.num_envs,
                    worker < spare,
                    {},  # the pool knows what the environment says when it starts them
                    file,
                    self._close_seconds,
                )
            )
        return plans

    def _open(self, file: SharedFile | None, shared_memory: bool | None) -> None:
        """Learn the spaces from the workers and lay out the block."""
        try:
            replies = self._pool.first_replies()
        except VecEnvWorkerError as error:
            if error.exc_type in _OWN_ERRORS:
                raise _OWN_ERRORS[error.exc_type](error.message) from None
            name = error.exc_type.removeprefix(OWN)
            raise VecEnvWorkerError(error.rank, name, error.message, error.remote_traceback) from None
        descriptions: list[Description] = [
            reply.values["description"][rows.start] for rows, reply in zip(self._pool.slices, replies, strict=True)
        ]
        first = descriptions[0]
        for rows, other in zip(self._pool.slices, descriptions, strict=True):
            check_same_space("observation_space", first.observation_space, other.observation_space, rows.start)
            check_same_space("action_space", first.action_space, other.action_space, rows.start)
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        self.metadata = first.metadata
        self._kind_of_sub_envs = first.kind
        fixed = layout.has_fixed_layout(first.observation_space)
        if shared_memory and not fixed:
            raise ValueError(
                f"shared_memory=True: expected an observation space of fixed shapes, got {first.observation_space!r}"
            )
        self._shared_memory = file is not None and fixed
        spaces = (
            first.observation_space if fixed else None,
            first.action_space if layout.has_fixed_layout(first.action_space) else None,
        )
        self._block = block = Block(file, self.num_envs, *spaces)
        self._observations = block.observations if fixed else layout.allocate(self.observation_space, self.num_envs)
        self._actions_are_shared = file is not None and spaces[1] is not None
        self._pool.exchange([OPEN + pickle.dumps(spaces)] * len(self._pool.slices))

    @property
    def shared_memory(self) -> bool:
        """Whether observations travel through shared memory."""
        return self._shared_memory

    @property
    def num_workers(self) -> int:
        """The number of worker processes that share the sub-envs now."""
        return len(self._pool.slices)

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.array(self._block.frozen)

    # -- steps ---------------------------------------------------------------------------------------------

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        return inputs.autoreset_every_option(self._autoreset_options, rows)

    def _reset_some(self, rows: NDArray[np.intp], given: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        """Begin new episodes in some sub-envs.

        Raises:
            VecEnvWorkerError: A sub-env or a worker failed, or the reset took longer than ``step_timeout``.
            AsyncCallPending: An earlier call is still running, in another thread or task.
        """
        with self._guard("reset_envs()"):
            self._require_open("reset_envs()")
            self._pool.settle(self._step_timeout)
            commands = self._commands_of_rows(RESET_SOME, rows, given)
            with self._keeping_what_came():
                infos = self._take_in(self._pool.exchange(commands, self._step_timeout))
        return VecResetResult(layout.take(self._observations, rows), [infos[row] for row in rows.tolist()])

    def _step_commands(self, actions: Any) -> list[bytes]:
        """The command of each worker, of as many as have been chosen; numeric actions are put into the block."""
        self._follow_choice()
        self._require_reset()
        batch = inputs.check_actions(self.action_space, self.num_envs, actions)
        if self._actions_are_shared:
            layout.put(self._block.actions, slice(None), batch)
            commands = [STEP] * len(self._pool.slices)
        else:
            each = list(layout.iterate(self.action_space, batch, self.num_envs))
            commands = [STEP + _dumps(*each[rows]) for rows in self._pool.slices]
        self._step_began = perf_counter()
        return commands

    def _reset_commands(self, seed: Any, options: Any) -> list[bytes]:
        pairs = inputs.spread_resets(seed, options, self.num_envs)
        return [RESET + _dumps(*pairs[rows]) for rows in self._pool.slices]

    def _step_result(self, replies: list[Any]) -> VecStepResult[Any]:
        if self._choice is not None:
            self._choice.record(perf_counter() - self._step_began)
        infos = self._take_in(replies)
        self._is_behind = False
        block = self._block
        observations = layout.copy_batch(self._observations)
        return VecStepResult(observations, block.rewards.copy(), block.terminated.copy(), block.truncated.copy(), infos)

    def _reset_result(self, replies: list[Any]) -> VecResetResult[Any]:
        infos = self._take_in(replies)
        self._is_behind = False
        self._has_reset = True
        return VecResetResult(layout.copy_batch(self._observations), infos)

    @contextmanager
    def _keeping_what_came(self) -> Iterator[None]:
        """Take in, also when some sub-env has failed, which ones are frozen now."""
        try:
            yield
        except BaseException:
            said, self._pool.said_beside_failures = self._pool.said_beside_failures, []
            if said:
                self._take_in(said)
            elif not self._shared_memory:  # replies that come too late are discarded, observations and all
                self._is_behind = True
            raise

    def _take_in(self, replies: list[Any]) -> list[InfoDict]:
        """The infos of all rows; what came beside them goes where the block would have it."""
        infos: dict[int, InfoDict] = {}
        for rows, reply in zip(self._pool.slices, replies, strict=True):
            if reply is None:
                continue
            infos.update(reply.values.get("info", {}))
            for row, observation in reply.values.get("observation", {}).items():
                layout.write_row(self.observation_space, self._observations, row, observation)
            for name, part in reply.beside.items():
                if name == "observations":
                    layout.put(self._observations, rows, part)
                else:
                    getattr(self._block, name)[rows] = part
        return list_infos(infos, self.num_envs)

    # -- the number of workers -----------------------------------------------------------------------------

    def _follow_choice(self) -> None:
        """Take as many workers as have been chosen, between two steps."""
        choice, now = self._choice, len(self._pool.slices)
        if choice is None or choice.number == now:
            return
        try:
            failures = self._move(choice.number)
        except Exception as error:
            self._require_open("step()")
            if any(worker.death for worker in self._pool.workers):
                raise
            choice.settle(now)
            warnings.warn(
                f"ProcVecEnv(num_workers='auto'): the number of workers stays at {now}, since sub-envs cannot move to "
                f"others: {str(error).splitlines()[0]}",
                RuntimeWarning,
                stacklevel=4,
            )
            return
        self._require_open("step()")
        if failures:
            raise worker_error(failures)

    def _move(self, num_workers: int) -> list[Failure]:
        """Let other workers go on with the sub-envs; if that fails, nothing has changed.

        Returns:
            What went wrong in closing the old sub-envs.

        Raises:
            SpaceMismatch: The sub-envs that are built now have other spaces.
            VecEnvWorkerError: A sub-env cannot be kept, built again or restored.
        """
        rows = np.arange(self.num_envs)
        kept = self._ask_within(self._commands_of_rows(KEEP, rows, [None] * self.num_envs))
        before = {name: getattr(self, name) for name in _OF_WORKERS}
        try:
            self._start(num_workers)
            for kind in ("observation_space", "action_space"):
                if (got := getattr(self, kind)) != before[kind]:
                    expected = f"expected env_fns to build sub-envs of the same {kind} again, {before[kind]!r}"
                    raise SpaceMismatch(f"{expected}, got {got!r}")
            self._pool.settle(self._step_timeout)
            self._ask_within(self._commands_of_rows(PREPARE, rows, kept))
            layout.put(self._observations, slice(None), before["_observations"])
            self._exchange_commit(may_refuse=False)  # if they do, the old sub-envs are still there
            self.__dict__.update({name: before[name] for name in _SEEN_FROM_OUTSIDE})
        except BaseException:
            if self._stop is not before["_stop"]:
                self._stop()
            self.__dict__.update(before)
            if self._closed:  # by another thread or a signal, which may have stopped the new workers alone
                self._stop()
            raise
        if self._closed:  # which may have stopped the old workers alone
            self._stop()
        failures: list[Failure] = before["_stop"]()
        return failures

    # -- attributes ----------------------------------------------------------------------------------------

    def action_mask(self) -> Any:
        """Which actions make sense now in each sub-env, which the workers are asked for (see ``VecEnv.action_mask``).

        Raises:
            VecEnvWorkerError: A sub-env has failed to say.
        """
        return masks_of_sub_envs(self)

    @property
    def has_action_mask(self) -> bool:
        """Whether a sub-env has an ``action_mask()``; asked of the workers once."""
        if self._has_action_mask is None:
            self._has_action_mask = any(self.get_attr("has_action_mask"))
        return self._has_action_mask

    def set_attr(self, name: str, values: list[Any] | Any, indices: Any = None, *, force: bool = False) -> None:
        """Change an attribute of sub-envs (see ``VecEnv.set_attr``).

        Raises:
            VecEnvAttributeError: There is no such name.
            VecEnvWorkerError: A sub-env refuses a value, or it cannot be pickled.
            ValueError: A list has another length than there are sub-envs to change.
        """
        self._require_open("set_attr()")
        rows = inputs.check_rows(indices, self.num_envs, "set_attr(indices=...)", distinct=True)
        spread = inputs.spread_values(name, values, len(rows), "num_envs" if indices is None else "indices")
        # All have it, or none is changed.
        has = [] if force else [self._commands_of_rows(HAS_ATTR, rows, [None] * len(rows), name)]
        self._ask("set_attr()", *has, self._commands_of_rows(SET_ATTR, rows, spread, name, force))

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        """Give some sub-envs other streams.

        Raises:
            VecEnvWorkerError: A sub-env does not draw from ``Env.rng``.
        """
        self._ask("reseed()", self._commands_of_rows(RESEED, rows, seeds))

    @property
    def _snapshot_market(self) -> tuple[str, ...]:
        return (self._kind_of_sub_envs,)

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        """What the workers tell of sub-envs.

        Raises:
            ResetRequired: What the sub-envs show is not known, since a call was interrupted or took too long.
            VecEnvWorkerError: A sub-env cannot be kept.
        """
        if self._is_behind:
            raise ResetRequired(
                f"{type(self).__name__}.snapshot(): expected the last call to have come to its end, got one that was "
                "interrupted or took too long; call step() or reset()"
            )
        states = self._ask_rows("snapshot()", rows, KEEP)
        return keep_envs(states, self.observation_space, self._observations, rows, is_whole)

    def _observe_now(self) -> Any:
        return layout.copy_batch(self._observations)

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        """Hand the workers what their sub-envs are to go on from.

        Raises:
            VecEnvWorkerError: It cannot be read, or is none of this env; nothing has changed.
        """
        states, shown = read_envs(kept, self.observation_space, len(rows), keep_parameters)
        commands = self._commands_of_rows(PREPARE, rows, states)
        may_refuse = any(self._ask("restore()", commands))

        def commit() -> None:
            self._require_open("restore()")
            with self._guard("restore()"):
                self._commit(may_refuse)
                layout.put(self._observations, rows, shown)
                self._is_behind = self._is_behind and len(rows) < self.num_envs

        return commit

    def _commit(self, may_refuse: bool) -> None:
        """Let the sub-envs of all workers go on from what these have been handed, or those of none.

        Where nobody knows which have, after Ctrl-C or where one takes too long, they have to be reset.
        """
        before, self._has_reset = self._has_reset, False
        try:
            self._exchange_commit(may_refuse)
        except VecEnvWorkerError:
            if may_refuse:
                with suppress(VecEnvWorkerError):  # the first error is the one to hear of
                    self._pool.settle(self._step_timeout)
                    self._take_in(self._pool.exchange([GO_BACK] * len(self._pool.slices), self._step_timeout))
                    self._has_reset = before
            raise
        self._has_reset = before

    def _exchange_commit(self, may_refuse: bool) -> None:
        commands = [COMMIT + _dumps(may_refuse)] * len(self._pool.slices)
        self._take_in(self._pool.exchange(commands, self._step_timeout))

    def _commands_of_rows(self, tag: bytes, rows: NDArray[np.intp], given: Sequence[Any], *general: Any) -> list[bytes]:
        """For each worker a command: what is meant for all, which of its sub-envs are meant, and what each is given."""
        commands, every = [], list(zip(rows.tolist(), given, strict=True))
        for part in self._pool.slices:
            mine = [(row, value) for row, value in every if part.start <= row < part.stop]
            commands.append(tag + _dumps(*general, [row for row, _ in mine], *(value for _, value in mine)))
        return commands

    def _ask_rows(self, name: str, rows: NDArray[np.intp], tag: bytes, *general: Any) -> list[Any]:
        """The values that some sub-envs answer a command with, in the order of the rows."""
        if not rows.size:
            return []
        distinct = np.unique(rows)
        told = self._ask(name, self._commands_of_rows(tag, distinct, [None] * len(distinct), *general))
        answers = dict(zip(distinct.tolist(), told, strict=True))
        return [answers[row] for row in rows.tolist()]

    def _ask(self, name: str, *rounds: list[bytes]) -> list[Any]:
        """The values that each sub-env answers the last of some rounds of commands with."""
        return _values(self._exchange(name, *rounds))

    def _ask_within(self, commands: list[bytes]) -> list[Any]:
        """The values that each sub-env answers with, within a call."""
        return _values(self._pool.exchange(commands, self._step_timeout))

    def __reduce__(self) -> Any:
        raise TypeError("a ProcVecEnv has processes and cannot be pickled or copied; make another one of its env_fns")


def _values(replies: list[Any]) -> list[Any]:
    return [value for reply in replies if reply is not None for value in reply.values["value"].values()]


def _dumps(*values: Any) -> bytes:
    """Pickle what goes to a worker, lambdas and local classes included."""
    pickled = b""
    with suppress(Exception):
        pickled = dump_each(values)
    # What the main module defines under its guard, or a notebook does, a worker would not find there.
    if not pickled or b"__main__" in pickled:
        import cloudpickle

        pickled = dump_each(values, cloudpickle.Pickler)
    return pickled


def _check_context(context: str | None) -> str:
    """The start method; the default is the first of forkserver and spawn that there is."""
    import multiprocessing

    known = multiprocessing.get_all_start_methods()
    if context is None:
        return "forkserver" if "forkserver" in known else "spawn"
    if context not in known:
        raise ValueError(f"context: expected one of {', '.join(map(repr, known))} or None, got {context!r}")
    if context == "fork":
        warnings.warn(
            "ProcVecEnv(context='fork'): a forked worker inherits locks and threads in any state; if this process has "
            "run parallel numba kernels or other threads, workers may hang or die. Prefer 'forkserver' or 'spawn'.",
            RuntimeWarning,
            stacklevel=3,
        )
    return context
