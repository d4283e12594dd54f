from __future__ import annotations

import asyncio
import copy
import dataclasses
import io
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import sekai
from sekai.env import ActionWrapper, Env, ObservationWrapper, RewardWrapper, Wrapper
from sekai.mirror import AsyncMirror
from sekai.results import ResetResult, StepResult
from sekai.spaces import Box, Discrete


class Counter(Env):
    """Observes how often it was stepped; reward is k times that."""

    def __init__(self):
        self.observation_space = Box(0.0, np.inf, (1,), np.float64)
        self.action_space = Discrete(4)
        self.k = 1
        self.n = 0
        self.closed = 0
        self.actions = []

    @property
    def doubled(self):
        return 2 * self.k

    @doubled.setter
    def doubled(self, value):
        self.k = value // 2

    @property
    def fixed(self):
        return 7

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        self.n = 0
        return ResetResult(np.zeros(1), {"options": options})

    def step(self, action):
        self.n += 1
        self.actions.append(action)
        return StepResult(np.array([float(self.n)]), float(self.k * self.n), False, False, {})

    def close(self):
        self.closed += 1


class Layer(Wrapper):
    pass


def step(env, action=0):
    return asyncio.run(env.async_step(action))


def reset(env, **kwargs):
    return asyncio.run(env.async_reset(**kwargs))


# -- Env ---------------------------------------------------------------------------------------------------


def test_env_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Env()

    class NoStep(Env):
        def reset(self, *, seed=None, options=None): ...

    with pytest.raises(TypeError, match="step"):
        NoStep()


def test_str_is_the_class_name_or_the_spec_id():
    env = Counter()
    assert str(env) == "<Counter>"
    env.spec = SimpleNamespace(id="market/Counter-v3")
    assert str(env) == "<market/Counter-v3>"
    assert str(Layer(env)) == "<Layer<market/Counter-v3>>"


def test_defaults():
    env = Counter()
    assert env.metadata == {} and env.spec is None and env.unwrapped is env


def test_context_manager_closes():
    with Counter() as env:
        assert isinstance(env, Counter) and env.closed == 0
    assert env.closed == 1
    with pytest.raises(KeyError), env:
        raise KeyError
    assert env.closed == 2


def test_close_does_nothing_by_default():
    class Plain(Counter):
        close = Env.close

    assert Plain().close() is None


def test_seed_makes_the_stream_and_none_continues_it():
    env = Counter()
    env.reset(seed=5)
    expected = np.random.default_rng(5).random(4)
    first = env.rng.random(2)
    env.reset()
    np.testing.assert_array_equal(np.concatenate([first, env.rng.random(2)]), expected)
    env.reset(seed=5)
    np.testing.assert_array_equal(env.rng.random(4), expected)


def test_set_rng_returns_the_seed_in_use():
    env = Counter()
    assert env._set_rng(np.int64(3)) == 3 == env.rng_seed
    assert env._set_rng(None) == 3 == env.rng_seed
    generator = np.random.default_rng(9)
    assert env._set_rng(generator) is None
    assert env.rng_seed is None and env.rng is generator
    assert env._set_rng(None) is None and env.rng is generator


def test_set_rng_creates_a_stream_where_there_is_none():
    env = Counter()
    seed = env._set_rng(None)
    assert seed is not None and env.rng_seed == seed
    np.testing.assert_array_equal(env.rng.random(3), np.random.default_rng(seed).random(3))


def test_rng_without_a_seed_is_made_once_and_differs_between_envs():
    a, b = Counter(), Counter()
    assert a.rng is a.rng
    assert a.rng.random() != b.rng.random()


def test_rng_can_be_set():
    env, generator = Counter(), np.random.default_rng(1)
    env.rng = generator
    assert env.rng is generator and env.rng_seed is None
    with pytest.raises(TypeError, match=r"rng: expected a numpy.random.Generator, got int"):
        env.rng = 3


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (True, TypeError), ("1", TypeError)])
def test_bad_seeds_leave_the_stream_alone(seed, error):
    env = Counter()
    env.reset(seed=1)
    before = env.rng
    with pytest.raises(error):
        env.reset(seed=seed)
    assert env.rng is before and env.rng_seed == 1


def test_attributes_of_one_env():
    env = Counter()
    assert env.has_attr("k") and not env.has_attr("nope")
    assert env.get_attr("k") == 1
    env.set_attr("k", 5)
    assert env.k == 5
    env.set_attr("doubled", 8)
    assert env.k == 4
    with pytest.raises(AttributeError, match="nope"):
        env.get_attr("nope")
    with pytest.raises(AttributeError, match=r"set_attr: <Counter> has no attribute 'nope'"):
        env.set_attr("nope", 1)
    assert not hasattr(env, "nope")


# -- async follows sync ------------------------------------------------------------------------------------


def test_async_methods_run_the_sync_ones():
    env = Counter()
    assert reset(env, options={"a": 1}).info == {"options": {"a": 1}}
    assert step(env).observation == [1.0]


def test_an_async_override_is_used():
    class Own(Counter):
        async def async_step(self, action):
            return "own"

    assert step(Own()) == "own"
    assert step(Layer(Layer(Own()))) == "own"


def test_a_subclass_that_overrides_step_alone_gets_an_async_step_that_runs_it():
    class Own(Counter):
        async def async_step(self, action):
            return "old"

        async def async_reset(self, *, seed=None, options=None):
            return "old"

    class Newer(Own):
        def step(self, action):
            return "new"

    class NewerStill(Newer):
        def reset(self, *, seed=None, options=None):
            return "new"

    class Untouched(NewerStill):
        pass

    assert step(Newer()) == "new"
    assert reset(Newer()) == "old"
    assert step(Untouched()) == "new" and reset(Untouched()) == "new"


def test_a_class_that_overrides_both_keeps_both():
    class Both(Counter):
        def step(self, action):
            return "sync"

        async def async_step(self, action):
            return "async"

    class Child(Both):
        def reset(self, *, seed=None, options=None):
            return "reset"

    assert Child().step(0) == "sync" and step(Child()) == "async" and reset(Child()) == "reset"


def test_a_mixin_counts_by_its_place_in_the_mro():
    class Quick:
        def step(self, action):
            return "mixin"

    class Remote:
        async def async_step(self, action):
            return "remote"

    class Own(Counter):
        async def async_step(self, action):
            return "own"

    class Before(Quick, Own):
        pass

    class Both(Quick, Remote, Own):
        pass

    class BothTurned(Remote, Quick, Own):
        pass

    assert step(Before()) == "mixin"
    assert step(Both()) == "mixin"
    assert step(BothTurned()) == "remote"


def test_the_rule_reaches_a_wrapper_that_overrides_step_alone():
    class Own(Counter):
        async def async_step(self, action):
            raise AssertionError("passed over")

    class Bonus(Wrapper):
        def step(self, action):
            result = self.env.step(action)
            return StepResult(result.observation, result.reward + 10, False, False, {})

    assert step(Bonus(Own())).reward == 11.0


def test_the_rule_holds_for_any_class_that_inherits_it():
    class Base(AsyncMirror):
        def step(self):
            return 1

        def reset(self):
            return 2

    class Faster(Base):
        async def async_step(self):
            return 10

    class Changed(Faster):
        def step(self):
            return 3

    assert [asyncio.run(cls().async_step()) for cls in (Base, Faster, Changed)] == [1, 10, 3]
    assert asyncio.run(Changed().async_reset()) == 2


def both_ways(way, run):
    """What the classes of a step or a reset each add to a list, innermost first, by the async way and the sync one."""
    return asyncio.run(getattr(run, f"async_{way}")()), getattr(run, way)()


def alone():
    """A layer that overrides the sync methods alone."""

    class Alone:
        def step(self):
            return [*super().step(), "alone"]

        def reset(self):
            return [*super().reset(), "alone"]

    return Alone


def pair():
    """A layer that overrides both, each through its super()."""

    class Pair:
        def step(self):
            return [*super().step(), "pair"]

        def reset(self):
            return [*super().reset(), "pair"]

        async def async_step(self):
            return [*await super().async_step(), "pair"]

        async def async_reset(self):
            return [*await super().async_reset(), "pair"]

    return Pair


class Ground(AsyncMirror):
    def step(self):
        return ["ground"]

    def reset(self):
        return ["ground"]


class Waits(AsyncMirror):
    """Overrides both; the async ones end in the default."""

    def step(self):
        return ["waits"]

    def reset(self):
        return ["waits"]

    async def async_step(self):
        return await super().async_step()

    async def async_reset(self):
        return await super().async_reset()


def layered(*layers):
    """An object whose class is made layer by layer."""
    cls, *others = reversed(layers)
    for layer in others:
        cls = type(layer.__name__, (layer, cls), {})
    return cls()


def mixed(*layers):
    """An object whose class is made of all layers at once."""
    return type("Mixed", layers, {})()


@pytest.mark.parametrize("way", ["step", "reset"])
@pytest.mark.parametrize("ground", [Ground, Waits])
@pytest.mark.parametrize("make", [layered, mixed])
@pytest.mark.parametrize(
    "layers", [(pair, alone), (alone, pair), (pair, alone, pair), (alone, pair, alone), (pair, alone, alone, pair)]
)
def test_a1_every_class_changes_a_result_once(layers, make, ground, way):
    run = make(*[layer() for layer in layers], ground)
    expected = [ground.__name__.lower(), *[layer.__name__ for layer in reversed(layers)]]
    assert both_ways(way, run) == (expected, expected)


def test_a1_a_class_that_is_copied_or_patched_still_runs_its_own_step():
    @dataclasses.dataclass(slots=True)
    class Copied(Ground):
        price: float = 1.0

        def step(self):
            return [*Ground.step(self), "copied"]

    assert both_ways("step", Copied()) == (["ground", "copied"],) * 2
    assert both_ways("step", layered(pair(), Copied)) == (["ground", "copied", "pair"],) * 2
    patched = Ground()
    patched.step = lambda: ["patched"]
    assert both_ways("step", patched) == (["patched"],) * 2


def test_a1_a_class_survives_the_way_by_value():
    import cloudpickle

    top = layered(pair(), alone(), Ground)
    again = cloudpickle.loads(cloudpickle.dumps(type(top)))()
    assert both_ways("step", again) == (["ground", "alone", "pair"],) * 2


def test_a1_a_base_written_in_c_counts_too():
    class Decoder(io.IncrementalNewlineDecoder, Waits):  # whose reset() comes first, and takes no other beside it
        pass

    class Later(Decoder):
        pass

    for cls in (Decoder, Later):
        assert both_ways("reset", cls(None, True)) == (None, None)


@pytest.mark.parametrize("kind", ["wrapper", "env"])
def test_a1_an_env_and_a_wrapper_change_a_reward_once(kind):
    class Fee(Wrapper if kind == "wrapper" else Counter):
        def step(self, action):
            return self.less(super().step(action), 1.0)

        def less(self, result, by):
            return StepResult(result.observation, result.reward - by, False, False, {})

    class Tax(Fee):
        def step(self, action):
            return self.less(super().step(action), 10.0)

        async def async_step(self, action):
            return self.less(await super().async_step(action), 10.0)

    def build():
        return Tax(Counter()) if kind == "wrapper" else Tax()

    assert build().step(0).reward == step(build()).reward == -10.0


# -- Wrapper -----------------------------------------------------------------------------------------------


def test_a_wrapper_is_transparent():
    inner = Counter()
    env = Layer(inner)
    assert env.env is inner and env.unwrapped is inner
    assert env.reset(seed=3, options={"x": 1}).info == {"options": {"x": 1}}
    assert env.step(2).observation == [1.0] and inner.actions == [2]
    assert env.n == 1 and env.k == 1 and env.doubled == 2
    assert env.observation_space is inner.observation_space and env.action_space is inner.action_space
    env.close()
    assert inner.closed == 1
    with Layer(inner):
        pass
    assert inner.closed == 2


def test_a_wrapper_wants_an_env():
    with pytest.raises(TypeError, match="Layer: expected an Env to wrap, got"):
        Layer(Counter)


def test_spaces_spec_and_metadata_are_the_inner_ones_unless_assigned():
    class Labelled(Wrapper):
        metadata = {"label": 1}

    inner = Counter()
    env = Layer(inner)
    inner.spec = SimpleNamespace(id="C-v0")
    inner.metadata = {"a": 1}
    assert env.spec is inner.spec and env.metadata is inner.metadata
    env.action_space = Discrete(9)
    env.spec = None
    assert env.action_space == Discrete(9) and inner.action_space == Discrete(4)
    assert env.spec is None and inner.spec is not None
    assert env.observation_space is inner.observation_space
    assert Labelled(env).metadata == {"label": 1}


def test_the_random_stream_is_the_inner_one():
    inner = Counter()
    env = Layer(Layer(inner))
    env.reset(seed=4)
    assert env.rng is inner.rng and env.rng_seed == 4
    assert env._set_rng(6) == 6 == inner.rng_seed
    generator = np.random.default_rng(0)
    env.rng = generator
    assert inner.rng is generator and "_rng" not in vars(env)


def test_private_names_are_delegated_and_dunders_are_not():
    inner = Counter()
    inner._secret = 3
    inner.__array_interface__ = "not an array"
    env = Layer(inner)
    assert env._secret == 3
    assert not hasattr(env, "__array_interface__")
    with pytest.raises(AttributeError, match="nope"):
        env.nope  # noqa: B018


def test_len_and_iteration_go_from_the_outside_in():
    inner = Counter()
    middle = Layer(inner)
    outer = Wrapper(middle)
    assert list(outer) == [outer, middle, inner]
    assert len(outer) == 3 and len(middle) == 2
    assert str(outer) == "<Wrapper<Layer<Counter>>>"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_wrappers_can_be_copied_and_pickled(duplicate):
    env = Layer(Layer(Counter()))
    env.reset(seed=1)
    env.step(0)
    twin = duplicate(env)
    assert str(twin) == str(env) and twin.n == 1 and twin.rng_seed == 1


def test_a_wrapper_without_env_says_so():
    empty = Layer.__new__(Layer)
    with pytest.raises(AttributeError, match="'Layer' object has no attribute 'env'"):
        empty.k  # noqa: B018


class Broken(Wrapper):
    @property
    def price(self):
        return self._prices[0]

    @property
    def fixed(self):
        raise AttributeError("no data yet")


def test_a_property_that_raises_an_attribute_error_keeps_its_cause():
    env = Layer(Broken(Counter()))
    with pytest.raises(AttributeError, match="object has no attribute '_prices'"):
        _ = env.price
    for read in (lambda: env.fixed, lambda: env.env.fixed, lambda: env.get_attr("fixed")):
        with pytest.raises(AttributeError, match="no data yet"):  # and not the inner env's value
            read()
    assert not hasattr(env, "fixed") and env.unwrapped.fixed == 7
    with pytest.raises(AttributeError, match="'Counter' object has no attribute 'nope'"):
        _ = env.nope


def test_a_space_that_the_env_lacks_is_named():
    env = Counter()
    del env.observation_space
    with pytest.raises(AttributeError, match="'Counter' object has no attribute 'observation_space'"):
        _ = Layer(Layer(env)).observation_space


class WithK(Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.k = 100


class Slotted(Wrapper):
    __slots__ = ("slot",)


class Classy(Wrapper):
    knob = 1

    @property
    def dial(self):
        return self._dial

    @dial.setter
    def dial(self, value):
        self._dial = value


def test_set_attr_goes_to_the_layer_that_has_the_attribute():
    inner = Counter()
    env = Layer(Layer(inner))
    env.set_attr("k", 5)
    assert inner.k == 5 and "k" not in vars(env) and "k" not in vars(env.env)
    assert env.step(0).reward == 5.0
    assert env.get_attr("k") == 5 and env.has_attr("k")


def test_set_attr_prefers_the_outermost_layer():
    inner = Counter()
    env = Layer(WithK(inner))
    assert env.get_attr("k") == 100
    env.set_attr("k", 5)
    assert env.env.k == 5 and inner.k == 1 and env.get_attr("k") == 5


def test_slots_class_attributes_and_properties_count_as_the_layers_own():
    env = Layer(Slotted(Classy(Counter())))
    env.set_attr("slot", 1)
    env.set_attr("knob", 2)
    env.set_attr("dial", 3)
    env.set_attr("doubled", 8)
    assert vars(env) == {"env": env.env}
    assert env.env.slot == 1
    assert vars(env.env.env)["knob"] == 2 and env.env.env.dial == 3 and Classy.knob == 1
    assert env.unwrapped.k == 4
    assert [env.get_attr(name) for name in ("slot", "knob", "dial", "doubled")] == [1, 2, 3, 8]


def test_delegated_attributes_are_set_where_they_are_kept():
    inner = Counter()
    env = Layer(inner)
    env.set_attr("spec", SimpleNamespace(id="New-v0"))
    env.set_attr("action_space", Discrete(3))
    assert inner.spec.id == "New-v0" and inner.action_space == Discrete(3)
    env.action_space = Discrete(5)
    env.set_attr("action_space", Discrete(6))
    assert env.action_space == Discrete(6) and inner.action_space == Discrete(3)


def test_unknown_names_raise_and_add_nothing():
    inner = Counter()
    env = Layer(Wrapper(inner))
    assert not env.has_attr("nope")
    with pytest.raises(AttributeError, match=r"'nope'.* on <Layer<Wrapper<Counter>>>"):
        env.get_attr("nope")
    with pytest.raises(AttributeError, match=r"'nope'.* on <Layer<Wrapper<Counter>>>"):
        env.set_attr("nope", 1)
    assert not any("nope" in vars(layer) for layer in env)
    assert env.step(0).reward == 1.0


def test_a_read_only_property_cannot_be_set():
    with pytest.raises(AttributeError, match="fixed"):
        Layer(Counter()).set_attr("fixed", 1)


def test_a_base_env_with_its_own_attribute_methods_is_asked():
    class Shell(Counter):
        def __getattr__(self, name):
            if name == "inside":
                return 42
            raise AttributeError(name)

        def set_attr(self, name, value):
            self.asked = (name, value)

    env = Layer(Shell())
    assert env.get_attr("inside") == 42 and env.has_attr("inside")
    env.set_attr("inside", 3)
    assert env.unwrapped.asked == ("inside", 3)


# -- the three kinds ---------------------------------------------------------------------------------------


class Doubled(ObservationWrapper):
    def observation(self, obs):
        return 2 * obs


class Negated(RewardWrapper):
    def reward(self, reward):
        return -reward


class Shifted(ActionWrapper):
    def action(self, action):
        return action + 1


@pytest.mark.parametrize("kind", [ObservationWrapper, RewardWrapper, ActionWrapper])
def test_the_three_kinds_are_abstract(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind(Counter())


def test_the_three_kinds_transform_sync_and_async():
    inner = Counter()
    env = Doubled(Negated(Shifted(inner)))
    assert env.reset().observation == [0.0]
    result = env.step(1)
    assert result.observation == [2.0] and result.reward == -1.0
    result = step(env, 2)
    assert result.observation == [4.0] and result.reward == -2.0
    assert inner.actions == [2, 3]


def test_an_observation_wrapper_transforms_reset_observations():
    class Later(Counter):
        def reset(self, *, seed=None, options=None):
            return ResetResult(np.array([3.0]), {"why": 1})

    assert Doubled(Later()).reset().observation == [6.0]
    assert reset(Doubled(Later())).observation == [6.0]
    assert Doubled(Later()).reset().info == {"why": 1}


def test_an_observation_wrapper_transforms_final_observations_in_a_new_info():
    class Ending(Counter):
        info = {"final_observation": np.array([9.0]), "k": 1}

        def step(self, action):
            return StepResult(np.array([1.0]), 0.0, True, False, self.info)

    class Marked(Doubled):
        def final_observation(self, obs):
            return -obs

    assert Doubled(Ending()).step(0).info == {"final_observation": [18.0], "k": 1}
    assert step(Marked(Ending())).info == {"final_observation": [-9.0], "k": 1}
    assert Ending.info["final_observation"] == [9.0]


# -- names that are near, and attributes that are created ---------------------------------------------------


def test_a_misspelt_attribute_is_refused_with_names_that_are_near():
    env = sekai.TimeLimit(sekai.OrderEnforcing(Counter()), 5)
    with pytest.raises(
        AttributeError, match=r"no attribute 'max_episode_step' to change \(did you mean 'max_episode_st"
    ):
        env.set_attr("max_episode_step", 3)
    env.unwrapped.volatility = 0.1
    for each in (env, env.unwrapped):
        with pytest.raises(AttributeError, match=r"'volatilty' to change \(did you mean 'volatility'\?\)"):
            each.set_attr("volatilty", 3)
    with pytest.raises(AttributeError, match=r"'qqq' to change$"):
        env.set_attr("qqq", 3)


def test_force_creates_the_attribute_in_the_outermost_layer():
    env = sekai.TimeLimit(sekai.OrderEnforcing(Counter()), 5)
    env.set_attr("note", 3, force=True)
    assert env.get_attr("note") == 3 and vars(env)["note"] == 3
    assert not env.env.has_attr("note")
    env.set_attr("max_episode_steps", 7, force=True)
    assert env.max_episode_steps == 7
    env.unwrapped.set_attr("inner", 1, force=True)
    assert env.get_attr("inner") == 1
    for name in ("env", "step"):
        with pytest.raises(AttributeError, match="expected an attribute of the simulation"):
            env.set_attr(name, 1, force=True)
