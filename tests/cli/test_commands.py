"""Commands as users run them: output, JSON, exit codes, and the page written from them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from kagent_memory.cli import COMMANDS, main, parse
from kagent_memory.cli.command import Call
from kagent_memory.memories import Memories
from kagent_memory.records import new_id

from .conftest import OF_ADA, SCOPE, serving


@pytest.fixture
def id(run: Any) -> str:
    return run("add", "Ada likes tea", *OF_ADA, "--topic", "tea", "--json").json["ids"][0]


def test_forget_erases_what_is_there_and_names_the_rest(run: Any, id: str):
    """`forget` erases the ids that are there together, with one receipt, and names the others with
    the code of not found.
    """
    unknown = new_id(datetime.now(UTC))
    result = run("forget", id, unknown, *OF_ADA)
    assert (result.code, result.out) == (3, "")
    assert f"{unknown} in this scope. The others were erased." in result.err
    ids = run("add", "Ada likes coffee", "Ada likes milk", *OF_ADA, "--json").json["ids"]
    assert {*run("forget", *ids, *OF_ADA, "--json").json["forgotten"]} == {*ids}
    assert "erased" not in run("forget", id, *OF_ADA).err
    assert [receipt["memories"] for receipt in run("receipts", "--json").json] == [1, 2]


def test_every_example_is_a_command_that_parses():
    """There are at most 26 commands, and the examples of each parse."""
    assert len(COMMANDS) <= 26
    for command in COMMANDS:
        assert command.examples
        for example in command.examples:
            words = example.partition(" <")[0].partition(" >")[0].replace('"', "").split()[1:]
            if '"' not in example:
                call = parse(words)
                assert isinstance(call, Call)
                assert call.command is command


def test_a_memory_lives_on_the_command_line(run: Any, id: str, tmp_path: Path):
    """From `edit` to `forget`, each command sees what the one before it did to a memory."""
    file = tmp_path / "bob"
    text = run("export").out.replace('"links":[', f'"links":["{id}"')
    file.write_text(text.replace('"ada"', '"bob"'))
    run("edit", id, "--content", "Ada likes green tea", "--why", "said so")
    assert "Ada likes green tea" in run("list").out
    assert "said so" in run("history", id).out
    assert run("undo", id, "--json").json[0]["content"] == "Ada likes tea"
    assert run("pin", id, "--off", "--json").json["pinned"] is False
    dry = run("forget", id, "--dry-run", "--json")
    assert dry.json == {"would_forget": [id], "linked": []}
    assert "nothing was" in dry.err
    assert run("forget", id, "--json").json == {"forgotten": [id]}
    assert run("show", id, *OF_ADA).code == 3
    run("import", str(file))
    assert f"linked with {id}" in run("list").out


def test_everything_is_forgotten_only_on_a_clear_word(run: Any, id: str):
    """`forget --everything` erases nothing without `--yes`."""
    refused = run("forget", "--everything")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert run("forget", "--everything", "--dry-run").code == 0
    assert run("forget", "--everything", "--yes", "--json").json == {"forgotten": [id]}


def test_an_id_may_be_given_by_its_beginning(run: Any, id: str):
    """The beginning of an id names its memory; one that fits several is refused."""
    assert run("show", id[:30], "--json").json["id"] == id
    other = run("add", "Ada likes coffee", *OF_ADA, "--json").json["ids"][0]
    same = id[: next(at for at in range(36) if id[at] != other[at])]
    result = run("show", same)
    assert (result.code, "2 ids begin with" in result.err) == (2, True)
    assert run("forget", other[: len(same) + 1], "--json").json == {"forgotten": [other]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada " + "very " * 100 + "much likes tea", "Ada " + "very " * 100 + "much likes tea"),
        ("\x1b]0;owned\x07 red \x1b[31m", "\ufffd]0;owned\ufffd red \ufffd[31m"),
    ],
)
def test_a_pipe_gets_whole_texts_that_drive_no_terminal(run: Any, text: str, shown: str):
    """A program that reads a table gets whole texts, without control characters."""
    run("add", text, *OF_ADA)
    assert shown in run("list").out


@pytest.mark.parametrize("colours", [True, False])
def test_a_terminal_gets_colours_and_at_least_60_columns_of_text(uri: str, colours: bool):
    """On a terminal ids are short but name one memory, a text has 60 columns or more, and NO_COLOR
    is honoured.
    """
    text = "x" * 70
    asyncio.run(_stored(uri, text))
    environ = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "" if colours else "1"}
    command = f"{sys.executable} -m kagent_memory list --limit 1"
    out = subprocess.run(
        ["script", "-qec", command, "/dev/null"], env=environ, capture_output=True, text=True
    ).stdout
    assert "x" * 59 in out
    assert main(["show", out.split()[6]]) == 0
    assert ("\x1b[1m" in out) == colours


async def _stored(uri: str, text: str) -> None:
    async with await Memories.open(uri, worker=False) as memories:
        await memories.add(SCOPE, ["y", text])


@pytest.mark.parametrize(
    ("shell", "words", "word"),
    [("bash", "list --o", "2"), ("fish", "list", "--o")],
)
def test_a_shell_completes_commands_and_options(
    run: Any, shell: str, words: str, word: str, monkeypatch: pytest.MonkeyPatch
):
    """The script for a shell asks the program for commands and their options."""
    monkeypatch.setenv("_KAGENT_MEMORY_COMPLETE", f"{shell}_source")
    assert f"{shell}_complete" in run().out
    monkeypatch.setenv("_KAGENT_MEMORY_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", f"kagent-memory {words}")
    monkeypatch.setenv("COMP_CWORD", word)
    assert "--order" in run().out


def test_show_and_explain_are_for_people(run: Any, id: str):
    """`show` says when a memory expires, and `--explain` why it was found, without Python's
    notation.
    """
    assert re.search(r"expires +2\d{3}-", run("show", id).out)
    run("pin", id)
    assert re.search(r"expires +never", run("show", id).out)
    explained = run("search", "tea", "--explain").out
    assert "It shares words with your question." in explained
    assert "{" not in explained


def test_several_scopes_are_named_rather_than_guessed(run: Any, id: str):
    """A command that fits several scopes names them and stops, rather than guess one."""
    run("add", "x", "--app", "demo", "--user", "bob")
    result = run("list")
    assert (result.code, "--app demo --user" in result.err) == (3, True)
    assert "Ada likes tea" in run("list", "--user", "ada").out


def test_lines_of_standard_input_are_added(run: Any, monkeypatch: pytest.MonkeyPatch):
    """`add` without texts takes each line of standard input that is not empty."""
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("one\n\ntwo\n"))
    assert len(run("add", *OF_ADA, "--json").json["ids"]) == 2


def test_the_doctor_ends_with_what_it_found(run: Any, id: str):
    """The exit code is 1 where something does not work, and what is bad comes with advice."""
    assert run("doctor").code == 0
    for words in (["--uri", "postgresql://nobody@127.0.0.1:9/x"], ["--set", "ttl_days=soon"]):
        sick = run("doctor", "--json", *words)
        bad = [finding for finding in sick.json if finding["state"] == "bad"]
        assert (sick.code, len(bad)) == (1, 1)
        assert bad[0]["advice"]


def test_serve_serves_until_it_is_stopped(uri: str):
    """`serve` answers over HTTP and gRPC, and what it was given is there after SIGTERM."""
    with serving("--grpc-port", "0", "--uri", uri) as (process, stderr):
        [address, port] = re.findall(r"on (\S+)[,;]", stderr)
        with grpc.insecure_channel(port) as channel:
            grpc.channel_ready_future(channel).result(60)
        info = httpx.get(f"{address}/api/v1/info", timeout=120).json()
        assert info["mode"] == "keyword"
        assert main(["add", "over http", *OF_ADA, "--uri", address]) == 0
        assert main(["doctor", "--uri", address]) == 0
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=120)
        assert (process.returncode, "Traceback" in stderr) == (0, False), stderr
    assert main(["search", "http", *OF_ADA]) == 0


def test_a_search_may_cover_other_scopes(run: Any):
    """A search covers what `--beside` names, and with `--all` what the other options leave open."""
    own, team, shop = ("demo", "ada"), ("demo", "team"), ("shop", "ada")
    for app, user in (own, team, shop):
        run("add", f"Tea of {app} {user}", "--app", app, "--user", user)
    run("add", "Tea of others", *OF_ADA, "--tenant", "x")

    def search(*words: str) -> list[tuple[str, str]]:
        hits = run("search", "tea", "--limit", "9", "--json", *words).json["hits"]
        return sorted((hit["scope"]["app"], hit["scope"]["user"]) for hit in hits)

    assert search(*OF_ADA, "--beside", *team, "--beside", *shop) == [own, team, shop]
    assert search("--user", "ada", "--all") == [own, shop]
    assert search("--app", "demo", "--all") == [own, team]
    assert search("--all", "--tenant", "x") == [own]
