"""The child half of ProcVecEnv: a worker process runs sub-envs on its slice of the batch.

The parent sends commands and the worker answers each with one reply, so that both always know how many are under
way. A command is a tag and, where it needs more than the block holds, pickled arguments; a reply likewise. What belongs
to one sub-env is pickled on its own, so that the one whose part cannot be read is known.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sekai.batching import layout
from sekai.spaces import Space
from sekai.types import OptionsType, SeedType
from sekai.vector.failures import Failure
from sekai.vector.processes.global_generators import restart_global_generators
from sekai.vector.processes.pickles import dump_each, load_each
from sekai.vector.processes.pipe import Pipe, PipeClosed
from sekai.vector.processes.shared_memory import Block, SharedFile
from sekai.vector.processes.thread_limits import limit_threads
from sekai.vector.sub_envs.restoring import restore_all
from sekai.vector.sub_envs.sub_env import EnvFn, RowBatch, SubEnv, build_sub_envs

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# Commands.
OPEN, STEP, RESET, RESET_SOME, RESEED, CALL, GET_ATTR, HAS_ATTR, SET_ATTR, KEEP, PREPARE, COMMIT, GO_BACK, CLOSE = (
    bytes([tag]) for tag in b"osreicghakpmbx"
)
# Replies.
DONE, FAILED = (bytes([tag]) for tag in b"df")

#: What a block holds of each row that a worker writes.
COLUMNS = ("rewards", "terminated", "truncated", "frozen")

#: Exit status of a worker that was started from a script without a main guard.
NO_MAIN_GUARD = 97


class Plan(NamedTuple):
    """What a worker is started with."""

    env_fns: bytes  # cloudpickled, of its sub-envs
    autoreset_options: bytes  # cloudpickled
    autoreset: bool
    start: int  # the index of its first sub-env
    num_envs: int  # of the whole batch
    spin: bool  # whether there is a core for it beside the parent's
    variables: dict[str, str]  # of the environment: how many threads its libraries use
    file: SharedFile | None
    close_timeout: float  # seconds to close the sub-envs in, once the parent has ended


class Description(NamedTuple):
    """What a worker tells of its sub-envs once they are built."""

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    kind: str  # of the first sub-env, see ``SubEnv.kind``


#: Something said of a row: what it is ("info", say), the row, and the value.
Value = tuple[str, int, Any]


def run_worker(connection: Connection, plan: Plan, inherited: Sequence[Connection] = ()) -> None:
    """The main function of a worker process.

    Args:
        connection: The worker's end of the pipe.
        plan: What to build.
        inherited: The parent's ends of other pipes, which a forked process must close: a pipe whose parent's end is
            still open somewhere does not tell its worker that the parent is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    if hasattr(signal, "pthread_sigmask"):  # it was blocked until now
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    for other in inherited:
        other.close()
    pipe = Pipe(connection, spin=plan.spin)
    _exit_with_parent(pipe, plan.close_timeout)
    limit_threads(plan.variables)
    restart_global_generators()
    worker = Worker(pipe, plan)
    try:
        if worker.build():
            worker.serve()
    except PipeClosed:  # the parent is gone
        worker.close_sub_envs()


def _exit_with_parent(pipe: Pipe, seconds: float) -> None:
    """Let this process end after its parent has, however that ended.

    Args:
        pipe: Cut then, so that a worker that waits for a command, or has done the last one, closes its sub-envs. It
            would not hear of the end otherwise where another process has inherited the parent's side.
        seconds: The time it has for that, after which it ends even in the middle of a step.
    """
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is None:
        return
    sentinels = [parent.sentinel]
    if hasattr(os, "pidfd_open") and parent.pid is not None:
        with suppress(OSError):  # it tells the end of the parent also when others have inherited the sentinel
            sentinels.append(os.pidfd_open(parent.pid))

    def watch() -> None:
        wait(sentinels)
        pipe.cut()
        time.sleep(seconds)
        os._exit(1)

    threading.Thread(target=watch, name="sekai-watch-parent", daemon=True).start()


class Worker:
    """The sub-envs of one worker process and the commands they take."""

    def __init__(self, pipe: Pipe, plan: Plan) -> None:
        """Take the worker's end of the pipe, and what to build."""
        self._pipe = pipe
        self._plan = plan
        self._sub_envs: list[SubEnv] = []
        self._slice = slice(0)
        self._sizes = (0, 0, 0)
        self._block: Block
        self._actions: Any = None
        self._prepared: list[tuple[SubEnv, Callable[[], None]]] = []
        self._undo: list[Callable[[], None]] = []
        self._at = plan.start  # the sub-env that an error in a command is of

    def build(self) -> bool:
        """Build the sub-envs and tell the parent what they are, or what went wrong; whether to go on."""
        import cloudpickle

        plan = self._plan
        at, in_env_fn = plan.start, False

        def watched(index: int, env_fn: EnvFn) -> Any:
            nonlocal at, in_env_fn
            at, in_env_fn = index, True
            env = env_fn()
            in_env_fn = False
            return env

        try:
            env_fns: Sequence[EnvFn] = cloudpickle.loads(plan.env_fns)
            options = cloudpickle.loads(plan.autoreset_options)
            builders = [lambda i=i, f=f: watched(i, f) for i, f in enumerate(env_fns, plan.start)]
            self._sub_envs = build_sub_envs(builders, plan.autoreset, options, start=plan.start)
            count = len(self._sub_envs)
            self._slice = slice(plan.start, plan.start + count)
            self._sizes = (plan.start, count, plan.num_envs - plan.start - count)
            env = self._sub_envs[0].env
            description = Description(env.observation_space, env.action_space, env.metadata, self._sub_envs[0].kind)
            head = _head([], [("description", plan.start, description)], None)
            self._pipe.send(DONE + dump_each([head, description], cloudpickle.Pickler))
        except BaseException as error:
            self.close_sub_envs()
            self._reply([Failure.describe(at, error, own=not in_env_fn)])
            return False
        return True

    def serve(self) -> None:
        """Take commands until the last one."""
        commands: dict[bytes, Callable[[Iterator[Any]], None]] = {
            OPEN: self._open,
            STEP: self._step,
            RESET: self._reset,
            RESET_SOME: self._reset_some,
            RESEED: self._reseed,
            CALL: self._call,
            GET_ATTR: self._get_attr,
            HAS_ATTR: self._has_attr,
            SET_ATTR: self._set_attr,
            KEEP: self._keep,
            PREPARE: self._prepare,
            COMMIT: self._commit,
            GO_BACK: self._go_back,
        }
        while True:
            message = self._pipe.receive() or b""  # never None: the pipe blocks
            if message == CLOSE:
                self._reply(self.close_sub_envs())
                return
            self._at = self._plan.start
            try:
                commands[message[:1]](load_each(message[1:]))
            except PipeClosed:
                raise
            except BaseException as error:
                self._reply([Failure.describe(self._at, error)])

    def close_sub_envs(self) -> list[Failure]:
        """Close every sub-env; what went wrong."""
        sub_envs, self._sub_envs = self._sub_envs, []
        return _for_each(sub_envs, lambda sub_env: sub_env.env.close())

    # -- commands ------------------------------------------------------------------------------------------

    def _open(self, argument: Iterator[Any]) -> None:
        """Make the block, given the spaces of what has a place in it (see ``Block``)."""
        spaces: tuple[Space[Any] | None, Space[Any] | None] = next(argument)
        file = self._plan.file
        self._block = Block(file, self._plan.num_envs, *spaces)
        if file is not None:
            file.close()
            if spaces[1] is not None:
                self._actions = layout.split(spaces[1], self._block.actions, self._sizes)[1]
        self._reply()

    def _step(self, argument: Iterator[Any]) -> None:
        """Step every sub-env with its action; there are none where the block has them."""
        sub_envs, failures = self._sub_envs, list[Failure]()
        if self._actions is None:
            each = self._one_each(argument)
        else:
            actions = layout.copy_batch(self._actions)  # a sub-env may keep its action
            each = list(layout.iterate(sub_envs[0].env.action_space, actions, len(sub_envs)))
        batch = self._new_batch()
        batch.step_sub_envs(sub_envs, each, lambda index, error: failures.append(Failure.describe(index, error)))
        self._finish(batch, failures)

    def _reset(self, argument: Iterator[Any]) -> None:
        """Reset every sub-env with its seed and its options."""
        inputs: list[tuple[SeedType, OptionsType]] = self._one_each(argument)
        restart_global_generators(seed for seed, _ in inputs)
        inputs_left = iter(inputs)
        batch = self._new_batch()
        self._finish(
            batch, _for_each(self._sub_envs, lambda each: batch.write_reset(each.index, each.reset(*next(inputs_left))))
        )

    def _reset_some(self, argument: Iterator[Any]) -> None:
        """Reset some sub-envs with their seeds and options."""
        batch = self._new_batch()
        mine = self._given(argument)
        failures = _for_each(mine, lambda each: batch.write_reset(each.index, each.reset(*mine[each])))
        self._finish(batch, failures, [each.index for each in mine])

    def _reseed(self, argument: Iterator[Any]) -> None:
        """Give some sub-envs other random streams."""
        mine = self._given(argument)
        self._reply(_for_each(mine, lambda each: each.env.reseed(mine[each])))

    def _call(self, argument: Iterator[Any]) -> None:
        method, args, kwargs = next(argument)
        self._answer(argument, lambda sub_env: sub_env.call(method, args, kwargs), of_attribute=True)

    def _get_attr(self, argument: Iterator[Any]) -> None:
        name = next(argument)
        self._answer(argument, lambda sub_env: sub_env.env.get_attr(name), of_attribute=True)

    def _has_attr(self, argument: Iterator[Any]) -> None:
        """Fail where a sub-env has no such attribute."""
        name = next(argument)
        mine = self._given(argument)
        self._reply(_for_each(mine, lambda sub_env: sub_env.require_attr(name), of_attribute=True))

    def _set_attr(self, argument: Iterator[Any]) -> None:
        name, force = next(argument), next(argument)
        mine = self._given(argument)
        failures = _for_each(mine, lambda sub_env: sub_env.set_attr(name, mine[sub_env], force), of_attribute=True)
        self._reply(failures)

    def _keep(self, argument: Iterator[Any]) -> None:
        """Tell the state of some sub-envs."""
        self._answer(argument, SubEnv.keep)

    def _prepare(self, argument: Iterator[Any]) -> None:
        """Look at what some sub-envs are to go on from, without a change; tell which may refuse all the same."""
        mine = self._given(argument)
        self._prepared, self._undo = [], []
        failures = _for_each(mine, lambda each: self._prepared.append((each, self._named(each, mine[each]))))
        self._reply(failures, [] if failures else [("value", each.index, each.may_refuse) for each in mine])

    def _named(self, sub_env: SubEnv, state: bytes) -> Callable[[], None]:
        """What lets a sub-env go on from a state, and names it in the error if it refuses."""
        restore = sub_env.put_back(state)

        def commit() -> None:
            self._at = sub_env.index
            restore()

        return commit

    def _commit(self, argument: Iterator[Any]) -> None:
        """Let them go on from that, told whether one may refuse, perhaps of another worker."""
        prepared, self._prepared = self._prepared, []
        self._undo = restore_all(prepared, next(argument))
        self._tell_frozen()

    def _go_back(self, argument: Iterator[Any]) -> None:
        """Put them back to where they were, since those of another worker have refused."""
        undo, self._undo = self._undo, []
        for back in undo:
            back()
        self._tell_frozen()

    def _tell_frozen(self) -> None:
        block, mine = self._block, self._slice
        block.frozen[mine] = [sub_env.frozen for sub_env in self._sub_envs]
        self._reply(beside=None if self._plan.file is not None else {"frozen": block.frozen[mine]})

    # -- parts of them -------------------------------------------------------------------------------------

    def _one_each(self, argument: Iterator[Any]) -> list[Any]:
        """What was sent for each sub-env; the one whose part cannot be read is known."""
        read = []
        for sub_env in self._sub_envs:
            self._at = sub_env.index
            read.append(next(argument))
        self._at = self._plan.start
        return read

    def _given(self, argument: Iterator[Any]) -> dict[SubEnv, Any]:
        """The sub-envs that a command means, and what each is given; the one whose part cannot be read is known."""
        given = {}
        for row in next(argument):
            self._at = row
            given[self._sub_envs[row - self._plan.start]] = next(argument)
        self._at = self._plan.start
        return given

    def _new_batch(self) -> RowBatch:
        block, mine = self._block, self._slice
        block.terminated[mine] = block.truncated[mine] = False
        space = self._sub_envs[0].env.observation_space
        observations = block.observations
        if observations is None:
            observations = layout.allocate(space, self._plan.num_envs)
        return RowBatch(space, observations, block.rewards, block.terminated, block.truncated)

    def _finish(self, batch: RowBatch, failures: list[Failure], written: Sequence[int] | None = None) -> None:
        """Answer a step or a reset: with the infos that are not empty, and with what the block does not share.

        Args:
            batch: What came of it.
            failures: Of those sub-envs that have failed.
            written: The rows of the batch that there are; None for all.
        """
        block, mine = self._block, self._slice
        for sub_env in self._sub_envs if not self._plan.autoreset else ():
            block.frozen[sub_env.index] = sub_env.frozen
        beside: dict[str, Any] = {}
        if self._plan.file is None:
            beside.update((name, getattr(block, name)[mine]) for name in COLUMNS)
        if failures:
            self._reply(failures, beside=beside)
            return
        values: list[Value] = [("info", row, info) for row, info in batch.infos.items()]
        space = self._sub_envs[0].env.observation_space
        if block.observations is None:
            rows = enumerate(layout.iterate(space, batch.observations, self._plan.num_envs))
            written = range(mine.start, mine.stop) if written is None else written
            values += (("observation", row, shown) for row, shown in rows if row in written)
        elif self._plan.file is None:
            beside["observations"] = layout.split(space, batch.observations, self._sizes)[1]
        self._reply([], values, beside)

    def _answer(self, argument: Iterator[Any], ask: Callable[[SubEnv], Any], of_attribute: bool = False) -> None:
        """Reply with one value for each sub-env that is meant."""
        values: list[Value] = []
        mine = self._given(argument)
        failures = _for_each(
            mine, lambda sub_env: values.append(("value", sub_env.index, ask(sub_env))), of_attribute=of_attribute
        )
        self._reply(failures, [] if failures else values)

    def _reply(
        self, failures: Sequence[Failure] = (), values: Sequence[Value] = (), beside: dict[str, Any] | None = None
    ) -> None:
        """Tell what went wrong, and what there is to say of some rows and beside them, as ``WorkerHandle`` reads it."""
        if not (failures or values or beside):
            self._pipe.send(DONE)
            return
        # Pickled before anything is sent, so that what cannot be pickled leaves the pipe as it was.
        try:
            message = _pickle_reply(failures, values, beside)
        except Exception:
            unpicklable = _unpicklable(values)
            if not unpicklable:
                raise
            failures = [*failures, *unpicklable]
            message = _pickle_reply(failures, [], beside)
        self._pipe.send((FAILED if failures else DONE) + message)


def _pickle_reply(failures: Sequence[Failure], values: Sequence[Value], beside: dict[str, Any] | None) -> bytes:
    """Pickle a reply: its head and then each value.

    What the parent's main module defines came here with cloudpickle, and goes back with it; it would also send lambdas,
    which nobody could send on, so that it is not used for anything else.
    """
    parts = [_head(failures, values, beside), *(value for _, _, value in values)]
    try:
        return dump_each(parts)
    except Exception as error:
        if "__main__" not in str(error) or "<lambda>" in str(error):
            raise
        import cloudpickle

        return dump_each(parts, cloudpickle.Pickler)


def _head(failures: Sequence[Failure], values: Sequence[Value], beside: dict[str, Any] | None) -> Any:
    """What comes first in a reply: all but the values, of which it names each."""
    return list(failures), [(what, row) for what, row, _ in values], beside or {}


def _for_each(sub_envs: Iterable[SubEnv], act: Callable[[SubEnv], Any], *, of_attribute: bool = False) -> list[Failure]:
    """Do something with every sub-env, also when it fails for some; what went wrong (see ``Failure.describe``)."""
    failures = []
    for sub_env in sub_envs:
        try:
            act(sub_env)
        except BaseException as error:
            failures.append(Failure.describe(sub_env.index, error, of_attribute=of_attribute))
    return failures


def _unpicklable(values: Iterable[Value]) -> list[Failure]:
    """Which values cannot be sent."""
    failures = []
    for what, row, value in values:
        try:
            _pickle_reply([], [(what, row, value)], None)
        except Exception as error:
            failures.append(Failure(row, type(error).__name__, f"its {what} cannot be pickled: {error}"))
    return failures
