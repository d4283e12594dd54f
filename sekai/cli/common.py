"""What the verbs share: mistakes of the user, ``--set``, tables and JSON."""

from __future__ import annotations

import ast
import inspect
import json
import math
import os
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from sekai.errors import SekaiError
from sekai.registry.build import MODES, choose_mode
from sekai.registry.entry_points import EntryPoint, load_entry_point
from sekai.registry.specs import EnvSpec

if TYPE_CHECKING:
    from sekai.vector import VecEnv

#: From a batch of observations to a batch of actions.
Policy: TypeAlias = Callable[[Any], Any]
#: Builds a policy for a VecEnv.
PolicyFactory: TypeAlias = Callable[[Any], Policy]

# What make_vec and the rollout decide themselves.
_NOT_SETTABLE = {"num_envs": "use --num-envs", "autoreset": "sub-envs are always reset when an episode ends"}

TABLE_WIDTH = 100


class CommandError(Exception):
    """A mistake of the user, to be told in one line."""


class OutputClosed(Exception):
    """Whoever read the output has gone."""


@contextmanager
def mistakes_of_the_user() -> Iterator[None]:
    """Turn what a wrong id or a wrong argument raises into a ``CommandError``."""
    try:
        yield
    except (SekaiError, ImportError, OSError, OverflowError, TypeError, ValueError) as error:
        raise CommandError(str(error)) from error


def emit(text: str) -> None:
    """Print what the user asked for. Characters that the output cannot hold are written as escapes.

    Raises:
        OutputClosed: Nobody reads it any more.
        CommandError: It cannot be written.
    """
    if sys.stdout is None:  # closed by the shell: `>&-`
        return
    try:
        print(_encodable(text, sys.stdout), flush=True)
    except BrokenPipeError as error:
        _give_up(sys.stdout)
        raise OutputClosed from error
    except OSError as error:
        _give_up(sys.stdout)
        raise CommandError(f"cannot write the output: {error.strerror or error}") from error


def complain(text: str) -> None:
    """Print an error message, if there is somewhere to print it to."""
    if sys.stderr is None:  # closed by the shell: `2>&-`
        return
    try:
        print(_encodable(text, sys.stderr), file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _give_up(stream: TextIO) -> None:
    """Let the interpreter flush what is left in the stream at exit without failing again."""
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream that is no file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


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
    parser.add_argument("env_id", metavar="ENV_ID", help="id of the environment: [namespace/]Name[-vN]")
    return parser


def positive_int(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    return _int_from(1, text)


def nonnegative_int(text: str) -> int:
    """An argparse type: an integer of at least 0."""
    return _int_from(0, text)


def _int_from(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
    return value


def add_settings(parser: ArgumentParser) -> None:
    """Add the ``--set`` option."""
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="argument of the environment, repeatable; a Python literal (0.5, True, None, [1, 2]), else text",
    )


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """The arguments that ``--set`` gave.

    Raises:
        CommandError: One is not of the form key=value, or a key was given twice.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise CommandError(f"--set: expected KEY=VALUE, got {pair!r}")
        if key in settings:
            raise CommandError(f"--set: {key!r} was given twice")
        if key in _NOT_SETTABLE:
            raise CommandError(f"--set: {key!r} cannot be set: {_NOT_SETTABLE[key]}")
        try:
            settings[key] = ast.literal_eval(text)
        except (SyntaxError, TypeError, ValueError):
            settings[key] = text
    return settings


def check_settings(spec: EnvSpec, entry_point: EntryPoint, settings: Mapping[str, Any]) -> None:
    """Refuse arguments that the constructor does not take.

    Raises:
        CommandError: There is one; the message lists those it does take.
    """
    parameters = parameters_of(spec, entry_point)
    if parameters is None or any(item.kind is item.VAR_KEYWORD for item in parameters):
        return
    names = [item.name for item in parameters if item.name not in _NOT_SETTABLE]
    for key in settings:
        if key not in (*names, "max_episode_steps"):
            raise CommandError(f"--set: {spec.id} has no argument {key!r}; it has: {', '.join(names) or 'none'}")


def parameters_of(spec: EnvSpec, entry_point: EntryPoint) -> list[inspect.Parameter] | None:
    """The parameters of an entry point; None for a callable that does not tell."""
    function = load_entry_point(entry_point, f"environment {spec.id!r}")
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def modes_of(spec: EnvSpec) -> list[str]:
    """The modes that an environment runs in."""

    def runs_in(mode: str) -> bool:
        try:
            choose_mode(spec, mode)
        except ValueError:
            return False
        return True

    return [mode for mode in MODES if runs_in(mode)]


def policies_of(vec: VecEnv[Any, Any]) -> dict[str, PolicyFactory]:
    """The policies a market offers, by name; none if its ``policies`` are something else (insurance has them too)."""
    try:
        offered = vec.get_attr("policies")[0]
    # Through worker processes an unknown attribute is a VecEnvWorkerError.
    except (AttributeError, SekaiError):
        return {}
    if not isinstance(offered, Mapping):
        return {}
    return {name: build for name, build in offered.items() if isinstance(name, str) and callable(build)}


def format_table(rows: Mapping[str, str]) -> str:
    """Two columns, names and values; a long value goes on below itself."""
    indent = max(map(len, rows)) + 2
    lines = []
    for name, value in rows.items():
        pieces = textwrap.wrap(value, TABLE_WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        lines.append(f"{name:<{indent}}" + ("\n" + " " * indent).join(pieces))
    return "\n".join(lines)


def shorten(text: str, most: int) -> str:
    """The text on one line, its middle left out (between words, if it has any) past ``most`` characters."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head, tail = text[: most // 2 - 2], text[len(text) - (most // 2 - 3) :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"


def format_settings(settings: Mapping[str, Any]) -> str:
    """Arguments as they would stand in a call."""
    return ", ".join(f"{key}={value!r}" for key, value in settings.items()) or "-"


def to_json(data: Any) -> str:
    """One line of JSON; a number that is not finite becomes null, anything JSON lacks its repr."""
    return json.dumps(_finite(data), allow_nan=False, default=repr)


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [_finite(value) for value in data]
    return data
