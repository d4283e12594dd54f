from __future__ import annotations

import json
import logging
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.stats import (
    EpisodeStats,
    ExponentialMovingStats,
    InMemoryTracker,
    LoggingTracker,
    RunningMeanStd,
    make_stats,
)

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
    with pytest.raises(ValueError, match="reshape"):
        stats.load_state_dict({**before, "var": [1.0]})
    assert stats.state_dict() == before


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


# -- episodes and trackers ---------------------------------------------------------------------------------


def episode(episode_return=1.0, length=2, **kwargs):
    return EpisodeStats(episode_return, length, 0.5, 10.0, 10.5, True, False, **kwargs)


def test_episode_stats_are_frozen_and_slotted():
    stats = episode()
    assert stats.done and stats.extra == {} and stats.elapsed_time == 0.5
    assert episode().extra is not stats.extra
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert not EpisodeStats(0.0, 0, 0.0, 0.0, 0.0, False, False).done
    assert EpisodeStats(0.0, 0, 0.0, 0.0, 0.0, False, True).done
    with pytest.raises(AttributeError):
        stats.episode_return = 2.0
    assert not hasattr(stats, "__dict__")


def test_in_memory_tracker_keeps_the_last_episodes():
    tracker = InMemoryTracker(max_episodes=2)
    tracker.on_reset("Env-v0", 3)
    tracker.on_step(1.0, False, False, {})
    for value in (1.0, 2.0, 6.0):
        tracker.on_episode_end(episode(value, length=int(value)))
    assert [stats.episode_return for stats in tracker.episodes] == [2.0, 6.0]
    assert tracker.summary() == {
        "num_episodes": 2,
        "mean_return": 4.0,
        "min_return": 2.0,
        "max_return": 6.0,
        "mean_length": 4.0,
    }


def test_the_summary_without_episodes_is_nan():
    summary = InMemoryTracker().summary()
    assert summary.pop("num_episodes") == 0
    assert len(summary) == 4 and all(math.isnan(value) for value in summary.values())


def test_a_tracker_that_keeps_nothing_is_refused():
    with pytest.raises(ValueError, match="expected max_episodes of at least 1, got 0"):
        InMemoryTracker(0)


def test_logging_tracker_writes_one_record_per_episode(caplog):
    tracker = LoggingTracker()
    with caplog.at_level(logging.INFO, logger="sekai.episodes"):
        tracker.on_reset("Env-v0", None)
        tracker.on_step(1.0, False, False, {})
        tracker.on_episode_end(episode(2.5, 7, extra={"env_index": 3}))
    (record,) = caplog.records
    text = record.getMessage()
    assert record.levelno == logging.INFO
    assert "return 2.5" in text and "length 7" in text and "'env_index': 3" in text
    assert tracker.summary()["num_episodes"] == 1


def test_logging_tracker_takes_a_logger(caplog):
    logger = logging.getLogger("mine")
    with caplog.at_level(logging.INFO, logger="mine"):
        LoggingTracker(logger).on_episode_end(episode())
    assert [record.name for record in caplog.records] == ["mine"]
