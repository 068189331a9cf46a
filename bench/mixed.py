"""Measure evidence recall on made-up notes, tickets, code, how-tos and German notes.

    python bench/mixed.py [--pgserver] [--only hybrid] [--out results.json]

It guards against fitting the ranking to one style of chat.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import string
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from conversations import Note, Question
from minilm import DEFAULT_CACHE, MiniLM
from report import compare, embed_all, show, write
from systems import catalogue

FIRST_DAY = datetime(2025, 1, 6, 9, tzinfo=UTC)
Pair = tuple[Note, list[Question]]
TEXTS = tomllib.loads(Path(__file__).with_name("mixed_notes.toml").read_text("utf-8"))


def data_set() -> dict[str, tuple[list[Note], list[Question]]]:
    """Return the notes and the questions of each user; the same at every call."""
    users = {
        "tickets": _tickets(),
        "notes": _notes(),
        "code": _code(),
        "how-tos": _how_tos(),
        "german": _german(),
    }
    made: dict[str, tuple[list[Note], list[Question]]] = {}
    slips = random.Random(11)
    for user, pairs in (users | {"languages": _languages()}).items():
        together = list(pairs)
        questions = [question for _, several in together for question in several]
        if user in users:
            questions += [wrong for question in questions if (wrong := _misspelt(question, slips))]
        made[user] = [note for note, _ in together], questions
    return made


def _misspelt(question: Question, slips: random.Random) -> Question | None:
    """Return the question with one typing error in its longest word; None if no word is long."""
    words = re.findall(r"[^\W\d_]{4,}", question.text)
    if not words:
        return None
    word = max(words, key=len)
    place = slips.randrange(1, len(word) - 1)
    before, after = word[:place], word[place:]
    letter = slips.choice(string.ascii_lowercase)
    changed = (
        before + after[1:],
        before + after[1] + after[0] + after[2:],
        before + letter + after[1:],
        before + letter + after,
    )
    return Question(
        question.text.replace(word, slips.choice(changed), 1),
        f"misspelt {question.category}",
        question.evidence,
    )


def _languages() -> Iterator[Pair]:
    for number, (language, text, question) in enumerate(_rows(TEXTS["languages"])):
        note = _note("languages", number, text, "me")
        yield note, [Question(question, language, frozenset({note.key}))]


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _note(kind: str, number: int, text: str, author: str = "") -> Note:
    at = FIRST_DAY + timedelta(days=5 * number)
    return Note(f"{kind}-{number}", text, author, f"{kind}-{number // 6}", at)


def _tickets() -> Iterator[Pair]:
    for number, (component, symptom, phrase, cause) in enumerate(_rows(TEXTS["tickets"])):
        for round_, status in enumerate(("open", "fixed")):
            code = f"{component[:3].upper()}-{4100 + 37 * number + 11 * round_:05d}"
            version = f"v{2 + round_}.{number}.{(7 * number + round_) % 10}"
            text = f"{code} ({component} {version}, {status}): {symptom}."
            text += f" Cause: {cause}." if round_ else " Cause not known yet."
            note = _note("tickets", 2 * number + round_, text, "tracker")
            key = frozenset({note.key})
            yield (
                note,
                [
                    Question(f"What is {code} about?", "identifier", key),
                    Question(
                        f"What broke in {component} {version.removeprefix('v')}?", "identifier", key
                    ),
                    Question(f"Is there an {status} ticket because {phrase}?", "paraphrase", key),
                ],
            )


def _notes() -> Iterator[Pair]:
    for number, (text, question) in enumerate(_rows(TEXTS["notes"])):
        note = _note("notes", number, f"{text}.", "me")
        key = frozenset({note.key})
        day = f"{note.at:%d %B %Y}".lstrip("0")
        yield (
            note,
            [
                Question(question, "paraphrase", key),
                Question(f"What did I write down on {day}?", "date", key),
            ],
        )


def _code() -> Iterator[Pair]:
    for number, (path, name, does, phrase) in enumerate(_rows(TEXTS["code"])):
        note = _note("code", number, f"`{name}` in {path} {does}.", "reviewer")
        key = frozenset({note.key})
        parts = name.replace("_", " ")
        spoken = "".join(
            f" {letter.lower()}" if letter.isupper() else letter for letter in parts
        ).strip()
        yield (
            note,
            [
                Question(f"What does {name} do?", "identifier", key),
                Question(f"Which file has the {spoken} function?", "identifier", key),
                Question(f"Where is the code for {phrase}?", "paraphrase", key),
            ],
        )


def _how_tos() -> Iterator[Pair]:
    number = 0
    for text, question in _rows(TEXTS["how_tos"]):
        note = _note("how-tos", number, f"{text}.", "handbook")
        goal = text.partition(",")[0]
        yield (
            note,
            [
                Question(question, "paraphrase", frozenset({note.key})),
                Question(
                    f"What do I have to do {goal[0].lower()}{goal[1:]}?",
                    "how-to",
                    frozenset({note.key}),
                ),
            ],
        )
        number += 1
    for positive, negative, question in _rows(TEXTS["negations"]):
        yes = _note("how-tos", number, f"{positive}.", "handbook")
        no = _note("how-tos", number + 1, f"{negative}.", "handbook")
        yield (
            yes,
            [
                Question(
                    f"Is it true that {positive[0].lower()}{positive[1:]}?",
                    "negation",
                    frozenset({yes.key}),
                )
            ],
        )
        yield no, [Question(question, "negation", frozenset({no.key}))]
        number += 2


def _german() -> Iterator[Pair]:
    for number, (text, question) in enumerate(_rows(TEXTS["german"])):
        note = _note("german", number, f"{text}.", "ich")
        key = frozenset({note.key})
        phrase = " ".join(text.split()[-3:])
        yield (
            note,
            [
                Question(question, "German", key),
                Question(f"Was weißt du über {phrase}?", "German", key),
            ],
        )


async def run(options: argparse.Namespace) -> None:
    uris = [
        "libsql:///{folder}/memory.db",
        *(["pgserver:///{folder}/postgres"] if options.pgserver else []),
    ]
    embedder, users = MiniLM(options.cache), data_set()
    await embed_all(embedder, users)
    systems = catalogue(uris, embedder)
    chosen = {
        name: opener for name, opener in systems.items() if not options.only or options.only in name
    }
    results = await compare(chosen, users)
    show(results)
    if options.out:
        write(options.out, results)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where embeddings are kept"
    )
    parser.add_argument(
        "--pgserver", action="store_true", help="also on a private PostgreSQL (extra [pgserver])"
    )
    parser.add_argument("--only", default="", help="only systems whose name holds this")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, for plot.py")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run(parsed()))
