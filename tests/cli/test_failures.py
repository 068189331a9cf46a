"""What a command says when it fails: JSON where JSON was asked for, one line elsewhere, and never a
stack trace.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kagent_memory
from kagent_memory.cli import main
from kagent_memory.cli.command import EXIT_CODES

OF_ADA = ("--app", "demo", "--user", "ada")
UNKNOWN = "0199a1b2-0000-7000-8000-000000000000"


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    uri = f"libsql:///{tmp_path}/memory.db"
    monkeypatch.setenv("KAGENT_MEMORY_URI", uri)
    assert main(["add", *[f"memory number {number} of many" for number in range(40)], *OF_ADA]) == 0
    capsys.readouterr()
    return uri


def ran(*words: str, shell: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own; `shell`: what the shell does with its streams."""
    line = [sys.executable, "-m", "kagent_memory", *words]
    if shell:
        line = ["bash", "-c", f'exec "$@" {shell}', "bash", *line]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, **more)


@pytest.mark.parametrize(
    ("words", "family", "code"),
    [
        (["show", UNKNOWN, *OF_ADA], "not-found", 3),
        (["show", UNKNOWN, "--app", "other"], "not-found", 3),
        (["edit", UNKNOWN, *OF_ADA], "invalid-input", 2),
        (["edit", UNKNOWN, "--importance", "7", *OF_ADA], "not-found", 3),
        (["list", "--cursor", "bad", *OF_ADA], "invalid-input", 2),
        (["list", "--user", ""], "invalid-input", 2),
        (["list", "--set", "nonsense=1"], "configuration", 5),
        (["list", "--uri", "mysql://x"], "configuration", 5),
        (["list", "--uri", "http://127.0.0.1:9"], "store", 6),
        (["serve", "--host", "0.0.0.0"], "configuration", 5),
        (["jobs", "--drop", UNKNOWN], "not-found", 3),
        (["token", "revoke", UNKNOWN], "not-found", 3),
        (["list", "--limit", "0"], "invalid-input", 2),
        (["list", "--order", "colour"], "invalid-input", 2),
        (["jobs", "--retry"], "invalid-input", 2),
        (["remember", "this"], "invalid-input", 2),
        ([], "invalid-input", 2),
    ],
)
def test_an_error_is_a_json_document_where_json_was_asked_for(
    uri: str, capsys: pytest.CaptureFixture[str], words: list[str], family: str, code: int
) -> None:
    try:
        ended: Any = main([*words, "--json"])
    except SystemExit as end:  # argparse's way
        ended = end.code
    said = capsys.readouterr()
    told = json.loads(said.out)["error"]
    assert (ended, told["family"], told["exit_code"], said.err) == (code, family, code, "")
    assert told["message"]
    assert code in EXIT_CODES


def test_a_disk_that_is_full_is_one_line(uri: str) -> None:
    for words in (["list", *OF_ADA], ["show", "--json"], ["--help"]):
        done = ran(*words, shell=">/dev/full")
        assert (done.returncode, done.stderr.count("\n")) == (8, 1), (words, done.stderr)
        assert (
            done.stderr == "kagent-memory: The answer cannot be written: No space left on device.\n"
        )


@pytest.mark.parametrize("shell", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full", "<&-"])
def test_closed_streams_are_no_error(uri: str, shell: str) -> None:
    for words in (["list", *OF_ADA], *([["token", "create"]] if shell == ">&- 2>&-" else [])):
        done = ran(*words, shell=shell)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (words, done.stderr)


def test_a_reader_that_goes_away_is_no_error(uri: str) -> None:
    line = (
        f'set -o pipefail; "{sys.executable}" -m kagent_memory list --app demo --user ada '
        "--json | true"
    )
    for _ in range(3):
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["<&-", "</dev/null"])
def test_nothing_on_standard_input_is_one_line(uri: str, shell: str) -> None:
    done = ran("add", *OF_ADA, shell=shell)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "at least one text" in done.stderr


STARTED = """
import runpy, sys

class Told:
    def find_spec(self, name, path=None, target=None):
        if name == "kagent_memory.concurrency":  # before it Python itself starts
            print("started", flush=True)

sys.meta_path.insert(0, Told())
runpy.run_module("kagent_memory", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_at_any_moment_is_no_stack_trace(uri: str) -> None:
    for number in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", STARTED, "serve", "--port", "0"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT,
            signal.SIG_DFL),
        )  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(0.25 * number)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=180)
        assert "Traceback" not in said, said


@pytest.mark.parametrize("module", ["kagent_memory", "kagent_memory.cli"])
def test_the_version_is_told(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == f"kagent-memory {kagent_memory.__version__}\n"
    assert kagent_memory.__version__[0].isdecimal()


FORGER = """
import logging
from kagent_memory.cli.logs import set_up_logging
from kagent_memory.cli.output import Output
set_up_logging("text", Output())
import litellm
forged = "no\\nERROR kagent_memory: all is lost\\x1b[2J"
logging.getLogger("kagent_memory").warning("told %s", forged)
logging.getLogger("LiteLLM").warning(forged)
try:
    raise ValueError(forged)
except ValueError:
    logging.getLogger("kagent_memory").exception("failed")
"""


def test_no_text_forges_a_log_line() -> None:
    """A message, ours or LiteLLM's, stays on one line and drives no terminal; a traceback is
    indented.
    """
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [sys.executable, "-c", FORGER], capture_output=True, text=True, env=environ, check=True
    )
    lines = done.stderr.splitlines()
    assert "\x1b[2J" not in done.stderr
    assert not [line for line in lines if line.startswith("ERROR kagent_memory: all is lost")]
    assert sum("all is lost" in line for line in lines) >= 3
