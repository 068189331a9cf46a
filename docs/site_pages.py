"""A hook of MkDocs: adds the README as the first page, the changelog, the samples and what is written from the code.

Links between them are kept.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference_pages import SITE_PAGES

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
}
REFERENCE = "reference"
LINK = re.compile(r"(?<=\]\()([^()\s:#]+)(#[^()\s]*)?(?=\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "samples.md", content=_samples()))
    for name, page in SITE_PAGES.items():
        files.append(File.generated(config, f"{REFERENCE}/{name}", content=page()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead each link of the repository to its page of the site."""
    names = {page: source for source, page in PAGES.items()}
    source = names.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def on_site(link: re.Match[str]) -> str:
        target = _page(posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1])))
        if target is None:
            return link[0]  # `strict` names it
        path, _, anchor = target.partition("#")
        relative = posixpath.relpath(path, posixpath.dirname(page.file.src_uri) or ".")
        return relative + (link[2] or (f"#{anchor}" if anchor else ""))

    return LINK.sub(on_site, markdown)


def _page(path: str) -> str | None:
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "samples" or path.startswith("samples/"):
        return "samples.md" + path.removeprefix("samples").replace("/", "#").replace(".", "")
    return "quickstart.md" if path == "docs" else PAGES.get(path)


def _samples() -> str:
    samples = sorted((ROOT / "samples").glob("*.py"))
    parts = [f"## {sample.name}\n\n```python\n{sample.read_text(encoding='utf-8')}```\n" for sample in samples]
    return "\n".join(["# Samples\n", "Whole programs, each run by the tests.\n", *parts])
