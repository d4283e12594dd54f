"""The Ray cluster that work is done on."""

from __future__ import annotations

import logging

import ray


def connect(address: str | None = None) -> None:
    """Connect this process to a Ray cluster, quietly; nothing is done where it is connected already.

    Args:
        address: Of the cluster, "auto" for the one that this machine belongs to; None as ``ray.init()`` has it: the one
            that ``RAY_ADDRESS`` names, or that this machine belongs to, else a new one of this machine alone, until the
            process ends.

    Raises:
        ConnectionError: There is no such cluster.
    """
    if not ray.is_initialized():
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
