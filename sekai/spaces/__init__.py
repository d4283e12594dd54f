"""Spaces: what observations and actions look like. Arguments and meaning follow gymnasium's."""

from __future__ import annotations

from sekai.spaces.box import Box
from sekai.spaces.composite import Dict, Tuple
from sekai.spaces.discrete import Discrete
from sekai.spaces.flatten import flatdim, flatten, flatten_space, unflatten, zero_sample
from sekai.spaces.json_text import space_from_json, space_to_json
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.masks import allows_any, as_mask, full_mask, mask_space
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.sequence import Sequence
from sekai.spaces.space import Space

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MaskedBox",
    "MultiBinary",
    "MultiDiscrete",
    "Sequence",
    "Space",
    "Tuple",
    "allows_any",
    "as_mask",
    "flatdim",
    "flatten",
    "flatten_space",
    "full_mask",
    "mask_space",
    "space_from_json",
    "space_to_json",
    "unflatten",
    "zero_sample",
]
