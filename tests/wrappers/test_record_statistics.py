from __future__ import annotations

from types import SimpleNamespace

import pytest
from script_env import ScriptEnv, ends_after

from sekai.tracking import EpisodeStats, InMemoryTracker
from sekai.wrappers import AutoReset, RecordEpisodeStatistics, TimeLimit, record_statistics


class Recorder:
    """A tracker that writes down what it is told."""

    def __init__(self):
        self.calls = []

    def on_reset(self, env_id, seed):
        self.calls.append(("reset", env_id, seed))

    def on_step(self, reward, terminated, truncated, info):
        self.calls.append(("step", reward, terminated, truncated, info))

    def on_episode_end(self, stats):
        self.calls.append(("end", stats.episode_return))

    def summary(self):
        return {}


class Payer(ScriptEnv):
    """One-step episodes that pay 1, 10, 100, ..."""

    def __init__(self):
        super().__init__(ends_after(1))
        self.paid = 0

    def step(self, action):
        self.script = ends_after(1, reward=10.0**self.paid)
        self.paid += 1
        return super().step(action)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(record_statistics, "monotonic", lambda: clock.now)
    return clock


def test_the_last_step_carries_the_episode(drive, clock):
    env = RecordEpisodeStatistics(ScriptEnv(ends_after(3, reward=2.0)))
    assert env.episode_stats is None
    assert "episode" not in drive.reset(env).info
    clock.now = 101.0
    assert "episode" not in drive.step(env).info
    assert "episode" not in drive.step(env).info
    clock.now = 102.5
    stats = drive.step(env).info["episode"]
    assert stats == EpisodeStats(6.0, 3, 2.5, 100.0, 102.5, True, False)
    assert type(stats.episode_return) is float and type(stats.terminated) is bool
    assert env.episode_stats is stats
    assert list(env.tracker.episodes) == [stats]


def test_a_truncated_episode(drive):
    env = RecordEpisodeStatistics(TimeLimit(ScriptEnv(ends_after(9)), 2))
    drive.reset(env)
    drive.step(env)
    stats = drive.step(env).info["episode"]
    assert (stats.terminated, stats.truncated, stats.episode_length) == (False, True, 2)


@pytest.mark.parametrize("order", ["autoreset inside", "autoreset outside", "reset by hand"])
def test_everything_starts_again_with_each_episode(drive, clock, order):
    """Case 7.2: rewards 1, 10, 100 in three one-step episodes."""
    recorder = RecordEpisodeStatistics(AutoReset(Payer()) if order == "autoreset inside" else Payer())
    env = AutoReset(recorder) if order == "autoreset outside" else recorder
    drive.reset(env)
    episodes = []
    for _ in range(3):
        clock.now += 2.0
        episodes.append(drive.step(env).info["episode"])
        if order == "reset by hand":
            drive.reset(env)
    assert [stats.episode_return for stats in episodes] == [1.0, 10.0, 100.0]
    assert [stats.episode_length for stats in episodes] == [1, 1, 1]
    assert [stats.elapsed_time for stats in episodes] == [2.0, 2.0, 2.0]
    assert list(recorder.tracker.episodes) == episodes


def test_a_reset_in_mid_episode_clears_all_and_records_nothing(drive, clock):
    env = RecordEpisodeStatistics(ScriptEnv(ends_after(2)))
    drive.reset(env)
    drive.step(env)
    clock.now = 200.0
    drive.reset(env)
    clock.now = 201.0
    drive.step(env)
    stats = drive.step(env).info["episode"]
    assert (stats.episode_return, stats.episode_length, stats.elapsed_time) == (2.0, 2, 1.0)
    assert len(env.tracker.episodes) == 1


def test_steps_past_the_end_are_not_recorded(drive):
    env = RecordEpisodeStatistics(ScriptEnv(ends_after(1)))
    drive.reset(env)
    assert "episode" in drive.step(env).info
    assert drive.step(env).done and "episode" not in drive.step(env).info
    assert len(env.tracker.episodes) == 1
    drive.reset(env)
    assert drive.step(env).info["episode"].episode_return == 1.0


def test_the_tracker_is_told_everything(drive):
    tracker = Recorder()
    env = RecordEpisodeStatistics(ScriptEnv([([1.0], 5.0, True, False, {"a": 1})]), tracker)
    assert env.tracker is tracker
    drive.reset(env, seed=3)
    drive.step(env)
    assert tracker.calls == [
        ("reset", "ScriptEnv", 3),
        ("step", 5.0, True, False, {"a": 1}),
        ("end", 5.0),
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_the_tracker_hears_of_an_autoreset(drive, inside):
    tracker = Recorder()
    inner = ScriptEnv(ends_after(1))
    inner.spec = SimpleNamespace(id="Script-v0")
    if inside:
        env = RecordEpisodeStatistics(AutoReset(inner), tracker)
    else:
        env = AutoReset(RecordEpisodeStatistics(inner, tracker))
    drive.reset(env, seed=1)
    drive.step(env)
    assert [call[0] for call in tracker.calls] == ["reset", "step", "end", "reset"]
    assert tracker.calls[0] == ("reset", "Script-v0", 1) and tracker.calls[-1] == ("reset", "Script-v0", None)


def test_the_envs_info_is_not_written_to(drive):
    info = {"episode": "own"}
    env = RecordEpisodeStatistics(ScriptEnv([([1.0], 0.0, True, False, info)]))
    drive.reset(env)
    assert isinstance(drive.step(env).info["episode"], EpisodeStats)
    assert info == {"episode": "own"}


def test_deque_size_bounds_the_default_tracker(drive):
    env = RecordEpisodeStatistics(AutoReset(Payer()), deque_size=2)
    assert isinstance(env.tracker, InMemoryTracker)
    drive.reset(env)
    for _ in range(5):
        drive.step(env)
    assert [stats.episode_return for stats in env.tracker.episodes] == [1000.0, 10000.0]
    assert env.tracker.summary()["num_episodes"] == 2
