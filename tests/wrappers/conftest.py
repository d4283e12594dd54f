from __future__ import annotations

import pytest
from script_env import Driver


@pytest.fixture(params=["sync", "async"])
def drive(request):
    """Every test that asks for it runs through the synchronous and through the asynchronous methods."""
    return Driver(request.param == "async")
