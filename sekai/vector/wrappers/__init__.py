"""Wrappers around a VecEnv."""

from sekai.vector.wrappers.action import VecDelayAction, VecStickyAction
from sekai.vector.wrappers.action_mask import VecActionMaskObservation
from sekai.vector.wrappers.base import VecActionWrapper, VecObservationWrapper, VecRewardWrapper, VecWrapper
from sekai.vector.wrappers.history import VecDelayObservation, VecFrameStackObservation, VecTimeAwareObservation
from sekai.vector.wrappers.normalize import VecNormalizeObservation, VecNormalizeReward
from sekai.vector.wrappers.observation import (
    VecDtypeObservation,
    VecFilterObservation,
    VecFlattenObservation,
    VecRescaleObservation,
)
from sekai.vector.wrappers.statistics import VecRecordEpisodeStatistics
from sekai.vector.wrappers.transform import (
    VecClipAction,
    VecClipReward,
    VecRescaleAction,
    VecTransformObservation,
    VecTransformReward,
)

__all__ = [
    "VecActionMaskObservation",
    "VecActionWrapper",
    "VecClipAction",
    "VecClipReward",
    "VecDelayAction",
    "VecDelayObservation",
    "VecDtypeObservation",
    "VecFilterObservation",
    "VecFlattenObservation",
    "VecFrameStackObservation",
    "VecNormalizeObservation",
    "VecNormalizeReward",
    "VecObservationWrapper",
    "VecRecordEpisodeStatistics",
    "VecRescaleAction",
    "VecRescaleObservation",
    "VecRewardWrapper",
    "VecStickyAction",
    "VecTimeAwareObservation",
    "VecTransformObservation",
    "VecTransformReward",
    "VecWrapper",
]
