from __future__ import annotations

import signal


def pytest_configure() -> None:
    # A script's background jobs ignore Ctrl-C, and so would the tests that press it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
