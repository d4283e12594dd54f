"""The shards of a RayVecEnv as the parent sees them: what they are told, and how a lost one comes back."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from sekai.compat.ray.shard import Command, Place, Reply, Shard, State
from sekai.errors import VecEnvClosed
from sekai.snapshots.agreement import differing
from sekai.vector.failures import Failure, worker_error
from sekai.vector.interrupts import Uninterrupted

#: What a market's own say of it that it cannot be kept, by name.
_LASTING_REFUSALS = frozenset({"TypeError", "NotImplementedError"})

#: Commands after which a shard is another than before.
_CHANGES = frozenset({"reset", "reset_some", "step", "reseed", "call", "set_attr", "restore"})

#: Those whose arguments nobody else has, and which are arrays for the most part.
_OWN = frozenset({"step", "build", "keep", "check", "restore"})


class RemoteShard:
    """A shard in its actor, and what it takes to make it again.

    Args:
        rows: Its rows.
        build: Ray's reference of the bytes it is built from.

    Attributes:
        losses: How often it has been lost.
        frozen: bool (k,), its rows that wait for a reset.
        reply: What it answered last.
        death: Why it does not come back; None while it is there.
        since: The commands that changed it since then.
        state: Ray's reference of the state to go on from; None while there is none.
        shared: What that state holds for no sub-env of its own, so that it fits only where the same is.
        due: With how many commands since then it is to be kept anew.
    """

    def __init__(self, rows: range, build: Any) -> None:
        self.rows = rows
        self.build = build
        self.actor: Any = None
        self.place: Any = None
        self.losses = 0
        self.frozen: NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
        self.reply = Reply(None, None, None)
        self.death: Failure | None = None
        self.since: list[Command] = []
        self.lasting: list[Command] = []
        self.state: Any = None
        self.shared: Mapping[str, Any] | None = None
        self.due = 0
        self.owed: Any = None
        self.command = Command("build", (build, rows))
        self.changes = False
        self.keeping: tuple[Any, int] | None = None

    def describe(self) -> str:
        """Which sub-envs it has, for error messages."""
        first, last = self.rows.start, self.rows.stop - 1
        return f"the shard of sub-env {first}" if first == last else f"the shard of sub-envs {first} to {last}"

    def take(self, reply: Reply) -> None:
        """Take in what it has answered."""
        self.owed, self.reply = None, reply
        if reply.frozen is not None:
            self.frozen = reply.frozen
        if reply.failure is not None and self.command.sets is not None and self.since:
            self.since[-1] = self.command._replace(sets=None)

    def keep(self, state: State, count: int, every: int) -> None:
        """Go on from another state from now on, in which the first ``count`` commands are through."""
        is_altered = self.shared is None or bool(differing(self.shared, state.snapshot.kept.shared))
        self.state, self.shared, self.due = ray.put(state), state.snapshot.kept.shared, every
        self.keeping = None  # one that is on its way counts the commands from before
        for each in self.since[:count]:
            if each.sets is not None:
                name, rows = each.sets
                self.lasting = [old for old in self.lasting if not _is_overwritten(old.sets, name, rows)]
                self.lasting.append(each)
            elif is_altered and each.is_call:  # one of them has altered what all sub-envs have in common
                self.lasting.append(each)
        del self.since[:count]


class ShardPool:
    """Actors that each take the same number of commands and answer each with one reply.

    What a shard is told is written down until its state is kept anew. A state is the parent's: in the object store of
    its own node, so that it outlives the shard's.

    Args:
        parts: The rows of each shard and the bytes it is built from.
        options: What Ray is told of each actor.
        snapshot_every: Commands after which the states are kept; 0 for never.
        max_restarts: How often each is started again.

    Attributes:
        shards: The shards.
        lock: Held while a call goes on.
        snapshot_every: The same as the argument; 0 from when on it turns out that there is no state to keep.
    """

    def __init__(
        self,
        parts: Sequence[tuple[range, bytes]],
        options: dict[str, Any],
        snapshot_every: int,
        max_restarts: int,
    ) -> None:
        self._options = options
        self.snapshot_every = snapshot_every
        self._max_restarts = max_restarts
        self.lock = threading.Lock()
        self._stopped = False
        self.shards = [RemoteShard(rows, ray.put(build)) for rows, build in parts]
        for shard in self.shards:
            self._start(shard)

    def build(self) -> list[Any]:
        """Build the VecEnvs; what each tells of its own."""
        return self.exchange([Command("build", (shard.build, shard.rows)) for shard in self.shards])

    def _start(self, shard: RemoteShard) -> None:
        own = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": 1}
        actor = ray.remote(Shard).options(**{"scheduling_strategy": "SPREAD", **self._options, **own})
        shard.actor = actor.remote()
        shard.place = shard.actor.where.remote()

    # -- calls ---------------------------------------------------------------------------------------------

    def exchange(self, commands: Sequence[Command | None], timeout: float | None = None) -> list[Any]:
        """Send each shard a command, none where it is None, and wait for the answers.

        Args:
            commands: One for each shard.
            timeout: Seconds to wait; None for as long as it takes.

        Returns:
            What each answers, None where it was not asked.

        Raises:
            VecEnvWorkerError: A sub-env failed, or a shard was lost too often or took too long.
        """
        self._send(commands)
        self._wait(timeout)
        return self._read()

    async def async_exchange(self, commands: Sequence[Command | None], timeout: float | None = None) -> list[Any]:
        """As ``exchange``, with the event loop free meanwhile."""
        self._send(commands)
        await self._async_wait(timeout)
        return self._read()

    def settle(self, timeout: float | None = None) -> None:
        """Wait for the answers that an interrupted call has left under way, and discard them.

        Raises:
            VecEnvWorkerError: A shard takes too long.
        """
        self._wait(timeout)

    async def async_settle(self, timeout: float | None = None) -> None:
        """As ``settle``, with the event loop free meanwhile."""
        await self._async_wait(timeout)

    @property
    def is_to_be_kept(self) -> bool:
        """Whether a shard has no state yet to go on from, and is to have one."""
        return self.snapshot_every > 0 and not all(shard.state is not None for shard in self.shards)

    def keep_all(self, states: Sequence[State]) -> None:
        """Take over the states in which all shards are now."""
        for shard, state in zip(self.shards, states, strict=True):
            shard.keep(state, len(shard.since), self.snapshot_every)

    def _send(self, commands: Sequence[Command | None]) -> None:
        deaths = [shard.death for shard in self.shards if shard.death is not None]
        if deaths:
            raise worker_error(deaths)
        # What cannot be pickled is refused before anything is sent.
        packed = [each if each is None or each.name in _OWN else each.packed() for each in commands]
        with Uninterrupted():
            for shard, given, command in zip(self.shards, commands, packed, strict=True):
                shard.reply = Reply(None, None, None)
                if command is None or given is None:
                    continue
                shard.command, shard.changes = command, given.name in _CHANGES
                if shard.changes and self.snapshot_every:
                    shard.since.append(command)
                shard.owed = shard.actor.do.remote(command.name, *command.arguments)

    def _read(self) -> list[Any]:
        """The answers; also take over the states that have come, and ask for new ones where it is time."""
        for shard in self.shards:
            if shard.keeping is not None:
                self._take_kept(shard, *shard.keeping)
        failures = [self._told(shard, shard.reply.failure) for shard in self.shards if shard.reply.failure is not None]
        if failures:
            raise worker_error(failures)
        for shard in self.shards:
            if self.snapshot_every and len(shard.since) >= max(shard.due, self.snapshot_every) and shard.owed is None:
                shard.keeping = shard.actor.do.remote("keep"), len(shard.since)
        values = [shard.reply.value for shard in self.shards]
        for shard in self.shards:
            shard.reply = Reply(None, None, None)  # what is held keeps its place in the object store
        return values

    def go_without_snapshots(self) -> None:
        """Keep nothing from now on: there is no state to go on from."""
        self.snapshot_every = 0
        for shard in self.shards:
            shard.since.clear()

    def _told(self, shard: RemoteShard, failure: Failure) -> Failure:
        """A failure whose message says that sub-envs are counted otherwise where it came from."""
        if shard.rows.start == 0 or failure is shard.death:
            return failure
        return failure._replace(message=f"{failure.message} (in {shard.describe()}, which counts them from 0)")

    def _take_kept(self, shard: RemoteShard, asked: Any, count: int) -> None:
        shard.keeping = None
        try:
            reply: Reply = ray.get(asked)
        except ray.exceptions.RayTaskError as error:  # what it says cannot be pickled
            reply = Reply(Failure.describe(shard.rows.start, error.cause or error), None, None)
        except ray.exceptions.RayError:  # of a loss one hears in answer to a command
            return
        if reply.failure is None:
            shard.keep(reply.value, count, self.snapshot_every)
            return
        shard.due = count + self.snapshot_every
        if reply.failure.exc_type in _LASTING_REFUSALS:  # else it is between two episodes, say
            warnings.warn(
                f"RayVecEnv: the state of {shard.describe()} could not be kept, so that after a loss more than "
                f"snapshot_every={self.snapshot_every} calls are repeated, and all of them are held until then: "
                f"{reply.failure.message}",
                RuntimeWarning,
                stacklevel=5,
            )

    # -- waiting -------------------------------------------------------------------------------------------

    @property
    def _owing(self) -> list[RemoteShard]:
        return [shard for shard in self.shards if shard.owed is not None and shard.death is None]

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while owing := self._owing:
            self._take(owing, deadline, timeout)

    async def _async_wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while owing := self._owing:
            kept = [shard.keeping[0] for shard in self.shards if shard.keeping is not None]
            await _some_of([shard.owed for shard in owing], kept, _left(deadline))
            self._take(owing, deadline, timeout, is_patient=False)

    def _take(
        self, owing: Sequence[RemoteShard], deadline: float | None, timeout: float | None, is_patient: bool = True
    ) -> None:
        """Take what has come; wait for all of it, or for a loss, if ``is_patient``."""
        references = [shard.owed for shard in owing]
        try:
            replies = ray.get(references, timeout=_left(deadline) if is_patient else 0)
        except ray.exceptions.GetTimeoutError:
            self._take_each(owing, references)
            if timeout is not None and self._owing and not _left(deadline):
                raise self._too_slow(timeout) from None
        except ray.exceptions.RayError:
            self._take_each(owing, references)
        else:
            self._require_open()
            for shard, reply in zip(owing, replies, strict=True):
                shard.take(reply)

    def _take_each(self, owing: Sequence[RemoteShard], references: list[Any]) -> None:
        """Take the answers of those shards that have given one, and see to those that are lost."""
        self._require_open()
        ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        for shard in owing:
            if shard.owed not in ready:
                continue
            try:
                reply = ray.get(shard.owed)
            except ray.exceptions.RayTaskError as error:  # what it was told, or says, cannot be pickled
                reply = Reply(Failure.describe(shard.rows.start, error.cause or error), None, None)
            except ray.exceptions.RayError as error:
                self._lose(shard, error)
                continue
            shard.take(reply)

    def _require_open(self) -> None:
        if self._stopped:
            raise VecEnvClosed("RayVecEnv: closed while a call was going on")

    def _too_slow(self, timeout: float) -> Exception:
        slow = [(shard.rows.start, f"{shard.describe()} took longer than {timeout} s") for shard in self._owing]
        return worker_error([Failure(first, "TimeoutError", message) for first, message in slow])

    # -- losses --------------------------------------------------------------------------------------------

    def _lose(self, shard: RemoteShard, error: Exception) -> None:
        """Start a lost shard again, elsewhere if need be, and let it do what it has not answered."""
        node = "an unknown node"
        with suppress(ray.exceptions.RayError):
            address, name, _ = ray.get(shard.place, timeout=0)
            node = f"node {address} ({name})"
        with suppress(Exception):  # of one that is unreachable for a while nobody is to hear again
            ray.kill(shard.actor, no_restart=True)
        shard.losses += 1
        shard.keeping = None
        is_new = shard.command.name == "build"
        if shard.losses > self._max_restarts or not (is_new or self.snapshot_every):
            limit = f"max_restarts={self._max_restarts}" if self.snapshot_every or is_new else "without snapshots"
            said = str(error).strip().splitlines() or [type(error).__name__]
            message = f"{shard.describe()} was lost on {node}, {shard.losses} times in all, {limit}: {said[0]}"
            shard.owed, shard.death = None, Failure(shard.rows.start, "ShardLost", message)
            shard.reply = Reply(shard.death, None, None)
            return
        with Uninterrupted():
            self._start(shard)
            if self._stopped:  # while it was started, by another thread, which may not have seen it
                ray.kill(shard.actor, no_restart=True)
                self._require_open()
            if is_new:
                shard.owed = shard.actor.do.remote("build", shard.build, shard.rows)
                return
            before = shard.since[:-1] if shard.changes else shard.since
            known = shard.build, shard.rows, shard.lasting, shard.state
            shard.owed = shard.actor.recover.remote(*known, before, shard.command)

    def places(self) -> list[Place]:
        """Where the shards run."""
        found = ray.get([shard.place for shard in self.shards])
        return [Place(shard.rows, *place) for shard, place in zip(self.shards, found, strict=True)]

    # -- the end -------------------------------------------------------------------------------------------

    def stop(self, timeout: float) -> list[Failure]:
        """Close every VecEnv and end every actor, also one that has not answered after ``timeout`` seconds.

        Returns:
            What went wrong in closing.
        """
        self._stopped = True
        failures: list[Failure] = []
        if not ray.is_initialized():  # it has ended, and with it all actors
            return failures
        try:
            living = [shard for shard in self.shards if shard.death is None]
            asked = {}
            for shard in living:
                with suppress(Exception):  # it is of a cluster that this process has left
                    asked[shard.actor.do.remote("close")] = shard
            closed, _ = ray.wait(list(asked), num_returns=len(asked), timeout=timeout) if asked else ([], [])
            for reference in closed:
                with suppress(ray.exceptions.RayError):
                    failure = ray.get(reference).failure
                    if failure is not None:
                        failures.append(self._told(asked[reference], failure))
        finally:
            for shard in self.shards:
                with suppress(Exception):
                    ray.kill(shard.actor, no_restart=True)
        return failures


def _is_overwritten(before: tuple[str, list[int] | None] | None, name: str, rows: list[int] | None) -> bool:
    """Whether an attribute that was set is set again, in the same rows or in all."""
    return before is not None and before[0] == name and (rows is None or before[1] == rows)


def _left(deadline: float | None) -> float | None:
    """Seconds until then."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


async def _some_of(answers: Sequence[Any], others: Sequence[Any], timeout: float | None) -> None:
    """Wait until all have come, or failed if they are others; one of the answers has failed; or the time is up."""
    import asyncio

    loop, enough, left = asyncio.get_running_loop(), asyncio.Event(), len(answers) + len(others)

    def count(has_failed: bool) -> None:
        nonlocal left
        left -= 1
        if has_failed or not left:
            enough.set()

    def come(is_answer: bool, future: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the call was given up
            loop.call_soon_threadsafe(count, is_answer and future.exception() is not None)

    for each in [*answers, *others]:
        each.future().add_done_callback(partial(come, each in answers))
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(enough.wait(), timeout)
