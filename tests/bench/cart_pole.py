"""CartPole (Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements"), with gymnasium's constants and step."""

import math
from typing import NamedTuple

import numpy as np

from sekai import Box, Discrete
from sekai.kernels import jit, maths, streams
from sekai.vector import KernelVecEnv

GRAVITY, FORCE, HALF_LENGTH, POLE_MASS, TOTAL_MASS, TAU = 9.8, 10.0, 0.5, 0.1, 1.1, 0.02  # m/s^2, N, m, kg, kg, s
MOST_X, MOST_THETA = 2.4, 12 * 2 * math.pi / 360
HIGH = np.array([2 * MOST_X, np.inf, 2 * MOST_THETA, np.inf], dtype=np.float32)


class State(NamedTuple):
    x: np.float64
    x_dot: np.float64
    theta: np.float64
    theta_dot: np.float64


class Start(NamedTuple):
    x: float = math.nan  # drawn
    x_dot: float = math.nan
    theta: float = math.nan
    theta_dot: float = math.nan


@jit
def reset_row(state, random, i, options):
    for column, start, word in zip(state, options, streams.random_words(random, i)):  # noqa: B905
        column[i] = streams.uniform_of(word) * 0.1 - 0.05 if math.isnan(start) else start


@jit
def step_row(state, i, action):
    theta, theta_dot = state.theta[i], state.theta_dot[i]
    sin, cos = maths.sin_cos(theta)
    push = FORCE if action == 1 else -FORCE
    pull = (push + POLE_MASS * HALF_LENGTH * theta_dot**2 * sin) / TOTAL_MASS
    turn = (GRAVITY * sin - cos * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos**2 / TOTAL_MASS))
    state.x[i] += TAU * state.x_dot[i]
    state.x_dot[i] += TAU * (pull - POLE_MASS * HALF_LENGTH * turn * cos / TOTAL_MASS)
    state.theta[i] += TAU * theta_dot
    state.theta_dot[i] += TAU * turn
    return 1.0, (abs(state.x[i]) > MOST_X) | (abs(state.theta[i]) > MOST_THETA), False


@jit
def observe_row(state, i, observation):
    observation[0], observation[1] = state.x[i], state.x_dot[i]
    observation[2], observation[3] = state.theta[i], state.theta_dot[i]


class CartPoleVecEnv(KernelVecEnv):
    State, Options = State, Start
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = Box(-HIGH, HIGH), Discrete(2)
