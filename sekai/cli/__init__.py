"""The ``sekai`` command: list the environments there are, look at one, run it with a policy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from sekai.cli import info, listing, run
from sekai.cli.common import CommandError

__all__ = ["main"]

_EPILOG = """\
examples:
  sekai list                               every environment that is registered or installed
  sekai info Trading-v0                    its arguments, spaces and policies
  sekai run Trading-v0 --policy momentum   step 1024 copies of it and print the statistics

exit status: 0 when all went well, 2 for a mistake in the command, 130 after Ctrl-C.
`sekai VERB --help` explains each verb.
"""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments; None for those of the process.

    Returns:
        The exit status: 0, 2 for a mistake of the user, 130 after Ctrl-C.
    """
    parser = _Parser(
        prog="sekai",
        description="Fast market simulators for reinforcement learning.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb in (listing, info, run):
        verb.add_parser(verbs)
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:  # --help, or a mistake that the parser has reported
        return int(stop.code or 0)
    try:
        return int(args.verb(args))
    except CommandError as error:
        print(f"sekai: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
