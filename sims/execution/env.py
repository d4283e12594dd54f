"""``OptimalExecution-v0``: N orders, each to be worked off within its own horizon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Box
from sekai.vector import KernelVecEnv, shared
from sims.execution import market
from sims.execution.baselines import POLICIES
from sims.execution.plot import plot_execution


class ExecutionVecEnv(KernelVecEnv[NDArray[np.float32], NDArray[np.float32]]):
    """Sell, or buy, a large order in slices, each of which moves the price against it.

    The market of Almgren and Chriss (2001), "Optimal execution of portfolio transactions", Journal of Risk 3, with the
    transient impact of Obizhaeva and Wang (2013), "Optimal trading strategy and supply/demand dynamics", Journal of
    Financial Markets 16. An order of X units is traded in N slices at the times ``t[k] = k tau``, ``tau = T/N``, the
    first at once and the last at ``T - tau``. With U the unaffected price, P the permanent and D the transient impact
    so far, ``s`` 1 to buy and -1 to sell, and the price ``S = U + s (P + D)``, slice k does this, in this order:

    1. the agent sees S[k] and what is left, x[k], and says what to trade: n units. The last slice trades all that is
       left; no slice trades more than that;
    2. the slice is traded at ``S[k] + s (eps + eta n / (tau w[k]) + kappa n / 2)``: half the spread, the temporary
       impact, which is gone with the slice, and half the transient impact that it will leave, as it walks through a
       book of constant depth. Neither its own permanent impact nor the noise that follows is in it. ``w[k]`` is the
       volume of the slice as a multiple of the mean volume, 1 without a ``volume_profile``;
    3. the price moves: ``P`` by ``gamma n`` for good, ``D`` by ``kappa n``, and then D falls by a factor of
       ``exp(-rho tau)``, and U moves by its model over ``tau``: a Brownian motion by default, as Almgren and Chriss
       have it;
    4. the clock advances; reward and observation are of S[k+1].

    The implementation shortfall is what the order costs more, or brings in less, than at S[0]: the sum over the slices
    of ``s n (their price - S[0])``. Without transient impact its mean and variance are those of Almgren and Chriss,
    ``gamma X^2 / 2 + eps X + (eta - gamma tau / 2) / tau sum of n^2`` and ``sigma^2 tau`` times the sum of the squares
    of what slices leave; ``expected_cost`` and ``cost_variance`` have them of any schedule. Obizhaeva and Wang's book
    of density q with a permanent part ``lambda`` is ``kappa = 1/q - lambda``, ``gamma = lambda`` and ``eta = lambda tau
    / 2``: there, half a slice's own permanent impact is in its price.

    As the mean shows, an even schedule is the best on average where U is a martingale, there is neither transient
    impact nor a volume profile, and ``eta > gamma tau / 2``. With less temporary impact than that, to trade all at once
    is, as a slice does not pay its own permanent impact.

    Impacts that take the price of a sale to 0 however evenly it is made are refused: ``eps + X (eta/T + gamma +
    kappa)`` has to be less than S[0]. To sell more in one slice may take the price of that slice below 0, and a model
    such as the Brownian one may take U there: the order is then traded there all the same, since a price that were
    stopped would have another mean. With a model that stays above 0 the price is that less the impacts.

    Observation: float32 (4,): the fraction of the order that is left; the fraction of time left, ``1 - k/N``; how far
    the price has moved against the order, ``s (S - S[0]) / S[0]``, and D, both in per cent of S[0]; with a
    ``volume_profile`` (5,): also ``w`` of the slice to come, 0 where there is none.

    Action: float32 (1,), in [0, 1]: "share" of what is left, or "rate" of trading, as a fraction of the order per slice
    (``1/N`` throughout is an even one).

    Reward: minus the shortfall of the slice, and minus ``lambda sigma^2 tau x[k+1]^2``, the risk of what it leaves; in
    money ("currency"), or in basis points of the order at the initial price, ``X S[0]`` ("bps"). The sum over an
    episode is on average minus the mean shortfall and minus lambda times the expected quadratic variation of what is
    held. For a schedule that is fixed at the start that is Almgren and Chriss's ``E + lambda V``; for a policy that
    answers to the price it is not, as the variance of its shortfall is another (Lorenz and Almgren 2011, "Mean-variance
    optimal adaptive execution", Applied Mathematical Finance 18).

    Episode: starts with the whole order, and is terminated when nothing is left, with slice N at the latest; it is
    never truncated but by a time limit on top, at which what is left is not traded.

    Infos, of a step and a reset: ``price`` (S[k+1]), ``unaffected_price`` (U), ``units_left``, and every parameter that
    is ``Randomized``; of a step also ``units_traded`` (bought, negative for sold) and ``fill_price`` (what each of them
    was traded at on average; of a slice that traded none, S[k] with half the spread), and of the episode so far
    ``shortfall`` and its parts, which add up to it: ``spread_cost``, ``temporary_cost``, ``permanent_cost``,
    ``transient_cost``, ``noise_cost`` (the moves of U), money, negative for a gain. All are attributes too.

    Parameters are those of ``ExecutionParams``. They are attributes too, and ``set_attr`` changes numbers from the next
    step on (``units`` and ``initial_price`` from the next reset on; impacts have to be such as the orders under way can
    pay, too). A number may be given as one for all sub-envs, one for each, or ``Randomized``: drawn by every sub-env at
    each reset, and until then the middle of its range. That goes for the numbers of the model of the price as well.

    Args:
        num_envs: Number of sub-envs.
        autoreset: Start a new episode in the step in which one ends (see ``sekai.VecEnv``).
        max_episode_steps: A time limit on top, as ``sekai.NativeVecEnv`` has it.
        autoreset_options: The options of autoresets, as ``sekai.NativeVecEnv`` has them; the market takes none.
        **params: The fields of ``ExecutionParams``.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range, or there is not one value per sub-env.
    """

    Params, State = market.ExecutionParams, market.Order
    check, prepare, derive_row = market.check, market.prepare, market.derive_row
    reset_row, step_row, observe_row = market.reset_row, market.step_row, market.observe_row
    observation_space = market.observation_space
    action_space = Box(0.0, 1.0, (1,), np.float32)
    reset_infos, infos = market.RESET_INFOS, market.INFOS

    #: How ``sekai run --plot`` draws a rollout.
    plot_rollout = staticmethod(plot_execution)

    #: An order goes on as it began, so that impacts which change have to be such as it can pay.
    held_parameters = {"units": "order_units", "initial_price": "arrival_price"}

    @property
    @shared
    def policies(self) -> dict[str, Callable[[Any], Any]]:
        """Builders of the policies offered by name; each takes a VecEnv of this market."""
        return {
            name: build for name, build in POLICIES.items() if name != "vwap" or self.params.volume_profile is not None
        }
