"""The mask of quotes leaves out just what the inventory limit of ``MarketMaking-v0`` makes it ignore."""

from __future__ import annotations

import numpy as np
import pytest

import sekai
from sekai.kernels import jit
from sekai.spaces import Box, Discrete
from sekai.vector.random_actions import random_actions
from sims.market_making import MarketMakingVecEnv
from sims.prices import MertonJumps

N, LIMIT = 16, 2
#: Orders that come often enough for inventories to reach their limits.
BUSY = {"arrival_rate": 40.0, "fill_decay": 1.0, "n_steps": 40, "max_inventory": LIMIT}
#: At these distances an order fills for sure, and never.
SURE, NEVER = -5.0, 1e4

form = pytest.mark.form  # what compiles a choice of the market that no other test has


def allowed_by(inventory, limit=LIMIT):
    """What the mask has to be, from what is held."""
    return np.stack([inventory < limit, inventory > -limit], axis=-1)


def random_steps(vec, steps, seed=1):
    """The masks before each of some steps of random actions that they allow, and the step."""
    rng = np.random.default_rng(0)
    vec.reset(seed=seed)
    for _ in range(steps):
        masks = vec.action_mask()
        actions = random_actions(vec, rng)
        assert (actions[masks == 0] == 0.0).all() and (actions[masks == 1] != 0.0).all()
        yield masks, vec.step(actions)


def everything(vec, result):
    """All that a step returns and leaves, row by row."""
    infos = result.infos.columns
    shown = (result.observations, result.rewards, result.terminated, result.truncated, *infos.values())
    return [np.array(each) for each in (*shown, vec.action_mask(), vec.wealth, vec.inventory, vec.cash)]


def differing(one, other):
    """In which rows anything differs."""
    return np.any([(a != b).reshape(N, -1).any(axis=1) for a, b in zip(one, other, strict=True)], axis=0)


def test_the_side_at_its_limit_is_left_out():
    vec = MarketMakingVecEnv(N, **BUSY)
    assert vec.has_action_mask and vec.action_space == Box(-np.inf, np.inf, (2,), np.float32)
    held, left_out = np.zeros(N), np.zeros(2, int)
    for masks, result in random_steps(vec, 2 * 40 + 5):
        assert masks.dtype == np.int8 and masks.shape == (N, 2)
        assert (masks == allowed_by(held)).all()
        left_out += (masks == 0).sum(axis=0)
        held = np.where(result.truncated, 0.0, result.infos.columns["inventory"])
    assert (left_out > 40).all() and (left_out < 40 * N).all()  # of 85 N


def test_frozen_sub_envs_show_the_mask_of_their_end():
    vec = MarketMakingVecEnv(N, autoreset=False, **BUSY | {"n_steps": 9})
    vec.reset(seed=0)
    for _ in range(9):
        result = vec.step(np.full((N, 2), (SURE, NEVER), np.float32))
    assert vec.frozen.all() and (result.infos.columns["inventory"] == LIMIT).all()
    assert (vec.action_mask() == [0, 1]).all()
    assert (random_actions(vec, np.random.default_rng(0)) != 0.0).all()  # theirs are ignored, and may be any
    begun = vec.reset_envs([2, 5])
    assert (begun.observations[:, 0] == 0.0).all() and vec.action_mask()[[2, 5]].all()


@pytest.mark.parametrize("mode", ["sync", "native"])
def test_one_env_has_the_masks_of_its_row(mode):
    with sekai.make_vec("MarketMaking-v0", 3, vectorization_mode=mode, **BUSY) as vec:
        env = sekai.make("MarketMaking-v0", **BUSY)
        assert env.has_action_mask and vec.has_action_mask
        env.reset(seed=8)
        vec.reset(seed=[7, 8, 9])
        seen = set()
        for action in np.float32([(SURE, NEVER)] * 4 + [(NEVER, SURE)] * 6 + [(SURE, SURE)] * 2):
            mask = env.action_mask()
            assert mask.dtype == np.int8 and mask.shape == (2,)
            assert (mask == vec.action_mask()[1]).all()
            assert (env.action_space.sample(mask)[mask == 0] == 0.0).all()
            seen.add(tuple(mask.tolist()))
            result = env.step(action)
            vec.step(np.tile(action, (3, 1)))
            assert (env.action_mask() == allowed_by(result.info["inventory"])).all()
        assert seen == {(1, 1), (0, 1), (1, 0)}


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"fill_rule": "exact", "observe": "full", "reward": "running_penalty"}, id="exact", marks=form),
        pytest.param({"midprice": MertonJumps(volatility=0.02, jump_rate=5.0)}, id="model", marks=form),
        pytest.param({"clip_quotes": True, "tell_quotes": False}, id="clipped", marks=form),
    ],
)
def test_just_what_the_mask_leaves_out_changes_nothing(params):
    """Of either side, a quote that is left out may be any; one that is not decides what comes."""
    vec = MarketMakingVecEnv(N, **BUSY | params)
    compared = np.zeros(2, int)
    for step, (masks, _) in enumerate(random_steps(vec, 36)):
        if step % 4:
            continue
        snapshot, masks = vec.snapshot(), vec.action_mask()
        actions = np.full((N, 2), 0.25, np.float32)
        for side in range(2):
            outcomes = []
            for quote in (SURE, NEVER, -1e30, 3e38):
                vec.restore(snapshot)
                assert (vec.action_mask() == masks).all()
                actions[:, side] = quote
                with np.errstate(all="ignore"):  # NumPy's scalars stand in for compiled code under NUMBA_DISABLE_JIT
                    shown = everything(vec, vec.step(actions))
                    actions[:, side] = 0.25
                    outcomes.append([*shown, *everything(vec, vec.step(actions))])
            left_out = masks[:, side] == 0
            for other in outcomes[1:]:
                assert not differing(outcomes[0], other)[left_out].any()
            assert differing(outcomes[0], outcomes[1])[~left_out].all()
            compared[side] += left_out.sum()
        vec.restore(snapshot)
    assert (compared > 5).all()


def test_a_limit_of_none_leaves_nothing_out():
    vec = MarketMakingVecEnv(2, max_inventory=None)
    assert not vec.has_action_mask and vec.action_mask() is None
    assert random_actions(vec, np.random.default_rng(0)).shape == (2, 2)
    with pytest.raises(ValueError, match=r"VecActionMaskObservation: expected a VecEnv with an action_mask\(\)"):
        sekai.VecActionMaskObservation(vec)
    env = sekai.make("MarketMaking-v0", max_inventory=None)
    assert not env.has_action_mask and env.action_mask() is None


def test_masks_beside_the_observations():
    vec, plain = sekai.VecActionMaskObservation(MarketMakingVecEnv(N, **BUSY)), MarketMakingVecEnv(N, **BUSY)
    vec.reset(seed=3)
    plain.reset(seed=3)
    for actions in np.random.default_rng(0).normal(size=(41, N, 2)).astype(np.float32):
        shown, expected = vec.step(actions).observations, plain.step(actions).observations
        assert (shown["observation"] == expected).all()
        assert (shown["action_mask"] == allowed_by(LIMIT * expected[:, 0])).all()
    alone = sekai.ActionMaskObservation(sekai.make("MarketMaking-v0", **BUSY))
    assert alone.reset(seed=3).observation["action_mask"].tolist() == [1, 1]
    assert alone.observation_space["action_mask"] == Box(0, 1, (2,), np.int8)


@jit
def step_of_five(state, i, action):
    state.inventory[i] += action - 2
    return 0.0, False, False


def test_a_subclass_with_other_actions_has_no_mask_of_quotes():
    kind = type("Five", (MarketMakingVecEnv,), {"action_space": Discrete(5), "step_row": step_of_five})
    vec = kind(2, **BUSY)
    vec.reset(seed=0)
    assert not vec.has_action_mask and vec.action_mask() is None


@pytest.mark.parametrize(
    ("wrap", "hands_on"),
    [
        pytest.param(sekai.ClipAction, True, id="clipped"),
        pytest.param(lambda env: sekai.RepeatAction(env, 3), False, id="repeated"),
        pytest.param(lambda env: sekai.DelayAction(env, 1), False, id="late"),
        pytest.param(lambda env: sekai.StickyAction(env, 0.5), False, id="sticky"),
    ],
)
def test_wrappers_hand_the_mask_on_where_the_next_step_takes_what_is_chosen(wrap, hands_on):
    env = wrap(sekai.make("MarketMaking-v0", **BUSY))
    env.reset(seed=0)
    for _ in range(4):
        result = env.step(np.float32([SURE, NEVER]))
    assert env.has_action_mask == hands_on
    if hands_on:
        assert result.info["inventory"] == LIMIT and env.action_mask().tolist() == [0, 1]
    else:
        with pytest.raises(NotImplementedError, match=r"action_mask\(\): expected one of the actions that it takes"):
            env.action_mask()
    assert sekai.check_env(env) == []


@pytest.mark.parametrize(
    "wrap",
    [lambda vec: sekai.VecDelayAction(vec, 1), lambda vec: sekai.VecStickyAction(vec, 0.5)],
    ids=["late", "sticky"],
)
def test_nor_is_there_one_of_a_batch_of_late_or_sticky_quotes(wrap):
    vec = wrap(MarketMakingVecEnv(N, **BUSY))
    vec.reset(seed=0)
    for _ in range(4):
        vec.step(np.full((N, 2), (SURE, NEVER), np.float32))
    assert (vec.unwrapped.action_mask()[:, 0] == 0).any() and not vec.has_action_mask
    assert (random_actions(vec, np.random.default_rng(0)) != 0.0).all()
