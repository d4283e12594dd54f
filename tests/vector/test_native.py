"""What only a NativeVecEnv has: its hooks, one generator, the time limit, attributes of one object."""

import collections
import contextlib
import copy
import functools
import gc
import itertools
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from backends import assert_same, scribble
from toys import BOX1, INF, NativeToy, NCount, T, Toy, Z

from sekai import (
    Box,
    Dict,
    Discrete,
    InfoList,
    InvalidObservation,
    NativeVecEnv,
    SyncVecEnv,
    TimeLimit,
    VecNormalizeObservation,
    VecRecordEpisodeStatistics,
    stack_infos,
)
from sekai.batching.buffers import SMALL, Loan
from sekai.vector import shared


class Market(NativeVecEnv):
    """A random walk whose hooks can be replaced."""

    def __init__(self, num_envs=4, observation_space=BOX1, action_space=None, **kwargs):
        super().__init__(num_envs, observation_space, action_space or Discrete(2), **kwargs)
        self.x = np.zeros(num_envs)
        self.scale = np.ones(num_envs)
        self.label = "four"
        self.actions = []

    def _reset_envs(self, indices, options):
        self.x[indices] = self.rng.random(len(indices))

    def _observe(self):
        return self.x[:, None]

    def _step(self, actions):
        self.actions.append(np.array(actions))
        self.x += self.scale * self.rng.random(self.num_envs)
        return self.x, self.x > INF, self.x > INF, {"x": self.x}

    def row_of(self, factor):
        return factor * self.x

    def schedule(self):
        return np.arange(4.0)[:, None]

    @shared
    def shared_schedule(self):
        return np.arange(4.0)[:, None]

    @property
    @shared
    def ticks(self):
        return np.arange(4)

    @functools.cached_property
    @shared
    def cached_ticks(self):
        return np.arange(4)

    @shared
    @property
    def outer_ticks(self):
        return np.arange(4)

    @property
    def pair(self):
        return [1, 2, 3, 4]


# -- construction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs: expected at least 1, got 0"),
        ({"num_envs": 1.5}, TypeError, "num_envs: expected an integer, got float"),
        ({"num_envs": True}, TypeError, "num_envs: expected an integer, got the bool True"),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps: expected at least 1, got 0"),
        ({"max_episode_steps": "3"}, TypeError, "max_episode_steps: expected an integer, got str"),
        ({"observation_space": (1,)}, TypeError, "observation_space: expected a sekai Space, got tuple"),
        ({"action_space": 2}, TypeError, "action_space: expected a sekai Space, got int"),
    ],
    ids=str,
)
def test_wrong_arguments(kwargs, error, message):
    with pytest.raises(error, match=message):
        Market(**kwargs)


# -- seeding -------------------------------------------------------------------------------------------------


def test_an_int_seeds_the_generator_and_none_continues_it():
    vec = Market()
    first = vec.reset(seed=5).observations
    again = vec.reset().observations
    assert not np.isin(again, first).any()
    assert vec.reset(seed=5).observations.tolist() == first.tolist()
    assert vec.reset(seed=None).observations.tolist() == again.tolist()
    assert vec.reset(seed=np.int64(5)).observations.tolist() == first.tolist()


def test_a_list_of_seeds_is_combined_into_one():
    vec = Market()
    first = vec.reset(seed=[1, 2, 3, 4]).observations
    assert vec.reset(seed=(1, 2, 3, 4)).observations.tolist() == first.tolist()
    assert vec.reset(seed=[1, 2, 3, 5]).observations.tolist() != first.tolist()
    assert vec.reset(seed=[2, 1, 3, 4]).observations.tolist() != first.tolist()


def test_a_none_entry_contributes_a_draw_and_a_list_of_only_none_continues():
    vec = Market()

    def after(seed):
        vec.reset(seed=5)
        return vec.reset(seed=seed).observations.tolist()

    assert after([None] * 4) == after(None)
    assert after([1, None, 3, 4]) == after([1, None, 3, 4])
    vec.reset(seed=6)
    other_stream = vec.reset(seed=[1, None, 3, 4]).observations.tolist()
    assert other_stream != after([1, None, 3, 4])


def test_one_generator_is_no_seed_for_all():
    with pytest.raises(TypeError, match="got Generator"):
        Market().reset(seed=np.random.default_rng(1))


def test_rng_exists_before_the_first_reset_and_differs_between_instances():
    assert Market().rng.random() != Market().rng.random()
    vec = Market()
    assert vec.rng is vec.rng


# -- time limit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", [True, False])
def test_the_time_limit_is_that_of_time_limit(autoreset):
    scripts = [T(3), T(9), T(2)]
    native = NativeToy(scripts, autoreset=autoreset, max_episode_steps=3)
    sync = SyncVecEnv([lambda s=s: TimeLimit(Toy(s), 3) for s in scripts], autoreset=autoreset)
    native.reset(), sync.reset()
    for _ in range(10):
        got, expected = native.step([0] * 3), sync.step([0] * 3)
        assert got.observations.tolist() == expected.observations.tolist()
        assert got.rewards.tolist() == expected.rewards.tolist()
        assert got.terminated.tolist() == expected.terminated.tolist()
        assert got.truncated.tolist() == expected.truncated.tolist()
        assert list(got.infos) == expected.infos
        assert native.get_attr("elapsed_steps") == sync.get_attr("elapsed_steps")


def test_elapsed_steps_are_counted_without_a_limit():
    vec = NCount([2, 5])
    vec.reset()
    for expected in ([1, 1], [0, 2], [1, 3], [0, 4], [1, 0]):
        infos = vec.step([0, 0]).infos
        assert vec.elapsed_steps.tolist() == expected
        assert "elapsed_steps" not in infos[0]
    vec.elapsed_steps[:] = 99
    assert vec.elapsed_steps.tolist() == [1, 0]


def test_frozen_sub_envs_are_not_counted():
    vec = NCount([2, 5], autoreset=False, max_episode_steps=4)
    vec.reset()
    results = [vec.step([0, 0]) for _ in range(6)]
    assert vec.elapsed_steps.tolist() == [2, 4]
    assert results[-1].terminated.tolist() == [True, False]
    assert results[-1].truncated.tolist() == [False, True]


# -- hooks ---------------------------------------------------------------------------------------------------


def test_reset_envs_is_told_whom_to_reset_and_with_which_options():
    calls = []

    class Recording(NCount):
        def _reset_envs(self, indices, options):
            calls.append((indices.dtype, indices.tolist(), list(options)))
            super()._reset_envs(indices, options)

    vec = Recording([1, 3, 1])
    vec.reset(options=[{"a": 1}, None, {"b": 2}])
    vec.step([0, 0, 0])
    assert calls == [(np.intp, [0, 1, 2], [{"a": 1}, None, {"b": 2}]), (np.intp, [0, 2], [None, None])]


def test_actions_arrive_in_the_dtype_of_the_space():
    vec = Market(action_space=Box(-1, 1, (2,)))
    vec.reset()
    vec.step(np.ones((4, 2)))
    vec.step([[0, 1]] * 4)
    assert [actions.dtype for actions in vec.actions] == [np.float32] * 2


def test_a_frozen_sub_env_acts_with_its_last_action_again():
    class Held(NCount):
        seen = ()

        def _step(self, actions):
            self.seen = (*self.seen, actions.tolist())
            return super()._step(actions)

    vec = Held([1, 3, 2], autoreset=False)
    vec.reset()
    given = np.array([1, 1, 1])
    vec.step(given)
    given[:] = 0
    vec.step(given)
    vec.step([0, 1, 1])
    assert vec.seen == ([1, 1, 1], [1, 0, 0], [1, 1, 0])


def test_frozen_tells_the_simulation_which_sub_envs_to_leave():
    vec = NCount([1, 3], autoreset=False)
    vec.reset()
    for _ in range(3):
        vec.step([0, 0])
    assert vec.get_attr("c") == [1.0, 3.0]
    vec.frozen[:] = False  # a copy
    assert vec.frozen.tolist() == [True, True]


def test_whatever_step_computes_for_a_frozen_sub_env_does_not_show():
    class Restless(NCount):
        def _step(self, actions):
            self.c += 1
            zeros = np.zeros(self.num_envs, bool)
            return self.c, self.c == self.T, zeros, {"c": self.c}

    vec = Restless([1, 9], autoreset=False)
    vec.reset()
    vec.step([0, 0])
    result = vec.step([0, 0])
    assert result.observations.tolist() == [[1.0], [2.0]]
    assert result.rewards.tolist() == [0.0, 2.0]
    assert result.terminated.tolist() == [True, False]
    assert result.infos == [{}, {"c": 2.0}]


def test_reset_infos_belong_to_their_indices():
    class Marked(NCount):
        def _reset_infos(self, indices):
            return {"index": indices * 10}

    vec = Marked([1, 2, 1])
    assert vec.reset().infos == [{"index": 0}, {"index": 10}, {"index": 20}]
    infos = vec.step([0, 0, 0]).infos
    assert infos[0]["reset_info"] == {"index": 0} and infos[2]["reset_info"] == {"index": 20}
    assert infos[1] == {}
    assert infos.done.tolist() == [0, 2]
    assert infos.final("reset_info")["index"].tolist() == [0, 20]
    assert infos.final("final_observation").tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ((np.ones(3), np.zeros(4), np.zeros(4), {}), r"Odd._step\(\): rewards: expected shape \(4,\).*got \(3,\)"),
        ((np.ones((4, 1)), np.zeros(4), np.zeros(4), {}), r"rewards: expected shape \(4,\).*got \(4, 1\)"),
        ((1.0, np.zeros(4), np.zeros(4), {}), r"rewards: expected shape \(4,\).*got \(\)"),
        ((np.ones(4), False, np.zeros(4), {}), r"terminated: expected shape \(4,\)"),
        ((np.ones(4), np.zeros(4), np.zeros(5), {}), r"truncated: expected shape \(4,\).*got \(5,\)"),
        ((np.zeros(4), np.full(4, 0.5), np.zeros(4), {}), "terminated: expected bools, got float64 other than 0 and 1"),
        ((np.ones(4), np.zeros(4), np.full(4, 2), {}), "truncated: expected bools, got int64 other than 0 and 1"),
        (
            (np.ones(4), np.zeros(4), np.zeros(4), {"price": np.zeros((3, 4))}),
            r"Odd._step\(\): expected info column 'price' with a first axis of 4, got shape \(3, 4\)",
        ),
        ((np.ones(4), np.zeros(4), np.zeros(4), {"price": 1.0}), r"info column 'price'.*got shape \(\)"),
    ],
)
def test_wrong_outputs_of_step_are_named(outputs, message):
    class Odd(Market):
        def _step(self, actions):
            return outputs

    vec = Odd()
    vec.reset()
    with pytest.raises(ValueError, match=message):
        vec.step(Z(vec))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            (np.ones(4), np.zeros(4), np.zeros(4)),
            r"Odd._step\(\): expected \(rewards, terminated, truncated, infos\), got",
        ),
        (None, r"expected \(rewards, terminated, truncated, infos\), got NoneType"),
        ((np.ones(4), np.zeros(4), np.zeros(4), [{}] * 4), "expected infos that map keys to arrays"),
        (([1.0, None, 2.0, 3.0], np.zeros(4), np.zeros(4), {}), "rewards: expected numbers, got dtype object"),
    ],
)
def test_outputs_of_step_of_another_kind_are_named(outputs, message):
    class Odd(Market):
        def _step(self, actions):
            return outputs

    vec = Odd()
    vec.reset()
    with pytest.raises(TypeError, match=message):
        vec.step(Z(vec))


@pytest.mark.parametrize("flags", [np.array([0, 1, 0, 1]), np.array([0.0, 1.0, 0.0, 1.0]), [False, True, False, True]])
def test_flags_may_be_zeros_and_ones(flags):
    class Ends(Market):
        def _step(self, actions):
            return np.ones(4), flags, np.zeros(4, bool), {}

    vec = Ends()
    vec.reset()
    assert vec.step(Z(vec)).terminated.tolist() == [False, True, False, True]


def test_final_values_of_a_step_that_ended_nothing_are_empty():
    vec = VecNormalizeObservation(VecRecordEpisodeStatistics(NCount([2, 9], max_episode_steps=5)))
    vec.reset()
    for ended in (0, 1):
        infos = vec.step([0, 0]).infos
        assert infos.final("final_observation").shape == (ended, 1)
        assert len(infos.final("episode")) == len(infos.final("elapsed_steps")) == ended
        assert infos.final("reset_info") == {}
        assert len(infos.final("final_info")["elapsed_steps"]) == ended
    frozen = NCount([2, 9], autoreset=False)
    frozen.reset()
    with pytest.raises(KeyError, match="no info 'final_observation'"):
        frozen.step([0, 0]).infos.final("final_observation")


def test_wrong_reset_infos_are_named():
    class Odd(NCount):
        def _reset_infos(self, indices):
            return {"start": np.zeros(self.num_envs)}  # one per sub-env instead of one per index

    vec = Odd([1, 2, 1])
    vec.reset()
    with pytest.raises(ValueError, match=r"_reset_infos\(\): expected info column 'start' with a first axis of 2"):
        vec.step([0, 0, 0])


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(4), r"Odd._observe\(\): expected shape \(4, 1\), got shape \(4,\)"),
        (np.zeros((3, 1)), r"expected shape \(4, 1\), got shape \(3, 1\)"),
        (np.zeros((4, 1), complex), "expected dtype float64, got complex128"),
    ],
)
def test_wrong_observations_are_named(observation, message):
    class Odd(Market):
        def _observe(self):
            return observation

    with pytest.raises(InvalidObservation, match=message):
        Odd().reset()


def test_observations_convert_to_the_dtype_of_the_space():
    vec = Market(observation_space=Box(-INF, INF, (1,), np.float32))
    assert vec.reset().observations.dtype == np.float32


def test_nested_observations():
    class Nested(NCount):
        def __init__(self, T, **kwargs):
            super().__init__(T, **kwargs)
            self.observation_space = Dict({"c": Box(-INF, INF, (1,), np.float64), "k": Discrete(99)})

        def _observe(self):
            return {"c": self.c[:, None], "k": self.c.astype(np.int64)}

    # The space is given to the base class, which must not depend on what a subclass assigns later.
    vec = Nested([1, 2])
    first = vec.reset().observations
    result = vec.step([0, 0])
    assert first["c"].tolist() == [[0.0], [0.0]]
    assert result.observations["k"].tolist() == [0, 1]
    assert result.infos[0]["final_observation"]["c"].tolist() == [1.0]


def test_terminal_observations_may_be_asked_for_by_row():
    asked = []

    class Rows(NCount):
        def _observe_rows(self, indices):
            asked.append(indices.tolist())
            return self.c[indices, None]

    by_row, all_rows = Rows([1, 3, 1]), NCount([1, 3, 1])
    by_row.reset(), all_rows.reset()
    for _ in range(6):
        got, expected = by_row.step([0] * 3), all_rows.step([0] * 3)
        assert got.infos == expected.infos and got.observations.tolist() == expected.observations.tolist()
    assert asked[:3] == [[0, 2], [0, 2], [0, 1, 2]]
    assert got.infos.final("final_observation").base is None  # nothing live


def test_a_wrong_number_of_rows_is_named():
    class Rows(NCount):
        def _observe_rows(self, indices):
            return self.c[:, None]

    vec = Rows([1, 3, 1])
    vec.reset()
    with pytest.raises(InvalidObservation, match=r"expected shape \(2, 1\), got shape \(3, 1\)"):
        vec.step([0] * 3)


def test_a_failed_reset_needs_another():
    class Picky(NCount):
        def _reset_envs(self, indices, options):
            if any(options):
                raise ValueError("no options, please")
            super()._reset_envs(indices, options)

    vec = Picky([3])
    vec.reset()
    with pytest.raises(ValueError, match="no options"):
        vec.reset(options={"a": 1})
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        vec.step([0])
    vec.reset()
    vec.step([0])


def test_a_subclass_may_use_any_everyday_name():
    class Everyday(NCount):
        """Keeps what it likes under names the base class might have used too."""

        def _step(self, actions):
            for name in "actions outputs column observations restart clock episodes rng last_actions held".split():
                setattr(self, f"_{name}", actions)
            return super()._step(actions)

    for autoreset in (True, False):
        vec = Everyday([2, 3], autoreset=autoreset, max_episode_steps=3)
        vec.reset(seed=1)
        for _ in range(5):
            vec.step([0, 1])
        assert vec.rng is vec.rng


# -- infos ---------------------------------------------------------------------------------------------------


def test_infos_are_a_lazy_snapshot():
    vec = Market()
    vec.reset(seed=1)
    first = vec.step(Z(vec))
    price = first.infos.columns["x"].copy()
    vec.step(Z(vec))
    assert isinstance(first.infos, InfoList)
    assert first.infos.columns["x"].tolist() == price.tolist()
    assert [info["x"] for info in first.infos] == price.tolist()
    assert stack_infos(first.infos)["x"].tolist() == price.tolist()


def test_columns_that_cannot_be_written_to_are_copied_like_any_other():
    column = np.arange(4.0)
    column.flags.writeable = False
    live = np.zeros(4)
    view = live.view()
    view.flags.writeable = False  # read-only, but the memory behind it is not

    class Columns(Market):
        def _step(self, actions):
            rewards, terminated, truncated, _ = super()._step(actions)
            return rewards, terminated, truncated, {"kept": column, "live": live, "view": view}

    vec = Columns()
    vec.reset()
    columns = vec.step(Z(vec)).infos.columns
    live += 1
    scribble(columns)
    assert column.tolist() == [0, 1, 2, 3]
    columns = vec.step(Z(vec)).infos.columns
    assert columns["kept"].tolist() == [0, 1, 2, 3]
    assert columns["live"].tolist() == columns["view"].tolist() == [1.0] * 4


# -- attributes ----------------------------------------------------------------------------------------------


def test_an_array_with_a_leading_axis_of_num_envs_is_split_and_anything_else_repeated():
    vec = Market()
    vec.reset(seed=1)
    assert vec.get_attr("x") == vec.x.tolist()
    assert [row.tolist() for row in vec.call("schedule")] == [[0.0], [1.0], [2.0], [3.0]]
    assert vec.call("row_of", 2.0) == (2 * vec.x).tolist()
    assert vec.get_attr("label") == ["four"] * 4
    assert vec.get_attr("pair") == [[1, 2, 3, 4]] * 4
    vec.call("schedule")[0][:] = 9
    vec.scratch = np.zeros((4, 2))
    vec.get_attr("scratch")[0][:] = 9
    assert not vec.scratch.any()


@pytest.mark.parametrize("name", ["shared_schedule", "ticks", "cached_ticks", "outer_ticks"])
def test_what_shared_members_return_is_repeated_whole(name):
    values = Market().call(name)
    assert len(values) == 4
    assert all(len(value) == 4 for value in values)


def test_an_overriding_member_is_shared_only_if_marked_itself():
    class Own(Market):
        def shared_schedule(self):
            return np.arange(4)

    assert Own().call("shared_schedule") == [0, 1, 2, 3]


def test_set_attr_changes_the_simulation():
    vec = Market()
    vec.reset()
    vec.set_attr("scale", [0.0, 0.0, 0.0, 1.0])
    before = vec.x.copy()
    vec.step(Z(vec))
    assert (vec.x != before).tolist() == [False, False, False, True]
    vec.set_attr("scale", [1, 2, 3, 4])
    assert vec.scale.dtype == np.float64 and vec.get_attr("scale") == [1.0, 2.0, 3.0, 4.0]
    vec.set_attr("scale", 0.5)
    assert vec.scale.tolist() == [0.5] * 4
    vec.set_attr("label", "other")
    assert vec.get_attr("label") == ["other"] * 4
    vec.set_attr("label", ["a", "b", "c", "d"])
    assert vec.get_attr("label") == ["a", "b", "c", "d"]


def test_set_attr_does_not_round():
    vec = Market()
    vec.count = np.zeros(4, dtype=np.int64)
    vec.set_attr("count", [0.5, 1.0, 2.0, 3.0])
    assert vec.get_attr("count") == [0.5, 1.0, 2.0, 3.0]


def test_a_read_only_property_cannot_be_set():
    with pytest.raises(AttributeError):
        Market().set_attr("pair", 3)


# -- whose memory results are ------------------------------------------------------------------------------


class Views(Market):
    """Keeps rewards and flags in one block each, and returns columns of them."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.block, self.flags = np.zeros((4, 2)), np.zeros((4, 2), dtype=np.bool_)

    def _step(self, actions):
        self.block[:, 1] += 1.0
        return self.block[:, 1], self.flags[:, 0], self.flags[:, 1], {"steps": self.block[:, 1]}


def test_views_of_state_are_copied():
    vec = Views()
    vec.reset(seed=0)
    first = vec.step(Z(vec))
    kept = first.rewards.copy()
    second = vec.step(Z(vec))
    assert first.rewards.tolist() == kept.tolist() == [1.0] * 4
    assert second.rewards.tolist() == [2.0] * 4
    scribble(second)
    assert vec.step(Z(vec)).rewards.tolist() == [3.0] * 4
    assert not vec.flags.any()


def test_the_time_limit_leaves_the_market_s_flags_alone():
    vec = Views(max_episode_steps=2)
    vec.reset(seed=0)
    assert [vec.step(Z(vec)).truncated.any() for _ in range(4)] == [False, True, False, True]
    assert not vec.flags.any()


def test_flags_that_cannot_be_written_to_are_copied_for_the_time_limit():
    class Never(Market):
        def _step(self, actions):
            never = np.broadcast_to(np.False_, (4,))
            return np.broadcast_to(1.0, (4,)), never, never, {}

    vec = Never(max_episode_steps=1)
    vec.reset(seed=0)
    result = vec.step(Z(vec))
    assert result.truncated.all() and not result.terminated.any()
    scribble(result)


# -- A10: only what the kit has lent is taken without a copy -----------------------------------------------------

MANY = SMALL  # sub-envs: even their flags fill memory that is used again

Outputs = collections.namedtuple("Outputs", "rewards terminated truncated infos")


class Counting(NativeVecEnv):
    """Shows the number of its steps wherever it can, in live state. Every third ends sub-env 0, every fifth all."""

    def __init__(self, num_envs=MANY, **kwargs):
        super().__init__(num_envs, Box(-INF, INF, (2,), np.float64), Discrete(2), **kwargs)
        self.t = 0
        self.rewards, self.seen = np.zeros(num_envs), np.zeros((num_envs, 2))
        self.terminated, self.truncated = np.zeros(num_envs, bool), np.zeros(num_envs, bool)
        self.infos = {"t": np.zeros(num_envs, np.int64), "name": np.full(num_envs, "", "U9")}
        self.make()

    def make(self):
        """Whatever is made once."""

    def _reset_envs(self, indices, options):
        self.seen[indices] = -1

    def _reset_infos(self, indices):
        return {"t": self.infos["t"][: len(indices)]}

    def _observe(self):
        return self.seen

    def advance(self):
        self.t += 1
        self.rewards[:] = self.seen[:] = self.infos["t"][:] = self.t
        self.terminated[0], self.truncated[:] = self.t % 3 == 0, self.t % 5 == 0
        self.infos["name"][:] = str(self.t)

    def _step(self, actions):
        self.advance()
        return self.rewards, self.terminated, self.truncated, self.infos


class StoredTuple(Counting):
    kind = staticmethod(tuple)

    def make(self):
        self.outputs = self.kind([self.rewards, self.terminated, self.truncated, self.infos])

    def _step(self, actions):
        self.advance()
        return self.outputs


class StoredList(StoredTuple):
    kind = staticmethod(list)


class StoredNamedTuple(StoredTuple):
    kind = staticmethod(lambda parts: Outputs(*parts))


class Fresh(Counting):
    """Makes new arrays and keeps none of them."""

    def _step(self, actions):
        self.advance()
        return tuple(copy.deepcopy([self.rewards, self.terminated, self.truncated, self.infos]))

    def _observe(self):
        return self.seen.copy()


class Lending(Counting):
    """Writes into memory of the kit's."""

    def lent(self, values):
        array = self._new_array(values.dtype, *values.shape[1:])
        array[:] = values
        return array

    def _step(self, actions):
        self.advance()
        outputs = [self.lent(each) for each in (self.rewards, self.terminated, self.truncated)]
        return *outputs, {**self.infos, "t": self.lent(self.infos["t"])}

    def _observe(self):
        return self.lent(self.seen)


class Twice(Lending):
    """Returns what it was lent as several results at once, and in the next step again."""

    def _step(self, actions):
        self.advance()
        if self.t % 2:
            self.last = self.lent(self.rewards), self.lent(self.terminated)
        rewards, flags = self.last
        return rewards, flags, flags, {**self.infos, "t": rewards, "again": rewards, "view": rewards[:], "flags": flags}


each_market = pytest.mark.parametrize(
    "market", [Counting, StoredTuple, StoredList, StoredNamedTuple, Fresh, Lending, Twice]
)
each_size = pytest.mark.parametrize("num_envs", [3, MANY])


def arrays_of(result):
    yield from (result.observations, result.rewards, result.terminated, result.truncated)
    yield from result.infos.columns.values()


def overlap(results):
    numbers = [array for result in results for array in arrays_of(result) if not array.dtype.hasobject]
    places = sorted((array.ctypes.data, array.nbytes) for array in numbers)
    return any(place + size > after for (place, size), (after, _) in itertools.pairwise(places))


def walk(vec, steps, keep=lambda step: True):
    """Results that are kept, with copies made at once."""
    kept = []
    vec.reset(seed=0)
    for step in range(steps):
        result = vec.step(Z(vec))
        if keep(step):
            kept.append((result, copy.deepcopy(result)))
        del result
    return kept


def assert_unchanged(kept):
    assert not overlap([result for result, _ in kept])
    for result, before in kept:
        assert_same(before, result)
        assert_same(before.infos.columns, result.infos.columns)


@each_size
@pytest.mark.parametrize("market", [StoredTuple, StoredList, StoredNamedTuple])
def test_a10_results_in_a_container_that_is_stored_are_snapshots(market, num_envs):
    vec = market(num_envs)
    vec.reset()
    first, second = (vec.step([0] * num_envs) for _ in range(2))
    assert (first.rewards == 1).all() and (second.rewards == 2).all()
    assert first.infos[0] == {"t": 1, "name": "1"}
    scribble(first)
    assert (vec.rewards == 2).all() and not vec.terminated.any() and (vec.infos["t"] == 2).all()


@each_size
@pytest.mark.parametrize("market", [StoredTuple, StoredList, StoredNamedTuple])
def test_a10_the_time_limit_does_not_write_into_what_is_stored(market, num_envs):
    vec = market(num_envs, max_episode_steps=4)
    vec.reset()
    truncated = [vec.step([0] * num_envs).truncated[1] for _ in range(13)]
    assert [step for step, each in enumerate(truncated, 1) if each] == [4, 5, 9, 10]


@each_market
@each_size
@pytest.mark.parametrize("autoreset", [True, False])
def test_a10_results_of_many_steps_never_change(market, num_envs, autoreset):
    vec = market(num_envs, autoreset=autoreset, max_episode_steps=4)
    for keep in (lambda step: True, lambda step: step % 3 == 0):
        assert_unchanged(walk(vec, 20, keep))


@each_market
def test_a10_writing_into_results_changes_no_later_one(market):
    vec, twin = market(), market()
    vec.reset(), twin.reset()
    for _ in range(12 if market is not Twice else 1):  # it reads what it has given away
        result = vec.step(Z(vec))
        assert_same(twin.step(Z(twin)), result)
        scribble(result)


@each_market
def test_a10_memory_of_results_is_used_again(market):
    vec, places = market(), set()
    vec.reset()
    for _ in range(60):
        result = vec.step(Z(vec))
        large = [array for array in arrays_of(result) if array.dtype.kind in "bif"]
        assert all(isinstance(array.base, Loan) for array in large)
        places |= {array.ctypes.data for array in large}
    assert len(places) < 25


@contextlib.contextmanager
def tracing(install, before):
    held = []

    def hold(frame, event, argument):
        held.append((frame, dict(frame.f_locals), argument))
        return hold

    install(hold)
    try:
        yield held
    finally:
        install(before)


def trace():
    return tracing(sys.settrace, sys.gettrace())


def profile():
    return tracing(sys.setprofile, sys.getprofile())


@contextlib.contextmanager
def watch():
    """A second thread that holds what the first one sees."""
    held, done, main = collections.deque(maxlen=5000), threading.Event(), threading.get_ident()

    def look():
        while not done.is_set():
            frame = sys._current_frames().get(main)
            while frame is not None:
                if "sekai" in frame.f_code.co_filename:
                    held.append(dict(frame.f_locals))
                frame = frame.f_back

    thread, interval = threading.Thread(target=look), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield held
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


@each_market
@pytest.mark.parametrize("how", [trace, profile, watch])
def test_a10_whoever_holds_frames_and_arguments_changes_no_result(market, how):
    expected = walk(market(max_episode_steps=4), 12)
    vec = market(max_episode_steps=4)
    with how() as held:
        kept = walk(vec, 12)
        assert held
    assert_unchanged(kept)
    for (result, _), (other, _) in zip(kept, expected, strict=True):
        assert_same(other, result)
    held.clear()
    assert_unchanged(kept + walk(vec, 12))


@pytest.mark.parametrize("install", ["settrace", "setprofile"])
def test_a10_importing_under_a_tracer_changes_no_result(install):
    code = f"""
    import sys

    def look(frame, event, argument):
        frame.f_locals
        return look

    sys.{install}(look)
    import numpy as np
    import sekai
    sys.{install}(None)

    class Market(sekai.NativeVecEnv):
        def _reset_envs(self, indices, options): self.t = np.zeros(self.num_envs)
        def _observe(self): return self.t[:, None]
        def _step(self, actions):
            self.t += 1
            return self.t, self.t > 9, self.t > 9, {{"t": self.t}}

    for n in (2, 5000):
        vec = Market(n, sekai.Box(-9, 9, (1,), np.float64), sekai.Discrete(2))
        vec.reset()
        results = [vec.step([0] * n) for _ in range(3)]
        for values in zip(*([r.observations[0, 0], r.rewards[0], r.infos[0]["t"]] for r in results)):
            print(*values)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["1.0 2.0 3.0"] * 6 + [""]


@each_size
def test_a10_what_was_returned_once_is_copied_the_next_time(num_envs):
    vec = Twice(num_envs)
    vec.reset()
    first, second = (vec.step([0] * num_envs) for _ in range(2))
    assert not overlap([first, second])
    first.infos.columns["again"][:] = first.infos.columns["view"][:] = 9
    assert (first.rewards == 1).all() and (second.rewards == 1).all() and (second.infos.columns["t"] == 1).all()


@pytest.mark.parametrize("name", ["rewards", "terminated", "truncated", "column", "observation"])
def test_a10_writing_to_what_was_returned_fails_and_changes_nothing(name):
    class Late(Lending):
        def make(self):
            self.arrays = []

        def lent(self, values):
            self.arrays.append(super().lent(values))
            return self.arrays[-1]

    vec = Late()
    vec.reset()
    vec.arrays.clear()
    result = vec.step(Z(vec))
    before = copy.deepcopy(result)
    array = vec.arrays[["rewards", "terminated", "truncated", "column", "observation"].index(name)]
    for write in (lambda: array.fill(7), lambda: array[:1].fill(7), lambda: np.add(array, 1, out=array)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert_same(before, result)
    assert any(np.shares_memory(array, each) for each in arrays_of(result) if not each.dtype.hasobject)  # no copy


def test_a10_a_market_that_fills_the_same_array_in_every_step_is_told():
    class Same(Counting):
        def make(self):
            self.rewards = self._new_array(np.float64)

    vec = Same()
    vec.reset()
    first = vec.step(Z(vec))
    with pytest.raises(ValueError, match="read-only"):
        vec.step(Z(vec))
    assert (first.rewards == 1).all()


@pytest.mark.parametrize(
    "see",
    [
        lambda array: array[5:9],
        lambda array: array[::-1].reshape(2, -1),
        memoryview,
        lambda array: memoryview(array)[1:],
        lambda array: np.frombuffer(array, np.uint8),
        np.from_dlpack,
    ],
)
def test_a10_a_view_of_a_result_keeps_its_memory_until_it_is_gone(see):
    vec = Lending()
    vec.reset()
    rewards = vec.step(Z(vec)).rewards
    place, seen = rewards.ctypes.data, see(rewards)
    del rewards
    assert place not in {vec.step(Z(vec)).rewards.ctypes.data for _ in range(10)}
    assert (np.asarray(seen).reshape(-1).view(np.float64) == 1).all()
    del seen
    assert place in {vec.step(Z(vec)).rewards.ctypes.data for _ in range(10)}


def test_a10_more_results_than_memories_are_kept():
    vec = Lending()
    kept = walk(vec, 100, lambda step: step < 50)
    assert_unchanged(kept)
    kept.clear()
    assert_unchanged(walk(vec, 50))


@each_market
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a10_copies_of_an_env_and_of_results_share_nothing(market, duplicate):
    vec = market()
    kept = walk(vec, 4)
    other = duplicate(vec)
    copies = [duplicate(result) for result, _ in kept]
    pairs = [[each.step(Z(each)) for each in (vec, other)] for _ in range(6)]
    assert not overlap([*(result for pair in pairs for result in pair), *(result for result, _ in kept), *copies])
    for left, right in pairs:
        assert_same(left, right)
    assert_unchanged(kept)
    for made, (_, before) in zip(copies, kept, strict=True):
        assert_same(before, made)


def test_a10_other_threads_may_let_go_of_results():
    vec, handed, wrong = Lending(), collections.deque(), []
    stop = threading.Event()

    def read():
        mine = []
        while not stop.is_set() or handed:
            with contextlib.suppress(IndexError):
                mine.append(handed.popleft())
            wrong.extend(t for t, each in mine if (each.rewards != t).any() or (each.infos.columns["t"] != t).any())
            del mine[:-3]

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    vec.reset()
    for t in range(1, 150):
        handed.append((t, vec.step(Z(vec))))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


@each_market
def test_a10_results_outlive_their_env(market):
    vec = market()
    kept = walk(vec, 6)
    vec.close()
    assert_unchanged(kept)
    del vec
    gc.collect()
    assert_unchanged(kept + walk(market(), 6))


def test_a10_final_observations_of_ever_other_numbers_of_sub_envs_keep_no_memory():
    class Ending(Counting):
        def _step(self, actions):
            self.advance()
            self.terminated[:] = np.arange(MANY) < MANY - 40 * self.t
            return self.rewards, self.terminated, self.truncated, {}

    vec = Ending()
    assert_unchanged(walk(vec, 30, lambda step: step > 26))
    kept = vec._native.buffers._kept, vec._native.rows_buffers._kept
    assert sum(map(len, kept)) < 8


@each_size
def test_a10_objects_and_strings_are_copied_in_every_step(num_envs):
    class Things(Lending):
        def make(self):
            self.infos["list"] = np.full(num_envs, None)
            self.infos["list"][0] = [{"t": 0}]

        def advance(self):
            super().advance()
            self.infos["list"][0][0]["t"] = self.t

        def _reset_infos(self, indices):
            return {"list": self.infos["list"][indices]}

    vec = Things(num_envs)
    kept = walk(vec, 4)
    assert_unchanged(kept)
    for t, (result, _) in enumerate(kept, 1):
        assert result.infos.columns["list"][0] == [{"t": t}] and (result.infos.columns["name"] == str(t)).all()
        assert result.infos[0].get("reset_info", {"list": [{"t": t}]}) == {"list": [{"t": t}]}
    kept[-1][0].infos.columns["list"][0][0]["t"] = kept[-1][0].infos.columns["name"][0] = 99
    assert vec.infos["list"][0] == [{"t": 4}] and vec.infos["name"][0] == "4"
