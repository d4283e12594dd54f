"""check_vec_env: what a market of many sub-envs does that the contract of ``VecEnv`` does not allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sekai.checks import check_count
from sekai.env import Env
from sekai.seeding import check_seed
from sekai.testing.values import describe

if TYPE_CHECKING:
    from sekai.vector import VecEnv


def check_vec_env(
    factory: Callable[..., VecEnv[Any, Any]],
    *,
    num_envs: int = 7,
    n_steps: int = 100,
    seed: int = 0,
    check_bounds: bool = False,
) -> list[str]:
    """Find out what a vector environment does that the contract of ``VecEnv`` does not allow.

    The VecEnv is built several times and driven with random actions, of those that its masks allow where it has some.
    What its first run showed, masks included, is compared, number by number, with what it shows

    - once more, from the same seeds and actions;
    - when the caller writes into all that was returned, and when ``_observe()`` or ``action_mask()`` is called between
      steps;
    - when other rows are reset, act otherwise or have another seed, and when each row is alone in a VecEnv of 1;
    - as part of a batch of thousands, on one thread and on two;
    - with autoreset off, each ``reset()`` made by hand;
    - after ``restore()``, where all else is right: of a snapshot made on the way, in the same VecEnv and in another
      one, of some sub-envs in other places and of one in all of them, with frozen sub-envs too.

    Env objects with masks may refuse an action that was drawn for another state: there other rows neither act otherwise
    nor have another seed, and none are restored without the others.

    Shapes, dtypes, finite numbers, the space, arrays that change after they were returned, global generators and the
    way the kernels were compiled are looked at on the way. Infos are compared where they are columns, as a native
    env has them; dicts may hold times. Masks have to leave each sub-env that is not frozen something to do.

    A native env may draw from ``self.rng``, which its sub-envs share, so that no row repeats what it does elsewhere.
    One hint then says so, and rows are compared only as long as that generator is in the same state.

    In the end a native env is given actions just outside of its space, and what its hooks return is held against the
    dtypes that it is cast to, which gives hints. Of a market of row functions the hooks return what is cast already: a
    float that a row function writes into an integer column or observation is cut, as in NumPy, and not seen. Its source
    is looked at, where there is one: a row function that assigns to the name ``mask`` or ``observation``, instead of
    writing into the array, gives a hint.

    Compiled kernels check neither indexes nor whether a variable has a value. With ``check_bounds`` a market that has
    some is first run in a process of its own, uncompiled, where NumPy and Python do; what they find is reported with
    the kernel and the line, and then nothing else, since anything may follow from it. That takes a second or two, and
    the market as many steps in plain Python. ``sekai check`` does so.

    A native env that takes ``max_episode_steps`` or ``autoreset_options`` and does nothing with it is reported.

    Where no episode ends within ``n_steps``, the checks are made under a shorter ``max_episode_steps``, if the factory
    takes one. A wrapper that learns from what it sees, such as ``VecNormalizeObservation``, makes rows depend on each
    other, which is reported: check the VecEnv inside it.

    Args:
        factory: Builds a VecEnv, called as ``factory(num_envs)``. Where it takes them it is also given
            ``autoreset=False`` and ``max_episode_steps``; it should set no ``autoreset_options``.
        num_envs: Sub-envs of the runs that are compared.
        n_steps: Steps of each run.
        seed: What seeds and actions follow from.
        check_bounds: Whether to look for indexes beyond the arrays of kernels, and for variables without a value.

    Returns:
        The problems found, each a sentence that says where, what was expected, what came and in which sub-env; of
        several with one likely cause the first. What begins with "hint: " is no problem, but may be worth a look: a
        batch kernel whose loop was not vectorised, an action outside of its space that the market accepts, digits that
        the cast of what a hook returns loses, a market that cannot be kept in a snapshot, a method whose name is nearly
        one that is looked for, a row function that writes into nothing, or something that could not be checked. Empty
        when there is nothing to tell.

    Raises:
        TypeError: ``factory`` is an Env or its class, or not callable, as an id or a VecEnv is not; or ``num_envs``,
            ``n_steps`` or ``seed`` is no integer.
        ValueError: ``num_envs`` or ``n_steps`` is below 1, or ``seed`` negative.
    """
    kind: type = factory if isinstance(factory, type) else type(factory)
    if issubclass(kind, Env):
        got = f"got {describe(factory)}; check_env(env) is for an Env"
        raise TypeError(f"check_vec_env(factory): expected a callable that takes num_envs and builds a VecEnv, {got}")
    if not callable(factory):
        id = factory if isinstance(factory, str) else "SomeId-v0"
        raise TypeError(
            "check_vec_env(factory): expected a callable that takes num_envs, e.g. the class of a market or "
            f'lambda n, **kwargs: sekai.make_vec("{id}", n, **kwargs), got {describe(factory)}'
        )
    num_envs, n_steps, seed = check_count(num_envs, "num_envs"), check_count(n_steps, "n_steps"), check_seed(seed)
    from sekai.testing.examination import Examination  # here, to keep `import sekai` quick
    from sekai.testing.reference import VecEnvFactory

    examination = Examination(VecEnvFactory(factory), num_envs, check_bounds)
    examination.run(n_steps, seed)
    findings = examination.problems + [f"hint: {hint}" for hint in examination.hints]
    return list(dict.fromkeys(findings))
