from __future__ import annotations

import numpy as np
import pytest

from sekai.spaces.bounds import Bounds

INF = np.inf


class Farthest:
    """A generator whose draws are the largest that there can be."""

    def random(self, shape):
        return np.full(shape, np.nextafter(1.0, 0.0))

    def standard_exponential(self, shape):
        return np.full(shape, 800.0)

    def standard_normal(self, shape):
        return np.full(shape, 40.0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_farthest_floats_are_finite_and_in_bounds(dtype):
    most = float(np.finfo(dtype).max)
    low = np.array([most, -INF, -most, 0.1, -1.0, -INF])
    high = np.array([INF, -most, most, 0.3, 0.1, INF])
    bounds = Bounds.parse(low, high, None, dtype, "here")
    x = bounds.sample(Farthest())
    assert np.isfinite(x).all()
    assert bounds.contain(x)


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_the_farthest_integers_are_in_bounds(dtype):
    limits = np.iinfo(dtype)
    above = Bounds.parse(limits.max - 1, INF, (2,), dtype, "here")
    below = Bounds.parse(-INF, limits.min + 1, (2,), dtype, "here")
    assert above.sample(Farthest()).tolist() == [limits.max] * 2
    assert below.sample(Farthest()).tolist() == [limits.min] * 2


def test_bounds_of_a_batch_cost_what_one_row_costs():
    bounds = Bounds.parse(np.array([0, -INF]), 5, None, np.int64, "here").expand((10**12,))
    assert bounds.low.shape == (10**12, 2) and bounds.low.strides[0] == 0
    assert bounds.bounded_below[0].tolist() == [True, False]


def test_samples_may_have_axes_in_front():
    bounds = Bounds.parse(np.array([0.0, 10.0]), np.array([1.0, 11.0]), None, np.float32, "here")
    x = bounds.sample(np.random.default_rng(0), (3, 4))
    assert x.shape == (3, 4, 2)
    assert bounds.inside(x).all()
    assert not bounds.inside(x + 1).any()
