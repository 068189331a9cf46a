"""The workflows of GitHub Actions: valid, safe, and made of commands that are there; no runner runs here."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.yml"))
WORKFLOWS: dict[str, dict[str, Any]] = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in FILES}
JOBS = {f"{stem}:{name}": job for stem, workflow in WORKFLOWS.items() for name, job in workflow["jobs"].items()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def tool(name: str, *arguments: str) -> str:
    command = [str(Path(sys.executable).with_name(name)), *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return job.get("steps", [])


def test_each_file_fits_github_s_schema():
    tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, FILES))
    tool("check-jsonschema", "--builtin-schema", "vendor.dependabot", str(GITHUB / "dependabot.yml"))


def test_zizmor_finds_nothing_unsafe():
    tool("zizmor", "--offline", "--no-progress", str(GITHUB))


@pytest.mark.parametrize("name", sorted(JOBS))
def test_a_job_has_no_right_that_it_does_not_need_and_an_end(name: str):
    stem, _, job = name.partition(":")
    assert WORKFLOWS[stem]["permissions"] == {}
    wanted = {"id-token": "write"} if job == "publish" else {"contents": "read"}
    assert JOBS[name]["permissions"] == wanted
    assert "uses" in JOBS[name] or JOBS[name]["timeout-minutes"] <= 120


def test_no_workflow_knows_a_secret():
    for file in FILES:
        assert "secrets." not in file.read_text(encoding="utf-8")


def test_only_a_tag_publishes_and_only_what_was_tested():
    assert [name for name, job in JOBS.items() if "id-token" in job["permissions"]] == ["release:publish"]
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads the key `on` as true
    assert JOBS["release:publish"]["needs"] == "ci"
    assert JOBS["release:ci"]["needs"] == "version"
    assert not any(step.get("uses", "").startswith("actions/checkout") for step in steps(JOBS["release:publish"]))
    (up,) = (step for step in steps(JOBS["ci:build"]) if "upload-artifact" in step.get("uses", ""))
    (down,) = (step for step in steps(JOBS["release:publish"]) if "download-artifact" in step.get("uses", ""))
    assert up["with"]["name"] == down["with"]["name"]


@pytest.mark.parametrize(("tag", "fits"), [(f"v{PROJECT['version']}", True), ("v99.0.0", False), ("v", False)])
def test_a_tag_that_is_not_the_version_publishes_nothing(tag: str, fits: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GITHUB_REF_NAME", tag)
    (check,) = (step["run"] for step in steps(JOBS["release:version"]) if "run" in step)
    ran = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (ran.returncode == 0) is fits
    assert fits or PROJECT["version"] in ran.stderr


def test_every_target_of_make_and_every_file_that_is_named_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name, job in JOBS.items():
        runs = "\n".join(step.get("run", "") for step in steps(job))
        made = set(re.findall(r"\b[a-z][a-z-]+\b", " ".join(re.findall(r"^make (.*)$", runs, re.MULTILINE))))
        assert made <= targets, name
        for path in re.findall(r"\btests/[\w./]+", runs):
            assert (ROOT / path).exists(), path
    assert JOBS["weekly:long"]


def test_the_pythons_that_are_tested_are_those_that_the_package_names():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert JOBS["ci:tests"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
