"""Whether the same seeds and actions give the same run, however often masks are asked for on the way."""

from __future__ import annotations

from sekai.testing.reference import ReferenceRun
from sekai.testing.shown import MASKS, calls, copy_shown, difference_between, first_difference, masks_of, play


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
                cause = "; is there a generator that reset(seed=...) does not reach, or an item not always written?"
                return [difference.problem(", as these seeds and actions gave before", f" {place}{cause}")]
    return []


def check_asking(reference: ReferenceRun) -> list[str]:
    """Ask for masks once more after each call: they have to be the same, and the run to go on as before.

    A policy may ask or not, and numbers may not follow from that.
    """
    inputs = reference.inputs
    with reference.factory.open(reference.num_envs) as vec:
        if not vec.has_action_mask:
            return []
        for expected, call in zip(reference.shown, calls(vec, inputs.seeds, inputs.actions), strict=True):
            again = copy_shown(vec, call._replace(masks=masks_of(vec, call.where)))
            difference = difference_between(expected, again)
            if difference is not None:
                return [difference.problem(f" however often {MASKS} is called", " after more calls of it")]
            if again.shared_draws != expected.shared_draws:
                return [f"{call.where}: expected {MASKS} to leave self.rng alone, got draws from it"]
    return []
