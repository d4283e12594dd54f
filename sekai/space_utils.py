"""Spaces as batches and as flat vectors."""

from sekai.batching.layout import batch_space, concatenate, iterate
from sekai.spaces.flatten import flatdim, flatten, flatten_space, unflatten, zero_sample

__all__ = [
    "batch_space",
    "concatenate",
    "flatdim",
    "flatten",
    "flatten_space",
    "iterate",
    "unflatten",
    "zero_sample",
]
