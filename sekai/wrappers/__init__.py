"""Wrappers around one environment."""

from __future__ import annotations

from sekai.wrappers.action import DelayAction, RepeatAction, StickyAction
from sekai.wrappers.action_mask import ActionMaskObservation
from sekai.wrappers.autoreset import AutoReset
from sekai.wrappers.history import DelayObservation, FrameStackObservation, TimeAwareObservation
from sekai.wrappers.normalize import NormalizeObservation, NormalizeReward
from sekai.wrappers.observation import (
    DtypeObservation,
    FilterObservation,
    PadSequenceObservation,
    RescaleObservation,
)
from sekai.wrappers.order_enforcing import OrderEnforcing
from sekai.wrappers.record_statistics import RecordEpisodeStatistics
from sekai.wrappers.time_limit import TimeLimit
from sekai.wrappers.transform import (
    ClipAction,
    ClipReward,
    FlattenObservation,
    RescaleAction,
    TransformObservation,
    TransformReward,
)

__all__ = [
    "ActionMaskObservation",
    "AutoReset",
    "ClipAction",
    "ClipReward",
    "DelayAction",
    "DelayObservation",
    "DtypeObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "NormalizeObservation",
    "NormalizeReward",
    "OrderEnforcing",
    "PadSequenceObservation",
    "RecordEpisodeStatistics",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "StickyAction",
    "TimeAwareObservation",
    "TimeLimit",
    "TransformObservation",
    "TransformReward",
]
