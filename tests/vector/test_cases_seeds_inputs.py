"""Cases 3.x and 5.x: seeds and actions on their way in."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from backends import assert_same, everywhere, everywhere_once, here, make, on_rows, on_rows_once, scripted
from case_envs import Closes, Echo
from spaces_catalogue import same
from toys import Draws, NativeToy, T, Toy, Z, fns

from sekai import (
    Box,
    Dict,
    Discrete,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    NativeVecEnv,
    Sequence,
    SpaceMismatch,
    SyncVecEnv,
    Tuple,
    make_seed_sequence,
)
from sekai.batching import layout


class NativeDraws(NativeVecEnv):
    """``Draws`` as arrays: every observation comes from the shared generator."""

    def __init__(self, num_envs, length=4, **kwargs):
        super().__init__(num_envs, Draws.observation_space, Draws.action_space, **kwargs)
        self.length = length
        self.k = np.zeros(num_envs, int)
        self.x = np.zeros((num_envs, 3))

    def _reset_envs(self, indices, options):
        self.k[indices] = 0
        self.x[indices] = self.rng.random((len(indices), 3))

    def _observe(self):
        return self.x

    def _step(self, actions):
        self.k += 1
        self.x = self.rng.random(self.x.shape)
        return self.rng.random(self.num_envs), self.k >= self.length, np.zeros(self.num_envs, bool), {}


def draws(backend, n, **kwargs):
    if backend == "native":
        return NativeDraws(n, **kwargs)
    return make(backend, [Draws] * n, **kwargs)


def rollout(v, n_steps=9):
    return [v.step(np.zeros(v.num_envs, int)) for _ in range(n_steps)]


# -- 3.1 ---------------------------------------------------------------------------------------------------


@everywhere
def test_3_1_adjacent_base_seeds_share_no_streams(backend):
    with draws(backend, 4) as v:
        seen = [v.reset(seed=seed).observations for seed in range(8)]
        values = np.concatenate([each.ravel() for each in seen])
        assert len(set(values.tolist())) == values.size  # nor do the sub-envs of one seed
        assert_same(seen[3], v.reset(seed=3).observations)


@everywhere
def test_3_1_a_repeated_seed_repeats_the_whole_run(backend):
    with draws(backend, 3) as v, draws(backend, 3) as other:
        first = [v.reset(seed=5), *rollout(v)]
        assert_same(first, [v.reset(seed=5), *rollout(v)])
        assert_same(first, [other.reset(seed=5), *rollout(other)])


@everywhere
def test_3_1_no_seed_continues_the_streams(backend):
    with draws(backend, 3) as v, draws(backend, 3) as other:
        v.reset(seed=5)
        other.reset(seed=5)
        second = v.reset()
        assert not np.isin(second.observations, v.reset(seed=5).observations).any()
        assert_same(second, other.reset(seed=[None] * 3))


@on_rows
def test_3_1_what_a_sub_env_draws_does_not_depend_on_how_many_there_are(backend):
    with draws(backend, 2) as few, draws(backend, 5) as many:
        assert_same(few.reset(seed=9).observations, many.reset(seed=9).observations[:2])


@on_rows
def test_3_1_an_int_seed_is_make_seed_sequence(backend):
    with make(backend, fns(T(1), T(1), T(1))) as v:
        v.reset(seed=11)
        seeds = v.get_attr("last_seed")
        assert seeds == make_seed_sequence(11, 3)
        assert len(set(seeds)) == 3
        v.step(Z(v))
        assert v.get_attr("last_seed") == [None] * 3  # autoreset continues the stream


# -- 3.4 ---------------------------------------------------------------------------------------------------

SAME_SEEDS = [
    (np.int64(7), 7),
    (np.uint8(7), 7),
    (np.array(7), 7),
    ([np.uint32(1), 2], [1, 2]),
    (np.array([1, 2]), [1, 2]),
    (np.array([1, 2], np.uint64), [1, 2]),
    (np.array([1, 2], object), [1, 2]),
    ((1, 2), [1, 2]),
    ([np.int16(1), None], [1, None]),
    (2**70, 2**70),
]


@everywhere_once
@pytest.mark.parametrize("seed, plain", SAME_SEEDS, ids=repr)
def test_3_4_integers_of_any_kind_are_seeds(backend, seed, plain):
    with draws(backend, 2) as v, draws(backend, 2) as other:
        v.reset(seed=0)
        other.reset(seed=0)
        assert_same(v.reset(seed=plain), other.reset(seed=seed))
        assert_same(v.step([0, 0]), other.step([0, 0]))


BAD_SEEDS = [
    (-1, ValueError, "-1"),
    (np.int64(-1), ValueError, "-1"),
    ([1, -2], ValueError, "sub-env 1.*-2"),
    (np.array([-1, 2]), ValueError, "sub-env 0.*-1"),
    (True, TypeError, "bool"),
    (np.True_, TypeError, "bool"),
    ([1, True], TypeError, "sub-env 1.*bool"),
    (np.array([True, False]), TypeError, "bool"),
    (1.0, TypeError, "float"),
    (np.array([1.0, 2.0]), TypeError, "float64"),
    ("1", TypeError, "str"),
    (np.array([[1, 2]]), TypeError, r"\(1, 2\)"),
    ([1, 2, 3], ValueError, r"expected 2 seeds \(num_envs\), got 3"),
    ([], ValueError, r"expected 2 seeds \(num_envs\), got 0"),
    (np.array([1]), ValueError, r"expected 2 seeds \(num_envs\), got 1"),
    (np.random.default_rng(0), TypeError, "Generator"),
]


@everywhere_once
@pytest.mark.parametrize("seed, error, message", BAD_SEEDS, ids=lambda each: repr(each).split(" at 0x")[0][:30])
def test_3_4_anything_else_is_refused_before_a_reset(backend, seed, error, message):
    with scripted(backend, T(9), T(9)) as v:
        v.reset()
        v.step(Z(v))
        with pytest.raises(error, match=rf"reset\(seed=...\).*{message}"):
            v.reset(seed=seed)
        assert v.get_attr("n_reset") == [1, 1]
        assert v.step(Z(v)).observations.tolist() == [[2.0], [2.0]]  # and the episodes go on


@on_rows
def test_3_4_a_generator_in_a_list_is_used_as_it_is(backend):
    with draws(backend, 2) as v:
        v.reset(seed=[np.random.default_rng(3), 4])
        assert_same(np.random.default_rng(3).bit_generator.state["bit_generator"], "PCG64")
        expected = np.random.default_rng(3).random(3)
        assert_same(expected, v.reset(seed=[np.random.default_rng(3), 4]).observations[0])


def test_a2_a_generator_in_a_list_is_a_draw_from_it_to_a_native_env():
    expected = int(np.random.default_rng(3).integers(2**63))
    with draws("native", 2) as v:
        observations = v.reset(seed=[expected, 4]).observations
        assert_same(observations, v.reset(seed=[np.random.default_rng(3), 4]).observations)
        assert_same(observations, v.reset(seed=np.array([np.random.default_rng(3), 4])).observations)


# -- 5.1 ---------------------------------------------------------------------------------------------------


ACTIONS = {
    "discrete": Discrete(3, start=-1),
    "multi_discrete": MultiDiscrete([[2, 3], [4, 5]], start=[[-1, 0], [5, 7]]),
    "multi_binary": MultiBinary(3),
    "box": Box(-1, 1, (2, 2)),
    "scalar_box": Box(-1, 1, ()),
    "int_box": Box(-3, 3, (2,), np.int8),
    "no_size": Box(-1, 1, (0,)),
    "dict": Dict({"side": Discrete(2), "qty": Box(0, 1, (2,))}),
    "tuple": Tuple((Discrete(3, start=4), Box(0, 1, (1,)))),
    "nested": Dict({"t": Tuple((Dict({"d": Discrete(2)}), MultiBinary(2))), "m": MaskedBox(0, 1, (2,), max_size=3)}),
    "masked_box": MaskedBox(-1, 1, (), max_size=2),
    "sequence": Sequence(Discrete(5), max_length=4),
    "dict_of_sequence": Dict({"legs": Sequence(Box(0, 1, (2,)), max_length=3), "n": Discrete(4)}),
    "empty": Tuple(()),
}


@on_rows_once
@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_5_1_each_env_receives_its_element_of_the_batch(backend, space):
    with make(backend, [lambda: Echo(space)] * 3) as v:
        v.reset(seed=0)
        v.batch_action_space.seed(0)
        for _ in range(5):
            batch = v.batch_action_space.sample()
            r = v.step(batch)
            assert v.batch_observation_space.contains(r.observations)
            sent, received = (list(layout.iterate(space, each, 3)) for each in (batch, r.observations))
            assert_same(sent, received)


@everywhere
def test_5_1_the_start_of_a_discrete_is_in_the_batch(backend):
    script = [(4, 0.0, False, False, {})] * 3
    with scripted(backend, script, script, obs=Discrete(3, start=2), act=Discrete(3, start=-1), r0=2) as v:
        assert v.batch_observation_space.contains(np.array([4, 4]))
        assert not v.batch_observation_space.contains(np.array([1, 4]))
        assert not v.batch_observation_space.contains(np.array([4, 5]))
        samples = np.array([v.batch_action_space.sample() for _ in range(100)])
        assert set(samples.ravel().tolist()) == {-1, 0, 1}
        assert v.reset().observations.tolist() == [2, 2]
        r = v.step(samples[0])
        assert r.observations.tolist() == [4, 4]
        assert r.observations.dtype == v.observation_space.dtype
        assert v.batch_observation_space.contains(r.observations)


@everywhere
def test_5_1_seeding_the_batch_space_lasts(backend):
    with scripted(backend, T(2), T(2)) as v:
        v.batch_action_space.seed(3)
        first = [v.batch_action_space.sample().tolist() for _ in range(9)]
        v.batch_action_space.seed(3)
        assert [v.batch_action_space.sample().tolist() for _ in range(9)] == first


# -- 5.3 ---------------------------------------------------------------------------------------------------


@everywhere
def test_5_3_a_discrete_action_is_a_scalar(backend):
    with scripted(backend, T(9), T(9), T(9)) as v:
        v.reset()
        with pytest.raises(ValueError, match=r"step\(actions\): expected shape \(3,\), got shape \(3, 1\)"):
            v.step(np.zeros((3, 1), int))
        assert v.get_attr("n_step") == [0, 0, 0]
        for actions in (np.zeros(3, int), [0] * 3, (0, 1, 0), np.array([0, 1, 1], np.int8), np.ones(3, np.uint64)):
            v.step(actions)
            for action, given in zip(v.get_attr("last_action"), actions, strict=True):
                assert np.ndim(action) == 0
                assert v.action_space.contains(action)
                assert action == given


BAD_ACTIONS = {
    "too_few": [0, 1],
    "too_many": np.zeros(4, int),
    "scalar": 0,
    "none": None,
    "floats": [0.0, 1.0, 0.0],
    "strings": ["0", "1", "0"],
    "ragged": [[0], [0, 1], 0],
    "transposed": np.zeros((1, 3), int),
    "too_large_for_the_dtype": [0, 2**64, 0],
}


@everywhere_once
@pytest.mark.parametrize("actions", BAD_ACTIONS.values(), ids=BAD_ACTIONS)
def test_5_3_a_wrong_batch_of_actions_steps_nobody(backend, actions):
    with scripted(backend, T(9), T(9), T(9)) as v:
        v.reset()
        with pytest.raises(ValueError, match=r"step\(actions\).*expected"):
            v.step(actions)
        assert v.get_attr("n_step") == [0, 0, 0]
        assert v.step([0, 1, 0]).observations.tolist() == [[1.0]] * 3


# -- 5.5 ---------------------------------------------------------------------------------------------------


@on_rows
def test_5_5_dict_and_tuple_actions(backend):
    space = Dict({"side": Discrete(2), "qty": Box(0, 1, (2,))})
    with make(backend, fns(T(3), T(3), act=space)) as v:
        v.reset()
        batch = v.batch_action_space.sample()
        v.step(batch)
        for i, action in enumerate(v.get_attr("last_action")):
            assert space.contains(action)
            assert np.ndim(action["side"]) == 0
            assert action["qty"].shape == (2,)
            assert action["side"] == batch["side"][i]
            assert action["qty"].tolist() == batch["qty"][i].tolist()
    space = Tuple((Discrete(2), Box(0, 1, (2,))))
    with make(backend, fns(T(3), T(3), act=space)) as v:
        v.reset()
        batch = v.batch_action_space.sample()
        v.step(batch)
        for i, action in enumerate(v.get_attr("last_action")):
            assert isinstance(action, tuple)
            assert space.contains(action)
            assert action[0] == batch[0][i]
            assert action[1].tolist() == batch[1][i].tolist()


BAD_DICTS = {
    "key_missing": {"side": [0, 1]},
    "key_too_many": {"side": [0, 1], "qty": np.zeros((2, 2)), "more": [0, 0]},
    "list_too_short": [{"side": 0, "qty": np.zeros(2)}],
    "list_of_others": [{"side": 0, "qty": np.zeros(2)}, {"side": 0}],
    "part_too_long": {"side": [0, 1, 0], "qty": np.zeros((2, 2))},
    "part_of_another_shape": {"side": [0, 1], "qty": np.zeros((2, 3))},
    "part_of_another_kind": {"side": [0.5, 1], "qty": np.zeros((2, 2))},
}


@everywhere
@pytest.mark.parametrize("actions", BAD_DICTS.values(), ids=BAD_DICTS)
def test_5_5_a_wrong_part_steps_nobody(backend, actions):
    with scripted(backend, T(3), T(3), act=Dict({"side": Discrete(2), "qty": Box(0, 1, (2,))})) as v:
        v.reset()
        with pytest.raises(ValueError, match=r"step\(actions\)"):
            v.step(actions)
        assert v.get_attr("n_step") == [0, 0]
        v.step(Z(v))


@on_rows
def test_5_5_a_sub_env_may_keep_its_action_while_the_caller_reuses_the_batch(backend):
    with scripted(backend, T(9), T(9), act=Box(-1, 1, (2,), np.float64)) as v:
        v.reset()
        batch = np.full((2, 2), 0.5)
        v.step(batch)
        batch[:] = -1
        assert [action.tolist() for action in v.get_attr("last_action")] == [[0.5, 0.5]] * 2


# -- 5.9 ---------------------------------------------------------------------------------------------------


@on_rows
@pytest.mark.parametrize(
    "odd, message",
    [
        ({"obs": Box(-1, 1, (2,))}, "sub-env 1: expected the observation_space"),
        ({"obs": Box(-1, 1, (3,), np.float64)}, "sub-env 1: expected the observation_space"),
        ({"obs": Box(-1, 2, (3,))}, "sub-env 1: expected the observation_space"),
        ({"act": Discrete(3)}, "sub-env 1: expected the action_space"),
        ({"act": Discrete(2, start=1)}, "sub-env 1: expected the action_space"),
        ({"act": MultiDiscrete([2])}, "sub-env 1: expected the action_space"),
    ],
    ids=["shape", "dtype", "bounds", "n", "start", "kind"],
)
def test_5_9_sub_env_spaces_differ(backend, odd, message, tmp_path):
    log = tmp_path / "closed"
    usual = {"obs": Box(-1, 1, (3,)), "act": Discrete(2)}
    env_fns = [
        lambda: Closes(log, 0, **usual),
        lambda: Closes(log, 1, **{**usual, **odd}),
        lambda: Closes(log, 2, **usual),
    ]
    with pytest.raises(SpaceMismatch, match=message):
        make(backend, env_fns)
    assert sorted(log.read_text().split()) in (["0", "1"], ["0", "1", "2"])


def test_5_9_equal_spaces_that_are_other_objects_are_fine():
    with SyncVecEnv([lambda: Toy(T(1), obs=Box(-9, 9, (1,)), act=Discrete(2)) for _ in range(2)]) as v:
        assert v.num_envs == 2


# -- found in use: A2, A4, A6, A8, A11 ------------------------------------------------------------------------


def seen_actions(v):
    """The action that each sub-env got last."""
    if isinstance(v, NativeVecEnv):
        return list(layout.iterate(v.action_space, v.last_action, v.num_envs))
    return v.get_attr("last_action")


@pytest.mark.parametrize("backend", ["sync", "async", "proc", "proc-grouped-pipe", "native"])
def test_a4_a_list_is_one_action_per_sub_env_and_a_tuple_the_batch(backend):
    with scripted(backend, T(9), T(9), act=Tuple([Discrete(5), Discrete(5)])) as v:
        v.reset()
        v.step([(0, 1), (2, 3)])
        assert seen_actions(v) == [(0, 1), (2, 3)]
        v.step([[4, 0], [1, 2]])
        assert seen_actions(v) == [(4, 0), (1, 2)]
        v.step(([0, 1], [2, 3]))
        assert seen_actions(v) == [(0, 2), (1, 3)]
        for wrong in ([(0, 1)], [(0, 1), (2,)], [0, 1]):
            with pytest.raises(ValueError, match=r"step\(actions\)"):
                v.step(wrong)
        assert seen_actions(v) == [(0, 2), (1, 3)]


SAMPLED = {
    **ACTIONS,
    "masked": MaskedBox(-1, 1, (2,), max_size=3),
    "nested": Dict(a=Tuple([Discrete(3), MaskedBox(0, 1, max_size=2)]), b=Dict(c=Box(-1, 1, (2,)))),
    "uint64": Box(0, 2**64 - 1, (2,), np.uint64),
}


@here
@pytest.mark.parametrize("space", SAMPLED.values(), ids=SAMPLED)
def test_a4_lists_of_samples_are_actions_of_any_space(backend, space):
    for n in (2, 3):
        with scripted(backend, *[T(9)] * n, act=space) as v:
            v.reset()
            samples = [space.sample() for _ in range(n)]
            v.step(samples)
            for sample, got in zip(samples, seen_actions(v), strict=True):
                assert space.contains(got)
                assert same(layout.concatenate(space, [sample]), layout.concatenate(space, [got]))


@here
def test_a4_so_is_a_list_within_a_batch(backend):
    with scripted(backend, T(9), T(9), act=Dict(t=Tuple([Discrete(5), Discrete(5)]))) as v:
        v.reset()
        v.step({"t": [(0, 1), (2, 3)]})
        assert seen_actions(v) == [{"t": (0, 1)}, {"t": (2, 3)}]


@everywhere_once
def test_a6_integers_beyond_int64_reach_the_sub_envs_as_they_are(backend):
    rows = [[1, 2**63 + 1], [2**64 - 1, 0]]
    with scripted(backend, T(9), T(9), act=Box([0, 0], [2**64 - 1] * 2, dtype=np.uint64)) as v:
        v.reset()
        v.step(rows)
        assert [action.tolist() for action in seen_actions(v)] == rows
        v.step(np.array(rows, np.uint64).tolist())
        assert [action.tolist() for action in seen_actions(v)] == rows
        with pytest.raises(ValueError, match="expected dtype uint64, got float64"):
            v.step([[1, 2**63 + 1], [-1, 0]])


@pytest.mark.parametrize("autoreset", [True, False])
@pytest.mark.parametrize(
    "space", [Discrete(3), Box(-1, 1, (2, 3)), Dict(a=Discrete(2), b=Tuple([MultiBinary(2)]))], ids=repr
)
def test_a8_a_native_step_gets_contiguous_writable_actions(space, autoreset):
    def forms(batch):
        yield layout.map_parts(lambda part: part.repeat(2, axis=-1)[..., ::2], batch)
        yield layout.map_parts(np.asfortranarray, batch)
        yield layout.map_parts(lambda part: part[::-1].copy()[::-1], batch)
        frozen = layout.copy_batch(batch)
        layout.map_parts(lambda part: part.setflags(write=False), frozen)
        yield frozen

    with scripted("native", T(1), *[T(9)] * 3, act=space, autoreset=autoreset) as v:
        v.reset()
        for _ in range(2):  # with and without frozen sub-envs
            batch = v.batch_action_space.sample()
            for form in forms(batch):
                v.step(form)
                layout.map_parts(_assert_plain, v.last_action)
                assert same(list(layout.iterate(space, batch, 4))[1:], seen_actions(v)[1:])


def _assert_plain(part):
    assert part.flags.c_contiguous and part.flags.writeable and part.flags.aligned


@here
def test_masked_actions_are_refused_by_name(backend):
    with scripted(backend, T(9), T(9), act=Box(-1, 1, (), np.float64)) as v:
        v.reset()
        v.step(np.ma.masked_array([0.5, 0.5], [False, False]))
        with pytest.raises(ValueError, match=r"step\(actions\): expected .* masked"):
            v.step(np.ma.masked_array([0.5, 0.5], [False, True]))


class Pops(Toy):
    """Takes its options apart."""

    def __init__(self, script):
        super().__init__(script)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        if options:
            self.taken.append(options["prices"].pop(0))
            options["deep"]["done"] = True
            del options["prices"]
        return super().reset(seed=seed, options=options)


class NativePops(NativeToy):
    """The same as arrays."""

    def __init__(self, scripts, **kwargs):
        self.taken = [[] for _ in scripts]
        super().__init__(scripts, **kwargs)

    def _reset_envs(self, indices, options):
        for i, each in zip(indices, options, strict=True):
            if each:
                self.taken[i].append(each["prices"].pop(0))
                each["deep"]["done"] = True
                del each["prices"]
        super()._reset_envs(indices, options)


def pops(backend, **kwargs):
    if backend == "native":
        return NativePops([T(1), T(2), T(9)], **kwargs)
    return make(backend, fns(T(1), T(2), T(9), cls=Pops), **kwargs)


def taken(v):
    return v.taken if isinstance(v, NativePops) else v.get_attr("taken")


def prices(first):
    return {"prices": [first, first + 1, first + 2], "deep": {}}


@pytest.mark.parametrize("backend", ["sync", "async", "proc-grouped-pipe", "native"])
def test_a11_each_sub_env_has_options_of_its_own_and_the_caller_s_stay(backend):
    shared = prices(1)
    with pops(backend, autoreset_options=shared) as v:
        v.reset(options=shared)
        assert taken(v) == [[1], [1], [1]]
        v.reset(options=[shared, None, shared])
        assert taken(v) == [[1, 1], [1], [1, 1]]
        for _ in range(2):  # sub-env 0 ends twice, 1 once
            v.step(Z(v))
        assert taken(v) == [[1] * 4, [1, 1], [1, 1]]
    assert shared == prices(1)


@here
def test_a11_so_have_those_of_a_function_of_the_index(backend):
    kept = [prices(10), prices(20), prices(30)]
    with pops(backend, autoreset_options=lambda i: kept[i]) as v:
        v.reset()
        for _ in range(2):
            v.step(Z(v))
        assert taken(v) == [[10, 10], [20], []]
    assert kept == [prices(10), prices(20), prices(30)]


@here
def test_a11_what_cannot_be_copied_is_handed_on_as_it_is(backend):
    lock = threading.Lock()
    options = {"lock": lock, "beside": [lock, [1]]}
    with scripted(backend, T(1), T(1)) as v:
        v.reset(options=options)
        got = v.last_options if backend == "native" else v.get_attr("last_options")
        assert all(each["lock"] is lock and each["beside"][0] is lock for each in got)
        assert got[0]["beside"][1] is not got[1]["beside"][1]


class Priced(Box):
    """A user's own space."""

    def __init__(self, tick):
        super().__init__(0, 1)
        self.tick = tick


class Holding(Toy):
    """An env that makes its own space."""

    def __init__(self, script, tick=1):
        super().__init__(script, obs=Priced(tick))


@on_rows_once
def test_a5_spaces_that_hold_something_else_are_noticed(backend):
    with make(backend, [lambda: Holding(T(3))] * 2) as v:
        v.reset()
    with pytest.raises(SpaceMismatch, match="sub-env 1: expected the observation_space of sub-env 0"):
        make(backend, [lambda: Holding(T(3)), lambda: Holding(T(3), 2)])
