"""The workflows of GitHub Actions: valid, safe, and made of commands that are there; no runner runs
here.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from optional import program

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def tool(name: str, *arguments: str) -> str:
    command = [program(name), *arguments]
    process = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_each_file_is_valid_and_safe():
    """The files fit GitHub's schema, zizmor finds nothing unsafe, and none knows a secret."""
    assert not any("secrets." in file.read_text(encoding="utf-8") for file in FILES)
    tool("zizmor", "--offline", "--no-progress", str(GITHUB))
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, FILES))
    tool(
        "check-jsonschema", "--builtin-schema", "vendor.dependabot", str(GITHUB / "dependabot.yml")
    )


def test_the_lock_names_public_hosts_only():
    """The lock file fits pyproject.toml's extras and names PyPI's hosts alone."""
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://([^/\"]+)", text)) == {"pypi.org", "files.pythonhosted.org"}
    (ours,) = (
        entry for entry in tomllib.loads(text)["package"] if entry["name"] == PROJECT["name"]
    )
    assert set(ours["optional-dependencies"]) == set(PROJECT["optional-dependencies"])
