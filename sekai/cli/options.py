"""The options that several verbs take."""

from __future__ import annotations

import ast
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Iterable
from typing import Any

from sekai.checks import as_real
from sekai.cli.common import CommandError

#: What make_vec and the rollout decide themselves.
NOT_SETTABLE = {"num_envs": "use --num-envs", "autoreset": "sub-envs are always reset when an episode ends"}

#: The policy that every environment has.
RANDOM = "random"

# Beyond any memory; what NumPy says of larger numbers names no option.
_MOST_ENVS = 2**40


def add_env_verb(verbs: Any, name: str, *, help: str, description: str, epilog: str) -> ArgumentParser:
    """Add a verb that takes the id of an environment.

    Args:
        verbs: The subparsers of the command.
        name: Of the verb.
        help: A line in the list of verbs.
        description: What it does, as it is to stand in the verb's own help.
        epilog: Examples and the like, likewise.
    """
    parser: ArgumentParser = verbs.add_parser(
        name, help=help, description=description, epilog=epilog, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "env_id",
        metavar="ENV_ID",
        help="id of the environment, [namespace/]Name[-vN]; MODULE:ID imports first the module that registers it, "
        "from the current folder too",
    )
    return parser


def add_num_envs(parser: ArgumentParser, default: int, what: str) -> None:
    """Add ``--num-envs``, one number."""
    parser.add_argument(
        "--num-envs", type=number_of_envs, default=default, metavar="N", help=f"{what} (default: %(default)s)"
    )


def add_policy(parser: ArgumentParser) -> None:
    """Add ``--policy``."""
    parser.add_argument(
        "--policy",
        default=RANDOM,
        metavar="NAME",
        help="'random' (of the actions that its masks allow, where it has some), or one that the environment offers "
        "(see sekai info ENV_ID; default: %(default)s)",
    )


def add_seed(parser: ArgumentParser, what: str, default: int | None = 0) -> None:
    """Add ``--seed``; without a default, ``what`` has to tell what comes instead."""
    told = "" if default is None else " (default: %(default)s)"
    parser.add_argument("--seed", type=nonnegative_int, default=default, metavar="S", help=what + told)


def add_settings(parser: ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="argument of the environment, repeatable; a Python literal (0.5, True, None, [1, 2]), two numbers as in "
        "1:3 for a range that each sub-env draws from anew at each reset (sekai.vector.Randomized), else text",
    )


def add_shards(parser: ArgumentParser) -> None:
    """Add ``--distributed``, ``--address`` and ``--shard-size``."""
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="run shards of the sub-envs as tasks on Ray, on all cores or machines",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="of the Ray cluster, beside --distributed; 'auto' for the one that this machine belongs to, 'local' for "
        "all cores of this machine alone (default: RAY_ADDRESS, else the first of the two that there is)",
    )
    parser.add_argument(
        "--shard-size",
        type=positive_int,
        metavar="N",
        help="sub-envs of a shard (default: 16384 up to 256 steps, fewer of longer runs, down to 4096)",
    )


def add_json(parser: ArgumentParser, instead_of: str = "a table") -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help=f"print one JSON object instead of {instead_of}")


def positive_int(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    return _int_from(1, text)


def nonnegative_int(text: str) -> int:
    """An argparse type: an integer of at least 0."""
    return _int_from(0, text)


def number_of_envs(text: str) -> int:
    """An argparse type: a number of sub-envs."""
    number = positive_int(text)
    if number > _MOST_ENVS:
        raise ArgumentTypeError(f"expected at most {_MOST_ENVS:,}, got {text!r}")
    return number


def _int_from(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
    return value


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """The arguments that ``--set`` gave.

    Raises:
        CommandError: One is not of the form key=value, a key was given twice, or a range is none.
    """
    return {key: _parse_value(key, text) for key, text in _split_pairs("--set", "VALUE", pairs)}


def parse_sweep(pairs: Iterable[str]) -> dict[str, list[Any]]:
    """The values that ``--over`` gave, by argument.

    Raises:
        CommandError: As ``parse_settings``.
    """
    return {key: _parse_values(key, text) for key, text in _split_pairs("--over", "VALUE,VALUE,...", pairs)}


def _split_pairs(option: str, form: str, pairs: Iterable[str]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise CommandError(f"{option}: expected KEY={form}, got {pair!r}")
        if key in found:
            raise CommandError(f"{option}: {key!r} was given twice")
        if key in NOT_SETTABLE:
            raise CommandError(f"{option}: {key!r} cannot be set: {NOT_SETTABLE[key]}")
        found[key] = text
    return list(found.items())


def _parse_values(key: str, text: str) -> list[Any]:
    try:
        return list(ast.literal_eval(f"[{text}]"))  # a list, or text, may have commas of its own
    except (SyntaxError, TypeError, ValueError):
        return [_parse_value(key, each) for each in text.split(",")]


def _parse_value(key: str, text: str) -> Any:
    low, colon, high = text.partition(":")
    bounds = [as_real(_literal(end)) for end in (low, high)] if colon else [None]
    if None not in bounds:
        from sekai.vector import Randomized

        try:
            return Randomized(*bounds)
        except ValueError as error:
            raise CommandError(f"--set: {key}={text}: {error}") from None
    return _literal(text)


def _literal(text: str) -> Any:
    """A Python literal, else the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, ValueError):
        return text
