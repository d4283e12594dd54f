"""Losses at any moment, by the hundred: RayVecEnv on actors of this process that are lost where it hurts."""

import pickle
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import ray.exceptions
from ray_walk import Fees, N, Walk, walks
from vector.backends import assert_same

from sekai import SyncVecEnv, VecEnvClosed
from sekai.compat.ray import RayVecEnv

#: Orders of calls, with autoreset and without in turn.
RUNS = 2


class Here:
    """What RayVecEnv uses of Ray, in this process: a call is done when it is made, or is lost before or after that.

    Args:
        rng: Draws when that is.
        chance: Of a loss, for each call.
    """

    exceptions = ray.exceptions

    def __init__(self, rng, chance):
        self.rng, self.chance, self.losses = rng, chance, 0
        self.actors = []

    def is_initialized(self):
        return True

    def put(self, value):
        return ("put", pickle.dumps(value))

    def remote(self, kind):
        def start():
            self.actors.append(Actor(self, kind()))
            return self.actors[-1]

        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=start))

    def get(self, asked, timeout=None):
        if isinstance(asked, list):
            return [self.get(each) for each in asked]
        value = pickle.loads(asked[1])
        if isinstance(value, Exception):
            raise value
        return value

    def wait(self, asked, num_returns=1, timeout=None):
        return list(asked), []

    def kill(self, actor, no_restart):
        actor.is_dead = True


class Actor:
    """An object whose methods are called with copies, until it is lost."""

    def __init__(self, here, shard):
        self.here, self.shard, self.is_dead = here, shard, False
        self.where = SimpleNamespace(remote=lambda: ("got", pickle.dumps(("here", "node", 0))))
        self.do = SimpleNamespace(remote=partial(self.call, "do"))
        self.recover = SimpleNamespace(remote=partial(self.call, "recover"))

    def call(self, method, *arguments):
        moment = self.here.rng.random() / max(self.here.chance, 1e-9)
        if moment < 1:
            self.here.losses += not self.is_dead
            if moment < 0.5:
                self.is_dead = True
        is_put = [isinstance(each, tuple) and each[:1] == ("put",) for each in arguments]
        arguments = [self.here.get(each) if put else each for each, put in zip(arguments, is_put, strict=True)]
        if not self.is_dead:
            value = getattr(self.shard, method)(*pickle.loads(pickle.dumps(arguments)))
        if moment < 1:
            self.is_dead = True
        return "got", pickle.dumps(ray.exceptions.RayActorError() if self.is_dead else value)


def play(vec, rng, length=40):
    """A random order of all that can be done."""
    shown, kept = [vec.reset(seed=int(rng.integers(9)))], None
    for _ in range(length):
        what = rng.integers(12)
        rows = np.sort(rng.choice(N, size=int(rng.integers(1, N + 1)), replace=False))
        if what == 0:
            shown.append(vec.reset(options=[{"from": float(row)} for row in range(N)]))
        elif what == 1:
            shown.append(vec.reset_envs(rows[::-1], seed=int(rng.integers(9))))
        elif what == 2:
            vec.reseed([int(seed) for seed in rng.integers(9, size=len(rows))], rows)
        elif what == 3:
            vec.set_attr("scale", [float(row) for row in rows], rows)
        elif what == 4:
            shown.append(vec.call_at(rows, "jump", 1.0))
        elif what == 5 and kept is not None:
            vec.restore(kept)
        elif what == 6:
            kept = vec.snapshot()
        shown += [vec.step(rng.integers(3, size=N)), vec.frozen]
    return shown


def cases():
    """Few of them by default."""
    for every in (1, 3, 1000):
        for shards in (1, 2, 5):
            usual = (every, shards) in [(1, 2), (3, 5), (1000, 1)]
            yield pytest.param(every, shards, marks=[] if usual else pytest.mark.slow)


@pytest.fixture
def lossy(monkeypatch):
    """Builds RayVecEnvs of actors of this process, and gives what loses them."""

    def build(make, seed, chance=0.1, **kwargs):
        here = Here(np.random.default_rng(seed), chance)
        monkeypatch.setattr("sekai.compat.ray.pool.ray", here)
        return here, RayVecEnv(make, N, max_restarts=10**6, **kwargs)

    monkeypatch.setattr("sekai.compat.ray.shard.limit_threads", lambda variables: None)  # this process goes on
    monkeypatch.setattr("sekai.compat.ray.vec_env.connect", lambda: None)
    return build


@pytest.mark.parametrize(("every", "shards"), list(cases()))
def test_losses_at_any_moment_change_no_number(lossy, every, shards):
    for seed in range(RUNS):
        build = partial(walks, autoreset=seed % 2 == 0)
        with build(range(N)) as vec:
            expected = play(vec, np.random.default_rng(seed))
        here, vec = lossy(build, seed, num_shards=shards, snapshot_every=every)
        with vec:
            got = play(vec, np.random.default_rng(seed))
        assert here.losses > 0
        assert_same(expected, got)


def test_what_calls_change_for_all_rows_comes_back(lossy):
    def play(vec):
        vec.call("charge", 0.25)
        shown = [vec.reset(seed=1)]
        for step in range(30):
            if step in (7, 19):
                vec.call("note", 0.5)
            if step == 12:
                vec.call("charge", 2.0)
            shown.append(vec.step(np.arange(N) % 3))
        return shown

    expected = play(Fees(N))
    here, vec = lossy(lambda rows: Fees(len(rows)), 3, num_shards=2, snapshot_every=2)
    assert_same(expected, play(vec))
    assert here.losses > 3


class HeldLater(Walk):
    """Cannot be kept from its third step on."""

    def step(self, action):
        if self.k == 2:
            self.lock = threading.Lock()
        return super().step(action)


def test_what_cannot_be_kept_any_more_says_so_and_is_repeated_from_where_it_could(lossy):
    def make(rows):
        return SyncVecEnv([partial(HeldLater, 99)] * len(rows))

    with make(range(N)) as local:
        expected = [local.reset(seed=1), *[local.step([1] * N) for _ in range(15)]]
    here, vec = lossy(make, 3, num_shards=1, snapshot_every=2)
    with pytest.warns(
        RuntimeWarning, match="the state of the shard of sub-envs 0 to 4 could not be kept.*lock"
    ) as told:
        assert_same(expected, [vec.reset(seed=1), *[vec.step([1] * N) for _ in range(15)]])
    assert here.losses > 0
    assert len(told) < 7  # not with each step


def test_closed_while_a_lost_shard_is_started_again(lossy):
    here, vec = lossy(walks, 0, chance=0.0, num_shards=1)
    vec.reset(seed=1)
    vec.step([0] * N)
    here.actors[0].is_dead = True
    here.remote = lambda kind, remote=here.remote: (vec.close(), remote(kind))[1]  # as another thread may do
    with pytest.raises(VecEnvClosed, match="closed while a call was going on"):
        vec.step([0] * N)
    assert [actor.is_dead for actor in here.actors] == [True, True]
