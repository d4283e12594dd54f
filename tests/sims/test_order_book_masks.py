"""The mask of an order book's actions leaves out just what its inventory limit would cut to nothing."""

from __future__ import annotations

import numpy as np
import pytest

from sims.order_book import LimitOrderBookVecEnv
from sims.order_book.actions import CANCEL, LIMIT_BUY, LIMIT_SELL, MARKET_BUY, MARKET_SELL, NONE

N = 24


def lots_cut(vec, snapshot, *action):
    """Of one lot of an action, which arrives at once, what the limit cuts in each sub-env."""
    vec.restore(snapshot)
    return vec.step(np.tile(action, (N, 1))).infos.columns["cut"]


def random_steps(vec, steps):
    """A snapshot and the masks of every fourth of some steps of random actions that the masks allow."""
    rng = np.random.default_rng(0)
    vec.reset(seed=1)
    for step in range(steps):
        masks = vec.action_mask()
        if step % 4 == 3:
            snapshot = vec.snapshot()
            yield snapshot, masks
            vec.restore(snapshot)
        vec.step(np.stack([(rng.random(mask.shape) * mask).argmax(axis=1) for mask in masks], axis=1))


def test_quotes_without_room_are_left_out():
    vec = LimitOrderBookVecEnv(N, max_inventory=2, latency=0.0)
    left_out = 0
    for snapshot, (bid, ask, size) in random_steps(vec, 60):
        assert (size == 1).all() and (bid[:, 0] == 1).all() and (ask[:, 0] == 1).all()
        for masks, action in ((bid, (2, 0, 0)), (ask, (0, 2, 0))):
            cut = lots_cut(vec, snapshot, *action) == 1
            assert (masks[:, 1:] == ~cut[:, np.newaxis]).all()
            left_out += cut.sum()
    assert 10 < left_out < 360  # of 720


@pytest.mark.slow
def test_orders_without_room_are_left_out():
    vec = LimitOrderBookVecEnv(N, actions="orders", max_inventory=3, latency=0.0)
    left_out = dict.fromkeys((LIMIT_BUY, LIMIT_SELL, MARKET_BUY, MARKET_SELL), 0)
    for snapshot, (kinds, *others) in random_steps(vec, 24):
        assert all((mask == 1).all() for mask in (*others, kinds[:, NONE], kinds[:, CANCEL]))
        for kind in left_out:
            slots = range(4) if kind in (LIMIT_BUY, LIMIT_SELL) else [0]
            cut = np.all([lots_cut(vec, snapshot, kind, 3, 0, slot) == 1 for slot in slots], axis=0)
            assert (kinds[:, kind] == ~cut).all()
            left_out[kind] += cut.sum()
    assert all(3 < count < 120 for count in left_out.values())  # of 144


@pytest.mark.parametrize("params", [{"actions": "execution"}, {"max_inventory": None}], ids=["execution", "no limit"])
def test_where_nothing_is_limited_there_is_no_mask(params):
    vec = LimitOrderBookVecEnv(1, warm_up_once=False, **params)
    assert not vec.has_action_mask and vec.action_mask() is None
