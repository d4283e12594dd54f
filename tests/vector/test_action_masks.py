"""Masks of actions on every backend, of row markets, and beside batches of observations."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest
from masked_envs import END, Combined, Corridor, CorridorVec
from spaces_catalogue import same
from toys import NCount, T, fns
from vector.backends import make, on_rows, on_rows_once

import sekai
from sekai import (
    Box,
    Dict,
    Discrete,
    KernelVecEnv,
    MultiDiscrete,
    SyncVecEnv,
    VecActionMaskObservation,
    VecWrapper,
    check_vec_env,
)
from sekai.kernels import jit
from sekai.space_utils import batch_space, full_mask, mask_space
from sekai.vector.random_actions import random_actions

SEEDS = [0, 1, 2, 3, 4]


def corridors(backend, kind=Corridor, n=5, **kwargs):
    return make(backend, [kind] * n, **kwargs)


@on_rows
def test_the_masks_of_envs(backend):
    with corridors(backend) as vec:
        assert vec.has_action_mask
        positions = vec.reset(seed=SEEDS).observations[:, 0]
        masks = vec.action_mask()
        assert masks.dtype == np.int8 and masks.shape == (5, 3)
        for _ in range(9):
            assert (masks == np.stack([positions > -END, positions < END + 1, positions < END], axis=1)).all()
            assert [list(mask) for mask in vec.call("action_mask")] == masks.astype(bool).tolist()
            positions = vec.step(vec.batch_action_space.sample(masks)).observations[:, 0]
            masks = vec.action_mask()


@on_rows_once
def test_nested_masks(backend):
    with corridors(backend, Combined) as vec:
        vec.reset(seed=SEEDS)
        masks = vec.action_mask()
        assert batch_space(mask_space(vec.action_space), 5).contains(masks)
        assert masks["size"][1].tolist() == [[0, 1, 1]] * 5


@on_rows_once
def test_there_is_no_mask_before_a_reset_or_after_closing(backend):
    vec = corridors(backend)
    with pytest.raises(sekai.ResetRequired, match=r"action_mask\(\): call reset\(\) first"):
        vec.action_mask()
    vec.close()
    with pytest.raises(sekai.VecEnvClosed, match=r"action_mask\(\)"):
        vec.action_mask()
    with make(backend, fns(T(3), T(3))) as other:
        assert other.action_mask() is None and not other.has_action_mask


class Sometimes(Corridor):
    def action_mask(self):
        return super().action_mask() if self.position == END else None


class Wide(Corridor):
    def action_mask(self):
        return [1, 1, 1, 1] if self.position == END else [1, 1, 1]


def test_where_nothing_is_said_everything_is_allowed():
    vec = corridors("sync", Sometimes, n=2)
    vec.reset(seed=SEEDS[:2])
    vec.set_attr("position", [0, END])
    assert vec.action_mask().tolist() == [[1, 1, 1], [1, 1, 0]]


def test_a_mask_of_another_shape_is_refused_by_name():
    vec = corridors("sync", Wide, n=2)
    vec.reset(seed=SEEDS[:2])
    vec.set_attr("position", [0, END])
    with pytest.raises(ValueError, match=r"action_mask\(\): sub-env 1: expected shape \(3,\), got \(4,\)"):
        vec.action_mask()


# -- native envs -------------------------------------------------------------------------------------------


def test_the_masks_of_a_native_env_are_copies():
    vec = CorridorVec(2)
    with pytest.raises(sekai.ResetRequired, match=r"action_mask\(\)"):
        vec.action_mask()
    vec.reset(seed=0)
    before = vec.action_mask()
    vec.step(np.array([2, 0]))
    vec.step(np.array([2, 0]))
    after = vec.action_mask()
    assert before.dtype == np.int8 and before.tolist() == [[1, 1, 1]] * 2
    assert after.tolist() == [[1, 1, 0], [0, 1, 1]]
    assert same(vec.call("action_mask"), [np.int8([1, 1, 0]), np.int8([0, 1, 1])])
    assert same(vec.call_at([1], "action_mask"), [np.int8([0, 1, 1])])
    assert NCount([3]).action_mask() is None and not NCount([3]).has_action_mask


@pytest.mark.parametrize(
    ("masks", "error", "text"),
    [
        (np.ones((3, 2), int), ValueError, r"CorridorVec._action_mask\(\): expected shape \(2, 3\), got \(3, 2\)"),
        (np.full((2, 3), 256), ValueError, r"expected values 0 or 1, got \[256\]"),
        (np.ones((2, 3)), TypeError, r"expected bools or integers, got dtype float64"),
    ],
    ids=["shape", "values", "floats"],
)
def test_faulty_masks_of_a_native_env(monkeypatch, masks, error, text):
    monkeypatch.setattr(CorridorVec, "_action_mask", lambda self: masks)
    vec = CorridorVec(2)
    vec.reset(seed=0)
    with pytest.raises(error, match=text):
        vec.action_mask()


def test_a_native_env_may_say_none(monkeypatch):
    monkeypatch.setattr(CorridorVec, "_action_mask", lambda self: None)
    vec = CorridorVec(2)
    vec.reset(seed=0)
    assert vec.has_action_mask and vec.action_mask().tolist() == [[1, 1, 1]] * 2


# -- row markets -------------------------------------------------------------------------------------------


class Params(NamedTuple):
    limit: float = 2.0


class State(NamedTuple):
    held: np.int64


@jit
def reset_row(state, i):
    state.held[i] = 0


@jit
def step_row(state, i, action):
    state.held[i] += action - 1
    return float(state.held[i]), False, False


@jit
def step_row_of_several(state, i, action):
    state.held[i] += action.move - 1
    return float(state.held[i] * action.lots[0]), False, False


@jit
def observe_row(state, i, observation):
    observation[0] = state.held[i]


@jit
def mask_row(params, state, i, mask):
    if state.held[i] >= params.limit:
        mask[2] = 0
    if state.held[i] <= -params.limit:
        mask[0] = 0


@jit
def mask_row_of_several(params, state, i, elapsed, mask):
    mask_row(params, state, i, mask.move)
    if elapsed == 0:
        mask.flags[1] = 0


@jit
def mask_row_of_a_tuple(params, state, i, mask):
    mask_row(params, state, i, mask[0])


class Held(KernelVecEnv):
    Params, State = Params, State
    reset_row, step_row, observe_row, mask_row = reset_row, step_row, observe_row, mask_row
    observation_space = Box(-np.inf, np.inf, (1,))
    action_space = Discrete(3)


class HeldOfSeveral(Held):
    step_row, mask_row = step_row_of_several, mask_row_of_several
    action_space = Dict(move=Discrete(3), lots=Box(0, 1, (2,)), flags=sekai.MultiBinary(2))


@jit
def step_row_of_a_tuple(state, i, action):
    state.held[i] += action[0] - 1
    return float(action[1]), False, False


class HeldOfATuple(Held):
    step_row, mask_row = step_row_of_a_tuple, mask_row_of_a_tuple
    action_space = MultiDiscrete([3, 2])


def test_a_row_function_writes_the_masks():
    vec = Held(3, limit=[1.0, 2.0, 3.0])
    assert vec.has_action_mask
    vec.reset(seed=0)
    held = np.zeros(3)
    actions = batch_space(vec.action_space, 3)
    actions.seed(0)
    for _ in range(20):
        masks = vec.action_mask()
        assert (masks == np.stack([held > [-1, -2, -3], np.ones(3), held < [1, 2, 3]], axis=1)).all()
        held = vec.step(actions.sample(masks)).rewards
    assert (np.abs(held) <= [1, 2, 3]).all()


@jit
def step_row_of_jumps(state, i, action):
    state.held[i] += 5 * action
    return float(state.held[i]), False, False


class Jumps(Held):
    """Takes other actions, of which the mask of its base says nothing."""

    step_row = step_row_of_jumps
    action_space = Discrete(2)


class JumpsMasked(Jumps):
    mask_row = mask_row


@jit
def observe_row_of_two(state, i, observation):
    observation[0], observation[1] = state.held[i], 0.0


class Seen(Held):
    """Takes the same actions, and shows more."""

    observation_space = Box(-np.inf, np.inf, (2,))
    observe_row = observe_row_of_two


def test_a_mask_belongs_to_the_actions_of_the_class_that_says_it():
    for kind, has_masks in ((Jumps, False), (JumpsMasked, True), (Seen, True)):
        vec = kind(2)
        vec.reset(seed=0)
        assert vec.has_action_mask == has_masks
        assert (vec.action_mask() is not None) == has_masks


@jit
def mask_of_twos(mask):
    mask[0] = 2


class Twos(Held):
    mask_row = mask_of_twos


class TwosByHook(Twos):
    def _action_mask(self):
        return super()._action_mask()


@pytest.mark.parametrize(("kind", "name"), [(Twos, "mask_row: mask"), (TwosByHook, "_action_mask()")])
def test_faulty_masks_of_a_row_market(kind, name):
    vec = kind(2)
    vec.reset(seed=0)
    with pytest.raises(ValueError, match=re.escape(f"{kind.__name__}.{name}: expected values 0 or 1, got [1, 2]")):
        vec.action_mask()


@jit
def mask_beyond(mask):
    mask[3] = 0


class Beyond(Held):
    mask_row = mask_beyond


def test_a_mask_that_is_written_beyond_its_end_is_refused():
    vec = Beyond(2)
    vec.reset(seed=0)
    with pytest.raises(IndexError, match="Beyond.mask_row: mask: "):
        vec.action_mask()


# -- the checker -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_checker_finds_no_fault_with_a_market_of_masks():
    assert check_vec_env(HeldOfSeveral, n_steps=20) == []


@pytest.mark.parametrize("kind", [Corridor, Combined])
def test_the_checker_takes_actions_that_the_masks_allow(kind):
    """What they leave out is refused."""
    assert check_vec_env(lambda n, **kwargs: SyncVecEnv([kind] * n, **kwargs), num_envs=4, n_steps=20) == []


class Closed(CorridorVec):
    def _action_mask(self):
        return super()._action_mask() & (np.arange(self.num_envs) != 1)[:, None]


class Crowded(CorridorVec):
    """Row 0 makes way for the others."""

    def _action_mask(self):
        masks = super()._action_mask()
        masks[0, 2] &= self.num_envs == 1
        return masks


class Broad(CorridorVec):
    def _action_mask(self):
        return np.ones((self.num_envs, 4))


class Living(VecWrapper):
    """Hands out its masks themselves."""

    def __init__(self, venv):
        super().__init__(venv)
        self.masks = np.ones((self.num_envs, 3), np.int8)

    def action_mask(self):
        self.masks[:] = self.venv.action_mask()
        return self.masks


class Bools(VecWrapper):
    def action_mask(self):
        return self.venv.action_mask().astype(bool)


class Moving(CorridorVec):
    def _action_mask(self):
        masks = super()._action_mask().copy()
        self.position = self.position * 0.5
        return masks


class Drawing(CorridorVec):
    """What is drawn decides nothing."""

    def _action_mask(self):
        self.rng.random()
        return super()._action_mask()


class Strict(CorridorVec):
    def _step(self, actions):
        if not self._action_mask()[np.arange(self.num_envs), actions].all():
            raise sekai.InvalidAction("left out")
        return super()._step(actions)


class Unkept(CorridorVec):
    """Makes its masks in a step, and leaves them out of snapshots."""

    def _step(self, actions):
        result = super()._step(actions)
        super()._action_mask()
        return result

    def _reset_envs(self, indices, options):
        super()._reset_envs(indices, options)
        super()._action_mask()

    def _action_mask(self):
        return self.masks


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        (Moving, r"however often action_mask\(\) is called, got .* after more calls of it"),
        (Drawing, r"reset: expected action_mask\(\) to leave self.rng alone, got draws from it"),
        (Strict, r"InvalidAction: left out, where masks leave actions out: a native env takes every action"),
        (Unkept, r"step 22: action_mask\(\).* as before, .* after restore\(\) of step 22; not put back: Unkept.masks"),
        (
            Closed,
            r"reset: action_mask\(\)\[1\]: expected at least one action to be left, got array\(\[0, 0, 0\].* 1\)",
        ),
        (Broad, r"reset: action_mask\(\): expected a batch of masks, got TypeError: .*expected bools or integers"),
        (Crowded, r"reset: action_mask\(\)\[0, 2\]: expected 1, as in a VecEnv of 1 .*, got 0 in one of 3"),
        (lambda n, **kwargs: Living(CorridorVec(n, **kwargs)), r"action_mask\(\).* to stay as it was returned"),
        (lambda n, **kwargs: Bools(CorridorVec(n, **kwargs)), r"reset: action_mask\(\): .* dtype int8, got bool"),
    ],
    ids=["moves", "draws", "refused", "unkept", "nothing left", "no mask", "by others", "live", "dtype"],
)
def test_the_checker_finds_faulty_masks(factory, text, narrow):
    with pytest.raises(AssertionError, match=text):
        assert check_vec_env(factory, num_envs=3, n_steps=44) == []


def test_frozen_sub_envs_take_any_random_action():
    """The corridor's masks of them may leave nothing."""

    class Shut(CorridorVec):
        def _action_mask(self):
            return super()._action_mask() & ~self.frozen[:, None]

    with Shut(3, autoreset=False, max_episode_steps=2) as vec:
        vec.reset(seed=0)
        vec.step([2, 2, 2])
        vec.step([2, 2, 2])
        assert vec.frozen.all() and not vec.action_mask().any()
        assert random_actions(vec, np.random.default_rng(0)).shape == (3,)


# -- nested masks of row markets ---------------------------------------------------------------------------


def test_row_functions_write_nested_masks():
    vec = HeldOfSeveral(2, limit=1.0)
    vec.reset(seed=0)
    first = vec.action_mask()
    assert first["flags"].tolist() == [[2, 0]] * 2  # free, and fixed to 0
    vec.step({"move": np.array([2, 0]), "lots": np.ones((2, 2), np.float32), "flags": np.zeros((2, 2), np.int8)})
    masks = vec.action_mask()
    assert masks["move"].tolist() == [[1, 1, 0], [0, 1, 1]]
    assert masks["flags"].tolist() == [[2, 2]] * 2 and masks["lots"].tolist() == [[1, 1]] * 2
    row = vec.call("action_mask")[1]
    assert mask_space(vec.action_space).contains(row) and row["move"].tolist() == [0, 1, 1]
    several = HeldOfATuple(2, limit=1.0)
    several.reset(seed=0)
    several.step(np.array([[2, 0], [0, 1]]))
    masks = several.action_mask()
    assert [part.tolist() for part in masks] == [[[1, 1, 0], [0, 1, 1]], [[1, 1]] * 2]


def test_a_market_of_rows_without_masks():
    class Free(Held):
        mask_row = None

    with Free(2) as vec:
        assert vec.action_mask() is None and not vec.has_action_mask


@jit
def mask_row_of_draws(random, i, mask):
    mask[0] = 0


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"mask_row": lambda mask: None}, r"Bad.mask_row: expected a function compiled by sekai.kernels.jit"),
        ({"mask_row": mask_row_of_draws}, r"Bad.mask_row: expected arguments among .*mask, got 'random'"),
        ({"mask_rows": mask_row, "mask_row": None}, r"Bad.mask_rows: expected another name, or 'mask_row'"),
    ],
    ids=["plain", "draws", "misspelt"],
)
def test_what_is_no_row_function_of_masks(members, text):
    with pytest.raises(TypeError, match=text):
        type("Bad", (Held,), members)


# -- beside the observations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda **kwargs: CorridorVec(5, max_episode_steps=4, **kwargs),
        lambda **kwargs: Held(5, max_episode_steps=4, **kwargs),
        lambda **kwargs: corridors("sync", **kwargs),
    ],
    ids=["native", "rows", "sync"],
)
@pytest.mark.parametrize("autoreset", [True, False], ids=["autoreset", "freezing"])
def test_the_masks_are_shown(build, autoreset):
    vec, plain = VecActionMaskObservation(build(autoreset=autoreset)), build(autoreset=autoreset)
    shown, expected = vec.reset(seed=SEEDS), plain.reset(seed=SEEDS)
    for k in range(6):
        assert vec.batch_observation_space.contains(shown.observations)
        assert same(shown.observations["observation"], expected.observations)
        assert same(shown.observations["action_mask"], plain.action_mask())
        actions = np.ones(5, np.int64)
        shown, expected = vec.step(actions), plain.step(actions)
        if k == 3 and autoreset:
            final = shown.infos[2]["final_observation"]
            assert same(final["observation"], expected.infos[2]["final_observation"])
            assert same(final["action_mask"], full_mask(vec.action_space))
    begun = vec.reset_envs([3, 1], seed=[7, 8])
    assert same(begun.observations["observation"], plain.reset_envs([3, 1], seed=[7, 8]).observations)
    assert same(begun.observations["action_mask"], plain.action_mask()[[3, 1]])


def test_snapshots_bring_the_masks_back():
    vec = VecActionMaskObservation(Held(2))
    vec.reset(seed=0)
    for _ in range(2):
        vec.step(np.array([2, 0]))
    kept = vec.snapshot()
    masks = vec.action_mask()
    vec.step(np.array([0, 2]))
    vec.restore(kept)
    assert same(vec.action_mask(), masks) and masks.tolist() == [[1, 1, 0], [0, 1, 1]]


class MirroredBatch(sekai.VecActionWrapper):
    def action(self, actions):
        return 2 - actions


def test_vector_wrappers_hand_masks_on_unless_actions_are_others():
    vec = sekai.VecTransformReward(CorridorVec(2), np.sign)
    vec.reset(seed=0)
    assert vec.has_action_mask and vec.action_mask().tolist() == [[1, 1, 1]] * 2
    with pytest.raises(NotImplementedError, match=r"MirroredBatch.action_mask\(\)"):
        MirroredBatch(CorridorVec(2)).action_mask()
    assert MirroredBatch(NCount([3])).action_mask() is None
    assert not MirroredBatch(CorridorVec(2)).has_action_mask  # so that nobody who steps it asks
    assert set(random_actions(MirroredBatch(CorridorVec(40)), np.random.default_rng(0))) == {0, 1, 2}
    with pytest.raises(ValueError, match=r"VecActionMaskObservation: expected a VecEnv with an action_mask\(\)"):
        VecActionMaskObservation(NCount([3]))
