"""Builds the sub-envs that ``sekai bench`` measures, and measures them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, product
from typing import Any

from sekai.cli.benching.profiling import Profile, SubEnvClock, profile
from sekai.cli.benching.timing import Block, Cell, Stepper, take_turns
from sekai.cli.building import build_sub_envs, check_settings, find_spec, modes_of
from sekai.cli.common import CommandError, mistakes_of_the_user
from sekai.cli.options import RANDOM, parse_settings
from sekai.cli.policies import Policy, any_actions, choose_policy
from sekai.cores import usable_cores
from sekai.progress import progress_bar
from sekai.registry.build import choose_mode, entry_point_of
from sekai.registry.entry_points import load_entry_point
from sekai.vector import NativeVecEnv, VecEnv, VecNormalizeObservation, VecNormalizeReward, VecRecordEpisodeStatistics

#: Numbers of sub-envs: in mode "native", and in the modes that step one object per sub-env.
DEFAULT_NATIVE, DEFAULT_OTHERS = (1, 64, 1024, 16_384), (1, 8, 64)
#: How often the cells take turns.
ROUNDS = 5
#: The vector wrappers that ``--wrap`` can name.
WRAPPERS: dict[str, Callable[[VecEnv[Any, Any]], VecEnv[Any, Any]]] = {
    "statistics": VecRecordEpisodeStatistics,
    "normalize-observation": VecNormalizeObservation,
    "normalize-reward": VecNormalizeReward,
}

# Batches of random actions that are drawn beforehand.
_PREPARED = 8


class TestBed:
    """Builds what is to be measured, and measures it.

    Args:
        args: What the command was given (see ``sekai.cli.bench``).
        opened: Closes what was built.

    Attributes:
        spec: The environment.
        settings: Its arguments.

    Raises:
        CommandError: A mistake in the arguments.
    """

    def __init__(self, args: argparse.Namespace, opened: ExitStack) -> None:
        self._args = args
        self._opened = opened
        self._steppers: dict[Cell, Stepper] = {}
        self.settings = parse_settings(args.settings)
        self.spec = find_spec(args.env_id)
        with mistakes_of_the_user():
            self._modes = self._choose_modes(args.modes)
        for option, mode in (("threads", "native"), ("workers", "proc")):
            if getattr(args, option) and mode not in self._modes:
                raise CommandError(f"--{option}: expected {mode} among the modes, got {', '.join(self._modes)}")

    def _choose_modes(self, wanted: Sequence[str] | None) -> list[str]:
        """The modes that were asked for, or by default all in which the environment takes the settings."""
        modes = modes_of(self.spec) if wanted is None else [choose_mode(self.spec, mode) for mode in wanted]
        taken, refusals = [], []
        for mode in modes:
            try:
                check_settings(self.spec, entry_point_of(self.spec, mode), self.settings)
                taken.append(mode)
            except CommandError as refusal:
                refusals.append(refusal)
        if refusals and (wanted is not None or not taken):
            raise refusals[0]
        return taken

    def cells(self) -> list[Cell]:
        """What there is to measure, in the order of the table."""
        cells: list[Cell] = []
        for mode in self._modes:
            sizes = self._args.num_envs or (DEFAULT_NATIVE if mode == "native" else DEFAULT_OTHERS)
            for num_envs in sizes:
                threads = _threads(self._args.threads, num_envs) if mode == "native" else (None,)
                workers = _workers(self._args.workers, num_envs) if mode == "proc" else (None,)
                cells += [Cell(mode, num_envs, *spread) for spread in product(threads, workers)]
        return cells

    def time(self, cells: Sequence[Cell]) -> None:
        """Time the cells in turns."""

        def run(cell: Cell, seconds: float) -> Block:
            with _using(cell.threads):
                return self._steppers[cell].run(seconds)

        with progress_bar(len(cells) * (ROUNDS + 1), "block") as progress:
            for cell in cells:
                vec = self._opened.enter_context(self._build(cell))
                with _using(cell.threads):
                    self._steppers[cell] = self._stepper(vec, cell)
                cell.first_step_seconds = self._steppers[cell].first_step_seconds
            take_turns(cells, run, seconds=self._args.seconds, rounds=ROUNDS, progress=progress)

    def profiles(self, cells: Sequence[Cell]) -> Iterator[Profile]:
        """Where the time of a step goes in each cell, once they have been timed."""
        with progress_bar(len(cells), "profile") as progress:
            for cell in cells:
                with self._build(cell, clocks=True) as vec, _using(cell.threads):
                    clocked, plain = self._stepper(vec, cell), self._steppers[cell]
                    yield profile(vec, clocked, plain, seconds=self._args.seconds, rounds=ROUNDS)
                progress(1)

    def _build(self, cell: Cell, clocks: bool = False) -> VecEnv[Any, Any]:
        """What a cell measures; for a profile with clocks around the sub-envs, where there are any."""
        vector_kwargs = {"num_workers": cell.workers} if cell.mode == "proc" else None
        wrappers = (SubEnvClock,) if clocks and cell.mode != "native" else ()
        vec = build_sub_envs(self.spec, cell.num_envs, cell.mode, self.settings, vector_kwargs, wrappers)
        try:
            with mistakes_of_the_user():
                for name in self._args.wrap:
                    vec = WRAPPERS[name](vec)
        except BaseException:
            vec.close()
            raise
        return vec

    def _stepper(self, vec: VecEnv[Any, Any], cell: Cell) -> Stepper:
        is_random, seed = self._args.policy == RANDOM, self._args.seed
        if is_random and (self._is_native(vec, cell) or not vec.has_action_mask):
            policy = _prepared(any_actions(vec, seed))
        else:
            policy = choose_policy(vec, self._args.policy, seed)
        return Stepper(vec, policy, seed)

    def _is_native(self, vec: VecEnv[Any, Any], cell: Cell) -> bool:
        """Whether sub-envs are those of a native env, which takes what masks leave out; an Env may refuse it."""
        made_by = load_entry_point(entry_point_of(self.spec, cell.mode), self.spec.id)
        one_by_one = isinstance(made_by, type) and issubclass(made_by, NativeVecEnv)
        return one_by_one or isinstance(vec.unwrapped, NativeVecEnv)


def _prepared(policy: Policy) -> Policy:
    """A few batches of actions of a policy that looks at nothing, over and over."""
    batches = cycle([policy(None) for _ in range(_PREPARED)])
    return lambda observations: next(batches)


def _workers(wanted: Sequence[int] | None, num_envs: int) -> Sequence[int]:
    """The numbers of workers that were asked for, or by default one for each core; there are no more than sub-envs."""
    return tuple(dict.fromkeys(min(number, num_envs) for number in wanted or (usable_cores(),)))


def _threads(wanted: Sequence[int] | None, num_envs: int) -> Sequence[int]:
    """The numbers of threads that were asked for, no more than sub-envs, or by default one, and all for a large batch.

    Raises:
        CommandError: There are fewer.
    """
    from sekai.kernels import get_num_threads
    from sekai.kernels.batch import PARALLEL_FROM

    most = get_num_threads()
    if wanted is None:
        return tuple(dict.fromkeys((1, most if num_envs >= PARALLEL_FROM else 1)))
    for number in wanted:
        with _using(number):
            if get_num_threads() < number:
                raise CommandError(f"--threads: expected at most {get_num_threads()} (there are no more), got {number}")
    return tuple(dict.fromkeys(min(number, num_envs) for number in wanted))


@contextmanager
def _using(threads: int | None) -> Iterator[None]:
    """Let large native batches be spread over so many threads for as long as the block runs."""
    if threads is None:
        yield
        return
    from sekai.kernels import get_num_threads, set_num_threads

    before = get_num_threads()
    set_num_threads(threads)
    try:
        yield
    finally:
        set_num_threads(before)
