"""A VecEnv as a gymnasium VectorEnv with next-step autoreset, compared with gymnasium's own, and used as RLlib does."""

from __future__ import annotations

import gymnasium
import gymnasium.wrappers.vector as gym_vector_wrappers
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_toys import MARKETS, assert_same
from toys import BOX1, Draws, NativeToy, T, Toy, fns

import sekai
from sekai import (
    AsyncVecEnv,
    Box,
    Discrete,
    NativeVecEnv,
    ProcVecEnv,
    ResetResult,
    StepResult,
    SyncVecEnv,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecTransformObservation,
    VecTransformReward,
    VecWrapper,
)
from sekai.compat.gymnasium import (
    from_gymnasium_vector,
    register_with_gymnasium,
    to_gymnasium,
    to_gymnasium_vector,
)
from sekai.kernels import streams
from sekai.vector.native.single import SingleEnv

NEXT_STEP = AutoresetMode.NEXT_STEP
SEEDS = [3, 14, 15, 92]


def next_step(vec):
    return to_gymnasium_vector(vec, autoreset_mode=NEXT_STEP)


def gymnasium_s_own(*envs):
    """What gymnasium itself makes of sub-envs."""
    return SyncVectorEnv([lambda env=env: to_gymnasium(env) for env in envs], autoreset_mode=NEXT_STEP)


def assert_alike(expected, got, steps=12, **reset):
    """Two gymnasium vector environments that give the same, infos included; how many sub-envs were reset on the way."""
    assert expected.metadata["autoreset_mode"] is got.metadata["autoreset_mode"] is NEXT_STEP
    got.action_space.seed(1)
    assert_same(expected.reset(**reset), got.reset(**reset), "reset")
    resets, ended = 0, np.zeros(got.num_envs, bool)
    for k in range(steps):
        resets += int(ended.sum())
        actions = got.action_space.sample()
        result = got.step(actions)
        assert_same(expected.step(actions), result, f"step {k}")
        ended = result[2] | result[3]
    assert resets
    return resets


def script(*infos, ends):
    """A script (see ``toys.Toy``) whose steps have these infos and whose last one ends the episode by ``ends``."""
    last = len(infos) - 1
    return [
        ([float(k + 1)], k / 2, k == last and ends == "term", k == last and ends == "trunc", info)
        for k, info in enumerate(infos)
    ]


STEP = {"cash": 2.5, "size": 3, "filled": True, "path": np.arange(3.0), "tag": np.float32(1.5)}
RESET = {"cash": 1.0, "start": 7.0, "levels": np.zeros((2, 2), np.int8)}


@pytest.mark.parametrize("reset_info", [{}, RESET], ids=["no reset info", "reset info"])
@pytest.mark.parametrize("lengths", [(1, 1, 1), (1, 2, 3), (4, 9, 2)])
@pytest.mark.parametrize("backend", ["native", "sync", "async"])
def test_e1_next_step_autoreset_is_gymnasium_s_own(backend, lengths, reset_info):
    scripts = [script(*[STEP] * n, ends=ends) for n, ends in zip(lengths, ("term", "trunc", "term"), strict=True)]
    toys = [Toy(one, i0=reset_info) for one in scripts]
    if backend == "native":
        vec = NativeToy(scripts, i0=reset_info, autoreset=False)
    else:
        kind = {"sync": SyncVecEnv, "async": AsyncVecEnv}[backend]
        vec = kind(fns(*scripts, i0=reset_info), autoreset=False)
    with vec:
        assert_alike(gymnasium_s_own(*toys), next_step(vec))
        # The step that follows an end resets, and steps nothing.
        seen = vec if backend == "native" else vec.envs
        n_step = seen.n_step.tolist() if backend == "native" else [env.n_step for env in seen]
        n_reset = seen.n_reset.tolist() if backend == "native" else [env.n_reset for env in seen]
        assert (n_step, n_reset) == ([env.n_step for env in toys], [env.n_reset for env in toys])


@pytest.mark.parametrize("shared_memory, num_workers", [(True, None), (False, 2)])
def test_e1_next_step_autoreset_of_worker_processes(shared_memory, num_workers):
    env_fns = [lambda n=n: Draws(n) for n in (2, 3, 2)]
    kinds = {"shared_memory": shared_memory, "num_workers": num_workers}
    with ProcVecEnv(env_fns, autoreset=False, **kinds) as vec:
        assert_alike(gymnasium_s_own(*(env_fn() for env_fn in env_fns)), next_step(vec), seed=SEEDS[:3])


class DrawsItsEnd(NativeVecEnv):
    """Ends at random; draws from its streams whoever is frozen."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, BOX1, Discrete(2), **kwargs)
        self.seen = np.zeros(num_envs)
        self.resets = np.zeros(num_envs)  # goes on through resets

    def _draw(self, rows):
        return np.array([streams.uniform(self.streams, row) for row in rows])

    def _reset_envs(self, indices, options):
        self.resets[indices] += 1
        self.seen[indices] = self._draw(indices) + [0 if each is None else each["start"] for each in options]

    def _reset_infos(self, indices):
        return {"start": self.seen[indices], "resets": self.resets[indices]}

    def _observe(self):
        return self.seen[:, None]

    def _step(self, actions):
        draws = self._draw(range(self.num_envs))
        self.seen = np.where(self.frozen, self.seen, draws)
        return draws, draws > 0.6, draws < 0.1, {"seen": self.seen}


def singles(n, **kwargs):
    return [SingleEnv(lambda num, **more: DrawsItsEnd(num, **kwargs, **more)) for _ in range(n)]


def test_e1_seeds_options_and_streams_in_next_step_autoreset():
    """Each sub-env draws what it would alone: a step that it takes no part in draws nothing."""
    vec = DrawsItsEnd(4, autoreset=False)
    expected, got = gymnasium_s_own(*singles(4)), next_step(vec)
    assert_alike(expected, got, 30, seed=SEEDS, options={"start": 100.0})
    assert_alike(expected, got, 30)  # the streams go on


def test_e1_autoreset_options_are_those_of_the_resets_in_the_next_step():
    vec = DrawsItsEnd(4, autoreset=False, autoreset_options=lambda index: {"start": 100.0 * index})
    envs = next_step(vec)
    envs.reset(seed=SEEDS)
    begun = 0
    ended = np.zeros(4, bool)
    for _ in range(20):
        observations, *_, terminated, truncated, infos = envs.step(np.zeros(4, int))
        for row in ended.nonzero()[0]:
            begun += row > 0
            assert 0 <= observations[row, 0] - 100.0 * row < 1
            assert infos["start"][row] == observations[row, 0] and not infos["_seen"][row]
        ended = terminated | truncated
    assert begun


@pytest.mark.slow
@pytest.mark.parametrize(
    "market", [pytest.param(each, marks=pytest.mark.long if each == "LimitOrderBook-v0" else ()) for each in MARKETS]
)
@pytest.mark.parametrize("mode", ["native", "sync"])
def test_e1_a_market_gives_what_gymnasium_would_make_of_its_sub_envs(market, mode):
    kwargs = {"vectorization_mode": mode, "max_episode_steps": 5, "vector_kwargs": {"autoreset": False}}
    envs = [sekai.make(market, max_episode_steps=5) for _ in SEEDS]
    assert_alike(gymnasium_s_own(*envs), next_step(sekai.make_vec(market, 4, **kwargs)), 20, seed=SEEDS)


def test_e1_a_sequence_in_next_step_autoreset():
    numbers = sekai.spaces.Sequence(Box(-9, 9, (1,), np.float64))

    class Growing(sekai.Env):
        observation_space, action_space = numbers, Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.seen = []
            return ResetResult([], {})

        def step(self, action):
            self.seen = [*self.seen, np.ones(1)]
            return StepResult(self.seen, 1.0, len(self.seen) == 2, False, {})

    assert_alike(gymnasium_s_own(Growing()), next_step(SyncVecEnv([Growing], autoreset=False)), 7)


@pytest.mark.parametrize("wrapper", [lambda vec: vec, VecRecordEpisodeStatistics, VecNormalizeObservation])
def test_e1_no_dict_of_a_native_sub_env_is_built(wrapper, monkeypatch):
    scripts = [script(*[{"cash": 2.5, "size": 3}] * n, ends="term") for n in (1, 2, 3)]
    envs = next_step(wrapper(NativeToy(scripts, i0={"cash": 1.0, "start": 7.0}, autoreset=False)))

    def build(column, row):
        raise AssertionError("a dict was built")

    monkeypatch.setattr("sekai.batching.info_list.column_item", build)
    seen = envs.reset()[1]
    for _ in range(7):
        seen |= envs.step(np.zeros(3, int))[-1]
    assert {"cash", "size", "start"} <= seen.keys()


# -- wrappers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "sync"])
def test_e1_statistics_count_no_step_that_resets(backend):
    scripts = [T(1), T(3)]
    vec = NativeToy(scripts, autoreset=False) if backend == "native" else SyncVecEnv(fns(*scripts), autoreset=False)
    envs = next_step(VecRecordEpisodeStatistics(vec))
    theirs = gym_vector_wrappers.RecordEpisodeStatistics(gymnasium_s_own(*map(Toy, scripts)))
    envs.reset()
    theirs.reset()
    for k in range(8):
        got, expected = envs.step(np.zeros(2, int)), theirs.step(np.zeros(2, int))
        assert_same(expected[:4], got[:4])
        for key in "rl":
            values = [infos.get("episode", {}).get(key, np.zeros(2)).tolist() for infos in (got[4], expected[4])]
            assert values[0] == values[1], k


def test_e1_wrappers_show_the_new_episode():
    scripts = [T(2), T(9)]
    vec = VecTransformReward(
        VecTransformObservation(NativeToy(scripts, r0=(7.0,), autoreset=False), lambda seen: 10 * seen),
        lambda rewards: rewards + 5,
    )
    envs = next_step(vec)
    envs.reset()
    shown = [(result[0].ravel().tolist(), result[1].tolist()) for result in (envs.step([0, 0]) for _ in range(4))]
    assert shown == [
        ([10.0, 10.0], [6.0, 6.0]),
        ([20.0, 20.0], [6.0, 6.0]),
        ([70.0, 30.0], [0.0, 6.0]),
        ([10.0, 40.0], [6.0, 6.0]),
    ]


def test_e1_normalisers_learn_from_the_observation_of_a_reset():
    envs = next_step(VecNormalizeReward(VecNormalizeObservation(NativeToy([T(2), T(3)], autoreset=False))))
    envs.reset()
    for _ in range(3):  # the third one resets the first
        envs.step([0, 0])
    assert envs.vec.obs_rms.count == pytest.approx(2 + 2 + 2 + 1 + 1, abs=0.1)


def test_e1_gymnasium_s_observation_wrappers_go_around_it():
    envs = gym_vector_wrappers.FlattenObservation(next_step(NativeToy([T(2), T(3)], autoreset=False)))
    envs.reset()
    assert envs.step(np.zeros(2, int))[0].tolist() == [[1.0], [1.0]]


# -- as RLlib does -----------------------------------------------------------------------------------------


def sampled_as_rllib_does(envs, steps):
    """The episodes that a loop takes from an environment in RLlib's way, as (observation, reward, next) lists.

    RLlib's runner makes the environment with ``gymnasium.make_vec``, puts ``DictInfoToList`` around it, and takes what
    follows the end of an episode for a reset, without a look at ``metadata``.
    """
    envs = gym_vector_wrappers.DictInfoToList(envs)
    observations, infos = envs.reset(seed=1)
    running = [[(seen, None, info)] for seen, info in zip(observations, infos, strict=True)]
    finished = []
    for _ in range(steps):
        observations, rewards, terminated, truncated, infos = envs.step(np.ones(envs.num_envs, int))
        for row, episode in enumerate(running):
            if not episode:
                episode.append((observations[row], None, infos[row]))
                continue
            episode.append((observations[row], float(rewards[row]), infos[row]))
            if terminated[row] or truncated[row]:
                finished.append((row, episode))
                running[row] = []
    return finished


@pytest.fixture
def walk():
    from toy_market import Walk, WalkVec

    known = dict(gymnasium.registry)
    sekai.register("Walk-v4", Walk, vector_entry_point=WalkVec, max_episode_steps=7, kwargs={"goal": 3.0})
    yield register_with_gymnasium("Walk-v4")
    sekai.deregister("Walk-v4")
    gymnasium.registry.clear()
    gymnasium.registry.update(known)


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync", None])
def test_e1_rllib_loses_no_transition(walk, mode):
    episodes = sampled_as_rllib_does(gymnasium.make_vec(walk, num_envs=2, vectorization_mode=mode), 12)
    assert len(episodes) == 6
    for _, episode in episodes:
        assert [(seen.tolist(), reward) for seen, reward, _ in episode] == [
            ([0.0], None),
            ([1.0], 1.0),
            ([2.0], 2.0),
            ([3.0], 3.0),
        ]
        assert [sorted(info.keys() - {"elapsed_steps"}) for *_, info in episode] == [["start"], *[["level"]] * 3]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", *AutoresetMode])
def test_e1_the_mode_is_an_argument_of_make_vec(walk, mode):
    if mode is AutoresetMode.DISABLED:
        with pytest.raises(ValueError, match="autoreset_mode: expected 'SameStep' or 'NextStep', got"):
            gymnasium.make_vec(walk, num_envs=2, autoreset_mode=mode)
        return
    envs = gymnasium.make_vec(walk, num_envs=2, autoreset_mode=mode)
    assert envs.metadata["autoreset_mode"] is AutoresetMode(mode)
    assert gymnasium.make_vec(envs.spec).metadata["autoreset_mode"] is AutoresetMode(mode)


@pytest.mark.parametrize("autoreset", [True, False])
def test_e1_the_spec_of_an_adapter_keeps_the_mode(walk, autoreset):
    mode = AutoresetMode.SAME_STEP if autoreset else NEXT_STEP
    vec = sekai.make_vec("Walk-v4", 2, autoreset=autoreset, goal=2.0)
    spec = to_gymnasium_vector(vec, autoreset_mode=mode).spec
    again = gymnasium.make_vec(gymnasium.envs.registration.EnvSpec.from_json(spec.to_json()), num_envs=3)
    assert again.metadata["autoreset_mode"] is mode and again.vec.goal == 2.0


# -- what is refused ---------------------------------------------------------------------------------------


def test_e1_a_market_without_an_argument_for_autoreset_has_same_step_alone(walk):
    class Stubborn(NativeToy):
        def __init__(self, num_envs):
            super().__init__([T(2)] * num_envs)

    sekai.register("Stubborn-v0", vector_entry_point=Stubborn)
    id = register_with_gymnasium("Stubborn-v0")
    with pytest.raises(TypeError, match="'Stubborn-v0' has no argument 'autoreset'"):
        gymnasium.make_vec(id, num_envs=2)
    envs = gymnasium.make_vec(id, num_envs=2, autoreset_mode="SameStep")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    sekai.deregister("Stubborn-v0")


class OwnReset(VecWrapper):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)


def test_e1_what_cannot_serve_a_mode_is_refused():
    with pytest.raises(ValueError, match="expected autoreset=True, got <SyncVecEnv .* can have .*='NextStep'"):
        to_gymnasium_vector(SyncVecEnv(fns(T(1)), autoreset=False))
    with pytest.raises(ValueError, match="autoreset_mode: expected 'SameStep' or 'NextStep', got 'Disabled'"):
        to_gymnasium_vector(SyncVecEnv(fns(T(1))), autoreset_mode="Disabled")
    with pytest.raises(ValueError, match="expected a VecEnv that resets single sub-envs .*, got <OwnReset<SyncVecEnv"):
        next_step(OwnReset(SyncVecEnv(fns(T(1)), autoreset=False)))
    with pytest.raises(ValueError, match="expected a VecEnv made with autoreset=False, as by make_vec.*, got <SyncVec"):
        next_step(SyncVecEnv(fns(T(1))))
    theirs = gym_vector_wrappers.TransformReward(SyncVectorEnv([lambda: to_gymnasium(Toy(T(1)))]), np.sign)
    with pytest.raises(ValueError, match="expected a VecEnv that resets single sub-envs"):
        next_step(from_gymnasium_vector(theirs, autoreset=False))


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
def test_e1_gymnasium_s_own_there_and_back(mode):
    def env_fns():
        return [lambda n=n: to_gymnasium(Toy(T(n), i0={"start": n})) for n in (2, 3, 1)]

    vec = from_gymnasium_vector(SyncVectorEnv(env_fns(), autoreset_mode=mode), autoreset=False)
    assert_alike(SyncVectorEnv(env_fns(), autoreset_mode=NEXT_STEP), next_step(vec))


def test_e1_a_sub_env_that_resets_itself_is_named():
    envs = next_step(SyncVecEnv([lambda: Toy(T(9)), lambda: sekai.AutoReset(Toy(T(2)))], autoreset=False))
    envs.reset()
    envs.step([0, 0])
    with pytest.raises(ValueError, match=r"one that has begun its next episode by itself \(sub-env 1\)"):
        envs.step([0, 0])


def test_e1_only_frozen_sub_envs_are_reset():
    with SyncVecEnv(fns(T(1), T(9)), autoreset=False) as vec:
        vec.reset()
        vec.step([0, 0])
        with pytest.raises(ValueError, match=r"reset_frozen\(rows\): expected sub-envs that are frozen, got \[1\]"):
            vec.reset_frozen(np.array([0, 1]))
        assert vec.frozen.tolist() == [True, False]
        assert vec.reset_frozen(np.array([0])).observations.tolist() == [[0.0]]
        assert vec.frozen.tolist() == [False, False]
    with pytest.raises(sekai.VecEnvClosed):
        vec.reset_frozen(np.array([0]))
