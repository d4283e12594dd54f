"""Environments that go wrong in their worker, each in its own way."""

import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
from toys import BOX1, T, Toy

from sekai import Discrete, Env, ResetResult, Space, StepResult

#: Seconds after which what has not happened hangs, however busy the machine is.
HANG = 240.0

#: Seconds that nobody waits for.
FOR_EVER = 600.0


def wait_until(condition, seconds=HANG):
    """Whether something comes true before it can be said to hang."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return bool(condition())


class Gate:
    """Where a sub-env says that it has come so far, and stays until it is let through; a folder, for any process."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir()

    def reached(self):
        return (self.folder / "reached").exists()

    def open(self):
        (self.folder / "open").touch()

    def pass_through(self):
        (self.folder / "reached").touch()
        wait_until((self.folder / "open").exists, FOR_EVER)


class Unpicklable(Exception):
    """Takes two arguments and cannot be pickled: rebuilding it from its message would fail."""

    def __init__(self, a, b):
        super().__init__(a)
        self.b = b


class Fails(Toy):
    """Raises in step ``at`` of its life, once."""

    def __init__(self, script=None, at=3):
        super().__init__(script or T(99))
        self.at = at

    def step(self, action):
        if self.n_step + 1 == self.at:
            self.n_step += 1
            raise Unpicklable("x", lambda: 0)
        return super().step(action)


class Misbehaves(Env):
    """Does what the action says: 0 nothing, any other number a key of ``DEEDS``."""

    observation_space, action_space = BOX1, Discrete(10)

    def __init__(self):
        self.k = 0
        self.gate = None  # where it sleeps; None for a sleep that nobody ends

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.k = 0
        return ResetResult(np.zeros(1), {})

    def step(self, action):
        info = DEEDS[int(action)](self) or {}
        self.k += 1
        return StepResult(np.array([float(self.k)]), 1.0, False, False, info)

    def numbers_of_threads(self):
        import numba

        return numba.get_num_threads(), {
            name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
        }

    def pid(self):
        return os.getpid()

    def make_room(self):
        self.large = None
        return True

    def read_extra(self):
        return getattr(self, "extra", None)

    def refuse(self):
        raise Unpicklable("refused", lambda: 0)

    def lock(self):
        return threading.Lock()


def _sleep(env):
    if env.gate is None:
        time.sleep(FOR_EVER)
    else:
        env.gate.pass_through()


def _raise(env):
    raise Unpicklable("bad deed", lambda: 0)


DEEDS = {
    0: lambda env: None,
    1: lambda env: os._exit(3),
    2: _sleep,
    3: lambda env: {"f": lambda: 0},
    4: _raise,
    5: lambda env: os.kill(os.getpid(), signal.SIGKILL),
    6: lambda env: {"big": np.arange(1000)},
    7: lambda env: (_ for _ in ()).throw(SystemExit(5)),
}


class Stubborn(Env):
    """Ignores SIGTERM and hangs in close()."""

    observation_space, action_space = BOX1, Discrete(2)

    def __init__(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def reset(self, *, seed=None, options=None):
        return ResetResult(np.zeros(1), {})

    def step(self, action):
        return StepResult(np.zeros(1), 0.0, False, False, {})

    def close(self):
        time.sleep(FOR_EVER)


class Replays(Env):
    """Shows given observations in turn, and keeps its last action."""

    def __init__(self, observation_space, action_space, observations):
        self.observation_space, self.action_space, self.observations = observation_space, action_space, observations

    def reset(self, *, seed=None, options=None):
        self.k = 0
        return ResetResult(self.observations[0], {})

    def step(self, action):
        self.k += 1
        self.action = action
        return StepResult(
            self.observations[self.k], float(self.k), self.k == 2, False, {"k": self.k} if self.k > 1 else {}
        )


class Filed(Toy):
    """Writes a line into a file when it is closed."""

    def __init__(self, path, name, script=None):
        super().__init__(script or T(9))
        self.path, self.name = path, name

    def pid(self):
        return os.getpid()

    def close(self):
        with open(self.path, "a") as file:
            file.write(f"{self.name}\n")


class OneWay:
    """Can be pickled, and unpickled in no process but the one that did."""

    def __reduce__(self):
        return _arrive, (os.getpid(),)


def _arrive(pid):
    if os.getpid() != pid:
        raise LookupError("not here")
    return OneWay()


class Anything(Space):
    """A space of any objects at all."""

    def __init__(self):
        super().__init__(None, None)

    def sample(self, mask=None):
        return 0

    def contains(self, x):
        return True


class Gambles(Toy):
    """Draws from the generators that everything in its process shares."""

    def __init__(self, draw=None):
        super().__init__(T(9))
        if draw is not None:
            self.draw = draw
        self.at_first = self.draw()

    def draw(self):
        return random.random(), np.random.random(), np.random.standard_normal()


class Parent(Misbehaves):
    """Starts a process of its own."""

    def child(self):
        ctx = multiprocessing.get_context("fork")
        queue = ctx.SimpleQueue()
        process = ctx.Process(target=queue.put, args=(7,))
        process.start()
        process.join()
        return queue.get()
