"""Commands on memories: search, list, show, add, edit, pin, forget, history, undo, confirm."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import click

from ..errors import InvalidInput
from ..memories import Memories
from ..memories.reading import existing, sentences_of
from ..records import MEMORY_TYPES, ORIGINS, Fact, Filter, Hit, Memory, Scope, Scopes
from ..stores.values import ScopeStats
from .command import (
    BESIDE,
    LIMIT,
    MEMORY_OPTIONS,
    SCOPE_OPTIONS,
    WHO,
    Call,
    arguments,
    command,
    flag,
    option,
    text,
)
from .output import (
    MEMORY_COLUMNS,
    SCOPE_COLUMNS,
    Answer,
    Column,
    described,
    expiry,
    printable,
    value_in,
)

MAX_SHOWN = 100  # memories that a dry run lists
FILTERS = (
    option("--type", "only this type", type=click.Choice(MEMORY_TYPES)),
    option("--category", "only of this category"),
    option("--topic", "only with this topic"),
    option("--tag", "only with this tag; may be repeated", multiple=True),
)
LABELS = "type category topics tags importance ttl_days"
HIT_COLUMNS: Mapping[str, Column] = {
    title: lambda hit, column=column: value_in(column, hit.memory)
    for title, column in MEMORY_COLUMNS.items()
}


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one scope."""

    scope: Scope
    stats: ScopeStats


COUNT_COLUMNS: Mapping[str, Column] = {
    **SCOPE_COLUMNS,
    "MEMORIES": "stats.visible",
    "PINNED": "stats.pinned",
    "EXPIRED": "stats.expired",
    "UNUSED": "stats.unused",
    "DELIVERIES": "stats.delivered_total",
    "JOBS": "stats.jobs",
    "OLDEST OPEN JOB": "stats.oldest_job_at",
}


def _filter(args: SimpleNamespace) -> Filter:
    return Filter(
        types=(args.type,) if args.type else (),
        category=args.category,
        topics=(args.topic,) if args.topic else (),
        tags=args.tag,
    )


@command(
    "search",
    *arguments(Memories.recall, "query limit as_of session_id explain"),
    *SCOPE_OPTIONS,
    *FILTERS,
    BESIDE,
    flag("--all", "search all agents, or users, that --app and --user leave open"),
)
async def search(call: Call) -> Answer:
    """Find the memories that answer a question. Does not count as a delivery.

    Examples:
        kagent-memory search "which tea?" --app demo --user ada --explain
        kagent-memory search "which tea?" --app demo --user ada --beside demo team
        kagent-memory search "which tea?" --user ada --all
    """
    args = call.args
    every = Scopes(tenant=call.tenant, user=args.user, app=args.app)
    first, others = every if args.all else await call.scope(), call.beside()
    scopes = [first, *others] if others else first
    recalled = await call.perform(
        Memories.recall, scope=scopes, filter=_filter(args), deliver=False
    )
    columns: dict[str, Column] = {"SCORE": lambda hit: f"{hit.score:.3f}"}
    if not isinstance(scopes, Scope):
        columns |= {"AGENT": "scope.app", "USER": "scope.user"}
    explained = [
        f"{number}. {printable(hit.memory.content)}\n   {_explanation(hit)}"
        for number, hit in enumerate(recalled if args.explain else (), start=1)
    ]
    degraded = f"; {', '.join(recalled.degraded)}" if recalled.degraded else ""
    summary = f"{len(recalled)} found by {recalled.mode} search{degraded}."
    return Answer(recalled, {**columns, **HIT_COLUMNS}, lines=[*explained, summary])


def _explanation(hit: Hit) -> str:
    """Explain in sentences why a memory was found."""
    signs = sorted(hit.why.get("scores", {}).items(), key=lambda sign: -abs(sign[1]))
    score = ", ".join(f"{name} {value:+.2f}" for name, value in signs)
    said = [*sentences_of(hit), f"Relevance: {hit.relevance:.2f}."]
    return " ".join([*said, f"Score: {score}."] if score else said)


@command(
    "list",
    *SCOPE_OPTIONS,
    *FILTERS,
    option(
        "--short-term state",
        "only short-term memories, which only their session sees",
        flag_value="short_term",
    ),
    option(
        "--quarantined state",
        "only memories that wait to be confirmed; see the setting quarantine",
        flag_value="quarantined",
    ),
    *arguments(Memories.list, "order cursor"),
    LIMIT,
)
async def list_(call: Call) -> Answer:
    """List memories page by page.

    Examples:
        kagent-memory list --app demo --user ada --order oldest --limit 10
        kagent-memory list --quarantined
    """
    filter = replace(_filter(call.args), superseded=call.args.state or False)
    page = await call.perform(Memories.list, filter=filter)
    linked = [
        f"{memory.id} linked with {', '.join(memory.links)}"
        for memory in page.memories
        if memory.links
    ]
    answer = Answer(page, MEMORY_COLUMNS, page.memories)
    return replace(answer, lines=[*linked, *described(answer)])


@command(
    "show",
    option("id", "the memory's id, or how it begins", type=text, required=False),
    *SCOPE_OPTIONS,
)
async def show(call: Call) -> Answer:
    """Show a memory with all its details. Without an id, count the memories, deliveries and jobs of
    every agent and user, or of --app and --user.

    Examples:
        kagent-memory show 0199a1b2-… --user ada
        kagent-memory show
        kagent-memory show --user ada --json
    """
    if call.args.id is not None:
        return _details(await call.perform(Memories.get))
    named, memories = call.given("tenant", "user", "app"), call.memories
    counted = [
        Counted(scope, await memories.stats(scope)) async for scope in memories.each_scope(**named)
    ]
    return Answer(counted, COUNT_COLUMNS)


def _details(memory: Memory) -> Answer:
    names = "id type category importance topics tags created_at origin author session_id revision"
    details = {name: getattr(memory, name) for name in names.split()}
    details |= {"expires": expiry(memory), "delivered": memory.usage.delivered}
    details |= {"linked with": memory.links}
    content = [printable(line) for line in memory.content.split("\n")]
    return Answer(memory, lines=[*content, *described(Answer(details))])


@command(
    "add",
    option("text", "texts to store (default: the lines of standard input)", nargs=-1),
    *SCOPE_OPTIONS,
    *arguments(Memories.edit, LABELS),
    option("--origin", "the source of the texts", type=click.Choice(ORIGINS), default="user"),
    makes=True,
)
async def add(call: Call) -> Answer:
    """Store texts as given. A text that is already stored gets its TTL anew.

    Examples:
        kagent-memory add "Ada prefers green tea" --app demo --user ada --topic tea
        kagent-memory add --app demo --user ada < facts.txt
    """
    texts: Sequence[str] = call.args.text or _lines()
    if not texts:
        raise InvalidInput("Give at least one text, or lines on standard input.")
    labels = call.given(*LABELS.split(), "origin")
    scope = await call.scope()
    ids = await call.memories.add(scope, [Fact(text, **labels) for text in texts], who=WHO)
    return Answer({"ids": ids}, lines=ids)


def _lines() -> list[str]:
    try:
        return [line.strip() for line in sys.stdin or () if line.strip()]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"Standard input is not valid {error.encoding.upper()} text.") from error


@command(
    "edit",
    *MEMORY_OPTIONS,
    *arguments(Memories.edit, f"content {LABELS} why"),
)
async def edit(call: Call) -> Answer:
    """Change a memory. Its history keeps the previous state.

    Examples:
        kagent-memory edit 0199a1b2-… --content "Ada prefers black tea" --why "she said so"
    """
    return _details(await call.perform(Memories.edit))


@command("pin", *MEMORY_OPTIONS, flag("--off", "unpin it"))
async def pin(call: Call) -> Answer:
    """Pin a memory, so that it never expires and the prune never deletes it.

    Examples:
        kagent-memory pin 0199a1b2-…
        kagent-memory pin 0199a1b2-… --off
    """
    return _details(await call.perform(Memories.pin, pinned=not call.args.off))


@command(
    "forget",
    option("ids", "memories' ids, or how they begin", type=text, nargs=-1),
    *SCOPE_OPTIONS,
    *arguments(Memories.forget, "session_id tag author before after everything dry_run"),
    flag("--yes", "confirm --everything"),
)
async def forget(call: Call) -> Answer:
    """Erase memories for good, with their history. Saving their session again does not bring them
    back.

    Examples:
        kagent-memory forget 0199a1b2-…
        kagent-memory forget --session s-17 --dry-run
        kagent-memory forget --tag travel --before 2026-01-31
        kagent-memory forget --everything --yes --app demo --user ada
    """
    args = call.args
    scope = await call.scope()
    if args.everything and not (args.yes or args.dry_run):
        raise InvalidInput(
            f"This erases all memories of {scope.app} about {scope.user}; add --yes to do it."
        )
    ids = [await call.whole_id(scope, text) for text in args.ids] or None
    gone = await call.perform(Memories.forget, scope=scope, ids=ids)
    if not args.dry_run:
        return Answer({"forgotten": [*gone]})
    value = {"would_forget": [*gone], "linked": [*gone.linked]}
    shown = await existing(call.memories, scope, [*gone, *gone.linked][:MAX_SHOWN])
    return Answer(value, MEMORY_COLUMNS if shown else {}, shown)


@command("history", *MEMORY_OPTIONS)
async def history(call: Call) -> Answer:
    """Show the changes to a memory: when, by whom, why, and the content before.

    Examples:
        kagent-memory history 0199a1b2-…
    """
    revisions = await call.perform(Memories.history)
    columns: dict[str, Column] = {
        "AT": "at",
        "WHAT": "kind",
        "WHO": "who",
        "WHY": "why",
        "BEFORE": lambda revision: revision.before and revision.before.content,
    }
    return Answer(revisions, columns)


@command("undo", *MEMORY_OPTIONS)
async def undo(call: Call) -> Answer:
    """Undo the last change to a memory. Other changes of the same decision are undone too.

    Examples:
        kagent-memory undo 0199a1b2-…
    """
    return Answer(await call.perform(Memories.undo), MEMORY_COLUMNS)


@command("confirm", *MEMORY_OPTIONS)
async def confirm(call: Call) -> Answer:
    """Release a memory from quarantine, so that it is found. `forget` erases one instead.

    Examples:
        kagent-memory confirm 0199a1b2-…
    """
    return _details(await call.perform(Memories.confirm))
