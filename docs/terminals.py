"""Draw the terminals of the tutorial.

`python docs/terminals.py` runs their commands and writes `docs/images/`. A scripted model stands in
for a real one, so no key is needed; everything else is real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
COLUMNS = 112
STYLE = """
.screen { fill: #1b2130; }
.bar { fill: #2b3346; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.out { fill: #d7dce6; }
.in { fill: #8fd694; }
"""
SESSIONS: dict[str, tuple[str, ...]] = {
    "terminal-demo": ("python demo.py",),
    "terminal-agent": (
        'python remember.py "Please remember that my favourite tea is oolong."',
        'python remember.py "Which tea is my favourite?"',
        "kagent-memory list",
    ),
    "terminal-search": (
        'kagent-memory add "Ada\'s favourite tea is oolong." --app demo --user ada',
        'kagent-memory search "Which tea does Ada like?" --app demo --user ada',
    ),
    "terminal-doctor": (
        'kagent-memory add "Ada\'s favourite tea is oolong." --app demo --user ada',
        "kagent-memory doctor",
    ),
}
"""The commands of each picture; each picture begins in a folder of its own."""


def terminal(lines: list[str]) -> str:
    """Return a picture of a terminal; commands begin with a dollar sign."""
    height = 34 + 18 * len(lines) + 12
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 910 {height}" width="910" '
            f'height="{height}" role="img">'
        ),
        f'<style>{STYLE}</style><rect class="screen" width="910" height="{height}" rx="8"/>',
        '<path class="bar" d="M0 24 V8 a8 8 0 0 1 8 -8 H902 a8 8 0 0 1 8 8 V24 Z"/>',
    ]
    for number, line in enumerate(lines):
        style = "in" if line.startswith("$ ") else "out"
        place = f'x="14" y="{46 + 18 * number}" xml:space="preserve"'
        parts.append(f'<text class="{style}" {place}>{escape(line)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def run(commands: tuple[str, ...], folder: Path) -> list[str]:
    """Run commands in a folder; return them and their output, folded to the terminal's width."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": str(COLUMNS)}
    lines: list[str] = []
    for command in commands:
        ran = subprocess.run(  # noqa: S602 the commands stand above
            command,
            shell=True,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        printed = ran.stdout.rstrip().replace(f"{Path(sys.executable).parent}/", "")
        lines += [
            f"$ {command}",
            *(part for line in printed.splitlines() for part in _folded(line)),
        ]
    return lines


def program() -> str:
    """Return the tutorial's program, with a scripted model in place of Gemini."""
    page = (DOCS / "tutorial/agent.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    rehearsed = "from kagent_memory.testing import RehearsedModel\n"
    return rehearsed + code.replace('"gemini-2.5-flash"', "RehearsedModel()")


def _folded(line: str) -> list[str]:
    """Wrap a line at spaces and indent the continuation like the line itself."""
    indent = " " * (len(line) - len(line.lstrip()))
    parts = textwrap.wrap(line, COLUMNS, subsequent_indent=indent, replace_whitespace=False)
    return parts or [""]


if __name__ == "__main__":
    for name, commands in SESSIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "remember.py").write_text(program(), encoding="utf-8")
            shutil.copy(DOCS.parent / "samples/demo.py", folder)
            picture = terminal(run(commands, Path(folder)))
        (DOCS / f"images/{name}.svg").write_text(picture, encoding="utf-8")
