"""What commands say, held against golden files: the help of each, and the shape of each JSON
answer.

A deliberate change is written by `make docs`, and then reviewed like code.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagent_memory import Fact, Memories, Message, Scope
from kagent_memory.cli import COMMANDS, GROUPS, main, parser

GOLDEN = Path(__file__).parent / "golden"
HELP, SHAPES = GOLDEN / "help.txt", GOLDEN / "json.txt"
OF_ADA = ("--app", "demo", "--user", "ada")
WITHOUT_JSON = {"serve", "export"}  # they serve, or write a format of their own
ELSEWHERE = {"demo", "reembed"}  # they need a model, an embedder; tested beside those


def check(path: Path, said: str, normalised: Callable[[str], object] = str) -> None:
    if os.environ.get("GOLDEN") == "write":
        path.write_text(said, encoding="utf-8")
    assert normalised(said) == normalised(path.read_text(encoding="utf-8")), (
        "if it is meant: make docs"
    )


def test_the_help_of_every_command_is_as_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help of a command changes only together with its golden file."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    pages: list[str] = []
    for name in ("", *GROUPS, *(command.name for command in COMMANDS)):
        with pytest.raises(SystemExit) as end:
            parser().parse_args([*name.split(), "--help"])
        assert end.value.code == 0
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
    scope, dead = Scope("", "ada", "demo"), list[str]()
    async with await Memories.open(uri, worker=False, quarantine="tool") as memories:
        for place in ("Rome", "Oslo"):
            await memories.remember(
                scope, [Message(text=f"I moved to {place}", event_id=place)], place
            )
            now = datetime.now(UTC)
            job = await memories.store.queue.claim("test", now=now, lease_seconds=5)
            assert job
            await memories.store.queue.release(job, run_after=now, error="it failed", dead=True)
            dead.append(job.id)
        facts = [Fact(f"The tool said {number}", origin="tool") for number in (1, 2)]
        return dead, await memories.add(scope, facts)


def test_the_shape_of_every_json_answer_is_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shape of a JSON answer changes only together with its golden file."""
    uri = f"libsql:///{tmp_path}/memory.db"
    monkeypatch.setenv("KAGENT_MEMORY_URI", uri)
    shapes: dict[str, list[str]] = {}

    def run(name: str, *words: str) -> Any:
        capsys.readouterr()
        code = main([*name.split(), *words, "--json"])
        answer = json.loads(capsys.readouterr().out)
        shapes[f"{name}, exit code {code}"] = list(dict.fromkeys(shape(answer)))
        return answer

    run("migrate")
    [id] = run(
        "add", "Ada likes tea", *OF_ADA, "--topic", "tea", "--tag", "drink", "--category", "taste"
    )["ids"]
    dead, waiting = asyncio.run(_fill(uri))
    run("jobs")
    run("jobs --retry", dead[0])
    run("jobs --drop", dead[1])
    run("worker", "--until-idle")
    run("list --quarantined", *OF_ADA)
    run("confirm", waiting[0])
    run("forget", waiting[1])
    run("search", "tea", *OF_ADA, "--explain")
    run("list", *OF_ADA, "--limit", "1")
    run("show", id)
    run("edit", id, "--content", "Ada likes green tea", "--why", "she said so")
    run("history", id)
    run("pin", id)
    run("undo", id)
    run("show")
    run("doctor")
    run("prune", "--dry-run")
    token = run("token create", "--user", "ada", "--label", "ci", "--days", "30")
    run("token list")
    run("token revoke", token["id"])
    main(["export"])
    (tmp_path / "export.jsonl").write_text(capsys.readouterr().out, encoding="utf-8")
    run("import", str(tmp_path / "export.jsonl"), "--dry-run")
    run("audit")
    run("forget", id)
    run("receipts")
    run("receipts --check")
    run("forget-tenant", "acme", "--yes")
    run("show", "nothing")
    missing = {command.name for command in COMMANDS} - {name.partition(",")[0] for name in shapes}
    assert missing == WITHOUT_JSON | ELSEWHERE
    check(
        SHAPES,
        "".join(
            f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in shapes.items()
        ),
    )
