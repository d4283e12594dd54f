"""Wrappers around a VecEnv."""

from sekai.vector.wrappers.action import VecDelayAction, VecStickyAction
from sekai.vector.wrappers.action_mask import VecActionMaskObservation
from sekai.vector.wrappers.base import VecActionWrapper, VecObservationWrapper, VecRewardWrapper, VecWrapper
from sekai.vector.wrappers.history import VecDelayObservation, VecFrameStackObservation, VecTimeAwareObservation
from sekai.vector.wrappers.normalize import VecNormalizeObservation, VecNormalizeReward
from sekai.vector.wrappers.observation import VecDtypeObservation, VecFilterObservation, VecRescaleObservation
from sekai.vector.wrappers.statistics import VecRecordEpisodeStatistics
from sekai.vector.wrappers.transform import VecClipReward, VecTransformObservation, VecTransformReward

__all__ = [
    "VecActionMaskObservation",
    "VecActionWrapper",
    "VecClipReward",
    "VecDelayAction",
    "VecDelayObservation",
    "VecDtypeObservation",
    "VecFilterObservation",
    "VecFrameStackObservation",
    "VecNormalizeObservation",
    "VecNormalizeReward",
    "VecObservationWrapper",
    "VecRecordEpisodeStatistics",
    "VecRescaleObservation",
    "VecRewardWrapper",
    "VecStickyAction",
    "VecTimeAwareObservation",
    "VecTransformObservation",
    "VecTransformReward",
    "VecWrapper",
]
