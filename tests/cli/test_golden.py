"""The help of each command and the shape of each JSON answer, held against golden files. `make
docs` writes a deliberate change, which is then reviewed like code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagent_memory import Fact, Memories
from kagent_memory.cli import COMMANDS, parse

from .conftest import OF_ADA, SCOPE, Run, dead_letter

GOLDEN = Path(__file__).parent / "golden"
HELP, SHAPES = GOLDEN / "help.txt", GOLDEN / "json.txt"
WITHOUT_JSON = {"serve", "mcp", "export"}  # they serve, or write a format of their own
ELSEWHERE = {"reembed"}  # they need a model, an embedder; tested beside those


def check(path: Path, text: str, normalised: Callable[[str], object] = str) -> None:
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert normalised(text) == normalised(path.read_text(encoding="utf-8")), (
        "if it is meant: make docs"
    )


def test_the_help_of_every_command_is_as_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The help of a command changes only together with its golden file."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    pages: list[str] = []
    for name in ("", "token", *(command.title for command in COMMANDS)):
        assert parse([*name.split(), "--help"]) == 0
        pages.append(
            f"$ kagent-memory {name} --help\n{capsys.readouterr().out}".replace(
                "  --help", " --help"
            )
        )
    # Pythons break the lines of a usage in different places
    check(HELP, "\n".join(pages), str.split)


def shape(value: Any, place: str = "") -> Iterator[str]:
    """Yield the paths of a JSON document, each with the type of what is there."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from shape(inner, f"{place}.{key}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from shape(inner, f"{place}[]")
    else:
        kinds = {
            dict: "{}",
            list: "[]",
            str: "text",
            bool: "true or false",
            int: "number",
            float: "number",
        }
        yield f"{place or '.'}: {kinds.get(type(value), 'null')}"


async def _fill(uri: str) -> tuple[list[str], list[str]]:
    """Leave two dead jobs and two quarantined memories; return their ids."""
    async with await Memories.open(uri, worker=False, quarantine="tool") as memories:
        dead = [await dead_letter(memories, place) for place in ("Rome", "Oslo")]
        facts = [Fact(f"The tool said {number}", origin="tool") for number in (1, 2)]
        return dead, await memories.add(SCOPE, facts)


def test_the_shape_of_every_json_answer_is_as_before(
    uri: str, run: Callable[..., Run], tmp_path: Path
):
    """The shape of a JSON answer changes only together with its golden file."""
    shapes: dict[str, list[str]] = {}

    def tell(name: str, *words: str) -> Any:
        result = run(*name.split(), *words, "--json")
        shapes[f"{name}, exit code {result.code}"] = list(dict.fromkeys(shape(result.json)))
        return result.json

    tell("migrate")
    [id] = tell(
        "add", "Ada likes tea", *OF_ADA, "--topic", "tea", "--tag", "drink", "--category", "taste"
    )["ids"]
    dead, quarantined = asyncio.run(_fill(uri))
    tell("jobs")
    tell("jobs --retry", dead[0])
    tell("jobs --drop", dead[1])
    tell("worker", "--until-idle")
    tell("list --quarantined", *OF_ADA)
    tell("confirm", quarantined[0])
    tell("forget", quarantined[1])
    tell("search", "tea", *OF_ADA, "--explain")
    tell("list", *OF_ADA, "--limit", "1")
    tell("show", id)
    tell("edit", id, "--content", "Ada likes green tea", "--why", "she said so")
    tell("history", id)
    tell("pin", id)
    tell("undo", id)
    tell("show")
    tell("doctor")
    tell("prune", "--dry-run")
    token = tell("token create", "--user", "ada", "--label", "ci", "--days", "30")
    tell("token list")
    tell("token revoke", token["id"])
    (tmp_path / "export.jsonl").write_text(run("export").out, encoding="utf-8")
    tell("import", str(tmp_path / "export.jsonl"), "--dry-run")
    tell("audit")
    tell("forget", id)
    tell("receipts")
    tell("receipts --check")
    tell("forget-tenant", "acme", "--yes")
    tell("show", "nothing")
    missing = {command.title for command in COMMANDS} - {name.partition(",")[0] for name in shapes}
    assert missing == WITHOUT_JSON | ELSEWHERE
    check(
        SHAPES,
        "".join(
            f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in shapes.items()
        ),
    )
