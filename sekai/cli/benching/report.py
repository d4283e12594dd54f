"""What ``sekai bench`` prints."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sekai import __version__
from sekai.cli.benching.profiling import Profile
from sekai.cli.benching.timing import Cell
from sekai.cli.common import format_columns, format_settings, format_table, number_of
from sekai.cores import usable_cores

_COLUMNS = ("mode", "num_envs", "on", "env-steps/s", "a step", "spread", "first step")
_INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Report:
    """What was measured, and how.

    Attributes:
        env: Id of the environment.
        policy: Name of the policy.
        seed: Of resets and random actions.
        settings: Arguments of the environment.
        wrappers: Names of the vector wrappers, the innermost first.
        seconds: How long each cell was run.
        cells: The cells, each with its profile, if it has one.
        interrupted: Whether Ctrl-C ended it.
    """

    env: str
    policy: str
    seed: int
    settings: Mapping[str, Any]
    wrappers: Sequence[str]
    seconds: float
    cells: Sequence[tuple[Cell, Profile | None]]
    interrupted: bool

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "env": self.env,
            "policy": self.policy,
            "seed": self.seed,
            "settings": self.settings,
            "wrappers": self.wrappers,
            "seconds": self.seconds,
            "machine": _machine(),
            "cells": [_cell_as_dict(cell, profile) for cell, profile in self.cells],
            "interrupted": self.interrupted,
        }

    def as_text(self) -> str:
        """The report as tables."""
        machine = _machine()
        head = {
            "env": self.env,
            "policy": self.policy,
            "settings": format_settings(self.settings),
            "wrappers": ", ".join(self.wrappers) or "-",
            "machine": f"{machine.pop('system')}, {machine.pop('cores')} cores, "
            + ", ".join(f"{name} {version}" for name, version in machine.items()),
        }
        blocks = [format_table(head), format_columns([_COLUMNS, *(_as_row(cell) for cell, _ in self.cells)])]
        blocks += [_profile_as_text(cell, profile) for cell, profile in self.cells if profile is not None]
        if self.interrupted:
            blocks.append(_INTERRUPTED)
        return "\n\n".join(blocks)


def _machine() -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": usable_cores(),
        "Python": platform.python_version(),
        "NumPy": version("numpy"),
        "Numba": version("numba"),
        "sekai": __version__,
    }


def _cell_as_dict(cell: Cell, profile: Profile | None) -> dict[str, Any]:
    return {
        "mode": cell.mode,
        "num_envs": cell.num_envs,
        "threads": cell.threads,
        "workers": cell.workers,
        "env_steps_per_second": cell.env_steps_per_second,
        "seconds_per_step": cell.seconds_per_step,
        "spread": cell.spread,
        "steps": cell.steps,
        "rounds": cell.speeds,
        "first_step_seconds": cell.first_step_seconds,
        "profile": None if profile is None else _profile_as_dict(profile),
    }


def _profile_as_dict(profile: Profile) -> dict[str, Any]:
    shares = profile.shares
    return {
        "steps": profile.steps,
        "seconds_per_step": profile.seconds_per_step,
        "slowdown": profile.slowdown,
        "parts": {part: {"seconds": seconds, "share": shares[part]} for part, seconds in profile.parts.items()},
    }


def _as_row(cell: Cell) -> tuple[str, ...]:
    return (
        cell.mode,
        f"{cell.num_envs:,}",
        _place(cell),
        "-" if math.isnan(cell.env_steps_per_second) else f"{cell.env_steps_per_second:,.0f}",
        format_time(cell.seconds_per_step),
        "-" if math.isnan(cell.spread) else f"{cell.spread:.0%}",
        f"{cell.first_step_seconds:.2f} s",
    )


def _place(cell: Cell) -> str:
    """On how many threads or workers it runs."""
    if cell.threads is not None:
        return number_of(cell.threads, "thread", "threads")
    return "-" if cell.workers is None else number_of(cell.workers, "worker", "workers")


def _profile_as_text(cell: Cell, profile: Profile) -> str:
    place = _place(cell)
    title = f"{cell.mode}, {number_of(cell.num_envs, 'sub-env', 'sub-envs')}" + ("" if place == "-" else f", {place}")
    title += f": {format_time(profile.seconds_per_step)} a step, {profile.slowdown:.2f} times that without the clocks"
    shares = profile.shares
    rows = [(f"  {part}", f"{shares[part]:.1%}", format_time(seconds)) for part, seconds in profile.parts.items()]
    return f"{title}\n{format_columns(rows)}"


def format_time(seconds: float) -> str:
    """A time in a unit that leaves three digits."""
    if math.isnan(seconds):
        return "-"
    factor, unit = (1.0, "s") if seconds >= 1.0 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "us")
    return f"{seconds * factor:.3g} {unit}"
