from __future__ import annotations

import sys
from types import ModuleType

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces as gym_spaces
from masked_envs import Combined, Corridor, CorridorVec, mask_at
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecEnv,
    VecMonitor,
    VecNormalize,
    VecVideoRecorder,
)
from toys import BOX1, Draughtsman, Draws, NativeToy, NCount, T, Toy, fns
from vector.backends import KINDS, assert_same, everywhere, make, on_rows_once, scripted
from without_library import error_of_import

import sekai
import sims
from sekai import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, SyncVecEnv, TimeLimit, Tuple
from sekai.compat.gymnasium import register_with_gymnasium, to_gymnasium
from sekai.compat.stable_baselines3 import SekaiSB3VecEnv
from sims.market_making import MarketMakingVecEnv

torch.set_num_threads(1)


def script(n, *, cut_off=False):
    """n steps of different rewards, with two infos each; the last one is cut off, or terminal."""
    return [
        ([float(k)], k + 0.5, k == n and not cut_off, k == n and cut_off, {"k": k, "half": k / 2})
        for k in range(1, n + 1)
    ]


SCRIPTS = script(2), script(3, cut_off=True), script(4)


def zeros(env):
    return np.zeros((env.num_envs, *env.action_space.shape), env.action_space.dtype)


def roll(env, steps):
    return [env.step(zeros(env)) for _ in range(steps)]


# -- steps -------------------------------------------------------------------------------------------------


@everywhere
def test_it_is_what_sb3_makes_of_the_same_sub_envs_itself(backend):
    """DummyVecEnv over the same environments is the reference."""
    with scripted(backend, *SCRIPTS, i0={"start": 7}) as vec:
        env = SekaiSB3VecEnv(vec, info_keys=None)
        reference = DummyVecEnv([lambda s=s: to_gymnasium(Toy(s, i0={"start": 7})) for s in SCRIPTS])
        assert isinstance(env, VecEnv)
        assert (env.observation_space, env.action_space) == (reference.observation_space, reference.action_space)
        assert_same(reference.reset(), env.reset())
        assert env.reset_infos == reference.reset_infos
        for _ in range(12):
            observations, rewards, dones, infos = env.step(zeros(env))
            expected = reference.step(zeros(env))
            assert_same(expected[0], observations)
            assert rewards.dtype == np.float64
            np.testing.assert_array_equal(rewards, expected[1])
            assert_same(expected[2], dones)
            for done, info, other in zip(dones, infos, expected[3], strict=True):
                if not done:
                    assert other.pop("TimeLimit.truncated") is False
                assert_same(other, info)
            assert env.reset_infos == reference.reset_infos


class Numbered(Toy):
    """A reset tells the number of the episode."""

    def reset(self, **kwargs):
        return sekai.ResetResult(super().reset(**kwargs).observation, {"episode_number": self.n_reset})


class NativeNumbered(NativeToy):
    def _reset_infos(self, indices):
        return {"episode_number": self.n_reset[indices]}


@pytest.mark.parametrize("vec", [SyncVecEnv(fns(T(2), T(3), cls=Numbered)), NativeNumbered((T(2), T(3)))])
def test_reset_infos_are_those_of_the_last_reset_of_each(vec):
    env = SekaiSB3VecEnv(vec)
    env.reset()
    seen = []
    for _ in range(4):
        seen.append([info["episode_number"] for info in env.reset_infos])
        env.step(zeros(env))
    assert seen == [[1, 1], [1, 1], [2, 1], [2, 2]]


@everywhere
def test_the_info_of_an_episode_s_end(backend):
    with scripted(backend, *SCRIPTS) as vec:
        env = SekaiSB3VecEnv(vec)
        env.reset()
        ended = [steps[3] for steps in roll(env, 3)]
        assert_same(
            {"k": 2, "half": 1.0, "terminal_observation": np.array([2.0]), "TimeLimit.truncated": False}, ended[1][0]
        )
        assert_same(
            {"k": 3, "half": 1.5, "terminal_observation": np.array([3.0]), "TimeLimit.truncated": True}, ended[2][1]
        )


def test_an_episode_that_ends_both_ways_is_not_cut_off():
    env = SekaiSB3VecEnv(scripted("sync", [([1.0], 1.0, True, True, {})]))
    env.reset()
    assert env.step(zeros(env))[3][0]["TimeLimit.truncated"] is False


@everywhere
def test_the_infos_of_other_sub_envs_hold_what_was_asked_for(backend):
    with scripted(backend, *SCRIPTS) as vec:
        for keys, expected in ((), {}), (("half", "absent"), {"half": 0.5}), (None, {"k": 1, "half": 0.5}):
            env = SekaiSB3VecEnv(vec, info_keys=keys)
            env.reset()
            infos = env.step(zeros(env))[3]
            assert type(infos) is list
            assert_same([expected] * 3, infos)
            infos[0]["written"] = 1
            assert "written" not in infos[1]


class Watched(list):
    """Infos that note who is read."""

    def __init__(self, infos):
        super().__init__(infos)
        self.read = []

    def __getitem__(self, index):
        self.read.append(index)
        return super().__getitem__(index)

    def __iter__(self):
        return (self[row] for row in range(len(self)))


class Watching(sekai.VecWrapper):
    def step(self, actions):
        result = super().step(actions)
        self.infos = Watched(result.infos)
        fields = (getattr(result, name) for name in ("observations", "rewards", "terminated", "truncated"))
        return sekai.VecStepResult(*fields, self.infos)


@pytest.mark.parametrize("info_keys, others", [((), []), (("k",), [0, 1, 2]), (None, [0, 1, 2])])
def test_no_info_is_read_but_those_that_are_asked_for(info_keys, others):
    """A native environment builds a dict of each that is read."""
    vec = Watching(scripted("native", *SCRIPTS))
    env = SekaiSB3VecEnv(vec, info_keys=info_keys)
    env.reset()
    env.step(zeros(env))
    assert vec.infos.read == others
    env.step(zeros(env))
    assert vec.infos.read == [*others, 0]


def test_terminal_observations_of_nested_spaces():
    space = Dict(a=BOX1, b=Discrete(3))
    env = SekaiSB3VecEnv(
        scripted("native", [({"a": [1.0], "b": 2}, 0.0, True, False, {})], obs=space, r0={"a": [0.0], "b": 1})
    )
    assert isinstance(env.observation_space, gym_spaces.Dict)
    assert_same({"a": np.array([[0.0]]), "b": np.array([1])}, env.reset())
    info = env.step(zeros(env))[3][0]
    assert_same({"a": np.array([1.0]), "b": np.int64(2)}, info["terminal_observation"])
    assert info["terminal_observation"] in env.observation_space


SHIFTED = Dict(side=Discrete(3, start=2), legs=MultiDiscrete([2, 3], dtype=np.int8, start=[5, -7]), price=BOX1)
BOOK = MaskedBox(-1.0, 1.0, (2,), max_size=3)


@everywhere
@pytest.mark.parametrize(
    "space, own, told",
    [
        (Discrete(3, start=2), [2, 4], [0, 2]),
        (MultiDiscrete([2, 3], start=[5, -7]), [[5, -7], [6, -5]], [[0, 0], [1, 2]]),
        (
            Dict(a=Tuple((Discrete(2, start=-1), BOX1)), b=BOOK),
            [{"a": (-1, [0.5]), "b": BOOK.pack([])}, {"a": (0, [1.5]), "b": BOOK.pack([[0.5, -0.5]])}],
            [
                {"a": (0, [0.5]), "b": {"slots": np.zeros((3, 2), np.float32), "mask": [0, 0, 0]}},
                {"a": (1, [1.5]), "b": {"slots": np.float32([[0.5, -0.5], [0, 0], [0, 0]]), "mask": [1, 0, 0]}},
            ],
        ),
    ],
    ids=["discrete", "multi-discrete", "nested"],
)
def test_observations_are_counted_from_0_and_slots_are_called_so(backend, space, own, told):
    first, last = own
    with scripted(backend, [(last, 1.0, True, False, {})], obs=space, r0=first) as vec:
        env = SekaiSB3VecEnv(vec)
        begun = env.reset()
        assert_same(batch_of_one(env.observation_space, told[0]), begun)
        observations, *_, infos = env.step(zeros(env))
        assert_same(begun, observations)
        final = infos[0]["terminal_observation"]
        assert final in env.observation_space
        assert_same(batch_of_one(env.observation_space, told[1]), batch_of_one(env.observation_space, final))


def batch_of_one(space, element):
    if isinstance(space, gym_spaces.Dict):
        return {key: batch_of_one(space[key], part) for key, part in element.items()}
    if isinstance(space, gym_spaces.Tuple):
        return tuple(batch_of_one(part, item) for part, item in zip(space, element, strict=True))
    return np.array([element], space.dtype)


@pytest.mark.parametrize("space", [Discrete(3, start=1), MultiDiscrete([2, 3], start=[5, -7])], ids=repr)
@everywhere
def test_actions_are_counted_from_0(backend, space):
    class Seeing(sekai.VecActionWrapper):
        def action(self, actions):
            self.seen = actions
            return actions

    with scripted(backend, T(9), T(9), act=space) as inner:
        vec = Seeing(inner)
        env = SekaiSB3VecEnv(vec)
        env.reset()
        env.step(zeros(env))
        assert_same(np.array([space.start] * 2), vec.seen)
        env.action_space.seed(0)
        drawn = set()
        for _ in range(30):
            env.step(np.array([env.action_space.sample() for _ in range(2)]))
            drawn |= {tuple(np.ravel(action).tolist()) for action in vec.seen}
            assert vec.seen in vec.batch_action_space
        assert len(drawn) == np.prod(getattr(space, "nvec", 3))


def test_a_batch_that_is_told_alike_is_not_copied():
    vec = Keeping(scripted("native", T(3), act=Box(-1.0, 1.0, (2,))))
    env = SekaiSB3VecEnv(vec)
    env.reset()
    actions = np.zeros((1, 2), np.float32)
    observations = env.step(actions)[0]
    assert vec.actions is actions and vec.result.observations is observations


class Keeping(sekai.VecWrapper):
    """Keeps the last actions and what they led to."""

    def step(self, actions):
        self.actions, self.result = actions, super().step(actions)
        return self.result


# -- seeds and options -------------------------------------------------------------------------------------


def test_a_seed_makes_the_episodes_of_the_vec_env():
    env, vec = (SyncVecEnv([Draws] * 3) for _ in range(2))
    env = SekaiSB3VecEnv(env)
    seeds = env.seed(5)
    assert seeds == sekai.make_seed_sequence(5, 3)
    expected = vec.reset(seed=5)
    assert_same(expected.observations, env.reset())
    for _ in range(6):
        assert_same(vec.step(np.zeros(3, int)).observations, env.step(zeros(env))[0])
    assert_same(vec.reset().observations, env.reset())  # the seed is for one reset
    assert env.seed() == [None] * 3


def test_options_are_for_the_next_reset():
    env = SekaiSB3VecEnv(SyncVecEnv(fns(T(3), T(3))))
    env.set_options({"a": 1})
    env.reset()
    assert env.get_attr("last_options") == [{"a": 1}, {"a": 1}]
    env.set_options([{"a": 1}, {"b": 2}])
    env.reset()
    assert env.get_attr("last_options") == [{"a": 1}, {"b": 2}]
    env.reset()
    assert env.get_attr("last_options") == [None, None]


def test_training_runs_are_repeated_by_their_seed():
    def weights():
        env = SekaiSB3VecEnv(sekai.make_vec("Trading-v0", 8, max_episode_steps=20))
        model = PPO("MlpPolicy", env, n_steps=8, batch_size=32, n_epochs=1, seed=3, device="cpu")
        return model.learn(128).policy.parameters_to_vector()

    assert_same(weights(), weights())


# -- sub-envs ----------------------------------------------------------------------------------------------


@everywhere
def test_attributes_of_some_sub_envs(backend):
    with scripted(backend, *SCRIPTS) as vec:
        env = SekaiSB3VecEnv(vec)
        env.reset()
        env.step(zeros(env))
        assert env.get_attr("k") == [1, 1, 1]
        env.set_attr("k", 2, indices=[1, -1])
        assert env.get_attr("k") == [1, 2, 2]
        assert env.get_attr("k", 1) == env.get_attr("k", indices=np.array([2])) == [2]
        env.set_attr("k", 0)
        assert env.get_attr("k", indices=[2, 0]) == [0, 0]
        with pytest.raises(IndexError, match=r"expected sub-envs below 3 \(num_envs\), got \[3\]"):
            env.get_attr("k", [3])
        for wrong, message in (
            (1.0, "indices: expected an integer, integers or None, got 1.0"),
            ([0, 1.0], "indices: expected integers, got float"),
            ([True, False], "indices: expected integers, got the bool True"),
        ):
            with pytest.raises(TypeError, match=message):
                env.set_attr("k", 5, wrong)


@everywhere
def test_a_list_is_one_value(backend):
    with scripted(backend, *SCRIPTS) as vec:
        env = SekaiSB3VecEnv(vec)
        env.set_attr("last_action", [1, 2, 3])
        assert all(list(value) == [1, 2, 3] for value in env.get_attr("last_action"))


@everywhere
def test_an_attribute_that_there_is_not(backend):
    with scripted(backend, *SCRIPTS) as vec:
        env = SekaiSB3VecEnv(vec)
        assert not env.has_attr("absent") and env.has_attr("k")
        for call in (
            lambda: env.get_attr("absent"),
            lambda: env.set_attr("absent", 1),
            lambda: env.set_attr("absent", 1, indices=0),
            lambda: env.env_method("absent"),
        ):
            with pytest.raises(AttributeError, match="absent"):
                call()
        assert env.render_mode is None and env.get_attr("render_mode") == [None] * 3


@everywhere
def test_methods_of_sub_envs(backend):
    with scripted(backend, *SCRIPTS) as vec:
        env = SekaiSB3VecEnv(vec)
        env.reset()
        env.step(zeros(env))
        assert env.env_method("add", 10, b=100) == [111, 111, 111]
        assert env.env_method("k", indices=range(3)) == [1, 1, 1]
        env.set_attr("k", 5, indices=1)
        assert env.env_method("add", 10, indices=[1, 0]) == [15, 11]
        assert env.env_method("k", indices=[-1]) == [1] and env.env_method("add", 10, indices=[]) == []


class Bumped(Toy):
    def bump(self, by, *, times=1):
        self.k += times * by
        return self.k


@on_rows_once
def test_some_sub_envs_are_asked_as_sb3_asks_its_own(backend):
    """DummyVecEnv over the same environments is the reference."""
    env_fns = fns(*SCRIPTS, cls=Bumped)
    reference = DummyVecEnv([lambda env_fn=env_fn: to_gymnasium(env_fn()) for env_fn in env_fns])
    with make(backend, env_fns) as vec:
        env = SekaiSB3VecEnv(VecMarked(vec))
        for each in (env, reference):
            each.reset()
        for call in (
            lambda each: each.env_method("bump", 2, indices=[2, 0], times=3),
            lambda each: each.env_method("bump", 1, indices=1),
            lambda each: each.env_method("bump", 1, indices=[0, 0, 2]),
            lambda each: each.env_method("bump", 1),
            lambda each: each.set_attr("k", 20, indices=[0, 2]),
            lambda each: each.get_attr("k", indices=[2, 1, 2]),
            lambda each: each.set_attr("k", 30),
            lambda each: each.get_attr("k"),
        ):
            assert call(env) == call(reference)


class VecMarked(sekai.VecWrapper):
    """Calls go through a wrapper."""


def test_wrappers_of_sub_envs_are_found():
    vec = SyncVecEnv([lambda: TimeLimit(Toy(T(3)), 2), lambda: Toy(T(3))])
    env = SekaiSB3VecEnv(vec)
    assert env.env_is_wrapped(TimeLimit) == [True, False]
    assert env.env_is_wrapped(TimeLimit, indices=1) == [False]
    assert env.env_is_wrapped(Monitor) == [False, False]
    env = SekaiSB3VecEnv(sekai.VecTransformReward(vec, np.sign))
    assert env.env_is_wrapped(sekai.VecTransformReward) == [True, True]
    assert env.env_is_wrapped(TimeLimit) == [True, False]
    assert SekaiSB3VecEnv(NCount([2])).env_is_wrapped(TimeLimit) == [False]


# -- what SB3 puts around it -------------------------------------------------------------------------------


@pytest.mark.parametrize("info_keys", [(), ("k",), None])
@everywhere
def test_vec_monitor(backend, info_keys):
    with scripted(backend, *SCRIPTS) as vec:
        env = VecMonitor(SekaiSB3VecEnv(vec, info_keys=info_keys), info_keywords=("half",))
        env.reset()
        episodes = [[info.get("episode") for info in steps[3]] for steps in roll(env, 6)]
        found = {
            (step, row): (episode["r"], episode["l"], episode["half"])
            for step, infos in enumerate(episodes, 1)
            for row, episode in enumerate(infos)
            if episode
        }
        lengths = [len(each) for each in SCRIPTS]
        assert found == {
            (step, row): (n * (n + 1) / 2 + n / 2, n, n / 2) for row, n in enumerate(lengths) for step in range(n, 7, n)
        }


@everywhere
def test_vec_normalize_sees_terminal_observations(backend):
    with scripted(backend, *SCRIPTS) as vec:
        env = VecNormalize(SekaiSB3VecEnv(vec), clip_obs=100.0)
        env.reset()
        for _ in range(6):
            observations, _, dones, infos = env.step(zeros(env))
            assert_same(env.normalize_obs(env.get_original_obs()), observations)
            for row in dones.nonzero()[0]:
                final = np.array([float(len(SCRIPTS[row]))])
                assert_same(env.normalize_obs(final), infos[row]["terminal_observation"])


def test_vec_check_nan():
    rows = [[([1.0], 1.0, False, False, {}), ([np.nan], 1.0, True, False, {})]]
    env = VecCheckNan(SekaiSB3VecEnv(scripted("native", *rows)), raise_exception=True)
    env.reset()
    env.step(zeros(env))
    with pytest.raises(ValueError, match="nan"):
        env.step(np.array([np.nan]))


def test_episode_statistics_of_the_kit_are_those_that_sb3_logs():
    vec = sekai.VecRecordEpisodeStatistics(NCount([3, 5]))
    env = SekaiSB3VecEnv(vec)
    assert env.env_is_wrapped(Monitor) == [True, True]
    env.reset()
    infos = [steps[3] for steps in roll(env, 6)]
    episode = infos[2][0]["episode"]
    assert (episode["r"], episode["l"]) == (3.0, 3) and episode["t"] >= 0.0
    assert infos[5][0]["episode"]["t"] >= infos[4][1]["episode"]["t"] >= episode["t"]
    assert [row for row in range(2) if "episode" in infos[3][row]] == []
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, device="cpu").learn(64)
    assert {episode["l"] for episode in model.ep_info_buffer} == {3, 5}
    mean, _ = evaluate_policy(model, env, n_eval_episodes=4)  # warns of an environment without a Monitor
    assert mean == pytest.approx(4.0)


# -- algorithms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [Discrete(3), Discrete(3, start=1), Box(-1.0, 1.0, (2,)), MultiDiscrete([2, 3]), MultiBinary(2)]
    + [MultiDiscrete([2, 3], start=[5, -7])],
    ids=repr,
)
@pytest.mark.parametrize("backend", ["sync", "native"])
def test_actions_of_every_kind_come_through(backend, action):
    seen = []

    class Seeing(sekai.VecActionWrapper):
        def action(self, actions):
            seen.append(actions)
            return actions

    vec = Seeing(scripted(backend, T(5), T(7), act=action))
    PPO("MlpPolicy", SekaiSB3VecEnv(vec), n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(32)
    assert seen and all(actions in vec.batch_action_space for actions in seen)


def test_an_action_that_is_no_whole_number_is_refused():
    env = SekaiSB3VecEnv(scripted("native", T(5), act=MultiBinary(2)))
    env.reset()
    env.step(np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="expected dtype int8, got float64"):
        env.step(np.array([[0.5, 0.0]]))


@pytest.mark.parametrize("backend", KINDS)
def test_off_policy_algorithms_store_terminal_observations(backend):
    with scripted(backend, *SCRIPTS) as vec:
        model = DQN("MlpPolicy", SekaiSB3VecEnv(vec), learning_starts=1, buffer_size=36, batch_size=4, device="cpu")
        model.learn(36)
        buffer = model.replay_buffer
        ends = buffer.dones.astype(bool)
        assert ends.sum(axis=0).tolist() == [6, 4, 3]
        np.testing.assert_array_equal(buffer.timeouts, ends & [False, True, False])
        lengths = np.broadcast_to([len(each) for each in SCRIPTS], ends.shape)
        np.testing.assert_array_equal(buffer.next_observations[..., 0][ends], lengths[ends])


def test_policies_train_on_dicts_of_observations():
    space = Dict(price=Box(0.0, 9.0, (3, 2)), side=Discrete(3))
    space.seed(0)
    samples = [space.sample() for _ in range(5)]
    rows = [(sample, 1.0, k == 4, False, {}) for k, sample in enumerate(samples)]
    env = SekaiSB3VecEnv(scripted("native", rows, rows, obs=space, r0=samples[0]))
    A2C("MultiInputPolicy", env, n_steps=8, device="cpu").learn(64)


@pytest.mark.parametrize("obs", [Discrete(3, start=2), MultiDiscrete([2, 3], start=[1, -1]), SHIFTED, BOOK], ids=repr)
def test_policies_train_on_spaces_that_are_told_otherwise(obs):
    obs.seed(0)
    rows = [(obs.sample(), 1.0, k == 4, False, {}) for k in range(5)]
    vec = scripted("native", rows, rows, obs=obs, act=Discrete(2, start=-1), r0=obs.sample())
    policy = "MultiInputPolicy" if obs in (SHIFTED, BOOK) else "MlpPolicy"
    PPO(policy, SekaiSB3VecEnv(vec), n_steps=8, batch_size=16, n_epochs=1, device="cpu").learn(32)
    DQN(policy, SekaiSB3VecEnv(vec), learning_starts=1, buffer_size=36, batch_size=4, device="cpu").learn(36)


class Masked(Toy):
    """Only action k % 3 is allowed in step k."""

    def action_masks(self):
        return np.arange(3) == self.k % 3

    def step(self, action):
        assert action == self.k % 3
        return super().step(action)


class NativeMasked(NCount):
    """The same: the masks are an attribute here."""

    def __init__(self, lengths):
        super().__init__(lengths)
        self.action_space = Discrete(3)

    @property
    def action_masks(self):
        return np.arange(3) == self.c[:, None] % 3

    def _step(self, actions):
        assert (actions == self.c % 3).all()
        return super()._step(actions)


@pytest.mark.parametrize("vec", [SyncVecEnv(fns(T(5), T(7), cls=Masked, act=Discrete(3))), NativeMasked([5, 7])])
def test_action_masks(vec):
    env = SekaiSB3VecEnv(vec)
    assert is_masking_supported(env)
    env.reset()
    assert_same(np.array([[True, False, False]] * 2), get_action_masks(env))
    env.step(np.zeros(2, np.int64))
    assert_same(np.array([[False, True, False]] * 2), get_action_masks(env))
    MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(64)
    assert not is_masking_supported(SekaiSB3VecEnv(NCount([3])))


class Sized(Corridor):
    """The size and the flags are part of the mask."""

    action_space = MultiDiscrete([3, 2], start=[5, 0])

    def step(self, action):
        assert action[1] == 1
        return super().step(action[0] - 5)

    def action_mask(self):
        return super().action_mask(), [0, 1]


class Flagged(Corridor):
    action_space = MultiBinary(2)

    def step(self, action):
        assert action[0] == 1
        return super().step(1 + action[1] if mask_at(self.position)[1 + action[1]] else 1)

    def action_mask(self):
        return [1, 2]


def corridors(kind):
    return SyncVecEnv([kind, kind])


@pytest.mark.parametrize(
    "build",
    [
        lambda: corridors(Corridor),
        lambda: corridors(Sized),
        lambda: corridors(Flagged),
        lambda: CorridorVec(2, max_episode_steps=4),
        lambda: sekai.VecRecordEpisodeStatistics(CorridorVec(2, max_episode_steps=4)),
    ],
    ids=["sync", "several choices", "flags", "native", "wrapped"],
)
def test_action_masks_of_the_kit(build):
    env = SekaiSB3VecEnv(build())
    assert is_masking_supported(env)  # before there is anything to mask
    env.seed(0)
    env.reset()
    masks = get_action_masks(env)
    assert masks.dtype == np.bool_
    assert_same(masks, env.action_masks())
    assert_same([masks[1]], env.env_method("action_masks", indices=[1]))
    assert_same(masks[0], env.get_attr("action_masks", indices=[0])[0]())
    MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0).learn(64)


def test_flat_masks_are_laid_out_as_maskable_ppo_reads_them():
    vec = corridors(Sized)
    env = SekaiSB3VecEnv(vec)
    env.reset()
    vec.set_attr("position", [2, 0])
    assert get_action_masks(env).astype(int).tolist() == [[1, 1, 0, 0, 1], [1, 1, 1, 0, 1]]
    env = SekaiSB3VecEnv(corridors(Flagged))
    env.reset()
    assert get_action_masks(env).astype(int).tolist() == [[0, 1, 1, 1]] * 2  # first 0, first 1, second 0, second 1


@pytest.mark.parametrize(
    "build", [lambda: SyncVecEnv([lambda: Combined()]), lambda: MarketMakingVecEnv(2)], ids=["nested", "box"]
)
def test_masks_without_a_flat_form_are_not_offered(build):
    vec = build()
    env = SekaiSB3VecEnv(vec)
    env.reset()
    assert vec.has_action_mask and not is_masking_supported(env)
    with pytest.raises(AttributeError, match=r"action_masks\(\): expected a VecEnv with masks of a Discrete, .*Box\("):
        env.action_masks()


class Bounded(sekai.VecActionWrapper):
    """The distances of quotes within bounds, as Stable-Baselines3 wants them."""

    def __init__(self, venv):
        super().__init__(venv)
        self.action_space = Box(-1.0, 3.0, (2,))

    def action(self, actions):
        return actions

    def action_mask(self):
        raise AssertionError("expected nobody to ask")


def test_training_on_a_market_whose_masks_have_no_flat_form_asks_for_none():
    env = SekaiSB3VecEnv(Bounded(MarketMakingVecEnv(2, max_inventory=1)))
    assert env.vec.has_action_mask
    PPO("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, device="cpu", seed=0).learn(16)
    SAC("MlpPolicy", env, learning_starts=4, batch_size=4, buffer_size=64, device="cpu", seed=0).learn(8)


@pytest.mark.slow
def test_maskable_ppo_walks_to_the_end_of_the_corridor():
    torch.set_num_threads(1)
    env = SekaiSB3VecEnv(SyncVecEnv([lambda: Corridor(8)] * 8))  # which refuses what the mask leaves out
    env.seed(0)
    model = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=64, learning_rate=3e-3, seed=0, device="cpu")
    model.learn(4096)
    observations, rewards = env.reset(), []
    for _ in range(80):
        actions, _ = model.predict(observations, action_masks=get_action_masks(env), deterministic=True)
        observations, reward, _, _ = env.step(actions)
        rewards.append(reward)
    assert np.mean(rewards) > 1.3  # going right at once: 1.75 on average


# -- frames, and environments by name ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SyncVecEnv, sekai.ProcVecEnv])
def test_e3_frames_of_the_sub_envs(kind):
    with kind([lambda: Draughtsman(9)] * 2) as vec:
        env = SekaiSB3VecEnv(sekai.VecRecordEpisodeStatistics(vec))
        reference = DummyVecEnv([lambda: to_gymnasium(Draughtsman(9))] * 2)
        env.reset()
        reference.reset()
        for made in (env, reference):
            made.step(zeros(made))
        assert env.render_mode == reference.render_mode == "rgb_array"
        assert [image.tolist() for image in env.get_images()] == [np.ones((4, 6, 3)).tolist()] * 2
        np.testing.assert_array_equal(env.render(), reference.render())
        np.testing.assert_array_equal(env.render(mode="rgb_array"), reference.render(mode="rgb_array"))


def test_e3_videos_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", ModuleType("moviepy"))  # which only writes the file
    video = VecVideoRecorder(SekaiSB3VecEnv(SyncVecEnv([Draughtsman])), str(tmp_path), lambda step: step == 0, 9)
    video.reset()
    for _ in range(3):
        video.step(zeros(video))
    assert [int(frame.max()) for frame in video.recorded_frames] == [0, 1, 2, 3]
    assert video.frames_per_sec == 12
    video.recording, video.recorded_frames = False, []  # else it would write them


def test_e3_sub_envs_that_draw_something_else_have_no_images():
    env = SekaiSB3VecEnv(SyncVecEnv([lambda: Draughtsman(render_mode="ansi")] * 2))
    assert (env.render_mode, env.get_images(), env.render()) == ("ansi", [None, None], None)
    blank = SekaiSB3VecEnv(NCount([3]))
    assert (blank.render_mode, blank.get_images()) == (None, [None])


@pytest.fixture
def registered():
    known = dict(gymnasium.registry)
    sekai.register("Draws-v0", Draws)
    sekai.register("Draughtsman-v0", Draughtsman)
    yield register_with_gymnasium
    for id in ("Draws-v0", "Draughtsman-v0"):
        sekai.deregister(id)
    gymnasium.registry.clear()
    gymnasium.registry.update(known)


@pytest.mark.parametrize("id, mode", [("Draws-v0", None), ("Draughtsman-v0", "rgb_array")])
def test_e2_stable_baselines3_makes_an_environment_by_its_id(registered, id, mode):
    """It asks for frames first, and goes on without them after a TypeError."""
    env = make_vec_env(registered(id), 2)
    assert env.render_mode == mode
    env.reset()
    assert env.step(zeros(env))[1].shape == (2,)
    assert PPO("MlpPolicy", registered(id), device="cpu").env.render_mode == mode


@pytest.mark.parametrize("market", ["MarketMaking-v0", "Trading-v0"])
def test_e2_a_market_takes_no_render_mode(registered, market):
    if market not in [spec.id for spec in sekai.all_specs()]:
        sims.register_envs()
    for build in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(TypeError, match=f"{market}.* has no argument 'render_mode'"):
            build(registered(market), render_mode="rgb_array")


# -- beginning and end -------------------------------------------------------------------------------------


def test_close_closes():
    vec = NCount([3])
    SekaiSB3VecEnv(vec).close()
    assert vec.closed


def test_what_it_takes():
    with pytest.raises(TypeError, match="expected a sekai VecEnv, got Toy"):
        SekaiSB3VecEnv(Toy(T(3)))
    with pytest.raises(ValueError, match="expected a VecEnv with autoreset, got one with autoreset=False"):
        SekaiSB3VecEnv(NCount([3], autoreset=False))


def test_without_stable_baselines3_the_error_names_the_extra():
    error = error_of_import("sekai.compat.stable_baselines3", "stable_baselines3")
    expected = 'needs Stable-Baselines3: pip install ".[sb3]" in the clone'
    assert error == f"ImportError: sekai.compat.stable_baselines3 {expected}"
