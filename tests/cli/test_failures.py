"""Failures of commands: JSON if JSON was asked for, otherwise one line, and never a stack trace;
and how `serve` ends.
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

from .conftest import serving

OF_ADA = ("--app", "demo", "--user", "ada")
UNKNOWN = "0199a1b2-0000-7000-8000-000000000000"


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    uri = f"libsql:///{tmp_path}/memory.db"
    monkeypatch.setenv("KAGENT_MEMORY_URI", uri)
    assert main(["add", *[f"memory number {number} of many" for number in range(40)], *OF_ADA]) == 0
    capsys.readouterr()
    return uri


def run_command(*words: str, shell: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; `shell` redirects its streams."""
    line = [sys.executable, "-m", "kagent_memory", *words]
    if shell:
        line = ["bash", "-c", f'exec "$@" {shell}', "bash", *line]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, **more)


FAMILIES = {2: "invalid-input", 3: "not-found", 5: "configuration", 6: "store"}


@pytest.mark.parametrize(
    ("words", "code", "advice"),
    [
        (["show", "nothing", *OF_ADA], 3, "No memory nothing"),
        (["forget", *OF_ADA], 2, "Name exactly one"),
        (["forget", "", *OF_ADA], 2, "must not be empty"),
        (["edit", UNKNOWN, *OF_ADA], 2, "Nothing to change was given: name content"),
        (["list", "--cursor", "bad", *OF_ADA], 2, "Invalid cursor"),
        (["audit", "--app", "demo", "--user", ""], 2, "must not be empty"),
        (["list", "--uri", "http://127.0.0.1:9"], 6, "cannot be reached"),
        (["list", "--app", "other"], 3, "--app and --user"),
        (["token", "revoke", UNKNOWN], 3, UNKNOWN),
        (["jobs", "--retry", "one", "--drop", "another"], 2, "not both"),
        (["mcp", "--app", "demo"], 2, "Missing option '--user'"),
        (["serve", "--host", "0.0.0.0"], 5, "--auth"),
        (["serch", "tea"], 2, "'search'"),
        (["list", "--tga", "x"], 2, "'--tag'"),
        ([], 2, "Missing command"),
        (["list", "--limit", "0"], 2, "not in the range"),
        (["list", "--set", "tl_days=3"], 5, "did you mean ttl_days?"),
    ],
)
def test_a_mistake_is_one_line_or_one_json_document(
    uri: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, advice: str
):
    """A mistake ends with its exit code and one line, or with JSON where that was asked for."""
    assert main(words) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("kagent-memory: ")
    assert advice in captured.err
    assert main([*words, "--json"]) == code
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert (error["family"], error["exit_code"], captured.err) == (FAMILIES[code], code, "")
    assert error["message"]
    assert code in EXIT_CODES


def test_a_disk_that_is_full_is_one_line(uri: str):
    """An answer that cannot be written ends with exit code 8 and one line that says why."""
    for words in (["list", *OF_ADA], ["--help"]):
        process = run_command(*words, shell=">/dev/full")
        assert (process.returncode, process.stderr.count("\n")) == (8, 1), (words, process.stderr)
        assert (
            process.stderr
            == "kagent-memory: The answer cannot be written: No space left on device.\n"
        )


@pytest.mark.parametrize("shell", [">&- 2>&-", "2>/dev/full", "<&-"])
def test_closed_streams_are_no_error(uri: str, shell: str):
    """A command whose standard streams are closed or full still does its work and succeeds."""
    for words in (["list", *OF_ADA], *([["token", "create"]] if shell == ">&- 2>&-" else [])):
        process = run_command(*words, shell=shell)
        assert (process.returncode, "Traceback" in process.stderr) == (0, False), (
            words,
            process.stderr,
        )


def test_a_reader_that_goes_away_is_no_error(uri: str):
    """A pipe whose reader went away ends a command in silence and with success."""
    for words in ("list --app demo --user ada --json", "--help"):
        line = f'set -o pipefail; "{sys.executable}" -m kagent_memory {words} | true'
        process = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=300, check=False
        )
        assert (process.returncode, process.stderr) == (0, ""), words


def test_a_damaged_import_names_standard_input(uri: str):
    """What is wrong with the lines of `import -` is told of standard input."""
    process = run_command("import", "-", shell="<<< letter")
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert "Line 1 of standard input" in process.stderr


@pytest.mark.parametrize("shell", ["<&-", "</dev/null"])
def test_nothing_on_standard_input_is_one_line(uri: str, shell: str):
    """`add` with no text anywhere is refused in one line that asks for one."""
    process = run_command("add", *OF_ADA, shell=shell)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert "at least one text" in process.stderr


STARTED = """
import runpy, sys

class Told:
    def find_spec(self, name, path=None, target=None):
        if name == "kagent_memory.concurrency":  # before it Python itself starts
            print("started", flush=True)

sys.meta_path.insert(0, Told())
runpy.run_module("kagent_memory", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_at_any_moment_is_no_stack_trace(uri: str):
    """Ctrl-C ends `serve` at any moment, even while it starts, without a stack trace."""
    for pause in (0.0, 0.7):
        process = subprocess.Popen(
            [sys.executable, "-c", STARTED, "serve", "--port", "0"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT,
            signal.SIG_DFL),
        )  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=180)
        assert "Traceback" not in stderr, stderr


def test_the_version_is_told():
    """`--version` prints the version of the distribution."""
    process = run_command("--version")
    assert process.stdout == f"kagent-memory {kagent_memory.__version__}\n"
    assert kagent_memory.__version__[0].isdecimal()


FORGER = """
import logging, sys
from kagent_memory.cli.output import Output, set_up_logging
forged = "no\\nERROR kagent_memory: all is lost\\x1b[2J"
for log_format in ("text", "json"):
    logging.getLogger().handlers.clear()
    set_up_logging(log_format, Output())
    import litellm
    logging.getLogger("kagent_memory").warning("told %s", forged)
    logging.getLogger("LiteLLM").warning(forged)
    try:
        raise ValueError(forged)
    except ValueError:
        logging.getLogger("kagent_memory").exception("failed")
"""


def test_no_text_forges_a_log_line():
    """A message, ours or LiteLLM's, stays on one line, which is one object where JSON was asked
    for, and drives no terminal; a traceback is indented.
    """
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = subprocess.run(
        [sys.executable, "-c", FORGER], capture_output=True, text=True, env=environ, check=True
    )
    lines = process.stderr.splitlines()
    assert "\x1b[2J" not in process.stderr
    assert not [line for line in lines if line.startswith("ERROR kagent_memory: all is lost")]
    assert sum("all is lost" in line for line in lines) >= 6
    records = [json.loads(line) for line in lines if line.startswith("{")]
    assert [record["level"] for record in records] == ["warning", "warning", "error"]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_private_postgres_stops_when_serve_is_told_to_end(
    server_directory: Path, number: signal.Signals
):
    """`serve` that is told to end by a signal stops its private PostgreSQL and succeeds."""
    postmaster = 0
    try:
        with serving("--uri", f"pgserver:///{server_directory}") as (process, stderr):
            assert stderr, "it did not start"
            pid_file = server_directory / "postmaster.pid"
            postmaster = int(pid_file.read_text(encoding="utf-8").split()[0])
            assert is_running(postmaster)
            process.send_signal(number)
            for _ in range(3):  # whoever is impatient breaks off nothing
                time.sleep(0.1)
                process.send_signal(number)
            _, stderr = process.communicate(timeout=180)
            assert (process.returncode, "Traceback" in stderr) == (0, False), stderr
            assert not is_running(postmaster), "the private PostgreSQL is left running"
    finally:
        if postmaster and is_running(postmaster):
            os.kill(postmaster, signal.SIGINT)
