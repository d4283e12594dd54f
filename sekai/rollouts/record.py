"""Rollout: the record of some steps of a vector environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.batching.nested import map_parts


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rollout:
    """T steps of N sub-envs, time first: ``rewards[t, i]`` is what step t brought sub-env i.

    Observations and actions are nested like their spaces: one array for most, a dict or tuple of arrays for ``Dict``,
    ``Tuple`` and ``MaskedBox``, and for a space without a fixed layout (``Sequence``) a list of T batches, each a list
    of N elements.

    Attributes:
        observations: What the policy saw before each step, arrays (T, N, *obs_shape).
        actions: What it did then, arrays (T, N, *act_shape) in the dtypes of the action space. Those of frozen
            sub-envs had no effect.
        rewards: float64 (T, N).
        terminated: bool (T, N).
        truncated: bool (T, N).
        frozen: bool (T, N), the steps that only repeated how an episode had ended, since autoreset is off. They belong
            to no episode; a learner leaves them out.
        last_observations: What the policy would see next, after the last step: a batch, arrays (N, *obs_shape).
        final_indices: intp (k, 2), step and sub-env of each episode's end with autoreset, ordered by step, then
            sub-env; the observation after such a step is the first of a new episode.
        final_observations: The terminal observations of those k, a batch in that order. Empty with autoreset off,
            where the terminal observation is simply the next one, and where no episode ended.
        infos: The info columns asked for, arrays (T, N, ...) (see ``rollout``).
        history: (T, N), where on the history that all sub-envs share each step led to, in steps; NaN where a sub-env is
            frozen. None of an environment that tells of no such history, or not in each step (see ``rollout``).
        continued: bool (N,), of a record that begins with a snapshot: the sub-envs that were in an episode by then.
            Their first episode here is what is left of it: its return, length, start and path are those of the steps
            recorded, whatever came before. None of a record that begins with a reset.
    """

    observations: Any
    actions: Any
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    frozen: NDArray[np.bool_]
    last_observations: Any
    final_indices: NDArray[np.intp]
    final_observations: Any
    infos: dict[str, NDArray[Any]]
    history: NDArray[Any] | None = None
    continued: NDArray[np.bool_] | None = None

    @property
    def num_steps(self) -> int:
        """The number T of steps."""
        return len(self.rewards)

    @property
    def num_envs(self) -> int:
        """The number N of sub-envs."""
        return int(self.rewards.shape[1])

    def next_observations(self) -> Any:
        """What each step led to, nested and shaped like ``observations``, in fresh arrays.

        It is the terminal observation where an episode ended, and elsewhere what the policy saw next.
        """

        def next_part(part: Any, last: Any, finals: Any) -> Any:
            if isinstance(part, np.ndarray):
                following = np.concatenate([part[1:], last[np.newaxis]])
                following[tuple(self.final_indices.T)] = finals
                return following
            batches = [list(batch) for batch in (*part[1:], last)]
            for (step, env), final in zip(self.final_indices.tolist(), finals, strict=True):
                batches[step][env] = final
            return batches

        return map_parts(next_part, self.observations, self.last_observations, self.final_observations)

    # -- episodes ------------------------------------------------------------------------------------------
    # Each sub-env's first episode begins with the reset that began the rollout, or is the rest of the one in which a
    # snapshot was (see ``continued``); one still going on at the end of the rollout is not among them.

    @property
    def episode_ends(self) -> NDArray[np.intp]:
        """Intp (k, 2), step and sub-env of every episode's last step, ordered by step, then sub-env."""
        return np.argwhere(self._ended())

    @property
    def episode_is_whole(self) -> NDArray[np.bool_]:
        """Bool (k,), in the order of ``episode_ends``: False where an episode had begun before (see ``continued``)."""
        ends = self.episode_ends
        if self.continued is None:
            return np.ones(len(ends), dtype=np.bool_)
        whole: NDArray[np.bool_] = ends[:, 0] + 1 > self.episode_lengths
        return whole | ~self.continued[ends[:, 1]]

    @property
    def episode_returns(self) -> NDArray[np.float64]:
        """float64 (k,), the sum of each episode's rewards, in the order of ``episode_ends``."""
        return self._sum_over_episodes(self.rewards)

    @property
    def episode_lengths(self) -> NDArray[np.int64]:
        """int64 (k,), the number of each episode's steps, in the order of ``episode_ends``."""
        return self._sum_over_episodes(np.broadcast_to(np.int64(1), self.rewards.shape))

    @property
    def episode_starts(self) -> NDArray[np.int64] | None:
        """int64 (k,), where on the ``history`` each episode began, in the order of ``episode_ends``; None without.

        Of what is left of one, where it went on.
        """
        if self.history is None:
            return None
        ends: NDArray[np.int64] = self.history[self._ended()].astype(np.int64)
        return ends - self.episode_lengths

    def _ended(self) -> NDArray[np.bool_]:
        return (self.terminated | self.truncated) & ~self.frozen

    def _sum_over_episodes(self, steps: NDArray[Any]) -> NDArray[Any]:
        """The sum of each episode's steps, added up step by step, as everything that keeps account of episodes does."""
        running = np.zeros(self.num_envs, dtype=steps.dtype)
        sums = [running[:0]]
        for step, ended in zip(steps, self._ended(), strict=True):
            running += step
            if ended.any():
                sums.append(running[ended])
                running[ended] = 0
        return np.concatenate(sums)

    # -- saving --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Every array by its name, those of nested spaces and infos by their path: "observations/book/mask", "infos/x".

        ``np.savez(path, **rollout.to_dict())`` saves it. What has no fixed layout becomes an object array, (T, N),
        (N,) or (k,), and is saved as a pickle: load it with ``allow_pickle=True``. No other array is copied.

        Raises:
            ValueError: Two arrays have the same path, since a key of a space holds a "/".
        """
        steps_and_envs = self.rewards.shape
        leading_axes = {
            "observations": steps_and_envs,
            "actions": steps_and_envs,
            "last_observations": (self.num_envs,),
            "final_observations": (len(self.final_indices),),
        }
        flat: dict[str, NDArray[Any]] = {}
        for name in self.__dataclass_fields__:
            for path, array in _leaves(name, getattr(self, name), leading_axes.get(name, ())):
                if path in flat:
                    raise ValueError(f"to_dict(): expected one array at {path!r}, got two, since a key holds a '/'")
                flat[path] = array
        return flat

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} num_steps={self.num_steps} num_envs={self.num_envs} "
            f"episodes={np.count_nonzero(self._ended())}>"
        )


def _leaves(path: str, part: Any, leading_axes: tuple[int, ...]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a nested record, each with its path."""
    if part is None:
        return
    if isinstance(part, (dict, tuple)):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _leaves(f"{path}/{key}", inner, leading_axes)
    elif isinstance(part, list):
        elements = part if len(leading_axes) == 1 else [element for batch in part for element in batch]
        array = np.empty(len(elements), dtype=object)
        for position, element in enumerate(elements):
            array[position] = element
        yield path, array.reshape(leading_axes)
    else:
        yield path, part
