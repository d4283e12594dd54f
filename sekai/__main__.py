"""``python -m sekai`` is the ``sekai`` command."""

from __future__ import annotations

import sys

from sekai.cli import main

if __name__ == "__main__":
    sys.exit(main())
