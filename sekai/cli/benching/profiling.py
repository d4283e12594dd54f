"""Where the time of a step goes: clocks put around the parts of one vector environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sekai.cli.benching.timing import Stepper
from sekai.env import Wrapper
from sekai.results import ResetResult, StepResult
from sekai.types import ActType, ObsType, OptionsType, SeedType

if TYPE_CHECKING:
    from sekai.vector import VecEnv

#: What a native market's own methods do, by the hook of ``NativeVecEnv``.
_HOOKS = {
    "_step": "kernel",
    "_observe": "observe",
    "_observe_rows": "observe",
    "_reset_envs": "resets",
    "_reset_infos": "resets",
}
_INFOS = "infos"
_BOOKKEEPING = "bookkeeping"
_SUB_ENVS = "sub-envs"
_OUTSIDE = "outside"


class Stopwatch:
    """Time by part. While a part that was called from another one runs, the other's clock stands still."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._part = _OUTSIDE
        self._since = perf_counter()

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the time it takes counted for the part."""
        self._seconds.setdefault(part, 0.0)

        def call(*args: Any, **kwargs: Any) -> Any:
            caller = self._switch(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch(caller)

        return call

    def read(self) -> dict[str, float]:
        """Seconds of each part so far."""
        return {part: seconds for part, seconds in self._seconds.items() if part != _OUTSIDE}

    def _switch(self, part: str) -> str:
        now, left = perf_counter(), self._part
        self._seconds[left] = self._seconds.get(left, 0.0) + now - self._since
        self._since, self._part = now, part
        return left


class _Busy:
    """The time in which at least one sub-env of this process is inside ``step()`` or ``reset()``."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if self._inside == 0:
            self._since = perf_counter()
        self._inside += 1

    def __exit__(self, *_: Any) -> None:
        self._inside -= 1
        if self._inside == 0:
            self.seconds += perf_counter() - self._since


_busy = _Busy()


class SubEnvClock(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Counts the time that the sub-envs of its process take; goes around each of them."""

    @property
    def busy_seconds(self) -> float:
        """Seconds in which at least one sub-env of this process was busy."""
        return _busy.seconds

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the wrapped env."""
        with _busy:
            return self.env.step(action)

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the wrapped env."""
        with _busy:
            return self.env.reset(seed=seed, options=options)

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Step the wrapped env through its ``async_step()``."""
        with _busy:
            return await self.env.async_step(action)

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Reset the wrapped env through its ``async_reset()``."""
        with _busy:
            return await self.env.async_reset(seed=seed, options=options)


@dataclass(frozen=True)
class Profile:
    """What a step of the whole vector spends its time on.

    Attributes:
        steps: How many were measured.
        parts: Seconds per step of each part, as ``profile`` describes them.
        slowdown: How many times as long a step takes with the clocks as without.
    """

    steps: int
    parts: Mapping[str, float]
    slowdown: float

    @property
    def seconds_per_step(self) -> float:
        """Seconds of all parts."""
        return sum(self.parts.values())

    @property
    def shares(self) -> dict[str, float]:
        """What each part has of them."""
        return {part: seconds / self.seconds_per_step for part, seconds in self.parts.items()}


def profile(vec: VecEnv[Any, Any], clocked: Stepper, plain: Stepper, *, seconds: float, rounds: int) -> Profile:
    """Step an environment with clocks around the parts of its step, and in turn another one without.

    A native market has the parts "kernel" (``_step()``), "observe", "resets" (of autoreset), "infos" (copies of the
    columns, and the list) and "bookkeeping" (the rest of ``NativeVecEnv.step()``). Sub-envs, which have to be wrapped
    in ``SubEnvClock``, are the part "sub-envs", those of the busiest worker where there are several; "bookkeeping" is
    then the backend's, messages and waiting included, and "infos" (copies and the list) is told apart from it where
    the sub-envs live in this process. Each vector wrapper is a part, called by its class.

    Args:
        vec: The environment. Its methods are replaced meanwhile, on this one object.
        clocked: What steps it.
        plain: What steps another one like it.
        seconds: For about how long, both together.
        rounds: How often they take turns, after once to warm up.
    """
    block = seconds / (rounds + 1) / 2
    steps, slowdowns = 0, []
    with _clocks_around(vec) as read:
        clocked.run(block)
        before = read()
        for _ in range(rounds):
            without, with_clocks = plain.run(block), clocked.run(block)
            steps += with_clocks.steps
            slowdowns.append(with_clocks.seconds_per_step / without.seconds_per_step)
        after = read()
    return Profile(steps, {part: (after[part] - before[part]) / steps for part in after}, median(slowdowns))


@contextmanager
def _clocks_around(vec: VecEnv[Any, Any]) -> Iterator[Callable[[], dict[str, float]]]:
    """Put clocks around the parts of a step; yields what reads the seconds of each so far."""
    from sekai.batching.info_list import InfoList
    from sekai.batching.infos import copy_columns, copy_info
    from sekai.vector import KernelVecEnv, NativeVecEnv, ProcVecEnv, VecWrapper
    from sekai.vector.sub_envs.in_process import InProcessVecEnv
    from sekai.vector.sub_envs.sub_env import list_infos

    watch = Stopwatch()
    base, layers = vec, []
    while isinstance(base, VecWrapper):
        layers.append(base)
        base = base.venv
    with ExitStack() as clocks:

        def put(owner: Any, name: str, part: str, wrap: Callable[..., Any] = lambda function: function) -> None:
            clocks.enter_context(_replaced(owner, name, wrap(watch.timed(part, getattr(owner, name)))))

        def put_everywhere(function: Callable[..., Any], part: str) -> None:
            """Around a function, in whichever modules of the backends it was imported by its name."""
            name = function.__name__
            for module in [each for key, each in sys.modules.items() if key.startswith("sekai.vector.")]:
                if vars(module).get(name) is function:
                    put(module, name, part)

        if isinstance(base, NativeVecEnv):
            for hook, part in _HOOKS.items():
                put(base, hook, part)
            if isinstance(base, KernelVecEnv):
                put(base._bound, "step", "kernel")
            put_everywhere(copy_columns, _INFOS)
            put(InfoList, "of_columns", _INFOS, staticmethod)
        elif isinstance(base, InProcessVecEnv):
            put_everywhere(copy_info, _INFOS)
            put_everywhere(list_infos, _INFOS)
        put(base, "step", _BOOKKEEPING)
        for layer in reversed(layers):
            put(layer, "step", type(layer).__name__)
        yield _SubEnvTime(base, watch) if isinstance(base, (InProcessVecEnv, ProcVecEnv)) else watch.read


class _SubEnvTime:
    """Reads a stopwatch, and takes the sub-envs' time out of the time of the backend around them."""

    def __init__(self, vec: VecEnv[Any, Any], watch: Stopwatch) -> None:
        self._vec = vec
        self._watch = watch
        self._before = self._busy_seconds()

    def _busy_seconds(self) -> list[float]:
        return self._vec.get_attr("busy_seconds")

    def __call__(self) -> dict[str, float]:
        seconds = self._watch.read()
        busy = max(now - then for now, then in zip(self._busy_seconds(), self._before, strict=True))
        seconds[_BOOKKEEPING] -= busy
        return {_SUB_ENVS: busy, **seconds}


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another value of an attribute for as long as the block runs."""
    missing = object()
    before: Any = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
