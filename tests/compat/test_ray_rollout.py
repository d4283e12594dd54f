"""Rollouts whose shards are Ray tasks: the numbers of one machine, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from compat.ray_cluster import NODE, STORE, ended, ray_started
from shards.records import assert_identical
from without_library import error_of_import

import sekai
import sims
from sekai import Box, Discrete, Env, ResetResult, StepResult, SyncVecEnv, VecEnvWorkerError
from sekai.cli import main
from sekai.compat.ray import PerShard, rollout, rollout_shards
from sims.market_making import AvellanedaStoikov, MarketMakingVecEnv

MARKETS = ("LimitOrderBook-v0", "MarketMaking-v0", "OptimalExecution-v0", "Portfolio-v0", "Trading-v0")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two raylets of this machine, with a core each."""
    if "Trading-v0" not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()
    with ray_started(num_cpus=1) as cluster:
        cluster.add_node(num_cpus=1, **NODE)
        cluster.wait_for_nodes()
        yield cluster


def first_policy(vec):
    policy = next(iter(vec.policies.values()))(vec)
    return lambda observations: policy(observations)


def quoting():
    """A policy of rows."""
    return AvellanedaStoikov.for_env(MarketMakingVecEnv(1))


def still(observations):
    return np.zeros(len(observations), int)


class Walk(Env):
    """Row k of all ends after 3 + k % 4 steps, and in a step does what ``at_step`` says."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Discrete(2)

    def __init__(self, k, at_step=None):
        self.k, self.at_step, self.at, self.steps = k, at_step, 0.0, 0

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.at, self.steps = float(self.rng.normal()), 0
        return ResetResult(np.array([self.at]), {})

    def step(self, action):
        self.steps += 1
        if self.at_step is not None:
            self.at_step(self.k)
        self.at += float(self.rng.normal())
        return StepResult(np.array([self.at]), self.at, self.steps == 3 + self.k % 4, False, {"row": self.k})


def walks(at_step=None):
    """What builds walks of some rows."""
    return lambda rows: SyncVecEnv([lambda k=k: Walk(k, at_step) for k in rows])


def local(num_envs, steps=8):
    return sekai.rollout(walks()(range(num_envs)), still, steps, seed=9, infos=["row"])


def distributed(at_step, num_envs=7, steps=8, **kwargs):
    return rollout(walks(at_step), still, steps, num_envs=num_envs, seed=9, infos=["row"], shard_size=2, **kwargs)


# -- the numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", MARKETS)
@pytest.mark.parametrize("num_envs, size", [(7, 1), (9, 2), (5, 5)], ids=["7 shards", "5 shards", "1 shard"])
def test_every_market_is_as_on_one_machine(id, num_envs, size):
    limit = {"max_episode_steps": 9}
    vec = sekai.make_vec(id, num_envs, **limit)
    infos = list(vec.told)
    whole = sekai.rollout(vec, first_policy(vec), 20, seed=5, infos=infos)
    policy = PerShard(first_policy)
    got = rollout(id, policy, 20, num_envs=num_envs, seed=5, infos=infos, shard_size=size, kwargs=limit)
    assert_identical(whole, got)


def test_compiled_with_numbers_of_each_row():
    numbers, policy = np.linspace(1.0, 3.0, 3000), quoting()
    whole = sekai.rollout(MarketMakingVecEnv(3000, volatility=numbers), policy, 30, seed=2, infos=["wealth"])
    kwargs, sizes = {"volatility": numbers}, {"num_envs": 3000, "shard_size": 700}
    got = rollout("MarketMaking-v0", policy, 30, seed=2, infos=["wealth"], kwargs=kwargs, **sizes)
    assert_identical(whole, got)


def test_summaries_in_order_and_combined():
    sizes = {"num_envs": 50, "shard_size": 8}
    arguments = ("MarketMaking-v0", quoting(), 12)
    whole = sekai.rollout(MarketMakingVecEnv(50), arguments[1], 12, seed=2)
    sums = rollout(*arguments, seed=2, **sizes, summarise=lambda record: record.rewards.sum(axis=0))
    assert [len(each) for each in sums] == [8] * 6 + [2]
    assert_identical(whole.rewards.sum(axis=0), np.concatenate(sums))
    summarise = {"summarise": lambda record: record.num_envs, "combine": sum}
    assert rollout(*arguments, **sizes, **summarise) == 50


@pytest.mark.parametrize("size", [50, 2000], ids=["in a message", "in the object store"])
def test_a_summary_may_be_a_part_of_the_record_whose_memory_is_used_again(size):
    whole = sekai.rollout(MarketMakingVecEnv(6 * size), quoting(), 12, seed=2)
    parts = rollout(
        *("MarketMaking-v0", quoting(), 12), num_envs=6 * size, seed=2, shard_size=size, summarise=lambda each: each
    )
    assert_identical(whole.rewards, np.concatenate([part.rewards for part in parts], axis=1))


def test_shards_as_they_are_done():
    found = dict(rollout_shards(walks(), still, 8, num_envs=7, seed=9, shard_size=3, infos=["row"]))
    assert sorted(found, key=lambda rows: rows.start) == [range(0, 3), range(3, 6), range(6, 7)]
    whole = local(7)
    for rows, record in found.items():
        assert_identical(whole.rewards[:, rows.start : rows.stop].copy(), record.rewards)
        assert (record.infos["row"] == np.array(rows)).all()


def test_without_a_seed_numbers_are_new_ones():
    one, two = (rollout(walks(), still, 2, num_envs=3, shard_size=2) for _ in range(2))
    assert (one.observations != two.observations).any()


def test_kernels_have_the_threads_of_the_task():
    def count(record):
        from sekai.kernels.threads import get_num_threads

        return get_num_threads()

    arguments = {"num_envs": 4, "shard_size": 1, "summarise": count}
    assert rollout("MarketMaking-v0", quoting(), 2, **arguments) == [1] * 4


# -- bounds ------------------------------------------------------------------------------------------------------


def test_no_more_are_under_way_than_asked_for(tmp_path):
    def summarise(record):
        (tmp_path / f"{record.infos['row'].min()}").touch()
        return os.getpid()

    shards = rollout_shards(
        walks(), still, 2, num_envs=9, shard_size=1, infos=["row"], summarise=summarise, max_in_flight=2
    )
    for taken in range(1, 4):
        next(shards)
        time.sleep(0.5)  # whoever is not to run has time enough to
        assert len(list(tmp_path.iterdir())) <= taken + 1
    shards.close()


def test_records_that_the_store_has_no_room_for(cluster):
    arguments = {"num_envs": 20_000, "seed": 4, "shard_size": 1000, "max_in_flight": 20}
    shards = rollout_shards("MarketMaking-v0", quoting(), 400, **arguments)
    first, record = next(shards)
    found = {first: record.rewards.sum(axis=0)}
    size = 20 * sum(array.nbytes for array in record.to_dict().values())
    assert size > 2.2 * STORE
    del record
    for rows, record in shards:
        found[rows] = record.rewards.sum(axis=0)
    whole = sekai.rollout(MarketMakingVecEnv(20_000), quoting(), 400, seed=4)
    assert_identical(whole, rollout("MarketMaking-v0", quoting(), 400, **arguments))
    sums = np.concatenate([found[rows] for rows in sorted(found, key=lambda rows: rows.start)])
    assert_identical(whole.rewards.sum(axis=0), sums)


def wait_for(path):
    """Wait until a file is there; a bound for a hang."""
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} is not there")


# -- losses ------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed(tmp_path):
    def die_once(k):
        if k == 4 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert_identical(local(7), distributed(die_once))
    assert (tmp_path / "died").exists()


def test_a_node_that_is_removed(cluster, tmp_path):
    node = cluster.add_node(num_cpus=1, **NODE)
    cluster.wait_for_nodes()

    def wait_on(victim):
        def wait(k):
            import ray

            if ray.get_runtime_context().get_node_id() == victim:
                (tmp_path / "caught").touch()
                time.sleep(600)
            wait_for(tmp_path / "caught")  # so that some are left for the other nodes

        return wait

    def remove():
        wait_for(tmp_path / "caught")
        cluster.remove_node(node, allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    got = distributed(wait_on(node.node_id), num_envs=12)
    remover.join()
    assert_identical(local(12), got)


def test_a_shard_that_is_lost_again_and_again():
    def die(k):
        if k == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(VecEnvWorkerError, match=r"sub-env 4: WorkerCrashedError: .*\(rows 4 to 5\)") as caught:
        distributed(die, max_retries=1)
    assert caught.value.rank == 4


# -- what markets and policies raise -----------------------------------------------------------------------------


class Odd(Exception):
    """One that cannot be pickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize("kind", [LookupError, SystemExit])
def test_what_a_market_raises_is_raised_as_it_is_and_not_tried_again(tmp_path, kind):
    def fail(k):
        if k == 5:
            with (tmp_path / "tried").open("a") as file:
                file.write("x")
            raise kind("no such price")

    with pytest.raises(kind, match="no such price") as caught:
        distributed(fail)
    assert (tmp_path / "tried").read_text() == "x"
    assert "in rows 4 to 5, which their task counts from 0" in str(caught.value.__cause__)
    assert "in fail" in str(caught.value.__cause__)


def test_what_cannot_be_pickled_is_told():
    def fail(k):
        raise Odd("this", "that")

    with pytest.raises(
        VecEnvWorkerError, match=r"Odd: this and that \(rows \d to \d, which their task counts from 0\)"
    ):
        distributed(fail)


def test_what_a_policy_raises():
    def policy(observations):
        raise ZeroDivisionError("of a policy")

    with pytest.raises(ZeroDivisionError, match="of a policy"):
        rollout("MarketMaking-v0", policy, 3, num_envs=4, shard_size=2)


def test_rows_that_share_a_generator():
    def gather(rows):
        return sekai.VecNormalizeReward(walks()(rows))

    with pytest.raises(ValueError, match="got VecNormalizeReward, which gathers statistics over all of them"):
        rollout(gather, still, 3, num_envs=4, shard_size=2)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"combine": sum}, TypeError, "combine=...\\): expected a function of a list, beside summarise="),
        ({"max_in_flight": 0}, ValueError, "max_in_flight=...\\): expected at least 1, got 0"),
        ({"num_cpus": -1}, ValueError, "num_cpus=...\\): expected a number of at least 0, got -1"),
        ({"max_retries": -2}, ValueError, "max_retries=...\\): expected at least -1, got -2"),
        ({"num_envs": 0}, ValueError, "num_envs: expected at least 1, got 0"),
        ({"infos": "row"}, TypeError, "infos=...\\): expected a sequence of keys, got 'row'"),
    ],
    ids=str,
)
def test_wrong_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        rollout(walks(), still, 2, **{"num_envs": 4, **arguments})


# -- the command -------------------------------------------------------------------------------------------------


def command(capsys, *argv):
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_sweep_is_the_same_on_one_machine(capsys):
    argv = ("sweep", "MarketMaking-v0", "--over", "volatility=1,2", "--policy", "glft", "--num-envs", "40")
    argv = (*argv, "--steps", "30", "--set", "n_steps=10", "--seed", "3", "--shard-size", "16")
    here, there = command(capsys, *argv), command(capsys, *argv, "--distributed")
    assert here == there
    assert [line["episodes"] for line in here["results"]] == [120, 120]


def test_a_distributed_run_tells_what_a_run_tells(capsys):
    argv = ("run", "Trading-v0", "--policy", "momentum", "--num-envs", "30", "--steps", "200", "--seed", "3")
    argv = (*argv, "--set", "episode_length=40")
    here, there = command(capsys, *argv), command(capsys, *argv, "--distributed", "--shard-size", "7")
    for name in set(here) - {"env_steps_per_second", "first_step_seconds"}:
        is_number = isinstance(here[name], float)
        assert there[name] == (pytest.approx(here[name], rel=1e-9) if is_number else here[name]), name


@pytest.mark.parametrize("num_done", [0, 2])
def test_an_interrupted_run_tells_of_the_shards_that_are_done(capsys, monkeypatch, num_done):
    inner = sekai.compat.ray.rollout_shards

    def some(*args, **kwargs):
        for _, shard in zip(range(num_done), inner(*args, **kwargs), strict=False):
            yield shard
        raise KeyboardInterrupt

    monkeypatch.setattr(sekai.compat.ray, "rollout_shards", some)
    argv = ("run", "MarketMaking-v0", "--distributed", "--shard-size", "4", "--num-envs", "12", "--steps", "10")
    assert main([*argv, "--set", "n_steps=10", "--json"]) == 130
    report = json.loads(capsys.readouterr().out)
    assert (report["interrupted"], report["episodes"], report["env_steps"]) == (True, 4 * num_done, 40 * num_done)
    assert (report["return_mean"] is None) is (num_done == 0)


# -- without a cluster, and without Ray --------------------------------------------------------------------------

ALONE = """
import os, sekai, sims
from sekai.compat.ray import rollout
from sims.market_making import AvellanedaStoikov
if "MarketMaking-v0" not in [spec.id for spec in sekai.all_specs()]:
    sims.register_envs()
policy, pid = AvellanedaStoikov.for_env(sekai.make_vec("MarketMaking-v0")), lambda record: os.getpid()
print("pids", *rollout("MarketMaking-v0", policy, 2, num_envs=4, shard_size=2, summarise=pid))
"""


def test_it_starts_ray_where_nobody_has_and_leaves_no_process():
    env = {**os.environ, "RAY_ADDRESS": "local"}  # not the cluster of this file
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=300, env=env)
    assert run.returncode == 0, run.stderr
    [told] = [line for line in run.stdout.splitlines() if line.startswith("pids ")]
    pids = [int(word) for word in told.split()[1:]]
    assert len(pids) == 2
    for pid in pids:
        ended(pid)


def test_without_ray_it_says_what_to_install():
    assert error_of_import("sekai.compat.ray", "ray") == (
        'ImportError: sekai.compat.ray needs Ray: pip install ".[ray]" in the clone'
    )
