"""Spaces and the registry by gymnasium's names, against gymnasium's own: what differs stands in the docs."""

from __future__ import annotations

import copy
import inspect

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as theirs
from spaces_catalogue import CATALOGUE, FIXED, same

from sekai import EnvRegistry, EnvSpec
from sekai import spaces as ours
from sekai.compat.gymnasium import to_gymnasium_space
from sekai.space_utils import flatdim, flatten, flatten_space, unflatten

# -- draws -------------------------------------------------------------------------------------------------


def bits(*values):
    return np.array(values, np.int8)


#: Of each space how it is built of either library's classes, and a mask.
MASKED = {
    "discrete": (lambda spaces, seed: spaces.Discrete(5, seed), bits(1, 0, 1, 0, 1)),
    "discrete-start": (lambda spaces, seed: spaces.Discrete(3, seed, -7), bits(0, 1, 1)),
    "multi-discrete": (
        lambda spaces, seed: spaces.MultiDiscrete([3, 4], seed=seed),
        (bits(1, 0, 1), bits(1, 1, 1, 0)),
    ),
    "multi-discrete-start": (
        lambda spaces, seed: spaces.MultiDiscrete([2, 3], np.int32, seed, start=[5, -2]),
        (bits(1, 1), bits(0, 1, 1)),
    ),
    "multi-discrete-2d": (
        lambda spaces, seed: spaces.MultiDiscrete([[3, 2], [2, 3]], seed=seed),
        ((bits(1, 0, 1), bits(1, 1)), (bits(1, 1), bits(0, 1, 1))),
    ),
    "multi-binary": (lambda spaces, seed: spaces.MultiBinary(6, seed), bits(2, 0, 1, 2, 2, 2)),
    "multi-binary-2d": (lambda spaces, seed: spaces.MultiBinary((2, 2), seed), bits([2, 0], [1, 2])),
}


@pytest.mark.parametrize("build, mask", MASKED.values(), ids=MASKED)
@pytest.mark.parametrize("seed", [3, None], ids=["int", "generator"])
def test_masked_draws_are_gymnasium_s_of_the_same_seed(build, mask, seed):
    space, there = (build(spaces, np.random.default_rng(5) if seed is None else seed) for spaces in (ours, theirs))
    for _ in range(20):
        assert same(space.sample(mask), there.sample(mask))
    assert space.rng.bit_generator.state == there.np_random.bit_generator.state


@pytest.mark.parametrize("seed", [3, None], ids=["int", "generator"])
@pytest.mark.parametrize(
    "build",
    [
        lambda spaces, seed: spaces.Discrete(9, seed, 2),
        lambda spaces, seed: spaces.MultiBinary(6, seed),
        lambda spaces, seed: spaces.Box(-1, 1, (3,), np.float64, seed),
        lambda spaces, seed: spaces.Box(-np.inf, np.inf, (3,), seed=seed),
        lambda spaces, seed: spaces.Box(2, np.inf, (3,), seed=seed),
        lambda spaces, seed: spaces.Box(-np.inf, 2, (3,), seed=seed),
    ],
    ids=["discrete", "multi-binary", "box", "box-unbounded", "box-below", "box-above"],
)
def test_draws_are_gymnasium_s_of_the_same_seed(build, seed):
    space, there = (build(spaces, np.random.default_rng(5) if seed is None else seed) for spaces in (ours, theirs))
    for _ in range(20):
        assert same(space.sample(), there.sample())


@pytest.mark.parametrize("name", ["Box", "Discrete", "MultiBinary", "MultiDiscrete"])
def test_a_generator_as_seed_is_the_one_that_is_drawn_from(name):
    arguments = {"Box": (0, 1), "MultiDiscrete": ([2, 3],)}.get(name, (3,))
    generator = np.random.default_rng(5)
    space, there = (getattr(spaces, name)(*arguments, seed=generator) for spaces in (ours, theirs))
    assert space.rng is generator and there.np_random is generator
    other = np.random.default_rng(6)
    assert space.seed(other) is None and space.rng is other


# -- flat vectors ------------------------------------------------------------------------------------------

#: Gymnasium flattens them to float64; to what they are flattened here.
NARROWER = {"dict": np.float32, "dict-nested": np.float32, "tuple-nested": np.float32}
#: Gymnasium has no counterpart, or flattens none of it.
LEFT_OUT = {"multi-discrete-int8", "multi-discrete-scalar", "multi-discrete-scalar-int8", "dict-empty", "tuple-empty"}


@pytest.mark.parametrize("name", [name for name in FIXED if name not in LEFT_OUT])
def test_flat_vectors_are_gymnasium_s(name):
    space, there = copy.deepcopy(CATALOGUE[name]), to_gymnasium_space(CATALOGUE[name])
    flat, flat_there = flatten_space(space), theirs.utils.flatten_space(there)
    assert flatdim(space) == theirs.utils.flatdim(there) and flat.shape == flat_there.shape
    np.testing.assert_array_equal(flat.low, flat_there.low)
    np.testing.assert_array_equal(flat.high, flat_there.high)
    assert flat.dtype == NARROWER.get(name, flat_there.dtype)
    space.seed(3)
    for _ in range(5):
        x = space.sample()
        vector, vector_there = flatten(space, x), theirs.utils.flatten(there, x)
        np.testing.assert_array_equal(vector, vector_there)
        assert vector.dtype == NARROWER.get(name, vector_there.dtype)
        assert same(unflatten(space, vector_there), theirs.utils.unflatten(there, vector_there))


# -- the registry ------------------------------------------------------------------------------------------


class Walk(gymnasium.Env):
    """Never made."""


def test_ids_are_found_counted_and_listed_as_in_gymnasium_s_registry():
    registry, there = EnvRegistry(), gymnasium.registry
    many, id = len(there), "lab/Walk-v3"
    assert id not in there and id not in registry and len(registry) == 0
    gymnasium.register(id, Walk)
    try:
        spec = registry.register(id, "lab.walks:Walk")
        assert id in there and id in registry
        assert "lab/Walk" not in there and "lab/Walk" not in registry
        assert (len(there) - many, len(registry)) == (1, 1)
        assert id in list(there) and list(registry) == [id]
        assert gymnasium.spec(id).id == registry.spec(id).id == spec.id
    finally:
        del there[id]
    registry.deregister(id)
    assert id not in there and id not in registry and len(registry) == 0


def test_a_spec_of_an_id_alone_is_what_gymnasium_s_is():
    spec, there = EnvSpec("lab/Walk-v3"), gymnasium.envs.registration.EnvSpec("lab/Walk-v3")
    for name in ("id", "namespace", "name", "version", "entry_point", "max_episode_steps", "kwargs"):
        assert getattr(spec, name) == getattr(there, name), name
    for name in ("reward_threshold", "nondeterministic", "additional_wrappers", "vector_entry_point"):
        assert getattr(spec, name) == getattr(there, name), name
    for make in (EnvSpec("lab/Walk-v3").make, there.make):
        with pytest.raises(Exception, match="entry_point"):
            make()


def test_the_arguments_of_a_spec_are_gymnasium_s():
    kinds = EnvSpec, gymnasium.envs.registration.EnvSpec
    named, there = (list(inspect.signature(kind).parameters) for kind in kinds)
    assert named == [name for name in there if name not in ("order_enforce", "disable_env_checker")]
