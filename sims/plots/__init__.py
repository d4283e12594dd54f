"""Pictures of what happened in a market, drawn from a ``sekai.Rollout``.

Those of one sub-env show one of its episodes, the first one unless told otherwise; the rollout has to hold the info
columns they draw, ``sekai.rollout(..., infos=("mid_price", "inventory", ...))``. Each function returns a
``matplotlib.figure.Figure`` of its own, made without pyplot: it needs no display and is saved with
``figure.savefig("out.png")``. matplotlib is imported when the first figure is made; it comes with
``pip install 'sekai[plot]'``.
"""

from __future__ import annotations

from sekai.plots import plot_learning_curve, plot_returns
from sims.plots.figures import plot_inventory, plot_quotes, plot_trades, plot_wealth
from sims.plots.markets import plot_market_making, plot_trading

__all__ = [
    "plot_inventory",
    "plot_learning_curve",
    "plot_market_making",
    "plot_quotes",
    "plot_returns",
    "plot_trades",
    "plot_trading",
    "plot_wealth",
]
