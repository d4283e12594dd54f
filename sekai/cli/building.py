"""From an id and ``--set`` to sub-envs of an environment."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sekai.cli.common import CommandError, mistakes_of_the_user
from sekai.cli.options import NOT_SETTABLE
from sekai.registry import default_registry
from sekai.registry.arguments import refuse
from sekai.registry.build import LOCAL_MODES, build_vec_env, choose_mode
from sekai.registry.entry_points import EntryPoint, load_entry_point
from sekai.registry.specs import EnvSpec, WrapperLike

if TYPE_CHECKING:
    from sekai.vector import VecEnv


def find_spec(env_id: str) -> EnvSpec:
    """What is registered under the id; the module that it may name is looked for in the current folder too.

    Raises:
        CommandError: There is nothing, or the module cannot be imported.
    """
    here = os.getcwd()
    if ":" in env_id and here not in sys.path:
        sys.path.insert(0, here)  # as `python script.py` does, for a module that is no installed package's
    with mistakes_of_the_user():
        return default_registry.spec(env_id)


def check_settings(spec: EnvSpec, entry_point: EntryPoint, settings: Mapping[str, Any]) -> None:
    """Refuse arguments that the constructor does not take.

    Raises:
        CommandError: There is one; the message lists those it does take.
    """
    parameters = parameters_of(spec, entry_point)
    if parameters is None or any(item.kind is item.VAR_KEYWORD for item in parameters):
        return
    names = [item.name for item in parameters if item.name not in NOT_SETTABLE]
    for key in settings:
        if key not in (*names, "max_episode_steps"):
            raise CommandError(refuse(key, names, f"--set: {spec.id}"))


def parameters_of(spec: EnvSpec, entry_point: EntryPoint) -> list[inspect.Parameter] | None:
    """The parameters of an entry point; None for a callable that does not tell."""
    function = load_entry_point(entry_point, f"environment {spec.id!r}")
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def modes_of(spec: EnvSpec) -> list[str]:
    """The modes that an environment runs in, on this machine."""

    def runs_in(mode: str) -> bool:
        try:
            choose_mode(spec, mode)
        except ValueError:
            return False
        return True

    return [mode for mode in LOCAL_MODES if runs_in(mode)]


def build_sub_envs(
    spec: EnvSpec,
    num_envs: int,
    mode: str,
    settings: Mapping[str, Any],
    vector_kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[WrapperLike] = (),
) -> VecEnv[Any, Any]:
    """Sub-envs whose episodes go on by themselves.

    Args:
        spec: The environment.
        num_envs: How many.
        mode: How they are run.
        settings: Arguments of the environment.
        vector_kwargs: Further ones of the backend.
        wrappers: What goes around each sub-env, innermost first.

    Raises:
        CommandError: They cannot be built so, autoreset is off, or its options are not the environment's.
    """
    with mistakes_of_the_user():
        vec = build_vec_env(spec, num_envs, mode, vector_kwargs, wrappers, settings)
    try:
        if not vec.autoreset:
            raise CommandError(f"{spec.id} is registered with autoreset off, so its episodes would not go on")
        if "autoreset_options" in settings:  # else they would be met at the end of the first episode
            with mistakes_of_the_user():
                vec.reset(options=settings["autoreset_options"])
    except BaseException:
        vec.close()
        raise
    return vec
