"""Tables for notebooks."""

from __future__ import annotations

from html import escape


def table(text: str) -> str:
    """A printed summary as HTML: its first line above a table of the others, name and value."""
    title, *lines = text.splitlines()
    cells = [line.split(maxsplit=1) for line in lines]
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in cells
    )
    return f"<table><caption style='text-align:left'>{escape(title)}</caption>{rows}</table>"
