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


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Give a page without sections the room of their list."""
    if not any(heading.children for heading in page.toc):
        page.meta["hide"] = [*page.meta.get("hide", []), "toc"]
    return html


def _help_of(verb: str) -> str:
    os.environ["COLUMNS"] = "80"  # what argparse wraps at, whoever builds
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main([verb, "--help"] if verb else ["--help"])
    return f"```text\n{text.getvalue()}```"
