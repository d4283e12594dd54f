"""The order book against the speed limit: the same flow in plain C, built on the spot."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pytest

import sekai
from sekai.kernels import get_num_threads, jit, set_num_threads
from sekai.vector import KernelVecEnv
from sims.order_book import book as books
from sims.order_book import events, flows
from sims.order_book.env import LimitOrderBookVecEnv

pytestmark = pytest.mark.bench

SOURCE = Path(__file__).with_name("lob_limit.c")
ROUNDS = 9
SECONDS = 0.1
BOOKS = 1024
SIZES = dict(max_orders=1024, ring=256)
FLOWS = {
    1: flows.CST(lam=[1.92 * i**-0.52 for i in range(1, 21)], mu=0.94, theta=0.6),
    2: flows.SantaFe(lam=1.0, distances=50, mu=10.0, theta=0.2),
}
scenarios = pytest.mark.parametrize("scenario", [1, 2])


class Params(NamedTuple):
    flow: Any
    events: int = 100
    rules: books.BookRules = books.BookRules(**SIZES)


class State(NamedTuple):
    book: books.Book
    clock: events.Clock


class Shared(NamedTuple):
    flow: flows.FlowTables


@jit
def reset_row(params, derived, state, random, i):
    flow = derived.flow
    books.clear_row(params.rules, state.book, i, 100_000, 100_001)
    events.begin_clock(state.book, state.clock, random, i, flow, events.Rates(flow.lam, flow.mu, flow.theta, 1.0))


@jit
def step_row(params, derived, state, random, i, action):
    flow = derived.flow
    books.prefetch_row(params.rules, state.book, i + 1)
    rates = events.Rates(flow.lam, flow.mu, flow.theta, 1.0)
    events.advance_row(params.rules, state.book, state.clock, random, i, flow, rates, events.NEVER, params.events)
    return 0.0, False, False


@jit
def observe_row(state, i, observation):
    observation[0] = state.book.ask[i] - state.book.bid[i]


class FlowVecEnv(KernelVecEnv):
    """The background alone."""

    Params, State, parallel_from = Params, State, 64
    reset_row, step_row, observe_row = reset_row, step_row, observe_row
    observation_space, action_space = sekai.Box(0.0, np.inf, (1,)), sekai.Discrete(1)

    @staticmethod
    def prepare(params):
        """The flow as row functions read it."""
        return Shared(flows.read_flow(params.flow))


class Limit:
    """The C program's books."""

    def __init__(self, library, scenario):
        self.library, self.scenario = library, scenario
        self.books = ctypes.c_void_p(library.lob_new(BOOKS, 0))
        self.run(100, 60)

    def run(self, per_step, steps):
        self.library.lob_run(self.books, BOOKS, self.scenario, per_step, steps)

    def messages(self):
        return self.library.lob_sum(self.books, BOOKS, 0)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("limit") / "liblob.so"
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(SOURCE), "-o", str(path), "-lm", "-lpthread"], check=True)
    library = ctypes.CDLL(str(path))
    library.lob_new.restype, library.lob_new.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_uint64]
    library.lob_sum.restype, library.lob_sum.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    return library


@pytest.fixture(autouse=True)
def threads():
    before = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


def seconds_per_message(call, messages):
    """Of calls that take a while."""
    before, start = messages(), perf_counter()
    while perf_counter() - start < SECONDS:
        call()
    return (perf_counter() - start) / (messages() - before)


def against(limit, per_step, vec, actions):
    """Seconds per message of both, in rounds in which they take turns."""
    vec.reset(seed=0)
    for _ in range(60):
        vec.step(actions)
    times = {"sekai": [], "C program": []}
    for _ in range(ROUNDS):
        times["sekai"].append(seconds_per_message(lambda: vec.step(actions), lambda: messages_of(vec)))
        times["C program"].append(
            seconds_per_message(lambda: limit.run(per_step, max(1, 100 // per_step)), limit.messages)
        )
    return times


def messages_of(vec):
    return sum(clock.messages for clock in vec.get_attr("clock"))


def speed(times):
    """How fast the first is, as a share of the second."""
    return f"{median(b / a for a, b in zip(times['sekai'], times['C program'], strict=True)):.2f}"


@scenarios
def test_flow(library, scenario, report):
    vec = FlowVecEnv(BOOKS, flow=FLOWS[scenario])
    times = against(Limit(library, scenario), 100, vec, np.zeros(BOOKS, np.int64))
    what = f"order book, scenario {scenario}, the flow alone, 1,024 books, 100 messages a step, share of the C program"
    report(what, times, "sekai", "C program", "0.85", speed(times))


def full(scenario, per_step, num_envs=BOOKS):
    """The market with quotes, latency, fees and 10 levels a side."""
    return LimitOrderBookVecEnv(
        num_envs, flow=FLOWS[scenario], step="messages", step_messages=per_step, latency=0.01, maker_fee=-1e-5,
        taker_fee=3e-4, depth=10, n_steps=2**30, **SIZES,
    )  # fmt: skip


@scenarios
@pytest.mark.parametrize(("per_step", "aim"), [(100, "0.6"), (1, "0.15")])
def test_full_step(library, scenario, per_step, aim, report):
    vec = full(scenario, per_step)
    actions = np.tile(np.array([1, 1, 0]), (BOOKS, 1))
    times = against(Limit(library, scenario), per_step, vec, actions)
    what = f"order book, scenario {scenario}, full step() of {per_step} messages, share of the C program"
    report(what, times, "sekai", "C program", aim, speed(times))


@scenarios
def test_two_threads(scenario, report):
    times = {}
    vecs = {num_threads: full(scenario, 100) for num_threads in (1, 2)}
    actions = np.tile(np.array([1, 1, 0]), (BOOKS, 1))
    for _ in range(ROUNDS):
        for num_threads, vec in vecs.items():
            set_num_threads(num_threads)
            if num_threads not in times:
                times[num_threads] = []
                vec.reset(seed=0)
                for _ in range(100):
                    vec.step(actions)
            times[num_threads].append(
                seconds_per_message(lambda vec=vec: vec.step(actions), lambda vec=vec: messages_of(vec))
            )
    ratio = median(a / b for a, b in zip(times[1], times[2], strict=True))
    named = {"1 thread": times[1], "2 threads": times[2]}
    report(
        f"order book, scenario {scenario}, full step(), 2 threads against 1",
        named,
        "1 thread",
        "2 threads",
        "1.7",
        f"{ratio:.2f}",
    )
