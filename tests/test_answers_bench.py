"""bench/answers.py with scripted models: what each way of remembering hands over, and what is
counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

FILLER = [("user", f"Tell me about subject number {number}") for number in range(30)]
LONGMEMEVAL = [
    {
        "question_id": "q1",
        "question": "Which tea does Ada like?",
        "answer": "oolong",
        "question_date": "2023/05/22 (Mon) 10:00",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 09:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "The tea that Ada likes is oolong", "has_answer": True},
                {"role": "assistant", "content": "Noted."},
            ],
            [{"role": role, "content": text} for role, text in FILLER],
        ],
    }
]
LOCOMO = [
    {
        "sample_id": "talk",
        "conversation": {
            "session_1_date_time": "09:00 AM on 15 March, 2024",
            "session_1": [
                {"dia_id": "D1:1", "speaker": "user", "text": "The tea that Ada likes is oolong"},
                *(
                    {"dia_id": f"D1:{n + 2}", "speaker": s, "text": t}
                    for n, (s, t) in enumerate(FILLER)
                ),
            ],
        },
        "qa": [
            {
                "question": "Which tea does Ada like?",
                "evidence": ["D1:1"],
                "category": 4,
                "answer": "oolong",
            }
        ],
    }
]


class Scripted:
    """Answers "oolong" if the notes say so and it can read, and judges by the reference."""

    name = "scripted"

    def __init__(self, reads: bool) -> None:
        self.reads = reads

    async def complete(self, prompt: str, *, schema: type[BaseModel]) -> Any:
        if "answer" in schema.model_fields:
            notes = prompt.partition("<notes>")[2] if self.reads else ""
            return schema(answer="It is oolong." if "oolong" in notes else "I don't know.")
        return schema(correct="oolong" in prompt.partition("Answer:")[2])


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "bench"))
    import answers

    yield answers
    for name in ("answers", "conversations", "systems"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("right", [1, 0])
@pytest.mark.parametrize("data", [LONGMEMEVAL, LOCOMO], ids=["longmemeval", "locomo"])
async def test_each_way_is_asked_and_counted(
    bench: ModuleType,
    tmp_path: Path,
    data: list[Any],
    right: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All three ways hand over the evidence; only the full conversation hands over everything; and
    what the reader does not know counts as wrong.
    """
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    model = Scripted(reads=bool(right))
    scores = await bench.compare(bench.talks(path), model, model, top_k=5, limit=10, llm=False)
    assert [(score.questions, score.right) for score in scores.values()] == [(1, right)] * 3
    assert [score.shares for score in scores.values()] == [[1.0]] * 3
    assert scores["full"].characters > 2 * max(
        scores["memory"].characters, scores["search"].characters
    )
    bench.show(scores, top_k=5)
    assert f"| memory | 1 | {right}.000 | 1.000 |" in capsys.readouterr().out
