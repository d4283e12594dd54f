"""Spaces as batches, as flat vectors and as JSON, and the masks of actions."""

from sekai.batching.layout import batch_space, concatenate, iterate
from sekai.batching.masks import sample_batch
from sekai.spaces.flatten import flatdim, flatten, flatten_space, unflatten, zero_sample
from sekai.spaces.json_text import space_from_json, space_to_json
from sekai.spaces.masks import allows_any, as_mask, full_mask, mask_space

__all__ = [
    "allows_any",
    "as_mask",
    "batch_space",
    "concatenate",
    "flatdim",
    "flatten",
    "flatten_space",
    "full_mask",
    "iterate",
    "mask_space",
    "sample_batch",
    "space_from_json",
    "space_to_json",
    "unflatten",
    "zero_sample",
]
