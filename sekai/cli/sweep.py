"""``sekai sweep ENV_ID``."""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sekai.cli.building import check_settings, find_spec
from sekai.cli.common import (
    CommandError,
    emit,
    format_columns,
    format_settings,
    format_table,
    mistakes_of_the_user,
    to_json,
)
from sekai.cli.options import (
    add_env_verb,
    add_json,
    add_num_envs,
    add_policy,
    add_seed,
    add_settings,
    add_shards,
    parse_settings,
    parse_sweep,
    positive_int,
)
from sekai.cli.sharded import ShardedRun, connect
from sekai.registry.build import MODES, choose_mode, entry_point_of
from sekai.seeding import np_random

_DEFAULT_NUM_ENVS = 1024
_DEFAULT_STEPS = 1000

_DESCRIPTION = """\
Run an environment many times over (its sub-envs, --num-envs of them) with a
policy for each of some settings, or each combination of them, and print a line
for each: how many episodes ended, mean and standard error of their returns,
their length, how they ended.
"""

_EPILOG = """\
examples:
  sekai sweep MarketMaking-v0 --over volatility=1,2,3 --policy glft
  sekai sweep MarketMaking-v0 --over volatility=1,2 --over arrival_rate=100,140
  sekai sweep MarketMaking-v0 --over volatility=1,2 --num-envs 1000000
  sekai sweep MarketMaking-v0 --over volatility=1:2,2:3 --csv sweep.csv
  sekai sweep Trading-v0 --over prices=nasdaq,sp500 --policy momentum --json
  sekai sweep MarketMaking-v0 --over volatility=1,2 --distributed --address auto

All combinations begin with the same seeds. Sub-envs are run in shards, one
after another, of which nothing is kept but sums, so that memory does not grow
with their number. With --distributed shards are tasks on Ray, on all cores of
this machine or on a cluster (`ray start --head`), and all numbers are the same;
it takes Ray: pip install ".[ray]" in the clone.

The statistics are those of `sekai run`: they hold every episode that ended, and
the standard error is that of independent episodes, or, where all sub-envs run
on one history, as in Trading-v0, by blocks of that history.

Ctrl-C ends the sweep and prints the lines that are whole.
"""

_COLUMNS = {
    "episodes": "episodes",
    "return_mean": "return, mean",
    "return_standard_error": "standard error",
    "return_sd": "return, sd",
    "length_mean": "length, mean",
    "terminated_share": "terminated",
    "truncated_share": "truncated",
}


def add_parser(verbs: Any) -> None:
    """Add the verb to the command."""
    parser = add_env_verb(
        verbs,
        "sweep",
        help="run an environment for each of some settings and print a table",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--over",
        metavar="KEY=V1,V2,...",
        action="append",
        required=True,
        help="values of an argument of the environment, as --set takes them; repeatable, for all combinations",
    )
    add_num_envs(parser, _DEFAULT_NUM_ENVS, "number of sub-envs for each line")
    parser.add_argument(
        "--steps", type=positive_int, metavar="K", default=_DEFAULT_STEPS, help="of each sub-env (default: %(default)s)"
    )
    add_policy(parser)
    add_seed(parser, "makes the sweep repeatable (default: one drawn at random, which is told)", default=None)
    add_settings(parser)
    parser.add_argument(
        "--mode", choices=MODES, help="how the sub-envs of a shard are run (default: native if there is one, else sync)"
    )
    add_shards(parser)
    parser.add_argument("--csv", metavar="FILE", help="also write the table as comma-separated values")
    add_json(parser)
    parser.set_defaults(verb=sweep_env)


def sweep_env(args: argparse.Namespace) -> int:
    """Run all combinations and print a line for each."""
    over, settings = parse_sweep(args.over), parse_settings(args.settings)
    for key in over:
        if key in settings:
            raise CommandError(f"--over: expected arguments that --set does not give, got {key!r}")
    combinations = [dict(zip(over, values, strict=True)) for values in itertools.product(*over.values())]
    spec = find_spec(args.env_id)
    with mistakes_of_the_user():
        mode = choose_mode(spec, args.mode)
        check_settings(spec, entry_point_of(spec, mode), {**settings, **combinations[0]})
    seed = int(np_random()[0].integers(2**32)) if args.seed is None else args.seed
    shared = (spec, mode, None, args.policy, seed, args.num_envs, args.steps, args.shard_size, args.distributed)
    sharded = ShardedRun(*shared)
    for each in combinations:
        sharded.check({**settings, **each})
    connect(args)
    lines, interrupted = [], False
    with _csv_file(args.csv) as file:
        try:
            for each in combinations:
                lines.append({"over": each, **sharded.run({**settings, **each}).summary()})
        except KeyboardInterrupt:
            interrupted = True
        if file is not None:
            _write_csv(file, list(over), lines)
    report = {
        "env": spec.id,
        "mode": mode,
        "policy": args.policy,
        "seed": seed,
        "settings": settings,
        "num_envs": args.num_envs,
        "steps": args.steps,
        "results": lines,
        "interrupted": interrupted,
    }
    emit(to_json(report) if args.json else _as_text(report, list(over)))
    return 130 if interrupted else 0


def _csv_file(path: str | None) -> Any:
    """A file to write to, opened before anything is run; None for none."""
    from contextlib import nullcontext

    if path is None:
        return nullcontext()
    with mistakes_of_the_user():
        return open(path, "w", encoding="utf-8", newline="")


def _write_csv(file: Any, keys: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> None:
    names = [*_COLUMNS, "return_standard_error_by"]
    writer = csv.writer(file)
    with mistakes_of_the_user():
        writer.writerow([*keys, *names])
        for line in lines:
            writer.writerow([*(line["over"][key] for key in keys), *(_cell(line[name]) for name in names)])


def _cell(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value


def _as_text(report: Mapping[str, Any], keys: Sequence[str]) -> str:
    lines = report["results"]
    errors = sorted({line["return_standard_error_by"] for line in lines})
    head = {
        "env": report["env"],
        "mode": report["mode"],
        "policy": report["policy"],
        "seed": str(report["seed"]),
        "settings": format_settings(report["settings"]),
        "num_envs": f"{report['num_envs']:,}",
        "steps": f"{report['steps']:,}" + (", interrupted" if report["interrupted"] else ""),
        "standard error": ", ".join(errors) or "-",
    }
    rows = [[*keys, *_COLUMNS.values()]]
    for line in lines:
        rows.append([*(str(line["over"][key]) for key in keys), *(_text(name, line[name]) for name in _COLUMNS)])
    return f"{format_table(head)}\n\n{format_columns(rows)}"


def _text(name: str, value: Any) -> str:
    if name == "episodes":
        return f"{value:,}"
    if math.isnan(value):
        return "-"
    form = ".1%" if name.endswith("share") else ".2g" if name == "return_standard_error" else ".6g"
    return format(value, form)
