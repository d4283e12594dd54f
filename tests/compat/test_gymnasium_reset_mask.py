"""Resets of some sub-envs by gymnasium's ``options={"reset_mask": ...}``, in both ways, compared with its own."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics, TransformReward
from gymnasium_toys import Drifting, assert_same
from toys import BOX1, Draws, NativeToy, T, Toy, fns

import sekai
from sekai import (
    AsyncVecEnv,
    Discrete,
    NativeVecEnv,
    ProcVecEnv,
    ResetRequired,
    SyncVecEnv,
    VecNormalizeObservation,
    VecRecordEpisodeStatistics,
    VecTransformObservation,
    VecWrapper,
)
from sekai.compat.gymnasium import from_gymnasium_vector, to_gymnasium, to_gymnasium_vector

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]
SEEDS = [3, 14, 15, 92]
N = 4

#: What is done: None is a step, anything else a reset, of these sub-envs, with these seeds and options.
PLAN = [None, None, ([1], None, {}), None, ([0, 3], [5, 6, 7, 8], {"a": 1}), ([2], [None, 1, None, 2], {}), None, None]
PLAN += [([0, 1, 2, 3], SEEDS, {}), None, None, None, None, ([3], None, {"b": 2}), *[None] * 6]

each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


def masked(rows, options, n=N):
    mask = np.zeros(n, bool)
    mask[rows] = True
    return {"reset_mask": mask, **options}


def assert_alike(expected, got, plan=PLAN):
    """Two gymnasium vector environments that give the same, infos included, whatever is reset in between."""
    got.action_space.seed(1)
    assert_same(expected.reset(seed=SEEDS), got.reset(seed=SEEDS), "reset")
    for k, each in enumerate(plan):
        if each is None:
            actions = got.action_space.sample()
            assert_same(expected.step(actions), got.step(actions), f"call {k}")
        else:
            rows, seed, options = each
            one, two = (env.reset(seed=seed, options=masked(rows, options)) for env in (expected, got))
            assert_same(one, two, f"call {k}")
            one[0][...] = two[0][...] = 77.0  # what is shown is the caller's to write to


def gymnasium_s_own(mode, *envs):
    """What gymnasium itself makes of sub-envs."""
    return SyncVectorEnv([lambda env=env: to_gymnasium(env) for env in envs], autoreset_mode=mode)


class Told(Draws):
    """Shows what it draws, and tells the options of its reset."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        return sekai.ResetResult(result.observation, {"drawn": float(self.rng.random()), **(options or {})})


LENGTHS = 2, 5, 50, 3
BACKENDS = {"sync": SyncVecEnv, "async": AsyncVecEnv, "proc": ProcVecEnv}


@each_mode
@pytest.mark.parametrize("backend", BACKENDS)
def test_sub_envs_of_any_backend_are_reset_as_gymnasium_does(backend, mode):
    env_fns = [lambda length=length: Told(length) for length in LENGTHS]
    with BACKENDS[backend](env_fns, autoreset=mode is AutoresetMode.SAME_STEP) as vec:
        got = to_gymnasium_vector(vec, autoreset_mode=mode)
        assert_alike(gymnasium_s_own(mode, *(env_fn() for env_fn in env_fns)), got)
        assert got.np_random_seed == (3, 14, 15, 92)


@each_mode
def test_a_native_environment_is_reset_as_gymnasium_does(mode):
    scripts, i0 = [T(n) for n in LENGTHS], {"start": 7.0, "levels": np.zeros((2, 2), np.int8)}
    vec = NativeToy(scripts, i0=i0, autoreset=mode is AutoresetMode.SAME_STEP)
    plan = [None if each is None else (each[0], each[1], {}) for each in PLAN]
    assert_alike(
        gymnasium_s_own(mode, *(Toy(script, i0=i0) for script in scripts)),
        to_gymnasium_vector(vec, autoreset_mode=mode),
        plan,
    )


@pytest.mark.slow
@each_mode
def test_a_market_is_reset_as_gymnasium_does(mode):
    kwargs = {"max_episode_steps": 4}
    vec = sekai.make_vec(
        "MarketMaking-v0", N, vector_kwargs={"autoreset": mode is AutoresetMode.SAME_STEP}, n_steps=30, **kwargs
    )
    envs = [sekai.make("MarketMaking-v0", n_steps=30, **kwargs) for _ in SEEDS]
    plan = [None if each is None else (each[0], each[1], {}) for each in PLAN]
    assert_alike(gymnasium_s_own(mode, *envs), to_gymnasium_vector(vec, autoreset_mode=mode), plan)


def test_wrappers_show_the_others_what_they_have_shown():
    vec = VecRecordEpisodeStatistics(VecTransformObservation(VecNormalizeObservation(SyncVecEnv([Told] * 3)), np.tanh))
    envs = to_gymnasium_vector(vec)
    envs.reset(seed=0)
    for _ in range(3):
        seen = envs.step(np.zeros(3, int))[0]
    observations, infos = envs.reset(seed=9, options=masked([1], {"a": 1}, 3))
    assert (observations[[0, 2]] == seen[[0, 2]]).all() and (observations[1] != seen[1]).all()
    assert infos["a"].tolist() == [0, 1, 0] and infos["_a"].tolist() == [False, True, False]
    *_, infos = envs.step(np.zeros(3, int))
    assert infos["episode"]["l"].tolist() == [4, 0, 4]


def test_seeds_of_some_are_those_that_a_reset_of_all_would_give():
    def make():
        return to_gymnasium_vector(SyncVecEnv([Told] * 3))

    envs, twin = make(), make()
    envs.reset(seed=1)
    whole = twin.reset(seed=5)[0]
    assert (envs.reset(seed=5, options=masked([0, 2], {}, 3))[0][[0, 2]] == whole[[0, 2]]).all()
    assert envs.np_random_seed[::2] == twin.np_random_seed[::2] and envs.np_random_seed[1] != twin.np_random_seed[1]


class Blurred(NativeVecEnv):
    """Draws what it shows."""

    def __init__(self):
        super().__init__(2, BOX1, Discrete(2))

    def _reset_envs(self, indices, options):
        pass

    def _observe(self):
        return self.rng.normal(size=(2, 1))

    def _step(self, actions):
        return np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}


class OwnReset(VecWrapper):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)


def test_a_mask_is_taken_as_gymnasium_takes_it_or_refused_by_name():
    vec = SyncVecEnv(fns(T(9), T(9)))
    envs, reference = to_gymnasium_vector(vec), gymnasium_s_own(AutoresetMode.SAME_STEP, Toy(T(9)), Toy(T(9)))
    with pytest.raises(ResetRequired, match="call reset"):
        envs.reset(options=masked([0], {}, 2))
    for each in (envs, reference):
        each.reset()
        each.step(np.zeros(2, int))
    for mask, error, message in (
        ([True, False], TypeError, "expected an array of bools, got"),
        (np.array([1, 0]), TypeError, "expected an array of bools, got"),
        (np.ones(3, bool), ValueError, r"expected shape \(2,\) \(num_envs\)"),
        (np.zeros(2, bool), ValueError, "at least one True"),
    ):
        with pytest.raises(error, match=message):
            envs.reset(options={"reset_mask": mask})
        with pytest.raises(error):
            reference.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match=r"reset\(seed=...\): expected 2 seeds \(num_envs\), got 1"):
        envs.reset(seed=[1], options=masked([0], {}, 2))
    assert vec.get_attr("n_reset") == [1, 1]
    options = masked([0], {}, 2)
    envs.reset(options=options)
    assert "reset_mask" in options and vec.get_attr("n_reset") == [2, 1]


@pytest.mark.parametrize(
    "vec, message",
    [(Blurred(), r"Blurred._observe\(\): expected it to draw nothing"), (OwnReset(NativeToy([T(3)] * 2)), "OwnReset")],
    ids=["draws", "own-reset"],
)
def test_what_does_not_say_what_the_others_show_is_named(vec, message):
    envs = to_gymnasium_vector(vec)
    envs.reset(seed=0)
    with pytest.raises(NotImplementedError, match=message):
        envs.reset(options=masked([0], {}, 2))
    envs.reset(options=masked([0, 1], {}, 2))


# -- a gymnasium vector environment as a VecEnv --------------------------------------------------------------------


def drifting(kind, mode, wrap=lambda envs: envs):
    return wrap(kind([lambda: Drifting(end=0.2)] * N, autoreset_mode=mode))


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
@pytest.mark.parametrize("kind", [SyncVectorEnv, pytest.param(AsyncVectorEnv, marks=pytest.mark.slow)])
def test_some_sub_envs_of_a_gymnasium_environment_are_reset(kind, autoreset, mode):
    """Each goes on as one that a reset of all began with the same seed; the others as if nothing had been."""
    with from_gymnasium_vector(drifting(kind, mode), autoreset=autoreset) as vec:
        twin, still = (from_gymnasium_vector(drifting(SyncVectorEnv, mode), autoreset=autoreset) for _ in range(2))
        assert vec.resets_some
        for each in (vec, still):
            each.reset(seed=1)
        for _ in range(5):
            shown = vec.step(np.zeros(N, int))
            still.step(np.zeros(N, int))
        assert autoreset or vec.frozen.any()
        begun = twin.reset(seed=7, options={"a": 1})
        result = vec.reset_envs([3, 0], seed=7, options={"a": 1})
        assert_same(begun.observations[[3, 0]], result.observations)
        assert_same([begun.infos[3], begun.infos[0]], result.infos)
        assert vec.frozen.tolist() == [False, *(shown.dones[[1, 2]] & (not autoreset)), False]
        for _ in range(8):
            got, expected, other = (each.step(np.ones(N, int)) for each in (vec, twin, still))
            for name in ("observations", "rewards", "terminated", "truncated", "infos"):
                parts = [getattr(each, name) for each in (got, expected, other)]
                for row in range(N):
                    assert_same(parts[1 if row in (0, 3) else 2][row], parts[0][row], f"{name}[{row}]")


def test_frozen_sub_envs_are_thawed_and_streams_go_on():
    vec = from_gymnasium_vector(drifting(SyncVectorEnv, AutoresetMode.DISABLED), autoreset=False)
    vec.reset(seed=1)
    while not vec.frozen.any():
        vec.step(np.zeros(N, int))
    rows = vec.frozen.nonzero()[0]
    result = vec.reset_frozen(rows)
    assert not vec.frozen.any() and len(result.infos) == len(rows)
    assert not (vec.step(np.zeros(N, int)).observations[rows] == result.observations).any()


def test_which_gymnasium_environments_reset_some():
    for mode in AutoresetMode:
        for wrap in (lambda envs: envs, lambda envs: TransformReward(envs, np.sign)):
            autoreset = mode is not AutoresetMode.NEXT_STEP
            vec = from_gymnasium_vector(drifting(SyncVectorEnv, mode, wrap), autoreset=autoreset)
            vec.reset(seed=0)
            bare = isinstance(vec.gymnasium_vec, SyncVectorEnv)
            assert vec.resets_some == (bare or mode is AutoresetMode.DISABLED)
            if vec.resets_some:
                assert vec.reset_envs([1]).observations.shape == (1, 2)
            else:
                with pytest.raises(NotImplementedError, match=r"reset_envs\(\): it resets all its sub-envs or none"):
                    vec.reset_envs([1])


def test_what_a_reset_of_some_refuses_changes_nothing():
    vec = from_gymnasium_vector(drifting(SyncVectorEnv, AutoresetMode.SAME_STEP))
    with pytest.raises(ResetRequired):
        vec.reset_envs([0])
    vec.reset(seed=0)
    for arguments, error, message in (
        ({"seed": [1, 2]}, ValueError, "expected 1 seeds"),
        ({"seed": [np.random.default_rng()]}, TypeError, "sub-env 1: expected an integer or None, got Generator"),
        ({"options": [{}]}, TypeError, "expected one dict for all sub-envs, got list"),
        ({"options": {"reset_mask": np.ones(N, bool)}}, ValueError, "expected no 'reset_mask'"),
    ):
        with pytest.raises(error, match=message):
            vec.reset_envs([1], **arguments)
    assert [env.resets for env in vec.gymnasium_vec.envs] == [1] * N
    vec.step(np.zeros(N, int))


def test_a_gymnasium_environment_has_no_snapshots():
    envs = RecordEpisodeStatistics(drifting(SyncVectorEnv, AutoresetMode.SAME_STEP))
    vec = from_gymnasium_vector(envs)
    vec.reset(seed=0)
    with pytest.raises(NotImplementedError, match=r"snapshot\(\): .*RecordEpisodeStatistics.* does not say what its"):
        vec.snapshot()
    with pytest.raises(NotImplementedError, match=r"snapshot\(\): .*RecordEpisodeStatistics"):
        VecNormalizeObservation(vec).snapshot([1])
    assert isinstance(vec.gymnasium_vec, gymnasium.vector.VectorEnv)
    vec.step(np.zeros(N, int))
