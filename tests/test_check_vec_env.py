"""``check_vec_env``: nothing to say of a good market, and one thing of each that is broken in one way."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import broken_markets as markets
import numba
import numpy as np
import pytest
import toy_market
from broken_markets import GoodVec, NestedVec
from findings import COMPILED, N_STEPS, accepted, like, the_only_finding

import sekai
from sekai.env import Env
from sekai.kernels import get_num_threads, jit, jit_batch, set_num_threads
from sekai.results import ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete, MaskedBox, Sequence, Tuple
from sekai.testing import check_vec_env
from sekai.testing.kernels import Form, vectorisation_hints
from sekai.vector import KernelVecEnv, ProcVecEnv, SyncVecEnv, VecNormalizeReward, VecRecordEpisodeStatistics

#: Faults that a wide batch alone brings are in ``test_check_wide.py``.
pytestmark = pytest.mark.usefixtures("narrow")

#: Whether there is a second thread.
THREADED = numba.config.NUMBA_NUM_THREADS > 1

SHARED = (
    "hint: draws come from self.rng, shared by all sub-envs, so row i depends on num_envs; "
    "self.streams gives each sub-env its own"
)


# -- nothing to find ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"num_envs": 1}, {"num_envs": 2, "seed": 5}, {"n_steps": 1}])
def test_a_good_market_has_no_problems(arguments):
    assert check_vec_env(GoodVec, **arguments) == []


def test_the_package_offers_it():
    assert sekai.check_vec_env is check_vec_env


def sync(env, **given):
    """A factory of env objects."""
    return lambda num_envs, **arguments: SyncVecEnv([env] * num_envs, **given, **arguments)


class Nested(Env):
    """Observations and actions of every kind, episodes of five steps."""

    observation_space = Dict(
        a=Box(-9.0, 9.0, (2, 2)), b=Tuple([Discrete(7), MaskedBox(0.0, 1.0, (1,), max_size=3)]), c=Sequence(Discrete(3))
    )
    action_space = Dict(x=Discrete(3), y=Tuple([Box(-1.0, 1.0, (1,))]))

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.age = 0
        return ResetResult(self.observe(), {"age": 0})

    def observe(self):
        slots = self.observation_space["b"][1].pack(self.rng.random((2, 1)))
        return {
            "a": self.rng.random((2, 2), np.float32),
            "b": (np.int64(self.age), slots),
            "c": tuple(np.int64(k % 3) for k in range(self.age)),
        }

    def step(self, action):
        self.age += 1
        reward = float(action["x"]) + float(action["y"][0][0])
        return StepResult(self.observe(), reward, self.age == 5, False, {"age": np.array([self.age])})


@pytest.mark.parametrize("env", [Nested, toy_market.Walk, lambda: sekai.AutoReset(toy_market.Walk())])
def test_envs_one_by_one_have_no_problems(env):
    assert check_vec_env(sync(env), n_steps=N_STEPS) == []


def test_envs_in_worker_processes_have_no_problems():
    def build(num_envs, **arguments):
        return ProcVecEnv([toy_market.Walk] * num_envs, num_workers=1, **arguments)

    assert check_vec_env(build, num_envs=2, n_steps=10) == []


def test_a_market_of_nested_spaces_has_no_problems():
    assert check_vec_env(NestedVec, n_steps=N_STEPS) == []


def test_a_wrapper_that_learns_nothing_is_no_problem():
    assert (
        check_vec_env(
            lambda num_envs, **kwargs: VecRecordEpisodeStatistics(GoodVec(num_envs, **kwargs)), n_steps=N_STEPS
        )
        == []
    )


def test_a_wrapper_that_learns_makes_rows_depend_on_each_other():
    finding = the_only_finding(lambda num_envs, **kwargs: VecNormalizeReward(GoodVec(num_envs, **kwargs)))
    assert re.match(r"step 1: rewards\[0\]: expected .* got .* after a reset, which leaves something", finding)


def test_a_generator_that_sub_envs_share_is_one_hint():
    assert check_vec_env(markets.SharedGenerator, n_steps=N_STEPS) == [SHARED]
    walk = check_vec_env(partial(toy_market.WalkVec, noise=0.5), n_steps=N_STEPS)
    assert walk == [SHARED, accepted("2 of Discrete(2)")]


def test_without_autoreset_freezing_alone_is_seen():
    assert check_vec_env(lambda num_envs: GoodVec(num_envs, autoreset=False), n_steps=N_STEPS) == []
    finding = the_only_finding(lambda num_envs: markets.FrozenReward(num_envs, autoreset=False), n_steps=N_STEPS)
    assert re.match(r"autoreset=False, step \d+: rewards\[\d\]: expected 0.0 of a frozen sub-env, got -1.0", finding)


def test_what_could_not_be_seen_is_a_hint():
    assert the_only_finding(lambda num_envs: GoodVec(num_envs)) == (
        "hint: the factory takes no autoreset=False, so freezing and final observations were not seen"
    )
    assert the_only_finding(lambda num_envs: GoodVec(num_envs), n_steps=2) == (
        "hint: no episode ended within 2 steps, so autoreset and freezing were not seen; "
        "take more steps, or a factory that takes max_episode_steps"
    )


def test_episodes_that_do_not_end_are_made_to():
    limits = []

    def build(num_envs, max_episode_steps=None, **kwargs):
        limits.append(max_episode_steps)
        return markets.FrozenReward(num_envs, max_episode_steps=max_episode_steps, **kwargs)

    finding = the_only_finding(build, n_steps=2)
    assert finding == "autoreset=False, step 2: rewards[0]: expected 0.0 of a frozen sub-env, got -1.0 (sub-env 0)"
    assert set(limits) == {None, 1}


def test_nothing_of_the_process_is_changed():
    np.random.seed(0)
    random.seed(0)
    numpy_state, python_state, threads = np.random.get_state()[1].copy(), random.getstate(), get_num_threads()
    set_num_threads(2)
    try:
        check_vec_env(GoodVec, n_steps=5)
        assert get_num_threads() == 2 or threads == 1
    finally:
        set_num_threads(threads)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    assert random.getstate() == python_state


def test_every_vec_env_is_closed():
    built = []

    def build(num_envs, **kwargs):
        built.append(markets.ResetsInItsKernel(num_envs, **kwargs))
        return built[-1]

    check_vec_env(build, n_steps=N_STEPS)
    assert len(built) > 5 and all(vec.closed for vec in built)


# -- the factory and the arguments -------------------------------------------------------------------------


def test_a_factory_that_raises():
    def build(num_envs, **kwargs):
        raise OSError("no data")

    assert the_only_finding(build) == "factory(7): expected a VecEnv, got OSError: no data"

    def build_autoreset_only(num_envs, autoreset=True):
        if not autoreset:
            raise OSError("no data")
        return GoodVec(num_envs)

    assert the_only_finding(build_autoreset_only) == (
        "factory(1, autoreset=False): expected a VecEnv, got OSError: no data"
    )


def test_a_close_that_raises():
    class Stuck(GoodVec):
        def close(self):
            raise OSError("busy")

    assert the_only_finding(Stuck) == "close(): expected no error, got OSError: busy"


def test_a_factory_of_something_else():
    assert the_only_finding(lambda num_envs: 3) == "factory(7): expected a VecEnv, got 3 (int)"
    assert the_only_finding(lambda num_envs: GoodVec(2)) == "factory(7): expected 7 sub-envs (num_envs), got 2"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs: expected at least 1, got 0"),
        ({"num_envs": 1.5}, TypeError, "num_envs: expected an integer, got float"),
        ({"n_steps": 0}, ValueError, "n_steps: expected at least 1, got 0"),
        ({"seed": -1}, ValueError, "seed: expected an integer of at least 0, got -1"),
        ({"seed": None}, TypeError, "seed: expected an integer"),
    ],
)
def test_arguments_are_checked(arguments, error, message):
    with pytest.raises(error, match=message):
        check_vec_env(GoodVec, **arguments)


@pytest.mark.parametrize(
    ("factory", "id", "got"),
    [
        ("Trading-v0", "Trading-v0", "'Trading-v0' (str)"),
        (GoodVec(2), "SomeId-v0", "# (GoodVec)"),
        (None, "SomeId-v0", "None (NoneType)"),
    ],
)
def test_what_is_no_factory(factory, id, got):
    message = (
        "check_vec_env(factory): expected a callable that takes num_envs, e.g. the class of a market or "
        f'lambda n, **kwargs: sekai.make_vec("{id}", n, **kwargs), got {got}'
    )
    with pytest.raises(TypeError, match=like(message)):
        check_vec_env(factory)


def test_an_env_is_for_the_other_check():
    for given in (toy_market.Walk, toy_market.Walk()):
        with pytest.raises(TypeError, match=r"builds a VecEnv, got .*; check_env\(env\) is for an Env$"):
            check_vec_env(given)
    assert the_only_finding(lambda num_envs: toy_market.Walk()).endswith("(Walk); check_env(env) is for an Env")


# -- one fault each ----------------------------------------------------------------------------------------

UNREACHED = "; is there a generator that reset(seed=...) does not reach, or an item not always written?"

#: What is found in each; see ``like``.
FAULTS = {
    markets.WrongObservationShape: "reset: expected a VecResetResult, got InvalidObservation: "
    "WrongObservationShape._observe(): expected shape (7, 2), got shape (7, 1)",
    markets.WrongInfoLength: "step 1: expected a VecStepResult, got ValueError: WrongInfoLength._step(): "
    "expected info column 'level' with a first axis of 7, got shape (6,)",
    markets.ResetInfosOfAll: "step #: expected a VecStepResult, got ValueError: ResetInfosOfAll._reset_infos(): "
    "expected info column 'age' with a first axis of #, got shape (7,)",
    markets.NotANumber: "step 3: observations[0, 0]: expected a finite number, got nan (sub-env 0)",
    markets.InfiniteReward: "step 2: rewards[0]: expected a finite number, got inf (sub-env 0)",
    markets.OutsideSpace: "step 2: observations[0]: expected an element of Box(-10.0, 10.0, (2,), float32), "
    "got # (shape (2,), float32) (sub-env 0)",
    markets.WrongObservationDtype: "step 1: observations: expected float32 of shape (7, 2), "
    "got float64 of shape (7, 2)",
    markets.WrongRewardDtype: "step 1: rewards: expected float64 of shape (7,), got float32 of shape (7,)",
    markets.WrongRewardShape: "step 1: rewards: expected float64 of shape (7,), got float64 of shape (7, 1)",
    markets.WrongFlagDtype: "step 1: truncated: expected bool of shape (7,), got int64 of shape (7,)",
    markets.TooFewInfos: "step 1: infos: expected a list of 7 dicts (num_envs), got a list of 6",
    markets.NoInfo: "step 1: infos[6]: expected a dict whose keys are strings, got None (NoneType) (sub-env 6)",
    markets.BareTuple: "step 1: expected a VecStepResult, got (array(#... (tuple)",
    markets.Raises: "step 1: expected a VecStepResult, got KeyError: 'price'",
    # memory
    markets.RewritesInfos: "step 1: infos['level'][0]: expected # to stay as it was returned, got # after step 2 "
    "(sub-env 0)",
    markets.SharesRewards: "step 2: rewards[0]: expected # whatever the caller writes into the rewards and flags "
    "of the call before, got # (sub-env 0)",
    markets.SharesObservations: "step 2: observations[#, 0]: expected # whatever the caller writes into the "
    "observations of the call before, got # (sub-env #)",
    markets.SharesInfos: "step 2: rewards[0]: expected # whatever the caller writes into the infos of the call "
    "before, got # (sub-env 0)",
    markets.WritesActions: "step 1: actions[0]: expected # to stay as the caller gave it, got # (sub-env 0)",
    markets.KeepsActions: "step 2: observations[#, 0]: expected # whatever the caller writes into the actions of "
    "the call before, got # (sub-env #)",
    # random draws
    markets.NumpyGlobal: "step 1: expected every draw to come from self.streams or self.rng, "
    "got one from NumPy's global generator (np.random)",
    markets.PythonGlobal: "step 1: expected every draw to come from self.streams or self.rng, "
    "got one from Python's global generator (random)",
    markets.NumbaGlobal: "advance_by_numba(): expected every draw to come from self.streams or self.rng, "
    "got one from numba's own generator (np.random in a kernel)"
    if COMPILED
    else "step 1: # got one from NumPy's global generator (np.random)",
    markets.Unseeded: "step 1: observations[0, 0]: expected #, as these seeds and actions gave before, "
    f"got # in another VecEnv{UNREACHED} (sub-env 0)",
    markets.Remembers: "step 1: observations[0, 0]: expected #, as these seeds and actions gave before, "
    f"got # after a reset, which leaves something of the run before{UNREACHED} (sub-env 0)",
    # rows that depend on others
    markets.ResetsAll: "step #: observations[0, 0]: expected #, since this sub-env has not been reset, "
    "got # after _reset_envs([1, 3, 5]) (sub-env 0)",
    markets.OtherRows: "step 1: observations[0, 0]: expected # whatever the other sub-envs do, "
    "got # when they act otherwise (sub-env 0)",
    markets.OtherSeeds: "reset: observations[1, 0]: expected # whatever the seed of sub-env 0, "
    "got # with another one (sub-env 1)",
    markets.NumEnvs: "step 1: rewards[0]: expected #, as in a VecEnv of 1 with this seed and these actions, "
    "got # in one of 7 (sub-env 0)",
    # episodes
    markets.ShowsTheEnd: "alone, step #: observations[0, 0]: expected #, as after a reset() by hand with "
    "autoreset=False, got # (sub-env 0)",
    markets.NoFinalObservation: "step #: infos[#]: expected ['final_observation'] of an episode that has ended, "
    "got only the keys ['level', 'age', 'final_info', 'reset_info'] (sub-env #)",
    markets.FinalAfterReset: "alone, step #: infos[0]['final_observation']: expected #, as the episode ends with "
    "autoreset=False, got # (sub-env 0)",
    markets.ResetsTooEarly: "step #: infos[#]['final_observation']: expected the end of the episode, "
    "got what follows it, since _step() has called _reset_envs() (sub-env #)",
    markets.ResetsInItsKernel: "hint: each of the # episodes that ended shows as its final_observation "
    "what the next one begins with; is it taken after a reset?",
    markets.FrozenReward: "autoreset=False, step #: rewards[#]: expected 0.0 of a frozen sub-env, got -1.0 (sub-env #)",
    markets.FrozenMoves: "autoreset=False, step #: observations[#, 0]: expected # of a frozen sub-env, "
    "got # (sub-env #)",
    markets.FrozenInfos: "autoreset=False, step #: infos[#]: expected an empty dict of a frozen sub-env, "
    "got {'age': 0} (sub-env #)",
    markets.FrozenReadsOn: "autoreset=False, step 14: expected a VecStepResult, got IndexError: index 13 # "
    "while sub-envs [0, 1, 2, 3, 4, 5, 6] were frozen",
    markets.FrozenNever: "autoreset=False, step #: frozen: expected sub-envs [#] to be frozen, got []",
    markets.OtherEnd: "autoreset=False, step #: rewards[#]: expected #, as with autoreset, got # (sub-env #)",
    markets.AutoresetAlways: "factory(1, autoreset=False): expected autoreset to be off, "
    "got a VecEnv with autoreset True",
    # observing
    markets.ObservingCounts: "reset: _observe(): expected #, as _observe() showed just before, got # (sub-env 0)",
    markets.ObservingMoves: "step 6: observations[#, 0]: expected # however often _observe() is called, "
    "got # after two calls more (sub-env #)",
    markets.ObservesOtherRows: "reset: _observe_rows([0, 2, 4, 6]): expected #, as _observe() showed just before, "
    "got # (sub-env 2)",
}

#: Seen only where kernels are compiled.
FAULTS_OF_KERNELS = {
    markets.Threads: "step 1: observations[0, 0]: expected #, as on 1 thread, got # on 2 (sub-env 0 of #)",
    markets.OwnThreads: "step 1: observations[0, 0]: expected #, as on 1 thread, got # on 2 (sub-env 0 of #)",
    markets.ObjectMode: "advance_as_objects(): expected a kernel compiled to machine code, got one in object mode",
    markets.NotParallel: "advance_serially(): expected a loop that runs in parallel (parallel=True), got none; "
    "it takes numba.prange with neither raise nor assert inside",
    markets.PlainKernel: "advance_slowly(): expected a compiled function by its name, got a plain Python one; "
    "compile it with sekai.kernels.jit or jit_batch, or give it another name",
    markets.NotVectorised: "hint: advance_one_by_one(): no arithmetic on wide registers, so its loop is not vectorised",
    markets.CallsLibm: "hint: advance_with_libm(): # calls exp of the C library",
}


@pytest.mark.parametrize("market", FAULTS, ids=lambda market: market.__name__)
def test_a_fault_is_named_with_the_array_and_the_row(market):
    assert re.match(like(FAULTS[market]), the_only_finding(market))


@pytest.mark.filterwarnings("ignore::numba.NumbaPerformanceWarning")
@pytest.mark.parametrize("market", FAULTS_OF_KERNELS, ids=lambda market: market.__name__)
def test_a_fault_of_a_kernel_is_named(market):
    if COMPILED and (THREADED or market not in (markets.Threads, markets.OwnThreads)):
        assert re.match(like(FAULTS_OF_KERNELS[market]), the_only_finding(market))
    else:
        assert check_vec_env(market, n_steps=N_STEPS) == []


def test_every_broken_market_is_looked_at():
    broken = {each for each in vars(markets).values() if isinstance(each, type) and issubclass(each, GoodVec)}
    others = {GoodVec, markets.AnotherResult, markets.SharedGenerator, markets.LargeBatches}
    shared = {markets.SharedGeneratorOtherRows, markets.ObservingDraws}
    assert broken == FAULTS.keys() | FAULTS_OF_KERNELS.keys() | others | shared


@pytest.mark.parametrize(
    ("market", "problem"),
    [
        (markets.SharedGeneratorOtherRows, FAULTS[markets.OtherRows]),
        (markets.ObservingDraws, "step 1: expected _observe() to leave self.rng alone, got draws from it"),
    ],
)
def test_a_fault_beside_a_shared_generator(market, problem):
    found, hint = check_vec_env(market, n_steps=N_STEPS)
    assert re.match(like(problem), found)
    assert hint == SHARED


# -- further places ----------------------------------------------------------------------------------------


def test_a_global_generator_of_envs_one_by_one():
    class Global(toy_market.Walk):
        def step(self, action):
            random.random()
            return super().step(action)

    assert the_only_finding(sync(Global)).endswith("got one from Python's global generator (random)")


def test_a_fault_shows_within_a_wrapper_too():
    def build(num_envs, **kwargs):
        return VecRecordEpisodeStatistics(markets.NumEnvs(num_envs, **kwargs))

    assert re.match(like(FAULTS[markets.NumEnvs]), the_only_finding(build))


def test_live_infos_of_envs_one_by_one():
    class Live(SyncVecEnv):
        counts: list = []

        def step(self, actions):
            result = super().step(actions)
            self.counts.append(0)
            return replace(result, infos=[info and {**info, "counts": self.counts} for info in result.infos])

    def build(num_envs, **arguments):
        return Live([toy_market.Walk] * num_envs, **arguments)

    message = (
        "step 1: infos[0]: expected {# 'counts': [0]} to stay as it was returned, got {# 'counts': [0, 0]} after #"
    )
    assert re.match(like(message), the_only_finding(build))


def test_a_generator_that_no_seed_reaches():
    class Own(GoodVec):
        def __init__(self, num_envs, **kwargs):
            super().__init__(num_envs, **kwargs)
            self.own = np.random.default_rng(0)

        def _push(self, actions):
            return super()._push(actions) + 0.1 * self.own.random(self.num_envs)

    assert re.match(like(FAULTS[markets.Remembers]), the_only_finding(Own))


def test_a_reset_that_returns_something_else():
    class Bare(GoodVec):
        def reset(self, **kwargs):
            return super().reset(**kwargs).observations

    finding = the_only_finding(Bare)
    assert re.match(like("reset: expected a VecResetResult, got array(#... (shape (7, 2), float32)"), finding)


def test_infos_of_another_dtype():
    class Counts(GoodVec):
        def _step(self, actions):
            rewards, terminated, truncated, infos = super()._step(actions)
            return rewards, terminated, truncated, {"age": self.age.astype(np.int64 if self.num_envs > 1 else np.int32)}

    finding = the_only_finding(Counts)
    assert finding.startswith("step 1: infos['age'][0]: expected 1, as in a VecEnv of 1 with this seed")


def test_an_end_that_freezing_shows_otherwise():
    class OtherFinal(markets.AnotherResult):
        def others(self, result):
            shift = 0.5 * (self.num_envs > 1 and not self.autoreset)
            return {"observations": result.observations + np.float32(shift) * result.dones[:, None]}

    message = (
        "autoreset=False, step #: observations[#]: expected #, the final_observation under autoreset, got # (sub-env #)"
    )
    assert re.match(like(message), the_only_finding(OtherFinal))


def test_observations_that_never_change_give_no_hint():
    class Blind(GoodVec):
        def _observe(self):
            return np.zeros((self.num_envs, 2), np.float32)

    assert check_vec_env(Blind, n_steps=N_STEPS) == []


class Altered(NestedVec):
    """Each step's observations altered."""

    def step(self, actions):
        result = super().step(actions)
        return replace(result, observations=self.alter(dict(result.observations)))


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda batch: batch["a"], "step 1: observations: expected a dict of ['a', 'c'], got # (shape (7,), float64)"),
        (lambda batch: {"a": batch["a"]}, "step 1: observations: expected a dict of ['a', 'c'], got {'a': #} (dict)"),
        (
            lambda batch: {**batch, "a": batch["a"].tolist()},
            "step 1: observations['a']: expected an array, float64 of shape (7,), got [#] (list)",
        ),
        (
            lambda batch: {**batch, "c": batch["c"][1:]},
            "step 1: observations['c']: expected a list of 7 (num_envs), got [#] (list)",
        ),
        (
            lambda batch: {**batch, "a": np.where(batch["a"] == 2.0, np.inf, batch["a"])},
            "step 2: observations['a'][0]: expected a finite number, got inf (sub-env 0)",
        ),
        (
            lambda batch: {**batch, "c": [sequence if len(sequence) != 3 else (9,) for sequence in batch["c"]]},
            "step 3: observations[0]: expected an element of Dict(#, got {'a': #, 'c': (9,)} (dict) (sub-env 0)",
        ),
    ],
)
def test_a_part_of_nested_observations_is_named(alter, message):
    market = type("Market", (Altered,), {"alter": staticmethod(alter)})
    assert re.match(like(message), the_only_finding(market))


def test_a_part_of_nested_actions_is_named():
    class Writes(NestedVec):
        def _step(self, actions):
            outputs = super()._step(actions)
            actions[0][:] = 0
            return outputs

    message = "step #: actions[0][#]: expected # to stay as the caller gave it, got # (sub-env #)"
    assert re.match(like(message), the_only_finding(Writes))


def test_a_sequence_that_differs_is_named():
    class Others(NestedVec):
        def _observe(self):
            return {"a": self.age, "c": [(np.int64(self.num_envs > 1),) * int(age) for age in self.age]}

    assert the_only_finding(Others) == (
        "step 1: observations['c'][0]: expected (np.int64(0),), as in a VecEnv of 1 with this seed and these actions, "
        "got (np.int64(1),) in one of 7 (sub-env 0)"
    )


def test_final_observations_are_held_against_the_space():
    class Outside(GoodVec):
        def _observe(self):
            observations = super()._observe()
            observations[self.age == 12] = 99.0
            return observations

    message = "step 12: infos[#]['final_observation']: expected an element of Box(#), got # (sub-env #)"
    assert re.match(like(message), the_only_finding(Outside))


def test_a_final_observation_where_no_episode_has_ended():
    class Early(markets.AnotherResult):
        def others(self, result):
            return {"infos": [{**info, "final_observation": np.zeros(2, np.float32)} for info in result.infos]}

    assert the_only_finding(Early) == (
        "step 1: infos[0]: expected no 'final_observation' of an episode that goes on (sub-env 0)"
    )


def test_a_step_without_an_info_column():
    class Sometimes(GoodVec):
        def _step(self, actions):
            rewards, terminated, truncated, infos = super()._step(actions)
            return rewards, terminated, truncated, infos if self.num_envs > 1 else {"age": infos["age"]}

    assert the_only_finding(Sometimes) == (
        "step 1: infos['level']: expected 'nothing', as in a VecEnv of 1 with this seed and these actions, "
        "got 'an array' in one of 7 (sub-env 0)"
    )


def test_reset_infos_that_depend_on_others():
    class Counts(GoodVec):
        def _reset_infos(self, indices):
            return {"reset_together": np.full(len(indices), len(indices))}

    message = (
        "step #: infos[0]['reset_info']: expected {'reset_together': #}, since this sub-env has not been reset, "
        "got {'reset_together': #} after _reset_envs([1, 3, 5]) (sub-env 0)"
    )
    assert re.match(like(message), the_only_finding(Counts))


def test_hooks_that_raise():
    class Observes(GoodVec):
        def _observe_rows(self, indices):
            return self._observe()[indices, : 1 if len(indices) == 4 else 2]

    class Resets(GoodVec):
        def _reset_envs(self, indices, options):
            if 1 < len(indices) < self.num_envs:
                raise IndexError("past the data")
            super()._reset_envs(indices, options)

    class ResetsLate(GoodVec):
        def _reset_envs(self, indices, options):
            if self.num_envs == 1 and not self.autoreset and self.age.any():
                raise IndexError("past the data")
            super()._reset_envs(indices, options)

    assert the_only_finding(Observes, n_steps=6) == (
        "reset: _observe_rows([0, 2, 4, 6]): expected a batch of 4 observations, got ValueError: "
        "a batch: expected shape (4, 2), got shape (4, 1)"
    )
    assert the_only_finding(Resets, n_steps=6) == (
        "reset: _reset_envs([1, 3, 5]): expected it to reset some sub-envs, got IndexError: past the data"
    )
    assert re.match(
        like("reset() after step # with autoreset=False: expected a VecResetResult, got IndexError: past the data"),
        the_only_finding(ResetsLate, n_steps=14),
    )


def test_what_freezing_leaves_to_the_next_reset():
    class Stays(GoodVec):
        stays = False

        def _step(self, actions):
            self.stays = self.num_envs > 1 and self.frozen.all()
            return super()._step(actions)

        def _reset_envs(self, indices, options):
            super()._reset_envs(indices, options)
            self.age[indices] += self.stays

    assert the_only_finding(Stays) == (
        "autoreset=False, reset: observations[0, 1]: expected 0.0, as before sub-envs were frozen, "
        "got 0.0833333358168602 (sub-env 0)"
    )


class Helper:
    """Where a market may keep its kernels."""

    @property
    def push(self):
        return markets.advance_slowly

    def advance(self, push):
        return self.push(push)


def through_a_closure():
    kernel = markets.advance_slowly
    return lambda self, push: kernel(push)


def through_a_closure_that_is_empty():
    def way(self, push):
        return markets.advance_slowly(push) if len(push) else _later(push)

    for _later in ():  # never filled
        pass
    return way


def through_a_helper(self, push):
    return self.helper.advance(push)


def through_a_nested_function(self, push):
    return (lambda: markets.advance_slowly(push))()


def through_a_function(self, push):
    return through_a_nested_function(self, push)


WAYS = {
    "closure": through_a_closure(),
    "empty closure": through_a_closure_that_is_empty(),
    "helper": through_a_helper,
    "nested function": through_a_nested_function,
    "function": through_a_function,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_kernel_is_found_however_it_is_reached(way):
    class Reaches(GoodVec):
        def __init__(self, num_envs, **kwargs):
            super().__init__(num_envs, **kwargs)
            self.helper = Helper()

        def _push(self, actions):
            return way(self, super()._push(actions))

    findings = check_vec_env(Reaches, n_steps=N_STEPS)
    assert len(findings) == COMPILED
    assert all(re.match(like(FAULTS_OF_KERNELS[markets.PlainKernel]), each) for each in findings)


@jit_batch()
def copy_all(push, out):
    for i in range(len(push)):
        out[i] = push[i]


def test_a_kernel_that_only_copies_gives_no_hint():
    class Copies(GoodVec):
        def _push(self, actions):
            push, out = super()._push(actions), np.empty(self.num_envs)
            copy_all(push, out)
            return out

    assert check_vec_env(Copies, n_steps=N_STEPS) == []


def test_texts_are_as_wide_as_the_longest_of_all_rows():
    class Named(GoodVec):
        def _step(self, actions):
            *results, infos = super()._step(actions)
            return *results, {**infos, "regime": np.where(self.level > 0.3, "turbulent", "calm")}

    assert check_vec_env(Named, n_steps=N_STEPS) == []


@numba.njit
def list_pairs(values, pairs):
    for i in range(len(values)):
        pairs[i, :] = [values[i], values[i]]


@pytest.mark.compiled
def test_the_digits_of_a_number_in_the_text_of_an_error_are_no_logarithm():
    list_pairs(np.ones(3), np.empty((3, 2)))
    form = Form("list_pairs", list_pairs, list_pairs.signatures[0], is_batch=True)
    assert "@llvm.log10" in list_pairs.inspect_llvm(form.signature)
    assert not any("log10" in hint for hint in vectorisation_hints([form]))


@pytest.mark.parametrize(
    "code",
    [
        "%2 = tail call double @llvm.log10.f64(double %1)\n%3 = tail call double @llvm.floor.f64(double %2)",
        "%1 = sitofp i64 %0 to double\n%2 = tail call double @llvm.log10.f64(double %1)",
    ],
    ids=["of a float", "not rounded"],
)
def test_another_logarithm_is_one(code):
    class Compiled:
        def inspect_asm(self, signature):
            return "\tvaddpd\t%ymm0, %ymm1, %ymm2\n\tcallq\tlog10\n"

        def inspect_llvm(self, signature):
            return code

    (hint,) = vectorisation_hints([Form("advance", Compiled(), (), is_batch=True)])
    assert hint == "advance(): its loop calls log10 of the C library, one row after another"


def test_a_processor_without_wide_registers_gives_no_hint():
    class Compiled:
        def inspect_asm(self, signature):
            return "\tfadd\td0, d0, d1\n\tbl\texp\n"

    assert vectorisation_hints([Form("advance", Compiled(), (), is_batch=True)]) == []


class Deaf(markets.GoodVec):
    """Takes a time limit and options, and hands neither on."""

    def __init__(self, num_envs, autoreset=True, **kwargs):
        super().__init__(num_envs, autoreset=autoreset)


def test_a7_arguments_that_are_taken_and_lost_are_named():
    findings = check_vec_env(Deaf, num_envs=2, n_steps=16)
    assert [each.partition(";")[0] for each in findings] == [
        "factory: expected Deaf to have max_episode_steps=2, got None",
        "factory: expected Deaf to have autoreset_options={}, got None",
    ]


def test_a_lost_argument_hides_no_other_problem():
    class DeafNotANumber(Deaf, markets.NotANumber):
        pass

    findings = check_vec_env(DeafNotANumber, num_envs=2, n_steps=5, check_bounds=False)  # too few for an end
    assert any("nan" in each for each in findings), findings
    assert any("to have max_episode_steps=" in each for each in findings)
    assert len(findings) == len(set(findings))


class Walked(NamedTuple):
    place: np.float64


@jit
def begin_row(state, i):
    state.place[i] = 0.0


@jit
def walk_row(state, i, action):
    state.place[i] += action
    return 0.0, False, False


@jit
def look_now_and_then_row(state, i, elapsed, observation):
    observation[0] = state.place[i]
    if elapsed % 3 == 0:
        observation[1] = elapsed


class NowAndThen(KernelVecEnv):
    """Writes an item of its observation at some steps only: in the others it holds what was in that memory."""

    State = Walked
    reset_row, step_row, observe_row = begin_row, walk_row, look_now_and_then_row
    observation_space = Box(-np.inf, np.inf, (2,))
    action_space = Discrete(3)


@pytest.mark.form
def test_an_item_of_an_observation_that_is_not_always_written():
    findings = check_vec_env(NowAndThen, num_envs=3, n_steps=20)
    assert any("observ" in each for each in findings), findings  # which check comes upon it depends on the memory
