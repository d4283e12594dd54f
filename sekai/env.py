"""One environment, and the wrappers around it."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from sekai.batching.infos import FINAL_OBSERVATION
from sekai.checks import did_you_mean
from sekai.delegation import FromInner, require_no_mask
from sekai.mirror import AsyncMirror
from sekai.results import ResetResult, StepResult
from sekai.seeding import np_random
from sekai.snapshots.agreement import names_of_classes
from sekai.snapshots.attributes import is_of_kit
from sekai.snapshots.envs import load_states, put_state_back, state_of_layers
from sekai.types import ActType, InfoDict, ObsType, OptionsType, SeedType, WActType, WObsType

if TYPE_CHECKING:
    from sekai.spaces import Space

_EnvT = TypeVar("_EnvT", bound="Env[Any, Any]")


class Env(AsyncMirror, ABC, Generic[ObsType, ActType]):
    """Abstract base of one environment.

    A subclass assigns ``observation_space`` and ``action_space`` and implements ``reset()``, which calls
    ``self._set_rng(seed)`` first, and ``step()``. ``async_step()`` and ``async_reset()`` run these unless the
    subclass overrides them too.

    Attributes:
        observation_space: What ``reset()`` and ``step()`` return as observation is an element of it.
        action_space: What ``step()`` takes is an element of it.
        metadata: Anything that holds for every instance of the class.
        spec: The registry's ``EnvSpec`` this env was made from, None without one.

    Examples:
        >>> class Walk(Env[np.ndarray, int]):
        ...     observation_space = Box(-np.inf, np.inf, (1,))
        ...     action_space = Discrete(2)
        ...
        ...     def reset(self, *, seed=None, options=None):
        ...         self._set_rng(seed)
        ...         self.x = 0.0
        ...         return ResetResult(np.float32([self.x]), {})
        ...
        ...     def step(self, action):
        ...         self.x += self.rng.normal() + action
        ...         return StepResult(np.float32([self.x]), -abs(self.x), abs(self.x) > 9, False, {})
    """

    observation_space: Space[ObsType]
    action_space: Space[ActType]
    metadata: dict[str, Any] = {}
    spec: Any = None

    _rng: np.random.Generator | None = None
    _rng_seed: int | None = None

    #: Whether ``step()`` begins the next episode where one ends, as that of ``AutoReset`` does.
    _begins_episodes: ClassVar[bool] = False

    @abstractmethod
    def step(self, action: ActType) -> StepResult[ObsType]:
        """Advance the episode by one step.

        Args:
            action: An element of ``action_space``.
        """

    @abstractmethod
    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
        """Begin a new episode.

        Args:
            seed: An integer starts a new random stream; None continues the one there is; a generator is
                used as it is.
            options: Whatever the environment documents.
        """

    if TYPE_CHECKING:  # AsyncMirror provides them; here are their types

        async def async_step(self, action: ActType) -> StepResult[ObsType]:
            """Async step; the default runs ``step()``."""

        async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[ObsType]:
            """Async reset; the default runs ``reset()``."""

    def action_mask(self) -> Any:
        """Which actions make sense now, as ``action_space.sample(mask)`` takes it; None where all do, the default.

        For an env to write whose actions are not all possible at all times. It is asked between a reset or step and the
        next step. What a step does with an action that was left out is for the env to say.
        """
        return None

    @property
    def has_action_mask(self) -> bool:
        """Whether the env has an ``action_mask()``, known before the first reset; also where it allows everything."""
        return type(self).action_mask is not Env.action_mask

    def close(self) -> None:  # noqa: B027 - nothing to release is the common case, not a missing override
        """Release what the environment holds; the default does nothing."""

    @property
    def rng(self) -> np.random.Generator:
        """The generator every random draw of this env comes from, made from OS entropy if never seeded."""
        if self._rng is None:
            self._set_rng(None)
            assert self._rng is not None
        return self._rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        if not isinstance(generator, np.random.Generator):
            raise TypeError(f"rng: expected a numpy.random.Generator, got {type(generator).__name__}")
        self._set_rng(generator)

    @property
    def rng_seed(self) -> int | None:
        """The seed that ``rng`` was started from; None where that was a generator, or nothing yet."""
        return self._rng_seed

    def _set_rng(self, seed: SeedType) -> int | None:
        """Seed the env's random stream; called first in ``reset()``.

        Args:
            seed: An integer starts a new stream; None keeps the stream, creating one if there is none; a
                generator becomes the rng itself.

        Returns:
            The seed in use, as ``rng_seed`` tells it; None for a stream that came as a generator.

        Raises:
            TypeError: The seed is neither an integer, a generator nor None.
            ValueError: The seed is negative.
        """
        if seed is not None or self._rng is None:
            self._rng, self._rng_seed = np_random(seed)
        return self._rng_seed

    def reseed(self, seed: SeedType) -> None:
        """Go on, in the middle of an episode, with the random stream that ``reset(seed=seed)`` begins.

        Args:
            seed: An integer, or a generator, which becomes the stream; None lets it go on.

        Raises:
            TypeError: The seed is neither an integer, a generator nor None.
            ValueError: It is negative.
            NotImplementedError: Nothing has used ``rng`` so far: what is random, if anything, is drawn from elsewhere.
        """
        if self._rng is None:
            expected = "expected an env that has drawn from self.rng, or seeded it, got one that has not"
            raise NotImplementedError(f"{self}.reseed(seed): {expected}")
        self._set_rng(seed)

    #: Attributes that decide nothing of what is shown next, which snapshots leave out: caches, windows, loggers.
    snapshot_ignores: ClassVar[tuple[str, ...]] = ()

    def snapshot(self) -> Any:
        """All that decides what this env will show next, its random stream included, as data that can be pickled.

        The default pickles all attributes but those in ``snapshot_ignores``, of wrappers and the env inside at once. An
        env that can say its state in less, or a wrapper for all inside it, may write this and ``restore()`` anew. Of
        what several envs share, each has a copy of its own afterwards.

        Raises:
            TypeError: An attribute cannot be pickled (a socket, a lock, a live feed); the message names it.
        """
        layers = self._snapshot_layers
        count = 1  # of those from here on that leave it to this method
        while count < len(layers) and not _says_its_state(type(layers[count])):
            count += 1
        inner = layers[count].snapshot() if count < len(layers) else None
        return names_of_classes(*map(type, layers[:count])), state_of_layers(layers, count), inner

    def restore(self, snapshot: Any) -> None:
        """Go on from a snapshot, which another env of the same classes may have made.

        Raises:
            TypeError: It is none.
            ValueError: It is of other classes; nothing has changed.
        """
        self._restorer_by_default(snapshot)()

    def _restorer(self, snapshot: Any) -> Callable[[], None]:
        """Look at a snapshot, and return what restores it; a ``restore()`` of the env's own looks when it does."""
        is_own = type(self).restore is not Env.restore
        return partial(self.restore, snapshot) if is_own else self._restorer_by_default(snapshot)

    def _restorer_by_default(self, snapshot: Any) -> Callable[[], None]:
        if not isinstance(snapshot, tuple) or len(snapshot) != 3 or not isinstance(snapshot[0], tuple):
            raise TypeError(f"{self}.restore(snapshot): expected what snapshot() gives, got {snapshot!r}")
        kinds, pickled, inner = snapshot
        layers = self._snapshot_layers
        own = names_of_classes(*map(type, layers[: len(kinds)]))
        if kinds != own or (inner is None) != (len(kinds) == len(layers)):
            raise ValueError(f"restore(snapshot): expected one of {' in '.join(own)}, got one of {' in '.join(kinds)}")
        states = load_states(pickled, layers)
        restore_inner = None if inner is None else layers[len(kinds)]._restorer(inner)

        def restore() -> None:
            if restore_inner is not None:
                restore_inner()
            for k, state in enumerate(states):
                put_state_back(layers[k], state)
                layers[k]._after_restore()

        return restore

    @property
    def _snapshot_layers(self) -> list[Env[Any, Any]]:
        """This env and, of a wrapper, those inside it, from the outside in."""
        return [self]

    def _after_restore(self) -> None:
        """What is left to do once the attributes are back."""

    @property
    def unwrapped(self) -> Env[Any, Any]:
        """The env inside all wrappers."""
        return self

    def has_attr(self, name: str) -> bool:
        """Whether ``get_attr(name)`` finds something."""
        return hasattr(self, name)

    def get_attr(self, name: str) -> Any:
        """The attribute ``name``.

        Raises:
            AttributeError: There is none.
        """
        return getattr(self, name)

    @property
    def _simulated(self) -> Any:
        """The object whose state is stepped; two envs of which it is the same are one. An adapter has another."""
        return self

    def set_attr(self, name: str, value: Any, *, force: bool = False) -> None:
        """Change the attribute ``name``.

        Args:
            name: The attribute.
            value: What it becomes.
            force: Create it where there is none.

        Raises:
            AttributeError: There is none, and ``force`` is not given; or it is a method of every env.
        """
        _refuse_method(name)
        if not (force or _owns(self, name)):
            hint = did_you_mean(name, self._settable_names())
            raise AttributeError(f"set_attr: {self} has no attribute {name!r} to change{hint}")
        setattr(self, name, value)

    def _settable_names(self) -> set[str]:
        """What ``set_attr`` may have been meant to name."""
        public = {name for name in dir(self) if not name.startswith("_")}
        return {name for name in public if not callable(getattr(type(self), name, None))}

    def __enter__(self: _EnvT) -> _EnvT:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__ if self.spec is None else self.spec.id}>"


def _says_its_state(kind: type[Env[Any, Any]]) -> bool:
    """Whether a class writes a snapshot of its own."""
    return kind.snapshot is not Env.snapshot or kind.restore is not Env.restore


def _refuse_method(name: str) -> None:
    if callable(getattr(Env, name, None)):
        raise AttributeError(f"set_attr({name!r}): expected an attribute of the simulation, got a method of every env")


def _owns(layer: Env[Any, Any], name: str) -> bool:
    """Whether a layer has an attribute (or property, or slot) itself, rather than from the env it wraps."""
    if name in layer.__dict__:
        return True
    for provider in type(layer).__mro__:
        if name in provider.__dict__:
            return not isinstance(provider.__dict__[name], FromInner)
    return False


def _levels_above(wrapper: Wrapper[Any, Any, Any, Any]) -> int:
    """How far up from ``Wrapper.__init__`` the wrapper is being made, as the ``stacklevel`` of a warning.

    Between the two are the ``__init__`` of its classes, as many as have one, and functions of the kit. Frames are
    looked at for the line that the warning names, and for nothing else.
    """
    frame: FrameType | None = sys._getframe(1)
    levels = 1
    while frame is not None and frame.f_back is not None:
        first = frame.f_code.co_varnames[:1]
        is_own = frame.f_code.co_name == "__init__" and any(frame.f_locals.get(name) is wrapper for name in first)
        if not is_own and frame.f_globals.get("__name__", "").partition(".")[0] != "sekai":
            break
        frame = frame.f_back
        levels += 1
    return levels


class Wrapper(Env[WObsType, WActType], Generic[WObsType, WActType, ObsType, ActType]):
    """Transparent wrapper around an env; base of everything that changes a part of one.

    Every attribute the wrapper lacks is read from the env inside, private ones too. ``observation_space``,
    ``action_space``, ``metadata`` and ``spec`` are the inner env's unless assigned; the random stream
    always is. ``len(wrapper)`` counts the layers, the base env included, and iterating yields them from the
    outside in.

    A wrapper with a ``reset()`` of its own belongs inside an ``AutoReset``: the resets that this makes pass by what is
    around it, and a ``UserWarning`` says so. The kit's own wrappers look for these resets in infos, but ``TimeLimit``
    is warned of too: what it truncates is not reset by an ``AutoReset`` inside.

    Args:
        env: The env to wrap, kept as ``.env``.

    Raises:
        TypeError: ``env`` is no ``Env``.
    """

    #: Whether what it does at a reset is done too where an ``AutoReset`` inside makes one.
    _follows_autoreset: ClassVar[bool] = True

    observation_space: Any = FromInner("env")
    action_space: Any = FromInner("env")
    metadata: Any = FromInner("env")
    spec: Any = FromInner("env")
    _rng: Any = FromInner("env")
    _rng_seed: Any = FromInner("env")

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        if not isinstance(env, Env):
            raise TypeError(f"{type(self).__name__}: expected an Env to wrap, got {env!r}")
        self.env: Env[Any, Any] = env
        own = type(self)
        follows = own._follows_autoreset and is_of_kit(own.reset) and is_of_kit(own.async_reset)
        layers = [*env] if isinstance(env, Wrapper) else [env]
        if not follows and any(layer._begins_episodes for layer in layers):
            warnings.warn(
                f"{own.__name__} around AutoReset: expected AutoReset outermost, got it inside, where the resets that "
                f"it makes pass by {own.__name__}.reset(); wrap it the other way round",
                UserWarning,
                stacklevel=_levels_above(self),
            )

    def step(self, action: WActType) -> StepResult[WObsType]:
        """Step the inner env."""
        return self.env.step(action)

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[WObsType]:
        """Reset the inner env."""
        return self.env.reset(seed=seed, options=options)

    async def async_step(self, action: WActType) -> StepResult[WObsType]:
        """Step the inner env through its ``async_step()``."""
        return await self.env.async_step(action)

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[WObsType]:
        """Reset the inner env through its ``async_reset()``."""
        return await self.env.async_reset(seed=seed, options=options)

    def action_mask(self) -> Any:
        """The mask of the inner env."""
        return self.env.action_mask()

    @property
    def has_action_mask(self) -> bool:
        """Whether the wrapper or the inner env has an ``action_mask()``."""
        return type(self).action_mask is not Wrapper.action_mask or self.env.has_action_mask

    def close(self) -> None:
        """Close the inner env."""
        self.env.close()

    def _set_rng(self, seed: SeedType) -> int | None:
        return self.env._set_rng(seed)

    @property
    def _snapshot_layers(self) -> list[Env[Any, Any]]:
        return [self, *self.env._snapshot_layers]

    def reseed(self, seed: SeedType) -> None:
        """Let the inner env go on with another random stream."""
        self.env.reseed(seed)

    @property
    def unwrapped(self) -> Env[Any, Any]:
        """The env inside all wrappers."""
        return self.env.unwrapped

    def has_attr(self, name: str) -> bool:
        """Whether ``get_attr(name)`` finds something."""
        holder = self._holder(name)
        return isinstance(holder, Wrapper) or holder.has_attr(name)

    def get_attr(self, name: str) -> Any:
        """The attribute ``name`` of the outermost layer that has it itself.

        Raises:
            AttributeError: No layer has it.
        """
        holder = self._holder(name)
        try:
            return getattr(holder, name) if isinstance(holder, Wrapper) else holder.get_attr(name)
        except AttributeError as error:
            raise AttributeError(f"get_attr({name!r}) on {self}: {error}") from error

    def set_attr(self, name: str, value: Any, *, force: bool = False) -> None:
        """Change the attribute ``name`` of the outermost layer that has it itself.

        Args:
            name: The attribute.
            value: What it becomes.
            force: Where no layer has it, create it here.

        Raises:
            AttributeError: No layer has it, and ``force`` is not given; or it is a method of every env, or ``env``, the
                env inside.
        """
        if name == "env":
            raise AttributeError(
                "set_attr('env'): expected an attribute of the simulation, got the env inside a wrapper"
            )
        _refuse_method(name)
        holder = self._holder(name)
        if isinstance(holder, Wrapper):
            setattr(holder, name, value)
            return
        try:
            holder.set_attr(name, value)
        except AttributeError as error:
            if holder.has_attr(name):
                raise AttributeError(f"set_attr({name!r}) on {self}: {error}") from error
            if not force:
                hint = did_you_mean(name, self._settable_names())
                raise AttributeError(f"set_attr({name!r}) on {self}: no attribute {name!r} to change{hint}") from error
            setattr(self, name, value)

    def _settable_names(self) -> set[str]:
        return (super()._settable_names() - {"env"}) | self.env._settable_names()

    def _holder(self, name: str) -> Env[Any, Any]:
        """The outermost wrapper that has ``name`` itself, else the base env, which may or may not have it."""
        for layer in self:
            if isinstance(layer, Wrapper) and _owns(layer, name):
                return layer
        return layer

    def __getattr__(self, name: str) -> Any:
        # Protocols (pickle, copy, NumPy) look for dunder names and must not find the inner env's; `env`
        # itself is missing while a wrapper is being unpickled.
        if name == "env" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        # A property that raises AttributeError ends up here as well; looked up again, it says why it did.
        if any(name in provider.__dict__ for provider in type(self).__mro__):
            return object.__getattribute__(self, name)
        return getattr(self.env, name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Env[Any, Any]]:
        layer: Env[Any, Any] = self
        while isinstance(layer, Wrapper):
            yield layer
            layer = layer.env
        yield layer

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"


class ObservationWrapper(Wrapper[WObsType, ActType, ObsType, ActType], ABC, Generic[WObsType, ActType, ObsType]):
    """Applies a transformation to every observation.

    The terminal observation that an ``AutoReset`` inside puts into ``info["final_observation"]`` is
    transformed too, via ``final_observation()``.
    """

    @abstractmethod
    def observation(self, obs: ObsType) -> WObsType:
        """The observation as this wrapper shows it."""

    def final_observation(self, obs: ObsType) -> WObsType:
        """Transform a terminal observation; the default runs ``observation()``.

        Override it if ``observation()`` has side effects that terminal observations should not cause.
        """
        return self.observation(obs)

    def step(self, action: ActType) -> StepResult[WObsType]:
        """Step the inner env and transform what it observes."""
        return self._transform_step(self.env.step(action))

    def reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[WObsType]:
        """Reset the inner env and transform what it observes."""
        return self._transform_reset(self.env.reset(seed=seed, options=options))

    async def async_step(self, action: ActType) -> StepResult[WObsType]:
        """``step()``, through the inner env's ``async_step()``."""
        return self._transform_step(await self.env.async_step(action))

    async def async_reset(self, *, seed: SeedType = None, options: OptionsType = None) -> ResetResult[WObsType]:
        """``reset()``, through the inner env's ``async_reset()``."""
        return self._transform_reset(await self.env.async_reset(seed=seed, options=options))

    def _transform_step(self, result: StepResult[ObsType]) -> StepResult[WObsType]:
        observation = self.observation(result.observation)
        info: InfoDict = result.info
        if FINAL_OBSERVATION in info:
            info = {**info, FINAL_OBSERVATION: self.final_observation(info[FINAL_OBSERVATION])}
        return StepResult(observation, result.reward, result.terminated, result.truncated, info)

    def _transform_reset(self, result: ResetResult[ObsType]) -> ResetResult[WObsType]:
        return ResetResult(self.observation(result.observation), result.info)


class RewardWrapper(Wrapper[ObsType, ActType, ObsType, ActType], ABC, Generic[ObsType, ActType]):
    """Applies a transformation to every reward."""

    @abstractmethod
    def reward(self, reward: float) -> float:
        """The reward as this wrapper shows it."""

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Step the inner env and transform its reward."""
        return self._transform_step(self.env.step(action))

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """``step()``, through the inner env's ``async_step()``."""
        return self._transform_step(await self.env.async_step(action))

    def _transform_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        reward = self.reward(result.reward)
        return StepResult(result.observation, reward, result.terminated, result.truncated, result.info)


class ActionWrapper(Wrapper[ObsType, WActType, ObsType, ActType], ABC, Generic[ObsType, WActType, ActType]):
    """Applies a transformation to every action."""

    @abstractmethod
    def action(self, action: WActType) -> ActType:
        """The action as the inner env takes it."""

    def action_mask(self) -> Any:
        """None, as long as the inner env has no mask; for a subclass to write where it has, of the actions it takes.

        Raises:
            NotImplementedError: The inner env has a mask, which is of the actions that come out of ``action()``.
        """
        require_no_mask(self, self.env)

    @property
    def has_action_mask(self) -> bool:
        """Whether a subclass says what the mask of the actions that it takes is."""
        return type(self).action_mask is not ActionWrapper.action_mask

    def step(self, action: WActType) -> StepResult[ObsType]:
        """Step the inner env with the transformed action."""
        return self.env.step(self.action(action))

    async def async_step(self, action: WActType) -> StepResult[ObsType]:
        """``step()``, through the inner env's ``async_step()``."""
        return await self.env.async_step(self.action(action))
