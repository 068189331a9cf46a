"""bench/recorded_answers.py on a small conversation: equal records of equal code, and what differs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
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
            {"dia_id": f"D1:{number}", "speaker": speaker, "text": text} for number, (speaker, text) in enumerate(TURNS)
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


def recorded(bench: ModuleType, data: Path, name: str, vectors: Path | None = None) -> dict[str, Any]:
    path = data.with_name(name)
    options = argparse.Namespace(
        record=path, data=[data], vectors=vectors, model_python="", uri="libsql:///{folder}/m.db"
    )
    asyncio.run(bench.record(options))
    return json.loads(path.read_text(encoding="utf-8"))


def test_two_records_of_the_same_code_are_equal_and_count_exchanges(bench: ModuleType, data: Path):
    first, second = (recorded(bench, data, name) for name in ("one.json", "two.json"))
    assert first == second
    small = first["keyword"]["small"]
    asked = {answer["question"]: answer for answer in small["answers"]}
    assert set(asked) == {"Which service fails?", "registry password"}
    assert asked["registry password"]["category"] == "update"
    assert asked["registry password"]["evidence"] == ["D1:2"]  # the same words are one memory
    assert asked["registry password"]["keys"][0] == "D1:2"
    assert all(len(answer["keys"]) == len(answer["scores"]) for answer in small["answers"])
    assert small["recall"] == {key: {"recall@5": 1.0, "recall@10": 1.0} for key in ("messages", "exchanges")}


def test_an_exchange_is_found_by_any_of_its_messages(bench: ModuleType, data: Path):
    [talk] = bench.conversations(data, prefix=False)
    assert bench.exchanges(talk) == {"D1:0": "D1:0", "D1:1": "D1:0", "D1:2": "D1:2", "D1:3": "D1:2", "D1:4": "D1:4"}
    answers = [{"user": "talk", "category": "", "keys": ["D1:3"], "evidence": ["D1:0", "D1:2"]}]
    assert bench.recalls(answers, [talk])["messages"]["recall@5"] == 0.0
    assert bench.recalls(answers, [talk])["exchanges"]["recall@5"] == 0.5


def test_texts_without_a_vector_are_embedded_and_asked_again(
    bench: ModuleType, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs: list[int] = []

    def run(command: list[str], *, input: str, **_: Any) -> None:
        model, texts = bench.MiniLM(Path(command[2])), json.loads(input)
        model._encode = lambda texts: np.random.default_rng(7).normal(size=(len(texts), 384)).astype(np.float32)
        asyncio.run(model.embed(texts, kind="document"))
        runs.append(len(texts))

    monkeypatch.setattr(bench.subprocess, "run", lambda *args, **options: _in_thread(run, *args, **options))
    first = recorded(bench, data, "one.json", tmp_path / "vectors")
    assert len(runs) == 1
    assert recorded(bench, data, "two.json", tmp_path / "vectors") == first
    assert len(runs) == 1


def _in_thread(function: Any, *args: Any, **options: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as threads:
        threads.submit(function, *args, **options).result()


def test_a_comparison_counts_what_changed(
    bench: ModuleType, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    changed = recorded(bench, data, "before.json")
    small = changed["keyword"]["small"]
    small["answers"][0]["scores"][0] += 0.5
    small["answers"][1]["keys"] = []
    small["recall"]["messages"]["recall@5"] = 0.5
    (tmp_path / "after.json").write_text(json.dumps(changed), encoding="utf-8")
    capsys.readouterr()
    bench.compare(argparse.Namespace(before=tmp_path / "before.json", after=tmp_path / "after.json", show=1))
    said = capsys.readouterr().out
    assert "| small, messages | keyword | 0 | 1 | 1 | 1.000 → 0.500 (-0.500) | 1.000 → 1.000 (+0.000) |" in said
    assert "registry password" in said
