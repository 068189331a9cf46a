"""The main job, as the README shows it: an agent learns in one process and remembers in another,
offline.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagent_memory.cli import main
from kagent_memory.errors import ModelError
from kagent_memory.testing import ScriptedModel, demo

# Loaded by every Python below it: notes that it runs, and who is called beyond this machine.
WATCH = """
import ipaddress, os, sys

def _note(line):
    with open(os.environ["WATCHED"], "a") as file:
        file.write(line + "\\n")

def _here(host):
    try:
        return host in (None, "", b"", "localhost") or ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False

def _watch(event, args):
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    if not _here(host):
        _note(f"reached for {host}")
        raise OSError(f"no way out to {host}")

_note(f"watched {os.getpid()}")
sys.addaudithook(_watch)
"""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in; each process that is started there notes every socket beyond loopback,
    and opens none.
    """
    # Not below pytest's own folder: it is closed to the user that a private PostgreSQL runs as.
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        folder = Path(name)
        (folder / "watch").mkdir()
        (folder / "watch/sitecustomize.py").write_text(WATCH)
        path = [str(folder / "watch"), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        monkeypatch.setenv("WATCHED", str(folder / "watched"))
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.chdir(folder)
        yield folder


@pytest.mark.parametrize(
    "options", [["--json", "--directory", "new/memories"], ["--store", "postgres"]], ids=" ".join
)
def test_the_demo_remembers_across_two_processes(
    watched: Path, options: list[str], capsys: pytest.CaptureFixture[str]
):
    """The demo remembers across two processes without leaving this machine, in a directory of its
    own.
    """
    assert main(["demo", *options]) == 0
    told = capsys.readouterr().out
    if "--json" in options:
        answer = json.loads(told)
        told = "\n".join([*answer["transcript"], ""])
        directory = Path(answer["directory"])
        assert directory == (watched / "new/memories").resolve()
        assert (directory / "memory.db").exists()
        look = ["list", "--uri", answer["uri"], "--app", "demo", "--user", "ada"]
    else:
        kept = re.search(r"The memories are in (\S+); look at them with:\n +\S+ (.+)", told)
        assert kept
        directory, look = Path(kept[1]), shlex.split(kept[2])
    assert told.count("\n") <= 30
    first, second, verbs = re.split("-- process 2, (?:session|by the verbs)", told)
    assert 'tool:      save_memory({"content": "my favourite tea is oolong."})' in first
    assert "assistant: Oolong: I found it in what was prefetched" in second
    assert 'tool:      load_memory({"query": "What was the matter with ERR-00123?"})' in second
    assert re.search(r"I looked it up: .*full disk on host db-7", second)
    assert re.search(r'recall: +"[^"]*my favourite tea is sencha\."\n', verbs)
    assert re.search(
        r'forget: +"The surprise party .*"; its session, saved again, brought back 0\n', verbs
    )
    assert re.search(r"receipt: +1 memory, .* by ada: [0-9a-f]{64}\n", verbs)
    assert len(set(re.findall(r"-- process [12], session (\w+)", told))) == 2
    assert list(directory.iterdir())
    assert main(look) == 0
    assert "surprise party" not in capsys.readouterr().out
    notes = (watched / "watched").read_text().splitlines()
    assert len({note for note in notes if note.startswith("watched ")}) >= 2
    assert [note for note in notes if note.startswith("reached for ")] == []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--directory", "full"], 2, "full is not empty"),
        (["--directory", "full/letter.txt"], 5, "Nothing can be written to full/letter.txt"),
        (["--directory", "/proc/demo"], 5, "Nothing can be written to /proc/demo"),
        ([], 5, "Invalid value for the setting ttl_days"),
    ],
)
def test_a_failed_demo_says_why_in_one_line(
    options: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """A place that holds something or cannot be written, or a half that fails, ends it with the
    family's exit code, and nothing that it did not make is touched.
    """
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "full/letter.txt"
    mine.parent.mkdir()
    mine.write_text("Dear Ada")
    monkeypatch.setenv("KAGENT_MEMORY_TTL_DAYS", "x")
    assert main(["demo", "--json", *options]) == code
    captured = capsys.readouterr()
    assert message in json.loads(captured.out)["error"]["message"]
    assert "Traceback" not in captured.out + captured.err
    assert mine.read_text() == "Dear Ada"


def test_an_error_of_a_models_client_is_told_as_ours(monkeypatch: pytest.MonkeyPatch):
    """An error of a model's client, which another process may not be able to read, becomes ours."""
    failing = ScriptedModel(OSError("quota"))
    monkeypatch.setattr(demo, "RehearsedModel", lambda: failing)
    with pytest.raises(ModelError, match=r"The demo with the rehearsed model failed .*quota"):
        demo.run_half(1, "libsql:///:memory:", "demo", "ada", "")
