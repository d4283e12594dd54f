from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from spaces_catalogue import CATALOGUE
from toys import BOX1, INF, NCount, T, Toy
from vector.backends import assert_same, both_modes, everywhere, make, scripted
from without_library import error_of_import

import sekai
from sekai import Box, Dict, Discrete, MultiBinary, SyncVecEnv, Tuple
from sekai.batching import layout
from sekai.compat.torch import TorchVecEnv, to_arrays, to_tensors

SCRIPT = Path(__file__).parents[2] / "notebooks" / "ppo_torch.py"
FIXED = {name: space for name, space in CATALOGUE.items() if layout.has_fixed_layout(space)}


def leaves(batch):
    if isinstance(batch, (dict, tuple)):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from leaves(part)
    else:
        yield batch


class Keeping(sekai.VecWrapper):
    """Keeps the result of the last step."""

    def step(self, actions):
        self.actions = actions
        self.result = super().step(actions)
        return self.result


# -- arrays and tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIXED)
def test_batches_of_every_space_become_tensors_and_back_in_the_same_memory(name):
    space = FIXED[name]
    space.seed(0)
    batch = layout.concatenate(space, [space.sample() for _ in range(3)])
    tensors = to_tensors(batch)
    for array, tensor in zip(leaves(batch), leaves(tensors), strict=True):
        assert isinstance(tensor, torch.Tensor)
        assert tensor.data_ptr() == array.ctypes.data or not array.size
    back = to_arrays(tensors)
    assert_same(batch, back)
    for array, tensor in zip(leaves(back), leaves(tensors), strict=True):
        assert array.ctypes.data == tensor.data_ptr() or not array.size


@pytest.mark.parametrize("array", [np.arange(3.0)[::-1], np.broadcast_to(np.float32(1.0), (3,))])
def test_what_torch_cannot_share_is_copied(array):
    tensor = to_tensors(array)
    assert_same(array, tensor.numpy())
    tensor[0] = 9.0
    assert 9.0 not in array


def test_tensors_of_policies_become_arrays():
    half = torch.tensor([[0.5, -2.0]], requires_grad=True)
    assert_same(np.float32([[0.5, -2.0]]), to_arrays(half * 1.0))
    assert_same(np.float32([[0.5, -2.0]]), to_arrays(half.bfloat16()))
    turned = torch.tensor([1.0 + 2.0j, 3.0 - 4.0j]).conj()
    assert_same(np.array([1.0 - 2.0j, 3.0 + 4.0j], np.complex64), to_arrays(turned))
    assert_same(np.float32([-2.0, 4.0]), to_arrays(turned.imag))
    assert_same(({"a": np.array([1])}, [2]), to_arrays(({"a": torch.tensor([1])}, [2])))


# -- steps -------------------------------------------------------------------------------------------------


@everywhere
@both_modes
def test_steps_are_those_of_the_vec_env(backend, autoreset):
    cut_off = [([1.0], 0.5, False, False, {}), ([2.0], 0.25, False, True, {})]
    scripts = [[(*row[:4], {"a": 1}) for row in script] for script in (T(2), cut_off, T(5))]
    with (
        scripted(backend, *scripts, autoreset=autoreset) as plain,
        TorchVecEnv(scripted(backend, *scripts, autoreset=autoreset)) as vec,
    ):
        assert (vec.num_envs, vec.observation_space, vec.action_space) == (3, BOX1, Discrete(2))
        actions = np.zeros(3, dtype=np.int64)
        expected, got = plain.reset(seed=0), vec.reset(seed=0)
        assert_same(expected.observations, got.observations.numpy())
        assert_same(list(expected.infos), list(got.infos))
        for _ in range(6):
            expected, got = plain.step(actions), vec.step(torch.from_numpy(actions))
            for name in "observations", "rewards", "terminated", "truncated", "dones":
                assert_same(getattr(expected, name), getattr(got, name).numpy())
            finals = {
                row: info["final_observation"] for row, info in enumerate(expected.infos) if "final_observation" in info
            }
            assert got.ended.tolist() == list(finals)
            assert_same([*finals.values()], [*got.final_observations.numpy()])
            led_to = expected.observations.copy()
            for row, final in finals.items():
                led_to[row] = final
            assert_same(led_to, got.next_observations().numpy())
            assert_same(expected.observations, got.observations.numpy())
            assert_same(list(expected.infos), list(got.infos))


@everywhere
def test_observations_and_actions_may_be_nested(backend):
    obs = Dict(a=BOX1, b=Tuple((Discrete(3), MultiBinary(2))))
    act = Dict(c=Discrete(3), d=Box(-1.0, 1.0, (2,)))
    first, last = {"a": [0.0], "b": (0, [0, 1])}, {"a": [1.0], "b": (2, [1, 0])}
    with TorchVecEnv(scripted(backend, [(last, 1.0, True, False, {})], obs=obs, act=act, r0=first)) as vec:
        observations = vec.reset().observations
        assert observations["a"].tolist() == [[0.0]]
        assert [part.tolist() for part in observations["b"]] == [[0], [[0, 1]]]
        result = vec.step({"c": torch.tensor([1]), "d": torch.zeros(1, 2)})
        led_to = result.next_observations()
        assert led_to["a"].tolist() == [[1.0]] and result.observations["a"].tolist() == [[0.0]]
        assert [part.tolist() for part in led_to["b"]] == [[2], [[1, 0]]]
        with pytest.raises(ValueError, match=r"step\(actions\)\['d'\]: expected shape \(1, 2\)"):
            vec.step({"c": torch.tensor([1]), "d": torch.zeros(2)})


def test_nothing_is_copied_on_the_cpu():
    keeping = Keeping(NCount([2, 3]))
    vec = TorchVecEnv(keeping)
    vec.reset()
    actions = torch.zeros(2, dtype=torch.int64)
    result = vec.step(actions)
    assert keeping.actions.ctypes.data == actions.data_ptr()
    for name in "observations", "rewards", "terminated", "truncated":
        assert getattr(result, name).data_ptr() == getattr(keeping.result, name).ctypes.data
    assert result.next_observations() is result.observations
    result = vec.step(actions)
    final = keeping.result.infos.final("final_observation")
    assert result.final_observations.data_ptr() == final.ctypes.data


class Recycling(NCount):
    """Writes its results into arrays whose memory is used again once nobody has them."""

    def _step(self, actions):
        rewards = self._new_array(np.float64)
        rewards[:] = self.c
        return (rewards, *super()._step(actions)[1:])

    def _observe(self):
        observations = self._new_array(np.float64, 1)
        observations[:, 0] = self.c
        return observations


def test_a_tensor_keeps_its_values_as_long_as_somebody_has_it():
    vec = TorchVecEnv(Recycling(range(100, 8292)))
    kept, copies, places = [], [], set()
    for step in range(100):
        actions = torch.zeros(8192, dtype=torch.int64)
        observations = vec.step(actions).observations if step else vec.reset().observations
        places.add(observations.data_ptr())
        if step < 5:
            kept.append(observations)
            copies.append(observations.clone())
        del observations
    assert len(places) < 50  # memory is used again indeed
    assert all(torch.equal(*pair) for pair in zip(kept, copies, strict=True))


@pytest.mark.parametrize(
    "see",
    [
        torch.from_numpy,
        torch.as_tensor,
        torch.from_dlpack,
        lambda array: torch.from_numpy(array)[1:],
        lambda array: torch.from_numpy(array).view(torch.uint8)[::2],
        lambda array: torch.from_numpy(array).reshape(2, -1).T,
        lambda array: torch.from_numpy(array).untyped_storage(),
        lambda array: torch.from_numpy(array).numpy(),
        lambda array: torch.from_numpy(array).detach().requires_grad_().view(-1),
        lambda array: torch.frombuffer(array, dtype=torch.float64),
    ],
)
def test_a10_whatever_torch_makes_of_a_result_keeps_its_memory_until_it_is_gone(see):
    vec = Recycling([9] * 8192)
    vec.reset()
    rewards = vec.step(np.zeros(8192, np.int64)).rewards
    place, seen = rewards.ctypes.data, see(rewards)
    del rewards

    def places():
        return {vec.step(np.zeros(8192, np.int64)).rewards.ctypes.data for _ in range(10)}

    assert place not in places()
    del seen
    assert place in places()


def test_a10_a_tensor_that_was_made_of_lent_memory_is_copied():
    """It has the memory, but is no array that was lent as a whole."""

    class OfTensors(NCount):
        def _step(self, actions):
            self.tensor = torch.from_numpy(self._new_array(np.float64)).fill_(1.0)
            return (self.tensor.numpy(), *super()._step(actions)[1:])

    vec = OfTensors([9] * 8192)
    vec.reset()
    rewards = vec.step(np.zeros(8192, np.int64)).rewards
    vec.tensor.fill_(7.0)
    assert (rewards == 1.0).all()


def test_writing_into_tensors_changes_no_episode():
    plain, vec = NCount([2, 3]), TorchVecEnv(NCount([2, 3]))
    for each in plain, vec:
        each.reset()
    for _ in range(7):
        result = vec.step(torch.zeros(2, dtype=torch.int64))
        assert_same(plain.step(np.zeros(2, np.int64)).observations, result.observations.numpy())
        for tensor in result.observations, result.rewards, result.terminated, result.final_observations:
            tensor.fill_(7)


def test_observations_that_a_wrapper_has_written_are_those_that_count():
    vec = Keeping(NCount([2, 3]))

    class Rewriting(sekai.VecWrapper):
        def step(self, actions):
            result = super().step(actions)
            for row in result.dones.nonzero()[0]:
                result.infos[row]["final_observation"] = np.array([-1.0])
            return result

    vec = TorchVecEnv(Rewriting(vec))
    vec.reset()
    vec.step(torch.zeros(2, dtype=torch.int64))
    assert vec.step(torch.zeros(2, dtype=torch.int64)).final_observations.tolist() == [[-1.0]]


@pytest.mark.parametrize("kind", "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32".split())
def test_a20_terminal_observations_of_every_dtype(kind):
    dtype = np.dtype(kind)
    highest = 1 if kind == "bool" else np.iinfo(dtype).max if dtype.kind in "iu" else np.finfo(dtype).max
    space = Dict({"many": Box(0, highest, (2, 3), dtype), "one": Tuple([Box(0, highest, (), dtype)])})

    def seen(value):
        return {"many": np.full((2, 3), value, dtype), "one": (np.asarray(value, dtype),)}

    scripts = [[(seen(highest), 0.0, k == n, False, {}) for k in range(n + 1)] for n in (0, 1)]
    vec = TorchVecEnv(SyncVecEnv([lambda script=script: Toy(script, obs=space, r0=seen(0)) for script in scripts]))
    vec.reset()
    result = vec.step(torch.zeros(2, dtype=torch.int64))
    led_to = result.next_observations()
    assert result.ended.tolist() == [0]
    for part, shown in (
        (led_to["many"], result.observations["many"]),
        (led_to["one"][0], result.observations["one"][0]),
    ):
        assert part.dtype == shown.dtype == torch.from_numpy(np.empty(0, dtype)).dtype
        assert np.array_equal(part.numpy(), np.full(part.shape, highest, dtype))
        assert not shown.numpy()[0].any()  # the next episode's


def test_seeds_and_options_go_on():
    vec = TorchVecEnv(SyncVecEnv([lambda: Toy(T(3)), lambda: Toy(T(3))]))
    vec.reset(seed=[1, 2], options={"a": 1})
    assert vec.vec.get_attr("last_seed") == [1, 2]
    assert vec.vec.get_attr("last_options") == [{"a": 1}] * 2


def test_tensors_are_where_they_are_wanted():
    vec = TorchVecEnv(NCount([1, 2]), device="meta")
    assert vec.device == torch.device("meta")
    assert vec.reset().observations.is_meta
    result = vec.step(torch.zeros(2, dtype=torch.int64))
    for tensor in result.observations, result.rewards, result.dones, result.ended, result.next_observations():
        assert tensor.is_meta


def test_actions_of_the_wrong_kind_are_refused():
    vec = TorchVecEnv(NCount([3, 3]))
    vec.reset()
    with pytest.raises(ValueError, match="expected dtype int64, got float32"):
        vec.step(torch.zeros(2))
    with pytest.raises(ValueError, match=r"expected shape \(2,\), got shape \(3,\)"):
        vec.step(torch.zeros(3, dtype=torch.int64))


def test_what_it_takes():
    with pytest.raises(TypeError, match="expected a sekai VecEnv, got Toy"):
        TorchVecEnv(Toy(T(3)))
    stacks = make("sync", [lambda: Toy(T(3), obs=sekai.Sequence(Discrete(2)))])
    with pytest.raises(TypeError, match="expected an observation_space of fixed shapes, got Sequence"):
        TorchVecEnv(stacks)
    inner = NCount([3])
    with TorchVecEnv(inner) as vec:
        assert repr(vec) == "<TorchVecEnv<NCount num_envs=1> on cpu>"
    assert inner.closed


def test_without_torch_the_error_names_the_extra():
    error = error_of_import("sekai.compat.torch", "torch")
    assert error == 'ImportError: sekai.compat.torch needs PyTorch: pip install ".[torch]" in the clone'


# -- PPO in one file ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ppo():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("ppo_torch", SCRIPT)
    module = sys.modules["ppo_torch"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["ppo_torch"]


def test_generalised_advantages(ppo):
    """Against the sum that defines them, within each episode and up to where the steps break off."""
    torch.manual_seed(0)
    rewards, values, next_values = torch.randn(3, 7, 2, dtype=torch.float64)
    going_on = torch.ones(7, 2, dtype=torch.float64)
    going_on[2, 0] = going_on[4, 1] = 0.0
    advantages = ppo.generalised_advantages(rewards, values, next_values, going_on, 0.9, 0.8)
    errors = rewards + 0.9 * next_values - values
    for step in range(7):
        for env, end in (0, 2), (1, 4):
            stop = end + 1 if step <= end else 7
            expected = sum((0.9 * 0.8) ** (later - step) * errors[later, env] for later in range(step, stop))
            assert advantages[step, env].item() == pytest.approx(expected.item())


def test_what_an_episode_s_end_is_worth(ppo):
    """The value of the terminal observation where it was cut off; nothing where it was over."""

    class Ends(NCount):
        def _step(self, actions):
            rewards, ended, _, infos = super()._step(np.zeros(self.num_envs))
            return rewards, ended & [True, False], ended & [False, True], infos

        def _observe(self):
            return np.column_stack([self.c, self.c]).astype(np.float32)

    market = Ends([2, 2])
    market.observation_space, market.action_space = Box(-INF, INF, (2,)), Box(-INF, INF, (2,))
    settings = ppo.Settings(num_steps=3, gamma=1.0, gae_lambda=0.0)
    agent = ppo.Agent(settings)
    with torch.no_grad():  # a value of twice the number of steps made
        agent.value = torch.nn.Linear(2, 1)
        agent.value.weight.fill_(1.0)
        agent.value.bias.fill_(0.0)
    vec = TorchVecEnv(market)
    batch, observations = ppo.collect(vec, agent, vec.reset().observations, settings)
    # Reward 1, and what was seen: 0 and 1 steps, then the first of a new episode.
    assert batch.advantages.reshape(3, 2).tolist() == [[1 + 2 - 0] * 2, [1 + 0 - 2, 1 + 4 - 2], [1 + 2 - 0] * 2]
    assert batch.returns.reshape(3, 2).tolist() == [[3, 3], [1, 5], [3, 3]]
    assert observations.tolist() == [[1, 1], [1, 1]]


@pytest.mark.compiled
def test_the_script_s_agent_beats_the_fixed_half_spread():
    run = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT, "--total-steps", "600000"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    scores = dict(re.findall(r"^(.*?) +score +(\S+)", run.stdout, re.MULTILINE))
    assert scores.keys() == {"trained", "fixed half-spread", "Avellaneda-Stoikov", "GLFT"}
    assert float(scores["trained"]) > float(scores["fixed half-spread"]) + 3.0
