"""Case 9.1 and its kind: a step, a reset or an observation that fails, and the options of the resets in between."""

from __future__ import annotations

import numpy as np
import pytest
from backends import PROCS, TWO_PROCS, both_modes, error, everywhere, make, on_rows, scripted
from case_envs import Bad, BadReset, Fails
from toys import NativeToy, NCount, T, Toy, Z, fns

from sekai import InvalidObservation, NativeVecEnv, ResetRequired

# -- an exception inside a step ----------------------------------------------------------------------------


class NativeFails(NativeVecEnv):
    def __init__(self, base):
        super().__init__(base.num_envs, base.observation_space, base.action_space)
        self.base, self.n = base, 0

    def _reset_envs(self, indices, options):
        self.base._reset_envs(indices, options)

    def _observe(self):
        return self.base._observe()

    def close(self):
        self.base.close()
        super().close()

    def _step(self, actions):
        self.n += 1
        if self.n == 3:
            raise Bad("x", lambda: 0)
        return self.base._step(actions)


@everywhere
def test_9_1_an_exception_of_a_sub_env_comes_out_and_the_vec_env_goes_on(backend):
    if backend == "native":
        v = NativeFails(NativeToy([T(9)] * 4))
    else:
        v = make(backend, [*fns(T(9), T(9)), *fns(T(9), cls=Fails), *fns(T(9))])
    with v:
        v.reset()
        v.step(Z(v))
        v.step(Z(v))
        with pytest.raises(error(backend, Bad), match="x") as caught:
            v.step(Z(v))
        if backend in PROCS:
            assert caught.value.rank == 2
            assert "Bad" in caught.value.exc_type
            assert 'raise Bad("x", lambda: 0)' in str(caught.value)  # with the sub-env's traceback
        else:
            assert caught.value.b() == 0  # as it is
        r = v.step(Z(v))
        assert r.observations[2].tolist() == [3.0]
        assert v.reset().observations.tolist() == [[0.0]] * 4
        assert v.step(Z(v)).observations.tolist() == [[1.0]] * 4


@pytest.mark.parametrize("backend", ["async", *TWO_PROCS])
def test_9_1_the_others_advance_once(backend):
    with make(backend, [*fns(T(9), T(9)), *fns(T(9), cls=Fails), *fns(T(9))]) as v:
        v.reset()
        v.step(Z(v))
        v.step(Z(v))
        with pytest.raises(error(backend, Bad)):
            v.step(Z(v))
        assert v.step(Z(v)).observations[:, 0].tolist() == [4.0, 4.0, 3.0, 4.0]


# -- a reset or an observation that fails in the middle of a step ------------------------------------------


class NativeBadReset(NCount):
    resets = 0

    def _reset_envs(self, indices, options):
        self.resets += 1
        if self.resets == 2:
            raise ValueError("no data")
        super()._reset_envs(indices, options)


@everywhere
def test_autoreset_that_failed_leaves_nothing_behind_after_a_reset(backend):
    v = NativeBadReset([1, 9]) if backend == "native" else make(backend, [lambda: BadReset(T(1)), lambda: Toy(T(9))])
    with v:
        v.reset()
        with pytest.raises(error(backend, ValueError), match="no data"):
            v.step(Z(v))
        with pytest.raises(error(backend, ResetRequired)):
            v.step(Z(v))
        assert v.reset().observations.tolist() == [[0.0], [0.0]]
        r = v.step(Z(v))
        assert r.observations.tolist() == [[0.0], [1.0]]
        assert r.infos[0]["final_observation"].tolist() == [1.0]
        assert r.infos[1] == {}


@everywhere
def test_a_reset_that_fails_leaves_step_refused(backend):
    v = NativeBadReset([9, 9]) if backend == "native" else make(backend, [lambda: BadReset(T(9)), lambda: Toy(T(9))])
    with v:
        v.reset()
        with pytest.raises(error(backend, ValueError), match="no data"):
            v.reset()
        with pytest.raises(ResetRequired):
            v.step(Z(v))
        v.reset()
        assert v.step(Z(v)).observations.tolist() == [[1.0], [1.0]]


class NativeBadEnd(NCount):
    """Its terminal observation has the wrong shape, once."""

    fails = 1

    def _observe(self):
        if self.fails and self.c[0] == self.T[0]:
            self.fails = 0
            return np.zeros((self.num_envs, 2))
        return super()._observe()


@both_modes
def test_a_native_terminal_observation_of_the_wrong_shape_ends_the_episode_all_the_same(autoreset):
    with NativeBadEnd([1, 9], autoreset=autoreset) as v:
        v.reset()
        with pytest.raises(InvalidObservation, match=r"\(2, 1\).*\(2, 2\)"):
            v.step(Z(v))
        with pytest.raises(ResetRequired):  # and is not stepped on past its end
            v.step(Z(v))
        assert v.reset().observations.tolist() == [[0.0], [0.0]]


@on_rows
@both_modes
def test_a_terminal_observation_of_the_wrong_shape_ends_the_episode_all_the_same(backend, autoreset):
    bad = [(np.zeros(2), 1.0, True, False, {}), ([9.0], 1.0, False, False, {})]
    with scripted(backend, bad, T(9), autoreset=autoreset) as v:
        v.reset()
        with pytest.raises(error(backend, InvalidObservation), match=r"sub-env 0: .*\(1,\).*\(2,\)"):
            v.step(Z(v))
        with pytest.raises(error(backend, ResetRequired), match="sub-env 0"):  # and is not stepped on past its end
            v.step(Z(v))
        assert v.get_attr("n_step")[0] == 1


# -- options of the resets ---------------------------------------------------------------------------------


def options_of(v):
    return v.last_options if isinstance(v, NativeVecEnv) else v.get_attr("last_options")


@everywhere
def test_options_of_the_caller_do_not_come_back_at_autoreset(backend):
    with scripted(backend, T(1), T(1)) as v:
        v.reset(options={"start": 3})
        assert options_of(v) == [{"start": 3}] * 2
        v.step(Z(v))
        assert options_of(v) == [None, None]


@everywhere
def test_autoreset_options_are_passed_to_each_sub_env(backend):
    with scripted(backend, T(1), T(2), autoreset_options=lambda i: {"i": i}) as v:
        v.reset()
        assert options_of(v) == [None, None]
        v.step(Z(v))
        assert options_of(v) == [{"i": 0}, None]
        v.step(Z(v))
        assert options_of(v) == [{"i": 0}, {"i": 1}]


@everywhere
def test_one_sub_env_changing_its_options_changes_no_others(backend):
    given = {"start": 1}
    with scripted(backend, T(1), T(1), autoreset_options=given) as v:
        v.reset(options=given)
        options_of(v)[0]["start"] = 9
        assert options_of(v)[1] == given == {"start": 1}
        v.step(Z(v))
        options_of(v)[0]["start"] = 9
        v.step(Z(v))
        assert options_of(v) == [{"start": 1}, {"start": 1}]
        assert given == {"start": 1}


@everywhere
def test_autoreset_options_that_fail_ask_for_a_reset(backend):
    def options(i):
        raise LookupError(f"no options for {i}")

    with scripted(backend, T(1), T(9), autoreset_options=options) as v:
        v.reset()
        with pytest.raises(error(backend, LookupError), match="no options for 0"):
            v.step(Z(v))
        with pytest.raises(error(backend, ResetRequired)):  # sub-env 0 is not stepped on past its end
            v.step(Z(v))
        assert v.reset().observations.tolist() == [[0.0], [0.0]]


@everywhere
@pytest.mark.parametrize("options", [3, [1], "x"], ids=repr)
def test_autoreset_options_that_are_no_dict_are_refused(backend, options):
    with pytest.raises(TypeError, match="autoreset_options"):
        scripted(backend, T(1), autoreset_options=options)
    with scripted(backend, T(1), autoreset_options=lambda i: options) as v:
        v.reset()
        with pytest.raises(error(backend, TypeError), match="autoreset_options"):
            v.step(Z(v))
