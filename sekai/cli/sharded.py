"""Runs cut into shards, here one after another, or as tasks on Ray."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.cli.common import CommandError, mistakes_of_the_user
from sekai.cli.options import RANDOM
from sekai.cli.policies import Policy, build_policy
from sekai.errors import DependentRows
from sekai.progress import progress_bar
from sekai.registry.entry_points import load_entry_point
from sekai.registry.specs import EnvSpec
from sekai.rollouts import EpisodeSums
from sekai.shards.cutting import split_rows
from sekai.shards.making import ShardMaker
from sekai.shards.rolling import ShardedWork

if TYPE_CHECKING:
    from sekai.vector import VecEnv


@dataclass(frozen=True)
class NamedPolicy:
    """Builds the policy of a shard by its name.

    Attributes:
        name: ``RANDOM``, or one that the environment offers.
        seed: Of random actions, which are other ones in each shard.
    """

    name: str
    seed: int

    def policy_for(self, vec: VecEnv[Any, Any], rows: range) -> Policy:
        """The policy for the rows of a shard."""
        seed = self.seed
        if self.name == RANDOM and rows.start:
            seed = int(np.random.SeedSequence([seed, rows.start]).generate_state(1, np.uint64)[0])
        return build_policy(vec, self.name, seed)


@dataclass(frozen=True)
class ShardedRun:
    """What the runs of a command have in common.

    Attributes:
        spec: The environment.
        mode: How sub-envs are run within a shard.
        vector_kwargs: Further arguments of the backend.
        policy: The name of the policy.
        seed: Of resets and random actions.
        num_envs: Number of sub-envs.
        steps: Steps of every sub-env.
        shard_size: Sub-envs of a shard; None for the kit's number.
        distributed: Whether shards are tasks on Ray.
    """

    spec: EnvSpec
    mode: str
    vector_kwargs: dict[str, Any] | None
    policy: str
    seed: int
    num_envs: int
    steps: int
    shard_size: int | None
    distributed: bool

    def check(self, settings: Mapping[str, Any]) -> None:
        """Build the first shard, and the policy for it.

        Raises:
            CommandError: Either cannot be built, or autoreset is off.
        """
        rows = split_rows(self.num_envs, self.shard_size, self.steps)[0]
        with mistakes_of_the_user():
            vec = ShardMaker(self.spec, self.num_envs, self._kwargs(settings), "--set").of(rows)()
        with vec:
            if not vec.autoreset:
                raise CommandError(f"{self.spec.id} is registered with autoreset off, so its episodes would not go on")
            NamedPolicy(self.policy, self.seed).policy_for(vec, rows)

    def run(self, settings: Mapping[str, Any]) -> EpisodeSums:
        """The sums over all episodes that end, with these arguments of the environment.

        Raises:
            CommandError: Shards depend on each other.
        """
        return joined(dict(self.shards(settings)))

    def shards(self, settings: Mapping[str, Any]) -> Iterator[tuple[range, EpisodeSums]]:
        """The rows of each shard and the sums over their episodes, as they are done.

        Raises:
            CommandError: Shards depend on each other.
        """
        given: dict[str, Any] = {
            "num_envs": self.num_envs,
            "seed": self.seed,
            "kwargs": self._kwargs(settings),
            "shard_size": self.shard_size,
            "summarise": EpisodeSums.of,
        }
        work: tuple[Any, ...] = (self.spec, NamedPolicy(self.policy, self.seed), self.steps)
        try:
            if self.distributed:
                yield from load_entry_point("sekai.compat.ray:rollout_shards", "--distributed")(*work, **given)
                return
            with progress_bar(self.num_envs, "sub-env") as advance:
                for rows, sums in ShardedWork(*work, **given).each():
                    yield rows, sums
                    advance(len(rows))
        except DependentRows as error:
            raise CommandError(str(error)) from error

    def _kwargs(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {"vectorization_mode": self.mode, "vector_kwargs": self.vector_kwargs, **settings}


def joined(sums: Mapping[range, EpisodeSums]) -> EpisodeSums:
    """The sums of shards by their rows, which may have been done in any order, as one."""
    ordered = [sums[rows] for rows in sorted(sums, key=lambda rows: rows.start)]
    return EpisodeSums.join(ordered) if ordered else EpisodeSums()


def connect(args: argparse.Namespace) -> None:
    """Find the Ray cluster that the arguments name, or start one, if they say that the run is distributed.

    Raises:
        CommandError: There is none, Ray is not installed, or ``--address`` is given alone.
    """
    if not args.distributed:
        if args.address is not None:
            raise CommandError(f"--address: expected --distributed beside it, got {args.address!r} alone")
        return
    with mistakes_of_the_user():
        load_entry_point("sekai.compat.ray.cluster:connect", "--distributed")(args.address)
