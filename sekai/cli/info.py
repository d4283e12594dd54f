"""``sekai info ENV_ID``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from sekai.cli.building import check_settings, find_spec, modes_of, parameters_of
from sekai.cli.common import (
    TABLE_WIDTH,
    emit,
    format_settings,
    format_table,
    mistakes_of_the_user,
    shorten,
    to_json,
    without_codes,
)
from sekai.cli.options import RANDOM, add_env_verb, add_json, add_settings, parse_settings
from sekai.cli.policies import details_of, policies_of
from sekai.registry.build import build_vec_env, choose_mode, entry_point_of
from sekai.registry.entry_points import EntryPoint, describe_entry_point
from sekai.registry.specs import EnvSpec
from sekai.spaces import Dict, Space, Tuple

_DESCRIPTION = """\
Show one environment: how it is registered, the arguments of its constructor
with their defaults, its spaces, the modes it runs in, the policies it offers
and what it tells of itself (an attribute `details`, names to texts). One of it
is built to see these; where that takes arguments, give them with --set.
"""

_EPILOG = """\
examples:
  sekai info Trading-v0
  sekai info Trading-v0 --set actions=weight --set lookback=8
  sekai info Trading-v0 --json | python -m json.tool
  sekai info my_market:MyMarket-v0
      the same of a market that my_market.py in this folder registers

An id without a version means the highest version there is. An argument without
a default has to be given. `sekai run`, `check` and `bench` take the arguments
shown here by --set, and `sekai run` and `bench` the policies by --policy.
"""

# These go into other rows, or only sometimes into one.
_ROWS_OF_THEIR_OWN = ("parameters", "details", "not_built")

_INDENT = len("additional_wrappers") + 2
_LONGEST_DEFAULT = 50


def add_parser(verbs: Any) -> None:
    """Add the verb to the command."""
    parser = add_env_verb(verbs, "info", help="show one environment", description=_DESCRIPTION, epilog=_EPILOG)
    add_settings(parser)
    add_json(parser)
    parser.set_defaults(verb=show_info)


def show_info(args: argparse.Namespace) -> int:
    """Print what is known of an environment."""
    settings = parse_settings(args.settings)
    spec = find_spec(args.env_id)
    with mistakes_of_the_user():
        facts = _spec_facts(spec)
        built, spaces = _built_facts(spec, settings)
        facts.update(built)
    emit(to_json(facts) if args.json else format_table(_as_rows(facts, spaces)))
    return 0


def _spec_facts(spec: EnvSpec) -> dict[str, Any]:
    """What the registration says."""
    return {
        "id": spec.id,
        "namespace": spec.namespace,
        "name": spec.name,
        "version": spec.version,
        "entry_point": spec.entry_point and describe_entry_point(spec.entry_point),
        "vector_entry_point": spec.vector_entry_point and describe_entry_point(spec.vector_entry_point),
        "max_episode_steps": spec.max_episode_steps,
        "reward_threshold": spec.reward_threshold,
        "nondeterministic": spec.nondeterministic,
        "kwargs": spec.kwargs,
        "additional_wrappers": [getattr(wrapper, "name", repr(wrapper)) for wrapper in spec.additional_wrappers],
        "modes": modes_of(spec),
        "parameters": {
            name: _signature(spec, getattr(spec, name))
            for name in ("entry_point", "vector_entry_point")
            if getattr(spec, name) is not None
        },
    }


def _signature(spec: EnvSpec, entry_point: EntryPoint) -> dict[str, str | None]:
    """Each parameter with the repr of its default, None for one that has to be given."""
    return {
        str(item).partition(":")[0].partition("=")[0].strip(): (
            None if item.default is item.empty else repr(item.default)
        )
        for item in parameters_of(spec, entry_point) or ()
    }


def _built_facts(spec: EnvSpec, settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Space[Any]]]:
    """What one such environment shows, and its spaces; only the reason where it cannot be built."""
    mode = choose_mode(spec)
    check_settings(spec, entry_point_of(spec, mode), settings)
    try:
        vec = build_vec_env(spec, 1, mode, None, (), settings)
    # Whatever keeps a market from being built, what the registration says can be shown.
    except (Exception, SystemExit) as error:
        reason = without_codes(f"{type(error).__name__}: {error}")
        return {"observation_space": None, "action_space": None, "policies": [], "details": {}, "not_built": reason}, {}
    try:
        spaces = {"observation_space": vec.observation_space, "action_space": vec.action_space}
        reprs = {name: repr(space) for name, space in spaces.items()}
        return {**reprs, "policies": [RANDOM, *policies_of(vec)], "details": details_of(vec), "not_built": None}, spaces
    finally:
        vec.close()


def _as_rows(facts: dict[str, Any], spaces: Mapping[str, Space[Any]]) -> dict[str, str]:
    rows = {name: _as_text(value) for name, value in facts.items() if name not in _ROWS_OF_THEIR_OWN}
    rows["kwargs"] = shorten(rows["kwargs"], TABLE_WIDTH - _INDENT)
    rows.update((name, _space_text(space)) for name, space in spaces.items())
    for name, parameters in facts["parameters"].items():
        arguments = (
            key if default is None else f"{key}={shorten(default, _LONGEST_DEFAULT)}"
            for key, default in parameters.items()
        )
        rows[name] += f"({', '.join(arguments)})"
    rows.update((name, text) for name, text in facts["details"].items() if name not in rows)
    if facts["not_built"] is not None:
        hint = " (give arguments with --set)" if facts["not_built"].startswith("TypeError") else ""
        rows["not built"] = facts["not_built"] + hint
    return rows


def _space_text(space: Space[Any]) -> str:
    """A space with all of its parts, each of them shortened by itself."""
    if isinstance(space, Dict):
        return f"Dict({{{', '.join(f'{key!r}: {_space_text(part)}' for key, part in space.spaces.items())}}})"
    if isinstance(space, Tuple):
        return f"Tuple({', '.join(map(_space_text, space.spaces))})"
    return shorten(repr(space), TABLE_WIDTH - _INDENT)


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return format_settings(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
