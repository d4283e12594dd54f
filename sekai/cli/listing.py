"""``sekai list``."""

from __future__ import annotations

import argparse
from typing import Any

from sekai.cli.common import emit, mistakes_of_the_user, to_json
from sekai.cli.options import add_json
from sekai.registry import default_registry
from sekai.registry.entry_points import describe_entry_point

_DESCRIPTION = """\
List every environment that is registered, or announced by an installed package
through the entry-point group 'sekai.envs', with its entry points. Nothing is
built, and nothing imported but the functions that register.
"""

_EPILOG = """\
examples:
  sekai list
  sekai list --json | python -m json.tool

An entry point followed by '(native)' simulates all sub-envs at once with
arrays; any other one builds a single environment. A namespace that is
loaded at the first look-up is listed by its name alone.
"""


def add_parser(verbs: Any) -> None:
    """Add the verb to the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "list",
        help="list the environments",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser, "lines")
    parser.set_defaults(verb=list_envs)


def list_envs(args: argparse.Namespace) -> int:
    """Print the environments."""
    with mistakes_of_the_user():
        specs = default_registry.all_specs()
    if not args.json:
        emit(default_registry.pprint_registry(disable_print=True) or "")
        return 0
    environments = [
        {
            "id": spec.id,
            "entry_point": spec.entry_point and describe_entry_point(spec.entry_point),
            "vector_entry_point": spec.vector_entry_point and describe_entry_point(spec.vector_entry_point),
            "max_episode_steps": spec.max_episode_steps,
        }
        for spec in specs
    ]
    emit(to_json({"environments": environments, "lazy_namespaces": default_registry.lazy_namespaces()}))
    return 0
