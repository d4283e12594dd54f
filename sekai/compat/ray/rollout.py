"""Rollouts whose shards are Ray tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import ray

from sekai.checks import check_count
from sekai.compat.ray.tasks import Failure, run_shard
from sekai.errors import VecEnvWorkerError
from sekai.progress import progress_bar
from sekai.rollouts import Rollout
from sekai.rollouts.joining import Joining
from sekai.shards.cutting import where_rows
from sekai.shards.rolling import ShardedWork
from sekai.snapshots import Snapshot
from sekai.types import SeedType


def rollout(
    make: Any,
    policy: Any,
    steps: int,
    *,
    num_envs: int,
    seed: list[SeedType] | SeedType = None,
    options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    start: Snapshot | None = None,
    kwargs: Mapping[str, Any] | None = None,
    shard_size: int | None = None,
    infos: Iterable[str] = (),
    summarise: Callable[[Rollout], Any] | None = None,
    combine: Callable[[list[Any]], Any] | None = None,
    max_in_flight: int | None = None,
    num_cpus: float = 1,
    max_retries: int = 5,
    progress: bool = True,
) -> Any:
    """Roll out a policy in many sub-envs, shard by shard on the machines of a Ray cluster.

    It gives what ``sekai.rollout`` gives of all sub-envs at once, bit for bit, whatever the size of shards, the number
    of machines and what is lost on the way, where sub-envs do not depend on each other: where the policy's action for
    one follows from its observation alone, as those of a policy of rows do, and where the market draws from its
    streams. A market that has drawn from ``rng``, or a wrapper that gathers statistics over sub-envs, is refused. A
    policy that is a plain function of a batch is called with the batch of a shard, and has to be the same for a row in
    any batch: one with a number for each sub-env, or with a generator, belongs into a ``PerShard``.

    Sub-envs are cut into shards of a fixed size. A task builds a VecEnv of its own, with their arguments alone and the
    seeds that they have in the whole, rolls it out, in one compiled loop where that can be, on one thread, and hands
    back the record or a summary. What is defined in a script travels with it; a module of your own has to be
    importable on every machine (see Ray's ``runtime_env``).

    A task whose process or node dies is run again, on any machine. What a market or a policy raises is raised here as
    it is, not tried again; its cause names the sub-envs and has the traceback of the task.

    Ray is used as you have initialised it; otherwise ``ray.init()`` does, with its defaults: the cluster that
    ``RAY_ADDRESS`` names, or that this machine belongs to, or else all cores of this machine, until this process ends
    or ``ray.shutdown()``.

    Args:
        make: An id, an ``EnvSpec``, or a callable that takes a ``range`` of sub-envs and returns a VecEnv of these:
            ``lambda rows: Market(len(rows), speed=speeds[rows.start : rows.stop])``. It is built anew for each shard.
        policy: As ``sekai.rollout`` takes it; or a ``PerShard``, for one that is built from the environment.
        steps: The number T of steps.
        num_envs: The number N of sub-envs.
        seed: As ``VecEnv.reset`` takes it, but for generators; None for one drawn now.
        options: Of the reset, as ``VecEnv.reset`` takes them.
        start: Instead of a reset, a snapshot of N sub-envs, or of one for all.
        kwargs: With an id, what ``sekai.make_vec`` takes by keyword: arguments of the environment,
            ``vectorization_mode`` and so on. Those that are one number per sub-env are cut with them, also in price
            models; what is one for all is not, even if it is as long. Where a market does not say which an argument is,
            ValueError; a callable does.
        shard_size: Sub-envs of a shard; None for 16,384 up to 256 steps, and fewer of longer rollouts, down to 4,096.
        infos: The keys of the infos to keep.
        summarise: Takes the ``Rollout`` of a shard, in its task, and returns what travels back instead of it. The
            memory of the record is used again: do not keep it there.
        combine: With ``summarise``, makes one result of the list of all, in the order of the shards.
        max_in_flight: Shards at most that are under way, or done and not taken yet, so that memory is bounded; None for
            two for each task that the cluster has the cores to run at once.
        num_cpus: Cores of a task; its kernels use as many threads.
        max_retries: How often a task is run again whose worker process or node was lost; -1 for always.
        progress: Draw a progress bar, if stderr is a terminal and tqdm is installed.

    Returns:
        A ``Rollout``; with ``summarise`` the list of its results, or what ``combine`` makes of it.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, or is not to be cut.
        DependentRows: Sub-envs depend on each other.
        EnvNotFound: Nothing is registered under the id.
        KeyError: No sub-env's info has one of the keys in the first step.
        VecEnvWorkerError: A shard was lost more than ``max_retries`` times, what it needs could not be read there (a
            module that is not installed, say), or what it raised cannot be pickled.

    Examples:
        >>> record = rollout("MarketMaking-v0", policy, 200, num_envs=100_000, seed=0)
        >>> mean = rollout(
        ...     "MarketMaking-v0", policy, 200, num_envs=10**6, seed=0,
        ...     summarise=lambda record: record.episode_returns.mean(), combine=np.mean,
        ... )
    """
    if combine is not None and (summarise is None or not callable(combine)):
        raise TypeError(f"rollout(combine=...): expected a function of a list, beside summarise=, got {combine!r}")
    infos = list(infos) if not isinstance(infos, str) and isinstance(infos, Iterable) else infos
    sharded = ShardedWork(
        make,
        policy,
        steps,
        num_envs=num_envs,
        seed=seed,
        options=options,
        start=start,
        kwargs=kwargs,
        shard_size=shard_size,
        infos=infos,
        summarise=summarise,
        joined=summarise is None,
    )
    results = _results(sharded, max_in_flight, num_cpus, max_retries, progress)
    if summarise is None:
        joining = Joining(sharded.rows[-1].stop, infos)
        for k, part in results:
            joining.add(sharded.rows[k], part)
        return joining.rollout()
    found = dict(results)
    data = [found[k] for k in range(len(sharded))]
    return data if combine is None else combine(data)


def rollout_shards(
    make: Any,
    policy: Any,
    steps: int,
    *,
    num_envs: int,
    seed: list[SeedType] | SeedType = None,
    options: list[dict[str, Any] | None] | dict[str, Any] | None = None,
    start: Snapshot | None = None,
    kwargs: Mapping[str, Any] | None = None,
    shard_size: int | None = None,
    infos: Iterable[str] = (),
    summarise: Callable[[Rollout], Any] | None = None,
    max_in_flight: int | None = None,
    num_cpus: float = 1,
    max_retries: int = 5,
    progress: bool = True,
) -> Iterator[tuple[range, Any]]:
    """The shards of ``rollout``, one by one as they are done, in whatever order that is.

    A new one begins when one is taken, so that no more than ``max_in_flight`` take memory. Those under way are given up
    when the iterator is closed. Arguments are those of ``rollout``, without ``combine``, and are checked when the first
    shard is asked for. A sub-env of each shard has to have each of the ``infos`` in the first step.

    Yields:
        The sub-envs of a shard, as a range, and its ``Rollout``, whose arrays are read-only, or what ``summarise`` has
        made of it.

    Raises:
        Exception: What ``rollout`` raises.
    """
    sharded = ShardedWork(
        make,
        policy,
        steps,
        num_envs=num_envs,
        seed=seed,
        options=options,
        start=start,
        kwargs=kwargs,
        shard_size=shard_size,
        infos=infos,
        summarise=summarise,
    )
    for k, result in _results(sharded, max_in_flight, num_cpus, max_retries, progress):
        yield sharded.rows[k], result


def _results(
    sharded: ShardedWork, max_in_flight: int | None, num_cpus: float, max_retries: int, progress: bool
) -> Iterator[tuple[int, Any]]:
    """The numbers and results of shards as they are done."""
    if isinstance(num_cpus, bool) or not isinstance(num_cpus, (int, float)) or not num_cpus >= 0:
        raise ValueError(f"rollout(num_cpus=...): expected a number of at least 0, got {num_cpus!r}")
    check_count(max_retries, "rollout(max_retries=...)", minimum=-1)
    if max_in_flight is not None:
        check_count(max_in_flight, "rollout(max_in_flight=...)")
    if not ray.is_initialized():
        ray.init()
    limit = max_in_flight or 2 * max(int(ray.cluster_resources().get("CPU", 1) // max(num_cpus, 1)), 1)
    task = ray.remote(run_shard).options(num_cpus=num_cpus, max_retries=max_retries, retry_exceptions=False)
    work = ray.put(sharded.work)
    waiting = iter(range(len(sharded)))
    running: dict[Any, int] = {}
    try:
        with progress_bar(sharded.rows[-1].stop, "sub-env", wanted=progress) as advance:
            while True:
                for k in waiting:
                    running[task.remote(work, sharded.shard(k), max(int(num_cpus), 1))] = k
                    if len(running) >= limit:
                        break
                if not running:
                    return
                [done], _ = ray.wait(list(running), num_returns=1)
                k = running.pop(done)
                result = _result(done, sharded.rows[k])
                del done  # whose memory is free once the result is
                advance(len(sharded.rows[k]))
                yield k, result
                del result
    finally:
        for reference in running if ray.is_initialized() else ():
            ray.cancel(reference)


def _result(reference: Any, rows: range) -> Any:
    """What a task has handed back.

    Raises:
        VecEnvWorkerError: It was lost for good.
        Exception: What it raised.
    """
    try:
        result = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise VecEnvWorkerError(rows.start, type(error).__name__, f"{error} ({where_rows(rows)})") from error
    if isinstance(result, Failure):
        raise result.raised(rows)
    return result
