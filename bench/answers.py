r"""Answer questions about long conversations with your own model.

    python bench/answers.py longmemeval_s.json --reader openai/gpt-5-mini \
        --judge openai/gpt-5 --questions 100
    python bench/answers.py locomo10.json --reader ollama_chat/qwen3 \
        --embedding ollama/nomic-embed-text

Reads LongMemEval's files and files in LoCoMo's shape (LoCoMo; BEAM converted to it, with an
`answer` or a `rubric` for each question). Reader and judge are any models that LiteLLM knows.
Compared are:

- `memory`: sessions stored by `Memories.remember`, and the first `--top-k` hits of `recall`, dated,
  in order of time;
- `search`: the first `--top-k` turns by Okapi BM25, presented in the same way;
- `full`: the whole conversation.

Beside the share of right answers the table tells the share of the evidence that was handed over and
the size of what the reader read. With `--llm` the memory extracts facts, as an agent's would;
without one it keeps the turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conversations import Note, conversations
from pydantic import BaseModel, Field
from systems import Bm25

from kagent_memory import Memories, Message, Scope
from kagent_memory.models.llm import Llm, open_llm
from kagent_memory.settings import MemorySettings

APP = "answers"
CHARACTERS_PER_TOKEN = 4  # of English, about
READ = """Answer the question from the notes alone,
in one short sentence. They are what was said in earlier
conversations, with the date of each. If they do not tell, answer: I don't know.

<notes>
{notes}
</notes>

Today is {today}.
Question: {question}"""
JUDGE = """Does the answer say what the reference says? Other words,
more detail or another form of a date are right; a
missing or contradicting fact is wrong. If the reference says that nothing is known,
an answer that says so is right.

Question: {question}
Reference: {reference}
Answer: {answer}"""


class Reading(BaseModel):
    """The reader's answer."""

    answer: str = Field(description="one short sentence")


class Verdict(BaseModel):
    """The judge's verdict."""

    correct: bool


@dataclass(frozen=True)
class Question:
    """A question, the answer it should get, and the keys of the turns that hold it."""

    text: str
    reference: str
    evidence: frozenset[str]
    asked_at: datetime


@dataclass(frozen=True)
class Talk:
    """One user's turns, and the questions about them."""

    user: str
    notes: Sequence[Note]
    questions: Sequence[Question]


@dataclass
class Score:
    """The result of one way of remembering.

    Attributes:
        shares: the share of each question's evidence that was handed over.
    """

    right: int = 0
    questions: int = 0
    characters: int = 0
    shares: list[float] = field(default_factory=list)


Context = Callable[[Question], Awaitable[Sequence[Note]]]


def talks(path: Path) -> list[Talk]:
    """Return the conversations of a file of LongMemEval, or in LoCoMo's shape."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data and "haystack_sessions" in data[0]:
        return [_longmemeval(item) for item in data]
    return list(_locomo(path, data))


def _locomo(path: Path, data: Sequence[Mapping[str, Any]]) -> Iterator[Talk]:
    for talk, item in zip(conversations(path, prefix=False), data, strict=True):
        references = {question["question"]: _reference(question) for question in item["qa"]}
        end = max(note.at for note in talk.notes)
        questions = [
            Question(question.text, reference, question.evidence, end)
            for question in talk.questions
            if (reference := references[question.text])
        ]
        yield Talk(talk.user, talk.notes, questions)


def _reference(question: Mapping[str, Any]) -> str:
    reference = question.get("answer", question.get("rubric", ""))
    return "; ".join(map(str, reference)) if isinstance(reference, list) else str(reference)


def _longmemeval(item: Mapping[str, Any]) -> Talk:
    notes: list[Note] = []
    evidence: set[str] = set()
    sessions = zip(
        item["haystack_session_ids"], item["haystack_dates"], item["haystack_sessions"], strict=True
    )
    for session, date, turns in sessions:
        for number, turn in enumerate(turns):
            key = f"{session}:{number}"
            notes.append(Note(key, turn["content"], turn["role"], session, _longmemeval_time(date)))
            if turn.get("has_answer"):
                evidence.add(key)
    asked_at = _longmemeval_time(item["question_date"])
    question = Question(item["question"], str(item["answer"]), frozenset(evidence), asked_at)
    return Talk(str(item["question_id"]), notes, [question])


def _longmemeval_time(text: str) -> datetime:
    day, _, time = text.partition(" (")  # 2023/05/20 (Sat) 02:21
    return datetime.strptime(f"{day} {time.partition(') ')[2]}", "%Y/%m/%d %H:%M").replace(
        tzinfo=UTC
    )


async def remembered(memories: Memories, talk: Talk, top_k: int) -> Context:
    """Store the sessions of a conversation, and return a function that recalls turns for a
    question.
    """
    scope = Scope(tenant="", user=talk.user, app=APP)
    by_key = {note.key: note for note in talk.notes}
    for session in dict.fromkeys(note.session for note in talk.notes):
        messages = [
            Message(
                text=note.text,
                event_id=note.key,
                author=note.author,
                role="agent" if note.author == "assistant" else "user",
                at=note.at,
            )
            for note in talk.notes
            if note.session == session
        ]
        await memories.remember(scope, messages, session, ended=True)
    await memories.work(until_idle=True)

    async def context(question: Question) -> Sequence[Note]:
        recalled = await memories.recall(scope, question.text, limit=top_k, deliver=False)
        return [
            Note(
                " ".join(hit.memory.event_ids),
                hit.memory.content,
                hit.memory.author or "",
                hit.memory.session_id or "",
                hit.memory.happened_at or by_key[hit.memory.event_ids[0]].at,
            )
            for hit in recalled
        ]

    return context


async def searched(talk: Talk, top_k: int) -> Context:
    """Return a function that finds the first turns by BM25."""
    index = Bm25()
    await index.fill(talk.user, talk.notes)
    by_key = {note.key: note for note in talk.notes}

    async def context(question: Question) -> Sequence[Note]:
        return [by_key[key] for key in (await index.find(talk.user, question.text))[:top_k]]

    return context


async def full(talk: Talk) -> Context:
    """Return a function that returns the whole conversation."""

    async def context(question: Question) -> Sequence[Note]:
        return talk.notes

    return context


async def answer(
    question: Question, notes: Sequence[Note], reader: Llm, judge: Llm, score: Score
) -> None:
    """Have one question answered and judged, and count the verdict."""
    ordered = sorted(notes, key=lambda note: note.at)
    text = "\n".join(f"[{note.at:%Y-%m-%d}] {note.author}: {note.text}" for note in ordered)
    prompt = READ.format(notes=text, today=f"{question.asked_at:%Y-%m-%d}", question=question.text)
    read = await reader.complete(prompt, schema=Reading)
    ask = JUDGE.format(question=question.text, reference=question.reference, answer=read.answer)
    verdict = await judge.complete(ask, schema=Verdict)
    score.questions += 1
    score.right += verdict.correct
    score.characters += len(text)
    if question.evidence:
        handed = {key for note in notes for key in re.split(r"\s+", note.key)}
        score.shares.append(len(handed & question.evidence) / len(question.evidence))


async def compare(
    chosen: Sequence[Talk], reader: Llm, judge: Llm, *, top_k: int, limit: int, **options: Any
) -> dict[str, Score]:
    """Return the score of each way of remembering, on at most `limit` questions.

    Args:
        chosen: the conversations.
        reader: the model that answers.
        judge: the model that compares answers with the references.
        top_k: the hits or turns to hand over.
        limit: the most questions to ask.
        options: options of `Memories.open`.
    """
    scores = {name: Score() for name in ("memory", "search", "full")}
    with tempfile.TemporaryDirectory() as folder:
        uri = f"libsql:///{folder}/memory.db"
        async with await Memories.open(uri, worker=False, ttl_days=0, **options) as memories:
            for talk in chosen:
                questions = talk.questions[: limit - scores["full"].questions]
                if not questions:
                    continue
                contexts = {
                    "memory": await remembered(memories, talk, top_k),
                    "search": await searched(talk, top_k),
                    "full": await full(talk),
                }
                for question in questions:
                    for name, context in contexts.items():
                        await answer(question, await context(question), reader, judge, scores[name])
    return scores


def show(scores: Mapping[str, Score], *, top_k: int) -> None:
    """Print the table."""
    print(f"top-k {top_k}; tokens are characters / {CHARACTERS_PER_TOKEN}\n")
    print(
        "| | questions | right | evidence handed over | tokens a question |\n|---|---|---|---|---|"
    )
    for name, score in scores.items():
        count = max(1, score.questions)
        share = f"{sum(score.shares) / len(score.shares):.3f}" if score.shares else "–"
        tokens = score.characters / CHARACTERS_PER_TOKEN / count
        print(
            f"| {name} | {score.questions} | {score.right / count:.3f} | {share} | {tokens:,.0f} |"
        )


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--reader", required=True, help="the model that answers, as LiteLLM names it"
    )
    parser.add_argument(
        "--judge", help="the model that compares with the reference; none: the reader"
    )
    parser.add_argument(
        "--llm", help="the model by which the memory extracts facts; none: it keeps turns"
    )
    parser.add_argument("--embedding", help="the memory's embedder; none: keyword search")
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument(
        "--questions", type=int, default=50, help="how many at most; each costs six calls"
    )
    return parser.parse_args()


async def run(options: argparse.Namespace) -> None:
    """Compare on the file named on the command line."""
    settings = MemorySettings()
    reader, judge = (
        open_llm(name, settings) for name in (options.reader, options.judge or options.reader)
    )
    assert reader is not None
    assert judge is not None
    scores = await compare(
        talks(options.data),
        reader,
        judge,
        top_k=options.top_k,
        limit=options.questions,
        llm=options.llm or False,
        embedding=options.embedding,
    )
    show(scores, top_k=options.top_k)


if __name__ == "__main__":
    asyncio.run(run(parsed()))
