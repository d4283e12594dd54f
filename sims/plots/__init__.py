"""Pictures of what happened in a market, drawn from a ``sekai.Rollout``.

Those of one sub-env show one of its episodes, the first one unless told otherwise; the rollout has to hold the info
columns they draw, ``sekai.rollout(..., infos=("mid_price", "inventory", ...))``. Each function returns a
``matplotlib.figure.Figure`` of its own, made without pyplot: it needs no display and is saved with
``figure.savefig("out.png")``. matplotlib is imported when the first figure is made; it comes with
``pip install ".[plot]"`` in the clone.

Nothing here knows a market by more than the names of its infos; a market's own pictures are beside it, in
``sims.trading.plot`` and ``sims.market_making.plot``, and made of the same panels.
"""

from __future__ import annotations

from sekai.plots import plot_learning_curve, plot_returns
from sims.plots.figures import plot_inventory, plot_quotes, plot_wealth

__all__ = [
    "plot_inventory",
    "plot_learning_curve",
    "plot_quotes",
    "plot_returns",
    "plot_wealth",
]
