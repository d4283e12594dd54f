from __future__ import annotations

import importlib.metadata
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
import toy_market
from toy_market import Walk, WalkVec

import sekai
from sekai.env import Env, Wrapper
from sekai.errors import EnvAlreadyRegistered, EnvNotFound, SekaiError
from sekai.registry import (
    EnvRegistry,
    EnvSpec,
    WrapperSpec,
    all_specs,
    deregister,
    make,
    make_vec,
    pprint_registry,
    register,
    register_namespace,
    spec,
)
from sekai.registry.build import ENV_FN_MODES, entry_point_of
from sekai.vector import AsyncVecEnv, ProcVecEnv, SyncVecEnv, VecRecordEpisodeStatistics
from sekai.vector.native.single import SingleEnv
from sekai.wrappers import OrderEnforcing, TimeLimit, TransformReward

ROOT = Path(__file__).parents[1]
WALK, WALK_VEC = "toy_market:Walk", "toy_market:WalkVec"
UP = np.ones(2, dtype=np.int64)


class Times(Wrapper):
    """Multiplies the reward."""

    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def step(self, action):
        result = self.env.step(action)
        return type(result)(
            result.observation, result.reward * self.factor, result.terminated, result.truncated, result.info
        )


@pytest.fixture
def registry():
    registry = EnvRegistry()
    registry.register("Walk-v0", WALK, max_episode_steps=2)
    registry.register("Walk-v2", WALK, vector_entry_point=WALK_VEC, max_episode_steps=2)
    registry.register("native/Walk-v1", vector_entry_point=WALK_VEC)
    return registry


def layers(env):
    return [type(layer) for layer in env]


# -- ids and specs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "parts"),
    [
        ("Walk", (None, "Walk", None)),
        ("Walk-v0", (None, "Walk", 0)),
        ("sims/Walk-v12", ("sims", "Walk", 12)),
        ("my-lab_2/Two.Part-Name", ("my-lab_2", "Two.Part-Name", None)),
        ("Walk-v1-v2", (None, "Walk-v1", 2)),
    ],
)
def test_an_id_has_namespace_name_and_version(id, parts):
    spec = EnvSpec(id, WALK)
    assert (spec.namespace, spec.name, spec.version) == parts


@pytest.mark.parametrize(
    "id",
    [
        "",
        "Walk-v",
        "Walk-v01",
        "a/b/Walk-v0",
        "/Walk-v0",
        "a/",
        "Wa lk",
        "Walk-v0\n",
        "-v1",
        ":Walk-v0",
        "a b:Walk-v0",
        "Wälk",
    ],
)
def test_a_malformed_id_is_refused_with_the_form(id, registry):
    text = r"^environment id: expected the form \[namespace/\]Name\[-vN\], got "
    with pytest.raises(ValueError, match=text):
        registry.register(id, WALK)
    with pytest.raises(ValueError, match=text):
        registry.make(id)


@pytest.fixture
def market_file(tmp_path, monkeypatch):
    """A module, not yet imported, that registers an environment."""
    (tmp_path / "market_file.py").write_text("import sekai\nsekai.register('lab/Filed-v3', 'toy_market:Walk')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "market_file"
    if sys.modules.pop("market_file", None):
        deregister("lab/Filed-v3")


@pytest.mark.parametrize("id", ["lab/Filed-v3", "lab/Filed"])
def test_an_id_may_name_the_module_that_registers_it(id, market_file):
    with pytest.raises(EnvNotFound):
        make(id)
    assert make(f"{market_file}:{id}").spec.id == "lab/Filed-v3"
    assert make_vec(f"{market_file}:{id}", 2).num_envs == 2
    with pytest.raises(
        EnvNotFound, match="no environment is registered as 'lab/Field-v3'; did you mean 'lab/Filed-v3'"
    ):
        make(f"{market_file}:lab/Field-v3")


def test_a_module_that_cannot_be_imported_is_named(registry):
    with pytest.raises(ImportError, match=r"'no\.such:Walk-v0': the module 'no\.such' cannot be imported \(No module"):
        registry.make("no.such:Walk-v0")


def test_an_id_to_register_names_no_module(registry):
    with pytest.raises(ValueError, match="environment id: expected the form .*, got 'toy_market:Walk-v0'"):
        registry.register("toy_market:Walk-v0", WALK)


class Steep(Walk):
    """Hands on what it does not know."""

    def __init__(self, *, slope=1.0, **kwargs):
        super().__init__(**kwargs)
        self.slope = slope


class SteepVec(WalkVec):
    def __init__(self, num_envs, slope=1.0, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.slope = slope


class Plain(Walk):
    """Takes no argument at all."""

    def __init__(self):
        super().__init__()


@pytest.mark.parametrize("mode", ["native", "sync", "async", "proc"])
def test_a_mistyped_argument_names_the_env_and_what_comes_close(registry, mode):
    registry.register("Steep-v0", Steep, vector_entry_point=SteepVec)
    with pytest.raises(
        (TypeError, SekaiError),  # what a worker raises
        match=r"environment 'Steep-v0' has no argument 'gaol' \(did you mean 'goal'\?\); it has: slope, goal, start",
    ):
        registry.make_vec("Steep-v0", 2, vectorization_mode=mode, gaol=3)
    with registry.make_vec("Steep-v0", 2, vectorization_mode=mode, goal=3, slope=2.0) as vec:
        assert vec.get_attr("slope") == [2.0, 2.0]


def test_a_mistyped_argument_of_a_single_env(registry):
    registry.register("Steep-v0", Steep)
    registry.register("Single-v0", vector_entry_point=SteepVec)
    registry.register("Plain-v0", Plain)
    registry.register("Function-v0", lambda goal=3, *, start=0.0: Walk(goal=goal, start=start))
    for id, text in (
        ("Steep-v0", r"has no argument 'slop' \(did you mean 'slope'\?\); it has: slope, goal, start$"),
        (
            "Single-v0",
            r"has no argument 'slop' \(did you mean 'slope'\?\); it has: slope, goal, start, noise, autoreset,",
        ),
        ("Plain-v0", "has no argument 'slop'; it has: none$"),
        ("Function-v0", "has no argument 'slop'; it has: goal, start$"),
    ):
        with pytest.raises(TypeError, match=f"^environment '{id}' {text}") as caught:
            registry.make(id, slop=2.0)
        assert isinstance(caught.value.__cause__, TypeError)


def test_an_env_without_a_constructor_takes_no_argument(registry):
    class Still(Env):
        observation_space, action_space = Walk.observation_space, Walk.action_space
        reset, step = Walk.reset, Walk.step

    registry.register("Still-v0", Still)
    with pytest.raises(TypeError, match="^environment 'Still-v0' has no argument 'goal'; it has: none$"):
        registry.make("Still-v0", goal=2)


def test_a_refusal_of_another_call_is_shown_as_it_is(registry):
    class Wrong(Walk):
        def __init__(self, *, goal=3, slope=1.0):
            super().__init__(goal=goal, slope=slope)

    registry.register("Wrong-v0", Wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        registry.make("Wrong-v0", slope=2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        registry.make("Wrong-v0")


def test_a_native_class_that_takes_no_time_limit_is_told(registry):
    registry.register("Timeless-v0", vector_entry_point=lambda num_envs, goal=3: WalkVec(num_envs, goal=goal))
    text = r"'Timeless-v0' has no argument 'max_episode_steps' \(which the class of a native environment has to take"
    with pytest.raises(TypeError, match=text):
        registry.make_vec("Timeless-v0", 2, max_episode_steps=9)


def test_a_mistyped_argument_of_a_backend(registry):
    with pytest.raises(
        TypeError,
        match=r"make_vec\('Walk-v0'\): vector_kwargs: mode 'sync' has no argument 'autorest' \(did you mean 'autor",
    ):
        registry.make_vec("Walk-v0", 2, vectorization_mode="sync", vector_kwargs={"autorest": False})


def test_an_id_that_is_no_text_is_refused(registry):
    with pytest.raises(TypeError, match="environment id: expected a str of the form .*, got int"):
        registry.make(3)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"entry_point": "toy_market.Walk"}, ValueError, "entry_point: expected the form 'module:attr'"),
        ({"vector_entry_point": 3}, TypeError, "vector_entry_point: expected 'module:attr' or a callable, got int"),
        ({"entry_point": WALK, "max_episode_steps": 0}, ValueError, "max_episode_steps .*at least 1, got 0"),
        ({"entry_point": WALK, "max_episode_steps": -1}, ValueError, "max_episode_steps .*at least 1, got -1"),
        ({"entry_point": WALK, "max_episode_steps": True}, TypeError, "max_episode_steps .*the bool True"),
        ({"entry_point": WALK, "max_episode_steps": 2.0}, TypeError, "max_episode_steps .*got float"),
        ({"entry_point": WALK, "kwargs": [1]}, TypeError, r"kwargs: expected a mapping with str keys, got \[1\]"),
        ({"entry_point": WALK, "kwargs": {1: 2}}, TypeError, "kwargs: expected a mapping with str keys"),
        ({"entry_point": WALK, "kwargs": {"max_episode_steps": 2}}, ValueError, "not one of kwargs"),
        ({"entry_point": WALK, "reward_threshold": "x"}, TypeError, "reward_threshold: expected a number .*got 'x'"),
        ({"entry_point": WALK, "reward_threshold": True}, TypeError, "reward_threshold: expected a number .*got True"),
        ({"entry_point": WALK, "nondeterministic": "no"}, TypeError, "nondeterministic: expected a bool, got 'no'"),
        ({"entry_point": WALK, "additional_wrappers": Times}, TypeError, "expected a sequence of callables"),
        ({"entry_point": WALK, "additional_wrappers": [3]}, TypeError, r"additional_wrappers\[0\]: expected .*int"),
    ],
)
def test_a_wrong_field_is_refused(fields, error, text):
    with pytest.raises(error, match=text):
        EnvRegistry().register("Walk-v0", **fields)


@pytest.mark.parametrize(
    "entry_point", [".x:y", "a..b:c", "a.:b", "a:b..c", "a:.b", "a:b.", ":b", "a:", "a:b:c", "a:1b", "a b:c", "a:b\n"]
)
def test_an_entry_point_that_cannot_be_imported_in_any_case_is_refused(entry_point, registry):
    for build in (partial(EnvSpec, "A", entry_point), partial(EnvSpec, "A", vector_entry_point=entry_point)):
        with pytest.raises(ValueError, match="entry_point: expected the form 'module:attr', got "):
            build()
    with pytest.raises(ValueError, match="expected the form 'module:attr'"):
        registry.register_namespace("lab", entry_point)
    with pytest.raises(ValueError, match="expected the form 'module:attr'"):
        WrapperSpec("Times", entry_point)


@pytest.mark.parametrize("entry_point", ["a:b", "a.b_2.c:D.e_3", "_a:_b", "01_walk:Walk", "märkte:Börse"])
def test_a_possible_entry_point_is_accepted(entry_point):
    assert EnvSpec("A", entry_point).entry_point == entry_point


def test_numpy_numbers_become_plain_ones_in_a_spec():
    spec = EnvSpec("A", WALK, np.float32(1.5), np.bool_(True), np.int64(3))
    values = (spec.reward_threshold, spec.nondeterministic, spec.max_episode_steps)
    assert values == (1.5, True, 3)
    assert list(map(type, values)) == [float, bool, int]
    assert EnvSpec.from_json(spec.to_json()) == spec


def test_a_spec_is_frozen_hashable_picklable_and_keeps_its_own_kwargs():
    kwargs = {"goal": 4}
    spec = EnvSpec("Walk-v0", WALK, kwargs=kwargs, additional_wrappers=[WrapperSpec("Times", Times)])
    kwargs["goal"] = 5
    assert spec.kwargs == {"goal": 4}
    assert spec == EnvSpec("Walk-v0", WALK, kwargs={"goal": 4}, additional_wrappers=(WrapperSpec("Times", Times),))
    assert len({spec, pickle.loads(pickle.dumps(spec))}) == 1
    with pytest.raises(AttributeError):
        spec.id = "Other"


def test_json_round_trip():
    spec = EnvSpec(
        "sims/Walk-v3",
        WALK,
        1.5,
        True,
        7,
        {"goal": 4, "deep": {"a": [1, 2.0, None, "x", True]}},
        (WrapperSpec("Times", "test_registry:Times", {"factor": 3.0}),),
        WALK_VEC,
    )
    assert EnvSpec.from_json(spec.to_json()) == spec
    assert json.loads(spec.to_json())["max_episode_steps"] == 7
    assert EnvSpec.from_json('{"id": "A", "entry_point": "a:b"}') == EnvSpec("A", "a:b")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (EnvSpec("A", Walk), r"EnvSpec\('A'\)\.to_json\(\): entry_point: expected 'module:attr'.*Walk"),
        (EnvSpec("A", WALK, vector_entry_point=WalkVec), "vector_entry_point: expected 'module:attr'"),
        (EnvSpec("A", WALK, additional_wrappers=(Times,)), r"additional_wrappers\[0\]: expected a WrapperSpec"),
        (
            EnvSpec("A", WALK, additional_wrappers=(WrapperSpec("T", Times),)),
            r"additional_wrappers\[0\]: entry_point: expected 'module:attr'",
        ),
        (EnvSpec("A", WALK, kwargs={"x": np.ones(2)}), r"kwargs\['x'\]: expected a value that JSON can hold"),
        (EnvSpec("A", WALK, kwargs={"x": (1, 2)}), r"kwargs\['x'\].*got \(1, 2\)"),
        (EnvSpec("A", WALK, kwargs={"x": {1: 2}}), r"kwargs\['x'\]"),
        (EnvSpec("A", WALK, kwargs={"x": [float("nan")]}), r"kwargs\['x'\]: .*finite float"),
        (EnvSpec("A", WALK, kwargs={"x": float("inf")}), r"kwargs\['x'\]: .*finite float"),
        (EnvSpec("A", WALK, kwargs={"x": np.float64(1)}), r"kwargs\['x'\]"),
        (
            EnvSpec("A", WALK, reward_threshold=float("inf")),
            "reward_threshold: JSON holds finite numbers only, got inf",
        ),
        (
            EnvSpec("A", WALK, reward_threshold=float("nan")),
            "reward_threshold: JSON holds finite numbers only, got nan",
        ),
        (
            EnvSpec("A", WALK, additional_wrappers=(WrapperSpec("T", "a:b", {"x": float("-inf")}),)),
            r"additional_wrappers\[0\]: kwargs\['x'\]",
        ),
    ],
)
def test_what_json_cannot_hold_is_refused(spec, text):
    with pytest.raises(ValueError, match=text):
        spec.to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "text that is no JSON"),
        ("[1]", "expected a JSON object, got list"),
        ("{}", "expected 'id'"),
        ('{"id": "A", "entry_point": "a:b", "colour": 1}', "colour"),
        ('{"id": "A", "entry_point": "a:b", "kwargs": {"x": NaN}}', "no JSON .NaN is no number"),
        (
            '{"id": "A", "entry_point": "a:b", "reward_threshold": "x"}',
            "from_json.*reward_threshold: expected a number",
        ),
        ('{"id": "A", "entry_point": "a:b", "additional_wrappers": [{"nam": 1}]}', "from_json.*nam"),
    ],
)
def test_json_of_something_else_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        EnvSpec.from_json(text)


def test_pprint_shows_what_differs_from_the_defaults(capsys):
    spec = EnvSpec("Walk-v0", Walk, kwargs={"goal": 4})
    assert spec.pprint() is None
    text = capsys.readouterr().out
    assert text.splitlines() == ["id           Walk-v0", "entry_point  toy_market:Walk", "kwargs       {'goal': 4}"]
    assert spec.pprint(disable_print=True) == text[:-1]


def test_a_spec_builds_its_env_without_being_registered():
    env = EnvSpec("Walk-v0", WALK, max_episode_steps=5).make(goal=9, max_episode_steps=3)
    assert (env.goal, env.max_episode_steps, env.spec.kwargs) == (9, 3, {"goal": 9})


# -- registering and looking up ----------------------------------------------------------------------------


def test_register_and_deregister(registry):
    assert [spec.id for spec in registry.all_specs()] == ["Walk-v0", "Walk-v2", "native/Walk-v1"]
    registry.deregister("Walk-v2")
    assert [spec.id for spec in registry.all_specs()] == ["Walk-v0", "native/Walk-v1"]
    with pytest.raises(EnvNotFound, match="'Walk-v2'"):
        registry.deregister("Walk-v2")
    with pytest.raises(EnvNotFound, match="'Walk'"):
        registry.deregister("Walk")


def test_specs_are_sorted_by_number_not_by_text():
    registry = EnvRegistry()
    for id in ("b/A", "A-v10", "A-v9", "B", "A"):
        registry.register(id, WALK)
    assert [spec.id for spec in registry.all_specs()] == ["A", "A-v9", "A-v10", "B", "b/A"]


def test_an_id_registered_twice_is_refused_and_the_first_is_named(registry):
    with pytest.raises(
        EnvAlreadyRegistered,
        match=r"'Walk-v0' is already registered as toy_market:Walk at .*test_registry\.py:\d+; .*deregister",
    ):
        registry.register("Walk-v0", "other:Walk")
    assert registry.spec("Walk-v0").entry_point == WALK
    registry.deregister("Walk-v0")
    registry.register("Walk-v0", "other:Walk")


def test_registering_imports_nothing(registry):
    registry.register("Far-v0", "no_such_module:Env")
    with pytest.raises(
        ImportError, match="'Far-v0': 'no_such_module:Env' cannot be imported .*no_such_module.*install"
    ):
        registry.make("Far-v0")
    registry.register("Gone-v0", "toy_market:Gone.attr")
    with pytest.raises(ImportError, match="'Gone-v0': 'toy_market:Gone.attr' cannot be imported .*Gone"):
        registry.make("Gone-v0")
    registry.register("Odd-v0", "toy_market:OBSERVATION")
    with pytest.raises(TypeError, match="'Odd-v0': expected 'toy_market:OBSERVATION' to be callable, got Box"):
        registry.make("Odd-v0")


def test_an_id_without_version_means_the_unversioned_env_or_the_highest_version(registry):
    registry.register("Walk-v10", WALK)
    assert registry.spec("Walk").id == "Walk-v10"
    assert registry.make("Walk").spec.id == "Walk-v10"
    assert registry.spec("native/Walk").id == "native/Walk-v1"
    registry.register("Walk", WALK)
    assert registry.spec("Walk").id == "Walk"


def test_a_version_that_is_not_registered_names_those_that_are(registry):
    with pytest.raises(EnvNotFound, match="'Walk-v1'; did you mean 'Walk-v0' or 'Walk-v2'.*the versions") as caught:
        registry.make("Walk-v1")
    assert caught.value.id == "Walk-v1"
    assert caught.value.suggestions == ["Walk-v0", "Walk-v2"]


@pytest.mark.parametrize("id", ["walk-v0", "WALK-v0", "Wlak-v0", "Walks", "other/Walk-v0"])
def test_close_matches_are_suggested(id, registry):
    with pytest.raises(EnvNotFound, match="did you mean .*'Walk-v0'"):
        registry.spec(id)


def test_an_unknown_id_says_what_to_do(registry):
    with pytest.raises(EnvNotFound, match=r"'Chess-v0'.*install the package.*sekai\.register\('Chess-v0'") as caught:
        registry.make_vec("Chess-v0", 2)
    assert caught.value.suggestions == []
    with pytest.raises(EnvNotFound, match=r"namespace 'lab' is unknown \(there are: 'native'\)"):
        registry.make("lab/Chess-v0")


def test_the_text_for_an_unknown_id_is_made_of_sentences():
    assert str(EnvNotFound("A")) == "no environment is registered as 'A'"
    assert str(EnvNotFound("A", remedy="Do this.")) == "no environment is registered as 'A'. Do this."
    assert str(EnvNotFound("A", ["B", "C"])) == "no environment is registered as 'A'; did you mean 'B' or 'C'?"
    text = "no environment is registered as 'A'; did you mean 'B'? Do this."
    assert str(pickle.loads(pickle.dumps(EnvNotFound("A", ["B"], "Do this.")))) == text


def test_every_public_name_is_listed_once():
    import sekai.registry

    assert sorted(set(sekai.registry.__all__)) == sekai.registry.__all__


def test_the_module_functions_share_one_registry(capsys):
    register("TestOnly-v0", WALK)
    try:
        assert spec("TestOnly-v0") in all_specs()
        assert isinstance(make("TestOnly-v0").unwrapped, Walk)
        assert make_vec("TestOnly-v0", 2).num_envs == 2
        pprint_registry()
        assert "TestOnly-v0" in capsys.readouterr().out
        with pytest.raises(EnvAlreadyRegistered):
            register("TestOnly-v0", WALK)
    finally:
        deregister("TestOnly-v0")
    with pytest.raises(EnvNotFound):
        spec("TestOnly-v0")
    assert callable(register_namespace)


def test_pprint_registry_lists_ids_entry_points_and_lazy_namespaces(registry, capsys):
    registry.register_namespace("lab", lambda: None)
    assert registry.pprint_registry() is None
    assert capsys.readouterr().out.splitlines() == [
        "Walk-v0         toy_market:Walk",
        "Walk-v2         toy_market:Walk, toy_market:WalkVec (native)",
        "native/Walk-v1  toy_market:WalkVec (native)",
        "lab/...  (loaded at the first look-up)",
    ]
    assert "Walk-v2" in registry.pprint_registry(disable_print=True)
    assert EnvRegistry().pprint_registry(disable_print=True) == "no environment is registered"


# -- namespaces --------------------------------------------------------------------------------------------


def test_a_namespace_is_loaded_once_at_the_first_look_up_of_one_of_its_ids(registry):
    calls = []

    def loader():
        calls.append(1)
        registry.register("lab/Walk-v0", WALK)

    registry.register_namespace("lab", loader)
    registry.make("Walk-v0")
    registry.all_specs()
    assert (calls, registry.lazy_namespaces()) == ([], ["lab"])
    assert registry.spec("lab/Walk").id == "lab/Walk-v0"
    with pytest.raises(EnvNotFound, match="did you mean 'lab/Walk-v0'"):
        registry.spec("lab/Walk-v7")
    assert (calls, registry.lazy_namespaces()) == ([1], [])


def test_a_loader_may_be_named_by_text_and_may_look_its_ids_up(registry, monkeypatch):
    def loader():
        registry.register("lab/Walk-v0", WALK)
        assert registry.spec("lab/Walk-v0").name == "Walk"
        with pytest.raises(EnvNotFound):
            registry.spec("lab/Other-v0")

    monkeypatch.setattr(toy_market, "register_lab", loader, raising=False)
    registry.register_namespace("lab", "toy_market:register_lab")
    assert isinstance(registry.make("lab/Walk-v0").unwrapped, Walk)


def test_an_error_of_a_loader_names_the_namespace_and_the_next_look_up_tries_again(registry):
    errors = [OSError("no network"), None]

    def loader():
        registry.register("lab/Walk-v0", WALK)
        error = errors.pop(0)
        if error is not None:
            raise error
        registry.register("lab/Walk-v1", WALK)

    registry.register_namespace("lab", loader)
    with pytest.raises(SekaiError, match="namespace 'lab' failed: OSError: no network") as caught:
        registry.spec("lab/Walk-v1")
    assert isinstance(caught.value.__cause__, OSError)
    assert registry.spec("lab/Walk-v1").version == 1


def test_a_loader_that_exits_is_a_loader_that_failed(registry):
    registry.register_namespace("lab", lambda: sys.exit(3))
    with pytest.raises(SekaiError, match="namespace 'lab' failed: SystemExit: 3"):
        registry.spec("lab/Walk")


def test_a_loader_that_registers_an_id_twice_is_told(registry):
    def loader():
        registry.register("lab/Walk-v0", WALK)
        registry.register("lab/Walk-v0", WALK, max_episode_steps=5)

    registry.register_namespace("lab", loader)
    for _ in range(2):  # it is no better when the first of the two is there from the first try
        with pytest.raises(SekaiError, match="failed: EnvAlreadyRegistered: .*'lab/Walk-v0' is already") as caught:
            registry.spec("lab/Walk-v1")
        assert isinstance(caught.value.__cause__, EnvAlreadyRegistered)


def test_an_interrupted_loader_stays_interrupted(registry):
    def loader():
        raise KeyboardInterrupt

    registry.register_namespace("lab", loader)
    with pytest.raises(KeyboardInterrupt):
        registry.spec("lab/Walk")
    assert registry.lazy_namespaces() == ["lab"]


def test_a_namespace_registered_twice_is_refused(registry):
    registry.register_namespace("lab", lambda: registry.register("lab/Walk-v0", WALK))
    with pytest.raises(ValueError, match="namespace 'lab' already has a loader"):
        registry.register_namespace("lab", lambda: None)
    registry.spec("lab/Walk-v0")
    with pytest.raises(ValueError, match="namespace 'lab' already has a loader"):
        registry.register_namespace("lab", lambda: None)


def test_a_wrong_namespace_is_refused(registry):
    for name in ("a/b", "", "a b", 3):
        with pytest.raises(ValueError, match="got"):
            registry.register_namespace(name, lambda: None)
    with pytest.raises(TypeError, match=r"register_namespace\('lab'\): loader: expected .*, got NoneType"):
        registry.register_namespace("lab", None)


# -- plug-ins ----------------------------------------------------------------------------------------------


@pytest.fixture
def plugins(monkeypatch):
    """A registry with a group of plug-ins; ``plugins.add(name, function)`` installs one."""
    installed, loaded = [], []

    def entry_points(*, group):
        assert group == "test.group"
        loaded.append(group)
        return list(installed)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    def add(name, function, package="toy-package", importing=lambda: None):
        def load():
            importing()
            if isinstance(function, BaseException):
                raise function
            return function

        dist = None if package is None else SimpleNamespace(name=package)
        installed.append(SimpleNamespace(name=name, value=f"{name}:register", dist=dist, load=load))

    return SimpleNamespace(add=add, loaded=loaded, registry=EnvRegistry(plugin_group="test.group"))


def test_plugins_are_loaded_once_at_the_first_look_up_that_needs_them(plugins):
    registry = plugins.registry
    plugins.add("one", lambda: registry.register("One-v0", WALK))
    registry.register("Mine-v0", WALK)
    registry.spec("Mine-v0")
    assert plugins.loaded == []
    assert registry.spec("One-v0").entry_point == WALK
    with pytest.raises(EnvNotFound):
        registry.spec("Two-v0")
    assert plugins.loaded == ["test.group"]
    registry.deregister("One-v0")
    with pytest.raises(EnvNotFound):
        registry.spec("One-v0")


def test_all_specs_loads_plugins(plugins):
    plugins.add("one", lambda: plugins.registry.register("One-v0", WALK))
    assert [spec.id for spec in plugins.registry.all_specs()] == ["One-v0"]


def test_an_id_without_version_sees_the_plugins_versions(plugins):
    plugins.add("one", lambda: plugins.registry.register("One-v5", WALK))
    plugins.registry.register("One-v0", WALK)
    assert plugins.registry.spec("One").version == 5


def test_a_plugin_may_bring_a_namespace(plugins):
    registry = plugins.registry
    plugins.add("lab", lambda: registry.register_namespace("lab", lambda: registry.register("lab/One", WALK)))
    assert registry.spec("lab/One").namespace == "lab"


def test_a_plugin_that_fails_warns_and_the_others_go_on(plugins):
    plugins.add("broken", RuntimeError("boom"))
    plugins.add("nameless", ValueError("bad"), package=None)
    plugins.add("one", lambda: plugins.registry.register("One-v0", WALK))
    with pytest.warns(RuntimeWarning) as caught:
        assert plugins.registry.spec("One-v0").id == "One-v0"
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert "plug-in 'broken' (package 'toy-package', 'broken:register') failed to load: RuntimeError: boom" in texts[0]
    assert "plug-in 'nameless' (unknown package" in texts[1]
    with pytest.raises(EnvNotFound, match="may be missing because plug-in 'broken'.*boom"):
        plugins.registry.spec("Other-v0")


def test_a_plugin_that_registers_what_is_there_already_goes_on(plugins):
    registry = plugins.registry

    def register_all():
        registry.register("One-v0", WALK)
        registry.register("Two-v0", WALK)

    register_all_by_hand = partial(registry.register, "One-v0", WALK, max_episode_steps=9)
    register_all_by_hand()
    plugins.add("one", register_all)
    with pytest.warns(
        RuntimeWarning, match="offers 'One-v0' with max_episode_steps=None, but .*max_episode_steps=9 at"
    ):
        assert registry.spec("Two-v0").id == "Two-v0"
    assert registry.spec("One-v0").max_episode_steps == 9


def test_a_plugin_that_offers_something_else_under_a_taken_id_is_told_of(plugins):
    registry = plugins.registry
    registry.register("One-v0", WALK)
    plugins.add("one", lambda: registry.register("One-v0", "other:Walk"))
    with pytest.warns(
        RuntimeWarning, match="plug-in 'one' .*offers 'One-v0' with entry_point=other:Walk, .*toy_market:Walk"
    ):
        registry.all_specs()
    assert registry.spec("One-v0").entry_point == WALK


@pytest.mark.parametrize("again", [{}, {"max_episode_steps": 5}])
def test_a_plugin_that_registers_an_id_twice_fails(plugins, again):
    def function():
        plugins.registry.register("One-v0", WALK)
        plugins.registry.register("One-v0", WALK, **again)

    plugins.add("one", function)
    with pytest.warns(RuntimeWarning, match="plug-in 'one' .*failed to load: EnvAlreadyRegistered: .*'One-v0'"):
        assert plugins.registry.spec("One-v0").max_episode_steps is None


@pytest.mark.parametrize(
    "other",
    [
        {"kwargs": {"goal": 4}},
        {"max_episode_steps": 5},
        {"vector_entry_point": WALK_VEC},
        {"additional_wrappers": (Times,)},
        {"reward_threshold": 1.0},
        {"nondeterministic": True},
    ],
)
def test_two_plugins_that_differ_in_any_field_are_told_of(plugins, other):
    registry = plugins.registry
    plugins.add("one", lambda: registry.register("One-v0", WALK))
    plugins.add("same", lambda: registry.register("One-v0", WALK))
    plugins.add("two", lambda: registry.register("One-v0", WALK, **other))
    with pytest.warns(RuntimeWarning, match=f"plug-in 'two' .*offers 'One-v0' with {next(iter(other))}=") as caught:
        assert registry.spec("One-v0") == EnvSpec("One-v0", WALK)
    assert len(caught) == 1


def test_a_plugin_that_makes_its_functions_anew_is_the_same(plugins):
    def function():
        def build():
            return Walk()

        def wrap(env):
            return env

        plugins.registry.register("One-v0", build, additional_wrappers=(wrap,))

    plugins.add("one", function)
    plugins.add("same", function)
    assert [spec.id for spec in plugins.registry.all_specs()] == ["One-v0"]  # without a warning


def test_arguments_that_cannot_be_compared_are_compared_by_what_they_show(plugins):
    registry = plugins.registry
    for name, prices in (("one", [1.0, 2.0]), ("same", [1.0, 2.0]), ("two", [1.0, 3.0])):
        kwargs = {"prices": np.array(prices)}
        plugins.add(name, partial(registry.register, "One-v0", WALK, kwargs=kwargs))
    with pytest.warns(RuntimeWarning, match=r"plug-in 'two' .*array\(\[1., 3.\]\)") as caught:
        registry.all_specs()
    assert len(caught) == 1


def test_the_function_of_a_plugin_may_be_called_by_hand_before_and_after(plugins):
    registry = plugins.registry

    def register_envs():
        registry.register("One-v0", WALK)
        registry.register_namespace("lab", lambda: registry.register("lab/One", WALK))

    plugins.add("one", register_envs)
    register_envs()
    with pytest.raises(EnvAlreadyRegistered):  # twice by hand
        register_envs()
    registry.all_specs()

    other = EnvRegistry(plugin_group="test.group")
    registry = other  # where register_envs registers now
    other.all_specs()
    register_envs()
    register_envs()
    assert other.spec("lab/One").entry_point == WALK
    register_envs()
    with pytest.raises(EnvAlreadyRegistered, match="already registered as toy_market:Walk at .*test_registry"):
        other.register("One-v0", WALK, max_episode_steps=3)
    with pytest.raises(ValueError, match="namespace 'lab' already has a loader"):
        other.register_namespace("lab", "other:loader")
    other.deregister("One-v0")
    other.register("One-v0", WALK)
    with pytest.raises(EnvAlreadyRegistered):  # it is by hand now
        other.register("One-v0", WALK)


def test_a_plugin_that_exits_takes_nothing_away(plugins):
    plugins.add("quits", lambda: sys.exit("no licence"))
    plugins.add("gone", SystemExit(1))
    plugins.add("one", lambda: plugins.registry.register("One-v0", WALK))
    with pytest.warns(RuntimeWarning, match="failed to load: SystemExit") as caught:
        assert plugins.registry.spec("One-v0").id == "One-v0"
    assert len(caught) == 2
    with pytest.raises(EnvNotFound, match="may be missing because plug-in 'quits' .*SystemExit: no licence"):
        plugins.registry.spec("Other-v0")


def test_the_same_plugin_announced_twice_is_loaded_once(plugins):
    calls = []
    for _ in range(2):
        plugins.add("one", lambda: calls.append(1))
    plugins.registry.all_specs()
    assert calls == [1]


def test_an_interrupt_while_plugins_load_leaves_them_to_the_next_look_up(plugins):
    interrupts = [KeyboardInterrupt()]

    def function():
        if interrupts:
            raise interrupts.pop()
        plugins.registry.register("One-v0", WALK)

    plugins.add("one", function)
    with pytest.raises(KeyboardInterrupt):
        plugins.registry.spec("One-v0")
    assert plugins.registry.spec("One-v0").id == "One-v0"


def test_a_second_thread_waits_for_the_plugins(plugins):
    entered, go_on, found = threading.Event(), threading.Event(), []

    def function():
        entered.set()
        assert go_on.wait(240)
        plugins.registry.register("One-v0", WALK)

    plugins.add("one", function)
    first = threading.Thread(target=plugins.registry.all_specs)
    second = threading.Thread(target=lambda: found.append(plugins.registry.spec("One-v0").id))
    first.start()
    assert entered.wait(240)
    second.start()
    second.join(0.05)
    go_on.set()
    for thread in (first, second):
        thread.join(240)
    assert found == ["One-v0"]


def test_a_plugin_that_takes_long_to_import_holds_up_no_namespace(plugins):
    entered, go_on = threading.Event(), threading.Event()

    def importing():
        entered.set()
        assert go_on.wait(240)

    plugins.add("slow", lambda: plugins.registry.register("Slow-v0", WALK), importing=importing)
    plugins.registry.register_namespace("lab", lambda: plugins.registry.register("lab/Walk-v0", WALK))
    first = threading.Thread(target=plugins.registry.all_specs)
    first.start()
    assert entered.wait(240)
    second = threading.Thread(target=plugins.registry.spec, args=("lab/Walk-v0",))
    second.start()
    second.join(60)
    held_up = second.is_alive()
    go_on.set()
    for thread in (first, second):
        thread.join(240)
    assert not held_up


def test_two_threads_call_the_loader_of_a_namespace_once(registry):
    entered, go_on, calls, found = threading.Event(), threading.Event(), [], []

    def loader():
        calls.append(1)
        entered.set()
        assert go_on.wait(240)
        registry.register("lab/Walk-v0", WALK)

    registry.register_namespace("lab", loader)
    threads = [threading.Thread(target=lambda: found.append(registry.spec("lab/Walk").id)) for _ in range(2)]
    threads[0].start()
    assert entered.wait(240)
    threads[1].start()
    threads[1].join(0.05)
    assert registry.spec("Walk-v0").id == "Walk-v0"  # what is there waits for nobody
    go_on.set()
    for thread in threads:
        thread.join(240)
    assert (found, calls) == (["lab/Walk-v0"] * 2, [1])


LOOK_UP_WHILE_IMPORTING = """
    import threading
    import meeting
    import sekai.registry as registry

    {setup}

    def import_by_hand():
        import slow_market

    def look_up():
        assert meeting.importing.wait(meeting.HANG)
        meeting.looking.set()
        assert registry.spec({id!r}).id == {id!r}
        found.append(1)

    found = []
    threads = [threading.Thread(target=target, daemon=True) for target in (import_by_hand, look_up)]
    meeting.looker = threads[1]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(meeting.HANG)
    assert [thread.is_alive() for thread in threads] == [False, False], "deadlock"
    assert found == [1]
    """

MEETING = """
    import sys, threading, time

    HANG = 240.0
    importing, looking, looker = threading.Event(), threading.Event(), None

    def in_the_middle_of_the_import():
        # Goes on when whoever looks up waits for this very import, or has for a while not come to that.
        importing.set()
        assert looking.wait(HANG)
        end = time.monotonic() + 0.5
        while looker.is_alive() and not waits_for_the_import() and time.monotonic() < end:
            time.sleep(0.001)

    def waits_for_the_import():
        frame = sys._current_frames().get(looker.ident)
        if frame is None or frame.f_code.co_name != "acquire":
            return False
        return getattr(frame.f_locals.get("self"), "name", None) == "slow_market"
    """


def look_up_while_importing(folder, at_import, *, id, setup=""):
    """One thread imports a module that does something at import; another looks up meanwhile what needs the module."""
    (folder / "meeting.py").write_text(textwrap.dedent(MEETING))
    (folder / "slow_market.py").write_text(f"import meeting\nmeeting.in_the_middle_of_the_import()\n{at_import}")
    run_python(LOOK_UP_WHILE_IMPORTING.format(setup=setup, id=id), folder)


def test_a_module_that_registers_at_import_and_is_a_plugin_too_blocks_nobody(tmp_path):
    announce(tmp_path, "slow = slow_market:load")
    at_import = "from sekai.registry import register\nregister('Slow-v0', 'x:y')\ndef load(): pass\n"
    look_up_while_importing(tmp_path, at_import, id="Slow-v0")


def test_a_module_that_registers_at_import_and_loads_a_namespace_too_blocks_nobody(tmp_path):
    setup = "registry.register_namespace('lab', 'slow_market:load')"
    at_import = "from sekai.registry import register\nregister('lab/Slow-v0', 'x:y')\ndef load(): pass\n"
    look_up_while_importing(tmp_path, at_import, id="lab/Slow-v0", setup=setup)


def test_a_module_that_looks_up_at_import_and_is_imported_by_a_plugin_blocks_nobody(tmp_path):
    (tmp_path / "plug.py").write_text(
        "from sekai.registry import register\ndef load():\n    import slow_market\n    register('Plug-v0', 'x:y')\n"
    )
    announce(tmp_path, "plug = plug:load")
    at_import = "from sekai.registry import spec\nassert spec('Plug-v0').id == 'Plug-v0'\n"
    look_up_while_importing(tmp_path, at_import, id="Plug-v0")


def announce(folder, *entry_points):
    """Make a folder the site-packages of a package with these plug-ins."""
    info = folder / "lab_markets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-markets\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[sekai.envs]", *entry_points, ""]))


def run_python(code, *paths):
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", *paths)))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


def test_an_installed_package_announces_its_envs_through_the_group_sekai_envs(tmp_path):
    announce(tmp_path, "lab = lab_markets:register_envs", "bad = lab_markets:nothing")
    (tmp_path / "lab_markets.py").write_text(
        "from sekai.registry import register\n"
        "def register_envs():\n    register('lab/Walk-v0', vector_entry_point='toy_market:WalkVec')\n"
    )
    done = run_python(
        """
        import sys
        from sekai.registry import make_vec
        assert "lab_markets" not in sys.modules
        vec = make_vec("lab/Walk-v0", 3)
        assert vec.num_envs == 3, vec
        """,
        tmp_path,
    )
    assert "plug-in 'bad' (package 'lab-markets', 'lab_markets:nothing') failed to load" in done.stderr


def test_registering_and_importing_the_registry_stay_light():
    run_python(
        """
        import sys
        import numpy
        before = set(sys.modules)
        from sekai.registry import register
        register("Walk-v0", "toy_market:Walk")
        heavy = {"importlib.metadata", "difflib", "json", "argparse", "numba", "pandas", "sims", "toy_market",
                 "asyncio", "cloudpickle"}
        assert not heavy & (set(sys.modules) - before), heavy & (set(sys.modules) - before)
        """
    )


# -- make --------------------------------------------------------------------------------------------------


def test_make_puts_the_layers_around_the_env_in_order(registry):
    registry.register(
        "Full-v0", WALK, max_episode_steps=2, additional_wrappers=(WrapperSpec("Times", Times, {"factor": 3.0}),)
    )
    env = registry.make("Full-v0")
    assert layers(env) == [Times, TimeLimit, OrderEnforcing, Walk]
    env.reset()
    assert env.step(1).reward == 3.0
    assert layers(registry.make("Full-v0", max_episode_steps=-1)) == [Times, OrderEnforcing, Walk]


def test_make_sets_the_spec_with_the_resolved_arguments(registry):
    registry.register("Far-v0", WALK, kwargs={"goal": 5, "start": 1.0})
    env = registry.make("Far-v0", start=2.0, max_episode_steps=8)
    assert (env.goal, env.start) == (5, 2.0)
    assert env.spec == EnvSpec("Far-v0", WALK, max_episode_steps=8, kwargs={"goal": 5, "start": 2.0})
    assert env.unwrapped.spec is env.spec
    assert str(env.unwrapped) == "<Far-v0>"
    assert registry.spec("Far-v0").kwargs == {"goal": 5, "start": 1.0}


@pytest.mark.parametrize(("asked", "limit"), [(None, 2), (5, 5), (np.int64(7), 7), (-1, None), (np.int64(-1), None)])
def test_the_time_limit_of_make_replaces_that_of_the_spec(registry, asked, limit):
    env = registry.make("Walk-v0", max_episode_steps=asked, goal=100)
    assert env.spec.max_episode_steps == limit
    env.reset()
    truncated = [env.step(1).truncated for _ in range(8)]
    assert truncated.index(True) + 1 == limit if limit else not any(truncated)


@pytest.mark.parametrize(("asked", "error"), [(0, ValueError), (-2, ValueError), (-1.0, TypeError), (True, TypeError)])
def test_a_wrong_time_limit_is_refused(registry, asked, error):
    for build in (registry.make, registry.make_vec):
        with pytest.raises(error, match="'Walk-v2': max_episode_steps .-1 in make"):
            build("Walk-v2", max_episode_steps=asked)


def test_make_takes_a_spec(registry):
    env = registry.make(EnvSpec("Elsewhere-v0", Walk), goal=7)
    assert (env.spec.id, env.goal) == ("Elsewhere-v0", 7)


def test_an_entry_point_that_gives_no_env_is_refused(registry):
    registry.register("Odd-v0", lambda: 3)
    with pytest.raises(TypeError, match=r"'Odd-v0': expected an Env from entry_point .*<lambda>, got int"):
        registry.make("Odd-v0")
    registry.register("Vec-v0", partial(WalkVec, 1))
    with pytest.raises(TypeError, match="got WalkVec .a VecEnv belongs to vector_entry_point"):
        registry.make("Vec-v0")


@pytest.mark.parametrize("vector_entry_point", [None, WALK_VEC])
def test_a_vec_env_class_is_no_entry_point(registry, vector_entry_point):
    text = "'Vec-v0': expected an Env from entry_point toy_market:WalkVec, which is a VecEnv class; "
    text += "register it as vector_entry_point"
    with pytest.raises(TypeError, match=text):
        registry.register("Vec-v0", WalkVec, vector_entry_point=vector_entry_point)
    assert "Vec-v0" not in [spec.id for spec in registry.all_specs()]
    registry.register("Vec-v0", WALK_VEC)  # text is not imported before it is needed
    for build in (registry.make, partial(registry.make_vec, num_envs=2)):
        with pytest.raises(TypeError, match=text):
            build("Vec-v0")


def test_any_other_class_is_an_entry_point():
    assert EnvSpec("Walk-v0", Walk).entry_point is Walk


@pytest.mark.parametrize("id", ["Walk-v0", "Walk-v2", "native/Walk-v1", "Any-v0"])
def test_a_number_of_envs_is_no_argument_of_a_single_env(registry, id):
    registry.register("Any-v0", lambda **kwargs: Walk(), vector_entry_point=WALK_VEC)
    text = rf"make\('{id}'\): one environment takes no 'num_envs'; use make_vec\('{id}', num_envs=...\)"
    for build in (registry.make, _make_by_spec(registry)):
        with pytest.raises(TypeError, match=text):
            build(id, num_envs=3)


def test_a_wrapper_that_fails_closes_the_env(registry):
    built = []

    def build():
        built.append(Walk())
        return built[-1]

    registry.register("Bad-v0", build, additional_wrappers=[lambda env: None])
    with pytest.raises(TypeError, match="'Bad-v0': expected an Env from the wrapper .*, got NoneType"):
        registry.make("Bad-v0")
    registry.register("Worse-v0", build, additional_wrappers=[WrapperSpec("Gone", "toy_market:Gone")])
    with pytest.raises(ImportError, match=r"WrapperSpec\('Gone'\): 'toy_market:Gone' cannot be imported"):
        registry.make("Worse-v0")
    assert [env.closed for env in built] == [True, True]


def test_make_puts_the_shell_around_an_env_that_is_only_native(registry):
    env = registry.make("native/Walk-v1", goal=2, max_episode_steps=5)
    assert layers(env) == [TimeLimit, OrderEnforcing, SingleEnv]
    assert env.spec.id == "native/Walk-v1"
    assert env.reset(options={"start": 1}).observation.tolist() == [1.0]
    result = env.step(1)
    assert (result.terminated, result.info) == (True, {"level": 2.0, "elapsed_steps": 1})


def test_autoreset_is_no_argument_of_a_single_env(registry):
    for build in (registry.make, partial(registry.make_vec, vectorization_mode="sync"), _make_by_spec(registry)):
        with pytest.raises(ValueError, match="'autoreset' is no argument of a single environment; use make_vec"):
            build("native/Walk-v1", autoreset=False)
        with pytest.raises(
            ValueError, match="'autoreset_options' is no argument of a single environment; use make_vec"
        ):
            build("native/Walk-v1", autoreset_options={})


def _make_by_spec(registry):
    return lambda id, **kwargs: registry.spec(id).make(**kwargs)


# -- make_vec ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "mode", "kind"),
    [
        ("Walk-v0", None, SyncVecEnv),
        ("Walk-v2", None, WalkVec),
        ("Walk-v2", "native", WalkVec),
        ("Walk-v2", "vector_entry_point", WalkVec),
        ("Walk-v2", "sync", SyncVecEnv),
        ("Walk-v2", "async", AsyncVecEnv),
        ("native/Walk-v1", None, WalkVec),
        ("native/Walk-v1", "sync", SyncVecEnv),
        ("native/Walk-v1", "async", AsyncVecEnv),
        ("Walk-v2", "proc", ProcVecEnv),
        ("native/Walk-v1", "proc", ProcVecEnv),
    ],
)
def test_the_mode_chooses_the_backend(registry, id, mode, kind):
    with registry.make_vec(id, 2, vectorization_mode=mode, goal=3, max_episode_steps=2) as vec:
        assert type(vec) is kind
        assert vec.num_envs == 2
        assert (vec.spec.id, vec.spec.kwargs, vec.spec.max_episode_steps) == (id, {"goal": 3}, 2)
        vec.reset()
        vec.step(UP)
        result = vec.step(UP)
        assert result.rewards.tolist() == [2.0, 2.0]
        assert result.truncated.tolist() == [True, True]
        assert result.infos[0]["final_info"] == {"level": 2.0, "elapsed_steps": 2}


def test_every_mode_gives_the_same_episodes(registry):
    seen = []
    for mode in ("native", "sync", "async", "proc"):
        with registry.make_vec("Walk-v2", 2, vectorization_mode=mode, goal=4, max_episode_steps=3) as vec:
            seen.append([vec.reset(options=[{"start": 0}, {"start": 2}]).observations])
            for _ in range(5):
                result = vec.step(UP)
                seen[-1] += [result.observations, result.rewards, result.terminated, result.truncated]
    for other in seen[1:]:
        assert all(map(np.array_equal, seen[0], other))


def test_per_env_wrappers_need_envs_of_their_own(registry):
    times = partial(Times, factor=5.0)
    vec = registry.make_vec("Walk-v2", 2, wrappers=(times,))
    assert type(vec) is SyncVecEnv
    assert layers(vec.envs[0]) == [Times, TimeLimit, OrderEnforcing, Walk]
    vec.reset()
    assert vec.step(UP).rewards.tolist() == [5.0, 5.0]
    registry.register("Wrapped-v0", vector_entry_point=WALK_VEC, additional_wrappers=(times,))
    vec = registry.make_vec("Wrapped-v0", 2, wrappers=(WrapperSpec("Again", Times),))
    vec.reset()
    assert vec.step(UP).rewards.tolist() == [10.0, 10.0]
    assert [layer.factor for layer in list(vec.envs[0])[:2]] == [2.0, 5.0]  # make_vec's outside the spec's
    for id, wrappers in (("Walk-v2", (times,)), ("Wrapped-v0", ())):
        with pytest.raises(ValueError, match=r"per-env wrappers .*use one of 'sync', 'async'.*VecWrapper around"):
            registry.make_vec(id, 2, vectorization_mode="native", wrappers=wrappers)


def test_a_mode_that_does_not_suit_is_refused(registry):
    with pytest.raises(ValueError, match=r"make_vec\('Walk-v0', .*'native'\): the environment has no vector_entry"):
        registry.make_vec("Walk-v0", 2, vectorization_mode="native")
    with pytest.raises(ValueError, match="vectorization_mode='fast'.: expected one of 'native', 'sync', 'async'"):
        registry.make_vec("Walk-v0", 2, vectorization_mode="fast")


@pytest.mark.parametrize(
    ("asked", "limit"), [({}, 2), ({"max_episode_steps": 5}, 5), ({"max_episode_steps": -1}, None)]
)
def test_the_time_limit_reaches_a_native_env(registry, asked, limit):
    vec = registry.make_vec("Walk-v2", 2, goal=100, **asked)
    assert vec.max_episode_steps == vec.spec.max_episode_steps == limit


def test_a_native_env_without_limit_need_not_know_of_one(registry):
    registry.register("Plain-v0", vector_entry_point=lambda num_envs: WalkVec(num_envs))
    assert registry.make_vec("Plain-v0", 3).num_envs == 3


class Deaf(WalkVec):
    """Takes whatever it is given, and does nothing with it."""

    def __init__(self, num_envs, **kwargs):
        super().__init__(num_envs)


class Forgets(WalkVec):
    """The same, but with a time limit of its own and options made from those given."""

    def __init__(self, num_envs, *, autoreset_options=None, **kwargs):
        super().__init__(num_envs, max_episode_steps=7, autoreset_options=autoreset_options and {"start": 0.5})


def test_a7_an_argument_that_does_not_reach_the_native_env_is_named(registry):
    built = []

    def deaf(num_envs, **kwargs):
        built.append(Deaf(num_envs, **kwargs))
        return VecRecordEpisodeStatistics(built[-1])

    registry.register("Deaf-v0", vector_entry_point=Deaf, max_episode_steps=10)
    registry.register("Deaf-v1", vector_entry_point=deaf)
    registry.register("Deaf-v2", vector_entry_point=Deaf, kwargs={"autoreset": False})
    text = "expected Deaf to have {}, got {}; its __init__ has to hand .* on"
    with pytest.raises(ValueError, match="'Deaf-v0'.*" + text.format("max_episode_steps=10", "None")):
        registry.make_vec("Deaf-v0", 2)
    for vector_kwargs, lost, got in (
        ({"autoreset": False}, "autoreset=False", "True"),
        ({"autoreset_options": {"start": 1}}, "autoreset_options={'start': 1}", "None"),
    ):
        with pytest.raises(ValueError, match=text.format(re.escape(lost), got)):
            registry.make_vec("Deaf-v1", 2, vector_kwargs=vector_kwargs)
        assert built[-1].closed
    with pytest.raises(ValueError, match=text.format("autoreset=False", "True")):
        registry.make_vec("Deaf-v2", 2)
    asked = {"autoreset": True, "autoreset_options": None}
    assert registry.make_vec("Deaf-v0", 2, max_episode_steps=-1, vector_kwargs=asked).num_envs == 2


def test_a7_an_argument_that_does_not_reach_sub_envs_is_named(registry):
    def forgets(num_envs, **kwargs):
        return SyncVecEnv([Walk] * num_envs)

    def limits(num_envs, max_episode_steps=None):
        return SyncVecEnv([lambda: TimeLimit(Walk(), max_episode_steps)] * num_envs)

    registry.register("Forgets-v3", vector_entry_point=forgets, max_episode_steps=3)
    registry.register("Limits-v0", vector_entry_point=limits, max_episode_steps=3)
    text = "expected SyncVecEnv to have max_episode_steps=3, got None; what makes it has to hand max_episode_steps on"
    with pytest.raises(ValueError, match=text):
        registry.make_vec("Forgets-v3", 2)
    assert registry.make_vec("Limits-v0", 2).get_attr("max_episode_steps") == [3, 3]


def test_a7_an_attribute_of_that_name_is_no_limit(registry):
    class Notes(Deaf):
        def __init__(self, num_envs, max_episode_steps=None, **kwargs):
            self.max_episode_steps = max_episode_steps
            super().__init__(num_envs, **kwargs)

    registry.register("Notes-v0", vector_entry_point=Notes, max_episode_steps=3)
    with pytest.raises(ValueError, match="expected Notes to have max_episode_steps=3, got None"):
        registry.make_vec("Notes-v0", 2)


def test_a7_an_argument_that_the_native_env_has_otherwise_is_named_too(registry):
    registry.register("Forgets-v0", vector_entry_point=Forgets, max_episode_steps=7)
    with pytest.raises(ValueError, match="expected Forgets to have max_episode_steps=8, got 7"):
        registry.make_vec("Forgets-v0", 2, max_episode_steps=8)
    registry.make_vec("Forgets-v0", 2, vector_kwargs={"autoreset_options": {"start": 1}})


def test_a7_a_single_env_has_its_limit_from_a_wrapper(registry):
    registry.register("Deaf-v0", vector_entry_point=Deaf, max_episode_steps=3)
    for mode in ("sync", "async"):
        vec = registry.make_vec("Deaf-v0", 2, vectorization_mode=mode)
        vec.reset()
        assert [vec.step([0, 0]).truncated.all() for _ in range(4)] == [False, False, True, False]


def test_vector_kwargs_go_to_the_vec_env(registry):
    for mode in ("native", "sync", "async", "proc"):
        with registry.make_vec("Walk-v2", 2, vectorization_mode=mode, vector_kwargs={"autoreset": False}) as vec:
            assert vec.autoreset is False
    options = {"autoreset_options": {"start": 1}}
    vec = registry.make_vec("Walk-v0", 2, vector_kwargs=options, goal=1)
    vec.reset()
    assert vec.step(UP).observations.tolist() == [[1.0], [1.0]]
    vec = registry.make_vec("Walk-v2", 2, vector_kwargs={"shift": 4})
    assert vec.shift == 4
    registry.register("Still-v0", vector_entry_point=WALK_VEC, kwargs={"autoreset": False})
    assert registry.make_vec("Still-v0", vector_kwargs={"autoreset": True}).autoreset is True


@pytest.mark.parametrize("mode", ["native", "sync"])
@pytest.mark.parametrize(
    ("vector_kwargs", "text"),
    [
        ({"goal": 3}, "'goal' was given twice"),
        ({"max_episode_steps": 3}, "'max_episode_steps' is an argument of make_vec itself"),
        ({"num_envs": 3}, "'num_envs' is an argument of make_vec itself"),
    ],
)
def test_an_argument_has_one_way_in(registry, mode, vector_kwargs, text):
    with pytest.raises(ValueError, match=text):
        registry.make_vec("Walk-v2", 2, vectorization_mode=mode, vector_kwargs=vector_kwargs, goal=4)


def test_a_vector_entry_point_that_gives_something_else_is_refused(registry):
    built = []

    def too_many(num_envs):
        built.append(WalkVec(num_envs + 1))
        return built[-1]

    registry.register("Odd-v0", vector_entry_point=lambda num_envs: Walk())
    registry.register("More-v0", vector_entry_point=too_many)
    with pytest.raises(TypeError, match="'Odd-v0': expected a VecEnv from vector_entry_point .*lambda.*, got Walk"):
        registry.make_vec("Odd-v0", 2)
    with pytest.raises(ValueError, match="'More-v0': expected 2 sub-envs .num_envs. from vector_entry_point .*, got 3"):
        registry.make_vec("More-v0", 2)
    assert built[0].closed


def keyword_alone(*, num_envs, **kwargs):
    return WalkVec(num_envs, **kwargs)


def keywords_alone(**kwargs):
    return WalkVec(**kwargs)


def not_the_first(goal=3, num_envs=1, **kwargs):
    return WalkVec(num_envs, goal=goal, **kwargs)


def by_another_name(n, /, **kwargs):
    return WalkVec(n, **kwargs)


def any_way(*args, **kwargs):
    return WalkVec(*args, **kwargs)


class Inherits(WalkVec):
    pass


class Callable:
    def __call__(self, *, num_envs, **kwargs):
        return WalkVec(num_envs, **kwargs)


@pytest.mark.parametrize(
    "entry_point",
    [
        keyword_alone,
        keywords_alone,
        not_the_first,
        by_another_name,
        any_way,
        Inherits,
        Callable(),
        partial(keyword_alone, start=0.5),
        partial(WalkVec, start=0.5),
    ],
)
def test_e6_num_envs_is_given_as_the_signature_takes_it(registry, entry_point):
    registry.register("Many-v0", vector_entry_point=entry_point, kwargs={"goal": 2})
    assert registry.make_vec("Many-v0", 3).num_envs == 3
    assert registry.make_vec("Many-v0", 2, vectorization_mode="sync", noise=0.5).get_attr("noise") == [0.5, 0.5]
    assert registry.make("Many-v0").unwrapped.goal == 2
    with pytest.raises(TypeError, match="'Many-v0'.* 'gaol'|unexpected keyword argument 'gaol'"):
        registry.make_vec("Many-v0", 3, gaol=2)


@pytest.mark.parametrize(
    ("num_envs", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError), ("2", TypeError)]
)
def test_a_wrong_number_of_envs_is_refused(registry, num_envs, error):
    with pytest.raises(error, match=r"make_vec\('Walk-v2'\): num_envs: expected"):
        registry.make_vec("Walk-v2", num_envs)


def test_wrappers_that_are_no_sequence_are_refused(registry):
    with pytest.raises(TypeError, match=r"make_vec\('Walk-v0'\): wrappers: expected a sequence of callables, got ABC"):
        registry.make_vec("Walk-v0", 2, wrappers=Times)


def test_an_argument_the_env_does_not_have_is_refused_by_python(registry):
    for build in (registry.make, registry.make_vec):
        with pytest.raises(TypeError, match="gaol"):
            build("Walk-v2", gaol=3)


def test_make_vec_takes_a_spec_and_defaults_to_one_env(registry):
    vec = registry.make_vec(EnvSpec("Elsewhere-v0", vector_entry_point=WalkVec))
    assert (vec.num_envs, vec.spec.id) == (1, "Elsewhere-v0")


@pytest.mark.parametrize("id", ["Walk-v2", "native/Walk-v1"])
def test_what_builds_a_sub_env_survives_the_way_to_a_worker_with_an_empty_registry(registry, tmp_path, id):
    from sekai.registry import build

    captured = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "load_entry_point", lambda *args: lambda env_fns: captured.extend(env_fns) or Walk())
        registry.make_vec(
            id,
            2,
            vectorization_mode="sync",
            wrappers=[lambda env: TransformReward(env, lambda reward: -reward)],
            goal=6,
        )
    assert len(captured) == 2
    (tmp_path / "env_fn.pkl").write_bytes(cloudpickle.dumps(captured[0]))
    run_python(
        f"""
        import pickle
        with open({str(tmp_path / "env_fn.pkl")!r}, "rb") as file:
            env = pickle.load(file)()
        env.reset()
        assert env.step(1).reward == -1.0
        assert env.spec.id == {id!r} and env.goal == 6, env
        """
    )


@pytest.mark.parametrize(
    ("points", "native", "others"),
    [
        ({"entry_point": WALK}, None, WALK),
        ({"vector_entry_point": WALK_VEC}, WALK_VEC, WALK_VEC),
        ({"entry_point": WALK, "vector_entry_point": WALK_VEC}, WALK_VEC, WALK),
    ],
)
def test_the_mode_decides_which_entry_point_is_called(points, native, others):
    spec = EnvSpec("Walk-v0", **points)
    assert {entry_point_of(spec, mode) for mode in ENV_FN_MODES} == {others}
    if native is not None:
        assert entry_point_of(spec, "native") == native


# -- arguments of one's own --------------------------------------------------------------------------------


class Orders(Walk):
    """Keeps its orders in a list it is given."""

    def __init__(self, orders, extra=None):
        super().__init__()
        self.orders = orders
        self.extra = extra


class OrdersVec(WalkVec):
    def __init__(self, num_envs, orders, extra=None, **kwargs):
        super().__init__(num_envs, **kwargs)
        self.orders = orders
        self.extra = extra


class Journal(Wrapper):
    def __init__(self, env, pages):
        super().__init__(env)
        self.pages = pages


@pytest.mark.parametrize("points", [{"entry_point": Orders}, {"vector_entry_point": OrdersVec}])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_sub_env_has_registered_arguments_of_its_own(registry, points, mode):
    mine = {"orders": [[]]}
    registry.register("M-v0", kwargs=mine, **points)
    with registry.make_vec("M-v0", 2, vectorization_mode=mode) as vec:
        first, second = (
            env.get_attr("vec").orders if "vector_entry_point" in points else env.orders for env in vec.envs
        )
        first[0].append("buy")
        assert (first, second) == ([["buy"]], [[]])
        assert vec.spec.kwargs == vec.envs[0].spec.kwargs == {"orders": [[]]}
    registry.make("M-v0").get_attr("orders")[0].append("sell")
    mine["orders"][0].append("mine")
    assert registry.spec("M-v0").kwargs == {"orders": [[]]}
    assert registry.make("M-v0").get_attr("orders") == [[]]


def test_a_native_env_has_registered_arguments_of_its_own(registry):
    registry.register("M-v0", vector_entry_point=OrdersVec, kwargs={"orders": []})
    registry.make_vec("M-v0", 2).orders.append("buy")
    assert registry.make_vec("M-v0", 2).orders == []


def test_each_env_has_wrapper_arguments_of_its_own(registry):
    journal = WrapperSpec("Journal", Journal, {"pages": []})
    registry.register("M-v0", Walk, additional_wrappers=(journal,))
    first, second = registry.make_vec("M-v0", 2).envs
    first.pages.append("one")
    assert (first.pages, second.pages, journal.kwargs) == (["one"], [], {"pages": []})


class CountsCopies:
    copies = 0

    def __deepcopy__(self, memo):
        CountsCopies.copies += 1
        return self


def test_arguments_are_copied_no_more_often_than_envs_are_built(registry, monkeypatch):
    registry.register("M-v0", Orders, vector_entry_point=OrdersVec, kwargs={"orders": CountsCopies()})
    monkeypatch.setattr(CountsCopies, "copies", 0)
    registry.make_vec("M-v0", 100)
    assert CountsCopies.copies == 1
    prices = np.arange(3.0)  # what the caller gives is the caller's own affair, and may be big
    for env in registry.make_vec("M-v0", 2, vectorization_mode="sync", extra=prices).envs:
        assert env.extra is prices
    assert registry.make("M-v0", extra=prices).extra is prices
    assert registry.make_vec("M-v0", 2, extra=prices).extra is prices


def test_an_argument_that_cannot_be_copied_is_shared(registry):
    lock = threading.Lock()
    registry.register("M-v0", Orders, kwargs={"orders": lock, "extra": []})
    first, second = registry.make_vec("M-v0", 2).envs
    assert first.orders is second.orders is lock
    assert first.extra is not second.extra


# -- a collection of ids -----------------------------------------------------------------------------------


def test_make_can_be_sent_to_another_process():
    sent = cloudpickle.loads(cloudpickle.dumps(lambda make=sekai.make: make))()
    assert sent == sekai.make
    assert pickle.loads(pickle.dumps(sekai.registry.default_registry)) is sekai.registry.default_registry


def test_a_registry_is_a_collection_of_ids():
    registry = EnvRegistry()
    assert len(registry) == 0 and list(registry) == []
    registry.register("b/Walk-v1", WALK)
    registry.register("Walk-v10", WALK)
    registry.register("Walk-v2", WALK)
    assert list(registry) == [spec.id for spec in registry.all_specs()] == ["Walk-v2", "Walk-v10", "b/Walk-v1"]
    assert len(registry) == 3
    assert "Walk-v2" in registry
    for other in ("Walk", "Walk-v3", "walk-v2", "Walk-v2 ", "a/Walk-v2", 3, None, registry.spec("Walk-v2")):
        assert other not in registry
    registry.deregister("Walk-v2")
    assert "Walk-v2" not in registry and len(registry) == 2


def test_an_id_of_a_lazy_namespace_is_in_the_registry():
    registry = EnvRegistry()
    registry.register_namespace("lazy", lambda: registry.register("lazy/Walk-v0", WALK))
    assert "Walk-v0" not in registry and len(registry) == 0
    assert "lazy/Walk-v0" in registry and len(registry) == 1
    assert "lazy/Walk-v1" not in registry


def test_whether_an_id_of_a_loader_that_fails_is_in_the_registry_nobody_knows():
    registry = EnvRegistry()
    registry.register_namespace("lazy", "no_such_module:register")
    for _ in range(2):
        with pytest.raises(SekaiError, match="the loader of namespace 'lazy' failed: .*no_such_module"):
            "lazy/Walk-v0" in registry  # noqa: B015
    assert "Walk-v0" not in registry and len(registry) == 0


def test_markets_are_in_the_registry_of_the_kit():
    assert "Trading-v0" in sekai.registry.default_registry
    assert {"Trading-v0", "MarketMaking-v0"} <= {*sekai.registry.default_registry}


def test_register_returns_what_is_registered():
    registry = EnvRegistry()
    spec = registry.register("Walk-v0", WALK, max_episode_steps=3)
    assert spec is registry.spec("Walk-v0") and spec.max_episode_steps == 3


def test_force_replaces_what_is_registered():
    registry = EnvRegistry()
    registry.register("Walk-v0", WALK, max_episode_steps=3)
    with pytest.raises(EnvAlreadyRegistered, match="or pass force=True to replace it"):
        registry.register("Walk-v0", WALK, max_episode_steps=4)
    for limit in (4, 5):
        spec = registry.register("Walk-v0", WALK, max_episode_steps=limit, force=True)
        assert registry.spec("Walk-v0") is spec and spec.max_episode_steps == limit
    assert len(registry) == 1
    with pytest.raises(ValueError, match="got neither"):
        registry.register("Walk-v0", force=True)
    assert registry.spec("Walk-v0") is spec


def test_what_a_loader_offers_does_not_replace_what_force_put_there():
    registry = EnvRegistry()
    registry.register_namespace("lazy", lambda: registry.register("lazy/Walk-v0", WALK))
    forced = registry.register("lazy/Walk-v0", WALK, max_episode_steps=9, force=True)
    with pytest.warns(RuntimeWarning, match="already registered with .*, which stays"):
        assert "lazy/Walk-v1" not in registry
    assert registry.spec("lazy/Walk-v0") is forced


def test_a_spec_of_an_id_alone():
    spec = EnvSpec("lab/Walk-v3")
    assert (spec.namespace, spec.name, spec.version) == ("lab", "Walk", 3)
    assert EnvSpec.from_json(spec.to_json()) == spec
    text = r"'lab/Walk-v3': expected an entry_point, a vector_entry_point or both, got neither; sekai.spec"
    for build in (spec.make, lambda: sekai.make(spec), lambda: sekai.make_vec(spec, 2)):
        with pytest.raises(ValueError, match=text):
            build()
    with pytest.raises(ValueError, match=text):
        EnvRegistry().register(spec.id)
