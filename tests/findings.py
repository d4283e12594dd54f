"""What the tests of ``check_vec_env`` share: how they call it, and how they compare what it finds."""

from __future__ import annotations

import re

import broken_markets

from sekai.testing import check_vec_env

#: Whether kernels are compiled: without, there is nothing to say of how.
COMPILED = hasattr(broken_markets.move_row, "py_func")
#: Enough for each sub-env of the good market to end an episode.
N_STEPS = 20


def the_only_finding(factory, *, n_steps=N_STEPS, **kwargs):
    findings = check_vec_env(factory, n_steps=n_steps, **kwargs)
    assert len(findings) == 1, findings
    return findings[0]


def like(template):
    """A pattern of a finding, in which "#" stands for any value, number of a step or of a sub-env."""
    return re.escape(template).replace(r"\#", ".+") + "$"


def accepted(action):
    return f"hint: accepts action {action}; whether actions lie in the space is for the market to check"
