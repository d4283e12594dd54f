"""What follows from the parameters of the quoting market: its observation space, and what its kernels are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.spaces import Box
from sims.market_making.params import MarketMakingParams
from sims.market_making.records import AFFINE, FACTOR, JUMPS, Rates, Terms


def observation_space(params: MarketMakingParams) -> Box:
    """Inventory within its limit, a fraction, a return and cash."""
    most = math.inf if params.max_inventory is None else 1.0
    low, high = [-most, 0.0], [most, 1.0]
    if params.observe == "full":
        positive = params.midprice in ("geometric", "jumps")
        low += [-1.0 if positive else -math.inf, -math.inf]
        high += [math.inf, math.inf]
    return Box(np.array(low, dtype=np.float32), np.array(high, dtype=np.float32), dtype=np.float32)


def make_terms(params: MarketMakingParams) -> Terms:
    """What all sub-envs share."""
    running = params.reward == "running_penalty"
    limit = math.inf if params.max_inventory is None else float(params.max_inventory)
    return Terms(
        n_steps=params.n_steps,
        max_inventory=limit,
        inventory_scale=1.0 if params.max_inventory is None else limit,
        linear_fills=params.fill_rule == "linear",
        least_distance=0.0 if params.clip_quotes else -math.inf,
        move={"brownian": AFFINE, "ou": AFFINE, "geometric": FACTOR, "jumps": JUMPS}[params.midprice],
        keep=math.exp(-params.mean_reversion * params.dt) if params.midprice == "ou" else 1.0,
        jumps=params.jump_rate * params.dt,
        jump_mean=params.jump_mean,
        jump_sd=params.jump_sd,
        running_penalty=params.inventory_penalty * params.dt if running else 0.0,
        terminal_penalty=params.terminal_penalty if running else 0.0,
        risk_aversion=params.risk_aversion if params.reward == "exp_utility" else 0.0,
    )


def derive_rates(params: MarketMakingParams, values: dict[str, Any]) -> Rates:
    """The rates per step, as scalars or columns."""
    dt, price, sigma = params.dt, values["initial_price"], values["volatility"]
    if params.midprice == "ou":
        kappa = params.mean_reversion
        shift = (price if params.mean_price is None else params.mean_price) * -math.expm1(-kappa * dt)
        scale = sigma * math.sqrt(-math.expm1(-2.0 * kappa * dt) / (2.0 * kappa))
    else:
        scale = sigma * math.sqrt(dt)
        shift = params.drift * dt
        if params.midprice != "brownian":
            shift = shift - 0.5 * scale * scale
        if params.midprice == "jumps":
            mean_factor = math.expm1(params.jump_mean + 0.5 * params.jump_sd * params.jump_sd)
            shift = shift - params.jump_rate * dt * mean_factor
    return Rates(price, shift, scale, _as_float32(values["arrival_rate"] * dt), _as_float32(values["fill_decay"]))


def _as_float32(value: Any) -> Any:
    """A scalar or a column as float32; what is beyond its range as the largest there is."""
    return np.minimum(value, float(np.finfo(np.float32).max)).astype(np.float32)
