"""``sekai check ENV_ID``."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sekai.cli.building import check_settings, find_spec
from sekai.cli.common import (
    TABLE_WIDTH,
    CommandError,
    emit,
    format_settings,
    mistakes_of_the_user,
    number_of,
    to_json,
    without_codes,
)
from sekai.cli.options import (
    add_env_verb,
    add_json,
    add_num_envs,
    add_seed,
    add_settings,
    parse_settings,
    positive_int,
)
from sekai.progress import progress_bar
from sekai.registry.build import build_vec_env, choose_mode, entry_point_of, make_env
from sekai.registry.specs import EnvSpec
from sekai.testing import check_env, check_vec_env

if TYPE_CHECKING:
    from sekai.vector import VecEnv

_DEFAULT_NUM_ENVS = 7
_DEFAULT_STEPS = 100

_HINT = "hint: "

_DESCRIPTION = """\
Look for what an environment does that its contract does not allow. A few
sub-envs are stepped with random actions, then once more and once more with
something changed that must not matter: other actions or seeds of the other
sub-envs, one sub-env alone or among thousands, one thread or two, autoreset or
a reset by hand, a return to a snapshot. Shapes, dtypes, finite numbers, random
draws, memory and the way its kernels were compiled are looked at on the way,
and the kernels' indexes in a run without compilation. It takes some ten
seconds, most of them for compiling kernels; a terminal shows the runs (with
tqdm).
"""

_EPILOG = """\
examples:
  sekai check Trading-v0
  sekai check Trading-v0 --set episode_length=20 --set actions=weight
  sekai check Trading-v0 --num-envs 16 --steps 500 --seed 3
  sekai check Trading-v0 --json | python -m json.tool
  sekai check my_market:MyMarket-v0
      a market that my_market.py in this folder registers

Each problem says where it is (which call, array and sub-env), what was expected
and what came. A hint is no problem, but may be worth a look, e.g. a kernel
whose loop was not vectorised.

An environment that is registered as a single one is checked as such, then, if
it has no problem, as sub-envs in a SyncVecEnv.

exit status:
  0    there is no problem, hints or not
  1    there is one
  2    a mistake in the command
"""


def add_parser(verbs: Any) -> None:
    """Add the verb to the command."""
    parser = add_env_verb(
        verbs,
        "check",
        help="look for what an environment does against its contract",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_num_envs(parser, _DEFAULT_NUM_ENVS, "number of sub-envs that are compared")
    parser.add_argument(
        "--steps",
        type=positive_int,
        default=_DEFAULT_STEPS,
        metavar="K",
        help="steps of each run (default: %(default)s)",
    )
    add_seed(parser, "what seeds and actions follow from")
    add_settings(parser)
    add_json(parser, "lines")
    parser.set_defaults(verb=check)


def check(args: argparse.Namespace) -> int:
    """Check the environment and print what was found."""
    settings = parse_settings(args.settings)
    if "autoreset_options" in settings:
        raise CommandError("--set: 'autoreset_options' cannot be set: every reset of a check is one without options")
    spec = find_spec(args.env_id)
    with mistakes_of_the_user():
        mode = choose_mode(spec)
        check_settings(spec, entry_point_of(spec, mode), settings)
        _build(spec, mode, settings, 1).close()
    findings = _check_single(spec, settings, args) if spec.entry_point is not None and mode != "native" else []
    if all(each.startswith(_HINT) for each in findings):
        # How many runs there will be nobody knows beforehand; each builds its sub-envs.
        with progress_bar(None, "run") as advance:
            findings += check_vec_env(
                _Factory(spec, mode, settings, advance),
                num_envs=args.num_envs,
                n_steps=args.steps,
                seed=args.seed,
                check_bounds=True,
            )
    findings = [without_codes(each) for each in findings]
    report = {
        "env": spec.id,
        "mode": mode,
        "settings": settings,
        "num_envs": args.num_envs,
        "steps": args.steps,
        "seed": args.seed,
        "problems": [each for each in findings if not each.startswith(_HINT)],
        "hints": [each.removeprefix(_HINT) for each in findings if each.startswith(_HINT)],
    }
    emit(to_json(report) if args.json else _as_text(report))
    return 1 if report["problems"] else 0


class _Factory:
    """Builds the sub-envs, and counts how often."""

    def __init__(
        self, spec: EnvSpec, mode: str, settings: Mapping[str, Any], advance: Callable[[int], object] | None
    ) -> None:
        self._what = spec, mode, settings
        self._advance = advance

    def __call__(self, num_envs: int, **arguments: Any) -> VecEnv[Any, Any]:
        vec = _build(*self._what, num_envs, **arguments)
        if self._advance is not None:
            self._advance(1)
        return vec

    def __reduce__(self) -> Any:
        return _Factory, (*self._what, None)  # what another process builds is not counted


def _build(spec: EnvSpec, mode: str, settings: Mapping[str, Any], num_envs: int, **arguments: Any) -> VecEnv[Any, Any]:
    """The sub-envs, with what ``check_vec_env`` may ask for beside the settings."""
    vector_kwargs = {name: arguments.pop(name) for name in ("autoreset",) if name in arguments}
    return build_vec_env(spec, num_envs, mode, vector_kwargs, (), {**settings, **arguments})


def _check_single(spec: EnvSpec, settings: Mapping[str, Any], args: argparse.Namespace) -> list[str]:
    """The problems of a single environment."""
    arguments = dict(settings)
    with make_env(spec, arguments.pop("max_episode_steps", None), arguments) as env:
        findings = check_env(env, n_steps=args.steps, seed=args.seed)
    return [f"{_HINT * each.startswith(_HINT)}a single env: {each.removeprefix(_HINT)}" for each in findings]


def _as_text(report: Mapping[str, Any]) -> str:
    sub_envs, steps = number_of(report["num_envs"], "sub-env", "sub-envs"), number_of(report["steps"], "step", "steps")
    settings = f", {format_settings(report['settings'])}" if report["settings"] else ""
    problems, hints = report["problems"], report["hints"]
    found = {0: "no problems found", 1: "1 problem found:"}.get(len(problems), f"{len(problems)} problems found:")
    lines = [
        f"{report['env']} ({report['mode']}): {sub_envs}, {steps}, seed {report['seed']}{settings}",
        found,
        *map(_as_item, problems),
    ]
    if hints:
        lines += ["hints:", *map(_as_item, hints)]
    return "\n".join(lines)


def _as_item(text: str) -> str:
    """An item of a list. It keeps its lines, which show where in a kernel an error is; only long ones are broken."""
    first, *others = text.strip().splitlines()
    return "\n".join([_fill(first, "- "), *(_fill(line, "  ") for line in others)])


def _fill(line: str, start: str) -> str:
    return textwrap.fill(
        line,
        TABLE_WIDTH,
        initial_indent=start,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
