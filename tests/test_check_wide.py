"""``check_vec_env`` with the wide batch that it takes by itself: thousands of rows, in blocks and on two threads."""

from __future__ import annotations

import re

import broken_markets as markets
import pytest
from findings import COMPILED, N_STEPS, like, the_only_finding

from sekai.testing import check_vec_env


@pytest.mark.parametrize("arguments", [{}, {"num_envs": 1}])
def test_a_good_market_has_no_problems(arguments):
    assert check_vec_env(markets.GoodVec, **arguments) == []


def test_a_row_that_a_large_batch_computes_otherwise_is_named():
    if COMPILED:
        finding = "step 1: rewards[0]: expected #, as in a VecEnv of 7 with this seed and these actions, "
        assert re.match(like(f"{finding}got # in one of # (sub-env 0)"), the_only_finding(markets.LargeBatches))
    else:
        assert check_vec_env(markets.LargeBatches, n_steps=N_STEPS) == []
