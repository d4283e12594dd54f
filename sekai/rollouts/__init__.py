"""Rollouts: a policy acts in a vector environment, and every step is kept in arrays."""

from __future__ import annotations

from sekai.rollouts.record import Rollout
from sekai.rollouts.run import history_clock, rollout
from sekai.rollouts.sums import EpisodeSums

__all__ = ["EpisodeSums", "Rollout", "history_clock", "rollout"]
