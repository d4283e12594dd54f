"""Native environments made from functions of one row."""

from sekai.vector.kernel.definition import column
from sekai.vector.kernel.env import KernelVecEnv
from sekai.vector.kernel.parameters import NoPart, Randomized, part_of

__all__ = ["KernelVecEnv", "NoPart", "Randomized", "column", "part_of"]
