import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from kagent_memory.ingestion.consolidation import plan, plan_merges
from kagent_memory.ingestion.firewall import KnownMemory, mask_recalled
from kagent_memory.models.llm import parse_answer
from kagent_memory.records import Fact, Message
from kagent_memory.retention.lifecycle import to_memory

from .corpus import CHAINS, PAIRS

NOW = datetime(2024, 5, 8, tzinfo=UTC)


class Answering:
    """A model that answers by the facts and memories it is shown."""

    name = "answering"

    def __init__(self, decide):
        self.decide = decide
        self.calls = 0

    async def complete(self, prompt, *, schema):
        self.calls += 1
        if "<groups>" in prompt:
            shown = re.findall(r"^(G\d+):\n((?:  - .*\n?)+)", prompt, re.MULTILINE)
            texts = {name: [line[4:] for line in lines.splitlines()] for name, lines in shown}
            answer = {"groups": [{"group": name, **self.decide(lines)} for name, lines in texts.items()]}
        else:
            shown = re.findall(r"^(F\d+): \[[^]]+\] (.*)\n  M1: \[[^]]+\] (.*)$", prompt, re.MULTILINE)
            answer = {
                "decisions": [{"fact": name, "memory": "M1", **self.decide([new, old])} for name, new, old in shown]
            }
        return parse_answer(json.dumps(answer), schema)


def row(text, *, subject="", attribute="", days=0):
    fact = Fact(text=text, subject=subject or None, attribute=attribute or None)
    return to_memory(fact, now=NOW - timedelta(days=days), ttl_days=15)


def pairs(kind):
    return [pair for pair in PAIRS if pair.kind == kind]


async def planned(pair, llm):
    old, new = rows_of(pair)
    return old, new, await plan([new], {0: [(old, 0.9)]}, llm=llm, now=NOW)


async def merged(rows, llm):
    alike = {(a.id, b.id): 0.95 for a, b in pairwise(rows)}
    return await plan_merges(rows, alike, llm, now=NOW)


def rows_of(pair):
    slot = {"subject": pair.subject, "attribute": pair.attribute}
    return [row(pair.old, days=3, **slot), row(pair.new, **slot)]


def test_the_corpus_is_large_enough():
    counts = Counter(pair.kind for pair in PAIRS)
    assert len(PAIRS) >= 200
    assert min(counts.values()) >= 40
    assert len(CHAINS) >= 10


async def test_a_model_that_always_updates_changes_no_protected_pair():
    always = Answering(lambda texts: {"action": "UPDATE", "text": texts[0]})
    for pair in pairs("coexisting"):
        _, new, found = await planned(pair, always)
        assert [(change.kind, change.memory) for change in found.changes] == [("add", new)], pair
        assert (found.reinforced, found.vetoed) == ((), 1)


async def test_a_model_that_always_drops_or_supersedes_loses_no_protected_fact():
    for action in ("NOOP", "SUPERSEDE"):
        for pair in pairs("coexisting"):
            _, new, found = await planned(pair, Answering(lambda texts, action=action: {"action": action}))
            assert [(change.kind, change.memory) for change in found.changes] == [("add", new)], (action, pair)


async def test_a_model_that_always_merges_merges_no_protected_pair():
    always = Answering(lambda texts: {"merge": True, "text": texts[0]})
    for pair in pairs("coexisting") + pairs("correction"):
        assert await merged(rows_of(pair), always) == (), pair


async def test_a_model_that_always_merges_makes_no_chain_one_memory():
    always = Answering(lambda texts: {"merge": True, "text": texts[0]})
    for chain in CHAINS:
        changes = await merged([row(text, days=number) for number, text in enumerate(chain)], always)
        joined = Counter(change.group for change in changes)
        assert set(joined.values()) <= {2}, "two links at the most, never the chain"


async def test_with_an_oracle_9_of_10_paraphrases_meet_and_9_of_10_corrections_supersede():
    truth = {frozenset((pair.old, pair.new)): pair.kind for pair in PAIRS}
    actions = {"coexisting": "ADD", "paraphrase": "NOOP", "correction": "SUPERSEDE"}

    def decide(texts):
        kind = truth[frozenset(re.sub(r" \(subject: .*\)$", "", text) for text in texts)]
        return {"action": actions[kind], "merge": kind == "paraphrase", "text": texts[0]}

    oracle = Answering(decide)
    outcome = Counter()
    for pair in PAIRS:
        old, _, found = await planned(pair, oracle)
        kinds = [change.kind for change in found.changes]
        if pair.kind == "correction":
            outcome[pair.kind] += kinds == ["add", "supersede"] and found.changes[1].memory.id == old.id
        elif pair.kind == "paraphrase":
            outcome[pair.kind] += found.reinforced == (old.id,) and not kinds
            outcome["merged"] += bool(await merged(rows_of(pair), oracle))
        else:
            outcome[pair.kind] += kinds == ["add"]
    print(dict(outcome), {kind: len(pairs(kind)) for kind in actions})
    assert outcome["paraphrase"] >= 0.9 * len(pairs("paraphrase"))
    assert outcome["merged"] >= 0.9 * len(pairs("paraphrase"))
    assert outcome["correction"] >= 0.9 * len(pairs("correction"))
    assert outcome["coexisting"] == len(pairs("coexisting"))


async def test_without_a_model_corrections_of_a_slot_supersede_and_everything_else_stays():
    for pair in PAIRS:
        old, _, found = await planned(pair, None)
        kinds = [change.kind for change in found.changes]
        if pair.kind == "correction":
            assert kinds == ["add", "supersede"], pair
        else:
            assert kinds == ["add"] or found.reinforced == (old.id,), pair
        if pair.kind == "coexisting":
            assert kinds == ["add"], pair


async def test_all_pairs_at_once_are_one_call():
    llm = Answering(lambda texts: {"action": "ADD"})
    chosen = PAIRS[:50]
    rows = [row(f"{pair.new} ({number})") for number, pair in enumerate(chosen)]
    near = {number: [(row(pair.old), 0.9)] for number, pair in enumerate(chosen)}
    found = await plan(rows, near, llm=llm, now=NOW)
    assert (llm.calls, len(found.changes)) == (1, 50)
    assert await plan([replace(rows[0])], {}, llm=llm, now=NOW)
    assert llm.calls == 1, "a fact without neighbours asks nothing"


def test_the_firewall_takes_no_different_fact_for_an_echo_and_nearly_all_rewordings_for_one():
    def is_masked(pair, *, same_turn):
        recalled = [Message(text="", role="tool", recalled=(pair.old,))] if same_turn else []
        kept, _ = mask_recalled(
            [Message(text="Hm?"), *recalled, Message(text=pair.new, role="agent")], [KnownMemory("m", pair.old)]
        )
        return all(message.role != "agent" for message in kept)

    for same_turn in (True, False):
        assert sum(is_masked(pair, same_turn=same_turn) for pair in pairs("paraphrase")) >= 70
        for pair in pairs("coexisting") + pairs("correction"):
            assert not is_masked(pair, same_turn=same_turn), pair
