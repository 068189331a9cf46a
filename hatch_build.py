"""What an index shows of the package: where its repository is, and a README whose links lead there.

The repository is the one that GitHub Actions builds. Other builds know of none: their links stay
relative.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)([^()\s]+)\)")


class IndexMetadata(MetadataHookInterface):
    """Fills in the fields that pyproject.toml calls dynamic."""

    def update(self, metadata: dict) -> None:
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        if named := os.environ.get("GITHUB_REPOSITORY"):
            repository = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{named}"
            files = f"{repository}/blob/v{metadata['version']}"
            readme = _RELATIVE_LINK.sub(rf"]({files}/\1)", readme)
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{files}/docs/tutorial/install.md",
                "Changelog": f"{files}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
