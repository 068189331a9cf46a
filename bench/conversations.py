"""Read conversations in LoCoMo's shape: their turns, and questions with the turns that answer them.

LoCoMo, REALTALK and BEAM have this shape; none of them is part of this repository. Nothing of the
package is imported here, so that `recorded_answers.py` can ask any version of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Note:
    """One memory to be found: its key in the data set, and what a caller would say about it."""

    key: str
    text: str
    author: str
    session: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its category, and the keys of the notes that answer it."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class Conversation:
    """One user's turns, and the questions about them."""

    user: str
    notes: list[Note]
    questions: list[Question]


def conversations(path: Path, *, prefix: bool) -> list[Conversation]:
    """Return the conversations of a file; leave out questions whose evidence names no turn.

    Args:
        path: the JSON file. A turn may have a time of its own (`at`), and a question a `kind`,
            which stands for its category then.
        prefix: put "Speaker: " before each text, for stores that know no author.
    """
    return [
        _conversation(item, prefix=prefix) for item in json.loads(path.read_text(encoding="utf-8"))
    ]


def _conversation(item: Mapping[str, Any], *, prefix: bool) -> Conversation:
    notes = _notes(item["conversation"], prefix=prefix)
    keys = {note.key for note in notes}
    questions: list[Question] = []
    for question in item["qa"]:
        named = _TURN.findall(" ".join(question.get("evidence") or ()))
        evidence = frozenset(named) & keys
        if evidence:
            category = question.get("kind") or CATEGORIES[question["category"]]
            questions.append(Question(question["question"], category, evidence))
    return Conversation(str(item["sample_id"]), notes, questions)


def _notes(talk: Mapping[str, Any], *, prefix: bool) -> list[Note]:
    numbers = sorted(int(match[1]) for name in talk if (match := _SESSION.fullmatch(name)))
    notes: list[Note] = []
    for number in numbers:
        at = datetime.strptime(
            talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y"
        ).replace(tzinfo=UTC)
        for turn in talk[f"session_{number}"]:
            text = f"{turn['speaker']}: {turn['text']}" if prefix else turn["text"]
            said_at = datetime.fromisoformat(turn["at"]) if turn.get("at") else at
            notes.append(Note(turn["dia_id"], text, turn["speaker"], f"session_{number}", said_at))
    return notes


def exchanges(talk: Conversation) -> dict[str, str]:
    """Return the exchange of each message by its key: the key of the user's message it began with.

    Empty unless the conversation is one of `user` and `assistant`.
    """
    if {note.author for note in talk.notes} != {"user", "assistant"}:
        return {}
    started: dict[str, str] = {}
    of_message: dict[str, str] = {}
    for note in talk.notes:
        if note.author == "user" or note.session not in started:
            started[note.session] = note.key
        of_message[note.key] = started[note.session]
    return of_message
