"""bench/recorded_answers.py on a small conversation: equal records of equal code, and what
differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TURNS = [
    ("user", "My deploy of the billing service fails"),
    ("assistant", "Check the credentials of the registry"),
    ("user", "The registry wants a new password"),
    ("assistant", "Rotate it in the vault"),
    ("user", "The registry wants a new password"),
]
TALK = {
    "sample_id": "talk",
    "conversation": {
        "session_1_date_time": "09:00 AM on 15 March, 2024",
        "session_1": [
            {"dia_id": f"D1:{number}", "speaker": speaker, "text": text}
            for number, (speaker, text) in enumerate(TURNS)
        ],
    },
    "qa": [
        {"question": "Which service fails?", "evidence": ["D1:0"], "category": 4},
        {"question": "registry password", "evidence": ["D1:4"], "category": 5, "kind": "update"},
        {"question": "Who said so?", "evidence": [], "category": 4},
    ],
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "bench"))
    import recorded_answers

    yield recorded_answers
    for name in ("recorded_answers", "conversations", "measures", "minilm"):
        sys.modules.pop(name, None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps([TALK]), encoding="utf-8")
    return path


def recorded(
    bench: ModuleType, data: Path, name: str, vectors: Path | None = None
) -> dict[str, Any]:
    path = data.with_name(name)
    options = argparse.Namespace(
        record=path, data=[data], vectors=vectors, model_python="", uri="libsql:///{folder}/m.db"
    )
    asyncio.run(bench.record(options))
    return json.loads(path.read_text(encoding="utf-8"))


def test_two_records_of_the_same_code_are_equal(bench: ModuleType, data: Path):
    """Two records of the same code are equal and count exchanges."""
    first, second = (recorded(bench, data, name) for name in ("one.json", "two.json"))
    assert first == second
    small = first["keyword"]["small"]
    asked = {answer["question"]: answer for answer in small["answers"]}
    assert set(asked) == {"Which service fails?", "registry password"}
    assert asked["registry password"]["category"] == "update"
    assert asked["registry password"]["evidence"] == ["D1:2"]  # the same words are one memory
    assert asked["registry password"]["keys"][0] == "D1:2"
    assert all(len(answer["keys"]) == len(answer["scores"]) for answer in small["answers"])
    assert small["recall"] == {
        key: {"recall@5": 1.0, "recall@10": 1.0} for key in ("messages", "exchanges")
    }
