"""Cases 4.x and 6.x: observations and infos on their way out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from backends import (
    KINDS,
    PROCS,
    assert_same,
    both_modes,
    error,
    everywhere,
    make,
    on_rows,
    on_rows_once,
    scribble,
    scripted,
)
from case_envs import NUMBERED, Numbered
from toys import BOX1, INF, NCount, T, Toy, Z

from sekai import (
    Box,
    Dict,
    Discrete,
    InvalidObservation,
    MaskedBox,
    MultiDiscrete,
    NativeVecEnv,
    Sequence,
    Tuple,
    VecDelayAction,
    VecDelayObservation,
    VecFrameStackObservation,
    VecNormalizeObservation,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecTransformObservation,
    VecTransformReward,
    stack_infos,
)
from sekai.batching import layout


class NativeNumbered(NativeVecEnv):
    """The same as arrays; everything it returns is live state."""

    def __init__(self, *lengths, **kwargs):
        super().__init__(len(lengths), NUMBERED, Discrete(2), **kwargs)
        n = len(lengths)
        self.lengths = np.array(lengths)
        self.k = np.zeros(n, int)
        self.obs = {"a": np.zeros((n, 2), np.float32), "t": (self.k, np.zeros((n, 1), np.float32))}
        self.rewards, self.ended, self.never = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool)
        self.info = np.empty(n, object)
        self.info[:] = [{"k": np.zeros(1)} for _ in lengths]

    def show(self):
        self.obs["a"][:] = self.obs["t"][1][:] = self.k[:, None]
        for info, k in zip(self.info, self.k, strict=True):
            info["k"][:] = k

    def _reset_envs(self, indices, options):
        self.k[indices] = 0
        self.show()

    def _reset_infos(self, indices):
        return {"deep": self.info[indices]}

    def _observe(self):
        return self.obs

    def _step(self, actions):
        self.k += ~self.frozen
        self.show()
        self.rewards[:], self.ended[:] = self.k, self.k >= self.lengths
        return self.rewards, self.ended, self.never, {"deep": self.info}


def numbered_vec(backend, *lengths, **kwargs):
    if backend == "native":
        return NativeNumbered(*lengths, **kwargs)
    return make(backend, [lambda length=length: Numbered(length) for length in lengths], **kwargs)


def remembered(v):
    """Wrappers that keep what they are given for some steps."""
    stacked = VecFrameStackObservation(v, 2) if layout.has_fixed_layout(v.observation_space) else v
    return VecDelayAction(VecDelayObservation(stacked, 1), 1)


WRAPPERS = {
    "bare": lambda v: v,
    "statistics": VecRecordEpisodeStatistics,
    "normalize_observation": VecNormalizeObservation,
    "normalize_reward": VecNormalizeReward,
    "transform_observation": lambda v: VecTransformObservation(v, lambda obs: obs),
    "remembered": remembered,
    "transform_reward": lambda v: VecTransformReward(v, lambda rewards: rewards),
    "all": lambda v: VecNormalizeReward(VecNormalizeObservation(VecRecordEpisodeStatistics(v))),
}


#: On every backend; with all wrappers only where no worker has to start for it.
every_wrapper = pytest.mark.parametrize(
    "backend, wrap",
    [
        pytest.param(backend, wrap, id=f"{backend}-{name}")
        for backend in KINDS
        for name, wrap in WRAPPERS.items()
        if backend not in PROCS or name in ("bare", "all")
    ],
)


# -- 4.1 ---------------------------------------------------------------------------------------------------


@every_wrapper
@both_modes
def test_4_1_results_do_not_change_at_the_next_step(backend, autoreset, wrap):
    with wrap(numbered_vec(backend, 2, 3, 9, autoreset=autoreset)) as v:
        kept = [v.reset(), *(v.step(Z(v)) for _ in range(2))]
        copies = copy.deepcopy(kept)
        for _ in range(4):
            kept.append(v.step(Z(v)))
            copies.append(copy.deepcopy(kept[-1]))
        v.reset()
        v.step(Z(v))
        assert_same(copies, kept)


@every_wrapper
@both_modes
def test_4_1_writing_into_a_result_changes_no_later_one(backend, autoreset, wrap):
    with (
        wrap(numbered_vec(backend, 2, 3, 9, autoreset=autoreset)) as v,
        wrap(numbered_vec(backend, 2, 3, 9, autoreset=autoreset)) as untouched,
    ):
        pairs = [(untouched.reset(), v.reset())]
        for _ in range(8):
            scribble(pairs[-1][1])
            pairs.append((untouched.step([0] * 3), v.step([0] * 3)))
            expected, got = pairs[-1]
            for name in ("observations", "rewards", "terminated", "truncated"):
                assert_same(getattr(expected, name), getattr(got, name), name)
            assert_same(without_times(expected.infos), without_times(got.infos), "infos")


def without_times(infos):
    return [{key: item for key, item in info.items() if key != "episode"} for info in infos]


@everywhere
def test_4_1_no_two_results_share_memory(backend):
    with numbered_vec(backend, 2, 9) as v:
        results = [v.reset(), *(v.step(Z(v)) for _ in range(3))]
        arrays = [
            [
                r.observations["a"],
                *r.observations["t"],
                *(getattr(r, n, np.empty(0)) for n in ("rewards", "terminated")),
            ]
            for r in results
        ]
        for i, left in enumerate(arrays):
            for right in arrays[i + 1 :]:
                assert not any(np.shares_memory(a, b) for a in left for b in right)


@everywhere
def test_4_1_the_final_observation_is_not_a_view_of_the_batch(backend):
    with scripted(backend, T(1), T(1)) as v:
        v.reset()
        r = v.step(Z(v))
        r.observations[:] = 5.0
        r.infos[0]["final_observation"][:] = 6.0
        assert r.infos[1]["final_observation"].tolist() == [1.0]
        r = v.step(Z(v))
        assert r.observations.tolist() == [[0.0], [0.0]]


# -- 4.3 ---------------------------------------------------------------------------------------------------


@everywhere
def test_4_3_the_parts_of_tuples_and_dicts_stay_in_order(backend):
    space = Tuple((Discrete(3), Discrete(4)))
    scripts = [[((i, i + 1), 0.0, True, False, {})] for i in range(2)]
    with scripted(backend, *scripts, obs=space, r0=(2, 3)) as v:
        v.reset()
        r = v.step(Z(v))
        assert isinstance(r.observations, tuple)
        assert [part.tolist() for part in r.observations] == [[2, 2], [3, 3]]
        finals = [info["final_observation"] for info in r.infos]
        assert finals == [(0, 1), (1, 2)]
        assert all(isinstance(final, tuple) for final in finals)
    with scripted(backend, *scripts, obs=space, r0=(2, 3), autoreset=False) as v:
        v.reset()
        for _ in range(3):
            observations = v.step(Z(v)).observations
            assert isinstance(observations, tuple)
            assert [part.tolist() for part in observations] == [[0, 1], [1, 2]]


@everywhere
def test_4_3_a_dict_in_another_order_is_the_same_dict(backend):
    space = Dict({"z": Discrete(9), "a": Discrete(9)})
    script = [({"a": 1, "z": 2}, 0.0, False, False, {})] * 2
    with scripted(backend, script, script, obs=space, r0={"z": 3, "a": 4}) as v:
        first, then = v.reset().observations, v.step(Z(v)).observations
        assert list(first) == list(then) == list(space) == list(v.batch_observation_space)
        assert {key: part.tolist() for key, part in then.items()} == {"z": [2, 2], "a": [1, 1]}


# -- 4.5 ---------------------------------------------------------------------------------------------------

ZERO = {
    "dict": (Dict({"e": Box(0, 1, (0,)), "x": BOX1}), {"e": np.zeros(0, np.float32), "x": np.ones(1)}),
    "alone": (Box(0, 1, (0, 3)), np.zeros((0, 3), np.float32)),
    "inner": (Box(0, 1, (3, 0)), np.zeros((3, 0), np.float32)),
    "empty_dict": (Dict({}), {}),
    "empty_tuple": (Tuple(()), ()),
    "empty_inside": (Tuple((Dict({}), Discrete(2))), ({}, 1)),
    "sequence_of_none": (Sequence(Discrete(2), max_length=3), ()),
}


@every_wrapper
@both_modes
@pytest.mark.parametrize("space, value", ZERO.values(), ids=ZERO)
def test_4_5_zero_size_spaces(backend, autoreset, wrap, space, value):
    scripts = [[(value, 1.0, k == n, False, {}) for k in range(1, n + 1)] for n in (1, 3)]
    v = wrap(scripted(backend, *scripts, obs=space, r0=value, autoreset=autoreset))
    batch = [v.reset().observations] + [v.step(Z(v)).observations for _ in range(5)]
    v.close()
    for observations in batch:
        assert v.batch_observation_space.contains(observations)
    if isinstance(space, Box):
        assert all(observations.shape == (2, *v.observation_space.shape) for observations in batch)


@everywhere
def test_4_5_the_shapes_of_the_case(backend):
    space = Dict({"e": Box(0, 1, (0,)), "x": BOX1})
    script = [({"e": [], "x": [1.0]}, 0.0, False, False, {})]
    with scripted(backend, script, script, obs=space, r0={"e": np.zeros(0), "x": [0.0]}) as v:
        assert v.reset().observations["e"].shape == (2, 0)
        observations = v.step(Z(v)).observations
        assert observations["e"].shape == (2, 0)
        assert observations["x"].tolist() == [[1.0], [1.0]]


# -- 4.6 ---------------------------------------------------------------------------------------------------

BOX3 = Box(-INF, INF, (3,), np.float64)
WRONG = {
    "one": (BOX3, [0, 0, 0], np.array([5.0]), r"\(3,\).*\(1,\)"),
    "column": (BOX3, [0, 0, 0], np.zeros((3, 1)), r"\(3,\).*\(3, 1\)"),
    "row": (BOX3, [0, 0, 0], np.zeros((1, 3)), r"\(3,\).*\(1, 3\)"),
    "scalar": (BOX3, [0, 0, 0], 5.0, r"\(3,\).*\(\)"),
    "none": (BOX3, [0, 0, 0], None, r"\(3,\).*\(\)"),
    "nothing": (BOX3, [0, 0, 0], [], r"\(3,\).*\(0,\)"),
    "ragged": (BOX3, [0, 0, 0], [0, [0, 1], 0], r"\(3,\)"),
    "strings": (BOX3, [0, 0, 0], ["a", "b", "c"], "float64"),
    "discrete_array": (Discrete(3), 0, np.array([1]), r"\(\).*\(1,\)"),
    "discrete_float": (Discrete(3), 0, 1.0, "int64.*float64"),
    "uint8_float": (Box(0, 255, (2,), np.uint8), [0, 0], np.array([0.5, 1]), "uint8.*float64"),
    "uint8_overflow": (Box(0, 255, (2,), np.uint8), [0, 0], np.array([0, 256]), "uint8"),
    "dict_in_a_leaf": (Dict({"a": BOX3}), {"a": [0, 0, 0]}, {"a": [5.0]}, r"\(3,\).*\(1,\)"),
    "dict_key_missing": (Dict({"a": BOX3}), {"a": [0, 0, 0]}, {}, "a"),
    "dict_key_too_many": (Dict({"a": BOX3}), {"a": [0, 0, 0]}, {"a": [0, 0, 0], "b": 1}, "b"),
    "dict_is_an_array": (Dict({"a": BOX3}), {"a": [0, 0, 0]}, np.zeros(3), "dict"),
    "tuple_too_short": (Tuple((BOX3, BOX1)), ([0, 0, 0], [0]), (np.zeros(3),), "tuple of 2"),
    "masked_without_mask": (
        MaskedBox(0, 1, (), max_size=2),
        {"values": [0, 0], "mask": [0, 0]},
        {"values": [0, 0]},
        "mask",
    ),
    "sequence_is_a_number": (Sequence(Discrete(3)), (), 1, "sequence"),
    "sequence_item": (Sequence(BOX3), (), ([0.0],), r"\(3,\).*\(1,\)"),
}


@on_rows_once
@both_modes
@pytest.mark.parametrize("case", WRONG)
def test_4_6_a_wrong_observation_is_refused_and_named(backend, autoreset, case):
    space, right, wrong, message = WRONG[case]
    good = [(right, 0.0, False, False, {})] * 4
    bad = [good[0], (wrong, 0.0, False, False, {}), *good]
    with scripted(backend, good, bad, obs=space, r0=right, autoreset=autoreset) as v:
        v.reset()
        v.step(Z(v))
        with pytest.raises(error(backend, InvalidObservation), match=rf"sub-env 1: .*{message}"):
            v.step(Z(v))
        v.step(Z(v))  # usable afterwards
        v.reset()


@on_rows_once
@pytest.mark.parametrize("case", WRONG)
def test_4_6_in_a_reset_too(backend, case):
    space, right, wrong, message = WRONG[case]
    env_fns = [lambda: Toy(T(1), obs=space, r0=right), lambda: Toy(T(1), obs=space, r0=wrong)]
    with make(backend, env_fns) as v:
        with pytest.raises(error(backend, InvalidObservation), match=rf"sub-env 1: .*{message}"):
            v.reset()


@pytest.mark.parametrize(
    "wrong, message",
    [
        (np.zeros((2, 1)), r"\(2, 3\).*\(2, 1\)"),
        (np.zeros((3, 3)), r"\(2, 3\).*\(3, 3\)"),
        (np.zeros((2, 3, 1)), r"\(2, 3\).*\(2, 3, 1\)"),
        (np.zeros(3), r"\(2, 3\).*\(3,\)"),
        (None, r"\(2, 3\).*\(\)"),
        (np.full((2, 3), "a"), "float64"),
    ],
    ids=["column", "too_many", "extra_axis", "no_axis", "none", "strings"],
)
def test_4_6_a_native_batch_of_another_shape(wrong, message):
    class Wrong(NCount):
        def _observe(self):
            return wrong if self.c.any() else np.zeros((2, 3))

    v = Wrong([9, 9])
    v.observation_space = BOX3
    with v:
        v.reset()
        with pytest.raises(InvalidObservation, match=rf"Wrong._observe\(\): .*{message}"):
            v.step(Z(v))


@everywhere
def test_4_6_same_kind_casts_are_made(backend):
    space = Box(-INF, INF, (1,), np.float32)
    script = [(np.array([0.1]), 0.0, False, False, {}), ([1], 0.0, True, False, {})]
    with scripted(backend, script, obs=space, r0=np.zeros(1)) as v:
        assert v.reset().observations.dtype == np.float32
        r = v.step(Z(v))
        assert r.observations.dtype == np.float32
        assert r.observations[0, 0] == np.float32(0.1)
        final = v.step(Z(v)).infos[0]["final_observation"]
        assert final.dtype == np.float32


@on_rows
@pytest.mark.parametrize("reward", [None, "a", np.zeros(2), [1.0, 2.0], object], ids=repr)
def test_4_6_a_reward_that_is_no_number_names_the_sub_env(backend, reward):
    good, bad = [([1.0], 0.0, False, False, {})] * 3, [([1.0], reward, False, False, {})] * 3
    with scripted(backend, good, bad) as v:
        v.reset()
        with pytest.raises((error(backend, TypeError), error(backend, ValueError)), match="sub-env 1"):
            v.step(Z(v))


@pytest.mark.parametrize(
    "rewards", [[None, 1.0], ["1", "2"], [1j, 1.0], None, np.ones((2, 1)), np.ones(3), 1.0], ids=repr
)
def test_4_6_native_rewards_that_are_no_numbers_are_refused(rewards):
    class Wrong(NCount):
        def _step(self, actions):
            _, *others = super()._step(actions)
            return rewards, *others

    with Wrong([9, 9]) as v:
        v.reset()
        with pytest.raises((TypeError, ValueError), match=r"Wrong._step\(\): rewards"):
            v.step(Z(v))


@everywhere
@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.int64(1), np.array(1.0)], ids=repr)
def test_4_6_rewards_and_flags_of_any_scalar_kind(backend, reward):
    script = [([1.0], reward, np.False_, 0, {}), ([2.0], reward, 1, np.True_, {})]
    with scripted(backend, script) as v:
        v.reset()
        r = v.step(Z(v))
        assert_same(np.array([1.0]), r.rewards)
        assert_same(np.array([False]), r.terminated)
        r = v.step(Z(v))
        assert_same(np.array([True]), r.terminated)
        assert_same(np.array([True]), r.truncated)


# -- 6.3 ---------------------------------------------------------------------------------------------------


def test_6_3_missing_keys_none_strings_and_mixed_numbers():
    stacked = stack_infos([{"a": 1, "s": "x", "n": None, "only": 3}, {"a": 2.5, "s": "longer", "n": None}])
    assert stacked.keys() == {"a", "s", "n"}
    assert_same(np.array([1.0, 2.5]), stacked["a"])
    assert stacked["s"].tolist() == ["x", "longer"]
    assert stacked["s"].dtype.kind == "U"
    assert stacked["n"].dtype == object
    assert stacked["n"].tolist() == [None, None]


def test_6_3_ragged_nested_and_empty():
    ragged = stack_infos([{"r": np.zeros(2)}, {"r": np.ones(3)}])["r"]
    assert ragged.dtype == object
    assert ragged.shape == (2,)
    assert [each.tolist() for each in ragged] == [[0, 0], [1, 1, 1]]
    nested = stack_infos([{"d": {"x": 1}}, {"d": {"x": 2}}])["d"]
    assert nested.dtype == object
    assert nested.tolist() == [{"x": 1}, {"x": 2}]
    assert stack_infos([]) == {}
    assert stack_infos([{}, {}]) == {}
    assert stack_infos([{"a": 1}, {}]) == {}


STACKS = {
    "bools": ([True, False], np.array([True, False])),
    "bool_and_int": ([True, 2], np.array([1, 2])),
    "numpy_scalars": ([np.float32(1), np.float32(2)], np.array([1, 2], np.float32)),
    "int_and_float32": ([np.int8(1), np.float32(2)], np.array([1, 2], np.float32)),
    "huge_ints": ([1, 2**70], [1, 2**70]),
    "none_and_number": ([None, 1], [None, 1]),
    "string_and_number": (["a", 1], ["a", 1]),
    "bytes": ([b"a", b"bcd"], np.array([b"a", b"bcd"])),
    "arrays": ([np.zeros(2), np.ones(2)], np.array([[0.0, 0], [1, 1]])),
    "array_and_list": ([np.zeros(2), [1, 2]], np.array([[0.0, 0], [1, 2]])),
    "lists": ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
    "ragged_lists": ([[1], [1, 2]], [[1], [1, 2]]),
    "array_and_scalar": ([np.zeros(2), 1.0], None),
    "array_of_other_rank": ([np.zeros((2, 1)), np.zeros(2)], None),
    "objects": ([T, Z], [T, Z]),
    "empty_strings": (["", "ab"], np.array(["", "ab"])),
    "sets": ([{1}, {2}], [{1}, {2}]),
    "nans": ([np.nan, 1], np.array([np.nan, 1])),
    "complex": ([1j, 1], np.array([1j, 1])),
}


@pytest.mark.parametrize("values, expected", STACKS.values(), ids=STACKS)
def test_6_3_every_kind_of_value_stacks_without_a_change(values, expected):
    stacked = stack_infos([{"v": value} for value in values])["v"]
    assert isinstance(stacked, np.ndarray)
    assert len(stacked) == len(values)
    if isinstance(expected, np.ndarray):
        assert_same(expected, stacked)
    else:
        assert stacked.dtype == object
        assert stacked.shape == (len(values),)
        if expected is not None:
            assert stacked.tolist() == expected


@everywhere
@both_modes
def test_6_3_stacking_what_a_backend_gave_is_stacking_its_dicts(backend, autoreset):
    scripts = [
        [([0.0], 0.0, k == n, False, {"a": k, "s": "x" * k, "v": np.full(2, k)}) for k in range(1, n + 1)]
        for n in (2, 3, 3)
    ]
    with scripted(backend, *scripts, i0={"r": 0}, autoreset=autoreset) as v:
        assert_same({"r": np.zeros(3, int)}, stack_infos(v.reset().infos))
        for _ in range(7):
            infos = v.step(Z(v)).infos
            expected = stack_infos([dict(info) for info in copy.deepcopy(infos)])
            stacked = stack_infos(infos)
            assert stacked.keys() == expected.keys()
            for key in expected.keys() - {"final_info", "reset_info"}:
                assert_same(expected[key], stacked[key], key)


def test_6_3_what_was_stacked_is_no_view_of_the_infos():
    with NativeNumbered(9, 9) as v:
        v.reset()
        infos = v.step(Z(v)).infos
        stacked = stack_infos(infos)
        stacked["deep"][:] = None
        assert infos[0]["deep"]["k"].tolist() == [1.0]


@everywhere
def test_6_3_multi_discrete_observations_keep_their_dtype(backend):
    space = MultiDiscrete([3, 3], dtype=np.int8)
    script = [(np.array([1, 2]), 0.0, True, False, {})]
    with scripted(backend, script, obs=space, r0=[0, 0]) as v:
        assert v.reset().observations.dtype == np.int8
        assert v.step(Z(v)).infos[0]["final_observation"].dtype == np.int8
