"""One episode of one sub-env, cut out of a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.checks import check_integer
from sekai.rollouts import Rollout


@dataclass(frozen=True)
class Episode:
    """The steps of one episode. What a step told is the state at the time after it: at times 1 to L of L steps.

    Attributes:
        record: The rollout.
        env: Which sub-env.
        steps: Which steps of it.
        number: Which episode of the sub-env, from 0.
        ended: Whether its end is among the steps.
    """

    record: Rollout
    env: int
    steps: slice
    number: int
    ended: bool

    @property
    def length(self) -> int:
        """The number L of steps."""
        return int(self.steps.stop - self.steps.start)

    def actions(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """What the policy did in each step, (L, *shape).

        Args:
            shape: What an action is to be like.

        Raises:
            ValueError: Actions are no such arrays.
        """
        actions = self.record.actions
        found = actions.shape[2:] if isinstance(actions, np.ndarray) else type(actions).__name__
        if found != shape:
            raise ValueError(f"plot: expected actions of shape {shape}, got {found}")
        taken: NDArray[Any] = actions[self.steps, self.env]
        return taken

    def told(self, key: str) -> NDArray[Any]:
        """What each step told under this key, (L,).

        Raises:
            ValueError: The rollout does not hold this info, or not as one number each.
        """
        return self._told(key, 0, "one number")

    def told_each(self, key: str) -> NDArray[Any]:
        """What each step told under this key of each of K things, (L, K).

        Raises:
            ValueError: The rollout does not hold this info, or not as a row of numbers each.
        """
        return self._told(key, 1, "a row of numbers")

    def _told(self, key: str, axes: int, expected: str) -> NDArray[Any]:
        infos = self.record.infos
        if key not in infos:
            raise ValueError(
                f"plot: expected the info {key!r} in the rollout, got {sorted(infos)}; "
                f"ask for it: sekai.rollout(..., infos=({key!r}, ...))"
            )
        if infos[key].ndim != 2 + axes or infos[key].dtype.kind not in "biuf":
            found = f"dtype {infos[key].dtype} and shape {infos[key].shape[2:]}"
            raise ValueError(f"plot: expected {expected} of the info {key!r} in each step, got {found}")
        return infos[key][self.steps, self.env]

    def path(self, key: str, start: float | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Times and values of what is told under this key.

        Args:
            key: The info.
            start: Its value at time 0, which no step tells; None where it is not known.

        Returns:
            float64 (L,) from time 1 on, or float64 (L + 1,) from time 0 on.

        Raises:
            ValueError: As for ``told``.
        """
        values = self.told(key).astype(np.float64)
        times = np.arange(1.0, self.length + 1.0)
        if start is None:
            return times, values
        return np.append(0.0, times), np.append(float(start), values)

    def __str__(self) -> str:
        return f"episode {self.number} of sub-env {self.env}" + ("" if self.ended else ", which has not ended")


def find_episode(record: Rollout, env: int, episode: int) -> Episode:
    """An episode of a sub-env; the last one may be still under way.

    Args:
        record: The rollout.
        env: Which sub-env; negative ones count from the end.
        episode: Which of its episodes, likewise.

    Raises:
        TypeError: ``env`` or ``episode`` is no integer.
        ValueError: There is no such sub-env or episode.
    """
    env = _check_index(env, record.num_envs, "env", "sub-envs in the rollout")
    stops = record.episode_ends
    stops = stops[stops[:, 1] == env, 0] + 1
    num_ended = len(stops)
    num_steps = int(np.count_nonzero(~record.frozen[:, env]))  # whatever is frozen comes after all that is not
    if num_ended == 0 or stops[-1] < num_steps:
        stops = np.append(stops, num_steps)
    number = _check_index(episode, len(stops), "episode", f"episodes of sub-env {env}")
    start = int(stops[number - 1]) if number else 0
    return Episode(record, env, slice(start, int(stops[number])), number, ended=number < num_ended)


def _check_index(value: Any, count: int, name: str, of: str) -> int:
    index = check_integer(value, f"plot({name})")
    if not -count <= index < count:
        raise ValueError(f"plot({name}): expected an index of the {count} {of}, got {index}")
    return index % count
