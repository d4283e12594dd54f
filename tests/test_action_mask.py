"""Masks of actions of single envs: through wrappers, beside observations, in the checker."""

from __future__ import annotations

import numpy as np
import pytest
from masked_envs import Combined, Corridor, CorridorVec, mask_at
from spaces_catalogue import same
from toys import T, Toy

import sekai
from sekai import ActionMaskObservation, Box, Discrete, InvalidAction, MultiDiscrete, check_env
from sekai.space_utils import full_mask, mask_space
from sekai.vector.native.single import SingleEnv


def at(position, env=None):
    env = Corridor() if env is None else env
    env.reset(seed=0)
    env.unwrapped.position = position
    return env


def test_an_env_without_a_mask_allows_everything():
    env = sekai.TimeLimit(Toy(T(3)), 2)
    assert env.action_mask() is None and not env.has_action_mask


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: sekai.TimeLimit(sekai.OrderEnforcing(env), 9),
        sekai.AutoReset,
        lambda env: sekai.TransformReward(sekai.FlattenObservation(env), float),
    ],
    ids=["limits", "autoreset", "transforms"],
)
def test_wrappers_hand_the_mask_on(wrap):
    env = wrap(Corridor())
    assert env.has_action_mask  # before there is one
    assert at(2, env).action_mask() == [True, True, False]


class Mirrored(sekai.ActionWrapper):
    def action(self, action):
        return 2 - action


class MaskedMirrored(Mirrored):
    def action_mask(self):
        return self.env.action_mask()[::-1]


def test_other_actions_have_another_mask():
    with pytest.raises(
        NotImplementedError, match=r"Mirrored.action_mask\(\): expected one of the actions that it takes"
    ):
        at(2, Mirrored(Corridor())).action_mask()
    assert MaskedMirrored(Corridor()).has_action_mask and not Mirrored(Corridor()).has_action_mask
    env = at(2, sekai.TimeLimit(MaskedMirrored(Corridor()), 9))
    assert env.action_mask() == [False, True, True]
    assert env.action_space.sample(env.action_mask()) in (1, 2)
    assert Mirrored(Toy(T(3), act=Discrete(3))).action_mask() is None


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: sekai.RepeatAction(env, 3),
        lambda env: sekai.DelayAction(env, 1),
        lambda env: sekai.StickyAction(env, 0.5),
    ],
    ids=["repeat", "delay", "sticky"],
)
def test_an_action_that_is_not_taken_once_and_now_has_no_mask(wrap):
    env = at(2, wrap(Corridor()))
    assert not env.has_action_mask
    with pytest.raises(NotImplementedError, match=r"Action.action_mask\(\): expected one of the actions that it takes"):
        env.action_mask()
    with pytest.raises(ValueError, match=r"expected an env with an action_mask\(\)"):
        ActionMaskObservation(env)
    assert wrap(Toy(T(3))).action_mask() is None
    inside = wrap(ActionMaskObservation(Corridor()))
    assert inside.reset(seed=0).observation["action_mask"].shape == (3,) and not inside.has_action_mask


class Resting(Toy):
    def action_mask(self):
        return [0, 1]


def test_what_rests_under_clipping_rests_inside():
    space = Box(np.float32([0.5, -1]), np.float32([1, 1]))
    env = sekai.ClipAction(Resting(T(3), act=space))
    action = env.action(env.action_space.sample(env.action_mask()))
    assert action[0] == space.sample(env.action_mask())[0] == 0.5
    assert env.has_action_mask and not sekai.ClipAction(Toy(T(3), act=space)).has_action_mask
    with pytest.raises(NotImplementedError, match="RescaleAction"):
        sekai.RescaleAction(Resting(T(3), act=space), -1, 1).action_mask()


# -- beside the observation --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Corridor, Combined])
def test_the_mask_is_shown(kind):
    env = at(2, ActionMaskObservation(kind()))
    shown = env.step({"move": 1} if kind is Combined else 1).observation
    assert env.observation_space.contains(shown)
    assert env.observation_space["action_mask"] == mask_space(env.action_space)
    move = shown["action_mask"]["move"] if kind is Combined else shown["action_mask"]
    assert same(move, np.int8([1, 1, 0])) and shown["observation"].tolist() == [2]
    assert check_env(env) == []


class Live(Corridor):
    """Keeps its mask as an array, which it writes to."""

    def __init__(self, length=4, dtype=np.int8, space=None):
        super().__init__(length)
        self.mask = np.ones(3, dtype)
        self.action_space = Discrete(3) if space is None else space

    def action_mask(self):
        self.mask[:] = mask_at(self.position)
        return (self.mask,) if isinstance(self.action_space, MultiDiscrete) else self.mask


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.bool_])
@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([3]), Box(0, 1, (3,))], ids=["one", "several", "numbers"])
def test_a_mask_that_was_shown_stays_as_it_was(space, dtype):
    env = ActionMaskObservation(Live(dtype=dtype, space=space))
    env.reset(seed=0)
    seen = []
    for position in (0, 2, -2):
        env.unwrapped.position = position
        seen.append(env.observation(env.unwrapped.observed())["action_mask"])
    shown = [mask[0] if isinstance(mask, tuple) else mask for mask in seen]
    assert [mask.tolist() for mask in shown] == [[1, 1, 1], [1, 1, 0], [0, 1, 1]]
    shown[0][:] = 0
    assert env.unwrapped.mask.any()


def test_the_mask_of_a_state_that_is_gone_allows_everything():
    env = ActionMaskObservation(sekai.AutoReset(Corridor(length=1)))
    env.reset(seed=0)
    result = env.step(1)
    final = result.info["final_observation"]
    assert env.observation_space.contains(final)
    assert same(final["action_mask"], full_mask(env.action_space))
    assert same(result.observation["action_mask"], np.int8(env.unwrapped.action_mask()))


def test_there_has_to_be_a_mask():
    with pytest.raises(ValueError, match=r"ActionMaskObservation: expected an env with an action_mask\(\), got <Toy>"):
        ActionMaskObservation(Toy(T(3)))


# -- a native env of one -----------------------------------------------------------------------------------


def test_the_mask_of_a_native_env_of_one():
    env = SingleEnv(CorridorVec)
    assert env.has_action_mask
    env.reset(seed=0)
    masks = []
    for action in (2, 2, 0):
        env.step(action)
        masks.append(env.action_mask())
    assert same(masks, [np.int8([1, 1, 1]), np.int8([1, 1, 0]), np.int8([1, 1, 1])])
    assert env.get_attr("action_mask")().tolist() == [1, 1, 1]
    assert check_env(sekai.TimeLimit(env, 9)) == []


# -- the checker -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Corridor, Combined])
def test_the_checker_takes_actions_that_the_mask_allows(kind):
    assert check_env(kind(), n_steps=60) == []


class Unmasked(Corridor):
    action_mask = sekai.Env.action_mask


class Wide(Corridor):
    def action_mask(self):
        return np.ones(4)


class Alternating(Live):
    def action_mask(self):
        self.mask[2] = 1 - self.mask[2]
        return self.mask


class Closed(Corridor):
    def action_mask(self):
        return [False, False, False]


class Drawn(Corridor):
    def action_mask(self):
        return [bool(self.rng.integers(2)), True, False]

    def step(self, action):
        self.position += int(action) - 1
        return super().step(1)


class Ageing(Corridor):
    def action_mask(self):
        self.k += 1
        return super().action_mask()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Drawn, r"action_mask\(\): expected the same when it is called again, got"),
        (Alternating, r"action_mask\(\): expected the same when it is called again, got"),
        (Ageing, r"expected the same run whether or not action_mask\(\) is called, got"),
        (Unmasked, "InvalidAction"),
        (Wide, r"action_mask\(\): expected bools or integers, got dtype float64"),
        (Closed, r"action_mask\(\): expected at least one action to be left, got \[0 0 0\]"),
    ],
    ids=["draws", "alternates", "moves", "none", "no mask", "nothing left"],
)
def test_the_checker_finds_faulty_masks(kind, text):
    with pytest.raises(AssertionError, match=text):
        assert check_env(kind()) == []


class Forgetful(Corridor):
    """Does not leave its state behind with the seed: draws from a generator of its own."""

    stream = np.random.default_rng(0)

    def observed(self):
        return np.float32([self.stream.uniform(-1, 1)])


class Sluggish(Corridor):
    async def async_step(self, action):
        return "later"


def test_parts_of_the_checker_are_left_out():
    assert check_env(Forgetful()) != []
    assert check_env(Forgetful(), check_determinism=False) == []
    assert check_env(Forgetful(), check_determinism=False, check_async=False) == []
    for determinism in (True, False):
        (problem,) = check_env(Sluggish(), check_determinism=determinism)
        assert "async_step()" in problem and "expected a StepResult" in problem
        assert check_env(Sluggish(), check_determinism=determinism, check_async=False) == []


def test_a_refusal_is_an_error_of_the_action():
    with pytest.raises(InvalidAction):
        at(2).step(2)
