"""The main job, as the README shows it: an agent learns in one process and remembers in another,
offline.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagent_memory.cli import main

DEMO = Path(__file__).parent.parent / "samples/demo.py"

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
    # A private PostgreSQL may still write there.
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "watch").mkdir()
        (folder / "watch/sitecustomize.py").write_text(WATCH)
        path = [str(folder / "watch"), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        monkeypatch.setenv("WATCHED", str(folder / "watched"))
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.chdir(folder)
        yield folder


def play(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DEMO, *options], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("store", ["libsql", "postgres"])
def test_the_demo_remembers_across_two_processes(
    watched: Path, store: str, capsys: pytest.CaptureFixture[str]
):
    """The demo remembers across two processes without leaving this machine, in a directory of its
    own.
    """
    process = play("--store", store)
    assert process.returncode == 0, process.stderr
    output = process.stdout
    match = re.search(r"The memories are in (\S+); look at them with:\n +\S+ (.+)", output)
    assert match
    directory, look = Path(match[1]), shlex.split(match[2])
    assert output.count("\n") <= 30
    first, second, verbs = re.split("-- process 2, (?:session|by the verbs)", output)
    assert 'tool:      save_memory({"content": "my favourite tea is oolong."})' in first
    assert "assistant: Oolong: I found it in what was prefetched" in second
    assert 'tool:      load_memory({"query": "What was the matter with ERR-00123?"})' in second
    assert re.search(r"I looked it up: .*full disk on host db-7", second)
    assert re.search(r'recall: +"[^"]*my favourite tea is sencha\."\n', verbs)
    assert re.search(
        r'forget: +"The surprise party .*"; its session, saved again, brought back 0\n', verbs
    )
    assert re.search(r"receipt: +1 memory, .* by ada: [0-9a-f]{64}\n", verbs)
    assert len(set(re.findall(r"-- process [12], session (\w+)", output))) == 2
    assert list(directory.iterdir())
    assert main(look) == 0
    assert "surprise party" not in capsys.readouterr().out
    notes = (watched / "watched").read_text().splitlines()
    assert len({note for note in notes if note.startswith("watched ")}) >= 3
    assert [note for note in notes if note.startswith("reached for ")] == []


def test_a_failed_demo_says_why_in_one_line(watched: Path, monkeypatch: pytest.MonkeyPatch):
    """A half that fails ends the demo, in the error's own words."""
    monkeypatch.setenv("KAGENT_MEMORY_TTL_DAYS", "x")
    process = play()
    assert process.returncode == 1
    assert "Invalid value for the setting ttl_days" in process.stderr
    assert "Traceback" not in process.stderr
