"""Judge consolidation by facts that were written without sight of its rules.

    python bench/consolidation.py items.json [--echoes echoes.json] [--half a|b]

`items.json` is a list of {"kind", "old", "new", "merged"}: two facts, told on two days. `kind` is
"duplicate" or "paraphrase" (the same), "addition" ("merged" holds both), "correction" (the new one
takes the place of the old one) or "apart" (both true). A scripted model decides each rightly, then
four scripted ones decide everything alike. Counted are facts that no recall finds any more (lost;
those that a correction replaces are sought by `as_of`), corrected facts that are still handed over
(stale), and equal ones that are handed over twice.

`echoes.json` is a list of {"kind": "echo" | "news", "memory", "agent" or "user"}: what an agent
says of a memory, which must not become another one, and what says more than it. News is lost if a
search for it hands it over neither as a memory nor with one. A half holds every second item of each
kind, so that rules can be tuned on one and reported on the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kagent_memory import Fact, Memories, Scope
from kagent_memory.records import Message
from kagent_memory.testing import FrozenClock, ScriptedLlm

SCOPE = Scope("", "ada", "app")
START, DAY = datetime(2026, 5, 8, tzinfo=UTC), timedelta(days=1)
SHOWN = re.compile(r"^(F\d+): .*\n  (M\d+): ", re.MULTILINE)
SAME = ("duplicate", "paraphrase")
Item = Mapping[str, str]
Decision = Mapping[str, Any]


def ideal(item: Item) -> Decision:
    """Decide as the kind of an item says."""
    actions = {"addition": "UPDATE", "correction": "SUPERSEDE", "apart": "ADD"}
    return {"action": actions.get(item["kind"], "NOOP"), "text": item.get("merged")}


MODELS: Mapping[str, Callable[[Item], Decision]] = {
    "ideal": ideal,
    "always NOOP": lambda _: {"action": "NOOP"},
    "always UPDATE, new": lambda item: {"action": "UPDATE", "text": item["new"]},
    "always UPDATE, both": lambda item: {
        "action": "UPDATE",
        "text": f"{item['old']} {item['new']}",
    },
    "always SUPERSEDE": lambda _: {"action": "SUPERSEDE"},
}


class Said:
    """A summary provider whose facts are the messages."""

    name = "said"
    needs_llm = False

    async def facts(self, transcript: Any) -> list[Fact]:
        return [
            Fact(
                text=message.text,
                origin=message.role,
                event_ids=(message.event_id,),
                said_at=message.at,
            )
            for message in transcript
        ]


async def told(memories: Memories, texts: Sequence[str], clock: FrozenClock) -> None:
    """Save the texts in sessions of their own, a day apart."""
    for number, text in enumerate(texts):
        message = Message(text=text, role="user", event_id=f"e{number}", at=clock.now)
        await memories.remember(SCOPE, [message], f"s{number}")
        await memories.work(until_idle=True)
        clock.now += DAY


def holds(content: str, text: str) -> bool:
    """Return True if a content has all words of a text, in their order."""
    words = [re.findall(r"[\u3040-\u9fff]|[\w']+", string.casefold()) for string in (content, text)]
    rest = iter(words[0])
    return all(word in rest for word in words[1])


async def judged(item: Item, decide: Callable[[Item], Decision]) -> Sequence[str]:
    """Return what went wrong with an item: "lost", "stale", "twice"."""

    def answer(prompt: str) -> Any:
        pairs = SHOWN.findall(prompt)
        return {"decisions": [{"fact": f, "memory": m, **decide(item)} for f, m in pairs]}

    clock = FrozenClock(START)
    async with await Memories.open(
        "libsql:///:memory:", llm=ScriptedLlm(answer), summary=Said(), worker=False, clock=clock
    ) as memories:
        await told(memories, (item["old"], item["new"]), clock)

        async def found(text: str, **more: Any) -> list[str]:
            hits = await memories.recall(SCOPE, text, limit=20, **more)
            return [hit.memory.content for hit in hits]

        old, new = await found(item["old"]), await found(item["new"])
        wrong = [] if any(holds(content, item["new"]) for content in new) else ["lost"]
        if not any(holds(content, item["old"]) for content in old):
            before = await found(item["old"], as_of=START + DAY / 2)
            wrong += [] if item["old"] in before else ["lost"]
        if item["kind"] == "correction" and item["old"] in (*old, *new):
            wrong.append("stale")
        if item["kind"] in (*SAME, "addition") and len({*old, *new}) > 1 and len(new) > 1:
            wrong.append("twice")
        return wrong


async def said_of_memory(item: Item) -> tuple[bool, bool]:
    """Return if a sentence said after a recall of its memory becomes another memory, and if a
    search for it hands it over.
    """
    role = "user" if "user" in item else "agent"
    text = item[role]
    async with await Memories.open("libsql:///:memory:", llm=False, worker=False) as memories:
        await memories.add(SCOPE, [item["memory"]])
        message = Message(text=text, role=role, event_id="e1", recalled=(item["memory"],))
        await memories.remember(SCOPE, [message], "s1")
        await memories.work(until_idle=True)
        hits = await memories.recall(SCOPE, text)
        found = [memory.content for hit in hits for memory in (hit.memory, *hit.sources)]
        return len((await memories.list(SCOPE)).memories) > 1, text in found


def half_of(items: Sequence[Item], half: str) -> list[Item]:
    """Return every second item of each kind, or all."""
    by_kind: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_kind[item["kind"]].append(item)
    start, step = ("ab".find(half), 2) if half else (0, 1)
    return [item for some in by_kind.values() for item in some[start::step]]


async def main(facts: Sequence[Item], agent_texts: Sequence[Item], *, show: bool) -> None:
    """Print a table of the models and the kinds of items, and a line on echoes."""
    kinds = Counter(item["kind"] for item in facts)
    print("| model |", " | ".join(f"{kind} ({count})" for kind, count in kinds.items()), "|")
    print("|---" * (len(kinds) + 1) + "|")
    for name, decide in MODELS.items():
        wrong: dict[str, Counter[str]] = defaultdict(Counter)
        for item in facts:
            for fault in await judged(item, decide):
                wrong[item["kind"]][fault] += 1
                if show:
                    print(f"{name}: {fault}: {item['old']} → {item['new']}")
        cells = (", ".join(f"{n} {fault}" for fault, n in wrong[kind].items()) for kind in kinds)
        print(f"| {name} |", " | ".join(cell or "–" for cell in cells), "|")
    counts = Counter[str]()
    for item in agent_texts:
        is_listed, is_found = await said_of_memory(item)
        outcome = item["kind"], "listed" if is_listed else "beside" if is_found else "left out"
        counts[" ".join(outcome)] += 1
        if show and outcome in (("echo", "listed"), ("news", "beside"), ("news", "left out")):
            print(*outcome, f": {item['memory']} → {item.get('agent') or item['user']}")
    for kind in ("echo", "news"):
        print(
            f"{kind}: {counts[f'{kind} listed']} become memories, {counts[f'{kind} beside']} are "
            f"kept beside theirs, {counts[f'{kind} left out']} are left out"
        )


def read(path: Path | None, half: str) -> list[Item]:
    """Return the items of a file, or a half of them."""
    return half_of(json.loads(path.read_text("utf-8")), half) if path else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("items", type=Path)
    parser.add_argument("--echoes", type=Path)
    parser.add_argument("--half", choices=("", "a", "b"), default="", help="default: all items")
    parser.add_argument("--show", action="store_true", help="print each item that went wrong")
    options = parser.parse_args()
    half = options.half
    asyncio.run(main(read(options.items, half), read(options.echoes, half), show=options.show))
