"""What MkDocs runs while it builds the pages."""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import Any

from sekai.cli import main


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of a verb where a page says ``<!-- help: sekai VERB -->``."""
    return re.sub(r"<!-- help: sekai ?(\w*) -->", lambda found: _help_of(found[1]), markdown)


def _help_of(verb: str) -> str:
    os.environ["COLUMNS"] = "80"  # what argparse wraps at, whoever builds
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main([verb, "--help"] if verb else ["--help"])
    return f"```text\n{text.getvalue()}```"
