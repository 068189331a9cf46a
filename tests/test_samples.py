"""Every sample runs to its end, offline, and says what it should; test_import_samples.py runs the
importers and test_demo.py the demo.
"""

from __future__ import annotations

import runpy
from pathlib import Path

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
IMPORTED = {"jsonl_format.py", "postgres_table.py"}
OTHERS = {"demo.py", "adk_conformance.py"}  # which test_demo.py and adk/test_conformance.py run
NAMES = {path.name for path in SAMPLES.glob("*.py") if not path.name.startswith("import_")}


@pytest.mark.parametrize("name", sorted(NAMES - IMPORTED - OTHERS))
def test_a_sample_runs_offline(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A sample runs without a model and prints what it should."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODEL", raising=False)
    runpy.run_path(str(SAMPLES / name), run_name="__main__")
    assert SAYS[name] in capsys.readouterr().out
