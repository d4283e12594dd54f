from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_import_light import modules_added_by

from sekai.stats import ExponentialMovingStats, RunningMeanStd, make_stats

KINDS = [RunningMeanStd, ExponentialMovingStats]
EXACT = {"rtol": 1e-12, "atol": 1e-12}


# -- both kinds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", KINDS)
def test_at_first_mean_0_and_variance_1(cls):
    stats = cls((2, 3))
    assert stats.mean.dtype == stats.var.dtype == np.float64
    np.testing.assert_array_equal(stats.mean, np.zeros((2, 3)))
    np.testing.assert_array_equal(stats.var, np.ones((2, 3)))
    np.testing.assert_array_equal(stats.std, np.ones((2, 3)))
    np.testing.assert_allclose(stats.normalize(np.full((2, 3), 0.5)), np.full((2, 3), 0.5), rtol=1e-7)


@pytest.mark.parametrize("cls", KINDS)
def test_one_batch_gives_its_mean_and_population_variance(cls):
    batch = np.random.default_rng(0).normal(3.0, 2.0, (50, 4))
    stats = cls((4,))
    stats.update(batch)
    np.testing.assert_allclose(stats.mean, batch.mean(axis=0), **EXACT)
    np.testing.assert_allclose(stats.var, batch.var(axis=0), rtol=1e-5)


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (40,), (0,), (0, 3)])
@pytest.mark.parametrize("n", [1, 5, 3000])
def test_every_shape_and_batch_size_gives_what_numpy_gives(cls, shape, n):
    batch = np.random.default_rng(1).normal(2.0, 3.0, (n, *shape)).astype(np.float32)
    stats = cls(shape)
    stats.update(batch)
    exact = batch.astype(np.float64)
    prior = 1e-4 if cls is RunningMeanStd else 0.0
    np.testing.assert_allclose(stats.mean, exact.mean(axis=0), **EXACT)
    np.testing.assert_allclose(stats.var, (exact.var(axis=0) * n + prior) / (n + prior), rtol=1e-11)
    expected = (exact - stats.mean) / np.sqrt(stats.var + 1e-8)
    normalized = stats.normalize(batch)
    assert normalized.dtype == np.float64 and normalized.shape == batch.shape
    np.testing.assert_allclose(normalized, expected, rtol=1e-12)
    np.testing.assert_allclose(stats.normalize(batch[0]), expected[0], rtol=1e-12)
    out = np.empty(batch.shape, np.float32)
    assert stats.normalize(batch, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("cls", KINDS)
def test_variance_survives_a_large_mean(cls):
    """Case 8.4: float32 observations 1e6 + {0, 1, 2}."""
    batch = np.float32([[1e6], [1e6 + 1], [1e6 + 2]])
    stats = cls((1,))
    stats.update(batch)
    expected = [[-1.2247], [0.0], [1.2247]]
    np.testing.assert_allclose(stats.normalize(batch), expected, atol=1e-3)
    one_by_one = cls((1,))
    for sample in batch:
        one_by_one.update(sample[None])
    np.testing.assert_allclose(one_by_one.normalize(batch), expected, atol=2e-3)


@pytest.mark.parametrize("cls", KINDS)
def test_an_empty_batch_changes_nothing(cls):
    stats = cls((2,))
    stats.update(np.array([[1.0, 2.0], [3.0, 5.0]]))
    before = stats.state_dict()
    stats.update(np.empty((0, 2)))
    stats.update_from_moments(np.zeros(2), np.ones(2), 0)
    assert stats.state_dict() == before


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("shape", [(2,), (3, 3), (3, 2, 1), ()])
def test_a_batch_of_the_wrong_shape_is_refused(cls, shape):
    stats = cls((2,))
    with pytest.raises(ValueError, match=rf"{cls.__name__}.update: expected a batch of shape \(k, 2\), got \("):
        stats.update(np.zeros(shape))
    assert stats.state_dict() == cls((2,)).state_dict()


@pytest.mark.parametrize("cls", KINDS)
def test_bad_moments_are_refused(cls):
    stats = cls((2,))
    with pytest.raises(ValueError, match=r"expected a mean of shape \(2,\), got \(1,\)"):
        stats.update_from_moments([0.0], [1.0, 1.0], 1)
    with pytest.raises(ValueError, match=r"expected a var of shape \(2,\), got \(\)"):
        stats.update_from_moments([0.0, 0.0], 1.0, 1)
    with pytest.raises(ValueError, match="expected a count of at least 0, got -1"):
        stats.update_from_moments([0.0, 0.0], [1.0, 1.0], -1)


@pytest.mark.parametrize("cls", KINDS)
def test_moments_do_what_their_batch_does(cls):
    batches = [np.random.default_rng(seed).normal(seed, 1.0, (4 + seed, 3)) for seed in range(3)]
    from_batches, from_moments = cls((3,)), cls((3,))
    for batch in batches:
        from_batches.update(batch)
        from_moments.update_from_moments(batch.mean(axis=0), batch.var(axis=0), len(batch))
    np.testing.assert_allclose(from_moments.mean, from_batches.mean, **EXACT)
    np.testing.assert_allclose(from_moments.var, from_batches.var, **EXACT)
    assert from_moments.count == from_batches.count


@pytest.mark.parametrize("cls", KINDS)
def test_updates_do_not_write_into_what_was_given(cls):
    batch, mean, var = np.array([[1.0], [2.0]]), np.array([0.0]), np.array([1.0])
    stats = cls((1,))
    stats.update_from_moments(mean, var, 2)
    stats.update(batch)
    stats.update(batch)
    assert batch.tolist() == [[1.0], [2.0]] and mean.tolist() == [0.0] and var.tolist() == [1.0]


@pytest.mark.parametrize("cls", KINDS)
def test_statistics_can_be_set_and_are_used(cls):
    stats = cls((1,))
    stats.mean, stats.var = np.array([2.0]), np.array([4.0])
    np.testing.assert_allclose(stats.normalize([6.0]), [2.0], rtol=1e-7)
    np.testing.assert_allclose(stats.normalize([6.0], epsilon=12.0), [1.0])


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("shape", [(), (2,), (0, 3)])
def test_state_round_trip_through_json(cls, shape):
    rng = np.random.default_rng(2)
    stats = cls(shape)
    stats.update(rng.normal(size=(7, *shape)))
    state = stats.state_dict()
    text = json.dumps(state)
    stats.update(rng.normal(size=(7, *shape)))
    assert json.dumps(state) == text, "later updates show in a saved state"

    restored = cls(shape)
    restored.load_state_dict(json.loads(text))
    assert restored.state_dict() == state
    more = rng.normal(size=(3, *shape))
    reference = pickle.loads(pickle.dumps(restored))
    restored.update(more)
    reference.update(more)
    assert restored.state_dict() == reference.state_dict() != state


def test_a_state_of_another_kind_or_shape_is_refused():
    stats = RunningMeanStd((2,))
    before = stats.state_dict()
    with pytest.raises(ValueError, match=r"expected the shape \(2,\), got \(3,\)"):
        stats.load_state_dict(RunningMeanStd((3,)).state_dict())
    with pytest.raises(ValueError, match="expected statistics of kind 'running', got 'ewm'"):
        stats.load_state_dict({**ExponentialMovingStats((2,)).state_dict(), "epsilon": 0.0})
    with pytest.raises(ValueError, match="expected the keys"):
        stats.load_state_dict({"kind": "running"})
    with pytest.raises(ValueError, match="expected the keys"):
        stats.load_state_dict([1, 2])
    assert stats.state_dict() == before


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"var": [1.0, -1.0]}, "expected a finite mean and a finite var of at least 0, got"),
        ({"var": [1.0, math.nan]}, "expected a finite mean and a finite var"),
        ({"var": [1.0, math.inf]}, "expected a finite mean and a finite var"),
        ({"mean": [math.nan, 0.0]}, "expected a finite mean and a finite var"),
        ({"mean": [0.0, -math.inf]}, "expected a finite mean and a finite var"),
        ({"var": [1.0]}, r"var: expected an array of shape \(2,\), got \(1,\)"),
        ({"mean": [[0.0, 1.0]]}, r"mean: expected an array of shape \(2,\), got \(1, 2\)"),
        ({"mean": 0.0}, r"mean: expected an array of shape \(2,\), got \(\)"),
        ({"mean": None}, r"mean: expected numbers in an array of shape \(2,\), got None"),
        ({"mean": ["0", "1"]}, r"mean: expected numbers in an array of shape \(2,\)"),
        ({"mean": [0.0, [1.0]]}, r"mean: expected numbers in an array of shape \(2,\)"),
        ({"shape": None}, r"expected the shape \(2,\), got None"),
        ({"shape": 2}, r"expected the shape \(2,\), got 2"),
        ({"count": None}, "count: expected a finite number of at least 0, got None"),
        ({"count": "3"}, "count: expected a finite number of at least 0, got '3'"),
        ({"count": -1.0}, "count: expected a finite number of at least 0, got -1"),
        ({"count": math.nan}, "count: expected a finite number of at least 0, got nan"),
        ({"count": math.inf}, "count: expected a finite number of at least 0, got inf"),
        ({"weight": -1.0, "epsilon": -1.0}, "(weight|epsilon): expected a finite number of at least 0, got -1"),
    ],
)
def test_a_state_without_meaning_is_refused_and_changes_nothing(cls, changes, message):
    stats = cls((2,))
    stats.update([[1.0, 2.0], [3.0, 5.0]])
    before = stats.state_dict()
    with pytest.raises(ValueError, match=f"{cls.__name__}.load_state_dict.*{message}"):
        stats.load_state_dict({**before, **changes})
    assert stats.state_dict() == before


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("batch", [np.array([[1.0, None]], object), [["a", "b"]], np.ones((1, 2), complex)])
def test_something_else_than_real_numbers_is_refused(cls, batch):
    stats = cls((2,))
    before = stats.state_dict()
    with pytest.raises(TypeError, match=rf"{cls.__name__}.update: expected real numbers, got dtype "):
        stats.update(batch)
    with pytest.raises(TypeError, match=rf"{cls.__name__}.normalize: expected real numbers, got dtype "):
        stats.normalize(batch)
    assert stats.state_dict() == before


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("shape", [(300, 2), (600,), (3, 300), (3, 1), (300, 1), (), (2,), (0,)])
def test_samples_of_the_wrong_shape_are_not_normalised(cls, shape):
    with pytest.raises(ValueError, match=rf"{cls.__name__}.normalize: expected samples of shape \(..., 3\), got \("):
        cls((3,)).normalize(np.zeros(shape))


def test_samples_with_any_number_of_leading_axes_are_normalised():
    stats = RunningMeanStd((2, 3))
    stats.update(np.random.default_rng(0).normal(size=(50, 2, 3)))
    x = np.random.default_rng(1).normal(size=(40, 30, 2, 3))
    expected = (x - stats.mean) / np.sqrt(stats.var + 1e-8)
    np.testing.assert_allclose(stats.normalize(x), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"expected samples of shape \(..., 2, 3\), got \(900, 2\)"):
        stats.normalize(np.zeros((900, 2)))


@pytest.mark.parametrize("n", [2, 3000])
def test_an_unfit_out_is_refused(n):
    stats, x = RunningMeanStd((3,)), np.zeros((n, 3))
    for out in (np.empty((3, n)).T, np.empty((n, 6))[:, ::2], np.empty((n, 4)), np.empty(3 * n)):
        with pytest.raises(ValueError, match=rf"expected a C-contiguous out of shape \({n}, 3\), got"):
            stats.normalize(x, out=out)


# -- large batches -----------------------------------------------------------------------------------------

MANY = 3000  # samples that are many enough for compiled kernels


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "f2", ">f4", ">f8", "g"])
def test_a_large_batch_of_any_real_numbers(cls, dtype):
    batch = np.random.default_rng(0).integers(0, 90, (MANY, 2)).astype(dtype)
    exact = batch.astype(np.float64)
    stats = cls((2,))
    stats.update(batch)
    np.testing.assert_allclose(stats.mean, exact.mean(axis=0), **EXACT)
    np.testing.assert_allclose(stats.normalize(batch), (exact - stats.mean) / np.sqrt(stats.var + 1e-8), rtol=1e-12)
    half = stats.normalize(batch, out=np.empty(batch.shape, np.float16))
    np.testing.assert_allclose(half, stats.normalize(batch), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "view",
    [
        lambda samples: samples[::2],
        lambda samples: samples[::-1],
        lambda samples: np.asfortranarray(samples),
        lambda samples: np.repeat(samples, 2, axis=1)[:, ::2],
        lambda samples: np.broadcast_to(samples[0], samples.shape),
    ],
)
def test_a_large_batch_however_it_lies_in_memory(view):
    samples = view(np.random.default_rng(0).normal(size=(2 * MANY, 3)))
    samples.flags.writeable = False
    stats, reference = RunningMeanStd((3,)), RunningMeanStd((3,))
    stats.update(samples)
    reference.update(np.array(samples, order="C"))
    assert stats.state_dict() == reference.state_dict()
    np.testing.assert_array_equal(stats.normalize(samples), stats.normalize(np.array(samples, order="C")))


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (50,)])
def test_a_sample_is_normalised_alike_in_a_large_and_in_a_small_batch(shape):
    stats = RunningMeanStd(shape)
    samples = np.random.default_rng(0).normal(3.0, 2.0, (MANY, *shape))
    stats.update(samples)
    one_by_one = [stats.normalize(sample) for sample in samples]
    np.testing.assert_array_equal(stats.normalize(samples), one_by_one)


def test_a_large_batch_is_merged_as_its_parts_are():
    samples = np.random.default_rng(0).normal(1e5, 1.0, (20_000, 2)).astype(np.float32)
    whole, parts = RunningMeanStd((2,)), RunningMeanStd((2,))
    whole.update(samples)
    for part in np.split(samples, 200):
        parts.update(part)
    np.testing.assert_allclose(whole.mean, parts.mean, rtol=1e-13)
    np.testing.assert_allclose(whole.var, parts.var, rtol=1e-10)


@pytest.mark.parametrize("cls", KINDS)
def test_known_moments_are_merged_without_a_check(cls):
    checked, merged = cls((2,)), cls((2,))
    for mean, var, count in ([1.0, 2.0], [3.0, 4.0], 5), ([7.0, 2.0], [0.0, 1.0], 2):
        checked.update_from_moments(mean, var, count)
        merged.merge(np.array(mean), np.array(var), count)
    assert merged.state_dict() == checked.state_dict()


def test_numba_is_loaded_by_the_first_large_batch_and_not_before():
    small = "import sekai; stats = sekai.RunningMeanStd((2,)); stats.update(numpy.ones((1023, 2)))"
    few = "sekai.RunningMeanStd((5000,)).update(numpy.ones((8, 5000))); stats.normalize(numpy.ones((900, 2)))"
    assert "numba" not in modules_added_by(f"{small}; {few}")
    assert "numba" in modules_added_by(f"{small}; stats.update(numpy.ones((1024, 2)))")


# -- samples that do not count -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (40,)])
@pytest.mark.parametrize("n", [4, 3000])
def test_samples_that_are_not_finite_do_not_count(cls, dtype, shape, n):
    batch = np.random.default_rng(3).normal(2.0, 3.0, (n, *shape)).astype(dtype)
    flat = batch.reshape(n, -1)
    flat[0, 0], flat[1, -1], flat[n - 1, 0] = np.nan, np.inf, -np.inf
    kept = batch[2:-1]
    stats, reference = cls(shape), cls(shape)
    stats.update(batch)
    reference.update(kept)
    assert np.isfinite(stats.mean).all() and np.isfinite(stats.var).all()
    assert stats.state_dict() == reference.state_dict()


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200, -1e300])
def test_a_batch_of_nothing_that_counts_changes_nothing(cls, value):
    stats = cls((2,))
    stats.update([[1.0, 2.0], [3.0, 5.0]])
    before = stats.state_dict()
    stats.update([[value, 0.0], [0.0, value]])
    stats.update(np.full((3, 2), value))
    assert stats.state_dict() == before
    fresh = cls((2,))
    fresh.update(np.full((3, 2), value))
    assert fresh.state_dict() == cls((2,)).state_dict()


def test_numbers_as_large_as_counted_do_not_overflow():
    stats = RunningMeanStd()
    for sign in (1.0, -1.0, 1.0):
        stats.update(np.full(1000, sign * 1e140))
    assert np.isfinite(stats.var) and np.isfinite(stats.normalize(0.0))


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize(("mean", "var"), [(np.nan, 1.0), (np.inf, 1.0), (0.0, np.nan), (0.0, np.inf), (0.0, -1.0)])
def test_moments_that_are_not_finite_are_refused(cls, mean, var):
    stats = cls((2,))
    with pytest.raises(ValueError, match="update_from_moments: expected a finite mean and a finite var of at least 0"):
        stats.update_from_moments([0.0, mean], [1.0, var], 2)
    with pytest.raises(ValueError, match="update_from_moments: expected a count of at least 0, got (nan|inf)"):
        stats.update_from_moments([0.0, 0.0], [1.0, 1.0], mean if mean != 0 else np.nan)
    assert stats.state_dict() == cls((2,)).state_dict()


def test_make_stats():
    assert isinstance(make_stats("running", (2,)), RunningMeanStd)
    ewm = make_stats("ewm", (2,), 5.0)
    assert isinstance(ewm, ExponentialMovingStats) and ewm.halflife == 5.0 and ewm.shape == (2,)
    with pytest.raises(ValueError, match="stats: expected 'running' or 'ewm', got 'mean'"):
        make_stats("mean")


# -- RunningMeanStd ----------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=6),
    st.floats(-1e6, 1e6),
    st.integers(0, 2**32 - 1),
)
def test_merging_batches_is_the_same_as_one_batch(sizes, offset, seed):
    samples = np.random.default_rng(seed).normal(offset, 1.0, (sum(sizes), 2))
    stats = RunningMeanStd((2,), epsilon=0.0)
    for batch in np.split(samples, np.cumsum(sizes)[:-1]):
        stats.update(batch)
    assert stats.count == len(samples)
    if len(samples):
        np.testing.assert_allclose(stats.mean, samples.mean(axis=0), rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(stats.var, samples.var(axis=0), rtol=1e-6, atol=1e-9)


def test_count_starts_at_epsilon_and_counts_samples():
    stats = RunningMeanStd(epsilon=0.5)
    assert stats.count == 0.5
    stats.update([1.0, 2.0])
    stats.update([3.0])
    assert stats.count == 3.5


def test_the_prior_is_a_variance_of_1_around_the_first_mean():
    stats = RunningMeanStd(epsilon=1.0)
    stats.update([10.0, 14.0])
    assert stats.mean == 12.0
    np.testing.assert_allclose(stats.var, (1.0 * 1 + 4.0 * 2) / 3)


def test_a_negative_epsilon_is_refused():
    with pytest.raises(ValueError, match="expected an epsilon of at least 0, got -1"):
        RunningMeanStd(epsilon=-1)


# -- ExponentialMovingStats --------------------------------------------------------------------------------


def test_the_weights_halve_every_halflife():
    stats = ExponentialMovingStats(halflife=2.0)
    values = [1.0, 5.0, 2.0, 8.0, 3.0]
    for value in values:
        stats.update([value])
    weights = 0.5 ** (np.arange(len(values))[::-1] / 2.0)
    mean = np.average(values, weights=weights)
    assert stats.decay == math.sqrt(0.5)
    np.testing.assert_allclose(stats.weight, weights.sum())
    np.testing.assert_allclose(stats.mean, mean)
    np.testing.assert_allclose(stats.var, np.average((values - mean) ** 2, weights=weights))
    assert stats.count == 5


def test_one_update_is_one_step_of_decay_whatever_the_batch_size():
    stats = ExponentialMovingStats(halflife=1.0)
    stats.update(np.zeros(100))
    stats.update([3.0, 3.0, 3.0])
    np.testing.assert_allclose(stats.mean, 2.0)
    assert stats.weight == 1.5 and stats.count == 103


def test_old_data_are_forgotten():
    stats = ExponentialMovingStats(halflife=3.0)
    stats.update([1e6])
    for _ in range(300):
        stats.update([1.0, 3.0])
    np.testing.assert_allclose([stats.mean, stats.var], [2.0, 1.0], rtol=1e-9)


@pytest.mark.parametrize("halflife", [0.0, -1.0, math.nan])
def test_a_bad_halflife_is_refused(halflife):
    with pytest.raises(ValueError, match="expected a halflife above 0"):
        ExponentialMovingStats(halflife=halflife)


# -- both in one pass ------------------------------------------------------------------------------------------


def both_ways(stats, batch, epsilon, clip, out_dtype):
    """A batch learnt and normalised in one pass, and in two by a copy of the statistics, which both become."""
    twin, out = copy.deepcopy(stats), np.empty(batch.shape, out_dtype)
    others = batch[::7] * 3
    others_out = stats.learn_and_normalize(batch, epsilon, clip, out, others)
    twin.update(batch)
    every = np.concatenate([batch, others])
    expected = twin.normalize(every, epsilon, np.empty(every.shape, out_dtype))
    if clip is not None:
        expected = np.clip(expected, -clip, clip)
    return (stats.state_dict(), np.concatenate([out, others_out])), (twin.state_dict(), expected)


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("kind", ["running", "ewm"])
@pytest.mark.parametrize("n", [10, 1500])  # by NumPy, and by a kernel
def test_learning_and_normalising_in_one_pass_gives_what_two_give(n, kind, clip):
    stats, rng = make_stats(kind, (3,), halflife=2.0), np.random.default_rng(n)
    for step in range(3):
        batch = rng.normal(step, 2.0, (n, 3)).astype(np.float32)
        if step == 1:
            batch[n // 2, 1] = np.nan  # which is shown, and not learnt from
        (state, out), (expected_state, expected) = both_ways(stats, batch, 1e-8, clip, np.float32)
        assert state == expected_state
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [10, 1500])
def test_a_column_without_variance_is_normalised_alike_in_one_pass(n):
    with np.errstate(divide="ignore", invalid="ignore"):
        one, two = both_ways(RunningMeanStd((2,), epsilon=0.0), np.full((n, 2), 3.0, np.float32), 0.0, 5.0, np.float32)
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_a_batch_of_another_shape_is_refused_by_the_one_pass_too():
    stats = RunningMeanStd((3,))
    with pytest.raises(ValueError, match=r"expected a batch of shape \(k, 3\), got \(5000,\)"):
        stats.learn_and_normalize(np.zeros(5000), 1e-8, None, np.empty(5000))
    assert stats.count == 1e-4
