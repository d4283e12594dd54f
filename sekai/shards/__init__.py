"""Shards: a batch of rows in parts, each built and run by itself with the numbers that it has in the whole."""

from __future__ import annotations

from sekai.shards.cutting import Resets, split_rows
from sekai.shards.making import ShardMaker

__all__ = ["Resets", "ShardMaker", "split_rows"]
