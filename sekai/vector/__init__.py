"""Vector environments: the contract, the backends and the wrappers."""

from sekai.batching.episodes import ended_observations
from sekai.batching.info_list import InfoList, stack_infos
from sekai.results import VecResetResult, VecStepResult
from sekai.vector.attributes import shared
from sekai.vector.base import VecEnv
from sekai.vector.kernel import KernelVecEnv, NoPart, Randomized, column, part_of
from sekai.vector.native.env import NativeVecEnv
from sekai.vector.processes.proc import ProcVecEnv
from sekai.vector.sub_envs.aio import AsyncVecEnv
from sekai.vector.sub_envs.sync import SyncVecEnv
from sekai.vector.wrappers import (
    VecActionMaskObservation,
    VecActionWrapper,
    VecClipAction,
    VecClipReward,
    VecDelayAction,
    VecDelayObservation,
    VecDtypeObservation,
    VecFilterObservation,
    VecFlattenObservation,
    VecFrameStackObservation,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecObservationWrapper,
    VecRecordEpisodeStatistics,
    VecRescaleAction,
    VecRescaleObservation,
    VecRewardWrapper,
    VecStickyAction,
    VecTimeAwareObservation,
    VecTransformObservation,
    VecTransformReward,
    VecWrapper,
)

__all__ = [
    "AsyncVecEnv",
    "InfoList",
    "KernelVecEnv",
    "NativeVecEnv",
    "NoPart",
    "ProcVecEnv",
    "Randomized",
    "SyncVecEnv",
    "VecActionMaskObservation",
    "VecActionWrapper",
    "VecClipAction",
    "VecClipReward",
    "VecDelayAction",
    "VecDelayObservation",
    "VecDtypeObservation",
    "VecEnv",
    "VecFilterObservation",
    "VecFlattenObservation",
    "VecFrameStackObservation",
    "VecNormalizeObservation",
    "VecNormalizeReward",
    "VecObservationWrapper",
    "VecRecordEpisodeStatistics",
    "VecRescaleAction",
    "VecRescaleObservation",
    "VecResetResult",
    "VecRewardWrapper",
    "VecStepResult",
    "VecStickyAction",
    "VecTimeAwareObservation",
    "VecTransformObservation",
    "VecTransformReward",
    "VecWrapper",
    "column",
    "ended_observations",
    "part_of",
    "shared",
    "stack_infos",
]
