"""The clock of native environments: one count for the batch, from which each sub-env's steps follow."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.vector.native.clock import Clock

NOBODY = np.zeros(3, bool)


def tick(clock, frozen=None):
    """A step of three sub-envs; who is truncated, and the info columns."""
    truncated, columns = np.zeros(3, bool), {}
    clock.tick(frozen, truncated, columns)
    return truncated.tolist(), {name: column.tolist() for name, column in columns.items()}


def test_it_begins_at_zero():
    clock = Clock(3, None)
    assert clock.now == 0 and clock.limit is None
    assert clock.began.dtype == clock.elapsed.dtype == np.int64
    assert clock.began.tolist() == clock.elapsed.tolist() == [0, 0, 0]


def test_steps_are_counted_from_the_beginning_of_each_episode():
    clock = Clock(3, None)
    assert tick(clock) == tick(clock) == ([False] * 3, {})
    clock.restart(np.array([1]))
    tick(clock)
    assert clock.now == 3
    assert clock.began.tolist() == [0, 2, 0]
    assert clock.elapsed.tolist() == [3, 1, 3]


def test_the_limit_truncates_and_is_told():
    clock = Clock(3, 2)
    assert clock.limit == 2
    assert tick(clock) == ([False] * 3, {"elapsed_steps": [1, 1, 1]})
    clock.restart(np.array([2]))
    assert tick(clock) == ([True, True, False], {"elapsed_steps": [2, 2, 1]})
    clock.restart(np.array([0, 1]))
    assert tick(clock) == ([False, False, True], {"elapsed_steps": [1, 1, 2]})


def test_a_truncation_of_the_markets_own_stays():
    clock, truncated = Clock(3, 2), np.array([True, False, False])
    clock.tick(None, truncated, {})
    assert truncated.tolist() == [True, False, False]


def test_frozen_sub_envs_do_not_grow_older():
    clock = Clock(3, 3)
    frozen = np.array([False, True, False])
    tick(clock)
    tick(clock, frozen)
    assert clock.elapsed.tolist() == [2, 1, 2]
    assert tick(clock, NOBODY) == ([True, False, True], {"elapsed_steps": [3, 2, 3]})
    # Past the limit it remains so, for whoever steps on.
    assert tick(clock, NOBODY)[0] == [True, True, True]


def test_what_was_read_is_a_snapshot():
    clock, columns = Clock(3, 5), {}
    clock.tick(None, np.zeros(3, bool), columns)
    told, elapsed = columns["elapsed_steps"], clock.elapsed
    tick(clock)
    clock.restart(np.arange(3))
    assert told.tolist() == elapsed.tolist() == [1, 1, 1]
    elapsed[:] = 99
    assert clock.elapsed.tolist() == [0, 0, 0]


def test_what_a_kernel_reads_is_live():
    clock = Clock(3, None)
    began = clock.began
    tick(clock)
    clock.restart(np.array([0]))
    assert clock.began is began and began.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("limit", "error", "message"),
    [
        (0, ValueError, "max_episode_steps: expected at least 1, got 0"),
        (1.5, TypeError, "max_episode_steps: expected an integer, got float"),
        (True, TypeError, "max_episode_steps: expected an integer, got the bool True"),
    ],
)
def test_a_limit_is_a_count(limit, error, message):
    with pytest.raises(error, match=message):
        Clock(3, limit)
