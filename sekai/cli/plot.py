"""``sekai run --plot FILE``: a picture of the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from sekai.batching.info_list import InfoList
from sekai.batching.infos import FINAL_INFO, FINAL_OBSERVATION, RESET_INFO
from sekai.cli.common import CommandError, mistakes_of_the_user, number_of
from sekai.cli.policies import Policy
from sekai.errors import SekaiError
from sekai.plots import plot_rollout
from sekai.plots.canvas import new_figure
from sekai.rollouts import Rollout, rollout

if TYPE_CHECKING:
    from sekai.vector import VecEnv

#: Steps of single sub-envs that a picture is made of: more would show no more, and take memory.
MOST_STEPS = 2**20

_DPI = 150
# Kinds of files that need TeX, which is missed only once the run is over.
_OF_TEX = {"pgf"}


def check_target(path: str) -> None:
    """Refuse, before anything is run, a file that cannot be drawn to.

    Raises:
        CommandError: matplotlib is not installed, the ending of the name is no picture's, or there is no such folder.
    """
    with mistakes_of_the_user():
        endings = sorted({*new_figure(1.0, 1.0).canvas.get_supported_filetypes()} - _OF_TEX)
    if os.path.splitext(path)[1].removeprefix(".").lower() not in endings:
        raise CommandError(f"--plot: expected a file that ends in .{', .'.join(endings)}, got {path!r}")
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        raise CommandError(f"--plot: expected a file in a folder that exists, got {path!r}")


def draw_run(
    path: str,
    build: Callable[[int], VecEnv[Any, Any]],
    choose_policy: Callable[[VecEnv[Any, Any]], Policy],
    *,
    num_envs: int,
    steps: int,
    seed: int,
    title: str,
) -> None:
    """Roll a run out again from its seed, keep every step, and draw that.

    It is the run itself, or, where that has more than ``MOST_STEPS`` steps of single sub-envs, one with fewer.

    Args:
        path: The file to write; its ending says what kind it is.
        build: Builds so many sub-envs.
        choose_policy: Builds the policy for them.
        num_envs: Sub-envs in the run.
        steps: Steps of each sub-env in the run.
        seed: Of the first reset.
        title: Of the picture; how much it shows is added.

    Raises:
        CommandError: The file cannot be written.
    """
    steps = min(steps, MOST_STEPS)
    num_envs = min(num_envs, MOST_STEPS // steps)
    with build(num_envs) as vec:
        plot = _plot_of(vec)
        # A policy may remember what it did, so that each rollout gets one of its own.
        keys = _info_keys(vec, choose_policy(vec), seed)
        record = rollout(vec, choose_policy(vec), steps, seed=seed, infos=keys)
    figure = plot(record)
    shown = f"{number_of(steps, 'step', 'steps')} of {number_of(num_envs, 'sub-env', 'sub-envs')}"
    figure.suptitle(f"{title}, {shown}", fontsize=11, parse_math=False)
    with mistakes_of_the_user():
        figure.savefig(path, dpi=_DPI)


def _plot_of(vec: VecEnv[Any, Any]) -> Callable[[Rollout], Any]:
    """How the market draws a rollout, or, where it does not say, how any is drawn."""
    try:
        offered = vec.get_attr("plot_rollout")[0]
    except (AttributeError, SekaiError):  # a worker process cannot send every function
        return plot_rollout
    return offered if callable(offered) else plot_rollout


def _info_keys(vec: VecEnv[Any, Any], policy: Policy, seed: int) -> list[str]:
    """The keys of what the first step tells, without what autoreset adds."""
    infos = vec.step(policy(vec.reset(seed=seed).observations)).infos
    keys = infos.columns if isinstance(infos, InfoList) else dict.fromkeys(chain.from_iterable(infos))
    return [key for key in keys if key not in (FINAL_OBSERVATION, FINAL_INFO, RESET_INFO)]
