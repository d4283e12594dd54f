"""What the baselines share: a schedule that is known at the start, followed by a batch or by one row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_count
from sekai.kernels import jit
from sims.checks import check_choice
from sims.execution.closed_forms import slices_of
from sims.parameters import Numbers, check_numbers, read_shared
from sims.policies import ParametricPolicy


class Plan(NamedTuple):
    """What a policy does in each slice.

    Attributes:
        actions: f4 (N,), or (E, N): one row for each sub-env.
        shares: f8, likewise: of what is left, before they are rounded.
    """

    actions: NDArray[np.float32]
    shares: NDArray[np.float64]


def slice_of(time_left: Any, n_steps: Any) -> Any:
    """The slice that an observation is of, by the fraction of time left, float64; the last one where there is none."""
    # fmin and fmax pass over a NaN, so that an index is never out of its range.
    return np.int64(np.fmax(np.fmin(np.rint((1.0 - time_left) * n_steps), n_steps - 1.0), 0.0))


_slice_of_row = jit(slice_of)


@jit
def follow_row(plan: Plan, observation: NDArray[np.float32], action: NDArray[np.float32]) -> None:
    """Act by the plan in one sub-env."""
    action[0] = plan.actions[_slice_of_row(np.float64(observation[1]), len(plan.actions))]


def _check_actions(value: Any, where: str) -> str:
    return check_choice(where, value, ("share", "rate"))


def _check_number(value: Any, where: str) -> Numbers:
    return check_numbers(value, where, least=0.0)


def _check_optional(value: Any, where: str) -> Numbers | None:
    return None if value is None else _check_number(value, where)


@dataclass(frozen=True, kw_only=True, eq=False)
class SchedulePolicy(ParametricPolicy):
    """A frozen dataclass whose schedule follows from its fields, whatever happens.

    Actions are float32 (N, 1).

    Attributes:
        n_steps: Slices.
        actions: What the env's actions are, "share" or "rate".
    """

    checks = {
        "n_steps": check_count,
        "actions": _check_actions,
        "horizon": partial(check_numbers, above=0.0),
        "terminal_penalty": _check_optional,
        **dict.fromkeys(
            ("risk_aversion", "volatility", "temporary_impact", "permanent_impact", "resilience", "running_penalty"),
            _check_number,
        ),
    }
    widths = (4, 5)

    n_steps: int
    actions: str = "share"
    _plan: Plan = field(init=False, repr=False)

    def _make_plan(self) -> Plan:
        shares = self._make_shares()
        return Plan((shares if self.actions == "share" else slices_of(shares)).astype(np.float32), shares)

    @abstractmethod
    def _make_shares(self) -> NDArray[np.float64]:
        """The shares of what is left, float64 (N,) or (E, N), from the checked parameters."""

    def slices(self, units: Numbers = 1.0) -> NDArray[np.float64]:
        """What is traded in each slice, float64 (N,), or (E, N) for E sub-envs, of an order of so many units."""
        return slices_of(self._plan.shares) * np.expand_dims(units, -1)

    def _act(self, observations: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        step = slice_of(observations[:, 1].astype(np.float64), self.n_steps)
        actions = self._plan.actions
        return (actions[step] if actions.ndim == 1 else actions[np.arange(len(step)), step])[:, np.newaxis]

    def _row(self) -> Callable[[Any, Any, Any], None]:
        return follow_row


def read_schedule(vec: Any, where: str) -> dict[str, Any]:
    """The slices and the kind of actions of an env, by name.

    Raises:
        ValueError: Sub-envs differ in them.
    """
    return {name: read_shared(vec, where, name) for name in ("n_steps", "actions")}
