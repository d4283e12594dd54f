"""Markets by name in gymnasium, and gymnasium not being there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_toys import assert_same, check_with_gymnasium, each_market
from toy_market import Walk, WalkVec

import sekai
from sekai.compat.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, register_with_gymnasium, to_gymnasium_vector

ROOT = Path(sekai.__file__).parents[1]


@pytest.fixture(autouse=True)
def clean_registries():
    """Leave both registries as they were."""
    known = dict(gymnasium.registry)
    mine = {spec.id for spec in sekai.all_specs()}
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(known)
    for spec in sekai.all_specs():
        if spec.id not in mine:
            sekai.deregister(spec.id)


# -- every market ------------------------------------------------------------------------------------------


@each_market
def test_gymnasium_makes_a_market(market):
    assert register_with_gymnasium(market) == f"sekai/{market}"
    env = gymnasium.make(f"sekai/{market}", max_episode_steps=4)
    assert type(env.unwrapped) is GymnasiumEnv
    ours = sekai.make(market, max_episode_steps=4)
    assert_same(ours.reset(seed=5).observation, env.reset(seed=5)[0])
    env.action_space.seed(0)
    for _ in range(4):
        action = env.action_space.sample()
        step = ours.step(action)
        observation, reward, terminated, truncated, _ = env.step(action)
        assert_same(step.observation, observation)
        assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated)
    assert truncated


@each_market
def test_a_made_market_passes_gymnasium_s_checker(market):
    check_with_gymnasium(gymnasium.make(register_with_gymnasium(market)).unwrapped)


@each_market
@pytest.mark.parametrize("mode", ["vector_entry_point", None])
def test_gymnasium_makes_many_of_a_market(market, mode):
    id = register_with_gymnasium(market)
    envs = gymnasium.make_vec(
        id, num_envs=3, vectorization_mode=mode, max_episode_steps=4, autoreset_mode=AutoresetMode.SAME_STEP
    )
    assert type(envs) is GymnasiumVectorEnv
    assert isinstance(envs.vec, sekai.NativeVecEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.spec.id == id
    ours = sekai.make_vec(market, 3, max_episode_steps=4)
    assert_same(ours.reset(seed=5).observations, envs.reset(seed=5)[0])
    for _ in range(9):
        actions = envs.action_space.sample()
        result = ours.step(actions)
        assert_same((result.observations, result.rewards, result.terminated, result.truncated), envs.step(actions)[:4])


@each_market
def test_gymnasium_s_own_vector_envs_run_a_market(market):
    id = register_with_gymnasium(market)
    kwargs = {"num_envs": 2, "max_episode_steps": 4}
    native = gymnasium.make_vec(id, **kwargs)
    sync = gymnasium.make_vec(id, vectorization_mode="sync", **kwargs)
    assert type(sync) is SyncVectorEnv
    assert sync.observation_space == native.observation_space
    assert_same(native.reset(seed=[1, 2])[0], sync.reset(seed=[1, 2])[0])
    for _ in range(9):
        actions = native.action_space.sample()
        assert_same(native.step(actions)[:4], sync.step(actions)[:4])


@pytest.mark.compiled  # they compile it each for itself
def test_gymnasium_s_worker_processes_run_a_market():
    id = register_with_gymnasium("Trading-v0")
    envs = gymnasium.make_vec(id, num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"})
    native = gymnasium.make_vec(id, num_envs=2)
    assert_same(native.reset(seed=[1, 2])[0], envs.reset(seed=[1, 2])[0])
    actions = native.action_space.sample()
    assert_same(native.step(actions)[:4], envs.step(actions)[:4])
    envs.close()


def test_the_spec_of_an_adapter_builds_it_anew():
    spec = to_gymnasium_vector(sekai.make_vec("MarketMaking-v0", 2, volatility=3.0)).spec
    again = gymnasium.make_vec(spec, num_envs=3)
    assert again.vec.volatility == 3.0
    assert again.num_envs == 3


# -- the arguments -----------------------------------------------------------------------------------------


def walk(**kwargs):
    """Registers the toy market, to a limit of 7 steps, and gives its id in gymnasium."""
    sekai.register("Walk-v3", Walk, vector_entry_point=WalkVec, max_episode_steps=7, kwargs={"start": 0.5}, **kwargs)
    return register_with_gymnasium("Walk-v3")


@pytest.mark.parametrize("limit, steps", [({}, 7), ({"max_episode_steps": 2}, 2), ({"max_episode_steps": 9}, 9)])
@pytest.mark.parametrize("mode", ["single", "vector_entry_point", "sync"])
def test_the_time_limit_is_passed_on(mode, limit, steps):
    id = walk()
    if mode == "single":
        env = gymnasium.make(id, goal=99, **limit)
        assert env.spec.max_episode_steps == steps
        action = 0
    else:
        env = gymnasium.make_vec(id, num_envs=2, vectorization_mode=mode, goal=99, **limit)
        action = np.zeros(2, int)
    env.reset()
    ends = [np.any(env.step(action)[3]) for _ in range(steps)]
    assert ends == [False] * (steps - 1) + [True]


def test_the_time_limit_can_be_removed():
    id = walk()
    env, envs = (make(id, goal=99, max_episode_steps=-1) for make in (gymnasium.make, gymnasium.make_vec))
    env.reset()
    envs.reset()
    assert not any(env.step(0)[3] for _ in range(20))
    assert not any(envs.step(np.zeros(1, int))[3].any() for _ in range(20))


def test_arguments_are_passed_on():
    id = walk()
    env = gymnasium.make(id, goal=2)
    assert (env.unwrapped.goal, env.unwrapped.start) == (2, 0.5)
    assert env.reset(options={"start": 1.0})[1] == {"start": 1.0}
    envs = gymnasium.make_vec(id, num_envs=3, goal=2, start=1.0)
    assert (envs.vec.goal, envs.vec.num_envs) == (2, 3)
    assert envs.reset()[0].tolist() == [[1.0]] * 3


def test_what_the_registry_knows_is_passed_on():
    spec = gymnasium.spec(walk(reward_threshold=3.5, nondeterministic=True))
    assert (spec.id, spec.namespace, spec.name, spec.version) == ("sekai/Walk-v3", "sekai", "Walk", 3)
    assert (spec.reward_threshold, spec.nondeterministic, spec.max_episode_steps) == (3.5, True, 7)
    env = gymnasium.make(spec.id, goal=4)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.goal == 4


def test_registering_again_changes_nothing():
    id = walk()
    spec = gymnasium.spec(id)
    assert register_with_gymnasium("Walk-v3") == id
    assert register_with_gymnasium("Walk") == id  # the highest version
    assert gymnasium.spec(id) is spec


def test_a_namespace_is_kept():
    sekai.register("lab/Walk-v1", Walk)
    assert register_with_gymnasium("lab/Walk-v1") == "lab/Walk-v1"
    assert gymnasium.make("lab/Walk-v1").unwrapped.goal == 3
    envs = gymnasium.make_vec("lab/Walk-v1", num_envs=2)
    assert isinstance(envs.vec, sekai.SyncVecEnv)  # there is no native one


def test_what_is_not_there():
    with pytest.raises(sekai.EnvNotFound, match="MarketMaking-v0"):
        register_with_gymnasium("MarketMakin-v0")
    id = walk()
    for make in (gymnasium.make, gymnasium.make_vec):
        make(id, render_mode=None)
        with pytest.raises(TypeError, match="'Walk-v3' has no argument 'render_mode'"):
            make(id, render_mode="human")
    with pytest.raises(ValueError, match="expected autoreset=True"):
        gymnasium.make_vec(id, num_envs=2, autoreset=False, autoreset_mode="SameStep")


# -- where gymnasium is not installed ----------------------------------------------------------------------


def run(code):
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["sekai.compat.gymnasium", "sekai.compat.gymnasium.spaces"])
def test_without_gymnasium_the_extra_is_named(name):
    # None in its place is what makes Python say that there is no such module.
    said = run(f"import sys\nsys.modules['gymnasium'] = None\nimport {name}")
    assert "ImportError: sekai.compat.gymnasium: " in said
    assert 'pip install ".[gymnasium]" in the clone' in said


def test_importing_sekai_does_not_import_gymnasium():
    code = "import sys, sekai, sekai.compat\nprint([name for name in sys.modules if 'gymnasium' in name])"
    assert run(code) == "[]\n"
    assert "gymnasium" in run(f"import sekai.compat.gymnasium\n{code}")
