"""What is left of an account that pays for a trade to weights of what is left, and what of that its weights are of."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sekai.kernels import jit


@jit
def wealth_after_costs(
    wealth: float, values: NDArray[Any], weights: NDArray[Any], i: int, rate: float
) -> tuple[float, float]:
    """The wealth ``x`` left by a trade to weights of it, and the value traded, exactly.

    With ``u`` the values held it solves ``x = W - c sum_k |w_k x - u_k|``. What is missing,
    ``f(x) = x + c sum_k |w_k x - u_k| - W``, is convex, made of straight pieces between the ``u_k / w_k``, and rising
    wherever ``c sum_k |w_k| < 1``, so that there is one solution, at most ``W``; it is above 0 just when
    ``W > c sum_k |u_k|``.

    Newton's method from ``x = W`` takes each piece that it comes to as if it went on for ever. It moves down only, so
    that each asset turns at most once from a purchase to a sale, or back: after at most ``K + 1`` moves it is on the
    piece on which the solution lies, and that one it solves.

    Args:
        wealth: ``W``, before the trade.
        values: f8 (N, K), the values held, negative for short ones.
        weights: f8 (N, K), the weights to hold.
        i: The row of both.
        rate: ``c``, the cost as a fraction of the value traded, with ``c sum_k |w_k| < 1``.
    """
    assets = values.shape[1]
    left, found = wealth, wealth
    while True:
        above, slope = wealth, 1.0
        for k in range(assets):
            change = weights[i, k] * left - values[i, k]
            side = rate if change > 0.0 else (-rate if change < 0.0 else 0.0)
            above += side * values[i, k]
            slope += side * weights[i, k]
        found = above / slope
        if not found < left:
            break
        left = found
    traded = 0.0
    for k in range(assets):
        traded += abs(weights[i, k] * left - values[i, k])
    return left, traded


@jit
def share_wealth(
    wealth: float, fixed: float, values: NDArray[Any], weights: NDArray[Any], i: int, rate: float, most: float
) -> tuple[float, float]:
    """What the weights of a trade are of, and the value traded, where some positions cannot be traded.

    Those take a value ``G`` without signs, and stay. What is traded is to be ``w_k m``, where ``m`` is the wealth left
    ``x``, or as much less as keeps all positions without their signs within ``L x``: ``m = min(x, (L x - G) / g)``, at
    least 0, with ``g = sum_k |w_k|``. What an account pays, ``x + c sum_k |w_k m(x) - u_k| = W``, rises in x all the
    same, so that one of the three is it. With ``y = L x - G`` the second is of the first one's form, of weights
    ``w_k / g``, a wealth of ``L W - G``, and a rate of ``L c``.

    Args:
        wealth: ``W``, before the trade, above ``c sum_k |u_k|``.
        fixed: ``G``.
        values: f8 (N, K), ``u``, 0 for what cannot be traded.
        weights: f8 (N, K), ``w``, 0 for what cannot be traded, with ``g <= L``; rewritten if they are of less than x.
        i: The row of both.
        rate: ``c``, the cost as a fraction of the value traded, with ``c L < 1``.
        most: ``L``.
    """
    gross, held = 0.0, 0.0
    for k in range(values.shape[1]):
        gross += abs(weights[i, k])
        held += abs(values[i, k])
    budget, factor, left, traded = wealth, rate, 0.0, 0.0
    for attempt in range(2):  # called in one place: it is compiled into each
        left, traded = wealth_after_costs(budget, values, weights, i, factor)
        if attempt == 1 or fixed == 0.0 or gross == 0.0 or gross * left + fixed <= most * left:
            break
        budget, factor = most * wealth - fixed, rate * most
        is_closed = budget <= factor * held
        for k in range(values.shape[1]):
            weights[i, k] = 0.0 if is_closed else weights[i, k] / gross
        if is_closed:
            return 0.0, held
    return left, traded
