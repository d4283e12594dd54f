"""Training with PyTorch: the arrays of any VecEnv as tensors, and back."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from numpy.typing import NDArray

from sekai.batching import layout
from sekai.batching.episodes import ended_observations
from sekai.batching.nested import map_parts
from sekai.spaces import Space
from sekai.types import InfoDict, SeedType
from sekai.vector import VecEnv

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":  # it is there, what it needs itself is not
        raise
    raise ImportError('sekai.compat.torch needs PyTorch: pip install ".[torch]" in the clone') from error

#: Integers without a sign, of more than 8 bits, PyTorch stores but does not copy row by row: as what it does.
_COPIED_AS = {getattr(torch, f"uint{bits}", None): getattr(torch, f"int{bits}") for bits in (16, 32, 64)}

_TorchVecEnvT = TypeVar("_TorchVecEnvT", bound="TorchVecEnv")


@dataclass(frozen=True, slots=True, eq=False)
class TorchStepResult:
    """What ``TorchVecEnv.step()`` returns; every tensor belongs to the caller.

    Attributes:
        observations: The batch of observations, tensors (N, *obs_shape) nested like the observation space: dicts for
            ``Dict`` and ``MaskedBox``, tuples for ``Tuple``. Where an episode ended, the first of the next one.
        rewards: float64 (N,).
        terminated: bool (N,).
        truncated: bool (N,).
        infos: One dict per sub-env, as the VecEnv gave them.
        ended: int64 (k,), the sub-envs that have begun a new episode in this step, ascending.
        final_observations: The terminal observations of those k, a batch in that order.
    """

    observations: Any
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    infos: list[InfoDict]
    ended: torch.Tensor
    final_observations: Any

    @property
    def dones(self) -> torch.Tensor:
        """Bool (N,): whose episode ended."""
        return self.terminated | self.truncated

    def next_observations(self) -> Any:
        """What the step led to: the terminal observation where an episode ended, and ``observations`` elsewhere.

        Where none ended, these are the same tensors; else fresh ones.
        """
        if not len(self.ended):
            return self.observations

        def with_finals(part: torch.Tensor, finals: torch.Tensor) -> torch.Tensor:
            dtype = _COPIED_AS.get(part.dtype, part.dtype)
            return part.view(dtype).index_copy(0, self.ended, finals.view(dtype)).view(part.dtype)

        return map_parts(with_finals, self.observations, self.final_observations)


@dataclass(frozen=True, slots=True, eq=False)
class TorchResetResult:
    """What ``TorchVecEnv.reset()`` returns; every tensor belongs to the caller.

    Attributes:
        observations: The batch of first observations, tensors (N, *obs_shape) nested like the observation space.
        infos: One dict per sub-env, as the VecEnv gave them.
    """

    observations: Any
    infos: list[InfoDict]


class TorchVecEnv:
    """Any VecEnv, with tensors for arrays.

    On the CPU no number is copied: a tensor has the memory of the array that the step returned, and actions are read
    where they are. Dtypes are those of the VecEnv, so that rewards are float64.

    A VecEnv with ``autoreset=False`` is taken too: the loop around it is the caller's, where the other adapters serve
    loops of libraries which expect that each sub-env begins its next episode by itself. ``ended`` is empty then, and a
    frozen sub-env shows its last observation until ``reset()``.

    Args:
        vec: The VecEnv; its observations have to be of fixed shapes, which ``Sequence`` has not.
        device: Where its tensors are to be; None for the CPU. Actions may come from any device.

    Attributes:
        vec: The VecEnv.
        device: Where its tensors are.

    Raises:
        TypeError: ``vec`` is no VecEnv, or its observations or actions have no fixed shapes.

    Examples:
        >>> vec = TorchVecEnv(sekai.make_vec("MarketMaking-v0", 1024))
        >>> observations = vec.reset(seed=0).observations
        >>> result = vec.step(policy(observations))
    """

    def __init__(self, vec: VecEnv[Any, Any], device: torch.device | str | None = None) -> None:
        if not isinstance(vec, VecEnv):
            raise TypeError(f"TorchVecEnv(vec): expected a sekai VecEnv, got {type(vec).__name__}")
        for name, space in (("observation_space", vec.observation_space), ("action_space", vec.action_space)):
            if not layout.has_fixed_layout(space):
                raise TypeError(f"TorchVecEnv(vec): expected an {name} of fixed shapes, got {space!r}")
        self.vec = vec
        self.device = torch.device("cpu" if device is None else device)

    @property
    def num_envs(self) -> int:
        """The number N of sub-envs."""
        return self.vec.num_envs

    @property
    def observation_space(self) -> Space[Any]:
        """The space of one sub-env's observations."""
        return self.vec.observation_space

    @property
    def action_space(self) -> Space[Any]:
        """The space of one sub-env's actions."""
        return self.vec.action_space

    def reset(self, *, seed: list[SeedType] | SeedType = None, options: Any = None) -> TorchResetResult:
        """Reset all sub-envs (see ``VecEnv.reset``)."""
        result = self.vec.reset(seed=seed, options=options)
        return TorchResetResult(self._tensors(result.observations), result.infos)

    def step(self, actions: Any) -> TorchStepResult:
        """Step all sub-envs.

        Args:
            actions: Tensors (N, *act_shape), or arrays, nested like the action space. A float tensor may be of any
                precision, and may be part of a graph of gradients, which ends here.

        Raises:
            ValueError: The number, shape or dtype of the actions is wrong; no sub-env has been stepped.
        """
        result = self.vec.step(to_arrays(actions))
        ended, final_observations = ended_observations(self.vec.observation_space, result)
        return TorchStepResult(
            observations=self._tensors(result.observations),
            rewards=self._tensors(result.rewards),
            terminated=self._tensors(result.terminated),
            truncated=self._tensors(result.truncated),
            infos=result.infos,
            ended=self._tensors(ended),
            final_observations=self._tensors(final_observations),
        )

    def close(self) -> None:
        """Close the VecEnv."""
        self.vec.close()

    def _tensors(self, batch: Any) -> Any:
        return to_tensors(batch, self.device)

    def __enter__(self: _TorchVecEnvT) -> _TorchVecEnvT:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<TorchVecEnv{self.vec!r} on {self.device}>"


def to_tensors(batch: Any, device: torch.device | str | None = None) -> Any:
    """A batch as tensors.

    Args:
        batch: An array, or dicts and tuples of arrays, at any depth.
        device: Where the tensors are to be; None for the CPU.

    Returns:
        Tensors nested alike, which share the memory of arrays that can be written to, on the CPU.
    """

    def tensor(array: NDArray[Any]) -> torch.Tensor:
        shareable = array.flags.writeable and all(stride >= 0 for stride in array.strides)
        made = torch.from_numpy(array if shareable else array.copy())
        return made if device is None else made.to(device)

    return map_parts(tensor, batch)


def to_arrays(batch: Any) -> Any:
    """A batch as NumPy arrays.

    Args:
        batch: A tensor, or dicts and tuples of tensors, at any depth; what is no tensor is left as it is.

    Returns:
        Arrays nested alike, which share the memory of tensors on the CPU; bfloat16, which NumPy has not, as float32.
    """

    def array(part: Any) -> Any:
        if not isinstance(part, torch.Tensor):
            return part
        part = part.detach().cpu().resolve_conj().resolve_neg()  # NumPy has no views that negate as they are read
        return (part.float() if part.dtype == torch.bfloat16 else part).numpy()

    return map_parts(array, batch)
