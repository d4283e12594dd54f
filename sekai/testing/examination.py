"""The order of the checks of a market, and what of each depends on those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sekai.testing.episodes import check_autoreset, check_freezing, early_reset_hints
from sekai.testing.independence import check_independence
from sekai.testing.kernels import check_kernels, compiles, find_forms, global_draws, vectorisation_hints
from sekai.testing.memory import check_writes
from sekai.testing.native import check_early_resets, check_observing
from sekai.testing.outcomes import CallFailed
from sekai.testing.reach import find_kernels
from sekai.testing.recording import Recording, record
from sekai.testing.repeat import check_repeat
from sekai.testing.trial import Drive, Market, Trial
from sekai.testing.wide import check_wide, count_rows
from sekai.vector import NativeVecEnv

#: Episodes that a run gets by means of a time limit where none ends by itself.
_EPISODES = 8


class Examination:
    """One examination of a market.

    Args:
        market: The market.
        num_envs: Sub-envs of the runs that are compared.

    Attributes:
        problems: What was found.
        hints: What may be worth a look.
    """

    def __init__(self, market: Market, num_envs: int) -> None:
        self.market = market
        self.num_envs = num_envs
        self.problems: list[str] = []
        self.hints: list[str] = []

    def run(self, n_steps: int, seed: int) -> None:
        """Make every check that the ones before it leave sensible."""
        try:
            self._run(n_steps, seed)
        except CallFailed as failure:
            self.problems.append(str(failure))

    def _run(self, n_steps: int, seed: int) -> None:
        with self.market.open(self.num_envs) as vec:
            drive = Drive.draw(vec, n_steps, seed)
            recording = record(vec, drive)
            kernels = find_kernels(vec.unwrapped)
            is_native = isinstance(vec.unwrapped, NativeVecEnv)
        compiled = compiles()
        forms = find_forms(kernels) if compiled else []
        recording.global_draws |= global_draws(forms)
        if recording.completed:
            recording = self._record_ends(drive, recording)
        self.problems += recording.problems.values()
        if recording.completed:
            trial = Trial(self.market, self.num_envs, drive, recording.outcomes, recording.draws_shared)
            # Kernels that are not compiled take too long over thousands of rows.
            is_quick = is_native and (compiled or not (kernels.batches or kernels.plain))
            if not self._try(check_repeat, trial, recording.global_draws):
                self._compare(trial, recording, count_rows(trial, kernels) if is_quick else 0)
        if compiled:
            self.problems += check_kernels(kernels, forms)
            self.hints += vectorisation_hints(forms)

    def _record_ends(self, drive: Drive, recording: Recording) -> Recording:
        """A recording in which episodes end, if there can be one."""
        if any(outcome.done for outcome in recording.outcomes):
            return recording
        limit = max(1, len(drive.actions) // _EPISODES)
        limited = self.market.having(max_episode_steps=limit)
        if limited is None:
            self.hints.append(
                f"no episode ended within {len(drive.actions)} steps, so autoreset and freezing were not seen; "
                "take more steps, or a factory that takes max_episode_steps"
            )
            return recording
        self.market = limited
        with limited.open(self.num_envs) as vec:
            again = record(vec, drive)
        again.problems = {**again.problems, **recording.problems}
        again.global_draws = recording.global_draws
        return again

    def _compare(self, trial: Trial, recording: Recording, wide_rows: int) -> None:
        """Compare the recorded run with others."""
        if trial.draws_shared:
            self.hints.append(
                "draws come from self.rng, shared by all sub-envs, so row i depends on num_envs; "
                "self.streams gives each sub-env its own"
            )
        if "alias" not in recording.problems:
            self._try(check_writes, trial)
        for check in (check_observing, check_early_resets):
            if self._try(check, trial):
                return
        independent = not self._try(check_independence, trial)
        if wide_rows and independent:
            self._try(check_wide, trial, wide_rows, compare=not trial.draws_shared)
        ends = any(outcome.done for outcome in trial.recorded)
        if ends and "autoreset" not in recording.problems:
            self._check_episodes(trial, independent)

    def _check_episodes(self, trial: Trial, independent: bool) -> None:
        """Check autoreset and freezing, or freezing alone where the factory gives no autoreset."""
        with self.market.open(1) as vec:
            autoreset = vec.autoreset
        if not autoreset:
            self._try(check_freezing, trial, self.market, compare=False)
            return
        frozen = self.market.having(autoreset=False)
        if frozen is None:
            self.hints.append("the factory takes no autoreset=False, so freezing and final observations were not seen")
            return
        by_hand = self._try(check_autoreset, trial, frozen)
        self.hints += [] if by_hand else early_reset_hints(trial)
        self._try(check_freezing, trial, frozen, compare=independent and not by_hand)

    def _try(self, check: Callable[..., list[str]], *args: Any, **options: Any) -> list[str]:
        """The problems that a check finds, a failure within it being one."""
        try:
            problems = check(*args, **options)
        except CallFailed as failure:
            problems = [str(failure)]
        self.problems += problems
        return problems
