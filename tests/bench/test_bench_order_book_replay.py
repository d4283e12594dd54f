"""``LimitOrderBook-v0`` with a tape, many messages a step, against the C program's messages of a simulated book."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pytest
from test_bench_order_book import ROUNDS, SECONDS, Limit, library, threads  # noqa: F401 - fixtures

from sims.data import read_lobster
from sims.order_book.replay import ReplayVecEnv

sys.path.append(str(Path(__file__).parents[1] / "sims"))
from synthetic_lobster import make_pair

pytestmark = pytest.mark.bench

BOOKS, PER_STEP = 64, 1000


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    pair = make_pair(3, 50_000, levels=10, depth=14)
    return read_lobster(*pair.write(tmp_path_factory.mktemp("pair")))


@pytest.mark.parametrize("offset", [0, 1, 3], ids=["no quotes", "quotes at the best", "quotes that rest behind"])
def test_replay(library, tape, offset, report):  # noqa: F811
    limit = Limit(library, 1)
    given = dict(step="messages", step_messages=PER_STEP, n_steps=20, latency=1e-3, max_inventory=None, depth=10)
    vec = ReplayVecEnv(BOOKS, flow=tape, **given)
    actions = np.full((BOOKS, 3), (offset, offset, 0))
    vec.reset(seed=0)
    vec.step(actions)
    times = {"replay": [], "C program": []}
    for _ in range(ROUNDS):
        done, start = 0, perf_counter()
        while perf_counter() - start < SECONDS:
            done += int(vec.step(actions).infos.columns["messages"].sum())
        times["replay"].append((perf_counter() - start) / done)
        before, start = limit.messages(), perf_counter()
        while perf_counter() - start < SECONDS:
            limit.run(100, 1)
        times["C program"].append((perf_counter() - start) / (limit.messages() - before))
    faster = median(b / a for a, b in zip(times["replay"], times["C program"], strict=True))
    what = f"Replay, {PER_STEP} messages a step, offset {offset}: {1e-6 / median(times['replay']):.0f} M messages/s"
    report(what, times, "replay", "C program", aim="1.5 times", value=f"{faster:.2f}")
