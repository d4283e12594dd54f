"""``sekai bench ENV_ID``."""

from __future__ import annotations

import argparse
import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from itertools import zip_longest
from typing import Any, TypeVar

from sekai.cli.benching.bed import DEFAULT_NATIVE, DEFAULT_OTHERS, WRAPPERS, TestBed
from sekai.cli.benching.profiling import Profile
from sekai.cli.benching.report import Report
from sekai.cli.common import emit, to_json
from sekai.cli.options import add_env_verb, add_json, add_policy, add_seed, add_settings, number_of_envs, positive_int
from sekai.registry.build import MODES

_DEFAULT_SECONDS = 1.0

_T = TypeVar("_T")

_DESCRIPTION = """\
Measure how fast an environment steps: in each mode that it runs in, for several
numbers of sub-envs and, where it is native, of threads. With --profile, say
where the time of a step goes.
"""

_EPILOG = """\
examples:
  sekai bench MarketMaking-v0
  sekai bench MarketMaking-v0 --modes native --num-envs 1024,16384 --threads 1,2
  sekai bench Trading-v0 --num-envs 64 --set lookback=8 --policy momentum
  sekai bench Trading-v0 --modes sync,proc --num-envs 8 --workers 1 --json
  sekai bench Trading-v0 --modes native --num-envs 4096 --profile \\
      --wrap statistics,normalize-observation,normalize-reward

columns:
  on           how many worker processes the sub-envs are spread over, or over
               how many threads at most: a kernel uses them where it is quicker
  env-steps/s  steps of single sub-envs per second of step() alone, without the
               policy: the median of five rounds, in which all rows take turns
  a step       the time of one step() of all sub-envs
  spread       half of what lies between the slowest and the fastest round, as a
               share of the median; a large one means a busy machine
  first step   reset() and the first step(), which may compile kernels; they are
               in no other column

Random actions are drawn beforehand, eight batches that are used over and over:
a native market takes what its masks leave out, too. For environments that may
refuse it they are drawn at each step, as the masks allow. Any other policy is
asked at each step, and sees what the wrappers make of the observations. Where
all episodes have one length they end in the same step, which takes longer than
the others: let a sixth of --seconds hold a few of them.

The profile takes --seconds more for each row, in which sub-envs with clocks
around the parts of a step and sub-envs without take turns. The clocks take time
themselves, most of which counts for the part around the one they measure; the
profile tells how much longer they make a step. The parts:

  kernel       the market's own _step(): compiled code and the arrays it fills;
               of a row market, all that is compiled, resets included
  observe      its _observe(), and the observations of episodes that ended
  resets       its _reset_envs() and _reset_infos(), for autoreset
  sub-envs     step() and reset() of the sub-envs, single-env wrappers included;
               in mode proc those of the busiest worker
  infos        copies of what the market says in its infos, and the list of them
               (in mode proc a part of the bookkeeping)
  bookkeeping  what else the backend does: checks, copies of the other results,
               autoreset, the time limit; in mode proc messages and waiting too
  Vec...       each vector wrapper

Ctrl-C ends the measurement and prints what there is.
"""


def add_parser(verbs: Any) -> None:
    """Add the verb to the command."""
    parser = add_env_verb(
        verbs, "bench", help="measure how fast an environment steps", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument(
        "--modes",
        type=_several(_one_of(MODES)),
        metavar="MODE,...",
        help=f"how the sub-envs are run: {', '.join(MODES)} (default: each that the environment runs in "
        "and takes the arguments of --set in)",
    )
    parser.add_argument(
        "--num-envs",
        type=_several(number_of_envs),
        metavar="N,...",
        help=f"numbers of sub-envs (default: {_as_list(DEFAULT_NATIVE)} in mode native, "
        f"{_as_list(DEFAULT_OTHERS)} in the others)",
    )
    parser.add_argument(
        "--threads",
        type=_several(positive_int),
        metavar="T,...",
        help="numbers of threads of mode native, no more than sub-envs (default: 1, and for batches that are large "
        "enough one for each core that this process may use)",
    )
    parser.add_argument(
        "--workers",
        type=_several(positive_int),
        metavar="W,...",
        help="numbers of worker processes of mode proc, no more than sub-envs (default: one for each core that this "
        "process may use)",
    )
    parser.add_argument(
        "--wrap",
        type=_several(_one_of(WRAPPERS)),
        default=[],
        metavar="WRAPPER,...",
        help=f"vector wrappers to put around, the innermost first: {', '.join(WRAPPERS)} (default: none)",
    )
    add_policy(parser)
    parser.add_argument(
        "--seconds",
        type=_positive_seconds,
        default=_DEFAULT_SECONDS,
        metavar="SEC",
        help="how long each row of the table is run (default: %(default)g)",
    )
    add_seed(parser, "what resets and random actions follow from")
    add_settings(parser)
    parser.add_argument("--profile", action="store_true", help="say where the time of a step goes, too")
    add_json(parser)
    parser.set_defaults(verb=bench)


def bench(args: argparse.Namespace) -> int:
    """Measure, and print what was measured."""
    profiles: list[Profile] = []
    interrupted = False
    with ExitStack() as opened:
        bed = TestBed(args, opened)
        cells = bed.cells()
        try:
            bed.time(cells)
            if args.profile:
                for profile in bed.profiles(cells):
                    profiles.append(profile)
        except KeyboardInterrupt:
            if not any(cell.blocks for cell in cells):
                raise
            interrupted = True
    report = Report(
        env=bed.spec.id,
        policy=args.policy,
        seed=args.seed,
        settings=bed.settings,
        wrappers=args.wrap,
        seconds=args.seconds,
        cells=list(zip_longest(cells, profiles)),
        interrupted=interrupted,
    )
    emit(to_json(report.as_dict()) if args.json else report.as_text())
    return 130 if interrupted else 0


# -- types of arguments ------------------------------------------------------------------------------------


def _several(one: Callable[[str], _T]) -> Callable[[str], list[_T]]:
    """An argparse type: items separated by commas, each once."""
    return lambda text: list(dict.fromkeys(one(item) for item in text.split(",")))


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    """An argparse type: one of some names."""

    def name(text: str) -> str:
        if text not in names:
            raise ArgumentTypeError(f"expected {', '.join(names)}, or several separated by commas, got {text!r}")
        return text

    return name


def _positive_seconds(text: str) -> float:
    """An argparse type: a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        raise ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return seconds


def _as_list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
