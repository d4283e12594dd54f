"""Whether the same seeds and actions give the same run."""

from __future__ import annotations

from sekai.testing.outcomes import first_difference, play
from sekai.testing.trial import Trial


def check_repeat(trial: Trial, global_draws: dict[str, str]) -> list[str]:
    """Play the recorded run in another VecEnv, then in that one once more.

    Args:
        trial: The trial.
        global_draws: The global generators that the market has been seen to draw from, and where.
    """
    if global_draws:
        return [
            f"{where}: expected every draw to come from self.streams or self.rng, got one from {generator}"
            for generator, where in global_draws.items()
        ]
    drive = trial.drive
    with trial.market.open(trial.num_envs) as vec:
        for place in ("in another VecEnv", "after a reset, which leaves something of the run before"):
            difference = first_difference(trial.recorded, play(vec, drive.seeds, drive.actions))
            if difference is not None:
                return [difference.problem(", as these seeds and actions gave before", f" {place}")]
    return []
