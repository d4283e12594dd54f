"""How the returns of episodes are distributed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.checks import as_numbers
from sekai.estimates import Estimate, estimate_mean
from sekai.plots.canvas import dress, height_with, legend_below, line_of, name_of, new_figure, note
from sekai.rollouts import Rollout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A rollout, whose finished episodes count, or the returns of episodes (k,).
Returns: TypeAlias = "Rollout | ArrayLike"

_FEWEST_BINS, _MOST_BINS = 8, 60


def plot_returns(episodes: Returns | Mapping[str, Returns]) -> Figure:
    """The distribution of episode returns, of one policy or of some that are to be compared.

    The bins are the same for all; vertical lines are means, and the legend gives them with their standard errors, and
    says of what: by blocks of the history that episodes share, where a rollout tells of one (see
    ``sekai.estimates``), else as of independent episodes. The first policy's bars are filled. Returns that are not
    finite, or are masked, are left out, and counted in the legend.

    Args:
        episodes: A rollout, or the returns of episodes (k,); or a mapping from the name of each policy to one, as in
            ``{"PPO": record, "fixed spread": baseline}``.

    Raises:
        TypeError: Returns are no numbers.
        ValueError: They have another shape than (k,).
        ImportError: matplotlib is not installed.
    """
    figure = new_figure(7.0, height_with(len(episodes) if isinstance(episodes, Mapping) else 1, 4.5))
    draw_returns(figure.subplots(), episodes)
    return figure


def draw_returns(axes: Axes, episodes: Returns | Mapping[str, Returns]) -> None:
    """What ``plot_returns`` shows, on axes of a larger figure."""
    named = episodes if isinstance(episodes, Mapping) else {"": episodes}
    samples = {name: _read_returns(each, name) for name, each in named.items()}
    are_finite = {name: np.isfinite(sample) for name, sample in samples.items()}
    finite = {name: sample[are_finite[name]] for name, sample in samples.items()}
    dress(axes, "Episode returns", x="return of an episode (sum of its rewards)", y="share of episodes")
    if not any(sample.size for sample in finite.values()):
        note(axes, "no return is finite" if any(map(len, samples.values())) else "no episode has ended")
        return
    edges = _bin_edges(finite.values())
    for number, (name, sample) in enumerate(finite.items()):
        line = line_of(number)
        label = _describe(name, sample, *_mean_of(named[name], sample, are_finite[name]), len(samples[name]))
        if not sample.size:
            axes.plot([], [], **line, label=label)
            continue
        heights = np.histogram(sample, edges)[0] / len(sample)
        axes.stairs(heights, edges, fill=number == 0, alpha=0.35 if number == 0 else 1.0, **line)
        if number == 0:
            axes.stairs(heights, edges, color=line["color"])
        axes.axvline(sample.mean(), **line, linewidth=1.5, label=label)
    axes.set_ylim(bottom=0.0)
    legend_below(axes)


def _read_returns(episodes: Returns, name: str) -> NDArray[np.float64]:
    where = f"plot_returns({name!r})" if name else "plot_returns"
    returns = as_numbers(episodes.episode_returns if isinstance(episodes, Rollout) else episodes, where)
    if returns.ndim != 1:
        raise ValueError(f"{where}: expected the returns of episodes (k,), got shape {returns.shape}")
    return returns.astype(np.float64)


def _bin_edges(samples: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Edges of equal bins over all samples, as wide as suits the narrowest of them (Scott's rule), within bounds."""
    samples = [sample for sample in samples if sample.size]
    low, high = min(map(np.min, samples)), max(map(np.max, samples))
    if not high - low > 1e-9 * max(abs(low), abs(high)):  # bins could not be told apart
        margin = max(0.5, 0.5 * abs(low))
        low, high = low - margin, high + margin
    width = min(3.5 * sample.std() / np.cbrt(sample.size) for sample in samples)
    bins = (high - low) / max(width, (high - low) / _MOST_BINS)
    return np.linspace(low, high, 1 + max(_FEWEST_BINS, round(bins)))


def _mean_of(episodes: Returns, sample: NDArray[np.float64], is_finite: NDArray[np.bool_]) -> tuple[Estimate, bool]:
    """The mean of the finite returns with its standard error, and whether that is by blocks of a history."""
    starts = episodes.episode_starts if isinstance(episodes, Rollout) else None
    if not isinstance(episodes, Rollout) or starts is None:
        return estimate_mean(sample), False
    return estimate_mean(sample, starts[is_finite], episodes.episode_lengths[is_finite]), True


def _describe(name: str, sample: NDArray[np.float64], mean: Estimate, by_blocks: bool, total: int) -> str:
    count, left_out = len(sample), total - len(sample)
    if count > 1:
        if math.isnan(mean.standard_error):
            told = f"{mean.value:.3g} (no error: short history)"
        else:
            told = _with_error(*mean) + (" by blocks of history" if by_blocks else "")
        kind = "episodes" if by_blocks else "independent episodes"
        parts = [f"mean {told}, sd {sample.std(ddof=1):.3g}", f"{count:,} {kind}"]
    elif count == 1:
        parts = [f"return {sample[0]:.4g}", "1 episode"]
    else:
        parts = [] if left_out else ["no episode has ended"]
    if left_out:
        parts.append(f"{left_out:,} not finite, left out")
    return (f"{name_of(name)}: " if name else "") + ", ".join(parts)


def _with_error(value: float, error: float) -> str:
    """A number to as many places as its error has in two digits."""
    if not error > 0.0:
        return f"{value:.6g} ± 0"
    places = min(max(0, 1 - math.floor(math.log10(error))), 12)
    return f"{value:,.{places}f} ± {error:,.{places}f}"
