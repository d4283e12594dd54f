"""RayVecEnv: shards of the sub-envs in Ray actors, on any number of machines."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from sekai.batching import inputs, layout
from sekai.batching.joining import join, join_infos
from sekai.batching.masks import full_masks
from sekai.checks import check_count, check_seconds
from sekai.compat.ray.cluster import connect
from sekai.compat.ray.pool import ShardPool
from sekai.compat.ray.shard import Command, Description, Place, unpacked, unpacked_infos
from sekai.errors import SpaceMismatch, VecEnvWorkerError
from sekai.registry.specs import EnvSpec
from sekai.results import VecResetResult, VecStepResult
from sekai.seeding import check_seed, spawn_seeds
from sekai.shards import ShardMaker
from sekai.snapshots import Snapshot
from sekai.snapshots.columns import spread
from sekai.snapshots.parts import cut_whole, join_kept
from sekai.snapshots.snapshot import Kept
from sekai.types import ActType, InfoDict, ObsType, OptionsType, SeedType
from sekai.vector.base import VecEnv
from sekai.vector.guard import CallGuard
from sekai.vector.remote import RemoteVecEnv

#: What the kit refuses in a shard and its callers are promised, by name.
_REFUSALS: dict[str, type[Exception]] = {kind.__name__: kind for kind in (TypeError, ValueError, NotImplementedError)}


class RayVecEnv(RemoteVecEnv[ObsType, ActType]):
    """Sub-envs in shards, each a VecEnv of some of them in a Ray actor, on this machine or others.

    For training with a market whose step is heavy: a step costs a message to each shard and back, about two ms,
    whatever the shard holds. A shard is a native env where the market has one, else a ``SyncVecEnv``. What a sub-env
    shows is what it would show in one VecEnv of all: seeds are spread over all ``num_envs``. Only the generator
    ``rng`` that the sub-envs of a native env share is one for each shard.

    **A loss is not seen.** A shard whose process or node dies is started again, elsewhere if need be; it goes back to
    its last snapshot, which this process keeps in the object store of its own node, and repeats every call since that
    changed it: steps, resets, seeds, attributes, calls of methods. The numbers are those of a run without a loss, as
    far as a market's follow from its snapshot and its calls. More than ``max_restarts`` losses of a shard raise
    ``VecEnvWorkerError``, in this call and every later one, which names its sub-envs and the node. A market that
    cannot be kept in a snapshot, which is warned of when it is made, or at the latest at its first reset, has no
    recovery: its first loss raises. One that can be kept then and later cannot is warned of as well: calls since its
    last snapshot are held, however many they become, and repeated.

    An exception in the market is none: it is raised at once, as ``VecEnvWorkerError`` with the remote traceback, and
    nothing is repeated. Its rank is the first sub-env of the shard, which counts its own from 0. Other shards may have
    made the step, or gone on from the snapshot of a ``restore()``, and the next call works.

    Actors use one thread each, or as many as ``ray_options={"num_cpus": ...}`` says. Ray is used as you have
    initialised it, otherwise as ``rollout`` does.

    Args:
        make: What the sub-envs are built from: an id, an ``EnvSpec``, or a callable that takes a ``range`` of them and
            returns a VecEnv of these. It is sent to the actors with cloudpickle.
        num_envs: The number N of sub-envs.
        kwargs: Of an id, what ``make_vec`` takes by keyword besides ``num_envs``; parameters with one value per sub-env
            are cut with them.
        num_shards: How many actors share the sub-envs, as evenly as it goes; None for one per CPU of the cluster, and
            at most one per sub-env.
        snapshot_every: After how many calls that change a shard its state is kept anew. Fewer cost more time, more
            take longer to repeat after a loss, and as much memory as their actions. 0 keeps none: there is no recovery.
        max_restarts: How often each shard is started again, in all.
        step_timeout: Seconds a call may take; a longer one raises ``VecEnvWorkerError`` naming the slow sub-envs, and
            the VecEnv stays closable. None for no limit.
        close_timeout: Seconds ``close()`` waits for shards before their actors are killed.
        ray_options: What Ray is told of each actor, as for ``Actor.options()``: ``num_cpus``, ``resources``,
            ``runtime_env``. By default they are spread over the nodes and reserve no CPU.

    Raises:
        EnvNotFound: Nothing is registered under the id.
        SpaceMismatch: The spaces of two shards differ.
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of range.
        VecEnvWorkerError: A shard could not be built.

    Examples:
        >>> vec = RayVecEnv("LimitOrderBook-v0", 64, num_shards=8, snapshot_every=50)
        >>> vec = RayVecEnv(lambda rows: MyVecEnv(len(rows)), 64)
    """

    _CALL, _GET_ATTR = "call", "get_attr"
    _pool: ShardPool

    def __init__(
        self,
        make: Any,
        num_envs: int,
        *,
        kwargs: Mapping[str, Any] | None = None,
        num_shards: int | None = None,
        snapshot_every: int = 100,
        max_restarts: int = 5,
        step_timeout: float | None = None,
        close_timeout: float = 5.0,
        ray_options: Mapping[str, Any] | None = None,
    ) -> None:
        import cloudpickle

        self.num_envs = check_count(num_envs, "num_envs")
        shards = None if num_shards is None else check_count(num_shards, "num_shards")
        every = check_count(snapshot_every, "snapshot_every", 0)
        restarts = check_count(max_restarts, "max_restarts", 0)
        self._step_timeout = None if step_timeout is None else check_seconds(step_timeout, "step_timeout")
        close_seconds = check_seconds(close_timeout, "close_timeout")
        options = dict(ray_options or {})
        for name in ("max_restarts", "max_task_retries", "max_concurrency", "lifetime", "name"):
            if name in options:
                raise ValueError(f"ray_options: expected none of what RayVecEnv itself decides, got {name!r}")
        maker = ShardMaker(make, self.num_envs, kwargs, where="RayVecEnv")
        connect()
        if shards is None:
            shards = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._slices = inputs.even_slices(self.num_envs, min(shards, self.num_envs))
        self._sizes = [rows.stop - rows.start for rows in self._slices]
        parts = [range(rows.start, rows.stop) for rows in self._slices]
        builds = [(rows, cloudpickle.dumps(maker.of(rows))) for rows in parts]
        self._pool = ShardPool(builds, options, every, restarts)
        self._stop = partial(self._pool.stop, close_seconds)
        self._guard = CallGuard(type(self).__name__, self._pool.lock)
        try:
            self._take_over(self._pool.build())
        except BaseException:
            self._closed = True
            self._stop()
            raise

    def _take_over(self, descriptions: Sequence[Description]) -> None:
        first = descriptions[0]
        for rows, other in zip(self._slices, descriptions, strict=True):
            for kind in ("observation_space", "action_space", "market", "autoreset"):
                expected, got = getattr(first, kind), getattr(other, kind)
                if expected != got:
                    where = f"the shard of sub-env {rows.start}"
                    raise SpaceMismatch(f"{where}: expected the {kind} of that of sub-env 0, {expected!r}, got {got!r}")
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        self.metadata = first.metadata
        self.autoreset = first.autoreset
        self._market = first.market
        self._calls_all = first.calls_all
        self._has_action_mask = any(each.has_action_mask for each in descriptions)
        if first.refusal and self._pool.snapshot_every:
            self._go_without_snapshots(first.refusal, stacklevel=4)

    def _go_without_snapshots(self, reason: str, stacklevel: int) -> None:
        self._pool.go_without_snapshots()
        warnings.warn(
            f"RayVecEnv: {' in '.join(self._market)} cannot be kept in a snapshot, so that a shard that is lost does "
            f"not come back (snapshot_every=0 says that this is known): {reason}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )

    @property
    def shards(self) -> list[Place]:
        """Where each shard runs: its ``rows``, the address of its ``node``, Ray's ``node_id``, and the ``pid`` there.

        Raises:
            VecEnvClosed: After ``close()``.
        """
        self._require_open("shards")
        return self._pool.places()

    @property
    def frozen(self) -> NDArray[np.bool_]:
        """Bool (num_envs,), a copy: the sub-envs that finished without autoreset and wait for ``reset()``."""
        return np.concatenate([shard.frozen for shard in self._pool.shards])

    # -- steps ---------------------------------------------------------------------------------------------

    def _step_commands(self, actions: Any) -> list[Command]:
        self._require_reset()
        batch = inputs.check_actions(self.action_space, self.num_envs, actions)
        if self._pool.snapshot_every:  # they may have to be repeated after the caller has changed them
            batch = layout.copy_batch(batch)
        return [Command("step", (part,)) for part in layout.split(self.action_space, batch, self._sizes)]

    def _reset_commands(self, seed: Any, options: Any) -> list[Command]:
        seeds: Any = inputs.spread_seeds(seed, self.num_envs) if _is_list(seed) else None
        if seeds is None and seed is not None:  # as an array, since a list of thousands takes long to send
            seeds = spawn_seeds(check_seed(seed, "reset(seed=...)"), self.num_envs)
        if options is not None and not isinstance(options, dict):
            options = inputs.spread_options(options, self.num_envs)
        every = isinstance(options, dict) or options is None
        keeps = self._pool.is_to_be_kept
        return [
            Command("reset", (None if seeds is None else seeds[rows], options if every else options[rows], keeps))
            for rows in self._slices
        ]

    def _reset_some(self, rows: NDArray[np.intp], given: list[tuple[SeedType, OptionsType]]) -> VecResetResult[Any]:
        """Begin new episodes in some sub-envs.

        Raises:
            VecEnvWorkerError: A sub-env failed, or a shard was lost too often or took longer than ``step_timeout``.
            AsyncCallPending: An earlier call is still running, in another thread or task.
        """

        def command(mine: NDArray[np.intp], places: NDArray[np.intp]) -> Command:
            each = [given[place] for place in places.tolist()]
            return Command("reset_some", (mine, [seed for seed, _ in each], [options for _, options in each]))

        return self._reset_rows("reset_envs()", rows, command)

    def _autoreset_options_of(self, rows: NDArray[np.intp]) -> list[OptionsType]:
        return self._ask_rows("reset_frozen()", rows, "autoreset_options")

    def _reset_rows(
        self, name: str, rows: NDArray[np.intp], command: Callable[[NDArray[np.intp], NDArray[np.intp]], Command]
    ) -> VecResetResult[Any]:
        values, places = self._of_rows(name, rows, command)
        told = [value for value in values if value is not None]
        if not told:
            return VecResetResult(layout.allocate(self.observation_space, 0), [])
        observations, infos = self._joined([part for part, _ in told]), self._joined_infos([part for _, part in told])
        order = np.argsort(places, kind="stable")
        if (order == np.arange(len(order))).all():
            return VecResetResult(observations, infos)
        return VecResetResult(layout.take(observations, order), [infos[row] for row in order.tolist()])

    def _step_result(self, values: list[Any]) -> VecStepResult[Any]:
        observations, rewards, terminated, truncated, infos = zip(*values, strict=True)
        return VecStepResult(
            self._joined(observations),
            np.concatenate(rewards),
            np.concatenate(terminated),
            np.concatenate(truncated),
            self._joined_infos(infos),
        )

    def _reset_result(self, values: list[Any]) -> VecResetResult[Any]:
        observations, infos, states = zip(*values, strict=True)
        self._take_states(states, stacklevel=5)
        self._has_reset = True
        return VecResetResult(self._joined(observations), self._joined_infos(infos))

    def _take_states(self, states: Sequence[Any], stacklevel: int) -> None:
        """Keep the first states that shards have told, or warn that there are none."""
        reason = next((state for state in states if isinstance(state, str)), None)
        if reason is not None:
            self._go_without_snapshots(reason, stacklevel)
        elif all(state is not None for state in states):
            self._pool.keep_all(states)

    def _joined(self, parts: Sequence[Any]) -> Any:
        """The observations of shards as one batch, in fresh arrays: what comes from the object store is read-only."""
        batches = [unpacked(part) for part in parts]
        return join(batches, batches[0])

    def _joined_infos(self, parts: Sequence[Any]) -> list[InfoDict]:
        return join_infos([unpacked_infos(part) for part in parts])

    # -- attributes ----------------------------------------------------------------------------------------

    def action_mask(self) -> Any:
        """Which actions make sense now in each sub-env, which the shards are asked for (see ``VecEnv.action_mask``).

        Raises:
            VecEnvWorkerError: A sub-env has failed to say, or has said what is no mask.
        """
        self._require_open("action_mask()")
        if not self._has_action_mask:
            return None
        self._require_begun("action_mask()")
        told = self._exchange("action_mask()", self._each(Command("action_mask")))
        sizes = zip(told, self._sizes, strict=True)
        masks = [full_masks(self.action_space, size) if part is None else part for part, size in sizes]
        return join(masks, masks[0])

    @property
    def has_action_mask(self) -> bool:
        """Whether a sub-env of a shard has masks."""
        return self._has_action_mask

    def call_at(self, indices: Any, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """``call()`` for some sub-envs.

        Raises:
            VecEnvAttributeError: There is no such name.
            VecEnvWorkerError: The call failed, or its value cannot be pickled.
        """
        self._require_open("call_at()")
        if self._calls_all:  # or it would be some shards alone that change
            return VecEnv.call_at(self, indices, method, *args, **kwargs)
        return super().call_at(indices, method, *args, **kwargs)

    def set_attr(self, name: str, values: list[Any] | Any, indices: Any = None, *, force: bool = False) -> None:
        """Change an attribute of sub-envs (see ``VecEnv.set_attr``).

        Raises:
            VecEnvAttributeError: There is no such name; other shards may have taken their values.
            VecEnvWorkerError: The market refuses a value; other shards may have taken theirs.
            ValueError: A list has another length than there are sub-envs to change.
        """
        self._require_open("set_attr()")
        rows = inputs.check_rows(indices, self.num_envs, "set_attr(indices=...)", distinct=True)
        inputs.spread_values(name, values, len(rows), "num_envs" if indices is None else "indices")

        def command(mine: NDArray[np.intp], places: NDArray[np.intp]) -> Command:
            # One value for all stays one: it may be a parameter of the whole market.
            own = [values[place] for place in places.tolist()] if isinstance(values, list) else values
            which = None if indices is None else mine.tolist()
            return Command("set_attr", (which, name, own, force), sets=(name, which))

        self._of_rows("set_attr()", rows, command)

    def _reseed(self, rows: NDArray[np.intp], seeds: list[SeedType], whole: list[SeedType] | SeedType) -> None:
        """Give some sub-envs other streams.

        Raises:
            VecEnvWorkerError: A sub-env does not draw from ``Env.rng``.
        """

        def command(mine: NDArray[np.intp], places: NDArray[np.intp]) -> Command:
            return Command("reseed", ([seeds[place] for place in places.tolist()], None if whole is not None else mine))

        self._of_rows("reseed()", rows, command)

    # -- snapshots -----------------------------------------------------------------------------------------

    @property
    def _snapshot_market(self) -> tuple[str, ...]:
        return (" in ".join(self._market),)

    def _snapshot_keep(self, rows: NDArray[np.intp], is_whole: bool) -> Kept:
        """What the shards tell of sub-envs.

        Raises:
            VecEnvWorkerError: A sub-env cannot be kept.
        """
        distinct = np.unique(rows)
        values, _ = self._of_rows(
            "snapshot()", distinct, lambda mine, places: Command("snapshot", (None if is_whole else mine,)), _REFUSALS
        )
        told = [value for value in values if value is not None]
        if not told:
            raise ValueError("snapshot(indices=...): expected at least one sub-env, got none")
        kept = join_kept(told, is_whole)
        if len(distinct) < len(rows) or (distinct != rows).any():
            order = np.searchsorted(distinct, rows)
            return kept._replace(columns={name: column[order] for name, column in kept.columns.items()})
        return kept

    def _snapshot_restorer(self, rows: NDArray[np.intp], kept: Kept, keep_parameters: bool) -> Callable[[], None]:
        """Show the shards what their sub-envs are to go on from.

        Raises:
            VecEnvWorkerError: It cannot be read.
        """
        wholes = None if kept.whole is None else cut_whole(dict(kept.whole), len(self._slices))
        columns = {name: spread(column, len(rows)) for name, column in kept.columns.items()}
        spaces = self.observation_space, self.action_space
        parameters = "keep" if keep_parameters else "match"

        def command(name: str, *more: Any) -> Callable[[NDArray[np.intp], NDArray[np.intp]], Command]:
            whole = iter(wholes or ())

            def make(mine: NDArray[np.intp], places: NDArray[np.intp]) -> Command:
                own = {key: column[places] for key, column in columns.items()}
                part = Snapshot(self._market, spaces, Kept(own, kept.shared, None if wholes is None else next(whole)))
                return Command(name, (part, None if wholes is not None else mine, parameters, *more))

            return make

        self._of_rows("restore()", rows, command("check"), _REFUSALS)

        def commit() -> None:
            states, _ = self._of_rows("restore()", rows, command("restore", self._pool.is_to_be_kept))
            self._take_states(states, stacklevel=4)

        return commit

    def _observe_now(self) -> Any:
        return self._joined(self._exchange("observe", self._each(Command("observe"))))

    # -- parts of them -------------------------------------------------------------------------------------

    def _each(self, command: Command) -> list[Command]:
        return [command] * len(self._slices)

    def _of_rows(
        self,
        name: str,
        rows: NDArray[np.intp],
        command: Callable[[NDArray[np.intp], NDArray[np.intp]], Command],
        refusals: Mapping[str, type[Exception]] | None = None,
    ) -> tuple[list[Any], NDArray[np.intp]]:
        """Tell those shards something that have some of these sub-envs.

        Args:
            name: The call.
            rows: The sub-envs.
            command: Makes it, of which of its own sub-envs are meant, and of their places among all that are.
            refusals: Exceptions that are raised as they are, by name.

        Returns:
            The answer of each shard, None where it was not asked; and the places, one shard's after another's.
        """
        commands: list[Command | None] = []
        every = []
        for part in self._slices:
            places = np.flatnonzero((rows >= part.start) & (rows < part.stop))
            every.append(places)
            commands.append(command(rows[places] - part.start, places) if places.size else None)
        try:
            return self._exchange(name, commands), np.concatenate(every)
        except VecEnvWorkerError as error:
            if error.exc_type in (refusals or {}):
                raise (refusals or {})[error.exc_type](error.message) from error
            raise

    def _ask_rows(self, name: str, rows: NDArray[np.intp], command: str, *general: Any) -> list[Any]:
        """The values of some sub-envs, in the order of the rows."""
        is_all = len(rows) == self.num_envs and bool((rows == np.arange(self.num_envs)).all())
        values, places = self._of_rows(
            name, rows, lambda mine, places: Command(command, (None if is_all else mine, *general))
        )
        told = [value for part in values if part is not None for value in pickle.loads(part)]
        answers: list[Any] = [None] * len(rows)
        for place, value in zip(places.tolist(), told, strict=True):
            answers[place] = value
        return answers

    def __reduce__(self) -> Any:
        raise TypeError("a RayVecEnv has actors and cannot be pickled or copied; make another one")


def make_ray_vec_env(
    spec: EnvSpec,
    num_envs: int,
    vector_kwargs: Mapping[str, Any],
    wrappers: Sequence[Any],
    env_kwargs: Mapping[str, Any],
) -> RayVecEnv[Any, Any]:
    """``make_vec`` in mode "ray", whose arguments these are.

    Of ``vector_kwargs`` those that ``RayVecEnv`` names are its own, and the others those of the VecEnv of each shard.
    """
    own = inspect.signature(RayVecEnv.__init__).parameters.keys() - {"self", "make", "kwargs"}
    of_shards = {name: value for name, value in vector_kwargs.items() if name not in own}
    kwargs = {**env_kwargs, "vector_kwargs": of_shards, "wrappers": wrappers}
    mine = {name: value for name, value in vector_kwargs.items() if name in own}
    return RayVecEnv(spec, num_envs, kwargs=kwargs, **mine)


def _is_list(seed: Any) -> bool:
    return isinstance(seed, (list, tuple)) or np.ndim(seed) > 0
