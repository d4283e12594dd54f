"""Training with TorchRL: any VecEnv as one of its batched environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.episodes import ended_observations
from sekai.compat.masks import flat_masks, has_flat_masks
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Space, Tuple, flatdim
from sekai.vector import VecEnv

try:
    import torch
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import (
        Binary,
        Bounded,
        BoundedContinuous,
        Categorical,
        Composite,
        MultiCategorical,
        TensorSpec,
        Unbounded,
    )
    from torchrl.envs import EnvBase
except ModuleNotFoundError as error:
    if error.name not in ("torch", "torchrl", "tensordict"):  # they are there, what they need themselves is not
        raise
    raise ImportError('sekai.compat.torchrl needs TorchRL: pip install ".[torchrl]" in the clone') from error

from sekai.compat.torch import to_arrays, to_tensors


class SekaiTorchRLEnv(EnvBase):
    """A TorchRL environment of batch size ``(num_envs,)`` over any VecEnv with autoreset, native ones included.

    Entries are "observation", "action", "reward" (float32), "done", "terminated" and "truncated"; an observation or
    action of a ``Dict`` is a TensorDict below its name, one of a ``Tuple`` a TensorDict with the keys "0", "1", ...,
    and one of a ``MaskedBox`` a TensorDict of "values" and "mask".

    Where the VecEnv has action masks, of actions of a ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``, there is an
    entry "action_mask", bool: (num_envs, n), of several choices one mask after another; of a ``MultiBinary`` (num_envs,
    *shape, 2), whether an element may be 0 and whether it may be 1. With a terminal observation it allows everything.
    ``torchrl.envs.ActionMask`` takes it, but for choices that do not begin at 0 and a ``MultiDiscrete`` of several
    axes, whose specs cannot be masked (see ``to_spec``): there a policy has to read the entry. A collector without a
    policy draws from the specs as they were when it was made, without a mask: hand it ``env.rand_action``.

    A VecEnv begins the next episode of a sub-env in the step that ends one; TorchRL asks for it afterwards, by a reset
    of the sub-envs that are done. So the step leads to the terminal observation, and that reset to the observation
    which the VecEnv gave then: rollouts and collectors see the episodes that the VecEnv makes, number for number. A
    sub-env in mid-episode, as a ``StepCounter(max_steps=...)`` leaves it, is reset by itself (``vec.reset_envs()``),
    while the others stay where they are. A ``reset()`` without a mask, or with one of all of which some are in
    mid-episode, resets the VecEnv as a whole. A sub-env stepped on without the reset it was due goes on in its new
    episode.

    ``set_seed(s)`` makes the next reset of the VecEnv as a whole one with ``vec.reset(seed=s)``. ``reset(options=...)``
    hands options on to every sub-env that is to be reset, whose episode begins anew with them, also where the step that
    ended the last one has begun it already.

    Args:
        vec: The VecEnv; its observations and actions have to be of fixed shapes, which ``Sequence`` has not.
        device: Where the tensors are to be; None for the CPU.

    Attributes:
        vec: The VecEnv.

    Raises:
        TypeError: ``vec`` is no VecEnv, or its observations or actions have no fixed shapes, or are of uint16, uint32
            or uint64.
        ValueError: It does not reset sub-envs whose episode has ended.
        NotImplementedError: (of a reset) Some sub-envs are to be reset in mid-episode, and ``vec`` resets all or none
            (see ``VecEnv.resets_some``): give it the time limit.
    """

    def __init__(self, vec: VecEnv[Any, Any], device: torch.device | str | None = None) -> None:
        if not isinstance(vec, VecEnv):
            raise TypeError(f"SekaiTorchRLEnv(vec): expected a sekai VecEnv, got {type(vec).__name__}")
        if not vec.autoreset:
            raise ValueError("SekaiTorchRLEnv(vec): expected a VecEnv with autoreset, got one with autoreset=False")
        super().__init__(device="cpu" if device is None else device, batch_size=(vec.num_envs,))
        self.vec = vec
        self._next_seed: int | None = None
        self._ended: NDArray[np.bool_] = np.zeros(vec.num_envs, dtype=np.bool_)
        self._observations: Any = None  # those of the episodes that go on, or have just begun
        n, column = vec.num_envs, (vec.num_envs, 1)
        self.observation_spec = Composite(observation=to_spec(vec.observation_space, n), shape=(n,))
        self._has_masks = has_flat_masks(vec)
        if self._has_masks:
            space = vec.action_space
            shape = (n, *space.shape, 2) if isinstance(space, MultiBinary) else (n, flatdim(space))
            self.observation_spec["action_mask"] = Binary(shape=shape, dtype=torch.bool)
        self.action_spec = Composite(action=to_spec(vec.action_space, n), shape=(n,))
        self.reward_spec = Unbounded(column, dtype=torch.float32)
        flags = {name: Binary(shape=column, dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(**flags, shape=(n,))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        space = self.vec.observation_space
        result = self.vec.step(_from_entry(self.vec.action_space, tensordict.get("action")))
        rows, final_observations = ended_observations(space, result)
        following = self._observations = result.observations
        if rows.size:
            following = layout.copy_batch(following)
            layout.put(following, rows, final_observations)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        self._ended[rows] = True
        return self._entries(
            following,
            done=result.dones,
            terminated=result.terminated,
            truncated=result.truncated,
            reward=result.rewards.astype(np.float32),
        )

    def _reset(self, tensordict: TensorDictBase | None = None, *, options: Any = None) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        asked = np.ones(self.num_envs, dtype=np.bool_) if mask is None else to_arrays(mask).reshape(-1)
        # The others that are asked for have begun their episode with the last step.
        due = asked if mask is None or options is not None else asked & ~self._ended
        if asked.all() and due.any():
            self._observations = self.vec.reset(seed=self._next_seed, options=options).observations
            self._next_seed = None
        elif due.any():
            rows = due.nonzero()[0]
            begun = self.vec.reset_envs(rows, options=options).observations
            self._observations = layout.copy_batch(self._observations)
            layout.put(self._observations, rows, begun)
        self._ended &= ~asked
        going_on = np.zeros(self.num_envs, dtype=np.bool_)
        # TorchRL takes the rows that it has asked for.
        return self._entries(self._observations, done=going_on, terminated=going_on.copy(), truncated=going_on.copy())

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = seed

    def _entries(self, observations: Any, **columns: NDArray[Any]) -> TensorDict:
        entries = {name: to_tensors(column[:, np.newaxis], self.device) for name, column in columns.items()}
        entries["observation"] = _to_entry(to_tensors(observations, self.device), self.num_envs)
        if self._has_masks:
            masks = flat_masks(self.vec).reshape(self.observation_spec["action_mask"].shape)
            masks[self._ended] = True
            entries["action_mask"] = to_tensors(masks, self.device)
        return TensorDict(entries, batch_size=self.batch_size, device=self.device)

    @property
    def num_envs(self) -> int:
        """The number N of sub-envs."""
        return self.vec.num_envs

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the VecEnv."""
        super().close(raise_if_closed=raise_if_closed)
        self.vec.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.vec!r} on {self.device}>"


#: Bounded's own metaclass makes a plain BoundedContinuous of whatever is built.
_KeepsClass: Any = type("_KeepsClass", (type(Bounded),), {"__call__": type.__call__})


class BoxBounded(BoundedContinuous, metaclass=_KeepsClass):  # type: ignore[misc]
    """A ``Bounded`` of floats that draws as a ``Box`` does, where TorchRL's own draws NaN and infinities.

    Each number is drawn by itself: uniform between two bounds, at an exponentially distributed distance (mean 1) from a
    single one, standard normal without bounds.
    """

    def rand(self, shape: Any = None) -> torch.Tensor:
        """Draw a tensor of shape ``(*shape, *self.shape)``."""
        low, high = self.space.low, self.space.high
        like = low.expand((*(shape or ()), *self.shape))
        below, above = low.isfinite(), high.isfinite()
        distance = torch.empty_like(like).exponential_()
        half = low / 2 + torch.rand_like(like) * (high / 2 - low / 2)  # the whole distance may exceed the largest float
        drawn = torch.where(above, high - distance, torch.randn_like(like))
        drawn = torch.where(below, low + distance, drawn)
        return torch.where(below & above, 2 * half, drawn).clamp(low, high)

    def to(self, dest: Any) -> BoxBounded:
        """The spec on another device, or of another dtype."""
        moved = super().to(dest)
        if isinstance(moved, BoxBounded):
            return moved
        return BoxBounded(moved.space.low, moved.space.high, moved.shape, moved.device, moved.dtype)


def to_spec(space: Space[Any], num_envs: int) -> TensorSpec:
    """The TorchRL spec of a batch of elements of a space.

    Args:
        space: The space of one element, of a fixed layout.
        num_envs: The length of the leading axis.

    Returns:
        ``Bounded``, ``BoxBounded`` or, where no bound is finite, ``Unbounded`` for a Box; ``Categorical`` for a
        Discrete, ``MultiCategorical`` for a MultiDiscrete of one axis and ``Binary`` for a MultiBinary; ``Bounded``
        integers where those do not start at 0, or have more axes; a ``Composite`` for a Dict, a Tuple and a MaskedBox.
        Random elements of a spec are elements of the space too, save those of a MaskedBox: draw such from
        ``vec.batch_action_space``.

    Raises:
        TypeError: Elements of the space have no fixed layout, or are of uint16, uint32 or uint64, whose numbers
            PyTorch does not compare.
    """
    shape = (num_envs, *(space.shape or ()))
    if isinstance(space, Discrete) and space.start == 0:
        return Categorical(space.n, shape=shape)
    if isinstance(space, Discrete):
        return _bounded(np.int64(space.start), np.int64(space.start + space.n - 1), shape)
    if isinstance(space, MultiDiscrete):
        dtype = _torch_dtype(space.dtype)
        if space.nvec.ndim == 1 and space.nvec.size and not space.start.any():
            return MultiCategorical(space.nvec.tolist(), shape=shape, dtype=dtype, remove_singleton=False)
        return _bounded(space.bounds.low, space.bounds.high, shape)
    if isinstance(space, MultiBinary):
        return Binary(shape=shape, dtype=torch.int8)
    if isinstance(space, Box):
        if not (space.bounded_below.any() or space.bounded_above.any()):
            return Unbounded(shape, dtype=_torch_dtype(space.dtype))
        return _bounded(space.low, space.high, shape)
    if isinstance(space, MaskedBox):  # empty slots hold what may lie out of bounds
        values = Unbounded((num_envs, *space.values_shape), dtype=_torch_dtype(space.dtype))
        mask = Binary(shape=(num_envs, *space.mask_shape), dtype=torch.int8)
        return Composite(values=values, mask=mask, shape=(num_envs,))
    if isinstance(space, Dict):
        return Composite({key: to_spec(part, num_envs) for key, part in space.items()}, shape=(num_envs,))
    if isinstance(space, Tuple):
        parts = {str(position): to_spec(part, num_envs) for position, part in enumerate(space)}
        return Composite(parts, shape=(num_envs,))
    raise TypeError(f"to_spec(space): expected a space of fixed shapes, got {space!r}")


def _bounded(low: Any, high: Any, shape: tuple[int, ...]) -> Bounded:
    dtype = _torch_dtype(low.dtype)
    bounds = {name: to_tensors(np.broadcast_to(bound, shape)) for name, bound in (("low", low), ("high", high))}
    with np.errstate(over="ignore"):
        drawable = low.dtype.kind != "f" or np.isfinite(high - low).all()
    return (Bounded if drawable else BoxBounded)(**bounds, shape=shape, dtype=dtype)


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    if dtype.kind == "u" and dtype.itemsize > 1:
        raise TypeError(f"to_spec(space): expected a dtype whose numbers PyTorch compares, got {dtype}")
    return torch.from_numpy(np.empty(0, dtype)).dtype


def _to_entry(batch: Any, num_envs: int) -> Any:
    """A batch of tensors as an entry of a TensorDict; a tuple is a TensorDict by position."""
    if isinstance(batch, tuple):
        batch = {str(position): part for position, part in enumerate(batch)}
    if isinstance(batch, dict):
        return TensorDict({key: _to_entry(part, num_envs) for key, part in batch.items()}, batch_size=(num_envs,))
    return batch


def _from_entry(space: Space[Any], entry: Any) -> Any:
    """An entry of a TensorDict as a batch of arrays, nested like the space."""
    if isinstance(space, Tuple):
        return tuple(_from_entry(part, entry.get(str(position))) for position, part in enumerate(space))
    if isinstance(space, Dict):
        return {key: _from_entry(part, entry.get(key)) for key, part in space.items()}
    if isinstance(space, MaskedBox):
        return {key: to_arrays(entry.get(key)) for key in ("values", "mask")}
    return to_arrays(entry)
