"""What the pages for people say is true: their Python runs, their settings and links exist."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
import reference_pages

import kagent_memory
from kagent_memory import Memories
from kagent_memory.cli import COMMANDS
from kagent_memory.cli.command import EXIT_CODES
from kagent_memory.server.app import create_app
from kagent_memory.settings import MemorySettings

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(page: Path) -> Iterator[str]:
    yield from BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": f"docs.{page.stem}"}
    with asyncio.Runner() as runner:
        for number, block in enumerate(blocks(page), 1):
            code = compile(block, f"{page.name}#{number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (awaited := eval(code, names)) is not None:
                runner.run(awaited)


def test_each_promise_of_security_names_tests_that_are_there():
    promises = (ROOT / "docs/security.md").read_text(encoding="utf-8").partition("## Promises")[2].partition("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    code = "".join(
        file.read_text(encoding="utf-8") for file in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("*/testing/*.py")]
    )
    there = set(re.findall(r"def (test_\w+)\(", code))
    for row in rows:
        named = set(re.findall(r"`(test_\w+)`", row))
        assert named, row
        assert named <= there, named - there


@pytest.mark.parametrize("page", ["kagent.md", "server.md"])
def test_each_block_of_a_how_to_runs_alone(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(blocks(ROOT / "docs/how-to" / page), 1):
        exec(compile(block, f"{page}#{number}", "exec"), {"__name__": f"docs.{page}"})


def test_the_program_of_the_quickstart_remembers_from_one_run_to_the_next(tmp_path: Path):
    program = next(blocks(ROOT / "docs/quickstart.md"))
    assert program.count('"gemini-2.5-flash"') == 1
    rehearsed = "from kagent_memory.testing import RehearsedModel\n"
    (tmp_path / "remember.py").write_text(rehearsed + program.replace('"gemini-2.5-flash"', "RehearsedModel()"))

    def say(text: str) -> str:
        command = [sys.executable, "remember.py", text]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "Noted." in say("Please remember that my favourite tea is oolong.")
    assert "Oolong: I found it in what was prefetched" in say("Which tea is my favourite?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).resolve().exists(), f"{page.name} links to {target}"


def test_the_program_of_the_catalogue_page_is_that_of_the_quickstart():
    assert next(blocks(ROOT / "docs/adk-integration.md")) == next(blocks(ROOT / "docs/quickstart.md"))


def test_the_catalogue_page_names_each_tool_and_each_method_of_adk_s_services():
    from google.adk.memory.base_memory_service import BaseMemoryService

    page = (ROOT / "docs/adk-integration.md").read_text(encoding="utf-8")
    tools = [getattr(kagent_memory, name)() for name in kagent_memory.__all__ if name.endswith("MemoryTool")]
    assert len(tools) == 7
    methods = [f"{name}(" for name in vars(BaseMemoryService) if not name.startswith("_")]
    for name in [*(f"`{tool.name}`" for tool in tools), *methods]:
        assert name in page, name


def build_site(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    mkdocs = str(Path(sys.executable).with_name("mkdocs"))
    command = [mkdocs, "build", "--strict", "--config-file", str(config), "--site-dir", str(target)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_site_has_every_page_and_its_links_lead_somewhere(tmp_path: Path):
    built = build_site(ROOT / "mkdocs.yml", tmp_path)
    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix().removesuffix("/index") for page in PAGES[1:]}
    assert {page for page in pages if not (tmp_path / page / "index.html").exists()} == set()
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="quickstart/"' in first
    assert 'href="samples/"' in first
    assert 'href="../samples/#agent_toolpy"' in (tmp_path / "quickstart/index.html").read_text(encoding="utf-8")
    for name, page in reference_pages.SITE_PAGES.items():
        built_page = tmp_path / "reference" / (name if name.endswith(".json") else f"{name[:-3]}/index.html")
        assert built_page.exists(), name
        assert (built_page.read_text(encoding="utf-8") == page()) is name.endswith(".json")
    links = re.findall(r'href="([^"]+)"', (tmp_path / "reference/http/index.html").read_text(encoding="utf-8"))
    assert {"../python/", "../cli/", "../openapi.json", "../settings/"} <= set(links)
    samples = (tmp_path / "samples/index.html").read_text(encoding="utf-8")
    assert all(f'id="{sample.stem}py"' in samples for sample in (ROOT / "samples").glob("*.py"))


def test_a_broken_link_fails_the_site_and_is_named(tmp_path: Path):
    broken = ["gone.md", "../docs-gone.md", "page.md#no-such-heading", "../tests/loopback.py", "../samples/lost.py"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("# A page\n\n" + " ".join(f"[A link]({link})." for link in broken) + "\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {(ROOT / 'mkdocs.yml').as_posix()}\nhooks: [{(ROOT / 'docs/site_pages.py').as_posix()}]\n"
        "nav: [page.md]\ntheme: {name: mkdocs}\nvalidation: {nav: {omitted_files: ignore}}\n"
    )
    built = build_site(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    for named in ("gone.md", "docs-gone.md", "#no-such-heading", "tests/loopback.py", "samples.md#lostpy"):
        assert f"{named}'" in built.stderr


def test_the_picture_of_the_design_is_that_of_the_import_linter_and_of_the_folders():
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    picture = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1].splitlines()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [layer.strip("()") for layer in contracts[0]["layers"]]
    assert picture == [layer for layer in layers if layer != "__main__"]
    rooms = [room for layer in picture for room in layer.split(" | ")]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == rooms
    there = {path.stem for path in (ROOT / "kagent_memory").iterdir() if path.suffix in ("", ".py")}
    assert {name for name in there if not name.startswith("__")} == {*rooms, "testing"}


def test_every_setting_is_documented_with_its_default():
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    for field in fields(MemorySettings):
        default = getattr(MemorySettings(), field.name)
        row = f"| `{field.name}` | `{reference_pages.shown(default)}` |"
        assert row in page, row
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert named == {field.name for field in fields(MemorySettings)}


def test_the_page_of_the_settings_says_what_the_code_says():
    written = reference_pages.SETTINGS_PAGE.read_text(encoding="utf-8")
    assert written == reference_pages.settings_page(), "write it anew: make docs"


def test_the_page_of_python_names_every_public_name_and_every_verb():
    page = reference_pages.python_page()
    headings = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(kagent_memory.__all__)
    verbs = re.search(r"^### Memories$.*?^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert verbs
    named = set(re.findall(r"^(?:async )?def (\w+)\(", verbs[1], re.MULTILINE))
    assert named == {
        name for name, _ in inspect.getmembers(Memories, inspect.isfunction) if not name.startswith("_")
    } | {"open"}


def test_the_page_of_the_command_line_names_every_command_option_and_exit_code():
    head, *sections = re.split(r"^## ", reference_pages.cli_page(), flags=re.MULTILINE)
    page = {title: text for title, _, text in (section.partition("\n") for section in sections)}
    assert "kagent-memory" in head
    assert [title for title in page if title in {command.name for command in COMMANDS}] == [c.name for c in COMMANDS]
    for command in COMMANDS:
        for word in [word for option in command.options for word in option.words]:
            assert f"`{word}`" in page[command.name], (command.name, word)
    assert all(f"| {code} |" in page["Exit codes"] for code in EXIT_CODES)


async def test_openapi_is_what_a_server_answers_and_has_every_route_of_the_page_of_http():
    async def never_opened() -> Memories:
        raise NotImplementedError

    described = json.loads(reference_pages.openapi())
    transport = httpx.ASGITransport(app=create_app(never_opened))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/openapi.json")).json() == described
    page = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    named, there = (
        {re.sub(r"{\w+}", "{}", path) for path in paths}
        for paths in (re.findall(r"(?<=[` ])/api/v1/[\w/{}]+", page), described["paths"])
    )
    assert named
    assert named <= there
