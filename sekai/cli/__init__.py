"""The ``sekai`` command: list the environments there are, look at one, run it with a policy, check it, time it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from sekai import __version__
from sekai.cli import bench, check, info, listing, run, sweep
from sekai.cli.common import CommandError, OutputClosed, complain, emit, without_codes

__all__ = ["main"]

_DESCRIPTION = """\
Fast market simulators for reinforcement learning: list those there are, look at
one, step thousands of it at once, check one of your own, and time it.
"""

_EPILOG = """\
examples:
  sekai list
      every environment that is registered, or announced by a package
  sekai info Trading-v0
      its arguments, spaces, modes and policies
  sekai run Trading-v0 --policy momentum
      step 1024 of it at once (its sub-envs), and print what came of it
  sekai sweep MarketMaking-v0 --over volatility=1,2,3 --policy glft
      the same for each of some settings, in one table
  sekai check my_market:MyMarket-v0
      look for what a market of my_market.py does against its contract
  sekai bench Trading-v0 --profile
      how fast it steps, and where the time goes

environment variables:
  SEKAI_NUM_THREADS  threads of large native batches (default: one per core)
  SEKAI_CACHE_DIR    folder of compiled kernels; SEKAI_CACHE=0 keeps none

exit status:
  0    all went well
  1    `sekai check` has found a problem
  2    a mistake in the command, or output that cannot be written
  130  Ctrl-C
  141  nobody reads the output to its end (sekai ... | head -1)

`sekai VERB --help` explains each verb.
"""


_BROKEN_PIPE = 141  # as a shell shows a command that ends by SIGPIPE


class _ParserExit(SystemExit):
    """The parser has said all there is to say."""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports a mistake in one line, and writes as the verbs do."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message is not None:
            complain(message)
        raise _ParserExit(status)

    def print_help(self, file: Any = None) -> None:
        emit(self.format_help().rstrip("\n"))


class _Version(argparse.Action):
    """Prints the version as the verbs print, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        emit(f"sekai {__version__}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments; None for those of the process.

    Returns:
        The exit status: 0, 1 for problems that ``check`` has found, 2 for a mistake of the user, 130 after Ctrl-C,
        141 after a broken pipe.
    """
    parser = _Parser(
        prog="sekai",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in (listing, info, run, sweep, check, bench):
        verb.add_parser(verbs)
    try:
        args = parser.parse_args(argv)
        return int(args.verb(args))
    except _ParserExit as stop:  # --help, --version, or a mistake that the parser has reported
        return int(stop.code or 0)
    except CommandError as error:
        complain(f"sekai: error: {' '.join(without_codes(str(error)).split())}")
        return 2
    except MemoryError as error:
        complain(f"sekai: error: not enough memory; try fewer sub-envs (--num-envs) ({str(error) or 'no details'})")
        return 2
    except OutputClosed:
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return 130
