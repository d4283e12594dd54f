"""Cases 10.x: attributes and methods of the sub-envs."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
from backends import (
    ALL,
    PROCS,
    assert_same,
    error,
    everywhere,
    everywhere_once,
    make,
    on_rows,
    on_rows_here,
    on_rows_once,
    scripted,
)
from case_envs import Own, Scaled
from toys import BOX1, NCount, T, Toy, Z

from sekai import (
    Dict,
    Discrete,
    Env,
    NativeVecEnv,
    ResetResult,
    StepResult,
    TimeLimit,
    TransformReward,
    VecEnvClosed,
    VecEnvWorkerError,
    VecNormalizeReward,
    VecRecordEpisodeStatistics,
    VecTransformObservation,
)
from sekai.vector import shared


class NativeScaled(NativeVecEnv):
    """The same as arrays."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs, BOX1, Discrete(2), **kwargs)
        self.k = np.ones(num_envs, int)

    def _reset_envs(self, indices, options):
        pass

    def _observe(self):
        return np.zeros((self.num_envs, 1))

    def _step(self, actions):
        nobody = np.zeros(self.num_envs, bool)
        return np.broadcast_to(np.asarray(self.k, float), (self.num_envs,)), nobody, nobody, {}

    double = Scaled.double
    adjustable = Scaled.adjustable
    plus = Scaled.plus


VEC_WRAPPERS = {
    "bare": lambda v: v,
    "wrapped": lambda v: VecNormalizeReward(VecTransformObservation(v, lambda obs: obs)),
    "recorded": VecRecordEpisodeStatistics,
}
bare_and_wrapped = pytest.mark.parametrize("wrap", VEC_WRAPPERS.values(), ids=VEC_WRAPPERS)


def scaled(backend, n=3):
    if backend == "native":
        return NativeScaled(n)
    return make(backend, [lambda: TransformReward(TimeLimit(Scaled(), 99), lambda reward: reward)] * n)


# -- 10.1 --------------------------------------------------------------------------------------------------


@everywhere
@bare_and_wrapped
def test_10_1_set_attr_reaches_the_env_that_uses_it(backend, wrap):
    with wrap(scaled(backend)) as v:
        v.reset()
        v.set_attr("k", 5)
        assert v.get_attr("k") == [5] * 3
        assert v.unwrapped.step(Z(v)).rewards.tolist() == [5.0] * 3
        v.set_attr("k", [1, 2, 3])
        assert v.get_attr("k") == [1, 2, 3]
        assert v.unwrapped.step(Z(v)).rewards.tolist() == [1.0, 2.0, 3.0]
        assert v.get_attr("double") == [2, 4, 6]
        assert v.call("plus", 1, b=2) == [4, 5, 6]
        assert v.call("double") == [2, 4, 6]
        v.set_attr("adjustable", [7, 8, 9])
        assert v.get_attr("k") == [7, 8, 9]


@on_rows
def test_10_1_a_wrapper_with_its_own_changes_instead_of_the_base(backend):
    with make(backend, [lambda: TimeLimit(Own(Scaled()), 99)] * 2) as v:
        v.reset()
        v.set_attr("k", 5)
        assert v.get_attr("k") == [5, 5]
        assert [env.k for env in v.get_attr("unwrapped")] == [1, 1]
        assert v.step(Z(v)).rewards.tolist() == [1.0, 1.0]
        v.set_attr("max_episode_steps", [1, 2])
        assert v.step(Z(v)).truncated.tolist() == [True, True]
        assert v.step(Z(v)).truncated.tolist() == [True, False]


@on_rows
def test_10_1_tuples_and_arrays_are_one_value_for_all(backend):
    with make(backend, [Scaled] * 2) as v:
        v.set_attr("k", (1, 2))
        assert v.get_attr("k") == [(1, 2)] * 2
        value = np.array([1, 2])
        v.set_attr("k", value)
        assert_same([value] * 2, v.get_attr("k"))
        v.set_attr("k", [[1, 2], [3]])
        assert v.get_attr("k") == [[1, 2], [3]]


@everywhere_once
@bare_and_wrapped
@pytest.mark.parametrize("values", [[], [1], [1, 2, 3, 4]], ids=len)
def test_10_1_a_list_of_another_length_sets_nothing(backend, wrap, values):
    with wrap(scaled(backend)) as v:
        expected = rf"set_attr\('k'\): expected 3 values \(num_envs\), got a list of {len(values)}"
        with pytest.raises(ValueError, match=expected):
            v.set_attr("k", values)
        assert v.get_attr("k") == [1, 1, 1]


# -- 10.3 --------------------------------------------------------------------------------------------------


@everywhere
@bare_and_wrapped
def test_10_3_unknown_names(backend, wrap):
    with wrap(scaled(backend)) as v:
        v.reset()
        with pytest.raises(error(backend, AttributeError), match="nope"):
            v.get_attr("nope")
        with pytest.raises(error(backend, AttributeError), match="nope"):
            v.call("nope")
        with pytest.raises(error(backend, AttributeError), match="nope"):
            v.call("nope", 1)
        with pytest.raises(error(backend, AttributeError), match="nope"):
            v.set_attr("nope", 1)
        with pytest.raises(error(backend, AttributeError), match="nope"):
            v.get_attr("nope")  # nothing was added
        assert v.unwrapped.step(Z(v)).rewards.tolist() == [1.0] * 3


class Quoting(Scaled):
    @property
    def spread(self):
        raise AttributeError("nothing is quoted yet")

    def step(self, action):
        return self.spread


@pytest.mark.parametrize("backend", ALL)
def test_10_3_except_attribute_error_hears_of_an_unknown_name(backend):
    with scaled(backend) as v:
        for use in (
            lambda: v.get_attr("nope"),
            lambda: v.get_attr("nope", [1]),
            lambda: v.call("nope", 1),
            lambda: v.call_at([1], "nope"),
            lambda: v.set_attr("nope", 1),
            lambda: v.set_attr("nope", [1, 2], [0, 2]),
        ):
            try:
                use()
            except AttributeError as error:
                raised = error
            else:
                pytest.fail("it knows the name")
            if backend in PROCS:
                assert isinstance(raised, VecEnvWorkerError) and "nope" in raised.message
                assert raised.exc_type == "AttributeError" and raised.rank in (0, 1)
                assert "Traceback" in raised.remote_traceback and raised.remote_traceback in str(raised)
                again = pickle.loads(pickle.dumps(raised))
                assert type(again) is type(raised) and again.__reduce__() == raised.__reduce__()
                assert str(again) == str(raised)


@on_rows_once
def test_10_3_an_attribute_error_in_a_step_of_a_worker_is_no_unknown_name(backend):
    with make(backend, [Quoting] * 2) as v:
        v.reset()
        expected = VecEnvWorkerError if backend in PROCS else AttributeError
        with pytest.raises(expected, match="nothing is quoted yet") as raised:
            v.step(Z(v))
        assert type(raised.value) is expected
        for use in (lambda: v.get_attr("spread"), lambda: v.call("spread"), lambda: v.set_attr("spread", 1)):
            with pytest.raises(AttributeError, match="nothing is quoted yet"):
                use()


@everywhere
@bare_and_wrapped
@pytest.mark.parametrize("indices", [None, [1]], ids=["all", "one"])
def test_10_3_near_names_are_told(backend, wrap, indices):
    with wrap(scaled(backend)) as v:
        with pytest.raises(error(backend, AttributeError), match=r"no attribute 'dubble'.* \(did you mean 'double'"):
            v.set_attr("dubble", 1, indices)
        with pytest.raises(error(backend, AttributeError), match="nope") as raised:
            v.set_attr("nope", 1, indices)
        assert "did you mean" not in str(raised.value)
        with pytest.raises(error(backend, AttributeError)):
            v.get_attr("dubble")


@on_rows
@bare_and_wrapped
def test_10_3_an_attribute_is_created_by_force(backend, wrap):
    with wrap(scaled(backend)) as v:
        v.set_attr("note", [1, 2, 3], force=True)
        assert v.get_attr("note") == [1, 2, 3]
        v.set_attr("note", 7, indices=[1])
        assert v.get_attr("note") == [1, 7, 3]
        v.set_attr("k", 5, force=True)  # which there is
        assert v.get_attr("k") == [5] * 3
        v.set_attr("other", "x", [2], force=True)
        with pytest.raises(error(backend, AttributeError), match="other"):
            v.get_attr("other")
        for name in ("step", "action_mask"):
            with pytest.raises(error(backend, AttributeError), match="got a method of every env"):
                v.set_attr(name, 1, force=True)


@bare_and_wrapped
def test_10_3_force_creates_nothing_where_there_are_no_sub_envs(wrap):
    v = wrap(scaled("native"))
    for indices in (None, [1]):
        with pytest.raises(AttributeError, match="note"):
            v.set_attr("note", 1, indices, force=True)
    v.set_attr("k", 5, force=True)
    assert v.get_attr("k") == [5] * 3


@everywhere
def test_10_3_a_property_that_cannot_be_set(backend):
    with scaled(backend) as v:
        with pytest.raises(error(backend, AttributeError), match="double"):
            v.set_attr("double", 3)
        assert v.get_attr("double") == [2, 2, 2]


@everywhere
def test_10_3_arguments_for_what_is_no_method(backend):
    with scaled(backend) as v:
        with pytest.raises(error(backend, TypeError), match=r"call\('double'\).*no method"):
            v.call("double", 1)


@everywhere
def test_10_3_after_close(backend):
    v = scaled(backend)
    v.close()
    for use in (lambda: v.get_attr("k"), lambda: v.call("plus", 1), lambda: v.set_attr("k", 1)):
        with pytest.raises(VecEnvClosed):
            use()


# -- 10.7 --------------------------------------------------------------------------------------------------


class Schedules(NCount):
    """Arrays of num_envs rows that are per-env values, or happen to be as long."""

    def __init__(self):
        super().__init__([9] * 4)
        self.table = np.arange(4.0)[:, None]
        self.word, self.numbers, self.pair = "four", [1, 2, 3, 4], (1, 2, 3, 4)
        self.flags = np.zeros(4, bool)
        self.small = np.zeros(4, np.int8)
        self.count = np.zeros(4, int)
        self.single = np.zeros(4, np.float32)
        self.names = np.array(["a", "b", "c", "d"])
        self.matrix = np.zeros((4, 2))
        self.scalar, self.zero_d, self.longer = 3.0, np.array(3.0), np.arange(5)

    def plain(self):
        return self.table

    @shared
    def whole(self):
        return self.table

    @property
    @shared
    def inner(self):
        return self.table

    @shared
    @property
    def outer(self):
        return self.table

    @functools.cached_property
    @shared
    def cached_inner(self):
        return self.table.copy()

    @shared
    @functools.cached_property
    def cached_outer(self):
        return self.table.copy()

    @staticmethod
    @shared
    def static_inner():
        return np.arange(4)

    @shared
    @staticmethod
    def static_outer():
        return np.arange(4)

    @classmethod
    @shared
    def class_inner(cls):
        return np.arange(4)

    @shared
    @classmethod
    def class_outer(cls):
        return np.arange(4)


def test_10_7_plain_arrays_are_split():
    with Schedules() as v:
        rows = v.call("plain")
        assert [row.tolist() for row in rows] == [[0.0], [1.0], [2.0], [3.0]]
        rows[0][:] = 9  # a copy
        assert v.table[0, 0] == 0.0
        assert [row.tolist() for row in v.get_attr("table")] == [[0.0], [1.0], [2.0], [3.0]]
        assert v.get_attr("names") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("name", ["whole", "static_inner", "static_outer", "class_inner", "class_outer"])
def test_10_7_shared_methods_are_whole(name):
    with Schedules() as v:
        assert [value.shape[0] for value in v.call(name)] == [4] * 4


@pytest.mark.parametrize("name", ["inner", "outer", "cached_inner", "cached_outer"])
def test_10_7_shared_properties_are_whole(name):
    with Schedules() as v:
        for values in (v.get_attr(name), v.call(name)):
            assert [np.shape(value) for value in values] == [(4, 1)] * 4


def test_10_7_anything_else_is_repeated():
    with Schedules() as v:
        for name in ("word", "numbers", "pair", "scalar"):
            assert v.get_attr(name) == [getattr(v, name)] * 4
        for name in ("zero_d", "longer"):
            assert all(value is getattr(v, name) for value in v.get_attr(name))


def test_10_7_an_override_decides_for_itself():
    class Split(Schedules):
        def whole(self):
            return self.table

        @shared
        def plain(self):
            return self.table

    with Split() as v:
        assert v.call("whole")[0].shape == (1,)
        assert v.call("plain")[0].shape == (4, 1)


def test_10_7_a_list_of_num_envs_is_stored_as_one_array():
    with Schedules() as v:
        v.set_attr("scalar", [1.0, 2.0, 3.0, 4.0])
        assert v.scalar.tolist() == [1.0, 2.0, 3.0, 4.0]
        v.set_attr("count", [1, 2, 3, 4])
        assert v.count.dtype == int
        v.set_attr("single", [0.5, 1, 2, 3])
        assert v.single.dtype == np.float32
        v.set_attr("matrix", [[1, 2]] * 4)
        assert v.matrix.dtype == np.float64
        assert v.matrix.shape == (4, 2)


@pytest.mark.parametrize(
    "name, values",
    [
        ("count", [0.5, 1, 2, 3]),
        ("small", [300, 1, 2, 3]),
        ("small", [-129, 1, 2, 3]),
        ("small", 300),
        ("small", [0.25, -0.25, 0, 0]),
        ("small", [1e30, 0, 0, 0]),
        ("single", [1e300, 0, 0, 0]),
        ("count", [2**63, 0, 0, 0]),
        ("names", ["longer", "b", "c", "d"]),
        ("scalar", ["a", 1, None, 2.5]),
        ("scalar", [[1], [1, 2], [], [3]]),
        ("scalar", [{"a": 1}, {}, {}, {}]),
        ("scalar", [1, "a", 2, "b"]),
    ],
    ids=str,
)
def test_10_7_no_value_changes_on_its_way_into_a_native_attribute(name, values):
    with Schedules() as v:
        v.set_attr(name, values)
        expected = values if isinstance(values, list) else [values] * 4
        for got, each in zip(v.get_attr(name), expected, strict=True):
            assert got == each
            assert isinstance(got, str) == isinstance(each, str)


def test_10_7_a_nan_survives_in_an_attribute_of_integers():
    with Schedules() as v:
        v.set_attr("count", [np.nan, 1, 2, 3])
        assert np.isnan(v.count[0])
        assert v.count[1:].tolist() == [1, 2, 3]


def test_10_7_flags_stay_flags():
    with Schedules() as v:
        v.set_attr("flags", True)
        assert v.flags.tolist() == [True] * 4
        v.set_attr("flags", [False, True, False, True])
        assert v.flags.dtype == bool
        v.set_attr("flags", [0, 1, 0, 1])
        assert v.flags.dtype == bool  # so that ~flags still means not


@everywhere
def test_10_7_methods_of_the_sub_envs(backend):
    with scripted(backend, T(3), T(3)) as v:
        v.reset()
        v.step(Z(v))
        assert v.call("add", 1, b=10) == [12, 12]
        assert v.call("n_step") == v.get_attr("n_step") == [1, 1]


@on_rows_here
def test_10_7_mutable_values_of_sub_envs_are_theirs(backend):
    with make(backend, [lambda: Toy(T(1))] * 2) as v:
        assert all(
            space is env.observation_space for space, env in zip(v.get_attr("observation_space"), v.envs, strict=True)
        )


@on_rows
def test_10_7_an_array_of_a_sub_env_is_its_own_however_long(backend):
    class Table(Scaled):
        def __init__(self, k):
            super().__init__(np.full((2, 1), k))

    with make(backend, [lambda: Table(0), lambda: Table(1)]) as v:
        assert [value.tolist() for value in v.get_attr("k")] == [[[0], [0]], [[1], [1]]]
        assert [value.tolist() for value in v.call("plus", 1)] == [[[1], [1]], [[2], [2]]]


def test_10_7_one_native_env_splits_too():
    class One(NCount):
        word = "x"

    with One([9]) as v:
        assert v.get_attr("T") == [9]
        assert v.get_attr("word") == ["x"]
        assert np.ndim(v.get_attr("T")[0]) == 0
        v.set_attr("T", [3])
        assert v.T.tolist() == [3]


# -- found in use: A3, A21 -----------------------------------------------------------------------------------


@everywhere_once
def test_a3_the_time_limit_is_an_attribute_and_can_be_changed(backend):
    with scripted(backend, T(9), T(9), max_episode_steps=5) as v:
        v.reset()
        assert v.get_attr("max_episode_steps") == v.call("max_episode_steps") == [5, 5]
        assert not v.step(Z(v)).truncated.any()
        v.set_attr("max_episode_steps", 2)
        assert v.get_attr("max_episode_steps") == [2, 2]
        assert v.step(Z(v)).truncated.all()
        v.set_attr("max_episode_steps", [3, np.int64(3)])
        assert [v.step(Z(v)).truncated.tolist() for _ in range(3)] == [[False] * 2] * 2 + [[True] * 2]
        for wrong, kind in ((0, ValueError), (2.0, TypeError), (None, TypeError), (np.array([3, 3]), TypeError)):
            with pytest.raises(error(backend, kind), match="max_episode_steps"):
                v.set_attr("max_episode_steps", wrong)
        assert v.get_attr("max_episode_steps") == [3, 3]


@everywhere_once
def test_a3_without_a_limit_there_is_no_such_attribute(backend):
    with scripted(backend, T(9), T(9)) as v:
        missing = error(backend, AttributeError)
        with pytest.raises(missing, match="max_episode_steps"):
            v.get_attr("max_episode_steps")
        with pytest.raises(missing, match="max_episode_steps"):
            v.set_attr("max_episode_steps", 1)


def test_a3_one_native_env_has_one_limit():
    with NCount([9, 9], max_episode_steps=5) as v:
        with pytest.raises(ValueError, match="expected one limit for all sub-envs"):
            v.set_attr("max_episode_steps", [1, 2])
        with pytest.raises(ValueError, match="expected 2 values"):
            v.set_attr("max_episode_steps", [1])
        v.max_episode_steps = 1
        v.reset()
        assert v.step(Z(v)).truncated.all()
    with pytest.raises(VecEnvClosed):
        v.set_attr("max_episode_steps", 2)


def test_a3_a_market_without_a_limit_may_use_the_name_for_itself():
    class Own(NCount):
        def __init__(self, T, before, after):
            self.max_episode_steps = before
            super().__init__(T)
            assert self.max_episode_steps == before
            self.max_episode_steps = after

    with Own([9, 9], 3, 4) as v:
        v.reset()
        assert v.get_attr("max_episode_steps") == [4, 4]
        v.set_attr("max_episode_steps", [7, 8])
        assert v.get_attr("max_episode_steps") == [7, 8]
        assert not any(v.step(Z(v)).truncated.any() for _ in range(5))


OWNED = [
    "num_envs", "action_space", "observation_space", "autoreset", "metadata", "spec", "step", "reset", "close", "call",
    "async_step", "rng", "streams", "frozen", "closed", "unwrapped", "elapsed_steps", "_closed", "_has_reset",
    "_native", "_step", "_NativeVecEnv__rng", "__class__",
]  # fmt: skip


@pytest.mark.parametrize("name", OWNED)
def test_a21_names_of_the_base_class_are_refused_and_nothing_changes(name):
    with NativeScaled(2) as v:
        v.reset()
        for values in (1, [1, 2]):
            with pytest.raises(AttributeError, match=rf"set_attr.*{name}.*expected an attribute of the simulation"):
                VecRecordEpisodeStatistics(v).set_attr(name, values)
        v.set_attr("k", 3)
        assert v.step(Z(v)).rewards.tolist() == [3.0, 3.0]


@on_rows_here
def test_a21_so_are_methods_of_every_env_and_what_a_wrapper_wraps(backend):
    with make(backend, [lambda: TimeLimit(Scaled(), 9)] * 2) as v:
        v.reset()
        for name in ("step", "reset", "close", "get_attr", "env"):
            with pytest.raises(AttributeError, match=rf"set_attr\('{name}'\): expected an attribute of the simulation"):
                v.set_attr(name, 3)
        assert v.step(Z(v)).rewards.tolist() == [1.0, 1.0]


@on_rows_here
@pytest.mark.parametrize("obs", [BOX1, Dict(a=BOX1)], ids=["vector", "dict"])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("info", [None, (), [1]], ids=repr)
def test_a21_an_info_that_is_no_dict_is_refused_at_once(backend, obs, info, ends):
    class Odd(Env):
        observation_space, action_space = obs, Discrete(2)

        def __init__(self, at_reset):
            self.at_reset = at_reset

        def reset(self, *, seed=None, options=None):
            return ResetResult(obs.sample(), self.at_reset)

        def step(self, action):
            return StepResult(obs.sample(), 1.0, ends, False, info)

    with make(backend, [lambda: Odd({})] * 2) as v:
        v.reset()
        with pytest.raises(TypeError, match="sub-env 0: expected a dict as its info, got"):
            v.step(Z(v))
    with make(backend, [lambda: Odd(info)] * 2) as v, pytest.raises(TypeError, match="expected a dict as its info"):
        v.reset()


@pytest.mark.parametrize("where", ["_step", "_reset_infos"])
def test_a21_no_infos_of_a_native_env_are_refused_at_once(where):
    class Odd(NativeScaled):
        def _step(self, actions):
            result = super()._step(actions)
            return (*result[:3], None) if where == "_step" else result

        def _reset_infos(self, indices):
            return None if where == "_reset_infos" else {}

    with Odd(2) as v, pytest.raises(TypeError, match=rf"Odd\.{where}\(\): expected infos that map keys to arrays"):
        v.reset()
        v.step(Z(v))


def test_numbers_of_another_shape_are_no_values_of_a_native_attribute():
    with Schedules() as v:
        for name, values in (("count", np.arange(4)), ("count", (1, 2, 3, 4)), ("matrix", 1.0), ("matrix", [[1]] * 4)):
            with pytest.raises(
                ValueError, match=rf"set_attr\('{name}'\): expected a value of shape .* for each sub-env"
            ):
                v.set_attr(name, values)
        v.set_attr("matrix", np.array([1, 2]))
        assert v.matrix.tolist() == [[1.0, 2.0]] * 4
