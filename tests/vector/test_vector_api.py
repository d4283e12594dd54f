"""The names and signatures of the specification."""

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest

import sekai
import sekai.vector

NAMES = """
VecEnv SyncVecEnv AsyncVecEnv ProcVecEnv NativeVecEnv
VecStepResult VecResetResult stack_infos VecWrapper VecObservationWrapper
VecRewardWrapper VecActionWrapper VecRecordEpisodeStatistics VecNormalizeObservation VecNormalizeReward
VecTransformObservation VecTransformReward
""".split()

# Parameters as (name, default); keyword-only ones come after "*".
SIGNATURES = {
    sekai.SyncVecEnv: "env_fns, *, autoreset=True, copy=True",
    sekai.AsyncVecEnv: "env_fns, *, autoreset=True",
    sekai.ProcVecEnv: "env_fns, *, autoreset=True, context=None, close_timeout=5.0, num_workers=None, "
    "shared_memory=None",
    sekai.NativeVecEnv: "num_envs, observation_space, action_space, *, autoreset=True, max_episode_steps=None",
    sekai.VecWrapper: "venv",
    sekai.VecRecordEpisodeStatistics: "venv, tracker=None, deque_size=100",
    sekai.VecNormalizeObservation: "venv, epsilon=1e-08, *, stats='running', halflife=1000.0, clip=None",
    sekai.VecNormalizeReward: "venv, gamma=0.99, epsilon=1e-08",
    sekai.VecTransformObservation: "venv, func, new_observation_space=None",
    sekai.VecTransformReward: "venv, func",
    sekai.VecStepResult: "observations, rewards, terminated, truncated, infos",
    sekai.VecResetResult: "observations, infos",
    sekai.stack_infos: "infos",
    sekai.VecEnv.step: "self, actions",
    sekai.VecEnv.reset: "self, *, seed=None, options=None",
    sekai.VecEnv.close: "self",
    sekai.VecEnv.call: "self, method, *args, **kwargs",
    sekai.VecEnv.get_attr: "self, name, indices=None",
    sekai.VecEnv.set_attr: "self, name, values, indices=None",
    sekai.NativeVecEnv._reset_envs: "self, indices, options",
    sekai.NativeVecEnv._observe: "self",
    sekai.NativeVecEnv._step: "self, actions",
    sekai.NativeVecEnv._reset_infos: "self, indices",
    sekai.VecObservationWrapper.final_observation: "self, obs",
    sekai.VecNormalizeObservation.load_state_dict: "self, state",
    sekai.make_vec: "id, num_envs=1, *, vectorization_mode=None, vector_kwargs=None, wrappers=(), **env_kwargs",
    sekai.register: "id, entry_point=None, *, vector_entry_point=None, max_episode_steps=None, kwargs=None, "
    "additional_wrappers=(), reward_threshold=None, nondeterministic=False",
    sekai.AutoReset: "env",
    sekai.TimeLimit: "env, max_episode_steps",
    sekai.OrderEnforcing: "env",
    sekai.RecordEpisodeStatistics: "env, tracker=None, deque_size=100",
    sekai.NormalizeObservation: "env, epsilon=1e-08, *, stats='running', halflife=1000.0, clip=None",
    sekai.NormalizeReward: "env, gamma=0.99, epsilon=1e-08",
    sekai.TransformObservation: "env, func, new_observation_space=None",
    sekai.TransformReward: "env, func",
    sekai.ClipAction: "env",
    sekai.RescaleAction: "env, min_action, max_action",
    sekai.FlattenObservation: "env",
    sekai.ClipReward: "env, min_reward=None, max_reward=None",
    sekai.RescaleObservation: "env, min_obs, max_obs",
    sekai.DtypeObservation: "env, dtype",
    sekai.FilterObservation: "env, filter_keys",
    sekai.TimeAwareObservation: "env, flatten=True, normalize_time=False, *, dict_time_key='time'",
    sekai.FrameStackObservation: "env, stack_size, *, padding_type='reset'",
    sekai.DelayObservation: "env, delay",
    sekai.StickyAction: "env, repeat_action_probability, repeat_action_duration=1",
    sekai.RepeatAction: "env, num_repeats",
    sekai.InMemoryTracker: "max_episodes=100",
    sekai.LoggingTracker: "logger=None",
    sekai.RunningMeanStd: "shape=(), epsilon=0.0001",
    sekai.ExponentialMovingStats: "shape=(), halflife=1000.0",
    sekai.np_random: "seed=None",
    sekai.make_seed_sequence: "base_seed, n",
    sekai.Discrete: "n, seed=None, start=0",
    sekai.MultiBinary: "n, seed=None",
    sekai.Tuple: "spaces, seed=None",
    sekai.Sequence: "feature_space, *, max_length=None, stack=False, seed=None",
}


def parameters(member):
    """The signature without annotations, and without keyword-only parameters the specification leaves to us."""
    signature = inspect.signature(member)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name not in ("autoreset_options", "step_timeout", "daemon", "force")
    ]
    return str(inspect.Signature(plain))[1:-1]


@pytest.mark.parametrize("member", SIGNATURES, ids=lambda member: member.__qualname__)
def test_signature(member):
    assert parameters(member) == SIGNATURES[member]


@pytest.mark.parametrize("name", NAMES)
def test_name_is_exported_from_both_packages(name):
    assert getattr(sekai, name) is getattr(sekai.vector, name)
    assert name in sekai.__all__ and name in sekai.vector.__all__


def test_shared_is_exported_from_sekai_vector_only():
    assert "shared" in sekai.vector.__all__
    assert not hasattr(sekai, "shared")


def test_all_names_exist_and_are_sorted():
    for module in (sekai, sekai.vector):
        assert sorted(module.__all__) == module.__all__
        assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("record", [sekai.VecStepResult, sekai.VecResetResult, sekai.StepResult, sekai.ResetResult])
def test_results_are_frozen_slotted_dataclasses(record):
    values = [np.zeros(2)] * len(dataclasses.fields(record))
    result = record(*values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, dataclasses.fields(record)[0].name, 1)
    assert not hasattr(result, "__dict__")


def test_results_can_be_subclassed_pickled_and_copied():
    @dataclasses.dataclass(frozen=True, init=False)
    class Mine(sekai.StepResult):
        pass

    for kind in (sekai.StepResult, Mine):
        result = kind([1.0], 2.0, True, False, {"k": 1})
        assert type(result) is kind and result.reward == 2.0 and result.done
        assert dataclasses.replace(result, reward=3.0).reward == 3.0
        assert copy.deepcopy(result) == result and copy.copy(result) == result
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.reward = 1.0
    for result in (sekai.StepResult(1, 2.0, True, False, {}), sekai.VecResetResult(1, [{}])):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(result, protocol)) == result


def test_dones_of_results():
    step = sekai.VecStepResult(None, np.zeros(3), np.array([1, 0, 0], bool), np.array([0, 1, 0], bool), [{}] * 3)
    assert step.dones.tolist() == [True, True, False]
    reset = sekai.VecResetResult(None, [{}] * 3)
    assert reset.dones.dtype == np.bool_ and reset.dones.tolist() == [False] * 3


def test_properties_of_the_specification():
    for owner, name in [
        (sekai.VecEnv, "batch_observation_space"),
        (sekai.VecEnv, "batch_action_space"),
        (sekai.ProcVecEnv, "shared_memory"),
        (sekai.NativeVecEnv, "rng"),
        (sekai.NativeVecEnv, "elapsed_steps"),
        (sekai.NativeVecEnv, "frozen"),
        (sekai.VecNormalizeObservation, "obs_rms"),
    ]:
        assert isinstance(inspect.getattr_static(owner, name), property), name


@pytest.mark.parametrize(
    ("owner", "abstract"),
    [
        (sekai.VecEnv, {"step", "reset", "close"}),
        (sekai.NativeVecEnv, {"_reset_envs", "_observe", "_step"}),
        (sekai.VecObservationWrapper, {"observation"}),
        (sekai.VecRewardWrapper, {"reward"}),
        (sekai.VecActionWrapper, {"action"}),
        (sekai.Env, {"step", "reset"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_abstract_methods(owner, abstract):
    assert owner.__abstractmethods__ == abstract


FIELDS = "result.observations, result.rewards, result.terminated, result.truncated, result.infos"
RESULTS = {
    "step": (sekai.StepResult(0, 1.0, False, False, {}), FIELDS.replace("s,", ",")[:-1]),
    "reset": (sekai.ResetResult(0, {}), "result.observation, result.info"),
    "vec step": (sekai.VecStepResult(0, 1, 2, 3, []), FIELDS),
    "vec reset": (sekai.VecResetResult(0, []), "result.observations, result.infos"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_whoever_unpacks_a_result_is_told_what_to_write(name):
    result, fields = RESULTS[name]
    for use in (lambda: list(result), lambda: result[0]):
        with pytest.raises(TypeError) as raised:
            use()
        assert f"write `result = ...` with the same call in place of the dots, and then {fields}" in str(raised.value)
        assert "reset()" not in str(raised.value) and "step(" not in str(raised.value)  # others return it too
        assert str(raised.value).startswith(type(result).__name__)
    with pytest.raises(TypeError, match="cannot be unpacked: write"):
        one, two, three = result
    if "step" in name:
        with pytest.raises(TypeError, match="cannot be unpacked"):
            observations, rewards, terminated, truncated, infos = result
    assert {*vars(type(result)).get("__slots__", ())} <= {field.name for field in dataclasses.fields(result)}
    assert not hasattr(result, "__dict__")
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
