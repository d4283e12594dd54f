"""From a spec to an environment, or to a vector of them.

Everything here takes specs, never the registry: sub-envs are built in worker processes too, whose
registry is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sekai.checks import check_count
from sekai.env import Env
from sekai.registry.arguments import build_many, refusals_named
from sekai.registry.entry_points import EntryPoint, check_no_vec_env, describe_entry_point, load_entry_point
from sekai.registry.specs import EnvSpec, WrapperLike, check_wrappers, copy_kwargs

if TYPE_CHECKING:
    from sekai.vector import VecEnv

#: The modes that run one ``Env`` per sub-env, and the ``VecEnv`` class of each.
ENV_FN_MODES = {
    "sync": "sekai.vector:SyncVecEnv",
    "async": "sekai.vector:AsyncVecEnv",
    "proc": "sekai.vector:ProcVecEnv",
}
#: The modes that need no more than this machine and the kit.
LOCAL_MODES = ("native", *ENV_FN_MODES)
#: The modes whose ``VecEnv`` is made of shards, each in a local mode, and what builds it from a spec.
SHARD_MODES = {"ray": "sekai.compat.ray.vec_env:make_ray_vec_env"}
MODES = (*LOCAL_MODES, *SHARD_MODES)


def make_env(spec: EnvSpec, max_episode_steps: int | None, kwargs: Mapping[str, Any]) -> Env[Any, Any]:
    """See ``EnvRegistry.make``, whose arguments these are."""
    where = f"make({spec.id!r})"
    if "num_envs" in kwargs:
        raise TypeError(f"{where}: one environment takes no 'num_envs'; use make_vec({spec.id!r}, num_envs=...)")
    spec.require_entry_point()
    _refuse_autoreset(spec, kwargs, where)
    return build_env(spec.resolve(max_episode_steps, kwargs), given=tuple(kwargs))


def build_env(spec: EnvSpec, wrappers: Sequence[WrapperLike] = (), given: Collection[str] = ()) -> Env[Any, Any]:
    """Build the environment of a resolved spec.

    The layers, from the inside: the environment (or a native one as a single env), ``OrderEnforcing``,
    ``TimeLimit`` when there is a limit, the wrappers of the spec, the wrappers given here.

    Args:
        spec: What to build; it becomes the ``spec`` of the environment.
        wrappers: What to put around it, innermost first.
        given: Names of the arguments that the caller gave; the environment gets its own copy of the others.

    Raises:
        TypeError: The entry point, or a wrapper, returned something that is no ``Env``.
    """
    from sekai.wrappers import OrderEnforcing, TimeLimit

    env = _build_bare(spec, copy_kwargs(spec.kwargs, given))
    layers: list[WrapperLike] = [OrderEnforcing]
    if spec.max_episode_steps is not None:
        layers.append(partial(TimeLimit, max_episode_steps=spec.max_episode_steps))
    try:
        env.unwrapped.spec = spec
        for layer in (*layers, *spec.additional_wrappers, *wrappers):
            env = _wrap(env, layer, spec.id)
    except BaseException:
        env.close()
        raise
    return env


def _build_bare(spec: EnvSpec, kwargs: dict[str, Any]) -> Env[Any, Any]:
    where = f"environment {spec.id!r}"
    if spec.entry_point is None:
        from sekai.vector.native.single import SingleEnv

        assert spec.vector_entry_point is not None
        build = load_entry_point(spec.vector_entry_point, where)
        with refusals_named(build, kwargs, where):
            return SingleEnv(partial(build_many, build, **kwargs))
    build = load_entry_point(spec.entry_point, where)
    check_no_vec_env(build, where)
    with refusals_named(build, kwargs, where):
        env = build(**kwargs)
    if not isinstance(env, Env):
        raise TypeError(
            f"{where}: expected an Env from entry_point {describe_entry_point(spec.entry_point)}, "
            f"got {type(env).__name__} (a VecEnv belongs to vector_entry_point)"
        )
    return env


def _wrap(env: Env[Any, Any], layer: WrapperLike, id: str) -> Env[Any, Any]:
    wrapped = layer(env)
    if not isinstance(wrapped, Env):
        raise TypeError(f"environment {id!r}: expected an Env from the wrapper {layer!r}, got {type(wrapped).__name__}")
    return wrapped


def choose_mode(spec: EnvSpec, mode: str | None = None, wrappers: Sequence[WrapperLike] = ()) -> str:
    """The mode in which ``make_vec`` runs an environment.

    Args:
        spec: The environment.
        mode: The mode asked for; None for "native" when the environment has a vector entry point and no
            per-env wrappers, else "sync".
        wrappers: Per-env wrappers beside those of the spec.

    Raises:
        ValueError: There is no such mode, or the environment cannot run in it.
    """
    per_env = (*spec.additional_wrappers, *wrappers)
    if mode is None:
        return "sync" if per_env or spec.vector_entry_point is None else "native"
    if mode in ENV_FN_MODES or mode in SHARD_MODES:
        return mode
    where = f"make_vec({spec.id!r}, vectorization_mode={mode!r})"
    if mode not in ("native", "vector_entry_point"):
        raise ValueError(f"{where}: expected one of {', '.join(map(repr, MODES))} or None")
    if spec.vector_entry_point is None:
        raise ValueError(
            f"{where}: the environment has no vector_entry_point; "
            f"register one, or use one of {', '.join(map(repr, ENV_FN_MODES))}"
        )
    if per_env:
        raise ValueError(
            f"{where}: per-env wrappers {list(per_env)} cannot be put around sub-envs that live in one "
            f"object; use one of {', '.join(map(repr, ENV_FN_MODES))}, or a VecWrapper around the result"
        )
    return "native"


def entry_point_of(spec: EnvSpec, mode: str) -> EntryPoint:
    """The entry point that builds an environment in a mode.

    Args:
        spec: The environment.
        mode: One that ``choose_mode`` gave. In "native" sub-envs are built at once, in shards as they are by default,
            and else one by one, from the ``entry_point``, or from the ``vector_entry_point`` where there is no other.
    """
    if mode in SHARD_MODES:
        mode = choose_mode(spec)
    entry_point = spec.vector_entry_point if mode == "native" or spec.entry_point is None else spec.entry_point
    assert entry_point is not None
    return entry_point


def build_vec_env(
    spec: EnvSpec,
    num_envs: int,
    mode: str | None,
    vector_kwargs: Mapping[str, Any] | None,
    wrappers: Sequence[WrapperLike],
    env_kwargs: Mapping[str, Any],
) -> VecEnv[Any, Any]:
    """See ``EnvRegistry.make_vec``, whose arguments these are."""
    where = f"make_vec({spec.id!r})"
    num_envs = check_count(num_envs, f"{where}: num_envs")
    wrappers = check_wrappers(wrappers, f"{where}: wrappers")
    spec.require_entry_point()
    mode = choose_mode(spec, mode, wrappers)
    vector_kwargs = dict(vector_kwargs or {})
    for name in vector_kwargs:
        if name in env_kwargs:
            raise ValueError(f"{where}: {name!r} was given twice, among vector_kwargs and as an env argument")
        if name in ("num_envs", "max_episode_steps"):
            raise ValueError(f"{where}: {name!r} is an argument of make_vec itself, not one of vector_kwargs")

    arguments = dict(env_kwargs)
    resolved = spec.resolve(arguments.pop("max_episode_steps", None), arguments)
    if mode == "native":
        vec = _build_native(resolved, num_envs, vector_kwargs)
    elif mode in SHARD_MODES:
        vec = load_entry_point(SHARD_MODES[mode], where)(spec, num_envs, vector_kwargs, wrappers, env_kwargs)
    else:
        _refuse_autoreset(spec, env_kwargs, where)
        env_fns = [partial(build_env, resolved, wrappers, tuple(env_kwargs))] * num_envs
        backend = load_entry_point(ENV_FN_MODES[mode], where)
        with refusals_named(backend, vector_kwargs, f"{where}: vector_kwargs: mode {mode!r}"):
            vec = backend(env_fns, **vector_kwargs)
    vec.spec = resolved
    return vec


def _build_native(spec: EnvSpec, num_envs: int, vector_kwargs: dict[str, Any]) -> VecEnv[Any, Any]:
    from sekai.vector import VecEnv
    from sekai.vector.asked import unheeded

    assert spec.vector_entry_point is not None
    where = f"environment {spec.id!r}"
    source = f"vector_entry_point {describe_entry_point(spec.vector_entry_point)}"
    limit = {} if spec.max_episode_steps is None else {"max_episode_steps": spec.max_episode_steps}
    build = load_entry_point(spec.vector_entry_point, where)
    arguments = {**spec.kwargs, **limit, **vector_kwargs}
    with refusals_named(build, arguments, where):
        vec = build_many(build, num_envs, **arguments)
    if not isinstance(vec, VecEnv):
        raise TypeError(f"{where}: expected a VecEnv from {source}, got {type(vec).__name__}")
    if vec.num_envs != num_envs:
        vec.close()
        raise ValueError(f"{where}: expected {num_envs} sub-envs (num_envs) from {source}, got {vec.num_envs}")
    lost = unheeded(vec, arguments)
    if lost is not None:
        vec.close()
        raise ValueError(f"{where}: {source}: {lost}")
    return vec


def _refuse_autoreset(spec: EnvSpec, kwargs: Mapping[str, Any], where: str) -> None:
    """A native env as a single env never resets itself; say so rather than ignore the wish."""
    for name in ("autoreset", "autoreset_options"):
        if spec.entry_point is None and name in kwargs:
            raise ValueError(
                f"{where}: {name!r} is no argument of a single environment; "
                f"use make_vec(..., vector_kwargs={{{name!r}: ...}}), or wrap the environment in AutoReset"
            )
