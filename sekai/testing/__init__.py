"""The contract as a public test kit: ``check_env`` for an ``Env``, ``check_vec_env`` for a market of many."""

from __future__ import annotations

from sekai.testing.env import check_env
from sekai.testing.vec_env import check_vec_env

__all__ = ["check_env", "check_vec_env"]
