from __future__ import annotations

import numpy as np
import pytest
import torch
from masked_envs import Combined, Corridor, CorridorVec
from spaces_catalogue import CATALOGUE
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Categorical, MultiCategorical, Unbounded
from torchrl.envs import ActionMask, EnvBase, GymWrapper, RewardSum, SerialEnv, StepCounter, TransformedEnv
from torchrl.envs.utils import check_env_specs
from toys import BOX1, INF, Draws, NCount, T, Toy, fns
from vector.backends import assert_same, everywhere, make, scripted
from without_library import error_of_import

import sekai
from sekai import (
    Box,
    Dict,
    Discrete,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    SyncVecEnv,
    Tuple,
    VecRecordEpisodeStatistics,
    VecStickyAction,
    VecWrapper,
)
from sekai.batching import layout
from sekai.compat.gymnasium import to_gymnasium
from sekai.compat.torchrl import SekaiTorchRLEnv, to_spec
from sims.market_making import MarketMakingVecEnv

FIXED = {name: space for name, space in CATALOGUE.items() if layout.has_fixed_layout(space)}
FLAGS = "done", "terminated", "truncated"


def column(tensor):
    return tensor.squeeze(-1).tolist()


# -- the specs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["MarketMaking-v0", "Trading-v0"])
def test_torchrl_s_own_check_passes(name):
    env = SekaiTorchRLEnv(sekai.make_vec(name, 4, max_episode_steps=2))
    assert isinstance(env, EnvBase) and env.batch_size == (4,)
    check_env_specs(env, seed=0)


def test_its_repr_shows_the_vec():
    env = SekaiTorchRLEnv(NCount([2, 3]))
    assert repr(env) == "<SekaiTorchRLEnv <NCount num_envs=2> on cpu>"
    assert repr(env) in repr(TransformedEnv(env, RewardSum()))


@everywhere
def test_torchrl_s_own_check_passes_on_every_backend(backend):
    with scripted(backend, T(2), T(3)) as vec:
        check_env_specs(SekaiTorchRLEnv(vec))


NESTED = Dict(a=BOX1, b=Tuple((Discrete(3), MultiBinary(2))), c=MaskedBox(0.0, 1.0, (), max_size=2))


@pytest.mark.parametrize(
    "action",
    [Discrete(3), Discrete(3, start=-1), Box(-1.0, 1.0, (2,)), MultiDiscrete([2, 3]), MultiBinary(2)]
    + [Dict(side=Discrete(2), legs=Tuple((Box(0.0, 1.0, ()), MultiDiscrete([[2], [3]]))))],
    ids=lambda space: type(space).__name__,
)
def test_torchrl_s_own_check_passes_for_nested_observations_and_actions_of_every_kind(action):
    NESTED.seed(0)
    rows = [(NESTED.sample(), 1.0, k == 4, False, {}) for k in range(5)]
    vec = scripted("native", rows, rows[2:], obs=NESTED, act=action, r0=NESTED.sample())
    check_env_specs(SekaiTorchRLEnv(vec), seed=0)


@pytest.mark.parametrize("name", sorted(FIXED.keys() - {"box-uint64"}))  # which is refused
def test_the_spec_of_a_space_holds_its_batches(name):
    space = FIXED[name]
    space.seed(0)
    vec = scripted("native", [(space.sample(), 0.0, True, False, {})], obs=space, r0=space.sample())
    env = SekaiTorchRLEnv(vec)
    first = env.reset()
    assert env.observation_spec.is_in(first.select("observation"))
    assert env.observation_spec.is_in(env.rand_step(first)["next"].select("observation"))


@pytest.mark.parametrize(
    "space, spec",
    [
        (Discrete(3), Categorical(3, shape=(2,))),
        (Discrete(3, start=-1), Bounded(-1, 1, shape=(2,), dtype=torch.int64)),
        (MultiDiscrete([2, 3]), MultiCategorical([2, 3], shape=(2, 2), remove_singleton=False)),
        (MultiBinary(3), Binary(shape=(2, 3), dtype=torch.int8)),
        (Box(-1.0, 1.0, (3,)), Bounded(-1.0, 1.0, shape=(2, 3), dtype=torch.float32)),
        (Box(-INF, INF, (3,), np.float64), Unbounded((2, 3), dtype=torch.float64)),
    ],
    ids=str,
)
def test_specs(space, spec):
    assert to_spec(space, 2) == spec


def test_a_spec_says_where_bounds_are():
    spec = to_spec(Box(np.float32([0.0, -INF]), np.float32([INF, 1.0])), 2)
    inside, outside = torch.tensor([[1e9, -1e9]] * 2), torch.tensor([[1.0, 2.0]] * 2)
    assert spec.is_in(inside) and not spec.is_in(outside)


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "low, high, mean, sd",
    [
        ([0.0, -INF], [INF, 1.0], [1.0, 0.0], [1.0, 1.0]),
        ([-INF, -1.0, 2.0], [INF, 1.0, INF], [0.0, 0.0, 3.0], [1.0, 3**-0.5, 1.0]),
    ],
)
def test_numbers_without_both_bounds_are_drawn_as_a_box_draws_them(dtype, low, high, mean, sd):
    space = Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)
    spec = to_spec(space, 4)
    torch.manual_seed(0)
    for each in (spec, spec.clone(), spec.to("cpu"), spec.expand(2, *spec.shape), spec[0]):
        drawn = each.rand((2000,))
        assert drawn.shape == (2000, *each.shape) and each.is_in(drawn)
        drawn = drawn.reshape(-1, len(low)).numpy()
        assert drawn.dtype == dtype and all(row in space for row in drawn[:99])
        drawn = drawn.astype(np.float64)
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.1)
        np.testing.assert_allclose(drawn.std(axis=0), sd, atol=0.1)
    assert spec.rand().shape == spec.shape
    moved = spec.to(torch.float64)
    assert moved.dtype == torch.float64 and torch.isfinite(moved.rand((99,))).all()


def test_numbers_between_bounds_far_apart_are_drawn():
    drawn = to_spec(Box(-LARGEST, LARGEST, (2,)), 3).rand((2000,))
    assert torch.isfinite(drawn).all()
    assert 0.4 < float((drawn.abs() < LARGEST / 2).double().mean()) < 0.6


@pytest.mark.parametrize("action", [Box(0.0, INF, (2,)), Box(-INF, 0.0, ())], ids=repr)
def test_random_actions_are_elements_of_the_space(action):
    env = TransformedEnv(SekaiTorchRLEnv(scripted("native", T(5), T(3), act=action)), RewardSum())
    check_env_specs(env, seed=0)
    rollout = env.rollout(9, break_when_any_done=False)
    assert all(drawn in action for drawn in rollout["action"].flatten(0, 1).numpy())


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_dtypes_that_torch_does_not_compare_are_refused(dtype):
    for space in (Box(0, 9, (2,), dtype), MultiDiscrete([2, 3], dtype), MaskedBox(0, 9, (), max_size=2, dtype=dtype)):
        with pytest.raises(TypeError, match=f"expected a dtype whose numbers PyTorch compares, got {dtype.__name__}"):
            SekaiTorchRLEnv(scripted("native", T(3), act=Dict(a=space)))


# -- episodes ----------------------------------------------------------------------------------------------


def plain_steps(vec, actions, seed):
    """What TorchRL should see of some steps: each observation, what it led to, reward and flags."""
    observations = vec.reset(seed=seed).observations
    for action in actions:
        result = vec.step(action)
        led_to = result.observations.copy()
        for row, info in enumerate(result.infos):
            led_to[row] = info.get("final_observation", led_to[row])
        yield observations, led_to, result.rewards, result.dones, result.terminated, result.truncated
        observations = result.observations


def assert_same_steps(vec, rollout, seed=0):
    """A rollout, steps along the last axis but one, is what the plain VecEnv does with its actions."""
    steps = rollout.unbind(-1) if rollout.ndim == 2 else rollout
    expected = plain_steps(vec, [step["action"].numpy() for step in steps], seed)
    ends = 0
    for step, (observations, led_to, rewards, *flags) in zip(steps, expected, strict=True):
        assert_same(observations, step["observation"].numpy())
        assert_same(led_to, step["next", "observation"].numpy())
        assert_same(rewards.astype(np.float32), step["next", "reward"].squeeze(-1).numpy())
        for name, flag in zip(FLAGS, flags, strict=True):
            assert_same(flag, step["next", name].squeeze(-1).numpy())
            assert not step[name].any()  # every step begins in an episode that goes on
        ends += flags[0].sum()
    return ends


@everywhere
def test_rollouts_are_what_the_vec_env_does(backend):
    cut_off = [([float(k)], 0.25 * k, False, k == 4, {}) for k in range(1, 5)]
    scripts = T(2), cut_off, T(3), T(2)
    with scripted(backend, *scripts) as vec, scripted(backend, *scripts) as plain:
        env = SekaiTorchRLEnv(vec)
        env.set_seed(0)
        rollout = env.rollout(13, break_when_any_done=False)
        assert assert_same_steps(plain, rollout) == 6 + 3 + 4 + 6


@pytest.mark.parametrize("lengths", [[3, 3, 3], [1, 1], [1, 2, 5]])
def test_all_sub_envs_may_end_at_once(lengths):
    def draws():
        return SyncVecEnv([lambda n=n: Draws(n) for n in lengths])

    env = SekaiTorchRLEnv(draws())
    env.set_seed(7)
    rollout = env.rollout(11, break_when_any_done=False)
    assert assert_same_steps(draws(), rollout, seed=7) == sum(11 // n for n in lengths)


@pytest.mark.parametrize("name, kwargs", [("MarketMaking-v0", {"n_steps": 5}), ("Trading-v0", {})])
def test_rollouts_of_markets(name, kwargs):
    vec, plain = (sekai.make_vec(name, 6, max_episode_steps=4, **kwargs) for _ in range(2))
    env = SekaiTorchRLEnv(vec)
    env.set_seed(3)
    assert assert_same_steps(plain, env.rollout(10, break_when_any_done=False), seed=3) == 6 * 2


@pytest.mark.filterwarnings("ignore:Creating .*WeightUpdater:DeprecationWarning")  # TorchRL warns of itself
def test_collectors_see_the_same_episodes():
    from torchrl.collectors import Collector

    env = SekaiTorchRLEnv(SyncVecEnv([lambda n=n: Draws(n) for n in (2, 3)]))
    env.set_seed(1)
    collector = Collector(env, None, frames_per_batch=8, total_frames=40)
    rollout = torch.cat([batch.select("observation", "action", "next", *FLAGS) for batch in collector], dim=-1)
    plain = SyncVecEnv([lambda n=n: Draws(n) for n in (2, 3)])
    assert assert_same_steps(plain, rollout, seed=1) == 20 // 2 + 20 // 3


def test_transforms_go_around_it():
    env = TransformedEnv(SekaiTorchRLEnv(NCount([2, 3])), RewardSum())
    rollout = env.rollout(6, break_when_any_done=False)
    assert column(rollout["next", "episode_reward"]) == [[1, 2, 1, 2, 1, 2], [1, 2, 3, 1, 2, 3]]
    check_env_specs(env)


def test_a_reset_without_a_mask_resets_everything():
    vec = NCount([3, 5])
    env = SekaiTorchRLEnv(vec)
    for _ in range(2):
        rollout = env.rollout(99)  # until the first is done
        assert column(rollout["observation"]) == [[0, 1, 2]] * 2
    assert column(env.reset()["observation"]) == [0, 0]


def test_sub_envs_that_are_done_may_be_reset_one_after_another():
    env = SekaiTorchRLEnv(SyncVecEnv(fns(T(2), T(2), T(9))))
    step = env.rollout(2, break_when_any_done=False)[:, -1]["next"]
    assert column(step["observation"]) == [2, 2, 2]
    for row in range(2):
        mask = torch.zeros(3, 1, dtype=torch.bool)
        mask[row] = True
        step = env.reset(step.set("_reset", mask))
        assert column(step["observation"]) == [[0, 2, 2], [0, 0, 2]][row]
    assert env.vec.get_attr("n_reset") == [2, 2, 1]


def test_a_time_limit_of_torchrl_s_that_ends_all_episodes_resets_everything():
    env = TransformedEnv(SekaiTorchRLEnv(NCount([9, 9])), StepCounter(max_steps=2))
    rollout = env.rollout(5, break_when_any_done=False)
    assert column(rollout["observation"]) == [[0, 1, 0, 1, 0]] * 2


@everywhere
def test_one_that_ends_some_is_what_it_is_to_torchrl_s_own_sub_envs(backend):
    """A SerialEnv over the same environments is the reference."""
    scripts = T(3), T(9), T(5)
    serial = SerialEnv(3, [lambda script=script: GymWrapper(to_gymnasium(Toy(script))) for script in scripts])
    with scripted(backend, *scripts) as vec:
        got, expected = (
            TransformedEnv(env, StepCounter(max_steps=4)).rollout(14, policy=still, break_when_any_done=False)
            for env in (SekaiTorchRLEnv(vec), serial)
        )
        for key in ("observation", "step_count", *FLAGS, ("next", "observation"), ("next", "reward")):
            assert (got[key].squeeze() == expected[key].squeeze()).all(), key
        for flag in FLAGS:
            assert (got["next", flag] == expected["next", flag]).all()
        assert column(got["step_count"][2]) == [0, 1, 2, 3] * 3 + [0, 1]


def still(tensordict):
    return tensordict.set("action", torch.zeros(3, dtype=torch.int64))


def test_sub_envs_in_mid_episode_are_reset_by_themselves():
    vec, twin = (SyncVecEnv([lambda n=n: Draws(n) for n in (2, 9, 9)]) for _ in range(2))
    env = SekaiTorchRLEnv(VecRecordEpisodeStatistics(vec))
    env.set_seed(3)
    step = env.rollout(2, break_when_any_done=False)[:, -1]["next"]
    twin.reset(seed=3)
    for _ in range(2):
        begun = twin.step(np.zeros(3, int)).observations
    mask = torch.tensor([[True], [False], [True]])
    seen = env.reset(step.set("_reset", mask))["observation"]
    late = twin.reset_envs([2]).observations[0]
    assert_same(np.stack([begun[0], begun[1], late]), seen.numpy())
    step = env.step(env.rand_action(env.reset(TensorDict({"_reset": mask}, batch_size=3))))
    assert vec.get_attr("k") == [1, 3, 1]


def test_a_sub_env_that_is_stepped_on_is_in_its_next_episode():
    env = SekaiTorchRLEnv(NCount([2, 5]))
    step = env.reset()
    seen = []
    for _ in range(4):
        step = env.step(step.set("action", torch.zeros(2, dtype=torch.int64)))["next"]
        seen.append(column(step["observation"]))
    assert seen == [[1, 1], [2, 2], [1, 3], [2, 4]]


def test_seeds_and_options():
    env = SekaiTorchRLEnv(SyncVecEnv(fns(T(3), T(3))))
    assert env.set_seed(5, static_seed=True) == 5
    env.reset(options={"a": 1})
    assert env.vec.get_attr("last_seed") == sekai.make_seed_sequence(5, 2)
    assert env.vec.get_attr("last_options") == [{"a": 1}, {"a": 1}]
    env.reset()
    assert env.vec.get_attr("last_seed") == [None, None]


def test_options_of_some_reach_those_alone():
    """The step that ends an episode has begun the next one without them; it begins anew."""
    env = SekaiTorchRLEnv(SyncVecEnv(fns(T(1), T(9), T(9))))
    led_to = env.step(env.rand_action(env.reset()))["next"]
    asked = led_to.set("_reset", torch.tensor([[True], [False], [True]]))
    assert column(env.reset(asked.clone(), options={"a": 1})["observation"]) == [0.0, 1.0, 0.0]
    assert env.vec.get_attr("last_options") == [{"a": 1}, None, {"a": 1}]
    assert env.vec.get_attr("n_reset") == [3, 1, 2]
    env.reset(led_to.set("_reset", torch.ones(3, 1, dtype=torch.bool)), options={"a": 2})
    assert env.vec.get_attr("last_options") == [{"a": 2}] * 3


class OwnReset(VecWrapper):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)


def test_what_resets_all_or_none_is_named():
    env = TransformedEnv(SekaiTorchRLEnv(OwnReset(NCount([3, 9]))), StepCounter(max_steps=4))
    with pytest.raises(NotImplementedError, match=r"OwnReset.reset_envs\(\): it resets all its sub-envs or none"):
        env.rollout(5, break_when_any_done=False)


def test_writing_into_tensors_changes_no_episode():
    env = SekaiTorchRLEnv(NCount([2, 3]))
    step = env.reset()
    for expected in [1, 1], [2, 2], [1, 3], [2, 1]:
        step = env.step(step.set("action", torch.zeros(2, dtype=torch.int64)))["next"]
        assert column(step["observation"]) == expected
        mask = step["done"].clone()
        step["observation"].fill_(99.0)
        if mask.any():
            step = env.reset(TensorDict({**step, "_reset": mask}, batch_size=2))
            assert not step["observation"][mask].any()


# -- beginning and end -------------------------------------------------------------------------------------


def test_close_closes():
    vec = NCount([3])
    SekaiTorchRLEnv(vec).close()
    assert vec.closed


def test_what_it_takes():
    with pytest.raises(TypeError, match="expected a sekai VecEnv, got Toy"):
        SekaiTorchRLEnv(Toy(T(3)))
    with pytest.raises(ValueError, match="expected a VecEnv with autoreset, got one with autoreset=False"):
        SekaiTorchRLEnv(NCount([3], autoreset=False))
    stacks = make("sync", [lambda: Toy(T(3), obs=sekai.Sequence(Discrete(2)))])
    with pytest.raises(TypeError, match="expected a space of fixed shapes, got Sequence"):
        SekaiTorchRLEnv(stacks)


@pytest.mark.parametrize("library", ["torchrl", "tensordict", "torch"])
def test_without_torchrl_the_error_names_the_extra(library):
    error = error_of_import("sekai.compat.torchrl", library)
    assert error == 'ImportError: sekai.compat.torchrl needs TorchRL: pip install ".[torchrl]" in the clone'


# -- action masks ------------------------------------------------------------------------------------------


class Sized(Corridor):
    action_space = MultiDiscrete([3, 2])

    def step(self, action):
        assert action[1] == 1
        return super().step(action[0])

    def action_mask(self):
        return super().action_mask(), [0, 1]


@pytest.mark.parametrize(
    "build",
    [
        lambda: SyncVecEnv([Corridor] * 3),  # which refuses what the mask leaves out
        lambda: SyncVecEnv([Sized] * 3),
        lambda: CorridorVec(3, max_episode_steps=4),
    ],
    ids=["sync", "several choices", "native"],
)
def test_random_actions_are_those_that_the_mask_allows(build):
    vec = build()
    env = TransformedEnv(SekaiTorchRLEnv(vec), ActionMask())
    env.set_seed(0)
    torch.manual_seed(0)
    rollout = env.rollout(20, break_when_any_done=False)
    masks, positions = rollout["action_mask"].numpy(), rollout["observation"].numpy()[..., 0]
    assert masks.dtype == np.bool_ and masks.shape == (3, 20, 5 if vec.action_space.shape else 3)
    assert (masks[..., :3] == np.stack([positions > -2, positions < 3, positions < 2], axis=-1)).all()
    ends = rollout["next", "done"].numpy()[..., 0]
    assert ends.sum() == 15 and rollout["next", "action_mask"].numpy()[ends].all()


class Choosy(Toy):
    """Two masks in turn; an action that the mask leaves out is refused."""

    def __init__(self, space, turns, begin):
        super().__init__(T(4), act=space)
        self.turns, self.at = turns, begin

    def action_mask(self):
        return self.turns[self.at % 2][0]

    def step(self, action):
        if action.tolist() not in self.turns[self.at % 2][2]:
            raise sekai.InvalidAction(f"expected what {self.action_mask()} allows, got {action}")
        self.at += 1
        return super().step(action)


def choosy(space, turns):
    return SekaiTorchRLEnv(SyncVecEnv([lambda begin=begin: Choosy(space, turns, begin) for begin in (0, 1, 0)]))


#: Of each mask: what Env.action_mask() gives, the row of the entry, the actions that are left.
MASKABLE = [
    (Discrete(3), ([1, 0, 1], [1, 0, 1], [0, 2]), ([0, 1, 0], [0, 1, 0], [1])),
    (
        MultiDiscrete([2, 3], dtype=np.int32),
        (([1, 0], [0, 1, 1]), [1, 0, 0, 1, 1], [[0, 1], [0, 2]]),
        (([1, 1], [1, 0, 0]), [1, 1, 1, 0, 0], [[0, 0], [1, 0]]),
    ),
    (
        MultiBinary(2),
        ([2, 0], [[1, 1], [1, 0]], [[0, 0], [1, 0]]),
        ([1, 2], [[0, 1], [1, 1]], [[1, 0], [1, 1]]),
    ),
    (
        MultiBinary((2, 1)),
        ([[2], [1]], [[[1, 1]], [[0, 1]]], [[[0], [1]], [[1], [1]]]),
        ([[0], [0]], [[[1, 0]], [[1, 0]]], [[[0], [0]]]),
    ),
]


@pytest.mark.parametrize(("space", "first", "second"), MASKABLE, ids=[repr(space) for space, *_ in MASKABLE])
def test_torchrl_masks_the_choices_that_begin_at_0_of_one_axis(space, first, second):
    env = TransformedEnv(choosy(space, (first, second)), ActionMask())
    torch.manual_seed(0)
    rollout = env.rollout(40, break_when_any_done=False)
    for begin, row in enumerate(rollout["action_mask"][:2]):
        assert row.int().tolist() == [first[1], second[1]][:: 1 if begin == 0 else -1] * 20
    for turn, (_, _, left) in enumerate((first, second)):
        taken = torch.cat([rollout["action"][0, turn::2], rollout["action"][1, 1 - turn :: 2]]).tolist()
        assert all(action in taken for action in left)
    check_env_specs(TransformedEnv(choosy(space, (first, first)), ActionMask()), seed=0)


UNMASKABLE = [
    (
        Discrete(3, start=5),
        lambda mask: 5 + mask.int().argmax(-1),
        ([0, 1, 1], [0, 1, 1], [6]),
        ([1, 0, 0], [1, 0, 0], [5]),
    ),
    (
        MultiDiscrete([2, 3], start=[1, 1]),
        lambda mask: 1 + torch.stack([mask[:, :2].int().argmax(-1), mask[:, 2:].int().argmax(-1)], dim=-1),
        (([0, 1], [0, 1, 1]), [0, 1, 0, 1, 1], [[2, 2]]),
        (([1, 0], [0, 0, 1]), [1, 0, 0, 0, 1], [[1, 3]]),
    ),
    (
        MultiDiscrete([[2, 2]]),
        lambda mask: mask.reshape(3, 1, 2, 2).int().argmax(-1),
        ((([0, 1], [1, 0]),), [0, 1, 1, 0], [[[1, 0]]]),
        ((([0, 1], [0, 1]),), [0, 1, 0, 1], [[[1, 1]]]),
    ),
]


@pytest.mark.parametrize(("space", "pick", *"ab"), UNMASKABLE, ids=[repr(space) for space, *_ in UNMASKABLE])
def test_a_policy_reads_the_masks_of_the_other_choices(space, pick, a, b):
    env = choosy(space, (a, b))

    def policy(tensordict):
        return tensordict.set("action", pick(tensordict["action_mask"]))

    rollout = env.rollout(12, policy, break_when_any_done=False)
    assert rollout["action_mask"][0].int().tolist() == [a[1], b[1]] * 6
    assert rollout["action"][0].tolist() == [a[2][0], b[2][0]] * 6
    with pytest.raises(ValueError, match="action spec must be one of"):
        TransformedEnv(env, ActionMask()).rollout(1)


def test_the_spec_of_masks():
    env = SekaiTorchRLEnv(SyncVecEnv([Sized] * 2))
    assert env.observation_spec["action_mask"] == Binary(shape=(2, 5), dtype=torch.bool)
    pairs = choosy(MultiBinary((2, 1)), MASKABLE[-1][1:]).observation_spec["action_mask"]
    assert pairs == Binary(shape=(3, 2, 1, 2), dtype=torch.bool)
    check_env_specs(SekaiTorchRLEnv(CorridorVec(2, max_episode_steps=3)), seed=0)
    # Under sticky actions nobody knows the masks of those that are taken.
    for vec in (SyncVecEnv([Combined]), NCount([3]), VecStickyAction(CorridorVec(2), 0.5), MarketMakingVecEnv(2)):
        env = SekaiTorchRLEnv(vec)
        assert "action_mask" not in env.observation_spec.keys()
        env.reset()
