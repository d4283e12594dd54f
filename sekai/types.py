"""Names for the types that cross the public interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

#: A seed of one environment: an integer, a generator to use as it is, or None to continue the stream.
SeedType: TypeAlias = "int | np.integer[Any] | np.random.Generator | None"

#: What one environment tells beside its observation.
InfoDict: TypeAlias = dict[str, Any]

#: Info columns of a native environment: each key an array whose first axis is the environments.
InfoArrays: TypeAlias = Mapping[str, NDArray[Any]]

#: The options of one reset.
OptionsType: TypeAlias = "dict[str, Any] | None"

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
#: Observation and action as a wrapper shows them.
WObsType = TypeVar("WObsType")
WActType = TypeVar("WActType")
