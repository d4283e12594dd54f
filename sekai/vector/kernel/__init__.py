"""Native environments made from functions of one row."""

from sekai.vector.kernel.definition import column
from sekai.vector.kernel.env import KernelVecEnv
from sekai.vector.kernel.parameters import NoPart, Randomized, part_of
from sekai.vector.kernel.rows import signature_of_either

__all__ = ["KernelVecEnv", "NoPart", "Randomized", "column", "part_of", "signature_of_either"]
