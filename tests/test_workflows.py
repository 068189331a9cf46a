"""The workflows of GitHub Actions: valid, safe, and made of commands that are there; no runner runs
here.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml
from optional import program

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.yml"))
WORKFLOWS: dict[str, dict[Any, Any]] = {
    file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in FILES
}
JOBS = {
    f"{stem}:{name}": job
    for stem, workflow in WORKFLOWS.items()
    for name, job in workflow["jobs"].items()
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def tool(name: str, *arguments: str) -> str:
    command = [program(name), *arguments]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return job.get("steps", [])


def test_each_file_is_valid_and_safe():
    """The files fit GitHub's schema, zizmor finds nothing unsafe, and none knows a secret."""
    assert not any("secrets." in file.read_text(encoding="utf-8") for file in FILES)
    tool("zizmor", "--offline", "--no-progress", str(GITHUB))
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, FILES))
    tool(
        "check-jsonschema", "--builtin-schema", "vendor.dependabot", str(GITHUB / "dependabot.yml")
    )


def test_only_a_tag_publishes_and_only_what_was_tested():
    """Only a tag publishes, and it publishes the build that CI tested."""
    assert [name for name, job in JOBS.items() if "id-token" in job["permissions"]] == [
        "release:publish"
    ]
    # YAML 1.1 reads the key `on` as true
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}
    assert JOBS["release:publish"]["needs"] == "ci"
    assert JOBS["release:ci"]["needs"] == "version"
    assert not any(
        step.get("uses", "").startswith("actions/checkout")
        for step in steps(JOBS["release:publish"])
    )
    (up,) = (step for step in steps(JOBS["ci:build"]) if "upload-artifact" in step.get("uses", ""))
    (down,) = (
        step
        for step in steps(JOBS["release:publish"])
        if "download-artifact" in step.get("uses", "")
    )
    assert up["with"]["name"] == down["with"]["name"]


def test_the_lock_names_public_hosts_only():
    """The lock file fits pyproject.toml's extras and names PyPI's hosts alone."""
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://([^/\"]+)", text)) == {"pypi.org", "files.pythonhosted.org"}
    (ours,) = (
        entry for entry in tomllib.loads(text)["package"] if entry["name"] == PROJECT["name"]
    )
    assert set(ours["optional-dependencies"]) == set(PROJECT["optional-dependencies"])
