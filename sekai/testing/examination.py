"""The order of the checks of a market, and what of each depends on those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sekai.testing.bounds import find_beyond
from sekai.testing.casts import cast_hints
from sekai.testing.episodes import check_autoreset, check_freezing, early_reset_hints
from sekai.testing.independence import check_independence
from sekai.testing.kernels import check_kernels, compiles, find_forms, global_draws, vectorisation_hints
from sekai.testing.memory import check_writes
from sekai.testing.native import check_early_resets, check_left_out, check_observing
from sekai.testing.outside import acceptance_hints
from sekai.testing.reach import find_kernels
from sekai.testing.rebound import rebound_hints
from sekai.testing.recording import Recording, record
from sekai.testing.reference import Inputs, ReferenceRun, VecEnvFactory
from sekai.testing.repeat import check_asking, check_repeat
from sekai.testing.restoring import check_restoring, check_restoring_frozen
from sekai.testing.shown import CallFailed
from sekai.testing.unread import unread_hints
from sekai.testing.wide import check_wide, count_rows
from sekai.vector import NativeVecEnv, VecEnv

#: Episodes that a run gets by means of a time limit where none ends by itself.
_EPISODES = 8


class Examination:
    """One examination of a market.

    Args:
        factory: Builds the market.
        num_envs: Sub-envs of the runs that are compared.
        check_bounds: Whether indexes of kernels are checked.

    Attributes:
        problems: What was found.
        hints: What may be worth a look.
    """

    def __init__(self, factory: VecEnvFactory, num_envs: int, check_bounds: bool) -> None:
        self.factory = factory
        self.num_envs = num_envs
        self.check_bounds = check_bounds
        self.problems: list[str] = []
        self.hints: list[str] = []

    def run(self, n_steps: int, seed: int) -> None:
        """Make every check that the ones before it leave sensible."""
        try:
            self._run(n_steps, seed)
        except CallFailed as failure:
            self.problems.append(str(failure))

    def _run(self, n_steps: int, seed: int) -> None:
        with self.factory.open(self.num_envs) as vec:
            inputs = self._allowed(Inputs.draw(vec, n_steps, seed), seed)
            if self._goes_beyond(vec, inputs):  # what else there is to see may come of memory that is not the market's
                return
            recording = record(vec, inputs)
            kernels = find_kernels(vec.unwrapped)
            is_native = isinstance(vec.unwrapped, NativeVecEnv)
            self.hints += unread_hints(vec.unwrapped) + rebound_hints(type(vec.unwrapped))
        if is_native:
            limit = self._limit(inputs)
            self.problems += self.factory.lost_arguments(max_episode_steps=limit, autoreset_options={})
        compiled = compiles()
        forms = find_forms(kernels) if compiled else []
        recording.global_draws |= global_draws(forms)
        self.problems += recording.problems.values()
        if recording.completed:
            inputs, recording = self._record_ends(inputs, recording, seed)
        if recording.completed:
            reference = ReferenceRun(self.factory, self.num_envs, inputs, recording.shown, recording.draws_shared)
            # Kernels that are not compiled take too long over thousands of rows.
            is_quick = is_native and (compiled or not (kernels.batches or kernels.plain))
            if not self._try(check_repeat, reference, recording.global_draws):
                self._compare(reference, recording, count_rows(reference, kernels) if is_quick else 0)
                self.hints += cast_hints(reference) + acceptance_hints(reference)
        if compiled:
            self.problems += check_kernels(kernels, forms)
            self.hints += vectorisation_hints(forms)

    def _goes_beyond(self, vec: VecEnv[Any, Any], inputs: Inputs) -> bool:
        """Whether an index of a kernel is known to lie beyond its array."""
        kernels = find_kernels(vec.unwrapped)
        if not (self.check_bounds and compiles() and (kernels.batches or kernels.dispatchers)):
            return False
        problems, hints = find_beyond(self.factory, self.num_envs, inputs)
        self.problems += problems
        self.hints += hints
        return bool(problems)

    def _allowed(self, inputs: Inputs, seed: int) -> Inputs:
        """The inputs with actions that masks allow."""
        with self.factory.open(self.num_envs) as vec:
            return inputs.allowed(vec, seed)

    def _record_ends(self, inputs: Inputs, recording: Recording, seed: int) -> tuple[Inputs, Recording]:
        """A recording in which episodes end, if there can be one; what it finds besides goes to the problems."""
        if any(shown.done for shown in recording.shown):
            return inputs, recording
        limited = self.factory.having(max_episode_steps=self._limit(inputs))
        if limited is None:
            self.hints.append(
                f"no episode ended within {len(inputs.actions)} steps, so autoreset and freezing were not seen; "
                "take more steps, or a factory that takes max_episode_steps"
            )
            return inputs, recording
        self.factory = limited
        inputs = self._allowed(inputs, seed)
        with limited.open(self.num_envs) as vec:
            again = record(vec, inputs)
        self.problems += [again.problems[kind] for kind in again.problems if kind not in recording.problems]
        again.problems = {**again.problems, **recording.problems}
        again.global_draws = recording.global_draws
        return inputs, again

    def _limit(self, inputs: Inputs) -> int:
        """A time limit under which a run has several episodes."""
        return max(1, len(inputs.actions) // _EPISODES)

    def _compare(self, reference: ReferenceRun, recording: Recording, wide_rows: int) -> None:
        """Compare other runs with the first."""
        if reference.draws_shared:
            self.hints.append(
                "draws come from self.rng, shared by all sub-envs, so row i depends on num_envs; "
                "self.streams gives each sub-env its own"
            )
        if "alias" not in recording.problems:
            self._try(check_writes, reference)
        for check in (check_asking, check_left_out, check_observing, check_early_resets):
            if self._try(check, reference):
                return
        independent = not self._try(check_independence, reference)
        if wide_rows and independent:
            self._try(check_wide, reference, wide_rows, compare=not reference.draws_shared)
        ends = any(shown.done for shown in reference.shown)
        if ends and "autoreset" not in recording.problems:
            self._check_episodes(reference, independent)
        if not self.problems:
            self._check_restoring(reference, ends)

    def _check_episodes(self, reference: ReferenceRun, independent: bool) -> None:
        """Check autoreset and freezing, or freezing alone where the factory gives no autoreset."""
        with self.factory.open(1) as vec:
            autoreset = vec.autoreset
        if not autoreset:
            self._try(check_freezing, reference, self.factory, compare=False)
            return
        frozen = self.factory.having(autoreset=False)
        if frozen is None:
            self.hints.append("the factory takes no autoreset=False, so freezing and final observations were not seen")
            return
        by_hand = self._try(check_autoreset, reference, frozen)
        self.hints += [] if by_hand else early_reset_hints(reference)
        self._try(check_freezing, reference, frozen, compare=independent and not by_hand)

    def _check_restoring(self, reference: ReferenceRun, ends: bool) -> None:
        """Check snapshots, with frozen sub-envs too where there are some."""
        hints: list[str] = []
        apart = not reference.draws_shared
        problems = self._try(check_restoring, reference, hints, apart=apart)
        frozen = self.factory.having(autoreset=False) if ends and not problems and not hints else None
        if frozen is not None:
            self._try(check_restoring_frozen, reference, frozen, hints, apart=apart)
        self.hints += hints

    def _try(self, check: Callable[..., list[str]], *args: Any, **options: Any) -> list[str]:
        """The problems that a check finds, a failure within it being one."""
        try:
            problems = check(*args, **options)
        except CallFailed as failure:
            problems = [str(failure)]
        self.problems += problems
        return problems
