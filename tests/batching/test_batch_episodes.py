"""What finished sub-envs look like: the same episodes through both forms of the rule, then its single clauses."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces_catalogue import draw as draw_element
from spaces_catalogue import each_space, spaces

from sekai.batching.episodes import EndedBatch, HeldRows, MaskEpisodes, RowEpisode, ended_info, resets_itself
from sekai.batching.layout import concatenate, copy_batch, iterate, put, take
from sekai.results import StepResult
from sekai.spaces import Box, Dict, Discrete, Sequence, Space, Tuple

BOX1 = Box(-np.inf, np.inf, (1,), np.float64)
seeded = settings(derandomize=True, deadline=None, max_examples=60, database=None)

#: How an episode ends: (terminated, truncated).
ENDS = [(True, False), (False, True), (True, True)]
#: Length and end of one episode.
Episode = tuple[int, tuple[bool, bool]]


class Script:
    """One sub-env: its episodes over and over, in which every value is new."""

    def __init__(self, space: Space[Any], row: int, episodes: list[Episode]) -> None:
        self.space = space
        self.values = itertools.count(1000 * row)
        self.episodes = itertools.cycle(episodes)

    def reset(self) -> tuple[Any, dict[str, Any]]:
        self.length, self.end = next(self.episodes)
        self.steps = 0
        value = next(self.values)
        return draw_element(self.space, value), {"number": -value, "start": f"from {value}"}

    def step(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        value = next(self.values)
        info = {
            "number": value / 2,
            "text": "x" * (value % 4),
            "vector": np.array([value, -value]),
            "object": {"list": [value]},
        }
        terminated, truncated = self.end if self.steps == self.length else (False, False)
        return draw_element(self.space, value), value / 4, terminated, truncated, info


def columns_of(infos: list[dict[str, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    columns = {key: [info[key] for info in infos] for key in infos[0]}
    return {key: objects(values) if key == "object" else np.array(values) for key, values in columns.items()}


def objects(values: list[Any]) -> np.ndarray[Any, Any]:
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def shown(step: StepResult[Any]) -> tuple[Any, ...]:
    return step.observation, step.reward, step.terminated, step.truncated, step.info


class Rows:
    """The rule row by row, driven as a backend of single environments drives it."""

    def __init__(self, space: Space[Any], scripts: list[Script], autoreset: bool) -> None:
        self.scripts = scripts
        self.episodes = [RowEpisode(space, row, autoreset) for row in range(len(scripts))]

    def reset(self) -> None:
        for script, episode in zip(self.scripts, self.episodes, strict=True):
            script.reset()
            episode.begin()

    def step(self) -> list[tuple[Any, ...]]:
        return [self._step(*pair) for pair in zip(self.scripts, self.episodes, strict=True)]

    def _step(self, script: Script, episode: RowEpisode) -> tuple[Any, ...]:
        if episode.frozen:
            return shown(episode.repeat())
        step = StepResult(*script.step())
        if not step.done:
            return shown(step)
        if episode.end(step):
            episode.restart(*script.reset())
        return shown(episode.outcome)

    @property
    def frozen(self) -> list[bool]:
        return [episode.frozen for episode in self.episodes]


class Mask:
    """The rule on batches, driven as a backend of arrays drives it."""

    def __init__(self, space: Space[Any], scripts: list[Script], autoreset: bool) -> None:
        self.space, self.scripts, self.autoreset = space, scripts, autoreset
        self.episodes = MaskEpisodes(len(scripts), autoreset)

    def reset(self) -> None:
        for script in self.scripts:
            script.reset()
        self.episodes.begin()

    def step(self) -> list[tuple[Any, ...]]:
        n, frozen = len(self.scripts), self.episodes.frozen
        no_info = {"number": -1.0, "text": "?", "vector": np.zeros(2, int), "object": {}}
        garbage = (draw_element(self.space, 10**6), 99.0, False, True, no_info)
        rows = [garbage if frozen[i] else script.step() for i, script in enumerate(self.scripts)]
        elements, rewards, terminated, truncated, infos = map(list, zip(*rows, strict=True))
        rewards, terminated, truncated = np.array(rewards), np.array(terminated), np.array(truncated)
        ended = self.episodes.freeze_step(rewards, terminated, truncated)
        reset = None
        if self.autoreset and ended.size:
            final = take(concatenate(self.space, elements), ended)
            reset_infos = []
            for row in ended.tolist():
                elements[row], info = self.scripts[row].reset()
                reset_infos.append(info)
            reset = EndedBatch(self.space, final, columns_of(reset_infos))
        dicts = self.episodes.infos(columns_of(infos), ended, reset)
        observations = concatenate(self.space, elements)
        self.episodes.freeze_observations(observations)
        return list(zip(iterate(self.space, observations, n), rewards, terminated, truncated, dicts, strict=True))

    @property
    def frozen(self) -> list[bool]:
        return self.episodes.frozen.tolist()


def run_both(space: Space[Any], rows: list[list[Episode]], autoreset: bool, resets: list[bool]) -> None:
    """Feed the same episodes to both and compare what they show at every step."""
    row_by_row, masked = (
        form(space, [Script(space, row, episodes) for row, episodes in enumerate(rows)], autoreset)
        for form in (Rows, Mask)
    )
    row_by_row.reset()
    masked.reset()
    for reset in resets:
        if reset:
            row_by_row.reset()
            masked.reset()
        assert row_by_row.frozen == masked.frozen
        for expected, got in zip(row_by_row.step(), masked.step(), strict=True):
            np.testing.assert_equal(got[:4], expected[:4])
            assert list(got[4]) == list(expected[4])
            np.testing.assert_equal(got[4], expected[4])
        assert row_by_row.frozen == masked.frozen


EPISODES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(ENDS)), min_size=1, max_size=3)


@given(
    spaces(max_leaves=4),
    st.lists(EPISODES, min_size=1, max_size=5),
    st.booleans(),
    st.lists(st.sampled_from([False, False, False, True]), min_size=1, max_size=10),
)
@seeded
def test_both_forms_of_the_rule_agree_on_generated_episodes(space, rows, autoreset, resets):
    run_both(space, rows, autoreset, resets)


@each_space
@pytest.mark.parametrize("autoreset", [True, False])
def test_both_forms_of_the_rule_agree_in_every_space(space, autoreset):
    rows = [[(1, ENDS[0]), (2, ENDS[2])], [(3, ENDS[1])], [(6, ENDS[2])]]
    run_both(space, rows, autoreset, [False] * 7 + [True] + [False] * 3)


# -- autoreset ---------------------------------------------------------------------------------------------


def one_row(space: Space[Any], autoreset: bool) -> RowEpisode:
    episode = RowEpisode(space, 0, autoreset)
    episode.begin()
    return episode


def masked_step(
    episodes: MaskEpisodes,
    observations: Any,
    terminated: list[bool],
    infos: dict[str, Any],
    start: Any = None,
    reset_infos: dict[str, Any] | None = None,
) -> tuple[Any, Any, Any, Any, Any]:
    """One step of a batch; with autoreset, ended rows begin again at ``start``."""
    n = len(terminated)
    rewards, flags, truncated = np.ones(n), np.array(terminated), np.zeros(n, bool)
    ended = episodes.freeze_step(rewards, flags, truncated)
    reset = None
    if episodes.autoreset and ended.size:
        reset = EndedBatch(BOX1, take(observations, ended), reset_infos or {})
        observations = copy_batch(observations)
        observations[ended] = start
    infos = episodes.infos(infos, ended, reset)
    episodes.freeze_observations(observations)
    return observations, rewards, flags, truncated, infos


def test_own_keys_with_the_names_of_the_rule_survive_in_final_info_only():
    """Case 1.5: neither info replaces the other, and the reset's is never merged into the top level."""
    step, reset = {"why": "win", "final_info": "mine", "reset_info": 3}, {"why": "new", "reset_info": 7}
    expected = {"why": "win", "final_info": step, "reset_info": reset}

    episode = one_row(BOX1, autoreset=True)
    assert episode.end(StepResult([1.0], 1.0, True, False, step))
    episode.restart([0.0], reset)
    by_row = episode.outcome.info

    columns = {key: np.array([value]) for key, value in step.items()}
    reset_columns = {key: np.array([value]) for key, value in reset.items()}
    by_mask = masked_step(MaskEpisodes(1, True), np.array([[1.0]]), [True], columns, np.array([0.0]), reset_columns)[4][
        0
    ]

    for info in (by_row, by_mask):
        np.testing.assert_array_equal(info.pop("final_observation"), [1.0])
        assert info == expected


def test_a_native_column_named_like_the_terminal_observation_survives_in_final_info():
    columns = {"final_observation": np.array([5, 6])}
    infos = masked_step(MaskEpisodes(2, True), np.array([[1.0], [2.0]]), [True, False], columns, np.zeros(1))[4]
    np.testing.assert_array_equal(infos[0]["final_observation"], [1.0])
    assert infos[0]["final_info"] == {"final_observation": 5}
    assert infos[1] == {"final_observation": 6}


def test_terminal_data_are_those_before_the_reset_however_the_env_reuses_its_arrays():
    """Case 1.1: one buffer and one dict for every return."""
    buffer, info = np.zeros(1), {"k": 0, "nested": {"array": np.zeros(1)}}

    def write(value: float) -> None:
        buffer[0] = info["k"] = info["nested"]["array"][0] = value

    episode = one_row(BOX1, autoreset=True)
    write(2)
    assert episode.end(StepResult(buffer, 1.0, True, False, info))
    write(-1)
    episode.restart(buffer, info)
    observation, reward, terminated, truncated, merged = shown(episode.outcome)
    kept = copy.deepcopy(merged)
    assert (observation[0], reward, terminated, truncated) == (-1.0, 1.0, True, False)
    write(9)
    np.testing.assert_equal(merged, kept)
    np.testing.assert_array_equal(merged["final_observation"], [2.0])
    assert merged["k"] == merged["final_info"]["k"] == 2
    assert merged["nested"]["array"] == merged["final_info"]["nested"]["array"] == 2
    assert merged["reset_info"]["k"] == merged["reset_info"]["nested"]["array"] == -1


@pytest.mark.parametrize("autoreset", [True, False])
@pytest.mark.parametrize("terminated, truncated", ENDS)
def test_a_sub_env_that_resets_itself_is_neither_reset_again_nor_frozen(autoreset, terminated, truncated):
    own = {"final_observation": np.array([5.0]), "final_info": {"k": 1}, "reset_info": {}, "k": 1}
    episode = one_row(BOX1, autoreset)
    kept = copy.deepcopy(own)
    assert not episode.end(StepResult([0.0], 1.0, terminated, truncated, own))
    assert not episode.frozen
    assert shown(episode.outcome)[:4] == ([0.0], 1.0, terminated, truncated)
    np.testing.assert_equal(episode.outcome.info, kept)


def test_resets_itself_looks_for_the_terminal_observation():
    assert resets_itself({"final_observation": None})
    assert not resets_itself({"final_info": {}, "reset_info": {}})


def test_ended_info_leaves_the_infos_it_is_made_of_alone():
    step, reset = {"a": 1}, {"b": 2}
    info = ended_info(step, 5, reset)
    assert info == {"a": 1, "final_observation": 5, "final_info": {"a": 1}, "reset_info": {"b": 2}}
    assert step == {"a": 1} and reset == {"b": 2}


@each_space
def test_terminal_observations_are_elements_of_the_space(space):
    final = draw_element(space, 3)
    episode = one_row(space, autoreset=True)
    assert episode.end(StepResult(final, 1.0, True, False, {}))
    episode.restart(draw_element(space, 4), {})
    rows = EndedBatch(space, concatenate(space, [draw_element(space, 2), final]), {})
    for info in (episode.outcome.info, rows.apply({}, 1)):
        assert space.contains(info["final_observation"])
        np.testing.assert_equal(info["final_observation"], final)


# -- ended rows of a batch ---------------------------------------------------------------------------------


def test_ended_rows_show_their_own_values_as_copies():
    observations, column = np.array([[1.0], [2.0]]), np.array([[7], [8]])
    rows = EndedBatch(BOX1, observations, {"start": column})
    info = rows.apply({"k": 1}, 1)
    np.testing.assert_equal(
        info,
        {"k": 1, "final_observation": np.array([2.0]), "final_info": {"k": 1}, "reset_info": {"start": np.array([8])}},
    )
    info["final_observation"][0] = info["reset_info"]["start"][0] = 99
    assert observations[1] == 2.0 and column[1] == 8


def test_ended_rows_give_whole_columns():
    observations, columns = np.array([[1.0], [2.0]]), {"start": np.array([7, 8])}
    rows = EndedBatch(BOX1, observations, columns)
    np.testing.assert_array_equal(rows.final("final_observation"), observations)
    np.testing.assert_equal(rows.final("reset_info"), columns)
    for key in ("final_info", "start"):
        with pytest.raises(KeyError, match=key):
            rows.final(key)


def test_replaced_terminal_observations_keep_the_rest():
    rows = EndedBatch(BOX1, np.array([[1.0]]), {"start": np.array([7])})
    replaced = rows.replace_observations(Discrete(5), np.array([3]))
    assert replaced.apply({}, 0) == {"final_observation": 3, "final_info": {}, "reset_info": {"start": 7}}
    np.testing.assert_array_equal(rows.final("final_observation"), [[1.0]])


# -- freezing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminated, truncated", ENDS)
def test_a_finished_row_shows_its_end_until_the_next_reset(terminated, truncated):
    buffer = np.array([5.0])
    episode = one_row(BOX1, autoreset=False)
    info = {"k": 1}
    assert not episode.end(StepResult(buffer, 2.0, terminated, truncated, info))
    assert episode.frozen
    buffer[0] = info["k"] = 99
    assert shown(episode.outcome) == ([5.0], 2.0, terminated, truncated, {"k": 1})
    for _ in range(3):
        observation, *rest = shown(episode.repeat())
        np.testing.assert_array_equal(observation, [5.0])
        assert rest == [0.0, terminated, truncated, {}]
        rest[3]["written"] = 1
    episode.begin()
    assert not episode.frozen


def test_a_row_freezes_again_in_the_next_episode():
    episode = one_row(BOX1, autoreset=False)
    for value in (1.0, 2.0):
        assert not episode.end(StepResult([value], 1.0, True, False, {}))
        assert episode.frozen
        assert episode.repeat().observation == [value]
        episode.begin()


def test_nothing_computed_for_frozen_rows_of_a_batch_shows():
    episodes = MaskEpisodes(3, autoreset=False)
    k = {"k": np.arange(3)}
    first = masked_step(episodes, np.array([[1.0], [2.0], [3.0]]), [True, False, False], k)
    assert first[4] == [{"k": 0}, {"k": 1}, {"k": 2}]
    assert first[4].done.tolist() == [0]
    second = masked_step(episodes, np.full((3, 1), 7.0), [False, False, True], k)
    np.testing.assert_array_equal(second[0], [[1.0], [7.0], [7.0]])
    assert second[1].tolist() == [0.0, 1.0, 1.0]
    assert second[2].tolist() == [True, False, True]
    assert second[4] == [{}, {"k": 1}, {"k": 2}]
    assert second[4].done.tolist() == [2]
    third = masked_step(episodes, np.full((3, 1), 9.0), [False, False, False], k)
    np.testing.assert_array_equal(third[0], [[1.0], [9.0], [7.0]])
    assert third[2].tolist() == [True, False, True]
    assert third[4] == [{}, {"k": 1}, {}]
    assert third[4].done.tolist() == []
    episodes.begin()
    assert not episodes.frozen.any()
    fourth = masked_step(episodes, np.full((3, 1), 4.0), [False, False, False], k)
    np.testing.assert_array_equal(fourth[0], np.full((3, 1), 4.0))
    assert fourth[4] == [{"k": 0}, {"k": 1}, {"k": 2}]


def test_what_a_step_returned_never_changes_afterwards():
    episodes = MaskEpisodes(2, autoreset=False)
    k = {"k": np.arange(2)}
    results = []
    for terminated in ([True, False], [False, False], [False, True], [False, False]):
        observations = np.full((2, 1), float(len(results)))
        result = (*masked_step(episodes, observations, terminated, k)[:4], episodes.frozen)
        results.append((result, copy.deepcopy(result)))
    episodes.begin()
    for result, kept in results:
        np.testing.assert_equal(result, kept)


def test_writing_into_a_result_does_not_change_what_frozen_rows_show():
    episodes = MaskEpisodes(1, autoreset=False)
    for _ in range(3):
        observations, rewards, terminated, truncated, _ = masked_step(episodes, np.full((1, 1), 5.0), [True], {})
        assert (observations[0, 0], terminated[0], truncated[0]) == (5.0, True, False)
        observations[...], rewards[...], terminated[...], truncated[...] = 0, 9, False, True


def test_with_autoreset_nothing_freezes():
    episodes = MaskEpisodes(2, autoreset=True)
    for _ in range(2):
        masked_step(episodes, np.ones((2, 1)), [True, False], {}, np.zeros(1))
        assert not episodes.frozen.any()


HELD_SPACES = [
    BOX1,
    Discrete(9),
    Dict(a=BOX1, b=Tuple([Discrete(9)])),
    Sequence(Discrete(9)),
    Dict(a=Sequence(BOX1), b=Discrete(9)),
]


@pytest.mark.parametrize("space", HELD_SPACES, ids=repr)
def test_held_rows_are_shown_whatever_was_computed(space):
    def batch(*seeds: int) -> Any:
        return concatenate(space, [draw_element(space, seed) for seed in seeds])

    nobody, first_row, outer_rows = (np.array(mask, bool) for mask in ([0, 0, 0], [1, 0, 0], [1, 0, 1]))
    held = HeldRows()

    def shown_for(observations: Any, before: Any, now: Any) -> Any:
        held.show(observations, before, now)
        return observations

    np.testing.assert_equal(shown_for(batch(0, 1, 2), nobody, nobody), batch(0, 1, 2))
    first = shown_for(batch(3, 4, 5), nobody, first_row)
    np.testing.assert_equal(first, batch(3, 4, 5))
    np.testing.assert_equal(shown_for(batch(6, 7, 8), first_row, outer_rows), batch(3, 7, 8))
    np.testing.assert_equal(shown_for(batch(9, 10, 11), outer_rows, outer_rows), batch(3, 10, 8))
    np.testing.assert_equal(first, batch(3, 4, 5))
    held.release()
    np.testing.assert_equal(shown_for(batch(12, 13, 14), nobody, nobody), batch(12, 13, 14))
    np.testing.assert_equal(shown_for(batch(15, 16, 17), nobody, first_row), batch(15, 16, 17))
    np.testing.assert_equal(shown_for(batch(18, 19, 20), first_row, first_row), batch(15, 19, 20))


def test_a_row_that_froze_unseen_shows_what_comes_first_and_is_held_from_then_on():
    held = HeldRows()
    one, both = np.array([True, False]), np.array([True, True])
    held.show(np.array([[1.0], [1.0]]), np.array([False, False]), one)
    for value in (2.0, 3.0):
        observations = np.full((2, 1), value)
        held.show(observations, both, both)
        np.testing.assert_array_equal(observations, [[1.0], [2.0]])


def test_a_row_that_began_a_new_episode_meanwhile_shows_it():
    """A reset that went past the holder: the row ends again in the very next step."""
    held = HeldRows()
    nobody, everybody = np.array([False]), np.array([True])
    held.show(np.array([[1.0]]), nobody, everybody)
    again = np.array([[2.0]])
    held.show(again, nobody, everybody)
    np.testing.assert_array_equal(again, [[2.0]])
    later = np.array([[3.0]])
    held.show(later, everybody, everybody)
    np.testing.assert_array_equal(later, [[2.0]])


@pytest.mark.parametrize("space", HELD_SPACES, ids=repr)
def test_held_rows_do_not_change_with_the_batch_they_came_from(space):
    batch = concatenate(space, [draw_element(space, 0)])
    held = HeldRows()
    held.show(batch, np.array([False]), np.array([True]))
    put(batch, np.array([0]), concatenate(space, [draw_element(space, 1)]))
    held.show(batch, np.array([True]), np.array([True]))
    np.testing.assert_equal(batch, concatenate(space, [draw_element(space, 0)]))
