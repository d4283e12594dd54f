"""Markets for reinforcement learning written as functions of one row.

``sekai`` finds them through the entry point in this package's metadata, so that
``sekai.make_vec("Trading-v0", num_envs=1024)`` needs no import of ``sims``; and importing ``sims`` imports no market.
"""

from __future__ import annotations

__all__ = ["register_envs"]


def register_envs() -> None:
    """Register every market of this package with ``sekai``; its entry-point loader calls this."""
    import sekai

    sekai.register("LimitOrderBook-v0", vector_entry_point="sims.order_book.replay:make_order_book")
    sekai.register("MarketMaking-v0", vector_entry_point="sims.market_making.market:MarketMakingVecEnv")
    sekai.register("OptimalExecution-v0", vector_entry_point="sims.execution.env:ExecutionVecEnv")
    sekai.register("Portfolio-v0", vector_entry_point="sims.portfolio.strict:make_portfolio")
    sekai.register("Trading-v0", vector_entry_point="sims.trading.simulated:make_trading")
