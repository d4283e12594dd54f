"""The actor's half of RayVecEnv: a VecEnv of some rows, and the commands it takes.

The parent sends a command and gets one reply. Whatever a command raises is told as text in the reply, so that an actor
that has failed to answer has been lost.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.info_list import InfoList
from sekai.results import VecResetResult, VecStepResult
from sekai.snapshots import Snapshot
from sekai.spaces import Space
from sekai.types import InfoDict
from sekai.vector.base import VecEnv
from sekai.vector.examination import examine
from sekai.vector.failures import Failure
from sekai.vector.processes.global_generators import (
    keep_global_generators,
    put_global_generators_back,
    restart_global_generators,
)
from sekai.vector.processes.thread_limits import THREAD_VARIABLES, limit_threads
from sekai.vector.sub_envs.in_process import InProcessVecEnv

#: Commands that read, change or call an attribute.
_OF_ATTRIBUTES = frozenset({"call", "get_attr", "set_attr"})


class Command(NamedTuple):
    """What a shard is asked to do.

    Attributes:
        name: Of the method of ``Shard`` behind an underscore.
        arguments: What it is called with.
        sets: Which attribute it sets, and in which rows, None for all: a snapshot need not hold that, so that it is
            repeated before one is restored; None where it sets none.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    sets: tuple[str, list[int] | None] | None = None

    @property
    def is_call(self) -> bool:
        """Whether it calls a method of the market, packed as it is repeated."""
        return self.name == "packed" and self.arguments[0] == "call"

    def packed(self) -> Command:
        """The same as it is now, in bytes: it may have to be repeated after the caller has changed what it was given.

        Raises:
            TypeError: An argument cannot be pickled.
        """
        pickled = _dumps(self.arguments, f"RayVecEnv, {self.name}: an argument")
        return Command("packed", (self.name, pickled), self.sets)

    def unpacked(self) -> Command:
        """What ``packed()`` was made of; any other command as it is."""
        if self.name != "packed":
            return self
        name, pickled = self.arguments
        return Command(name, pickle.loads(pickled), self.sets)


class Reply(NamedTuple):
    """What a shard answers.

    Attributes:
        failure: What went wrong; None if nothing.
        value: The answer.
        frozen: bool (k,), the rows that wait for a reset; None with autoreset.
    """

    failure: Failure | None
    value: Any
    frozen: NDArray[np.bool_] | None


class Description(NamedTuple):
    """What a shard tells of its VecEnv once it is built."""

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    autoreset: bool
    market: tuple[str, ...]  # as in a Snapshot
    has_action_mask: bool
    calls_all: bool  # whether a method of some sub-envs is called once, for all: there are no objects of theirs
    refusal: str  # why there are no snapshots of it; empty if there are, as far as one can tell before a reset


class Place(NamedTuple):
    """Where a shard runs.

    Attributes:
        rows: Its sub-envs.
        node: The address of its node.
        node_id: Ray's name of it.
        pid: The process there.
    """

    rows: range
    node: str
    node_id: str
    pid: int


class State(NamedTuple):
    """What a shard goes on from after a loss."""

    snapshot: Snapshot
    generators: tuple[Any, ...] | None  # the global ones of its process, where sub-envs may draw from them


class Shard:
    """A VecEnv of some rows, in an actor; a method with an underscore is a command."""

    def __init__(self) -> None:
        self._rows = range(0)
        self._vec: VecEnv[Any, Any]
        self._is_built = False
        self._broken: Reply | None = None

    def where(self) -> tuple[str, str, int]:
        """Where this is: the address of the node, Ray's name of it, and the process."""
        return ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id(), os.getpid()

    def do(self, name: str, *arguments: Any) -> Reply:
        """Do what a command says."""
        if self._broken is not None and name != "close":
            return self._broken
        failure, value, of_attribute = None, None, False
        try:
            command = Command(name, arguments).unpacked()
            of_attribute = command.name in _OF_ATTRIBUTES
            value = self._obey(command)
        except BaseException as error:
            failure = Failure.describe(self._rows.start, error, of_attribute=of_attribute)
        return Reply(failure, value, self._vec.frozen if self._is_built and not self._vec.autoreset else None)

    def recover(
        self,
        build: bytes,
        rows: range,
        lasting: Sequence[Command],
        state: State | None,
        since: Sequence[Command],
        last: Command,
    ) -> Reply:
        """Take the place of a shard that was lost, and do what it did not answer.

        Args:
            build: What it was built from.
            rows: Its rows.
            lasting: What it was told before its state was kept and that does not hold. Where it has not helped, the
                state does not fit.
            state: Where it was when it was kept; None for as it was built.
            since: What it was told since, answered or not.
            last: What has not been answered.
        """
        try:
            self._build(build, rows)
            for each in lasting:
                with suppress(Exception) if each.is_call else nullcontext():  # as it may have been the first time
                    self._obey(each.unpacked())
            if state is not None:
                self._vec.restore(state.snapshot)
                if state.generators is not None:
                    put_global_generators_back(state.generators)
        except BaseException as error:
            failure = Failure.describe(self._rows.start, error)
            failure = failure._replace(message=f"after a loss it cannot go on: {failure.message}")
            self._broken = Reply(failure, None, None)
            return self._broken
        for each in since:
            with suppress(BaseException):  # which has been raised the first time
                self._obey(each.unpacked())
        return self.do(last.name, *last.arguments)

    def _obey(self, command: Command) -> Any:
        return getattr(self, f"_{command.name}")(*command.arguments)

    # -- commands ------------------------------------------------------------------------------------------

    def _build(self, build: bytes, rows: range) -> Description:
        import cloudpickle

        self._rows, self._is_built, self._broken = rows, False, None
        one = os.environ.get("OMP_NUM_THREADS", "1")  # as many as Ray has given the actor
        limit_threads({name: os.environ.get(name, one) for name in THREAD_VARIABLES})
        self._vec = vec = cloudpickle.loads(build)()
        self._is_built = True
        return Description(
            vec.observation_space,
            vec.action_space,
            dict(vec.metadata),
            vec.autoreset,
            vec._snapshot_market,
            vec.has_action_mask,
            type(vec.unwrapped).call_at is VecEnv.call_at,
            _why_not_kept(vec),
        )

    def _close(self) -> None:
        if self._is_built:
            self._vec.close()

    def _reset(self, seed: Any, options: Any, keeps: bool) -> Any:
        """Reset, and tell the state then if ``keeps``: without a seed streams begin otherwise each time."""
        if seed is not None and self._has_env_objects:
            restart_global_generators(seed)
        result = self._packed_reset(self._vec.reset(seed=seed, options=options))
        return *result, self._first_state() if keeps else None

    def _reset_some(self, rows: Any, seeds: Any, options: Any) -> Any:
        return self._packed_reset(self._vec.reset_envs(rows, seed=seeds, options=options))

    def _autoreset_options(self, rows: Any) -> bytes:
        rows = np.arange(len(self._rows)) if rows is None else rows
        return _dumps(self._vec._autoreset_options_of(rows), "autoreset_options")

    def _step(self, actions: Any) -> Any:
        result: VecStepResult[Any] = self._vec.step(actions)
        flags = result.rewards, result.terminated, result.truncated
        return self._shown(result.observations), *flags, _packed_infos(result.infos)

    def _action_mask(self) -> Any:
        return self._vec.action_mask()

    def _observe(self) -> Any:
        return self._shown(self._vec._observe_now())

    def _reseed(self, seeds: Any, rows: Any) -> None:
        self._vec.reseed(seeds, rows)

    def _call(self, rows: Any, told: tuple[str, Any, Any]) -> bytes:
        method, arguments, keywords = told
        if rows is None:
            return _dumps(self._vec.call(method, *arguments, **keywords), f"call({method!r})")
        return _dumps(self._vec.call_at(rows, method, *arguments, **keywords), f"call_at(indices, {method!r})")

    def _get_attr(self, rows: Any, name: str) -> bytes:
        return _dumps(self._vec.get_attr(name, rows), f"get_attr({name!r})")

    def _set_attr(self, rows: Any, name: str, values: Any, force: bool) -> None:
        self._vec.set_attr(name, values, rows, force=force)

    def _snapshot(self, rows: Any) -> Snapshot:
        return self._vec.snapshot(rows)

    def _check(self, snapshot: Snapshot, rows: Any, parameters: str) -> None:
        """Look at what is to be restored; nothing changes."""
        self._vec._restorer(snapshot, rows, parameters)

    def _restore(self, snapshot: Snapshot, rows: Any, parameters: str, keeps: bool) -> State | str | None:
        """Restore, and tell the state then if ``keeps``."""
        self._vec.restore(snapshot, rows, parameters=parameters)
        return self._first_state() if keeps else None

    def _keep(self) -> State:
        return State(self._vec.snapshot(), keep_global_generators() if self._has_env_objects else None)

    # -- parts of them -------------------------------------------------------------------------------------

    def _first_state(self) -> State | str:
        """The state, or why there is none."""
        try:
            return self._keep()
        except Exception as error:
            return str(error)

    @property
    def _has_env_objects(self) -> bool:
        return isinstance(self._vec.unwrapped, InProcessVecEnv)

    def _packed_reset(self, result: VecResetResult[Any]) -> Any:
        return self._shown(result.observations), _packed_infos(result.infos)

    def _shown(self, observations: Any) -> Any:
        """Observations as they travel: arrays as they are, elements without a fixed layout in bytes."""
        fixed = layout.has_fixed_layout(self._vec.observation_space)
        return observations if fixed else _dumps(observations, "its observations")


def _packed_infos(infos: list[InfoDict]) -> Any:
    """Infos as they travel: columns as they are, dicts in bytes, those that are not empty."""
    if isinstance(infos, InfoList) and infos.is_untouched:
        return infos
    told = {row: info for row, info in enumerate(infos) if info}
    try:
        return len(infos), _dumps(told, "its infos") if told else b""
    except TypeError:
        for row, info in told.items():
            _dumps(info, f"sub-env {row}: its info")
        raise


def _dumps(value: Any, what: str) -> bytes:
    import cloudpickle

    try:
        pickled: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{what} cannot be pickled: {error}") from error
    return pickled


def unpacked(observations: Any) -> Any:
    """Observations that have travelled."""
    return pickle.loads(observations) if isinstance(observations, bytes) else observations


def unpacked_infos(infos: Any) -> list[InfoDict]:
    """Infos that have travelled."""
    if isinstance(infos, InfoList):
        return infos
    count, told = infos
    dicts = pickle.loads(told) if told else {}
    return [dicts.get(row) or {} for row in range(count)]


def _why_not_kept(vec: VecEnv[Any, Any]) -> str:
    """Why there can be no snapshot of a VecEnv, as far as one can tell before a reset; empty if nothing says so."""
    try:
        examine(vec)
        for layer in vec._snapshot_layers:
            layer._snapshot_keep(np.arange(vec.num_envs), True)
    except (TypeError, NotImplementedError) as error:
        return str(error)
    except Exception:  # of state that a reset makes
        return ""
    return ""
