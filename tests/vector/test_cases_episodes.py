"""Cases 1.x and 2.x: what the step that ends an episode shows, and what comes after it."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from backends import TWO_PROCS, assert_same, both_modes, everywhere, here, make, on_rows, scripted
from case_envs import Fill, Keeper, OneBuffer, Reuse, Reusing, RewardBuffer
from toys import BOX1, NCount, T, Toy, Z, fns

from sekai import (
    AutoReset,
    Box,
    Dict,
    Discrete,
    MaskedBox,
    MultiBinary,
    MultiDiscrete,
    NativeVecEnv,
    Sequence,
    SyncVecEnv,
    TimeLimit,
    Tuple,
    VecEnvClosed,
)
from sekai.batching import layout
from sekai.vector import ended_observations

SPACES = {
    "box": BOX1,
    "scalar_box": Box(-9, 9, (), np.float32),
    "image": Box(0, 255, (2, 3), np.uint8),
    "discrete": Discrete(5, start=-2),
    "multi_discrete": MultiDiscrete([3, 4], start=[1, -1]),
    "multi_binary": MultiBinary((2, 2)),
    "masked_box": MaskedBox(-1, 1, (2,), max_size=3),
    "dict": Dict({"a": Box(-1, 1, (2,)), "t": Tuple((Discrete(9), Box(-1, 1, (1,))))}),
    "nested": Tuple((Dict({"m": MaskedBox(0, 1, (), max_size=2), "b": MultiBinary(2)}), Discrete(3))),
    "sequence": Sequence(Box(0, 1, (2,)), max_length=3),
    "stacked_sequence": Sequence(Box(0, 1, (2,)), max_length=3, stack=True),
    "dict_of_sequence": Dict({"s": Sequence(Discrete(4), max_length=3), "x": Box(0, 1, (1,))}),
    "empty": Dict({}),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


class NativeReuse(NativeVecEnv):
    """The same as arrays."""

    def __init__(self, *lengths, **kwargs):
        super().__init__(len(lengths), BOX1, Discrete(2), **kwargs)
        self.lengths, self.buf = np.array(lengths), np.zeros((len(lengths), 1))
        self.k = np.zeros(len(lengths), int)
        self.deep = np.empty(len(lengths), object)
        self.deep[:] = [{"array": np.zeros(2)} for _ in lengths]

    def show(self):
        self.buf[:, 0] = self.k
        for deep, k in zip(self.deep, self.k, strict=True):
            deep["array"][:] = k
        return {"k": self.k, "deep": self.deep}

    def _reset_envs(self, indices, options):
        self.k[indices] = -1
        self.show()

    def _reset_infos(self, indices):
        return {key: column[indices] for key, column in self.show().items()}

    def _observe(self):
        return self.buf

    def _step(self, actions):
        self.k[:] = np.where(self.frozen, self.k, np.maximum(self.k, 0) + 1)
        return np.ones(self.num_envs), self.k >= self.lengths, np.zeros(self.num_envs, bool), self.show()


# -- 1.1 ---------------------------------------------------------------------------------------------------


@everywhere
def test_1_1_terminal_data_survives_the_reset(backend):
    v = NativeReuse(2) if backend == "native" else make(backend, [lambda: Reuse(2)])
    with v:
        v.reset()
        v.step(Z(v))
        r = v.step(Z(v))
        info = r.infos[0]
        assert info["final_observation"].tolist() == [2.0]
        assert info["final_info"]["k"] == info["k"] == 2
        assert info["reset_info"]["k"] == -1
        assert r.observations.tolist() == [[-1.0]]
        assert info["final_info"]["deep"]["array"].tolist() == [2, 2]
        assert info["reset_info"]["deep"]["array"].tolist() == [-1, -1]
        v.step(Z(v))
        assert info["final_info"]["deep"]["array"].tolist() == info["deep"]["array"].tolist() == [2, 2]
        assert info["reset_info"]["deep"]["array"].tolist() == [-1, -1]


@everywhere
def test_1_1_a_frozen_sub_env_keeps_its_terminal_data(backend):
    if backend == "native":
        v = NativeReuse(2, 9, autoreset=False)
    else:
        v = make(backend, [lambda: Reuse(2), lambda: Reuse(9)], autoreset=False)
    with v:
        v.reset()
        v.step(Z(v))
        end = v.step(Z(v))
        for k in range(3, 6):
            r = v.step(Z(v))
            assert r.observations.tolist() == [[2.0], [float(k)]]
        assert end.infos[0]["k"] == 2
        assert end.infos[0]["deep"]["array"].tolist() == [2, 2]
        assert end.observations.tolist() == [[2.0], [2.0]]


@on_rows
@both_modes
def test_1_1_the_last_reward_and_flag_survive_the_reset(backend, autoreset):
    with make(backend, [lambda: RewardBuffer(2), lambda: RewardBuffer(9)], autoreset=autoreset) as v:
        v.reset()
        v.step(Z(v))
        r = v.step(Z(v))
        assert r.rewards.tolist() == [2.0, 2.0]
        assert r.terminated.tolist() == [True, False]
        v.set_attr("over", np.zeros((), bool))
        r = v.step(Z(v))
        assert r.rewards.tolist() == [1.0 if autoreset else 0.0, 3.0]
        assert r.terminated.tolist() == [not autoreset, False]


@on_rows
@both_modes
def test_1_1_sub_envs_may_even_share_a_buffer(backend, autoreset):
    with make(backend, [lambda: OneBuffer(2), lambda: OneBuffer(3)], autoreset=autoreset) as v:
        v.reset()
        v.step(Z(v))
        r = v.step(Z(v))
        assert r.observations.tolist() == [[-1.0 if autoreset else 2.0], [2.0]]
        if autoreset:
            assert r.infos[0]["final_observation"].tolist() == [2.0]
        r = v.step(Z(v))
        assert r.observations.tolist() == [[1.0], [-1.0]] if autoreset else [[2.0], [3.0]]


def random_script(space, n, last):
    flags = {"terminated": (True, False), "truncated": (False, True), "both": (True, True)}[last]
    return [
        (space.sample(), float(k), *(flags if k == n else (False, False)), {"k": k, "x": np.full(2, k)})
        for k in range(1, n + 1)
    ]


@every_space
@both_modes
def test_1_1_whatever_the_space_buffers_may_be_reused(space, autoreset):
    space.seed(0)
    scripts = [random_script(space, n, last) for n, last in ((1, "both"), (2, "truncated"), (5, "terminated"))]
    r0 = space.sample()
    kinds = [(Toy, "sync"), *((Reusing, backend) for backend in ("sync", "async", TWO_PROCS[autoreset]))]
    vecs = [make(b, fns(*scripts, cls=c, obs=space, r0=r0, i0={"k": 0}), autoreset=autoreset) for c, b in kinds]
    runs = []
    for v in vecs:
        with v:
            results = [v.reset(seed=1)]
            results += [v.step([0, 1, 0]) for _ in range(7)]
            runs.append(results)
            for result in results:
                assert v.batch_observation_space.contains(result.observations)
    for run in runs[1:]:
        assert_same(runs[0], run)


@every_space
@both_modes
def test_1_1_native_gives_the_same_whatever_the_space(space, autoreset):
    space.seed(0)
    scripts = [random_script(space, n, last) for n, last in ((1, "both"), (2, "truncated"), (5, "terminated"))]
    kwargs = {"obs": space, "r0": space.sample(), "i0": {"k": 0}, "autoreset": autoreset}
    with scripted("sync", *scripts, **kwargs) as sync, scripted("native", *scripts, **kwargs) as native:
        assert_same(sync.reset(seed=1), native.reset(seed=1))
        for _ in range(8):
            assert_same(sync.step([0, 1, 0]), native.step([0, 1, 0]))


MUTABLE = {
    "array": (lambda: np.zeros(2), lambda x, k: x.fill(k), lambda x: x.tolist() == [1, 1]),
    "dict": (dict, lambda x, k: x.update(k=k), lambda x: x == {"k": 1}),
    "list": (lambda: [0], lambda x, k: x.__setitem__(0, k), lambda x: x == [1]),
    "set": (set, lambda x, k: x.add(k), lambda x: x == {0, 1}),
    "ordered_dict": (collections.OrderedDict, lambda x, k: x.update(k=k), lambda x: x == {"k": 1}),
    "defaultdict": (lambda: collections.defaultdict(int), lambda x, k: x.update(k=k), lambda x: x == {"k": 1}),
    "counter": (collections.Counter, lambda x, k: x.update({"k": 1}), lambda x: x["k"] == 2),
    "deque": (lambda: collections.deque(maxlen=1), lambda x, k: x.append(k), lambda x: list(x) == [1]),
    "bytearray": (lambda: bytearray(1), lambda x, k: x.__setitem__(0, k + 1), lambda x: x == b"\x02"),
    "named_tuple": (
        lambda: Fill(np.zeros(1)),
        lambda x, k: x.price.fill(k),
        lambda x: x.price[0] == 1,
    ),
    "object_array": (
        lambda: np.array([[0], None], object),
        lambda x, k: x[0].__setitem__(0, k),
        lambda x: x[0] == [1],
    ),
    "structured_array": (
        lambda: np.zeros(1, [("a", "f8")]),
        lambda x, k: x["a"].fill(k),
        lambda x: x["a"][0] == 1,
    ),
}


@on_rows
@pytest.mark.parametrize("kind", MUTABLE)
def test_1_1_infos_are_snapshots_whatever_is_in_them(backend, kind):
    build, change, holds_1 = MUTABLE[kind]
    with make(backend, [lambda: Keeper(build(), change)]) as v:
        v.reset()
        info = v.step(Z(v)).infos[0]
        assert holds_1(info["final_info"]["thing"])
        assert holds_1(info["thing"])


# -- 1.5 ---------------------------------------------------------------------------------------------------


@everywhere
def test_1_5_step_info_and_reset_info_stay_apart(backend):
    s = [([1.0], 1.0, True, False, {"why": "win", "final_info": "mine"})]
    with scripted(backend, s, i0={"why": "new", "reset_info": 7, "only_reset": 1}) as v:
        assert v.reset().infos[0] == {"why": "new", "reset_info": 7, "only_reset": 1}
        i = v.step(Z(v)).infos[0]
        assert i["final_info"] == {"why": "win", "final_info": "mine"}
        assert i["reset_info"] == {"why": "new", "reset_info": 7, "only_reset": 1}
        assert i["why"] == "win"
        assert i.keys() == {"why", "final_observation", "final_info", "reset_info"}


@everywhere
@pytest.mark.parametrize("key", ["final_info", "reset_info", "episode", "elapsed_steps"])
@both_modes
def test_1_5_own_keys_with_the_names_of_the_rule(backend, key, autoreset):
    s = [([1.0], 1.0, False, False, {key: "own"}), ([2.0], 1.0, True, False, {key: "last"})]
    with scripted(backend, s, T_with(key, 9), i0={key: "reset"}, autoreset=autoreset) as v:
        assert v.reset().infos == [{key: "reset"}] * 2
        assert v.step(Z(v)).infos[0] == {key: "own"}
        info = v.step(Z(v)).infos[0]
        if autoreset:
            assert info["final_info"] == {key: "last"}
            assert info["reset_info"] == {key: "reset"}
        else:
            assert info == {key: "last"}


def T_with(key, n):
    return [([float(k)], 1.0, k == n, False, {key: "other"}) for k in range(1, n + 1)]


@on_rows
def test_1_5_the_keys_may_differ_from_step_to_step(backend):
    s = [([1.0], 0.0, False, False, {"a": 1}), ([2.0], 0.0, False, False, {}), ([3.0], 0.0, False, True, {"b": 2})]
    with scripted(backend, s, i0={"c": 3}) as v:
        v.reset()
        assert v.step(Z(v)).infos == [{"a": 1}]
        assert v.step(Z(v)).infos == [{}]
        info = v.step(Z(v)).infos[0]
        assert info.pop("final_observation").tolist() == [3.0]
        assert info == {"b": 2, "final_info": {"b": 2}, "reset_info": {"c": 3}}


# -- 1.7 ---------------------------------------------------------------------------------------------------


@everywhere
def test_1_7_a_finished_sub_env_is_not_stepped_on(backend):
    with scripted(backend, T(1), T(3), autoreset=False) as v:
        v.reset()
        rs = [v.step(Z(v)) for _ in range(3)]
        assert v.get_attr("n_step") == [1, 3]
        assert v.get_attr("n_reset") == [1, 1]
        for r in rs[1:]:
            assert r.observations[0].tolist() == [1.0]
            assert r.rewards[0] == 0
            assert (r.terminated[0], r.truncated[0]) == (True, False)
            assert r.infos[0] == {}
        assert [r.observations[1, 0] for r in rs] == [1.0, 2.0, 3.0]
        assert [bool(r.terminated[1]) for r in rs] == [False, False, True]
        assert rs[0].dones.tolist() == [True, False]
        for r in rs:
            assert not {"reset_info", "final_observation", "final_info"} & r.infos[0].keys()


@everywhere
def test_1_7_frozen_for_hundreds_of_steps_then_reset(backend):
    truncated = [([7.0], 3.0, False, True, {})]
    with scripted(backend, truncated, T(400), autoreset=False) as v:
        for _ in range(2):
            v.reset()
            assert v.frozen.tolist() == [False, False]
            rewards = 0.0
            for k in range(1, 301):
                r = v.step(Z(v))
                rewards += r.rewards[0]
                assert r.observations.tolist() == [[7.0], [float(k)]]
                assert (r.terminated[0], r.truncated[0]) == (False, True)
            assert rewards == 3.0
            assert v.frozen.tolist() == [True, False]
        assert v.get_attr("n_step") == [2, 600]


@everywhere
def test_1_7_all_frozen_goes_on_repeating(backend):
    with scripted(backend, T(1), T(1), autoreset=False) as v:
        v.reset()
        v.step(Z(v))
        r = v.step(Z(v))
        assert r.dones.all()
        assert r.infos == [{}, {}]
        assert v.get_attr("n_step") == [1, 1]


@everywhere
def test_1_7_writing_into_a_frozen_result_does_not_stay(backend):
    with scripted(backend, T(1), T(5), autoreset=False) as v:
        v.reset()
        for _ in range(3):
            r = v.step(Z(v))
            assert r.observations[0].tolist() == [1.0]
            r.observations[:] = 99.0
            r.terminated[:] = False
            r.truncated[:] = True
            r.infos[0]["mine"] = 1
        r = v.step(Z(v))
        assert (r.terminated[0], r.truncated[0], r.infos[0]) == (True, False, {})


@on_rows
def test_1_7_a_sub_env_that_resets_itself_is_not_frozen(backend):
    env_fns = [lambda: AutoReset(Toy(T(2))), lambda: Toy(T(9))]
    with make(backend, env_fns, autoreset=False) as v:
        v.reset()
        seen = [v.step(Z(v)) for _ in range(5)]
        assert [r.observations[0, 0] for r in seen] == [1.0, 0.0, 1.0, 0.0, 1.0]
        assert [bool(r.terminated[0]) for r in seen] == [False, True, False, True, False]
        assert seen[1].infos[0]["final_observation"].tolist() == [2.0]
        assert not v.frozen.any()


@on_rows
def test_1_7_a_sub_env_that_resets_itself_is_not_reset_twice(backend):
    with make(backend, [lambda: AutoReset(Toy(T(2), i0={"n": 0}))]) as v:
        v.reset()
        v.step(Z(v))
        info = v.step(Z(v)).infos[0]
        assert v.get_attr("n_reset") == [2]
        assert info["final_observation"].tolist() == [2.0]
        assert info["reset_info"] == {"n": 0}


@everywhere
def test_1_7_a_native_env_is_passed_the_action_of_a_frozen_sub_env_again(backend):
    with scripted(backend, T(1), T(9), autoreset=False) as v:
        v.reset()
        v.step(np.array([1, 0]))
        for action in (0, 1, 0):
            v.step(np.array([0, action]))
            last = v.get_attr("last_action")
            assert [int(each) for each in last] == [1, action]


@every_space
def test_1_7_native_holds_the_action_of_a_frozen_sub_env_whatever_the_space(space):
    space.seed(0)
    with scripted("native", T(1), T(9), act=space, autoreset=False) as v:
        v.reset()
        v.batch_action_space.seed(0)
        first = v.batch_action_space.sample()
        v.step(first)
        for _ in range(3):
            actions = v.batch_action_space.sample()
            v.step(actions)
            held = list(layout.iterate(space, v.last_action, 2))
            assert_same(list(layout.iterate(space, first, 2))[0], held[0])
            assert_same(list(layout.iterate(space, actions, 2))[1], held[1])


# -- 2.1 ---------------------------------------------------------------------------------------------------


@both_modes
def test_2_1_terminated_and_truncated_in_one_step(autoreset):
    with (
        NCount([3, 9], max_episode_steps=3, autoreset=autoreset) as native,
        SyncVecEnv([lambda n=n: TimeLimit(Toy(T(n)), 3) for n in (3, 9)], autoreset=autoreset) as sync,
    ):
        for v in (native, sync):
            v.reset()
            r = [v.step(Z(v)) for _ in range(3)][-1]
            assert r.terminated.tolist() == [True, False]
            assert r.truncated.tolist() == [True, True]
            for info in r.infos:
                assert info["elapsed_steps"] == 3
                if autoreset:
                    assert info["final_info"] == {"elapsed_steps": 3}
                    assert "elapsed_steps" not in info["reset_info"]
        for _ in range(8):
            assert_same(sync.step([0, 1]), native.step([0, 1]))


@everywhere
@both_modes
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_2_1_a_limit_counts_each_sub_env_on_its_own(backend, autoreset, limit):
    with scripted(backend, T(1), T(3), T(4), max_episode_steps=limit, autoreset=autoreset) as v:
        v.reset()
        elapsed = [0, 0, 0]
        frozen = [False] * 3
        for _ in range(9):
            r = v.step(Z(v))
            for i, length in enumerate((1, 3, 4)):
                if frozen[i]:
                    assert r.infos[i] == {}
                    continue
                elapsed[i] += 1
                assert r.infos[i]["elapsed_steps"] == elapsed[i]
                assert r.terminated[i] == (elapsed[i] == length)
                assert r.truncated[i] == (elapsed[i] == limit)
                if r.dones[i]:
                    frozen[i] = not autoreset
                    elapsed[i] = 0


def test_2_1_elapsed_steps_of_a_native_env_without_a_limit():
    with NCount([2, 5]) as v:
        v.reset()
        counts = []
        for _ in range(4):
            v.step(Z(v))
            counts.append(v.elapsed_steps.tolist())
        assert counts == [[1, 1], [0, 2], [1, 3], [0, 4]]
        v.elapsed_steps[:] = 7
        assert v.elapsed_steps.tolist() == [0, 4]
        v.reset()
        assert v.elapsed_steps.tolist() == [0, 0]


# -- who ended, and with what ------------------------------------------------------------------------------


#: Sub-env 0 ends in its second step, sub-env 2 in its first; every observation is one of its own.
ENDING = [
    [(np.array([float(10 * row + k)]), 0.0, k == last, False, {}) for k in range(3)]
    for row, last in enumerate([1, 9, 0])
]


@everywhere
@both_modes
@pytest.mark.parametrize("read", [(), (0,), (1, 2)], ids=["nothing read", "one dict read", "others read"])
def test_the_terminal_observations_of_a_step(backend, autoreset, read):
    vec = scripted(backend, *ENDING, autoreset=autoreset)
    with vec:
        vec.reset()
        for ended, finals in [([2], [[20.0]]), ([0, 2], [[1.0], [20.0]])]:
            result = vec.step([0, 0, 0])
            for row in read:
                assert isinstance(result.infos[row], dict)
            rows, observations = ended_observations(vec.observation_space, result)
            expected = (ended, finals) if autoreset else ([], [])
            assert rows.dtype == np.intp and (rows.tolist(), observations.tolist()) == expected
            assert observations.shape == (len(rows), 1) and observations.dtype == vec.observation_space.dtype


@here
def test_a_terminal_observation_that_somebody_has_changed_is_shown_as_it_is_now(backend):
    vec = scripted(backend, *ENDING)
    vec.reset()
    result = vec.step([0, 0, 0])
    result.infos[2]["final_observation"] = np.array([5.0])
    rows, observations = ended_observations(vec.observation_space, result)
    assert (rows.tolist(), observations.tolist()) == ([2], [[5.0]])
    del result.infos[2]["final_observation"]  # as if it had not ended
    assert ended_observations(vec.observation_space, result)[0].tolist() == []


# -- new episodes in some of the frozen sub-envs -----------------------------------------------------------


@everywhere
def test_e1_some_frozen_sub_envs_begin_new_episodes(backend):
    options = {"autoreset_options": lambda index: {"of": index}, "i0": {"start": 7}, "r0": (5.0,)}
    with scripted(backend, T(1), T(4), T(1), autoreset=False, **options) as vec:
        vec.reset()
        vec.step([0, 0, 0])
        begun = vec.reset_frozen(np.array([2]))
        assert vec.frozen.tolist() == [True, False, False]
        assert (begun.observations.tolist(), list(begun.infos)) == ([[5.0]], [{"start": 7}])
        told = vec.get_attr("last_options")[2]
        assert (told[2] if backend == "native" else told) == {"of": 2}
        step = vec.step([0, 0, 0])
        assert step.observations.tolist() == [[1.0], [2.0], [1.0]]
        assert step.rewards.tolist() == [0.0, 1.0, 1.0]
        assert step.terminated.tolist() == vec.frozen.tolist() == [True, False, True]
        begun = vec.reset_frozen(np.array([0, 2]))
        assert (begun.observations.tolist(), list(begun.infos)) == ([[5.0], [5.0]], [{"start": 7}] * 2)
        with pytest.raises(ValueError, match=r"reset_frozen\(rows\): expected sub-envs that are frozen, got \[0, 1\]"):
            vec.reset_frozen(np.array([0, 1]))
        assert vec.step([0, 0, 0]).observations.tolist() == [[1.0], [3.0], [1.0]]
    with pytest.raises(VecEnvClosed):
        vec.reset_frozen(np.array([0]))


@pytest.mark.parametrize("name", ["dict", "nested", "sequence", "masked_box"])
@everywhere
def test_e1_new_episodes_show_observations_of_every_kind(backend, name):
    space = SPACES[name]
    first, last = space.sample(), space.sample()
    script = [(last, 1.0, True, False, {})]
    with scripted(backend, script, script, obs=space, r0=first, autoreset=False) as vec:
        vec.reset()
        vec.step([0, 0])
        begun = vec.reset_frozen(np.array([1]))
        assert_same(layout.stack(space, [first]), begun.observations)


@here
def test_e1_after_a_new_episode_that_fails_to_begin_reset_works(backend):
    vec = scripted(backend, T(1), T(9), autoreset=False)
    with vec:
        vec.reset()
        vec.step([0, 0])
        broken = vec if backend == "native" else vec.envs[0]
        name = "_reset_envs" if backend == "native" else "reset"

        def fail(*args, **kwargs):
            raise OSError("no data")

        setattr(broken, name, fail)
        with pytest.raises(OSError, match="no data"):
            vec.reset_frozen(np.array([0]))
        delattr(broken, name)
        assert vec.reset().observations.tolist() == [[0.0], [0.0]]
        assert vec.step([0, 0]).terminated.tolist() == [True, False]
