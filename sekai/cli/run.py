"""``sekai run ENV_ID``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

from sekai.cli.building import build_sub_envs, check_settings, find_spec
from sekai.cli.common import CommandError, emit, format_settings, format_table, mistakes_of_the_user, to_json
from sekai.cli.options import (
    add_env_verb,
    add_json,
    add_num_envs,
    add_policy,
    add_seed,
    add_settings,
    add_shards,
    parse_settings,
    positive_int,
)
from sekai.cli.plot import check_target, draw_run
from sekai.cli.policies import choose_policy
from sekai.cli.rollout import roll_out
from sekai.cli.sharded import ShardedRun, connect, joined
from sekai.cores import usable_cores
from sekai.progress import progress_bar
from sekai.registry.build import MODES, choose_mode, entry_point_of
from sekai.rollouts import EpisodeSums
from sekai.seeding import np_random

_DEFAULT_NUM_ENVS = 1024
_DEFAULT_STEPS = 1000

_DESCRIPTION = """\
Step an environment many times over (its sub-envs, --num-envs of them) with a
policy, and print what came of it: how many episodes ended, mean and standard
deviation of their returns, their length, how they ended, and the speed.
"""

_EPILOG = """\
examples:
  sekai run Trading-v0
  sekai run Trading-v0 --policy momentum --episodes 5000 --seed 7
  sekai run Trading-v0 --set lookback=8 --set transaction_cost=5e-4
  sekai run Trading-v0 --num-envs 64 --mode sync --steps 200
  sekai run Trading-v0 --num-envs 64 --mode proc --workers 2 --steps 200
  sekai run Trading-v0 --set prices=closes.csv --json
  sekai run MarketMaking-v0 --set volatility=1:3
  sekai run MarketMaking-v0 --policy glft --plot glft.png
  sekai run MarketMaking-v0 --num-envs 1000000 --steps 200 --distributed

The statistics hold every episode that ended; one that is still going on at the
end is left out. The standard error of the mean return is that of independent
episodes, or, where all sub-envs run on one history, as in Trading-v0, by blocks
of that history: it does not shrink with more sub-envs of the same years. Where
lengths differ, the first episodes to end (--episodes) are the short ones:
prefer --steps with many steps for a mean over all of them.

Speed is steps of single sub-envs per second of step() alone, without the
policy. The first step, and of --mode native the second one too, may compile the
kernels, for several threads and for one, and is left out of it. `sekai bench`
measures it with more care.

A picture is drawn as the environment draws a rollout, if it offers that: price,
inventory and wealth of one episode, the returns of all. Without, it shows
returns and mean reward over time. It shows the run itself, or, if that is too
long to keep every step of, fewer sub-envs. It takes matplotlib:
pip install ".[plot]" in the clone.

With --distributed the sub-envs are cut into shards, tasks on Ray (pip install
".[ray]" in the clone) of which nothing but sums comes back: on all cores of
this machine, or on the cluster that --address names. Numbers are those of a run
here, but for the last digits of means, and for random actions.

Ctrl-C ends the run and prints what was measured so far, of a distributed one
the shards that are done; no picture is drawn.
"""


def add_parser(verbs: Any) -> None:
    """Add the verb to the command."""
    parser = add_env_verb(
        verbs,
        "run",
        help="step an environment many times over and print statistics",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_num_envs(parser, _DEFAULT_NUM_ENVS, "number of sub-envs, which step together")
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--steps",
        type=positive_int,
        metavar="K",
        help=f"end after K steps of every sub-env (default: {_DEFAULT_STEPS}, unless --episodes is given)",
    )
    end.add_argument(
        "--episodes",
        type=positive_int,
        metavar="E",
        help="end once E episodes have ended, and count exactly the first E",
    )
    add_policy(parser)
    add_seed(parser, "makes the run repeatable (default: one drawn at random, which is told)", default=None)
    add_settings(parser)
    parser.add_argument(
        "--mode", choices=MODES, help="how the sub-envs are run (default: native where there is one, else sync)"
    )
    parser.add_argument(
        "--workers",
        type=positive_int,
        metavar="N",
        help="worker processes of --mode proc (default: one for each core that this process may use)",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="also draw the run; the ending says as what (out.png, out.pdf, out.svg)"
    )
    add_shards(parser)
    add_json(parser)
    parser.set_defaults(verb=run_env)


def run_env(args: argparse.Namespace) -> int:
    """Run the environment and print the statistics."""
    _check_distributed(args)
    settings = parse_settings(args.settings)
    steps = _DEFAULT_STEPS if args.steps is None and args.episodes is None else args.steps
    seed = int(np_random()[0].integers(2**32)) if args.seed is None else args.seed
    if args.plot is not None:
        check_target(args.plot)
    spec = find_spec(args.env_id)
    with mistakes_of_the_user():
        mode = choose_mode(spec, args.mode)
        if args.workers is not None and mode != "proc":
            raise CommandError(f"--workers: expected --mode proc beside it, got {mode}")
        vector_kwargs = {"num_workers": args.workers or usable_cores()} if mode == "proc" else None
        check_settings(spec, entry_point_of(spec, mode), settings)
    connect(args)
    if args.distributed:
        shared = (spec, mode, vector_kwargs, args.policy, seed, args.num_envs, steps, args.shard_size, True)
        return _run_distributed(ShardedRun(*shared), settings, args)
    build = partial(build_sub_envs, spec, mode=mode, settings=settings, vector_kwargs=vector_kwargs)
    build_policy = partial(choose_policy, name=args.policy, seed=seed)
    with build(args.num_envs) as vec:
        policy = build_policy(vec)
        total, unit = (steps, "step") if args.episodes is None else (args.episodes, "episode")
        with progress_bar(total, unit) as progress:
            run = roll_out(
                vec,
                policy,
                seed=seed,
                steps=steps,
                episodes=args.episodes,
                progress=progress,
                has_kernels=mode == "native",
            )
    report = {
        "env": spec.id,
        "mode": mode,
        "policy": args.policy,
        "seed": seed,
        "settings": settings,
        "num_envs": args.num_envs,
        "steps": run.steps,
        "env_steps": run.steps * args.num_envs,
        **run.log.summary(),
        "env_steps_per_second": run.env_steps_per_second,
        "first_step_seconds": run.first_step_seconds,
        "interrupted": run.interrupted,
    }
    emit(to_json(report) if args.json else format_table(_as_rows(report)))
    if run.interrupted:
        return 130
    if args.plot is not None:
        title = f"{spec.id}, policy {args.policy}, seed {seed}"
        draw_run(args.plot, build, build_policy, num_envs=args.num_envs, steps=run.steps, seed=seed, title=title)
    return 0


def _check_distributed(args: argparse.Namespace) -> None:
    """Refuse what is asked of a distributed run and cannot be told of shards, or of one that is none."""
    for name, given in (("--episodes", args.episodes), ("--plot", args.plot)):
        if args.distributed and given is not None:
            raise CommandError(f"{name}: expected no --distributed beside it, since shards hand back sums alone")
    if args.shard_size is not None and not args.distributed:
        raise CommandError(f"--shard-size: expected --distributed beside it, got {args.shard_size} alone")


def _run_distributed(sharded: ShardedRun, settings: dict[str, Any], args: argparse.Namespace) -> int:
    """Run shards on Ray, and print the statistics: after Ctrl-C those of the shards that are done."""
    sharded.check(settings)
    start = perf_counter()
    done: dict[range, EpisodeSums] = {}
    interrupted = False
    try:
        for rows, sums in sharded.shards(settings):
            done[rows] = sums
    except KeyboardInterrupt:
        interrupted = True
    env_steps = sharded.steps * sum(len(rows) for rows in done)
    report = {
        "env": sharded.spec.id,
        "mode": sharded.mode,
        "policy": sharded.policy,
        "seed": sharded.seed,
        "settings": settings,
        "num_envs": sharded.num_envs,
        "steps": sharded.steps,
        "env_steps": env_steps,
        **joined(done).summary(),
        "env_steps_per_second": env_steps / (perf_counter() - start),
        "first_step_seconds": math.nan,
        "interrupted": interrupted,
    }
    emit(to_json(report) if args.json else format_table(_as_rows(report)))
    return 130 if interrupted else 0


def _as_rows(report: Mapping[str, Any]) -> dict[str, str]:
    steps = f"{report['steps']:,} ({report['env_steps']:,} env-steps)"
    first = "first two steps" if report["mode"] == "native" else "first step"
    left_out = f"{first}, which may compile, left out: {_number(report['first_step_seconds'], '.2f')} s"
    if math.isnan(report["first_step_seconds"]):
        left_out = "of all that was done, compiling and the policy too"
    return {
        "env": report["env"],
        "mode": report["mode"],
        "policy": report["policy"],
        "seed": str(report["seed"]),
        "settings": format_settings(report["settings"]),
        "num_envs": f"{report['num_envs']:,}",
        "steps": steps + (", interrupted" if report["interrupted"] else ""),
        "episodes": f"{report['episodes']:,}" if report["episodes"] else "none has ended; give more --steps",
        "return, mean": _mean_with_error(report),
        "return, sd": _number(report["return_sd"]),
        "length, mean": _number(report["length_mean"]),
        "terminated": _percent(report["terminated_share"]),
        "truncated": _percent(report["truncated_share"]),
        "env-steps/s": f"{_number(report['env_steps_per_second'], ',.0f')} ({left_out})",
    }


def _mean_with_error(report: Mapping[str, Any]) -> str:
    mean, error = _number(report["return_mean"]), report["return_standard_error"]
    of_history = report["return_standard_error_by"] == "blocks of the history"
    if report["episodes"] < 2:
        return mean
    if math.isnan(error):
        return f"{mean} (no standard error: the history holds too few episodes that lie apart)"
    return f"{mean} (standard error {error:.2g}, {'by' if of_history else 'of'} {report['return_standard_error_by']})"


def _number(value: float, form: str = ".6g") -> str:
    return "-" if math.isnan(value) else format(value, form)


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"
