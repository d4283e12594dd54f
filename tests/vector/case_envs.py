"""The environments of the cases that run in worker processes: no pytest here, which a worker would have to import."""

from __future__ import annotations

import collections
import copy

import numpy as np
from toys import BOX1, INF, T, Toy

from sekai import Box, Dict, Discrete, Env, ResetResult, StepResult, Tuple, Wrapper

# -- observations and infos (1.x, 4.x) --------------------------------------------------------------------


def overwrite(old, new):
    """``new`` in the arrays and dicts of ``old``, as far as they are of the same make."""
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and old.shape == new.shape and old.ndim:
        old[...] = new
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        for key in list(old.keys() - new.keys()):
            del old[key]
        for key in new:
            old[key] = overwrite(old.get(key), new[key])
        return old
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        return tuple(overwrite(*pair) for pair in zip(old, new, strict=True))
    return copy.deepcopy(new)


class Reusing(Toy):
    """A Toy that returns the same arrays and the same info dict every time."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.buffer, self.info = copy.deepcopy(self.r0), {}

    def reset(self, **kwargs):
        result = super().reset(**kwargs)
        self.buffer, self.info = overwrite(self.buffer, result.observation), overwrite(self.info, result.info)
        return ResetResult(self.buffer, self.info)

    def step(self, action):
        result = super().step(action)
        self.buffer, self.info = overwrite(self.buffer, result.observation), overwrite(self.info, result.info)
        return StepResult(self.buffer, result.reward, result.terminated, result.truncated, self.info)


class Reuse(Env):
    """One array and one dict for every return; ``k`` is the step, -1 after a reset."""

    observation_space, action_space = BOX1, Discrete(2)

    def __init__(self, length):
        self.length, self.buf, self.d = length, np.zeros(1), {}

    def show(self, k):
        self.k = self.buf[0] = self.d["k"] = k
        self.d.setdefault("deep", {"array": np.zeros(2), "list": [0]})["array"][:] = k
        self.d["deep"]["list"][0] = k

    def reset(self, *, seed=None, options=None):
        self.show(-1)
        return ResetResult(self.buf, self.d)

    def step(self, action):
        self.show(max(self.k, 0) + 1)
        return StepResult(self.buf, 1.0, self.k >= self.length, False, self.d)


class RewardBuffer(Reuse):
    """Its reward and flag are 0-d arrays that a reset clears."""

    def __init__(self, length):
        super().__init__(length)
        self.reward, self.over = np.zeros(()), np.zeros((), bool)

    def reset(self, **kwargs):
        self.reward[...], self.over[...] = 0.0, False
        return super().reset(**kwargs)

    def step(self, action):
        result = super().step(action)
        self.reward[...], self.over[...] = self.k, result.terminated
        return StepResult(result.observation, self.reward, self.over, False, result.info)


class OneBuffer(Reuse):
    buf_of_all = np.zeros(1)

    def __init__(self, length):
        super().__init__(length)
        self.buf = self.buf_of_all


Fill = collections.namedtuple("Fill", "price")


class Keeper(Env):
    """Shows one mutable object in every info, as it is."""

    observation_space, action_space = BOX1, Discrete(2)

    def __init__(self, thing, change):
        self.thing, self.change = thing, change

    def reset(self, *, seed=None, options=None):
        self.k = 0
        self.change(self.thing, 0)
        return ResetResult(np.zeros(1), {})

    def step(self, action):
        self.k += 1
        self.change(self.thing, self.k)
        return StepResult(np.zeros(1), 0.0, self.k == 1, False, {"thing": self.thing})


NUMBERED = Dict({"a": Box(-INF, INF, (2,)), "t": Tuple((Discrete(9), Box(-INF, INF, (1,))))})


def numbered(k):
    return {"a": np.full(2, k, np.float32), "t": (k, np.full(1, k, np.float32))}


class Numbered(Env):
    """All values are the step's number, in arrays that it uses again."""

    observation_space, action_space = NUMBERED, Discrete(2)

    def __init__(self, length):
        self.length, self.obs, self.info = length, numbered(0), {"deep": {"k": np.zeros(1)}}

    def show(self, k):
        self.k = k
        self.obs["a"][:] = self.obs["t"][1][:] = self.info["deep"]["k"][:] = k
        self.obs["t"] = (k, self.obs["t"][1])

    def reset(self, *, seed=None, options=None):
        self.show(0)
        return ResetResult(self.obs, self.info)

    def step(self, action):
        self.show(self.k + 1)
        return StepResult(self.obs, float(self.k), self.k >= self.length, False, self.info)


# -- actions (5.x) ----------------------------------------------------------------------------------------


class Echo(Env):
    """Observes the action it was given, and keeps it."""

    def __init__(self, space):
        self.observation_space = self.action_space = space
        self.given = []

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        return ResetResult(self.action_space.sample(), {})

    def step(self, action):
        assert self.action_space.contains(action), action
        self.given.append(action)
        return StepResult(action, 0.0, False, False, {})


class Closes(Toy):
    """Appends its name to a file when it is closed, wherever that happens."""

    def __init__(self, log, name, **kwargs):
        super().__init__(T(2), **kwargs)
        self.log, self.name = log, name

    def close(self):
        with self.log.open("a") as file:
            file.write(f"{self.name} ")


# -- failures and closing (9.x) ---------------------------------------------------------------------------


class Bad(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b


class Fails(Toy):
    """Raises in its third step."""

    def step(self, action):
        if self.n_step == 2:
            self.n_step += 1
            raise Bad("x", lambda: 0)
        return super().step(action)


class BadReset(Toy):
    """Its second reset fails."""

    def reset(self, **kwargs):
        result = super().reset(**kwargs)
        if self.n_reset == 2:
            raise ValueError("no data")
        return result


class Filed(Toy):
    """Appends its name to a file when it is closed, wherever that happens; may fail at it."""

    def __init__(self, path, name, error=None):
        super().__init__(T(2))
        self.path, self.name, self.error = path, name, error

    def close(self):
        with self.path.open("a") as file:
            file.write(f"{self.name} ")
        if self.error is not None:
            raise self.error


class NoSpaces(Filed):
    def __init__(self, path, name):
        super().__init__(path, name)
        del self.observation_space


class NoActions(Filed):
    def __init__(self, path, name):
        super().__init__(path, name)
        del self.action_space


# -- attributes (10.x) ------------------------------------------------------------------------------------


class Scaled(Env):
    """Its reward is its ``k``."""

    observation_space, action_space = BOX1, Discrete(2)

    def __init__(self, k=1):
        self.k = k

    def reset(self, *, seed=None, options=None):
        return ResetResult(np.zeros(1), {})

    def step(self, action):
        return StepResult(np.zeros(1), float(self.k), False, False, {})

    @property
    def double(self):
        return 2 * self.k

    @property
    def adjustable(self):
        return self.k

    @adjustable.setter
    def adjustable(self, value):
        self.k = value

    def plus(self, a, *, b=0):
        return self.k + a + b


class Own(Wrapper):
    """A wrapper with a ``k`` of its own."""

    def __init__(self, env):
        super().__init__(env)
        self.k = -1
