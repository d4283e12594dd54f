"""The volumes that are expected in the slices of an order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What the volume of a slice is at least, as a multiple of the mean: an impact is divided by it.
LEAST_VOLUME = 1e-30


def relative_volumes(profile: Any, n_steps: int, where: str) -> NDArray[np.float64]:
    """Volumes in any unit as multiples of their mean.

    Args:
        profile: The volume of each slice, above 0.
        n_steps: Slices.
        where: What the error message calls them.

    Returns:
        float64 (n_steps,), read-only, and no view of what was given.

    Raises:
        TypeError: They are no numbers.
        ValueError: They are not one for each slice, not finite and above 0, or too different.
    """
    try:
        given = np.asarray(profile)
    except ValueError:  # ragged
        raise ValueError(f"{where}: expected {n_steps} volumes (n_steps), got {profile!r}") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{where}: expected numbers, got {profile!r}")
    if given.shape != (n_steps,):
        raise ValueError(f"{where}: expected {n_steps} volumes (n_steps), got an array of shape {given.shape}")
    volumes = given.astype(np.float64)
    good = (volumes > 0.0) & (volumes < np.inf)
    if np.ma.is_masked(profile):
        good &= ~np.ma.getmaskarray(profile)
    if not good.all():
        slice_ = int(np.argmin(good))
        raise ValueError(f"{where}: expected finite volumes above 0, got {profile[slice_]} in slice {slice_}")
    # By a power of 2, so that their sum is finite and no digit is lost.
    volumes = np.ldexp(volumes, -np.frexp(volumes.max())[1])
    volumes /= volumes.mean()
    if not volumes.min() >= LEAST_VOLUME:
        slice_ = int(np.argmin(volumes))
        raise ValueError(
            f"{where}: expected volumes of at least {LEAST_VOLUME:g} times their mean, got {profile[slice_]} in slice "
            f"{slice_}"
        )
    volumes.flags.writeable = False
    return volumes
