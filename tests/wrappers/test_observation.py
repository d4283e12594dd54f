"""Observations on another scale, of another dtype, in part, or padded."""

from __future__ import annotations

import numpy as np
import pytest
from script_env import ScriptEnv, ends_after

from sekai.errors import InvalidObservation
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Sequence, Tuple
from sekai.wrappers import (
    AutoReset,
    DtypeObservation,
    FilterObservation,
    PadSequenceObservation,
    RescaleObservation,
)

INF = np.inf


class Showing(ScriptEnv):
    """Makes arrays of lists alone."""

    def _observe(self, value):
        return np.array(value, self.observation_space.dtype) if isinstance(value, list) else value


def shows(space, *observations):
    """An env whose episodes show some observations, of which the first is that of the reset."""
    steps = [(obs, 0.0, k == len(observations) - 1, False, {}) for k, obs in enumerate(observations)][1:]
    return Showing(steps or ends_after(1), space, first=observations[0])


# -- RescaleObservation ------------------------------------------------------------------------------------


def test_rescaled_observations(drive):
    space = Box(np.float32([0.0, -1.0]), np.float32([10.0, 1.0]))
    env = RescaleObservation(AutoReset(shows(space, [0.0, 1.0], [5.0, 0.0], [10.0, -1.0])), -1.0, [1.0, 3.0])
    assert env.observation_space == Box(np.float32([-1, -1]), np.float32([1, 3]))
    seen = [drive.reset(env), drive.step(env), drive.step(env)]
    assert [result.observation.tolist() for result in seen] == [[-1.0, 3.0], [0.0, 1.0], [-1.0, 3.0]]
    assert seen[2].info["final_observation"].tolist() == [1.0, -1.0]
    assert seen[0].observation.dtype == np.float32


def test_what_lies_outside_is_not_clipped():
    env = RescaleObservation(shows(Box(0.0, 1.0, (2,), np.float64), [2.0, np.nan], [-1.0, np.inf]), 0.0, 10.0)
    np.testing.assert_array_equal(env.reset().observation, [20.0, np.nan])
    np.testing.assert_array_equal(env.step(0).observation, [-10.0, np.inf])


def test_numbers_without_a_bound_are_moved_with_the_other_one():
    space = Box(np.float64([0, -INF, -INF]), np.float64([INF, 3, INF]), dtype=np.float64)
    env = RescaleObservation(shows(space, [2.0, 1.0, 7.0]), [1.0, -INF, -INF], [INF, 5.0, INF])
    assert env.reset().observation.tolist() == [3.0, 3.0, 7.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rescaled_observations_stay_in_the_space(dtype):
    low, high = np.array([0.1, -1e30, 0.3, 1e6], dtype), np.array([0.1, 1e30, 0.4, 1e6 + 1], dtype)
    space = Box(low, high, dtype=dtype)
    env = RescaleObservation(shows(space, low, high), [-0.1, 1.0, 1e6, -1e8], [0.7, 3.3, 1e6 + 1, 1e-8])
    assert env.reset().observation.tolist() == env.observation_space.low.tolist()
    assert env.step(0).observation in env.observation_space
    space.seed(0)
    for _ in range(200):
        assert env.observation(space.sample()) in env.observation_space


WRONG_BOUNDS = {
    "order": (1.0, 0.0, "expected min_obs < max_obs"),
    "same": (1.0, 1.0, "expected min_obs < max_obs"),
    "nan": (np.nan, 1.0, "expected bounds that are numbers"),
    "infinite": (-INF, 1.0, "infinite where those of the observation space are, and only there"),
    "shape": ([0.0, 0.0, 0.0], 1.0, r"expected bounds of shape \(2,\), got shape \(3,\)"),
}


@pytest.mark.parametrize("low, high, message", WRONG_BOUNDS.values(), ids=WRONG_BOUNDS)
def test_wrong_bounds(low, high, message):
    with pytest.raises(ValueError, match=f"^RescaleObservation: .*{message}"):
        RescaleObservation(shows(Box(0.0, 1.0, (2,)), [0.0, 0.0]), low, high)


LARGEST = np.finfo(np.float64).max


@pytest.mark.parametrize("bounds, new", [(LARGEST, 1.0), (1.0, LARGEST)], ids=["before", "after"])
def test_bounds_that_are_further_apart_than_any_number(bounds, new):
    env = shows(Box(-bounds, bounds, (1,), np.float64), [0.0])
    with pytest.raises(ValueError, match="^RescaleObservation: expected bounds whose distance is a number"):
        RescaleObservation(env, -new, new)


def test_a_bound_that_is_too_large_for_the_dtype():
    with pytest.raises(ValueError, match="infinite where those of the observation space are, and only there"):
        RescaleObservation(shows(Box(0.0, 1.0, (1,)), [0.0]), 0.0, 1e300)


@pytest.mark.parametrize("space", [Discrete(3), Box(0, 255, (2,), np.uint8)], ids=str)
def test_only_floats_are_rescaled(space):
    with pytest.raises(TypeError, match="^RescaleObservation: expected an observation space that is a Box of floats"):
        RescaleObservation(shows(space, space.sample()), 0, 1)


# -- DtypeObservation --------------------------------------------------------------------------------------

CASTS = {
    "box to integers": (Box(-2.5, 2.5, (2,)), np.int8, Box(-2, 2, (2,), np.int8), [-1.7, 2.4], [-1, 2]),
    "box without bounds": (Box(-INF, INF, (1,)), np.float64, Box(-INF, INF, (1,), np.float64), [0.5], [0.5]),
    "half a bound": (Box(0.0, INF, (1,)), np.int64, Box(0, INF, (1,), np.int64), [3.9], [3]),
    "to bools": (Box(0, 1, (2,), np.uint8), bool, Box(0, 1, (2,), bool), [0, 1], [False, True]),
    "discrete": (Discrete(3, start=-1), np.float32, Box(-1.0, 1.0, (), np.float32), -1, -1.0),
    "multi-discrete": (MultiDiscrete([2, 3]), np.int32, MultiDiscrete([2, 3], dtype=np.int32), [1, 2], [1, 2]),
    "multi-discrete to floats": (
        MultiDiscrete([2, 3], start=[1, 0]),
        np.float64,
        Box(np.float64([1, 0]), np.float64([2, 2]), dtype=np.float64),
        [2, 2],
        [2.0, 2.0],
    ),
    "multi-binary": (MultiBinary(2), np.float32, Box(0.0, 1.0, (2,)), [1, 0], [1.0, 0.0]),
}


@pytest.mark.parametrize("space, dtype, expected, obs, cast", CASTS.values(), ids=CASTS)
def test_another_dtype(drive, space, dtype, expected, obs, cast):
    obs = np.asarray(obs, space.dtype)
    env = DtypeObservation(AutoReset(shows(space, obs, obs)), dtype)
    assert env.observation_space == expected
    reset, step = drive.reset(env), drive.step(env)
    for shown in (reset.observation, step.observation, step.info["final_observation"]):
        assert shown in env.observation_space and shown.dtype == np.dtype(dtype)
        assert shown.tolist() == cast


@pytest.mark.parametrize(
    "space, dtype", [(Box(-1, 1, (1,)), np.uint8), (Box(0, 300, (1,)), np.int8), (Box(0, 2.0**63, (1,)), np.int64)]
)
def test_bounds_have_to_fit(space, dtype):
    with pytest.raises(ValueError, match=f"^DtypeObservation: expected bounds that fit {np.dtype(dtype)}, got"):
        DtypeObservation(shows(space, space.sample()), dtype)


#: Numbers of a dtype, an integer dtype, and whether it holds them; the bounds of the space do not tell.
FITS = {
    "above": (np.float32, np.int8, 128.0, False),
    "the largest": (np.float32, np.int8, 127.9, True),
    "below": (np.float64, np.int8, -129.0, False),
    "the least": (np.float64, np.int8, -128.9, True),
    "the least of all": (np.float64, np.int64, -(2.0**63), True),
    "above all": (np.float32, np.int64, 2.0**63, False),
    "infinite": (np.float32, np.int32, INF, False),
    "nan": (np.float32, np.int32, np.nan, False),
    "outside of the space": (np.int64, np.int16, 2**15, False),
    "no bool": (np.int64, np.bool_, 2, False),
    "less than a bool": (np.int64, np.bool_, -1, False),
    "beyond a half": (np.float32, np.float16, 3e38, False),
    "below a half": (np.float64, np.float16, -65520.0, False),
    "the greatest half": (np.float64, np.float16, 65504.0, True),
    "beyond a single": (np.float64, np.float32, -1e300, False),
    "an integer beyond a half": (np.int64, np.float16, 70000, False),
}


@pytest.mark.parametrize("held, dtype, number, fits", FITS.values(), ids=FITS)
def test_numbers_have_to_fit(held, dtype, number, fits):
    obs = np.array([0, number], held)
    space = Box(0, 1, (2,), held) if held is np.int64 else Box(-INF, INF, (2,), held)
    env = DtypeObservation(shows(space, obs), dtype)
    if fits:
        assert env.reset().observation.tolist() == [0, int(number)]
        return
    with pytest.raises(
        InvalidObservation, match=f"^DtypeObservation: expected numbers that fit {np.dtype(dtype)}, got"
    ):
        env.reset()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_infinities_and_nan_stay_floats(dtype):
    env = DtypeObservation(shows(Box(-INF, INF, (3,), np.float64), np.array([INF, np.nan, -INF])), dtype)
    np.testing.assert_array_equal(env.reset().observation, np.array([INF, np.nan, -INF], dtype))


def test_what_has_no_dtype():
    space = Dict(a=Discrete(2))
    with pytest.raises(TypeError, match="^DtypeObservation: expected an observation space that is a Box, Discrete,"):
        DtypeObservation(shows(space, {"a": 1}), np.int8)
    with pytest.raises(TypeError, match="^DtypeObservation dtype: expected bool, an integer or a float dtype, got "):
        DtypeObservation(shows(Discrete(2), 1), "text")


# -- FilterObservation -------------------------------------------------------------------------------------

NAMED = Dict(a=Discrete(2), b=Box(0.0, 1.0, (1,)), c=Dict(d=Discrete(3)))
PLACED = Tuple((Discrete(5), Discrete(6), Discrete(7)))


def test_some_of_a_dict(drive):
    first, last = ({"a": k, "b": np.float32([k]), "c": {"d": k}} for k in (0, 1))
    env = FilterObservation(AutoReset(shows(NAMED, first, last)), ("c", "a"))
    assert env.observation_space == Dict(a=NAMED["a"], c=NAMED["c"])
    assert drive.reset(env).observation == {"c": {"d": 0}, "a": 0}
    assert drive.step(env).info["final_observation"] == {"c": {"d": 1}, "a": 1}


def test_some_of_a_tuple_in_their_order(drive):
    env = FilterObservation(AutoReset(shows(PLACED, (1, 2, 3), (4, 5, 6))), [-1, 0])
    assert env.observation_space == Tuple((PLACED[2], PLACED[0]))
    assert drive.reset(env).observation == (3, 1)
    assert drive.step(env).info["final_observation"] == (6, 4)


WRONG_KEYS = {
    "none": (NAMED, [], ValueError, "expected different keys among .*, at least one"),
    "unknown": (NAMED, ["a", "z"], ValueError, r"expected different keys among \['a', 'b', 'c'\].*got \['a', 'z'\]"),
    "twice": (NAMED, ["a", "a"], ValueError, "expected different keys"),
    "one word": (NAMED, "abc", TypeError, "expected filter_keys in a list or tuple, got 'abc'"),
    "place": (PLACED, [3], ValueError, "expected different positions in a tuple of 3"),
    "place twice": (PLACED, [2, -1], ValueError, "expected different positions"),
    "no key": (NAMED, [["a"]], ValueError, "expected different keys among"),
    "name of a place": (PLACED, ["a"], TypeError, "filter_keys: expected an integer, got str"),
    "neither": (Discrete(2), ["a"], TypeError, "expected an observation space that is a Dict or a Tuple"),
}


@pytest.mark.parametrize("space, keys, error, message", WRONG_KEYS.values(), ids=WRONG_KEYS)
def test_wrong_keys(space, keys, error, message):
    with pytest.raises(error, match=f"^FilterObservation: .*{message}"):
        FilterObservation(shows(space, space.sample()), keys)


# -- PadSequenceObservation --------------------------------------------------------------------------------

ORDERS = Sequence(Box(0.0, 9.0, (2,)), max_length=3)


def test_padded_sequences(drive):
    first, last = (np.float32([1, 2]),), ()
    env = PadSequenceObservation(AutoReset(shows(ORDERS, first, last)))
    assert env.observation_space == MaskedBox(0.0, 9.0, (2,), max_size=3)
    shown = drive.reset(env).observation
    assert shown in env.observation_space
    assert shown["values"].tolist() == [[1, 2], [0, 0], [0, 0]] and shown["mask"].tolist() == [1, 0, 0]
    final = drive.step(env).info["final_observation"]
    assert final in env.observation_space and final["mask"].tolist() == [0, 0, 0]


def test_padded_within_containers_and_stacked():
    space = Dict(side=Discrete(2), book=Tuple((Sequence(Box(0, INF, (), np.int64), stack=True), Discrete(3))))
    env = PadSequenceObservation(shows(space, {"side": 1, "book": (np.array([4, 5]), 2)}), 4, fill_value=-1)
    padded = MaskedBox(0, INF, (), max_size=4, dtype=np.int64, fill_value=-1)
    assert env.observation_space == Dict(side=space["side"], book=Tuple((padded, Discrete(3))))
    shown = env.reset().observation
    assert shown in env.observation_space
    assert shown["book"][0]["values"].tolist() == [4, 5, -1, -1] and shown["book"][1] == 2 and shown["side"] == 1


def test_a_sequence_that_is_too_long():
    env = PadSequenceObservation(shows(Sequence(Box(0, 1, (1,))), (np.float32([0.5]),) * 3), max_length=2)
    with pytest.raises(InvalidObservation, match="^PadSequenceObservation: expected a sequence of at most 2, got one"):
        env.reset()


def test_features_outside_of_their_bounds_stay():
    features = np.float32([1, 20]), np.float32([np.nan, -1])
    shown = PadSequenceObservation(shows(ORDERS, features)).reset().observation
    np.testing.assert_array_equal(shown["values"], [[1, 20], [np.nan, -1], [0, 0]])
    assert shown["mask"].tolist() == [1, 1, 0]


NO_ELEMENTS = {
    "shape of a feature": (ORDERS, (np.float32([1, 2, 3]),), r"shape \(2,\), got shape \(3,\)"),
    "dtype of a feature": (ORDERS, (np.array([1j, 2]),), "dtype float32, got complex128"),
    "no sequence": (ORDERS, 7, "expected a sequence of Sequence.*, got int"),
    "missing key": (Dict(a=ORDERS, b=Discrete(2)), {"a": ()}, r"a dict of \['a', 'b'\], got a dict of \['a'\]"),
    "missing part": (Tuple((ORDERS, Discrete(2))), ((),), "a tuple of 2, got a tuple of 1"),
    "another part": (Dict(a=ORDERS, b=Discrete(2)), {"a": (), "b": 0.5}, "dtype int64, got float64"),
}


@pytest.mark.parametrize("space, obs, message", NO_ELEMENTS.values(), ids=NO_ELEMENTS)
def test_what_is_no_element_is_not_padded(space, obs, message):
    with pytest.raises(InvalidObservation, match=message):
        PadSequenceObservation(shows(space, obs)).reset()


def test_what_cannot_be_padded():
    with pytest.raises(TypeError, match="^PadSequenceObservation: expected an observation space with a Sequence"):
        PadSequenceObservation(shows(NAMED, NAMED.sample()))
    with pytest.raises(TypeError, match="^PadSequenceObservation: expected sequences of Box features"):
        PadSequenceObservation(shows(Sequence(Discrete(2)), ()), 3)
    with pytest.raises(ValueError, match="^PadSequenceObservation: expected a max_length"):
        PadSequenceObservation(shows(Sequence(Box(0, 1, (1,))), ()))
