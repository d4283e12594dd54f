"""Wrappers around one environment."""

from __future__ import annotations

from sekai.wrappers.autoreset import AutoReset
from sekai.wrappers.normalize import NormalizeObservation, NormalizeReward
from sekai.wrappers.order_enforcing import OrderEnforcing
from sekai.wrappers.record_statistics import RecordEpisodeStatistics
from sekai.wrappers.time_limit import TimeLimit
from sekai.wrappers.transform import (
    ClipAction,
    FlattenObservation,
    RescaleAction,
    TransformObservation,
    TransformReward,
)

__all__ = [
    "AutoReset",
    "ClipAction",
    "FlattenObservation",
    "NormalizeObservation",
    "NormalizeReward",
    "OrderEnforcing",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "TimeLimit",
    "TransformObservation",
    "TransformReward",
]
