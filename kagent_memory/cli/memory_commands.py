"""Commands on memories: search, list, show, add, edit, pin, forget, history, undo, confirm."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..errors import InvalidInput, NotFound
from ..records import MEMORY_TYPES, ORIGINS, Fact, Filter, Memory, Revision, Scope, Scopes, WhichScopes, parsed_time
from .command import (
    BESIDE,
    DRY_RUN,
    ID,
    LIMIT,
    SCOPE_OPTIONS,
    Command,
    beside,
    exit_code,
    opened,
    option,
    scope_of,
)
from .output import MEMORY_HEAD, Output, memory_row, printable, span

if TYPE_CHECKING:
    from ..memories import OpenedMemories
    from ..stores.base import Order

WHO = "command line"
SHOWN = 100  # rows of a dry run
PAGE = 1000
ORDERS: tuple[Order, ...] = ("newest", "oldest", "delivered", "expires", "importance")
FILTERS = (
    option("--type", help="only this type", choices=MEMORY_TYPES),
    option("--category", help="only of this category"),
    option("--topic", help="only with this topic"),
    option("--tag", help="only with this tag; may be repeated", action="append"),
)
LABELS = (
    option("--type", help="what kind of memory", choices=MEMORY_TYPES),
    option("--category", help="a label of your own beside the type"),
    option("--topic", help="what it is about; may be repeated", action="append"),
    option("--tag", help="a label; may be repeated", action="append"),
    option("--importance", help="0 to 1", type=float),
    option("--ttl-days", help="days to live; 0: for ever", type=int),
)


def _filter(args: argparse.Namespace) -> Filter:
    return Filter(
        types=(args.type,) if args.type else (),
        category=args.category,
        topics=(args.topic,) if args.topic else (),
        tags=tuple(args.tag or ()),
    )


async def search(args: argparse.Namespace, say: Output) -> int:
    """Searches, without counting deliveries."""
    at = None if args.as_of is None else parsed_time(args.as_of, "--as-of")
    async with opened(args) as memories:
        whose = await _searched(args, memories)
        recalled = await memories.recall(
            whose,
            args.query,
            limit=args.limit,
            filter=_filter(args),
            explain=args.explain,
            deliver=False,
            as_of=at,
            session_id=args.session,
        )
    say.value(recalled)
    several = not isinstance(whose, Scope)
    head = ("SCORE", *(("AGENT", "USER") if several else ()), *MEMORY_HEAD)
    say.table(
        head,
        [
            [f"{hit.score:.3f}", *((hit.scope.app, hit.scope.user) if several else ()), *memory_row(hit.memory)]
            for hit in recalled
        ],
    )
    for hit in recalled if args.explain else ():
        say.line(f"{hit.memory.id}: " + ", ".join(f"{name} {value}" for name, value in hit.why.items()))
    degraded = f"; {', '.join(recalled.degraded)}" if recalled.degraded else ""
    say.line(f"{len(recalled)} found by {recalled.mode} search{degraded}.")
    return 0


async def _searched(args: argparse.Namespace, memories: OpenedMemories) -> WhichScopes:
    """Whose memories a search is about: one agent's and user's, those named beside them, or all."""
    tenant: str = memories.settings.tenant if args.tenant is None else args.tenant
    others = beside(args, memories)
    if args.all_agents and args.all_users:
        if args.user is not None or args.app is not None:
            raise InvalidInput("--all-agents with --all-users searches the whole tenant; leave --app and --user out.")
        return [Scopes(tenant=tenant), *others]
    if args.all_agents:
        if not args.user or args.app is not None:
            raise InvalidInput("--all-agents takes --user and no --app: all of them are searched.")
        return [Scopes(tenant=tenant, user=args.user), *others]
    if args.all_users:
        if not args.app or args.user is not None:
            raise InvalidInput("--all-users takes --app and no --user: all of them are searched.")
        return [Scopes(tenant=tenant, app=args.app), *others]
    own = await scope_of(args, memories)
    return [own, *others] if others else own


async def list_(args: argparse.Namespace, say: Output) -> int:
    """Lists memories."""
    async with opened(args) as memories:
        scope = await scope_of(args, memories)
        wanted = replace(_filter(args), superseded=args.state or False)
        page = await memories.list(scope, filter=wanted, order=args.order, limit=args.limit, cursor=args.cursor)
    say.value(page)
    say.table(MEMORY_HEAD, [memory_row(memory) for memory in page.memories])
    if page.cursor:
        say.line(f"More: --cursor {page.cursor}")
    return 0


async def show(args: argparse.Namespace, say: Output) -> int:
    """Show one memory, or count those of a scope or of all."""
    if args.id is None:
        return await _show_counts(args, say)
    async with opened(args) as memories:
        _shown(await memories.get(await scope_of(args, memories), args.id), say)
    return 0


async def _show_counts(args: argparse.Namespace, say: Output) -> int:
    from ..stores.base import ScopeStats

    async with opened(args) as memories:
        scopes = await _scopes(args, memories)
        counted = [(scope, await memories.stats(scope)) for scope in scopes]
    say.value([{"scope": scope, "stats": one} for scope, one in counted], list[dict[str, Scope | ScopeStats]])
    head = ("TENANT", "APP", "USER", "MEMORIES", "PINNED", "EXPIRED", "UNUSED", "DELIVERIES", "JOBS", "OLDEST OPEN JOB")
    now = datetime.now(UTC)
    rows = [
        [
            *(scope.tenant or "-", scope.app, scope.user, str(one.visible), str(one.pinned), str(one.expired)),
            *(
                str(one.unused),
                str(one.delivered_total),
                ", ".join(f"{count} {state}" for state, count in one.jobs.items()) or "-",
            ),
            span(now - one.oldest_job_at) if one.oldest_job_at else "-",
        ]
        for scope, one in counted
    ]
    say.table(head, rows)
    if unused := sum(one.unused for _, one in counted):
        say.line(f"{unused} expired unused; the next prune deletes {'it' if unused == 1 else 'them'}.")
    return 0


async def _scopes(args: argparse.Namespace, memories: OpenedMemories) -> list[Scope]:
    if args.app is not None or args.user is not None:
        return [await scope_of(args, memories)]
    scopes: list[Scope] = []
    while page := await memories.scopes(tenant=args.tenant, after=scopes[-1] if scopes else None, limit=PAGE):
        scopes += page
    return scopes


def _shown(memory: Memory, say: Output) -> None:
    say.value(memory)
    say.line(memory.content if memory.content.isprintable() else "\n".join(map(printable, memory.content.split("\n"))))
    pairs = {
        "id": memory.id,
        "type": memory.type,
        "category": memory.category,
        "importance": f"{memory.importance:.2f}",
        "topics": ", ".join(memory.topics),
        "tags": ", ".join(memory.tags),
        "delivered": f"{memory.usage.delivered} ({memory.usage.delivered_total} in its life)",
        "created": memory.created_at.isoformat(timespec="seconds"),
        "expires": "stays: pinned" if memory.pinned else str(memory.expires_at and memory.expires_at.isoformat()),
        "source": " ".join(part for part in (memory.origin, memory.author, memory.session_id) if part),
        "revision": str(memory.revision),
    }
    for name, value in pairs.items():
        if value:
            say.line(f"  {name:<11}{printable(value)}")


async def add(args: argparse.Namespace, say: Output) -> int:
    """Stores memories as given."""
    texts: list[str] = args.text or []
    if not texts and sys.stdin is not None:  # pyright: ignore[reportUnnecessaryComparison] the caller may close it
        try:
            texts = [line.strip() for line in sys.stdin if line.strip()]
        except UnicodeDecodeError as error:
            raise InvalidInput(f"Standard input is not valid {error.encoding.upper()} text.") from error
    if not texts:
        raise InvalidInput("Give at least one text, or lines on standard input.")
    facts = [
        Fact(
            text,
            type=args.type or "semantic",
            category=args.category,
            topics=tuple(args.topic or ()),
            tags=tuple(args.tag or ()),
            importance=0.5 if args.importance is None else args.importance,
            ttl_days=args.ttl_days,
            origin=args.origin,
        )
        for text in texts
    ]
    async with opened(args) as memories:
        ids = await memories.add(await scope_of(args, memories, new=True), facts, who=WHO)
    say.value({"ids": ids})
    for id in ids:
        say.line(id)
    return 0


async def edit(args: argparse.Namespace, say: Output) -> int:
    """Changes what is given; the former state stays in the history."""
    fields = (args.content, args.type, args.category, args.topic, args.tag, args.importance, args.ttl_days)
    if all(value is None for value in fields):
        raise InvalidInput(
            "Say what to change: --content, --type, --category, --topic, --tag, --importance or --ttl-days."
        )
    async with opened(args) as memories:
        memory = await memories.edit(
            await scope_of(args, memories),
            args.id,
            content=args.content,
            type=args.type,
            category=args.category,
            topics=args.topic,
            tags=args.tag,
            importance=args.importance,
            ttl_days=args.ttl_days,
            who=WHO,
            why=args.why,
        )
    _shown(memory, say)
    return 0


async def pin(args: argparse.Namespace, say: Output) -> int:
    """Pins or unpins a memory."""
    async with opened(args) as memories:
        memory = await memories.pin(await scope_of(args, memories), args.id, not args.off, who=WHO)
    say.value(memory)
    say.line("Pinned." if memory.pinned else "No longer pinned.")
    return 0


async def forget(args: argparse.Namespace, say: Output) -> int:
    """Erases for good."""
    before, after = (
        None if given is None else parsed_time(given, name)
        for name, given in (("--before", args.before), ("--after", args.after))
    )
    named = [value for value in (args.session, args.tag, args.author, before, after) if value is not None]
    if sum((bool(args.ids), bool(named), args.everything)) != 1:
        raise InvalidInput(
            "Name exactly one: ids, conditions (--session, --tag, --author, --before, --after), or --everything."
        )
    async with opened(args) as memories:
        scope = await scope_of(args, memories)
        if args.everything and not args.yes and not args.dry_run:
            raise InvalidInput(f"This erases all memories of {scope.app} about {scope.user}; say --yes to do it.")
        missing: Sequence[str] = ()
        if args.ids:
            erased, missing = await _forget_ids(args, memories, scope)
        else:
            erased = await memories.forget(
                scope,
                session_id=args.session,
                tag=args.tag,
                author=args.author,
                before=before,
                after=after,
                everything=args.everything,
                dry_run=args.dry_run,
                who=WHO,
            )
        rows = [await _doomed_row(memories, scope, id) for id in erased[:SHOWN]] if args.dry_run else []
    answer = {"would_forget" if args.dry_run else "forgotten": [*erased]}
    say.value(answer | ({"not_found": [*missing]} if missing else {}))
    if rows:
        say.table(MEMORY_HEAD, rows)
    say.line(f"{len(erased)} {'would be forgotten' if args.dry_run else 'forgotten'}.")
    if missing:
        say.note(f"kagent-memory: No memory {', '.join(map(printable, missing))} in this scope.")
    return exit_code(NotFound()) if missing else 0


async def _forget_ids(
    args: argparse.Namespace, memories: OpenedMemories, scope: Scope
) -> tuple[Sequence[str], Sequence[str]]:
    """The ids erased, and those that were not there."""
    erased: dict[str, None] = {}
    missing: list[str] = []
    for id in args.ids:
        if id in erased:  # it went with one before
            continue
        try:
            erased |= dict.fromkeys(await memories.forget(scope, [id], dry_run=args.dry_run, who=WHO))
        except NotFound:
            missing.append(id)
    return tuple(erased), missing


async def _doomed_row(memories: OpenedMemories, scope: Scope, id: str) -> list[str]:
    try:
        return memory_row(await memories.get(scope, id, superseded=True))
    except NotFound:
        return [id, "-", "-", "-", "expired", "-"]


async def history(args: argparse.Namespace, say: Output) -> int:
    """Tells what happened to a memory."""
    async with opened(args) as memories:
        scope = await scope_of(args, memories)
        revisions = await memories.history(scope, args.id)
        if not revisions:
            await memories.get(scope, args.id)  # one that is not there has no history either
    say.value(list(revisions), list[Revision])
    say.table(
        ("AT", "WHAT", "WHO", "WHY", "BEFORE"),
        [
            [
                one.at.isoformat(timespec="seconds"),
                one.kind,
                one.who or "-",
                one.why or "-",
                one.before.content if one.before else "-",
            ]
            for one in revisions
        ],
    )
    if not revisions:
        say.line("Nothing has changed since it was stored.")
    return 0


async def undo(args: argparse.Namespace, say: Output) -> int:
    """Undoes the last change."""
    async with opened(args) as memories:
        restored = await memories.undo(await scope_of(args, memories), args.id, who=WHO)
    say.value(list(restored), list[Memory])
    say.table(MEMORY_HEAD, [memory_row(memory) for memory in restored])
    return 0


async def confirm(args: argparse.Namespace, say: Output) -> int:
    """Release a memory from quarantine."""
    async with opened(args) as memories:
        _shown(await memories.confirm(await scope_of(args, memories), args.id, who=WHO), say)
    return 0


COMMANDS = (
    Command(
        name="search",
        help="Find the memories that answer a question. Does not count as a delivery.",
        examples=[
            'kagent-memory search "which tea?" --app demo --user ada --explain',
            'kagent-memory search "which tea?" --app demo --user ada --beside demo team',
            'kagent-memory search "which tea?" --user ada --all-agents',
        ],
        options=(
            option("query", help="the question"),
            *SCOPE_OPTIONS,
            *FILTERS,
            BESIDE,
            option("--as-of", help="answers as at this time, such as 2026-01-31 or 2026-01-31T09:30Z"),
            option("--session", help="the session that asks: its short-term memories are searched too"),
            option("--all-agents", help="in those of all agents of --user", action="store_true"),
            option(
                "--all-users",
                help="in those of all users of --app; with --all-agents: of the whole tenant",
                action="store_true",
            ),
            option("--limit", help="how many at most", type=int),
            option("--explain", help="say why each was found", action="store_true"),
        ),
        run=search,
    ),
    Command(
        name="list",
        help="List memories, a page at a time.",
        examples=[
            "kagent-memory list --app demo --user ada --order delivered --limit 10",
            "kagent-memory list --quarantined",
        ],
        options=(
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
        ),
        run=list_,
    ),
    Command(
        name="show",
        help="Show one memory with everything known about it; without an id count memories, deliveries and jobs of "
        "every agent and user, or those of --app and --user.",
        examples=[
            "kagent-memory show 0199a1b2-… --user ada",
            "kagent-memory show",
            "kagent-memory show --user ada --json",
        ],
        options=(option("id", help="the memory's id", nargs="?"), *SCOPE_OPTIONS),
        run=show,
    ),
    Command(
        name="add",
        help="Store texts as given; a text that is already there is renewed.",
        examples=[
            'kagent-memory add "Ada prefers green tea" --app demo --user ada --topic tea',
            "kagent-memory add --app demo --user ada < facts.txt",
        ],
        options=(
            option("text", help="what to remember (none: one a line on standard input)", nargs="*"),
            *SCOPE_OPTIONS,
            *LABELS,
            option("--origin", help="where it comes from", choices=ORIGINS, default="user"),
        ),
        run=add,
        makes=True,
    ),
    Command(
        name="edit",
        help="Change a memory; the former state stays in its history.",
        examples=['kagent-memory edit 0199a1b2-… --content "Ada prefers black tea" --why "she said so"'],
        options=(
            ID,
            *SCOPE_OPTIONS,
            option("--content", help="the new text"),
            *LABELS,
            option("--why", help="for the history", default=""),
        ),
        run=edit,
    ),
    Command(
        name="pin",
        help="Keep a memory, whatever the prune would do.",
        examples=["kagent-memory pin 0199a1b2-…", "kagent-memory pin 0199a1b2-… --off"],
        options=(ID, *SCOPE_OPTIONS, option("--off", help="unpin it", action="store_true")),
        run=pin,
    ),
    Command(
        name="forget",
        help="Erase memories for good, with their history; saving their session again does not bring them back.",
        examples=[
            "kagent-memory forget 0199a1b2-…",
            "kagent-memory forget --session s-17 --dry-run",
            "kagent-memory forget --tag travel --before 2026-01-31",
            "kagent-memory forget --everything --yes --app demo --user ada",
        ],
        options=(
            option("ids", help="memories' ids", nargs="*"),
            *SCOPE_OPTIONS,
            option("--session", help="all of a session, what is queued of it too"),
            option("--tag", help="those with this tag"),
            option("--author", help="those of this author, what is queued of theirs too"),
            option("--before", help="those added before this time, such as 2026-01-31 or 2026-01-31T09:30Z"),
            option("--after", help="those added at this time or later"),
            option("--everything", help="all of this agent and user", action="store_true"),
            option("--yes", help="really, with --everything", action="store_true"),
            DRY_RUN,
        ),
        run=forget,
    ),
    Command(
        name="history",
        help="Show what happened to a memory: when, by whom, why, and what it was before.",
        examples=["kagent-memory history 0199a1b2-…"],
        options=(ID, *SCOPE_OPTIONS),
        run=history,
    ),
    Command(
        name="undo",
        help="Undo the last change to a memory, and everything else that the same decision changed.",
        examples=["kagent-memory undo 0199a1b2-…"],
        options=(ID, *SCOPE_OPTIONS),
        run=undo,
    ),
    Command(
        name="confirm",
        help="Let a memory out of quarantine: from now on it is found. `forget` erases one instead.",
        examples=["kagent-memory confirm 0199a1b2-…"],
        options=(ID, *SCOPE_OPTIONS),
        run=confirm,
    ),
)
