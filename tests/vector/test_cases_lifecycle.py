"""Case 9.4 and its kind: building, failing and closing."""

from __future__ import annotations

from functools import partial

import pytest
from backends import PROCS, error, everywhere, make, on_rows, scripted
from case_envs import Filed, NoActions, NoSpaces
from toys import T, Toy, Z

from sekai import (
    AsyncVecEnv,
    ResetRequired,
    SyncVecEnv,
    TimeLimit,
    VecEnvClosed,
    VecEnvWorkerError,
    VecNormalizeObservation,
    VecRecordEpisodeStatistics,
    Wrapper,
)
from sekai.vector import ProcVecEnv


def raising(reason):
    def env_fn():
        raise reason

    return env_fn


class Halt(BaseException):
    """Not an Exception."""


@on_rows
@pytest.mark.parametrize("reason", [ValueError("no such market"), KeyboardInterrupt(), SystemExit(3), Halt()], ids=repr)
def test_9_4_an_env_fn_that_raises_leaves_nothing_open(backend, reason, tmp_path):
    log = tmp_path / "closed"
    env_fns = [lambda: Filed(log, 0), lambda: Filed(log, 1), raising(reason), lambda: Filed(log, 3)]
    with pytest.raises(error(backend, type(reason))) as caught:
        make(backend, env_fns)
    if backend in PROCS:
        assert caught.value.rank == 2
        assert caught.value.exc_type.endswith(type(reason).__name__)
        assert caught.value.message == str(reason)
    else:
        assert caught.value is reason
    assert sorted(log.read_text().split()) in (["0", "1"], ["0", "1", "3"])


@on_rows
def test_9_4_a_close_that_fails_meanwhile_hides_nothing(backend, tmp_path):
    log = tmp_path / "closed"
    env_fns = [
        lambda: Filed(log, 0, RuntimeError("stuck")),
        lambda: Filed(log, 1, KeyboardInterrupt()),
        lambda: Filed(log, 2),
        raising(ValueError("no such market")),
    ]
    with pytest.raises(error(backend, ValueError), match="no such market"):
        make(backend, env_fns)
    assert sorted(log.read_text().split()) == ["0", "1", "2"]


@on_rows
@pytest.mark.parametrize("cls", [NoSpaces, NoActions])
def test_9_4_an_env_without_spaces_is_closed_too(backend, cls, tmp_path):
    log = tmp_path / "closed"
    with pytest.raises(VecEnvWorkerError if backend in PROCS else AttributeError, match="_space"):
        make(backend, [lambda: Filed(log, 0), lambda: cls(log, 1)])
    assert sorted(log.read_text().split()) == ["0", "1"]


@on_rows
def test_9_4_what_is_no_env_is_named(backend, tmp_path):
    log = tmp_path / "closed"
    with pytest.raises(TypeError, match=r"env_fns\[1\].*sekai.Env, got int"):
        make(backend, [lambda: Filed(log, 0), lambda: 3])
    assert log.read_text().split() == ["0"]
    with pytest.raises(TypeError, match=r"env_fns\[1\].*callable"):
        make(backend, [lambda: Filed(log, 1), Toy(T(1))])
    assert log.read_text().split() == ["0"]  # refused before anything was built


@pytest.mark.parametrize("build", [SyncVecEnv, AsyncVecEnv, partial(ProcVecEnv, num_workers=1)])
@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: TimeLimit(env, 5)], ids=["bare", "wrapped"])
def test_9_4_the_same_object_from_two_env_fns(build, wrap, tmp_path):
    log = tmp_path / "closed"
    env = Filed(log, 0)
    with pytest.raises(ValueError, match=r"env_fns\[1\] gave the same env object as env_fns\[0\]"):
        build([lambda: wrap(env)] * 2)
    assert log.read_text().split() == ["0"]


@on_rows
@pytest.mark.parametrize("env_fns", [[], (), iter(())], ids=["list", "tuple", "iterator"])
def test_9_4_no_env_fns(backend, env_fns):
    with pytest.raises(ValueError, match="env_fns: expected at least one"):
        make(backend, env_fns)


@on_rows
def test_9_4_env_fns_from_a_generator(backend):
    with make(backend, (lambda: Toy(T(1)) for _ in range(3))) as v:
        assert v.num_envs == 3


# -- close -------------------------------------------------------------------------------------------------


@on_rows
@pytest.mark.parametrize("first", [ValueError("first"), KeyboardInterrupt("first")], ids=repr)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: VecRecordEpisodeStatistics(VecNormalizeObservation(v))])
def test_close_closes_every_sub_env_and_raises_the_first_error(backend, first, wrap, tmp_path):
    log = tmp_path / "closed"
    errors = [None, first, None, RuntimeError("second")]
    v = wrap(make(backend, [lambda i=i, e=e: Filed(log, i, e) for i, e in enumerate(errors)]))
    v.reset()
    with pytest.raises(error(backend, type(first)), match="first"):
        v.close()
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3"]
    v.close()  # closing again does nothing
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3"]
    with pytest.raises(VecEnvClosed):
        v.step(Z(v))


@everywhere
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: VecRecordEpisodeStatistics(VecNormalizeObservation(v))])
def test_a_closed_vec_env_refuses_everything_but_close(backend, wrap):
    v = wrap(scripted(backend, T(2), T(2)))
    v.reset()
    assert not v.closed
    v.close()
    v.close()
    assert v.closed
    for use in (lambda: v.reset(), lambda: v.step(Z(v)), lambda: v.step("nonsense"), lambda: v.reset(seed=-1)):
        with pytest.raises(VecEnvClosed, match="closed"):
            use()


@everywhere
def test_close_before_the_first_reset(backend):
    with scripted(backend, T(1)):
        pass


@everywhere
def test_step_before_the_first_reset(backend):
    with scripted(backend, T(1)) as v:
        with pytest.raises(ResetRequired, match="reset"):
            v.step(Z(v))
        with pytest.raises(ResetRequired):
            v.step("nonsense")
        v.reset()
        v.step(Z(v))


@on_rows
def test_the_context_manager_closes_on_an_error(backend, tmp_path):
    log = tmp_path / "closed"
    with pytest.raises(ZeroDivisionError), make(backend, [lambda: Filed(log, 0)]) as v:
        v.reset()
        raise ZeroDivisionError
    assert log.read_text().split() == ["0"]


class ClosesTwice(Wrapper):
    def close(self):
        self.env.close()
        self.env.close()


def test_wrappers_of_a_sub_env_close_through():
    with SyncVecEnv([lambda: ClosesTwice(Toy(T(1)))]) as v:
        pass
    assert v.envs[0].unwrapped.n_close == 2
