"""The pages are true: their Python runs, and their commands, settings and links exist."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diagrams
import httpx
import pytest
import reference_pages
from optional import package

import kagent_memory
from kagent_memory import KagentMemoryService, Memories, errors
from kagent_memory.cli import parse
from kagent_memory.memories.verbs import verbs_of
from kagent_memory.server.app import create_app

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ *\$ (?:\w+=\S+ )*kagent-memory (.*?[^\\])$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[str]:
    yield from BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(blocks(page))], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The blocks of a page run one after another, in one folder; those of recipes each alone, as a
    program.
    """
    monkeypatch.chdir(tmp_path)
    alone = page.name in ("cookbook.md", "kagent.md", "server.md")
    names: dict[str, Any] = {}
    opened = set[KagentMemoryService]()
    with asyncio.Runner() as runner:
        for number, block in enumerate(blocks(page), 1):
            flags = 0 if alone else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(block, f"{page.name}#{number}", "exec", flags=flags)
            names = {} if alone else names
            names.setdefault("__name__", f"docs.{page.stem}")
            if (awaited := eval(code, names)) is not None:
                runner.run(awaited)
            opened |= {one for one in names.values() if isinstance(one, KagentMemoryService)}
        for service in opened:  # which a program ends with
            runner.run(service.close())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_are_accepted(page: Path):
    """Every `$ kagent-memory …` of a page has a command and options that exist."""
    for shown in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(shown.replace("\\\n", " ").partition("  #")[0])
        ends = [number for number, word in enumerate(words) if word in ("|", ">")]
        parse(words[: min(ends, default=len(words))])


def test_each_security_promise_names_its_tests():
    """Every row of the promises names at least one test, and all of them exist."""
    promises = (
        (ROOT / "docs/security.md")
        .read_text(encoding="utf-8")
        .partition("## Promises")[2]
        .partition("\n## ")[0]
    )
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    code = "".join(
        file.read_text(encoding="utf-8")
        for file in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("*/testing/*.py")]
    )
    tests = set(re.findall(r"def (test_\w+)\(", code))
    for row in rows:
        named = set(re.findall(r"`(test_\w+)`", row))
        assert named, row
        assert named <= tests, named - tests


def test_troubleshooting_names_every_error():
    """The table of errors has each typed error with its exit code."""
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.KagentMemoryError)
    ]
    for kind in kinds:
        if kind is not errors.KagentMemoryError:
            row = re.search(rf"^\| `{kind.__name__}` \|.*\| (\d+) \|$", page, re.MULTILINE)
            assert row, kind
            assert int(row[1]) == kind.family.exit_code


@pytest.mark.parametrize("name", sorted(diagrams.DIAGRAMS))
def test_a_diagram_is_what_its_script_draws(name: str):
    """The committed picture is what `docs/diagrams.py` draws, and a page shows it."""
    drawn = diagrams.DIAGRAMS[name]().svg()
    assert (diagrams.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == drawn
    assert any(f"images/{name}.svg" in page.read_text(encoding="utf-8") for page in PAGES)


def test_the_tutorials_program_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The tutorial's program remembers from one run to the next."""
    program = next(blocks(ROOT / "docs/tutorial/agent.md"))
    assert program.count('"gemini-2.5-flash"') == 1
    rehearsed = "from kagent_memory.testing import RehearsedModel\n"
    (tmp_path / "remember.py").write_text(
        rehearsed + program.replace('"gemini-2.5-flash"', "RehearsedModel()")
    )
    monkeypatch.chdir(tmp_path)
    # a busy machine is no database that answers nothing
    monkeypatch.setattr("kagent_memory.adk.loop_thread.PATIENCE_SECONDS", 60.0)

    def say(text: str) -> str:
        monkeypatch.setattr(sys, "argv", ["remember.py", text])
        runpy.run_path("remember.py", run_name="__main__")
        return capsys.readouterr().out

    assert "Noted." in say("Please remember that my favourite tea is oolong.")
    assert "Oolong: I found it in what was prefetched" in say("Which tea is my favourite?")


def test_the_site_has_every_page(tmp_path: Path):
    """Every page is in the site, its links lead somewhere, and Sphinx warns of nothing."""
    package("sphinx")
    built = subprocess.run(
        [sys.executable, str(ROOT / "docs/build_site.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    names = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES[1:]}
    assert {name for name in names if not (tmp_path / name / "index.html").exists()} == set()
    cookbook = (tmp_path / "cookbook/index.html").read_text(encoding="utf-8")
    assert 'href="../samples/#agent-tool-py"' in cookbook


def test_the_page_of_the_settings_is_up_to_date():
    """The committed page is the one that the code generates."""
    written = reference_pages.SETTINGS_PAGE.read_text(encoding="utf-8")
    assert written == reference_pages.settings_page(), "run make docs"


def test_the_page_of_python_names_every_public_name():
    """The page of Python has every public name, and no method of `Memories` but its verbs."""
    page = reference_pages.python_page()
    headings = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(kagent_memory.__all__)
    shown = set(re.findall(r"def (\w+)", page.partition("### Memories\n")[2].partition("### ")[0]))
    assert shown == verbs_of(Memories).keys() | {"open", "close", "each_scope"}


async def test_openapi_has_every_route_of_the_server_page():
    """`openapi.json` is what a server answers, and has every route that the page names."""
    described = json.loads(reference_pages.openapi())
    async with (
        await Memories.open("libsql:///:memory:", llm=False, worker=False) as memories,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=create_app(memories)), base_url="http://localhost"
        ) as client,
    ):
        assert (await client.get("/openapi.json")).json() == described
    page = (ROOT / "docs/how-to/server.md").read_text(encoding="utf-8")
    named, routes = (
        {re.sub(r"{\w+}", "{}", path) for path in paths}
        for paths in (re.findall(r"(?<=[` ])/api/v1/[\w/{}]+", page), described["paths"])
    )
    assert named
    assert named <= routes
