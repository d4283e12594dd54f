"""How well a path of wealth did: growth, risk, ratios with their standard errors, drawdowns, activity.

Every measure takes the wealth of one path, (T,), or of N paths side by side, (T, N), time first and evenly spaced, T
points and so T - 1 steps, and gives one number, or one per path (N,). A whole path goes in, the wealth before the
first step included. Computed in float64.

A rollout holds several episodes after each other, and no wealth before their first steps: ``episodes(record, "wealth",
start=1.0)`` cuts it into paths. Measures that are one number of a path take all of them, of any lengths, and give (k,);
``paths.mean(...)`` of those is an ``Estimate``, with a standard error that holds also for windows of one history.

The same rules hold for all of them:

- **Relative or not.** By default a step's return is relative, ``W[t+1] / W[t] - 1``, and wealth has to be above 0 at
  the start. With ``relative=False`` it is the change ``W[t+1] - W[t]`` itself, in the currency of the wealth: for
  profits and losses, which start anywhere.
- **Ruin.** Relative measures take wealth as 0 from the first time on that it is at or below 0: the total and annualised
  return is -1, the drawdown 1; what needs every return (volatility, Sharpe and Sortino ratio, turnover in wealth) is
  NaN.
- **NaN.** A path that holds a NaN or an infinity, or of a masked array a masked number, has no measures: they are NaN.
  Other paths do not notice.
- **Too short.** Without a step there is no annualised return and no hit rate, with fewer than two no volatility and no
  ratio: NaN.
- **No spread.** Returns that differ by no more than rounding have the volatility 0, and no Sharpe ratio: NaN. So has
  the Sortino ratio where no return is below the target.
- **Years.** ``periods_per_year`` says how many steps make a year: 252 for daily closes, 12 for months. Nobody guesses
  it.
"""

from __future__ import annotations

from sekai.estimates import Estimate
from sims.metrics.activity import hit_rate, turnover
from sims.metrics.drawdowns import drawdown, drawdown_length, max_drawdown, max_drawdown_length
from sims.metrics.episodes import Episodes, episodes
from sims.metrics.growth import annualised_return, annualised_volatility, total_return
from sims.metrics.paths import returns
from sims.metrics.ratios import sharpe_ratio, sortino_ratio

__all__ = [
    "Episodes",
    "Estimate",
    "annualised_return",
    "annualised_volatility",
    "drawdown",
    "drawdown_length",
    "episodes",
    "hit_rate",
    "max_drawdown",
    "max_drawdown_length",
    "returns",
    "sharpe_ratio",
    "sortino_ratio",
    "total_return",
    "turnover",
]
