"""Whether the same seeds and actions give the same run."""

from __future__ import annotations

from sekai.testing.reference import ReferenceRun
from sekai.testing.shown import first_difference, play


def check_repeat(reference: ReferenceRun, global_draws: dict[str, str]) -> list[str]:
    """Make the same run in another VecEnv, then in that one once more.

    Args:
        reference: The run to repeat.
        global_draws: The global generators that the market has been seen to draw from, and where.
    """
    if global_draws:
        return [
            f"{where}: expected every draw to come from self.streams or self.rng, got one from {generator}"
            for generator, where in global_draws.items()
        ]
    inputs = reference.inputs
    with reference.factory.open(reference.num_envs) as vec:
        for place in ("in another VecEnv", "after a reset, which leaves something of the run before"):
            difference = first_difference(reference.shown, play(vec, inputs.seeds, inputs.actions))
            if difference is not None:
                cause = "; is there a generator that reset(seed=...) does not reach?"
                return [difference.problem(", as these seeds and actions gave before", f" {place}{cause}")]
    return []
