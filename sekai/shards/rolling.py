"""Rollouts of shards: what all of them have in common, and what a single one is."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sekai.checks import check_count
from sekai.errors import DependentRows
from sekai.rollouts import Rollout, rollout
from sekai.rollouts.joining import roll_part
from sekai.rollouts.run import check_keys
from sekai.shards.cutting import Reset, Resets, split_rows, where_rows
from sekai.shards.making import Recipe, ShardMaker
from sekai.snapshots.agreement import dumps
from sekai.vector import NativeVecEnv, VecEnv, VecWrapper

#: What a policy is, see ``sekai.rollout``: from observations to actions, or of one row.
Policy = Any


class BuildsPolicies(Protocol):
    """Something that is no policy, but builds the one of each shard."""

    def policy_for(self, vec: VecEnv[Any, Any], rows: range) -> Policy:
        """The policy for the VecEnv of some rows."""


class PerShard:
    """Stands for a policy that is built from the VecEnv that it acts in: each shard builds one of its own.

    Args:
        build: ``build(vec)`` gives the policy: ``GLFT.for_env``, say.

    Raises:
        TypeError: It cannot be called.

    Examples:
        >>> policy = PerShard(GLFT.for_env)
        >>> rollout("MarketMaking-v0", policy, 200, num_envs=1_000_000, kwargs={"volatility": numbers})
    """

    def __init__(self, build: Callable[[Any], Policy]) -> None:
        if not callable(build):
            raise TypeError(f"PerShard(build): expected a function of a VecEnv, got {build!r}")
        self._build = build

    def policy_for(self, vec: VecEnv[Any, Any], rows: range) -> Policy:
        """What ``build`` gives."""
        return self._build(vec)


class Shard(NamedTuple):
    """One shard: all that it does not share with the others.

    Attributes:
        rows: Its rows.
        own: The arguments of their VecEnv alone.
        reset: Their reset.
    """

    rows: range
    own: list[dict[str, Any]]
    reset: Reset


@dataclass(frozen=True)
class Work:
    """What is done with every shard: a rollout, of which something is handed back.

    Attributes:
        num_envs: The number N of all rows.
        recipe: Builds their VecEnvs.
        policy: For all shards, or a ``BuildsPolicies``.
        steps: The number T of steps.
        infos: The keys of the infos to keep.
        summarise: From a shard's record to what is handed back; None for the record itself.
        joined: Whether it is a ``Part`` instead, to be put together with the others.
        where: What error messages begin with.
    """

    num_envs: int
    recipe: Recipe
    policy: Policy
    steps: int
    infos: list[str]
    summarise: Callable[[Rollout], Any] | None
    joined: bool
    where: str

    def do(self, shard: Shard, memory: dict[Any, Rollout] | None = None) -> Any:
        """Roll out a shard.

        Args:
            shard: Which.
            memory: Where the last record is kept, once it is summarised, to be written over by the next one of its
                size, of whichever work; no summary may hold a part of it by then. None for fresh memory, which records
                have that are handed back themselves.

        Raises:
            DependentRows: The shard cannot have the numbers of its rows in the whole (see ``require_rows_alone``).
            TypeError: ``summarise`` returns a generator.
        """
        if self.summarise is None:
            memory = None
        with self.recipe.build(shard.rows, shard.own) as vec:
            policy = self.policy
            if hasattr(policy, "policy_for"):
                policy = policy.policy_for(vec, shard.rows)
            before, reset = _statistics(vec), shard.reset.arguments()
            fits, out = self._memory_of(vec), None
            if memory is not None:
                out = memory.pop(fits, None)
                memory.clear()  # of another size
            if self.joined:
                result: Any = roll_part(vec, policy, self.steps, self.infos, **reset)
            else:
                result = rollout(vec, policy, self.steps, infos=self.infos, progress=False, out=out, **reset)
            if len(shard.rows) < self.num_envs:
                require_rows_alone(vec, before, f"{self.where}, {where_rows(shard.rows)}")
        summary = result if self.summarise is None else self.summarise(result)
        if isinstance(summary, Generator):  # which Ray would take for the values that it yields
            raise TypeError(f"{self.where}(summarise=...): expected a function that returns a value, got a generator")
        if memory is not None:
            memory[fits] = result
        return summary

    def _memory_of(self, vec: VecEnv[Any, Any]) -> tuple[Any, ...]:
        """What two records have in common of which one may take the memory of the other."""
        return self.steps, vec.num_envs, repr(vec.observation_space), repr(vec.action_space)


def _statistics(vec: VecEnv[Any, Any]) -> list[bytes]:
    """What the wrappers around a VecEnv have gathered over all its sub-envs, from the outside in."""
    found = []
    while isinstance(vec, VecWrapper):
        found.append(pickle.dumps(vec._snapshot_whole()))
        vec = vec.venv
    return found


def require_rows_alone(vec: VecEnv[Any, Any], before: list[bytes], where: str) -> None:
    """Refuse a VecEnv whose sub-envs have something in common that decides what they do, since in the whole more do.

    Args:
        vec: After its rollout.
        before: What its wrappers had gathered before that.
        where: What the error message begins with.

    Raises:
        DependentRows: A native env has drawn from ``rng``, or a wrapper has gathered statistics; the message names it.
    """
    remedy = "; one shard can hold all of them (shard_size=num_envs)"
    for gathered, now in zip(before, _statistics(vec), strict=True):
        if now != gathered:
            expected = "expected a VecEnv in which rows do not depend on each other"
            got = f"{type(vec).__name__}, which gathers statistics over all of them"
            raise DependentRows(f"{where}: {expected}, got {got}{remedy}")
        assert isinstance(vec, VecWrapper)
        vec = vec.venv
    if isinstance(vec, NativeVecEnv) and vec._is_rng_drawn():
        expected = "expected a market that draws from self.streams, where rows have numbers of their own"
        got = f"{type(vec).__name__}, which draws from self.rng, one generator for all of them"
        raise DependentRows(f"{where}: {expected}, got {got}{remedy}")


class ShardedWork:
    """A rollout of many rows, cut into shards.

    Args:
        make: As ``ShardMaker`` takes it.
        policy: A policy as ``sekai.rollout`` takes it, or a ``PerShard``.
        steps: The number T of steps.
        num_envs: The number N of rows.
        seed: As ``Resets`` takes it.
        options: Likewise.
        start: Likewise.
        kwargs: As ``ShardMaker`` takes them.
        shard_size: Rows of a shard, as ``split_rows`` takes it.
        infos: The keys of the infos to keep.
        summarise: From the record of a shard to what is handed back of it.
        joined: Whether what is handed back is a ``Part``.
        where: What error messages begin with.

    Attributes:
        work: What is done with each.
        rows: The rows of each shard, in order.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: A number is below 1, or as of what is cut.
        EnvNotFound: Nothing is registered under the id.
    """

    def __init__(
        self,
        make: Any,
        policy: Policy,
        steps: int,
        *,
        num_envs: int,
        seed: Any = None,
        options: Any = None,
        start: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        shard_size: int | None = None,
        infos: Iterable[str] = (),
        summarise: Callable[[Rollout], Any] | None = None,
        joined: bool = False,
        where: str = "rollout",
    ) -> None:
        steps = check_count(steps, f"{where}(steps)")
        self.rows = split_rows(num_envs, shard_size, steps)
        num_envs = self.rows[-1].stop
        if summarise is not None and not callable(summarise):
            raise TypeError(f"{where}(summarise=...): expected a function of a Rollout or None, got {summarise!r}")
        self._maker = ShardMaker(make, num_envs, kwargs, where)
        recipe = self._maker.recipe(len(self.rows) > 1)
        self.work = Work(num_envs, recipe, policy, steps, check_keys(infos), summarise, joined, where)
        self._resets = Resets(num_envs, seed, options, start, where)

    def __len__(self) -> int:
        return len(self.rows)

    def shard(self, k: int) -> Shard:
        """A shard, by its number."""
        rows = self.rows[k]
        return Shard(rows, self._maker.own(rows), self._resets.of(rows))

    def each(self) -> Iterator[tuple[range, Any]]:
        """Do all of it here, shard after shard, in the memory of one; summaries are copies, as those of a task are."""
        memory: dict[Any, Rollout] = {}
        for k, rows in enumerate(self.rows):
            result = self.work.do(self.shard(k), memory)
            if self.work.summarise is not None:
                where = f"{self.work.where}(summarise=...), {where_rows(rows)}"
                result = pickle.loads(dumps(result, where))
            yield rows, result
