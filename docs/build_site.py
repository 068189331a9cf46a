"""Build the documentation as a web site: `python docs/build_site.py [FOLDER]`.

The pages are the README, `docs/`, the project's other Markdown files, the samples, and the
reference generated from the code. A broken link or a page missing from `SECTIONS` fails the build.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reference_pages import SITE_PAGES

ROOT = Path(__file__).parent.parent
SECTIONS = {
    "Tutorial": [
        "tutorial/install",
        "tutorial/agent",
        "tutorial/model",
        "tutorial/postgresql",
        "tutorial/production",
    ],
    "Guides": [
        "cookbook",
        "troubleshooting",
        "adk-integration",
        "how-to/recall",
        "how-to/learning",
        "how-to/keeping",
        "how-to/forgetting",
        "how-to/scopes",
        "how-to/databases",
        "how-to/embeddings",
        "how-to/export-and-import",
        "how-to/server",
        "how-to/deploy",
        "how-to/kagent",
        "how-to/testing",
    ],
    "Reference": [
        "reference/settings",
        "reference/python",
        "reference/cli",
        "samples",
    ],
    "Project": [
        "design",
        "security",
        "benchmarks",
        "changelog",
        "contributing",
        "tests",
        "conduct",
        "reporting",
    ],
}
FILES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "tests/README.md": "tests.md",
}
LINK = re.compile(r"(?<=\]\()([^()\s:#]+)(#[^()\s]*)?(?=\))")
OPTIONS = ("-b", "dirhtml", "-q", "-W", "--keep-going", "-d")


def collect(folder: Path) -> None:
    """Write every page of the site into an empty folder."""
    pages = {f"docs/{path.relative_to(ROOT / 'docs').as_posix()}": path for path in _documents()}
    for name, path in pages.items():
        _write(folder, name, name.removeprefix("docs/"), path.read_text(encoding="utf-8"))
    for name, page in FILES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        _write(folder, name, page, text + _navigation() if page == "index.md" else text)
    _write(folder, "samples.md", "samples.md", _samples())
    for name, page in SITE_PAGES.items():
        _write(folder, f"docs/reference/{name}", f"reference/{name}", page())
    for picture in [*ROOT.glob("docs/**/*.svg"), *ROOT.glob("docs/**/*.png")]:
        target = folder / picture.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)


def build(pages: Path, target: Path) -> int:
    """Build a folder of pages into `target`; return Sphinx's exit code, 1 after any warning."""
    with tempfile.TemporaryDirectory() as doctrees:
        command = [sys.executable, "-m", "sphinx", *OPTIONS, doctrees]
        command += ["-c", str(ROOT / "docs"), str(pages), str(target)]
        code = subprocess.run(command, check=False).returncode  # noqa: S603 our own command
    for file in pages.rglob("*.json"):
        shutil.copyfile(file, target / file.relative_to(pages))
    return code


def _documents() -> list[Path]:
    return sorted(path for path in ROOT.glob("docs/**/*.md"))


def _write(folder: Path, source: str, page: str, text: str) -> None:
    target = folder / page
    target.parent.mkdir(parents=True, exist_ok=True)
    if page.endswith(".md"):
        text = LINK.sub(lambda link: _on_site(link, source, page), text)
    target.write_text(text, encoding="utf-8")


def _on_site(link: re.Match[str], source: str, page: str) -> str:
    """Rewrite a link within the repository to the page of the site."""
    target = _page(posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1])))
    if target is None:
        return link[0]  # Sphinx reports it
    path, _, anchor = target.partition("#")
    relative = posixpath.relpath(path, posixpath.dirname(page) or ".")
    return relative + (link[2] or (f"#{anchor}" if anchor else ""))


def _page(path: str) -> str | None:
    if path == "docs":
        return FILES["README.md"]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "samples" or path.startswith("samples/"):
        return "samples.md" + path.removeprefix("samples").replace("/", "#").replace(".", "")
    return FILES.get(path)


def _samples() -> str:
    samples = sorted((ROOT / "samples").glob("*.py"))
    parts = [
        f"## {sample.name}\n\n```python\n{sample.read_text(encoding='utf-8')}```\n"
        for sample in samples
    ]
    return "\n".join(["# Samples\n", "Complete programs. The tests run each of them.\n", *parts])


def _navigation() -> str:
    trees = (
        "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```"])
        for title, names in SECTIONS.items()
    )
    return "\n" + "\n\n".join(trees) + "\n"


if __name__ == "__main__":
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    with tempfile.TemporaryDirectory() as staged:
        collect(Path(staged))
        sys.exit(build(Path(staged), site))
