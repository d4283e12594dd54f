"""What vector wrappers of observations take in and show is a batch of the space that says so, or an error."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from backends import both_modes, scripted
from toys import BOX1, INF, T, Toy, fns

import sekai
from sekai import (
    Box,
    Dict,
    Discrete,
    InvalidObservation,
    MaskedBox,
    Sequence,
    SyncVecEnv,
    Tuple,
    VecObservationWrapper,
    VecResetResult,
    VecStepResult,
    VecTransformObservation,
    VecWrapper,
)

PIXELS = Box(0, 255, (2,), np.uint8)
BOOK = MaskedBox(-INF, INF, (1,), max_size=2, dtype=np.float64)
NESTED = Dict({"b": Box(-9, 9, (2,), np.float32), "a": Tuple((Discrete(4), BOOK))})
each_backend = pytest.mark.parametrize("backend", ["sync", "native"])


def script_of(space, length):
    """A script of as many drawn observations, which ends an episode."""
    space.seed(length)
    return [(space.sample(), 0.0, k + 1 == length, False, {}) for k in range(length)]


def batch_of(space, backend="sync", lengths=(2, 3), **kwargs):
    scripts = [script_of(space, length) for length in lengths]
    return scripted(backend, *scripts, obs=space, r0=scripts[0][0][0], **kwargs)


#: By name: the space, what is done to a batch, and what the error says.
WRONG = {
    "floats_for_integers": (PIXELS, lambda obs: obs / 255.0, "expected dtype uint8, got float64"),
    "half_of_a_number": (Discrete(4), lambda obs: obs * 0.5, "expected dtype int64, got float64"),
    "one_number_for_two": (
        Box(0, 100, (2,)),
        lambda obs: obs.mean(axis=1, keepdims=True),
        r"expected shape \(2, 2\), got shape \(2, 1\)",
    ),
    "a_row_for_all": (Box(0, 1, (2,)), lambda obs: obs[0], r"expected shape \(2, 2\), got shape \(2,\)"),
    "rows_are_missing": (PIXELS, lambda obs: obs[:1], r"expected shape \(2, 2\), got shape \(1, 2\)"),
    "no_dict": (NESTED, lambda obs: obs["b"], r"expected a batch that is a dict of \['a', 'b'\], got an array"),
    "another_key": (
        NESTED,
        lambda obs: {"b": obs["b"], "c": obs["a"]},
        r"expected a batch that is a dict of \['a', 'b'\], got a dict of \['b', 'c'\]",
    ),
    "another_tuple": (
        NESTED,
        lambda obs: {"b": obs["b"], "a": obs["a"][:1]},
        r"\['a'\]: expected a batch that is a tuple of 2, got a tuple of 1",
    ),
    "within_a_part": (
        NESTED,
        lambda obs: {"b": obs["b"], "a": (obs["a"][0], {**obs["a"][1], "mask": obs["a"][1]["mask"][:, :1]})},
        r"\['a'\]\[1\]\['mask'\]: expected shape \(2, 2\), got shape \(2, 1\)",
    ),
    "no_list": (
        Sequence(BOX1),
        lambda obs: obs[:1],
        r"expected a sequence of 2 elements \(num_envs\), got a list of 1",
    ),
}
each_wrong = pytest.mark.parametrize("space, change, message", WRONG.values(), ids=WRONG)


@each_wrong
def test_a_function_that_shows_another_space_has_to_tell_it(space, change, message):
    vec = VecTransformObservation(batch_of(space), change)
    with pytest.raises(InvalidObservation, match=rf"VecTransformObservation\.observation\(\).*{message}.*give it the"):
        vec.reset()
    with pytest.raises(InvalidObservation, match=message):
        asyncio.run(vec.async_reset())


class Changing(VecObservationWrapper):
    """Doubles observations, as complex numbers from some call on."""

    def __init__(self, venv, good):
        super().__init__(venv)
        self.good = good

    def observation(self, obs):
        self.good -= 1
        return 2 * obs if self.good >= 0 else (2 * obs).astype(complex)


@each_backend
@both_modes
def test_a_step_that_shows_another_space(backend, autoreset):
    vec = Changing(scripted(backend, T(9), T(9), autoreset=autoreset), 2)
    assert vec.reset().observations.tolist() == [[0.0], [0.0]]
    assert vec.step([0, 0]).observations.tolist() == [[2.0], [2.0]]
    with pytest.raises(InvalidObservation, match=r"Changing\.observation\(\): expected dtype float64, got complex128"):
        vec.step([0, 0])


@each_backend
def test_a_reset_of_some_that_shows_another_space(backend):
    vec = VecTransformObservation(scripted(backend, T(9), T(9)), lambda obs: obs if len(obs) == 2 else obs[:, :0])
    vec.reset()
    with pytest.raises(InvalidObservation, match=r"expected shape \(1, 1\), got shape \(1, 0\)"):
        vec.reset_envs([1])


@each_backend
def test_a_terminal_observation_of_another_space(backend):
    class Ending(VecObservationWrapper):
        def observation(self, obs):
            return obs

        def final_observation(self, obs):
            return np.concatenate([obs, obs])

    vec = Ending(scripted(backend, T(1), T(9)))
    vec.reset()
    expected = r"Ending\.final_observation\(\): expected shape \(1, 1\), got shape \(1, 2\)"
    with pytest.raises(InvalidObservation, match=expected):
        vec.step([0, 0])


@each_backend
def test_numbers_of_the_same_kind_become_those_of_the_space(backend):
    space = Box(-INF, INF, (1,), np.float32)
    vec = VecTransformObservation(scripted(backend, T(2), T(9)), lambda obs: obs / 3.0, space)
    first = vec.reset().observations
    vec.step([0, 0])
    result = vec.step([0, 0])
    final = result.infos[0]["final_observation"]
    assert first.dtype == result.observations.dtype == final.dtype == np.float32
    assert final.tolist() == [np.float32(2 / 3)] and result.observations[1].tolist() == [np.float32(2 / 3)]
    assert vec.reset_envs([0]).observations.dtype == np.float32


@pytest.mark.parametrize("space", [NESTED, BOOK, Sequence(BOX1), Tuple((Sequence(BOX1), PIXELS))], ids=repr)
def test_what_is_shown_as_it_is_stays_as_it_is(space):
    kept = batch_of(space)
    vec = VecTransformObservation(batch_of(space), lambda obs: obs)
    assert repr(vec.reset().observations) == repr(kept.reset().observations)
    for _ in range(4):
        assert repr(vec.step([0, 0])) == repr(kept.step([0, 0]))


def test_pixels_as_shares_of_their_greatest():
    venv = batch_of(PIXELS)
    shown = venv.reset().observations
    vec = VecTransformObservation(venv, lambda obs: obs / np.float32(255), Box(0.0, 1.0, PIXELS.shape))
    stacked = sekai.VecFrameStackObservation(vec, 2).reset().observations
    assert stacked.dtype == np.float32
    assert stacked.tolist() == [[row, row] for row in (shown / np.float32(255)).tolist()]


# -- a VecEnv inside that shows something else than it says --------------------------------------------------


class Cut(VecWrapper):
    """Shows half of each number, where its space says integers, from some result on."""

    def __init__(self, venv, good=0):
        super().__init__(venv)
        self.good = good

    def _half(self, observations):
        self.good -= 1
        return observations if self.good >= 0 else observations / 2

    def _after_step(self, result, frozen):
        observations = self._half(result.observations)
        return VecStepResult(observations, result.rewards, result.terminated, result.truncated, result.infos)

    def _after_reset(self, result):
        return VecResetResult(self._half(result.observations), result.infos)

    def _after_reset_some(self, result, rows):
        return self._after_reset(result)


TAKING = {
    "stack": lambda vec: sekai.VecFrameStackObservation(vec, 2),
    "delay": lambda vec: sekai.VecDelayObservation(vec, 1),
    "no_delay": lambda vec: sekai.VecDelayObservation(vec, 0),
    "time": sekai.VecTimeAwareObservation,
    "dtype": lambda vec: sekai.VecDtypeObservation(vec, np.int16),
    "normalize": sekai.VecNormalizeObservation,
    "transform": lambda vec: VecTransformObservation(vec, lambda obs: obs),
}
each_taking = pytest.mark.parametrize("wrap", TAKING.values(), ids=TAKING)
REFUSED = "observations of Cut: expected dtype uint8, got float64"


def cut(good=0, lengths=(9, 9)):
    return Cut(batch_of(PIXELS, "native", lengths, max_episode_steps=20), good)


@each_taking
def test_what_is_taken_in_is_of_the_inner_space(wrap):
    vec = wrap(cut())
    with pytest.raises(InvalidObservation, match=REFUSED):
        vec.reset()
    vec = wrap(cut(good=1))
    vec.reset()
    with pytest.raises(InvalidObservation, match=REFUSED):
        vec.step([0, 0])
    vec = wrap(cut(good=1))
    vec.reset()
    with pytest.raises(InvalidObservation, match=REFUSED):
        vec.reset_envs([1])


@each_taking
def test_the_first_of_an_episode_is_of_the_inner_space(wrap):
    vec = wrap(cut(good=1, lengths=(1, 9)))
    vec.reset()
    with pytest.raises(InvalidObservation, match=REFUSED):
        vec.step([0, 0])


@each_taking
def test_a_terminal_observation_is_of_the_inner_space(wrap):
    class Ends(VecWrapper):
        def _after_step(self, result, frozen):
            result.infos[0]["final_observation"] = np.array([0.5, 1.5])
            return result

    class Own(Toy):
        max_episode_steps = 20

    vec = wrap(Ends(SyncVecEnv(fns(script_of(PIXELS, 1), cls=Own, obs=PIXELS, r0=np.uint8([1, 2])))))
    vec.reset()
    with pytest.raises(InvalidObservation, match="dtype uint8, got float64"):
        vec.step([0])


@pytest.mark.parametrize(
    "change, message",
    [(lambda obs: obs / 255.0, "dtype uint8, got float64"), (lambda obs: obs[:1], r"shape \(2,\), got shape \(1,\)")],
    ids=["dtype", "shape"],
)
def test_one_env_is_not_flattened_into_another_dtype_or_shape(change, message):
    env = sekai.FlattenObservation(sekai.TransformObservation(Toy(T(1), obs=PIXELS, r0=np.uint8([3, 4])), change))
    with pytest.raises(InvalidObservation, match=message):
        env.reset()


@each_backend
def test_a_batch_with_a_number_that_a_dtype_does_not_hold(backend):
    steps = [([float(number)], 0.0, False, False, {}) for number in (65504.0, 65520.0)]
    vec = sekai.VecDtypeObservation(scripted(backend, steps, T(9)), np.float16)
    vec.reset()
    assert vec.step([0, 0]).observations.tolist() == [[65504.0], [1.0]]
    with pytest.raises(InvalidObservation, match="VecDtypeObservation: expected numbers that fit float16, got 65520.0"):
        vec.step([0, 0])
