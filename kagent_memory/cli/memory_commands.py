"""Commands on memories: search, list, show, add, edit, pin, forget, history, undo, confirm."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..checks import parsed_time
from ..errors import InvalidInput, NotFound, family_of
from ..memories.forgetting import Forgotten
from ..records import MEMORY_TYPES, ORIGINS, Fact, Filter, Hit, Memory, Scope, Scopes, WhichScopes
from .command import (
    BESIDE,
    DRY_RUN,
    LIMIT,
    PAGE,
    SCOPE_OPTIONS,
    WHO,
    beside,
    flag,
    given,
    memory_id,
    on_memory,
    on_store,
    option,
    scope_of,
    tenant_of,
)
from .output import MEMORY_HEAD, Answer, Output, age, memory_row, printable, until

if TYPE_CHECKING:
    from ..memories import Memories
    from ..stores.base import Order

MAX_SHOWN = 100  # rows of a dry run
ORDERS: tuple[Order, ...] = ("newest", "oldest")
FILTERS = (
    option("--type", help="only this type", choices=MEMORY_TYPES),
    option("--category", help="only of this category"),
    option("--topic", help="only with this topic"),
    option("--tag", help="only with this tag; may be repeated", action="append"),
)
LABELS = (
    option("--type", help="what kind of memory", choices=MEMORY_TYPES),
    option("--category", help="a label of your own beside the type"),
    option("--topic", help="what it is about; may be repeated", action="append", dest="topics"),
    option("--tag", help="a label; may be repeated", action="append", dest="tags"),
    option("--importance", help="0 to 1", type=float),
    option("--ttl-days", help="days to live; 0: for ever", type=int),
)
LABELLED = ("type", "category", "topics", "tags", "importance", "ttl_days")


def _filter(args: argparse.Namespace) -> Filter:
    return Filter(
        types=(args.type,) if args.type else (),
        category=args.category,
        topics=(args.topic,) if args.topic else (),
        tags=tuple(args.tag or ()),
    )


@on_store(
    "search",
    "Find the memories that answer a question. Does not count as a delivery.",
    option("query", help="the question"),
    *SCOPE_OPTIONS,
    *FILTERS,
    BESIDE,
    option("--as-of", help="answers as at this time, such as 2026-01-31 or 2026-01-31T09:30Z"),
    option("--session", help="the session that asks: its short-term memories are searched too"),
    flag("--all-agents", "in those of all agents of --user"),
    flag("--all-users", "in those of all users of --app; with --all-agents: of the whole tenant"),
    option("--limit", help="how many at most", type=int),
    flag("--explain", "say why each was found"),
    examples=[
        'kagent-memory search "which tea?" --app demo --user ada --explain',
        'kagent-memory search "which tea?" --app demo --user ada --beside demo team',
        'kagent-memory search "which tea?" --user ada --all-agents',
    ],
)
async def search(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Search without counting deliveries."""
    scopes = await _searched_scopes(args, memories)
    recalled = await memories.recall(
        scopes,
        args.query,
        limit=args.limit,
        filter=_filter(args),
        explain=args.explain,
        deliver=False,
        as_of=parsed_time(args.as_of, "--as-of") if args.as_of else None,
        session_id=args.session,
    )
    is_one = isinstance(scopes, Scope)
    rows = [
        [
            f"{hit.score:.3f}",
            *(() if is_one else (hit.scope.app, hit.scope.user)),
            *memory_row(hit.memory),
        ]
        for hit in recalled
    ]
    explained = [
        f"{number}. {printable(hit.memory.content)}\n   {_explanation(hit)}"
        for number, hit in enumerate(recalled if args.explain else (), start=1)
    ]
    degraded = f"; {', '.join(recalled.degraded)}" if recalled.degraded else ""
    summary = f"{len(recalled)} found by {recalled.mode} search{degraded}."
    head = ("SCORE", *(() if is_one else ("AGENT", "USER")), *MEMORY_HEAD)
    return Answer(recalled, head, rows, [*explained, summary])


def _explanation(hit: Hit) -> str:
    """Return why a memory was found, as a sentence."""
    parts: list[str] = []
    if "text_rank" in hit.why:
        parts.append(f"by words: number {hit.why['text_rank']}")
    if hit.cosine is not None:
        parts.append(f"by meaning: cosine {hit.cosine:.2f}")
    if scores := hit.why.get("scores"):
        signs = sorted(scores.items(), key=lambda sign: -abs(sign[1]))
        parts.append("score: " + ", ".join(f"{name} {value:+.2f}" for name, value in signs))
    if "relevance" in hit.why:
        parts.append(f"relevance {hit.why['relevance']:.2f}")
    return "; ".join(parts)


async def _searched_scopes(args: argparse.Namespace, memories: Memories) -> WhichScopes:
    """Return the scopes of a search: one agent's and user's, those named beside them, or all.

    Raises:
        InvalidInput: options contradict each other.
    """
    others = beside(args, memories)
    if not (args.all_agents or args.all_users):
        own = await scope_of(args, memories)
        return [own, *others] if others else own
    for every, name in (("agents", "app"), ("users", "user")):
        if getattr(args, f"all_{every}") == bool(getattr(args, name)):
            raise InvalidInput(f"Give either --all-{every} or --{name}.")
    return [Scopes(tenant=tenant_of(args, memories), user=args.user, app=args.app), *others]


@on_store(
    "list",
    "List memories, a page at a time.",
    *SCOPE_OPTIONS,
    *FILTERS,
    option(
        "--short-term",
        help="only what single sessions keep for themselves",
        action="store_const",
        const="short_term",
        dest="state",
    ),
    option(
        "--quarantined",
        help="only what waits to be confirmed; see the setting quarantine",
        action="store_const",
        const="quarantined",
        dest="state",
    ),
    option("--order", help="by what", choices=ORDERS, default="newest"),
    LIMIT,
    option("--cursor", help="where the former page ended"),
    examples=[
        "kagent-memory list --app demo --user ada --order oldest --limit 10",
        "kagent-memory list --quarantined",
    ],
)
async def list_(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """List memories, a page at a time."""
    page = await memories.list(
        await scope_of(args, memories),
        filter=replace(_filter(args), superseded=args.state or False),
        order=args.order,
        limit=args.limit,
        cursor=args.cursor,
    )
    more = [f"More: --cursor {page.cursor}"] if page.cursor else []
    return Answer(page, MEMORY_HEAD, map(memory_row, page.memories), more)


@on_store(
    "show",
    "Show one memory with everything known about it; without an id count memories, deliveries and "
    "jobs of every agent and user, or those of --app and --user.",
    option("id", help="the memory's id, or how it begins", nargs="?"),
    *SCOPE_OPTIONS,
    examples=[
        "kagent-memory show 0199a1b2-… --user ada",
        "kagent-memory show",
        "kagent-memory show --user ada --json",
    ],
)
async def show(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Show one memory, or count those of a scope or of all."""
    if args.id is not None:
        scope = await scope_of(args, memories)
        return _details(await memories.get(scope, await memory_id(memories, scope, args.id)))
    counted = [(scope, await memories.stats(scope)) for scope in await _scopes(args, memories)]
    rows = [
        (
            scope.tenant,
            scope.app,
            scope.user,
            stats.visible,
            stats.pinned,
            stats.expired,
            stats.unused,
            stats.delivered_total,
            ", ".join(f"{count} {state}" for state, count in stats.jobs.items()),
            stats.oldest_job_at and age(stats.oldest_job_at),
        )
        for scope, stats in counted
    ]
    head = ("TENANT", "APP", "USER", "MEMORIES", "PINNED", "EXPIRED", "UNUSED", "DELIVERIES")
    unused = sum(stats.unused for _, stats in counted)
    lines = [f"{unused} expired unused; the next prune deletes them."] if unused else []
    value = [{"scope": scope, "stats": stats} for scope, stats in counted]
    return Answer(value, (*head, "JOBS", "OLDEST OPEN JOB"), rows, lines)


async def _scopes(args: argparse.Namespace, memories: Memories) -> list[Scope]:
    if args.app is not None or args.user is not None:
        return [await scope_of(args, memories)]
    scopes: list[Scope] = []
    while page := await memories.scopes(
        tenant=args.tenant, after=scopes[-1] if scopes else None, limit=PAGE
    ):
        scopes += page
    return scopes


def _details(memory: Memory) -> Answer:
    usage = memory.usage
    details = {
        "id": memory.id,
        "type": memory.type,
        "category": memory.category,
        "importance": f"{memory.importance:.2f}",
        "topics": ", ".join(memory.topics),
        "tags": ", ".join(memory.tags),
        "delivered": f"{usage.delivered} times ({usage.delivered_total} in its life)",
        "created": f"{memory.created_at:%Y-%m-%d %H:%M} ({age(memory.created_at)} ago)",
        "expires": until(memory.expires_at, pinned=memory.pinned),
        "source": " ".join(filter(None, (memory.origin, memory.author, memory.session_id))),
        "revision": str(memory.revision),
    }
    lines = [f"  {name:<11}{printable(value)}" for name, value in details.items() if value]
    return Answer(memory, lines=[*map(printable, memory.content.split("\n")), *lines])


@on_store(
    "add",
    "Store texts as given; a text that is already there is renewed.",
    option("text", help="what to remember (none: one a line on standard input)", nargs="*"),
    *SCOPE_OPTIONS,
    *LABELS,
    option("--origin", help="where it comes from", choices=ORIGINS, default="user"),
    examples=[
        'kagent-memory add "Ada prefers green tea" --app demo --user ada --topic tea',
        "kagent-memory add --app demo --user ada < facts.txt",
    ],
    makes=True,
)
async def add(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Store texts as given."""
    texts: list[str] = args.text or _lines()
    if not texts:
        raise InvalidInput("Give at least one text, or lines on standard input.")
    labels = given(args, *LABELLED, "origin")
    scope = await scope_of(args, memories, new=True)
    ids = await memories.add(scope, [Fact(text, **labels) for text in texts], who=WHO)
    return Answer({"ids": ids}, lines=ids)


def _lines() -> list[str]:
    try:
        return [line.strip() for line in sys.stdin or () if line.strip()]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"Standard input is not valid {error.encoding.upper()} text.") from error


@on_memory(
    "edit",
    "Change a memory; the former state stays in its history.",
    option("--content", help="the new text"),
    *LABELS,
    option("--why", help="for the history", default=""),
    examples=[
        'kagent-memory edit 0199a1b2-… --content "Ada prefers black tea" --why "she said so"'
    ],
)
async def edit(memories: Memories, scope: Scope, id: str, args: argparse.Namespace) -> Answer:
    """Change what is given; the former state stays in the history."""
    changes = given(args, "content", *LABELLED)
    if not changes:
        raise InvalidInput(
            "Say what to change: --content, --type, --category, --topic, --tag, --importance or "
            "--ttl-days."
        )
    return _details(await memories.edit(scope, id, **changes, who=WHO, why=args.why))


@on_memory(
    "pin",
    "Keep a memory, whatever the prune would do.",
    flag("--off", "unpin it"),
    examples=["kagent-memory pin 0199a1b2-…", "kagent-memory pin 0199a1b2-… --off"],
)
async def pin(memories: Memories, scope: Scope, id: str, args: argparse.Namespace) -> Answer:
    """Pin or unpin a memory."""
    memory = await memories.pin(scope, id, not args.off, who=WHO)
    return Answer(memory, lines=["Pinned." if memory.pinned else "No longer pinned."])


@on_store(
    "forget",
    "Erase memories for good, with their history; saving their session again does not bring them "
    "back.",
    option("ids", help="memories' ids, or how they begin", nargs="*"),
    *SCOPE_OPTIONS,
    option("--session", help="all of a session, what is queued of it too", dest="session_id"),
    option("--tag", help="those with this tag"),
    option("--author", help="those of this author, what is queued of theirs too"),
    option(
        "--before", help="those added before this time, such as 2026-01-31 or 2026-01-31T09:30Z"
    ),
    option("--after", help="those added at this time or later"),
    flag("--everything", "all of this agent and user"),
    flag("--yes", "really, with --everything"),
    DRY_RUN,
    examples=[
        "kagent-memory forget 0199a1b2-…",
        "kagent-memory forget --session s-17 --dry-run",
        "kagent-memory forget --tag travel --before 2026-01-31",
        "kagent-memory forget --everything --yes --app demo --user ada",
    ],
)
async def forget(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Erase for good."""
    conditions = given(args, "session_id", "tag", "author", "before", "after")
    for name in conditions.keys() & {"before", "after"}:
        conditions[name] = parsed_time(conditions[name], f"--{name}")
    if sum((bool(args.ids), bool(conditions), args.everything)) != 1:
        raise InvalidInput(
            "Name exactly one: ids, conditions (--session, --tag, --author, --before, --after), "
            "or --everything."
        )
    scope = await scope_of(args, memories)
    if args.everything and not args.yes and not args.dry_run:
        raise InvalidInput(
            f"This erases all memories of {scope.app} about {scope.user}; say --yes to do it."
        )
    if args.ids:
        return await _forget_ids(memories, args, scope, say)
    erased = await memories.forget(
        scope, **conditions, everything=args.everything, dry_run=args.dry_run, who=WHO
    )
    return await _forgotten(memories, args, scope, erased)


async def _forget_ids(
    memories: Memories, args: argparse.Namespace, scope: Scope, say: Output
) -> Answer:
    erased: dict[str, None] = {}
    linked: set[str] = set()
    missing: list[str] = []
    for named in args.ids:
        id = await memory_id(memories, scope, named)
        if id in erased:  # it went with one before
            continue
        try:
            gone = await memories.forget(scope, [id], dry_run=args.dry_run, who=WHO)
        except NotFound:
            missing.append(id)
        else:
            erased |= dict.fromkeys(gone)
            linked |= {*gone.linked}
    gone = Forgotten(tuple(erased), tuple(sorted(linked - erased.keys())))
    answer = await _forgotten(memories, args, scope, gone)
    if not missing:
        return answer
    say.note(f"kagent-memory: No memory {', '.join(map(printable, missing))} in this scope.")
    value = answer.value | {"not_found": missing}
    return replace(answer, value=value, code=family_of(NotFound()).exit_code)


async def _forgotten(
    memories: Memories, args: argparse.Namespace, scope: Scope, erased: Forgotten
) -> Answer:
    if not args.dry_run:
        return Answer({"forgotten": [*erased]}, lines=[f"{len(erased)} forgotten."])
    rows: list[list[object]] = []
    for id in erased[:MAX_SHOWN]:
        try:
            rows.append(memory_row(await memories.get(scope, id, superseded=True)))
        except NotFound:
            rows.append([id, None, None, None, "expired", None])
    value: dict[str, Any] = {"would_forget": [*erased]}
    lines = [f"{len(erased)} would be forgotten."]
    if erased.linked:
        value["linked"] = [*erased.linked]
        lines.append("These say the same and stay, unless they are named too:")
        same = [await memories.get(scope, id) for id in erased.linked]
        lines += [f"{memory.id}  {printable(memory.content)}" for memory in same]
    return Answer(value, MEMORY_HEAD if rows else (), rows, lines)


@on_memory(
    "history",
    "Show what happened to a memory: when, by whom, why, and what it was before.",
    examples=["kagent-memory history 0199a1b2-…"],
)
async def history(memories: Memories, scope: Scope, id: str, args: argparse.Namespace) -> Answer:
    """Show what happened to a memory."""
    revisions = await memories.history(scope, id)
    rows = [
        (one.at, one.kind, one.who, one.why, one.before and one.before.content) for one in revisions
    ]
    lines = [] if rows else ["Nothing has changed since it was stored."]
    return Answer(revisions, ("AT", "WHAT", "WHO", "WHY", "BEFORE"), rows, lines)


@on_memory(
    "undo",
    "Undo the last change to a memory, and everything else that the same decision changed.",
    examples=["kagent-memory undo 0199a1b2-…"],
)
async def undo(memories: Memories, scope: Scope, id: str, args: argparse.Namespace) -> Answer:
    """Undo the last change to a memory."""
    restored = await memories.undo(scope, id, who=WHO)
    return Answer(restored, MEMORY_HEAD, map(memory_row, restored))


@on_memory(
    "confirm",
    "Let a memory out of quarantine: from now on it is found. `forget` erases one instead.",
    examples=["kagent-memory confirm 0199a1b2-…"],
)
async def confirm(memories: Memories, scope: Scope, id: str, args: argparse.Namespace) -> Answer:
    """Let a memory out of quarantine."""
    return _details(await memories.confirm(scope, id, who=WHO))


COMMANDS = (search, list_, show, add, edit, pin, forget, history, undo, confirm)
