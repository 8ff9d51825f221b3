"""The README as a package index shows it: without links and images that only a checkout has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = r"\((?!\w+:|#)[^)\s]+\)"


def portable(text: str) -> str:
    """Replace relative links by their words, and leave out relative images."""
    text = re.sub(rf"!\[[^\]]*\]{_RELATIVE}\n*", "", text)
    return re.sub(rf"\[([^\]]+)\]{_RELATIVE}", r"\1", text)


class ReadmeHook(MetadataHookInterface):
    """Sets the readme of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": portable(text)}
