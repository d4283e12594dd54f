"""Pictures of what came of any environment; ``sims.plots`` adds those of a market: prices, inventory, wealth.

Each function returns a ``matplotlib.figure.Figure`` of its own, made without pyplot: it needs no display, leaves no
global state behind, and is saved with ``figure.savefig("out.png")``. A notebook shows it after ``%matplotlib inline``.
matplotlib is imported when the first figure is made; it comes with ``pip install ".[plot]"`` in the clone.
"""

from __future__ import annotations

from sekai.plots.learning import plot_learning_curve
from sekai.plots.returns import plot_returns
from sekai.plots.rewards import plot_rollout

__all__ = ["plot_learning_curve", "plot_returns", "plot_rollout"]
