"""A corridor whose ends cannot be walked through, as an Env and as a NativeVecEnv: each with its mask."""

from __future__ import annotations

import numpy as np

from sekai import Box, Dict, Discrete, Env, InvalidAction, MultiBinary, MultiDiscrete, NativeVecEnv, ResetResult
from sekai.results import StepResult

END = 2
OBSERVATION = Box(-END, END, (1,))


def mask_at(position):
    """Left, stay, right."""
    return [position > -END, True, position < END]


class Corridor(Env):
    """Reward is the position, from which a seed begins; what the mask leaves out is refused."""

    observation_space = OBSERVATION
    action_space = Discrete(3)

    def __init__(self, length=4):
        self.length = length

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.position, self.k = int(self.rng.integers(-END, END + 1)), 0
        return ResetResult(self.observed(), {})

    def step(self, action):
        if not mask_at(self.position)[action]:
            raise InvalidAction(f"expected one of {self.action_mask()}, got {action}")
        self.position += int(action) - 1
        self.k += 1
        return StepResult(self.observed(), float(self.position), False, self.k >= self.length, {})

    def observed(self):
        return np.float32([self.position])

    def action_mask(self):
        return mask_at(self.position)


class Combined(Corridor):
    """The same beside choices of other kinds, which are all possible."""

    action_space = Dict(move=Discrete(3), size=MultiDiscrete([2, 3]), flags=MultiBinary(2), speed=Box(-1, 1, (2,)))

    def step(self, action):
        return super().step(action["move"])

    def action_mask(self):
        return {"move": mask_at(self.position), "size": ([1, 0], [0, 1, 1]), "flags": [2, 0], "speed": [0, 1]}


class CorridorVec(NativeVecEnv):
    """The corridor for many, which begin in the middle; what the mask leaves out leads nowhere."""

    snapshot_ignores = ("masks",)

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, OBSERVATION, Discrete(3), **kwargs)
        self.position = np.zeros(num_envs)
        self.masks = np.ones((num_envs, 3), bool)

    def _reset_envs(self, indices, options):
        self.position[indices] = 0

    def _observe(self):
        return self.position[:, None].astype(np.float32)

    def _step(self, actions):
        moved = np.clip(self.position + actions - 1, -END, END)
        self.position = np.where(self.frozen, self.position, moved)
        never = np.zeros(self.num_envs, bool)
        return self.position, never, never, {}

    def _action_mask(self):
        self.masks[:] = np.stack(mask_at_rows(self.position), axis=1)
        return self.masks


def mask_at_rows(position):
    return position > -END, np.ones(len(position), bool), position < END
