"""Every sample runs to its end, offline, and says what it should; test_import_samples.py runs the
importers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import optional
import pytest

SAMPLES = Path(__file__).parent.parent / "samples"
SAYS = {
    "agent_tool.py": "desk: I looked it up: the spare key is with Grace.",
    "compaction.py": "Ada plans a trip to Lisbon in May.",
    "custom_store.py": "erased 1 of desk",
    "minimal_agent.py": "Oolong",
    "plugin.py": "billing: I see.\nuser said: Invoices go to accounts@example.com.",
    "verbs.py": "['Ada likes green tea.']\n['Ada rows at dawn.']",
    "worker.py": "ingested: The staging cluster is called heron.",
}
IMPORTERS = {"import_adk.py", "import_kagent.py", "import_langgraph.py", "import_mem0.py"}


def test_every_sample_is_told_what_it_says():
    """Every sample has an expected output."""
    samples = (
        {path.name for path in SAMPLES.glob("*.py")}
        - IMPORTERS
        - {"jsonl_format.py", "postgres_table.py"}
    )
    assert set(SAYS) == samples


@pytest.mark.parametrize("name", sorted(SAYS))
def test_a_sample_runs_offline(name: str, tmp_path: Path):
    """A sample runs without a model and prints what it should."""
    environ = {**os.environ, "MODEL": ""}
    ran = subprocess.run(
        [sys.executable, str(SAMPLES / name)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert SAYS[name] in ran.stdout


def test_a_users_program_checks_clean():
    """A type checker knows the verbs of a service, of `.sync` and of a server."""
    optional.package("basedpyright")
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--pythonpath",
        sys.executable,
        str(SAMPLES / "verbs.py"),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (
        0,
        "0 errors, 0 warnings, 0 notes",
    )
