from __future__ import annotations

import dataclasses
import logging
import math
import pickle

import numpy as np
import pytest

from sekai.tracking import EpisodeBatch, EpisodeStats, InMemoryTracker, LoggingTracker, StatsTracker


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


def batch(*returns):
    k = len(returns)
    flags = np.arange(k) % 2 == 0
    return EpisodeBatch(np.arange(k), np.array(returns), np.arange(k) + 1, np.full(k, 2.0), 5.0, flags, ~flags)


def test_a_batch_is_a_sequence_of_records_each_made_once():
    episodes = batch(1.5, 2.5, 3.5)
    assert len(episodes) == 3 and [stats.episode_return for stats in episodes] == [1.5, 2.5, 3.5]
    assert episodes[-1] is episodes[2] and episodes[1:] == [episodes[1], episodes[2]]
    assert episodes[1] == EpisodeStats(2.5, 2, 3.0, 2.0, 5.0, False, True, {"env_index": 1})
    assert all(type(value) in (float, int, bool, dict) for value in dataclasses.astuple(episodes[0]))
    with pytest.raises(IndexError):
        episodes[3]


@pytest.mark.parametrize("kept", [1, 2, 3, 5, 100])
def test_many_episodes_at_once_are_kept_as_one_after_the_other(kept):
    at_once, each = InMemoryTracker(kept), InMemoryTracker(kept)
    reports = [batch(1.0, 2.0), batch(3.0), [episode(4.0)], batch(5.0, 6.0, 7.0, 8.0), batch(9.0)]
    for position, report in enumerate(reports):
        at_once.on_episodes_end(report)
        for stats in report:
            each.on_episode_end(stats)
        if position in (1, 2):  # read in between, or not
            assert list(at_once.episodes) == list(each.episodes)
        if position == 2:
            at_once.on_episode_end(episode(4.5))
            each.on_episode_end(episode(4.5))
    assert at_once.summary() == each.summary()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        unread = InMemoryTracker(kept)
        unread.on_episodes_end(batch(9.0))
        assert pickle.loads(pickle.dumps(unread, protocol)).summary()["mean_return"] == 9.0


def test_a_tracker_whose_method_is_replaced_is_told_of_each_episode():
    tracker, told = InMemoryTracker(), []
    tracker.on_episode_end = told.append
    tracker.on_episodes_end(batch(1.0, 2.0))
    assert [stats.episode_return for stats in told] == [1.0, 2.0]


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


def test_whether_something_is_a_tracker_can_be_asked():
    class Own:
        def on_reset(self, env_id, seed): ...

        def on_step(self, reward, terminated, truncated, info): ...

        def on_episode_end(self, stats): ...

        def summary(self):
            return {}

    for tracker in (Own(), InMemoryTracker(), LoggingTracker()):
        assert isinstance(tracker, StatsTracker)
    for other in (None, Own, 3, logging.getLogger()):
        assert isinstance(other, StatsTracker) == (other is Own)  # a class has the methods as well
