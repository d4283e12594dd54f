"""How many workers share the sub-envs of a ProcVecEnv, found out over its first steps."""

from __future__ import annotations

from sekai.batching.inputs import even_slices

#: Steps after a change of which nothing is measured.
_LEFT_OUT = 4
#: Steps that are measured, and seconds that they take together: several turns of whatever else is at work.
_MEASURED, _MEASURED_SECONDS = 20, 0.05
#: Or fewer steps, where they take longer than this, but at least some.
_AT_LEAST, _ENOUGH_SECONDS = 3, 1.0
#: Seconds that one more process to be woken up costs a step at the least.
_WAKING = 20e-6
#: Seconds of work that a worker always gains from sharing.
_MUCH = 2e-3
#: The share of a step's time by which another number has to be quicker at the least.
_GAIN = 0.9


class WorkerChoice:
    """The number of workers with which a step is the quickest, tried out from one upwards.

    A number is measured over some steps, by their median. The next larger one is tried where it would gain, were the
    work shared without loss; numbers that leave each worker milliseconds of work are passed over for larger ones. The
    first one that does not gain ends it, and the best so far is taken.

    Args:
        num_envs: The number of sub-envs.
        num_cores: The number of cores there are to use.

    Attributes:
        number: Of workers, which steps are to be made with now.
        is_final: Whether it is chosen for good.
        times: Seconds of a step, by the numbers that were measured.
    """

    def __init__(self, num_envs: int, num_cores: int) -> None:
        self.number = 1
        self.times: dict[int, float] = {}
        self._larger = _numbers(num_envs, num_cores)[1:]
        self.is_final = not self._larger
        self._begin()

    def _begin(self) -> None:
        self._left_out = 0
        self._steps: list[float] = []
        self._seconds = 0.0

    def record(self, seconds: float) -> None:
        """Take in how long a step took, with ``number`` workers."""
        if self.is_final:
            return
        self._left_out += 1
        if self._left_out <= _LEFT_OUT:
            return
        self._steps.append(seconds)
        self._seconds += seconds
        steps = len(self._steps)
        if (steps >= _MEASURED and self._seconds >= _MEASURED_SECONDS) or (
            steps >= _AT_LEAST and self._seconds >= _ENOUGH_SECONDS
        ):
            from statistics import median  # and with it much that nobody else needs

            self.times[self.number] = median(self._steps)
            self._begin()
            self._go_on()

    def settle(self, number: int) -> None:
        """Choose a number for good."""
        self.number, self.is_final = number, True

    def _go_on(self) -> None:
        best = min(self.times, key=lambda number: self.times[number])
        if best == self.number:
            work = self.times[best] * best
            while len(self._larger) > 1 and work / self._larger[0] > _MUCH:
                del self._larger[0]
            if self._larger and work / self._larger[0] + _WAKING < _GAIN * self.times[best]:
                self.number = self._larger.pop(0)
                return
        self.settle(best)


def _numbers(num_envs: int, num_cores: int) -> list[int]:
    """The numbers to try: powers of two and the largest, but none with which no worker has fewer sub-envs."""
    most = min(num_envs, num_cores)
    powers = [2**k for k in range(most.bit_length()) if 2**k < most]
    numbers: dict[int, int] = {}  # by the sub-envs of the worker that has the most
    for number in (*powers, most):
        numbers.setdefault(max(rows.stop - rows.start for rows in even_slices(num_envs, number)), number)
    return list(numbers.values())
