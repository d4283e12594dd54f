"""Hints of ``check_vec_env``: actions that a market should refuse, and what the dtypes of its hooks lose."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from broken_markets import GoodVec, NestedVec
from findings import N_STEPS, accepted, like, the_only_finding
from masked_envs import Corridor

from sekai.env import Env
from sekai.errors import InvalidAction
from sekai.kernels import jit
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Tuple
from sekai.testing import check_env, check_vec_env
from sekai.testing.rebound import rebound_hints
from sekai.vector import KernelVecEnv, NativeVecEnv, VecRecordEpisodeStatistics
from sims.market_making import MarketMakingVecEnv
from sims.order_book import LimitOrderBookVecEnv

pytestmark = pytest.mark.usefixtures("narrow")


class AcceptsAnything(GoodVec):
    def _check(self, actions):
        pass


class OtherOutputs(GoodVec):
    """Each step's outputs in other dtypes."""

    dtypes = (np.float64, np.bool_, np.bool_)

    def _step(self, actions):
        *outputs, infos = super()._step(actions)
        return *(array.astype(dtype) for array, dtype in zip(outputs, self.dtypes, strict=True)), infos


class WholeRewards(OtherOutputs):
    dtypes = (np.int32, np.bool_, np.bool_)


class ShortRewards(OtherOutputs):
    dtypes = (np.float32, np.bool_, np.bool_)


class NumbersForFlags(OtherOutputs):
    dtypes = (np.float64, np.bool_, np.int64)


class WholeObservations(GoodVec):
    def _observe(self):
        return super()._observe().astype(np.int64)


class ShownFromAfar(GoodVec):
    """A level around a million, which float32 holds to a sixteenth."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.observation_space = Box(-1e7, 1e7, (2,), np.float32)

    def _observe(self):
        return np.column_stack([self.level, self.level + 1e6])


#: What is said of each; see ``like``.
HINTS = {
    AcceptsAnything: "hint: accepts action array([nan], dtype=float32) of Box(-1.0, 1.0, (1,), float32); "
    "whether actions lie in the space is for the market to check",
    WholeRewards: "hint: _step(): rewards: expected float64, got int32, "
    "in which fractions are lost, if any were written into it",
    ShortRewards: "hint: _step(): rewards: expected float64, got float32, which holds 7 digits",
    NumbersForFlags: "hint: _step(): truncated: expected bool, got int64, which is converted at each step",
    WholeObservations: "hint: _observe(): observations: expected float32, got int64, "
    "in which fractions are lost, if any were written into it",
    ShownFromAfar: "hint: _observe(): observations[0, 1]: expected float32, got float64, "
    "whose cast loses #% of what it changes by: # becomes # (sub-env 0)",
}


@pytest.mark.parametrize("market", HINTS, ids=lambda market: market.__name__)
def test_what_is_no_fault_is_a_hint(market):
    assert re.match(like(HINTS[market]), the_only_finding(market))


# -- actions outside of the space --------------------------------------------------------------------------


class Obliging(NativeVecEnv):
    """Takes actions of any kind; episodes of five steps."""

    def __init__(self, num_envs, action_space, **kwargs):
        super().__init__(num_envs, Box(0.0, 9.0, (), np.float64), action_space, **kwargs)
        self.age = np.zeros(num_envs)

    def _reset_envs(self, indices, options):
        self.age[indices] = 0.0

    def _observe(self):
        return self.age

    def _step(self, actions):
        self.age += 1.0
        return np.zeros(self.num_envs), self.age == 5, np.zeros(self.num_envs, bool), {}


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (Discrete(3, start=5), "8 of Discrete(3, start=5)"),
        (MultiDiscrete([4, 2]), "array([4, #]) of MultiDiscrete(#)"),
        (MultiBinary(2), "array([2, #], dtype=int8) of MultiBinary(2)"),
        (Box(-1.0, 1.0, (), np.float64), "nan of Box(#)"),
        (Box(0, 255, (1,), np.uint8), None),
        (Box(1, 255, (1,), np.uint8), "array([0], dtype=uint8) of Box(#)"),
        (Box(-5, 5, (1,), np.int16), "array([6], dtype=int16) of Box(#)"),
        (Box(-1.0, 1.0, (0,)), None),
        (Tuple([Sequence(Discrete(2)), Discrete(2)]), "(#, np.int64(2)) of Tuple(#)"),
        (Dict(a=Box(False, True, (1,), np.bool_), b=Discrete(2)), "{'a': #, 'b': np.int64(2)} of Dict(#)"),
    ],
    ids=repr,
)
def test_an_action_next_to_the_space_that_is_accepted(space, action):
    findings = check_vec_env(partial(Obliging, action_space=space), n_steps=6)
    assert len(findings) == (action is not None), findings
    assert all(re.match(like(accepted(action)), finding) for finding in findings)


def test_actions_below_the_space_are_tried_too():
    class Choosy(Obliging):
        def _step(self, actions):
            if (actions > 2).any():
                raise InvalidAction("too high")
            return super()._step(actions)

    assert the_only_finding(partial(Choosy, action_space=Discrete(3))) == accepted("-1 of Discrete(3)")


def test_a_wrapper_does_not_hide_what_the_market_accepts():
    def build(num_envs, **kwargs):
        return VecRecordEpisodeStatistics(AcceptsAnything(num_envs, **kwargs))

    assert re.match(like(HINTS[AcceptsAnything]), the_only_finding(build))


def test_an_action_that_divides_by_zero_is_accepted_without_a_warning():
    class Divides(Obliging):
        def _step(self, actions):
            np.ones(self.num_envs) / (2 - actions)
            return super()._step(actions)

    assert the_only_finding(partial(Divides, action_space=Discrete(2))) == accepted("2 of Discrete(2)")


# -- dtypes ------------------------------------------------------------------------------------------------


def test_observations_in_float64_are_no_hint_while_float32_shows_what_they_change_by():
    class Near(ShownFromAfar):
        def _observe(self):
            return np.column_stack([self.level, self.level + 100.0])

    assert check_vec_env(Near, n_steps=N_STEPS) == []


def test_numbers_that_do_not_change_lose_nothing():
    class Still(ShownFromAfar):
        def _observe(self):
            return np.column_stack([self.level, np.full(self.num_envs, 0.1)])

    assert check_vec_env(Still, n_steps=N_STEPS) == []


def test_a_part_of_nested_observations_in_another_dtype():
    class Whole(NestedVec):
        def _observe(self):
            return {**super()._observe(), "a": self.age.astype(int)}

    finding = the_only_finding(Whole)
    assert finding.startswith("hint: _observe(): observations['a']: expected float64, got int64, in which fractions")


def test_lists_are_looked_at_as_the_arrays_they_become():
    class Lists(GoodVec):
        def _step(self, actions):
            rewards, terminated, truncated, infos = super()._step(actions)
            return rewards.tolist(), terminated.tolist(), truncated.astype(int).tolist(), infos

        def _observe(self):
            return super()._observe().tolist()

    assert the_only_finding(Lists) == HINTS[NumbersForFlags]


# -- names that nobody looks for ---------------------------------------------------------------------------


class Misspelt(GoodVec):
    _reset_infos = NativeVecEnv._reset_infos

    def _reset_info(self, indices):
        return {"level": self.level[indices]}

    def action_masks(self):
        return np.ones((self.num_envs, 1), bool)


class Helped(GoodVec):
    """Has both, and helpers."""

    def _reset_info(self, index):
        return self.age[index]

    def _observe_row(self, index):
        return self._observe()[index]


class MisspeltEnv(Corridor):
    action_mask = Env.action_mask

    def action_masks(self):
        return Corridor.action_mask(self)

    def step(self, action):
        return super().step(1)


def test_a_name_that_is_nearly_one_that_is_looked_for_is_a_hint():
    text = "it is none of the names that are looked for; is"
    assert check_vec_env(Misspelt, num_envs=2, n_steps=5) == [
        f"hint: Misspelt._reset_info: {text} _reset_infos meant?",
        f"hint: Misspelt.action_masks: {text} _action_mask meant?",
    ]
    assert check_vec_env(Helped, num_envs=2, n_steps=5) == []
    assert check_env(MisspeltEnv(), n_steps=5) == [f"hint: MisspeltEnv.action_masks: {text} action_mask meant?"]


# -- names that are given to something else ----------------------------------------------------------------


class Position(NamedTuple):
    held: np.float64


@jit
def begin_row(state, i):
    state.held[i] = 0.0


@jit
def hold_row(state, i):
    state.held[i] += 1.0
    return 0.0, state.held[i] > 2.0, False


@jit
def show_row(state, i, observation):
    observation[0] = state.held[i]


class Holder(KernelVecEnv):
    State = Position
    reset_row, step_row, observe_row = begin_row, hold_row, show_row
    observation_space, action_space = Box(0.0, 3.0, (1,)), Discrete(3)


@jit
def mask_of_an_array(mask):
    mask = np.array([1, 1, 0])  # noqa: F841


@jit
def mask_of_a_list(mask):
    mask = [1, 1, 1]
    mask[2] = 0


@jit
def mask_among_others(state, i, mask):
    """Neither mask is written into."""
    if state.held[i] > 0.0:
        mask, two = np.ones(3), 2
        mask[two] = 0


@jit
def observation_of_an_array(state, i, observation):
    observation = np.array([state.held[i]])  # noqa: F841


@jit
def mask_by_item(mask):
    mask[0] = 0
    mask = np.ones(3)  # noqa: F841


@jit
def mask_by_its_part(mask):
    mask = mask[1:]
    mask[0] = 0


@jit
def masks_of_a_tuple(mask):
    first, second = mask
    first[0], second[1] = 0, 0


@jit
def mask_in_place(mask):
    mask *= 0
    mask[0] = 1


@jit
def mask_beside_an_inner_name(mask):
    count = sum([mask for mask in range(3)])
    mask[count - 3] = 0


def rebound_in(text):
    """What a hint says of the first line of this file that has a text."""
    line = next(k for k, each in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1) if text in each)
    return f"({__file__}, line {line}): assigns to the name "


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (mask_of_an_array, "mask = np.array([1"),
        (mask_of_a_list, "mask = [1"),
        (mask_among_others, "mask, two = np"),
        (observation_of_an_array, "observation = np.array([s"),
    ],
    ids=["array", "list", "among others", "observation"],
)
def test_a_row_function_that_assigns_to_the_name_of_what_it_is_to_write_is_a_hint(row, text):
    name = "observe_row" if row is observation_of_an_array else "mask_row"
    argument = {"observe_row": "observation", "mask_row": "mask"}[name]
    (hint,) = rebound_hints(type("Pairs", (Holder,), {name: row}))
    assert hint == (
        f"Pairs.{name} {rebound_in(text)}{argument}, which leaves the array as it was; "
        f"write into it, {argument}[...] = ..."
    )


@pytest.mark.parametrize(
    "row",
    [mask_by_item, mask_by_its_part, masks_of_a_tuple, mask_in_place, mask_beside_an_inner_name],
    ids=lambda row: row.__name__,
)
def test_one_that_writes_is_none(row):
    assert rebound_hints(type("Pairs", (Holder,), {"mask_row": row})) == []


def test_where_there_is_no_source_there_is_no_hint():
    found = {"jit": jit, "np": np}
    exec("@jit\ndef mask_row(mask):\n    mask = np.array([1, 1, 0])\n", found)
    assert rebound_hints(type("Pairs", (Holder,), {"mask_row": found["mask_row"]})) == []


def test_the_checker_tells_of_a_mask_that_is_not_written():
    finding = the_only_finding(type("Pairs", (Holder,), {"mask_row": mask_of_a_list}), num_envs=2, n_steps=6)
    assert finding.startswith("hint: Pairs.mask_row (")


@pytest.mark.parametrize("market", [LimitOrderBookVecEnv, MarketMakingVecEnv], ids=lambda market: market.__name__)
def test_markets_of_the_kit_write_what_they_are_given(market):
    assert market.mask_row is not None
    assert rebound_hints(market) == []
