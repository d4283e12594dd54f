"""A VecEnv as a gymnasium VectorEnv with same-step autoreset."""

from __future__ import annotations

import gc
from fractions import Fraction

import gymnasium
import gymnasium.wrappers
import gymnasium.wrappers.vector as gym_vector_wrappers
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium_toys import assert_same, each_market
from masked_envs import Combined, Corridor, CorridorVec
from toys import BOX1, INF, Draughtsman, Draws, NativeToy, T, Toy, Z, fns

import sekai
from sekai import (
    AsyncVecEnv,
    Box,
    MaskedBox,
    ProcVecEnv,
    Sequence,
    SyncVecEnv,
    VecNormalizeObservation,
    VecRecordEpisodeStatistics,
    VecWrapper,
)
from sekai.compat.gymnasium import GymnasiumVectorEnv, to_gymnasium, to_gymnasium_vector

SEEDS = [3, 14, 15, 92]


def gymnasium_s_own(*envs):
    """What gymnasium itself makes of sub-envs."""
    env_fns = [lambda env=env: to_gymnasium(env) for env in envs]
    return SyncVectorEnv(env_fns, autoreset_mode=AutoresetMode.SAME_STEP)


def assert_alike(expected, got, steps=12, **reset):
    """Two gymnasium vector environments that give the same, infos included."""
    assert expected.action_space == got.action_space
    assert expected.observation_space == got.observation_space
    got.action_space.seed(1)
    assert_same(expected.reset(**reset), got.reset(**reset), "reset")
    for k in range(steps):
        actions = got.action_space.sample()
        assert_same(expected.step(actions), got.step(actions), f"step {k}")


# -- the layout of infos: that of gymnasium's own vector environment ---------------------------------------


@each_market
@pytest.mark.parametrize("mode", ["native", "sync", "async"])
def test_a_market_gives_what_gymnasium_would_make_of_its_sub_envs(market, mode):
    vec = sekai.make_vec(market, 4, vectorization_mode=mode, max_episode_steps=5)
    envs = [sekai.make(market, max_episode_steps=5) for _ in SEEDS]
    assert_alike(gymnasium_s_own(*envs), to_gymnasium_vector(vec), seed=SEEDS)


def script(*infos, ends):
    """A script (see ``toys.Toy``) whose steps have these infos and whose last one ends the episode by ``ends``."""
    flags = [(k == len(infos) - 1) for k in range(len(infos))]
    rows = zip(range(len(infos)), flags, infos, strict=True)
    return [([float(k)], k / 2, last and ends == "term", last and ends == "trunc", info) for k, last, info in rows]


#: Keys of many kinds, each in every step.
STEP = {"cash": 2.5, "size": 3, "filled": True, "path": np.arange(3.0), "tag": np.float32(1.5), "ratio": Fraction(1, 3)}
#: What a reset tells: one key that a step tells too, and one of its own.
RESET = {"cash": 1.0, "start": 7.0, "levels": np.zeros((2, 2), np.int8)}


@pytest.mark.parametrize("reset_info", [{}, RESET], ids=["no reset info", "reset info"])
@pytest.mark.parametrize("lengths", [(1, 1, 1), (1, 2, 3), (4, 9, 2)])
@pytest.mark.parametrize("backend", ["native", "sync"])
def test_infos_are_laid_out_as_gymnasium_does(backend, lengths, reset_info):
    scripts = [script(*[STEP] * n, ends=ends) for n, ends in zip(lengths, ("term", "trunc", "term"), strict=True)]
    vec = NativeToy(scripts, i0=reset_info) if backend == "native" else SyncVecEnv(fns(*scripts, i0=reset_info))
    assert_alike(gymnasium_s_own(*[Toy(one, i0=reset_info) for one in scripts]), to_gymnasium_vector(vec), steps=7)


def test_infos_that_differ_between_sub_envs_are_laid_out_as_gymnasium_does():
    scripts = [
        script({"a": 1.0}, {"b": "x"}, {}, ends="term"),
        script({}, {"a": 2.0, "n": {"deep": 1, "er": [1]}}, ends="trunc"),
        script({"b": "y", "n": {"deep": 2}}, ends="term"),
    ]
    vec = SyncVecEnv(fns(*scripts, i0={"start": 0.5, "b": "z"}))
    toys = [Toy(one, i0={"start": 0.5, "b": "z"}) for one in scripts]
    assert_alike(gymnasium_s_own(*toys), to_gymnasium_vector(vec), steps=7)


def test_worker_processes_give_the_same():
    with ProcVecEnv([Draws] * 2) as vec:
        assert_alike(gymnasium_s_own(Draws(), Draws()), to_gymnasium_vector(vec), seed=SEEDS[:2])


def test_a_key_of_two_types_is_promoted():
    vec = NativeToy([script({"cash": 3}, ends="term"), script({"cash": 4}, {"cash": 5}, ends="term")], i0={"cash": 0.5})
    envs = to_gymnasium_vector(vec)
    envs.reset()
    infos = envs.step(np.zeros(2, int))[-1]
    assert infos["cash"].tolist() == [0.5, 4.0]
    assert infos["final_info"]["cash"].tolist() == [3, 0]


def test_a_self_resetting_sub_env_is_taken_as_it_is():
    vec = SyncVecEnv([lambda: sekai.AutoReset(Toy(script({"a": 1}, ends="term"), i0={"b": 2}))] * 2)
    envs = to_gymnasium_vector(vec)
    envs.reset()
    infos = envs.step(np.zeros(2, int))[-1]
    assert infos["final_obs"].tolist() == [np.array([0.0])] * 2
    assert infos["final_info"]["a"].tolist() == [1, 1]
    assert infos["b"].tolist() == [2, 2] and "a" not in infos


@pytest.mark.parametrize("backend", ["native", "sync"])
def test_what_sekai_s_statistics_add_is_in_gymnasium_s_layout(backend):
    scripts = [T(1), T(2)]
    vec = VecRecordEpisodeStatistics(NativeToy(scripts) if backend == "native" else SyncVecEnv(fns(*scripts)))
    envs = to_gymnasium_vector(vec)
    theirs = gym_vector_wrappers.RecordEpisodeStatistics(to_gymnasium_vector(SyncVecEnv(fns(*scripts))))
    envs.reset()
    theirs.reset()
    for ended in ([True, False], [True, True]):
        infos, expected = (each.step(np.zeros(2, int))[-1] for each in (envs, theirs))
        assert infos["_episode"].tolist() == expected["_episode"].tolist() == ended
        for key in "rlt":
            assert infos["episode"][key].dtype == expected["episode"][key].dtype
            assert infos["episode"][f"_{key}"].tolist() == ended
            assert (infos["episode"][key][ended] >= 0).all() and not infos["episode"][key][np.logical_not(ended)].any()
        for key in "rl":
            assert infos["episode"][key].tolist() == expected["episode"][key].tolist()
        assert "episode" not in infos["final_info"]


def test_both_backends_lay_statistics_out_alike():
    def laid_out(vec):
        envs = to_gymnasium_vector(VecRecordEpisodeStatistics(vec))
        envs.reset()
        for _ in range(4):
            infos = envs.step(np.zeros(3, int))[-1]
            if "episode" in infos:
                infos["episode"]["t"][:] = 0.0
            yield infos

    scripts = [T(1), T(3), T(9)]
    assert_same(list(laid_out(SyncVecEnv(fns(*scripts)))), list(laid_out(NativeToy(scripts))))


def test_statistics_of_sub_envs_are_those_of_the_end():
    recorded = [lambda n=n: sekai.RecordEpisodeStatistics(Toy(T(n))) for n in (1, 2)]
    envs = to_gymnasium_vector(SyncVecEnv(recorded))
    envs.reset()
    infos = envs.step(np.zeros(2, int))[-1]
    assert "episode" not in infos
    assert infos["final_info"]["_episode"].tolist() == [True, False]
    assert infos["final_info"]["episode"]["r"].tolist() == [1.0, 0.0]


def test_gymnasium_s_list_of_infos_takes_the_statistics():
    vec = VecRecordEpisodeStatistics(NativeToy([T(1), T(2)]))
    envs = gym_vector_wrappers.DictInfoToList(to_gymnasium_vector(vec))
    envs.reset()
    first, second = envs.step(np.zeros(2, int))[-1]
    assert (first["episode"]["r"], first["episode"]["l"]) == (1.0, 1)
    assert "episode" not in second


OWN = {"final_observation": 3, "reset_info": 4}


@pytest.mark.parametrize("backend", ["native", "sync"])
def test_keys_of_the_kit_in_the_info_of_a_step_are_nothing_but_infos_of_it(backend):
    scripts = [script(*[{**OWN, "k": k} for k in range(n)], ends="trunc") for n in (3, 9)]
    envs = to_gymnasium_vector(NativeToy(scripts) if backend == "native" else SyncVecEnv(fns(*scripts)))
    envs.reset()
    for k in range(2):
        infos = envs.step(np.zeros(2, int))[-1]
        assert "final_obs" not in infos
        assert {key: infos[key].tolist() for key in ("k", *OWN)} == {
            "k": [k, k],
            "final_observation": [3, 3],
            "reset_info": [4, 4],
        }


def test_an_env_that_resets_itself_may_tell_anything_of_its_reset():
    envs = to_gymnasium_vector(SyncVecEnv(fns(script({**OWN, "k": 5}, ends="term"))))
    envs.reset()
    infos = envs.step(np.zeros(1, int))[-1]
    assert (infos["final_obs"].tolist(), infos["reset_info"].tolist(), infos["k"].tolist()) == ([3], [4], [5])


def test_columns_named_like_gymnasium_s_keys_do_not_replace_these():
    named = {"final_info": 1.0, "final_obs": 2.0}
    envs = to_gymnasium_vector(NativeToy([script(*[named] * n, ends="term") for n in (1, 2)]))
    envs.reset()
    infos = envs.step(np.zeros(2, int))[-1]
    assert infos["final_info"]["final_info"].tolist() == [1.0, 0.0]
    assert infos["final_obs"][0].tolist() == [0.0]


class Marks(VecWrapper):
    """Writes into the info of sub-env 1, as a user's wrapper may."""

    def _after_step(self, result, frozen):
        result.infos[1]["mark"] = 5.0
        return result


def test_what_a_wrapper_writes_into_a_dict_is_not_lost():
    scripts = [script(*[{"cash": 2.0}] * n, ends="term") for n in (1, 2, 3)]
    envs = to_gymnasium_vector(Marks(NativeToy(scripts)))
    envs.reset()
    for ended in ([True, False, False], [True, True, False]):
        infos = envs.step(np.zeros(3, int))[-1]
        assert infos["mark"].tolist() == [0.0, 5.0, 0.0]
        assert infos["_mark"].tolist() == [False, True, False]
        assert infos["_final_obs"].tolist() == ended


# -- no dict of a sub-env ----------------------------------------------------------------------------------


@each_market
@pytest.mark.parametrize("wrapper", [lambda vec: vec, VecRecordEpisodeStatistics, VecNormalizeObservation])
def test_no_dict_of_a_sub_env_is_built_for_a_native_market(market, wrapper, monkeypatch):
    envs = to_gymnasium_vector(wrapper(sekai.make_vec(market, 6, max_episode_steps=3)))
    vec = envs.vec

    def build(column, row):
        raise AssertionError("a dict was built")

    # What turns a row of a column into a value of a dict, in the list itself and for the rows that ended.
    monkeypatch.setattr("sekai.batching.info_list.column_item", build)
    monkeypatch.setattr("sekai.batching.episodes.column_item", build)
    infos = envs.reset(seed=1)[1]
    for _ in range(7):
        infos |= envs.step(envs.action_space.sample())[-1]
    told = "shortfall" if market == "OptimalExecution-v0" else "wealth"
    assert {"final_obs", "final_info", told, f"_{told}"} <= infos.keys()
    with pytest.raises(AssertionError, match="a dict was built"):
        vec.step(Z(vec)).infos[0]


def test_what_is_returned_is_the_caller_s():
    vec, twin = (sekai.make_vec("MarketMaking-v0", 5, n_steps=4) for _ in range(2))
    envs = to_gymnasium_vector(vec)
    envs.reset(seed=1)
    twin.reset(seed=1)
    for _ in range(9):
        actions = np.full((5, 2), 0.5, np.float32)
        expected = twin.step(actions)
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        assert_same(
            (expected.observations, expected.rewards, expected.terminated), (observations, rewards, terminations)
        )
        for array in (observations, rewards, terminations, truncations, infos["wealth"], infos["inventory"]):
            array[...] = 1  # must not reach the simulation, nor fail


class Counts(sekai.NativeVecEnv):
    """Many sub-envs that end after 1, 2 or 3 steps; the count is state, info and read-only."""

    def __init__(self, num_envs):
        super().__init__(num_envs, BOX1, sekai.Discrete(2))
        self.count = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.count = self.count.copy()
        self.count[indices] = 0

    def _reset_infos(self, indices):
        return {"count": self.count[indices]}

    def _observe(self):
        return self.count[:, None]

    def _step(self, actions):
        self.count = self.count + 1
        self.count.flags.writeable = False
        never = np.zeros(self.num_envs, dtype=bool)
        return (
            self.count,
            self.count > np.arange(self.num_envs) % 3,
            never,
            {"count": self.count, "next": self.count + 1},
        )


def test_large_batches_reuse_memory_only_once_nobody_holds_it():
    n = 5000
    envs, twin = to_gymnasium_vector(Counts(n)), to_gymnasium_vector(Counts(n))
    actions = np.zeros(n, int)
    envs.reset()
    twin.reset()
    kept = [envs.step(actions)[-1] for _ in range(9)]
    for k, infos in enumerate(kept):
        assert_same(twin.step(actions)[-1], infos, f"step {k}")
        assert infos["final_info"]["count"].max() <= 3
        assert infos["count"].flags.writeable


# -- the contract of gymnasium's VectorEnv -----------------------------------------------------------------


def test_it_is_a_real_vector_env():
    envs = to_gymnasium_vector(NativeToy([T(2)] * 3))
    assert isinstance(envs, VectorEnv) and type(envs) is GymnasiumVectorEnv
    assert envs.unwrapped is envs
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.num_envs == 3
    assert envs.single_observation_space == gym_spaces.Box(-INF, INF, (1,), np.float64)
    assert envs.observation_space == gym_spaces.Box(-INF, INF, (3, 1), np.float64)
    assert envs.single_action_space == gym_spaces.Discrete(2)
    assert envs.action_space == gym_spaces.MultiDiscrete([2, 2, 2])
    assert envs.render_mode is None and envs.render() is None
    assert envs.spec is None
    assert "num_envs=3" in repr(envs)


def test_an_attribute_that_workers_lack_is_an_attribute_error():
    with ProcVecEnv([Draws] * 2) as vec:
        envs = to_gymnasium_vector(vec)
        for ask in (envs.get_attr, envs.call, lambda name: envs.set_attr(name, 1)):
            with pytest.raises(AttributeError, match="absent"):
                ask("absent")


@pytest.mark.parametrize("kind", [SyncVecEnv, ProcVecEnv])
def test_e3_what_the_sub_envs_draw_is_drawn(kind):
    with kind([Draughtsman] * 2) as vec:
        envs, theirs = to_gymnasium_vector(vec), gymnasium_s_own(Draughtsman(), Draughtsman())
        assert envs.render_mode == theirs.render_mode == "rgb_array"
        assert envs.metadata == theirs.metadata
        for each in (envs, theirs):
            each.reset()
            each.step(np.zeros(2, int))
        assert_same(theirs.render(), envs.render())


@each_market
def test_gymnasium_s_vector_wrappers_run_over_a_market(market):
    def build():
        return to_gymnasium_vector(sekai.make_vec(market, 4, max_episode_steps=5))

    single = gymnasium.wrappers
    same_step = {
        "DictInfoToList": {},
        "RecordEpisodeStatistics": {},
        "TransformAction": {"func": lambda actions: actions},
        "TransformReward": {"func": lambda rewards: 2 * rewards},
        "ClipReward": {"min_reward": -0.5, "max_reward": 0.5},
        "NormalizeReward": {},
        "VectorizeTransformReward": {"wrapper": single.ClipReward, "min_reward": -1, "max_reward": 1},
    }
    boxes = {
        "ClipAction": {},
        "VectorizeTransformAction": {"wrapper": single.ClipAction},
    }
    if isinstance(build().single_action_space, gym_spaces.Box):
        same_step |= boxes
    for name, arguments in same_step.items():
        envs = getattr(gym_vector_wrappers, name)(build(), **arguments)
        observations, _ = envs.reset(seed=0)
        envs.action_space.seed(0)
        for _ in range(12):
            observations, rewards, terminations, truncations, _ = envs.step(envs.action_space.sample())
            assert observations in envs.observation_space, name
            assert np.isfinite(rewards).all(), name
            assert terminations.dtype == truncations.dtype == np.bool_, name
        envs.close()


def test_rescaled_actions_reach_the_sub_envs():
    toys = [Toy([([1.0], 1.0, False, False, {})], act=Box(0, 10, (2,), np.float64)) for _ in range(2)]
    envs = to_gymnasium_vector(SyncVecEnv([lambda toy=toy: toy for toy in toys]))
    scaled = gym_vector_wrappers.RescaleAction(envs, -1.0, 1.0)
    scaled.reset()
    scaled.step(np.array([[0, 1], [-1, 0]]))
    assert [toy.last_action.tolist() for toy in toys] == [[5, 10], [0, 5]]


@each_market
@pytest.mark.parametrize("name", ["NormalizeObservation", "FlattenObservation"])
def test_gymnasium_s_observation_wrappers_refuse_same_step_autoreset(market, name):
    envs = to_gymnasium_vector(sekai.make_vec(market, 2))
    with pytest.raises(ValueError, match="Expected autoreset_mode to be NEXT_STEP or DISABLED, got .*SAME_STEP"):
        getattr(gym_vector_wrappers, name)(envs)
    sekai_s = to_gymnasium_vector(VecNormalizeObservation(sekai.make_vec(market, 2, max_episode_steps=2)))
    sekai_s.reset(seed=0)
    sekai_s.step(sekai_s.action_space.sample())
    infos = sekai_s.step(sekai_s.action_space.sample())[-1]
    assert all(final in sekai_s.single_observation_space for final in infos["final_obs"])


@each_market
def test_gymnasium_s_statistics_are_sekai_s(market):
    ours = VecRecordEpisodeStatistics(sekai.make_vec(market, 4, max_episode_steps=5))
    theirs = gym_vector_wrappers.RecordEpisodeStatistics(
        to_gymnasium_vector(sekai.make_vec(market, 4, max_episode_steps=5))
    )
    ours.reset(seed=3)
    theirs.reset(seed=3)
    ended = 0
    for _ in range(17):
        actions = Z(ours)
        infos, arrays = ours.step(actions).infos, theirs.step(actions)[-1]
        for row, info in enumerate(infos):
            if "episode" in info:
                ended += 1
                assert arrays["_episode"][row]
                assert arrays["episode"]["l"][row] == info["episode"].episode_length
                np.testing.assert_allclose(arrays["episode"]["r"][row], info["episode"].episode_return)
    assert ended == 12


def test_seeds_are_sekai_s():
    vec, twin = SyncVecEnv([Draws] * 3), SyncVecEnv([Draws] * 3)
    envs = to_gymnasium_vector(vec)
    assert envs.np_random_seed == (-1, -1, -1)
    for seed in (5, [1, None, 3], (4, 5, 6), None):
        assert_same(twin.reset(seed=seed).observations, envs.reset(seed=seed)[0])
    assert envs.np_random_seed == (4, 5, 6)
    envs.reset(seed=[1, None, 3])
    assert envs.np_random_seed == (1, -1, 3)
    assert envs.np_random == tuple(env.rng for env in vec.envs)
    with pytest.raises(ValueError, match=r"reset\(seed=...\): expected 3 seeds \(num_envs\), got 2"):
        envs.reset(seed=[1, 2])
    assert envs.np_random_seed == (1, -1, 3)


def test_options_reach_the_sub_envs():
    vec = SyncVecEnv(fns(T(1), T(1)))
    envs = to_gymnasium_vector(vec)
    envs.reset(options={"a": 1})
    assert vec.get_attr("last_options") == [{"a": 1}] * 2
    envs.reset(options={"a": 2, "reset_mask": np.ones(2, bool)})
    assert vec.get_attr("last_options") == [{"a": 2}] * 2
    envs.reset(options={"a": 3, "reset_mask": np.array([True, False])})
    assert vec.get_attr("last_options") == [{"a": 3}, {"a": 2}]


def test_attributes_are_the_sub_envs():
    vec = SyncVecEnv(fns(T(3), T(3)))
    envs = to_gymnasium_vector(vec)
    envs.reset()
    envs.step(np.zeros(2, int))
    assert envs.get_attr("k") == (1, 1)
    assert envs.call("add", 1, b=2) == (4, 4)
    envs.set_attr("k", (0, 1))
    assert vec.get_attr("k") == [0, 1]
    envs.set_attr("k", [1, 2])
    assert vec.get_attr("k") == [1, 2]
    envs.set_attr("k", 0)
    assert vec.get_attr("k") == [0, 0]
    with pytest.raises(AttributeError, match="nothing"):
        envs.get_attr("nothing")


OPEN = Box(0, INF, (2,), np.int64)
COUNTS = MaskedBox(0, INF, (), max_size=2, dtype=np.int64, fill_value=0)


@pytest.mark.parametrize(
    "space", [OPEN, COUNTS, Sequence(OPEN), sekai.Dict(a=sekai.Tuple((OPEN, COUNTS))), sekai.Tuple((COUNTS,))], ids=repr
)
def test_actions_drawn_from_the_batch_reach_the_sub_envs(space):
    """Integers without a bound among them, of which gymnasium's own batch cannot be drawn."""
    toys = [Toy(T(3), act=space) for _ in range(3)]
    for envs in (to_gymnasium_vector(SyncVecEnv([lambda toy=toy: toy for toy in toys])), gymnasium_s_own(*toys)):
        envs.action_space.seed(0)
        envs.reset()
        for _ in range(3):
            actions = envs.action_space.sample()
            assert actions in envs.action_space
            envs.step(actions)
            assert all(toy.last_action in space for toy in toys)


def test_close_closes_the_vector_environment_and_going_out_of_scope_does_not():
    vec = SyncVecEnv(fns(T(1)))
    envs = to_gymnasium_vector(vec)
    del envs
    gc.collect()
    assert not vec.closed
    envs = to_gymnasium_vector(vec)
    envs.close()
    envs.close()
    assert vec.closed and envs.closed
    with pytest.raises(sekai.VecEnvClosed):
        envs.reset()


def test_batches_without_a_fixed_layout_are_tuples():
    trades, book = Sequence(Box(0, 1, (1,)), max_length=2), MaskedBox(0.0, 9.0, (2,), max_size=3)
    space = sekai.Dict(trades=trades, cash=BOX1)
    row = {"trades": ([0.5],), "cash": [1.0]}
    toys = fns(*[[(row, 0.0, True, False, {})]] * 2, obs=space, act=book, r0={"trades": (), "cash": [0.0]})
    envs = to_gymnasium_vector(SyncVecEnv(toys))
    observations, _ = envs.reset()
    assert observations["trades"] == ((), ())
    assert observations in envs.observation_space
    actions = envs.action_space.sample()
    observations, *_, infos = envs.step(actions)
    assert observations in envs.observation_space
    assert infos["final_obs"][0] in envs.single_observation_space
    assert all(action in book for action in envs.call("last_action"))


def test_only_a_vec_env_with_autoreset_is_taken():
    for wrong in (Draws(), to_gymnasium(Draws()), None):
        with pytest.raises(TypeError, match=r"to_gymnasium_vector: expected a sekai.VecEnv \(for an Env: .*\), got"):
            to_gymnasium_vector(wrong)
    with pytest.raises(ValueError, match="to_gymnasium_vector.*: expected autoreset=True, got <SyncVecEnv num_envs=1>"):
        to_gymnasium_vector(SyncVecEnv(fns(T(1)), autoreset=False))


def test_sub_envs_on_an_event_loop():
    with AsyncVecEnv([Draws] * 2) as vec:
        assert_alike(gymnasium_s_own(Draws(), Draws()), to_gymnasium_vector(vec), seed=[1, 2])


@pytest.mark.parametrize(
    "build", [lambda: sekai.SyncVecEnv([Corridor] * 2), lambda: CorridorVec(2)], ids=["sync", "native"]
)
def test_action_masks_as_a_sync_vector_env_gives_them(build):
    envs = to_gymnasium_vector(build())
    theirs = SyncVectorEnv([lambda: to_gymnasium(Corridor())] * 2)
    envs.reset(seed=[1, 2])
    theirs.reset(seed=[1, 2])
    for env, position in zip(theirs.envs, envs.vec.get_attr("position"), strict=True):
        env.unwrapped.sekai_env.position = position
    for actions in ([1, 1], [2, 0], [2, 0]):
        allowed = envs.action_masks()[[0, 1], actions]
        actions = np.where(allowed, actions, 1)
        envs.step(actions)
        theirs.step(actions)
        assert_same(envs.call("action_masks"), theirs.call("action_masks"))
        assert_same(envs.action_masks(), np.stack(theirs.call("action_masks")))


def test_there_are_no_action_masks_where_there_is_no_flat_form():
    for vec in (sekai.SyncVecEnv([Combined]), sekai.SyncVecEnv([lambda: Toy(T(3))]), sekai.make_vec("MarketMaking-v0")):
        envs = to_gymnasium_vector(vec)
        with pytest.raises(AttributeError, match="action_masks"):
            envs.action_masks()
        with pytest.raises(AttributeError, match="action_masks"):
            envs.call("action_masks")
