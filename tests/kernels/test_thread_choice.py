"""Serial or parallel: the quicker way is found, kept, and found again when it is no longer the same."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.kernels.thread_choice import ThreadChoice


def play(choice, calls, serial, parallel, rng=None):
    """Make calls that take so long either way; which way each went."""
    ways = []
    for _ in range(calls):
        ways.append(choice.parallel)
        seconds = parallel if choice.parallel else serial
        choice.record(choice.parallel, seconds * (1.0 if rng is None else rng.lognormal(0.0, 0.1)))
    return ways


def share(ways):
    return sum(ways) / len(ways)


def test_it_begins_on_one_thread_and_tries_both():
    ways = play(ThreadChoice(), 16, 1.0, 0.5)
    assert ways == [False] * 8 + [True] * 8


@pytest.mark.parametrize(("parallel", "expected"), [(0.5, True), (0.9, True), (1.0, False), (3.0, False)])
def test_the_quicker_way_is_kept_but_for_rare_trials(parallel, expected):
    choice = ThreadChoice()
    play(choice, 16, 1.0, parallel)
    ways = play(choice, 50_000, 1.0, parallel)
    assert share(ways) > 0.995 if expected else share(ways) < 0.005
    assert {True, False} == set(ways)  # the other way is tried all the same


def test_what_has_become_slower_is_left_within_a_few_dozen_calls():
    choice = ThreadChoice()
    play(choice, 10_000, 1.0, 0.5)
    ways = play(choice, 200, 1.0, 4.0)
    assert not any(ways[60:])
    assert share(play(choice, 20_000, 1.0, 4.0)) < 0.01


def test_what_has_become_quicker_is_found():
    choice = ThreadChoice()
    play(choice, 30_000, 1.0, 4.0)
    play(choice, 5000, 1.0, 0.5)
    assert share(play(choice, 5000, 1.0, 0.5)) > 0.99


def test_calls_that_compile_and_calls_that_are_held_up_do_not_count():
    choice = ThreadChoice()
    for call in range(100):
        compiles, held_up = call in (0, 8), call in (3, 11)
        choice.record(choice.parallel, 10.0 if compiles or held_up else 0.5 if choice.parallel else 1.0)
    assert choice.parallel


@pytest.mark.parametrize("parallel", [0.6, 1.6])
def test_noise_is_put_up_with(parallel):
    choice, rng = ThreadChoice(), np.random.default_rng(0)
    ways = play(choice, 30_000, 1.0, parallel, rng)
    assert share(ways) > 0.97 if parallel < 1.0 else share(ways) < 0.03


def test_calls_of_two_threads_at_once():
    """Each records the way its call was made in, which need not be the way of the next call any more."""
    choice, rng = ThreadChoice(), np.random.default_rng(0)
    under_way = []
    for _ in range(5000):
        under_way.append(choice.parallel)
        if len(under_way) > 1 and rng.random() < 0.5:
            under_way.reverse()
        if len(under_way) > 1:
            way = under_way.pop()
            choice.record(way, 0.5 if way else 1.0)
    assert choice.parallel
