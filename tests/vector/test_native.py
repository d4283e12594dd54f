"""What only a NativeVecEnv has: its hooks, one generator, the time limit, attributes of one object."""

import functools

import numpy as np
import pytest
from backends import scribble
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


@pytest.mark.parametrize("seed", [np.random.default_rng(1), [np.random.default_rng(1)] * 4])
def test_a_generator_is_no_seed(seed):
    with pytest.raises(TypeError, match="got Generator"):
        Market().reset(seed=seed)


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


def test_a_read_only_column_is_taken_without_a_copy_and_live_state_is_not():
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
    assert columns["kept"] is column
    assert columns["live"].tolist() == columns["view"].tolist() == [0.0] * 4


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
