"""Maintenance commands: worker, prune, consolidate, jobs, stats, migrate."""

from __future__ import annotations

import argparse
import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, InvalidInput, NotFound
from ..memories.findings import DEFECTS, checked_defects
from ..records import Change, Scope, Scopes
from ..settings import compose
from .command import (
    DRY_RUN,
    FOUND_PROBLEMS,
    LIMIT,
    SCOPE_OPTIONS,
    SOME,
    Command,
    between,
    opened,
    opened_here,
    option,
    scope_of,
    settings_of,
    stopping,
)
from .logs import LOG_FORMAT
from .output import Output, span

if TYPE_CHECKING:
    from ..memories import OpenedMemories

JOB = option("id", help="the job's id")
STATES = ("queued", "running", "dead")
TELL_EVERY_SECONDS = 10.0
TELL_EVERY = 1000
PAGE = 1000
MOST_SHARDS = 64_000  # of Citus


async def worker(args: argparse.Namespace, say: Output) -> int:
    """Works on the queue until stopped, or until nothing is due."""
    if args.until_idle:
        async with opened_here(args) as memories:
            done = await memories.work(until_idle=True)
        say.value({"jobs": done})
        say.line(f"{done} jobs done.")
        return 0
    stop = stopping()  # before anything is opened that a signal must close
    async with opened_here(args, works=True) as memories:
        say.note(f"Working on {memories.location}; stop with Ctrl-C.")
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), TELL_EVERY_SECONDS)
            except TimeoutError:
                open_jobs = await memories.jobs(limit=1000, payloads=False)
                if open_jobs:
                    dead = sum(job.state == "dead" for job in open_jobs)
                    say.note(f"{len(open_jobs) - dead} jobs open, {dead} dead letters.")
        say.note("Stopping.")
    return 0


async def prune(args: argparse.Namespace, say: Output) -> int:
    """Deletes what expired unpopular or outlived its use, extends what is popular, evicts what is too much."""
    async with opened(args) as memories:
        pruned = await memories.prune(dry_run=args.dry_run)
    say.value(pruned)
    rows = [[one.scope.tenant or "-", one.scope.app, one.scope.user, one.memory_id, one.reason] for one in pruned.gone]
    say.table(("TENANT", "APP", "USER", "ID", "WHY"), rows)
    if more := pruned.erased - len(pruned.gone):
        say.line(f"And {more} more.")
    would = "would be " if args.dry_run else ""
    say.line(
        f"{pruned.deleted} {would}deleted, {pruned.extended} {would}extended, {pruned.evicted} {would}evicted, "
        f"{pruned.faded} faded and {pruned.unimportant} unimportant {would}erased."
    )
    return 0


async def consolidate(args: argparse.Namespace, say: Output) -> int:
    """Merges what says the same, in one scope or in all."""
    every: list[Change] = []
    async with opened(args) as memories:
        scopes = await _scopes(args, memories)
        for number, scope in enumerate(scopes, 1):
            say.note(f"[{number}/{len(scopes)}] {scope.app} {scope.user}")
            every += await memories.consolidate(scope, dry_run=args.dry_run)
    say.value(every, list[Change])
    say.table(("WHAT", "ID", "WHY", "CONTENT"), [[c.kind, c.memory.id, c.why or "-", c.memory.content] for c in every])
    say.line(f"{len(every)} changes{' planned' if args.dry_run else ' made'}.")
    return 0


async def _scopes(args: argparse.Namespace, memories: OpenedMemories) -> list[Scope]:
    if args.app is not None or args.user is not None:
        return [await scope_of(args, memories)]
    scopes: list[Scope] = []
    while page := await memories.scopes(tenant=args.tenant, after=scopes[-1] if scopes else None, limit=PAGE):
        if scopes and page[-1] == scopes[-1]:  # a server of an earlier version knows one page only
            break
        scopes += page
    return scopes


async def jobs_list(args: argparse.Namespace, say: Output) -> int:
    """Lists what is accepted and not done."""
    from ..remote.serialization import to_wire

    async with opened(args) as memories:
        one = None if args.app is None and args.user is None else await scope_of(args, memories)
        listed = await memories.jobs(scope=one, state=args.state, limit=args.limit, payloads=False)
    told = [{name: value for name, value in to_wire(job).items() if name != "payload"} for job in listed]
    say.value(told, list[dict[str, object]])
    head, now = ("ID", "STATE", "KIND", "APP", "USER", "AGE", "ATTEMPTS", "DUE", "REASON"), datetime.now(UTC)
    rows = [
        [
            *(
                job.id,
                job.state,
                job.kind,
                job.scope.app,
                job.scope.user,
                span(now - job.created_at),
                str(job.attempts),
            ),
            *(job.run_after.isoformat(timespec="seconds"), job.error or "-"),
        ]
        for job in listed
    ]
    say.table(head, rows)
    if not listed:
        say.line("Nothing waits, nothing failed.")
    return 0


async def jobs_retry(args: argparse.Namespace, say: Output) -> int:
    """Queues a dead letter again."""
    async with opened(args) as memories:
        await memories.retry_job(args.id)
    say.value({"retried": args.id})
    say.line("Queued again.")
    return 0


async def jobs_drop(args: argparse.Namespace, say: Output) -> int:
    """Deletes a job that is not running."""
    async with opened(args) as memories:
        if not args.dry_run:
            await memories.drop_job(args.id)
        elif not any(job.state != "running" for job in await memories.jobs(id=args.id, payloads=False)):
            raise NotFound(f"There is no idle job {args.id!r}.")
    say.value({"would_drop" if args.dry_run else "dropped": args.id})
    say.line("Would be dropped; what it holds would be lost." if args.dry_run else "Dropped.")
    return 0


async def stats(args: argparse.Namespace, say: Output) -> int:
    """Counts, of one scope or of all."""
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


async def migrate(args: argparse.Namespace, say: Output) -> int:
    """Brings the database to the newest schema."""
    from ..remote import is_remote

    if is_remote(args.uri):
        raise ConfigurationError("A server migrates its own database; give the database's URI.")
    if not 1 <= args.shards <= MOST_SHARDS:
        raise InvalidInput(f"--shards is a number from 1 to {MOST_SHARDS:,}.")
    if args.dry_run and not args.distribute:
        raise InvalidInput("--dry-run goes with --distribute: a migration is made whole, or not at all.")
    if args.dry_run:
        return await distribute(args, say)
    async with opened_here(args) as memories:
        location = memories.location
    if args.distribute:
        return await distribute(args, say)
    say.value({"location": location, "schema": "newest"})
    say.line(f"{location} has the newest schema.")
    return 0


async def distribute(args: argparse.Namespace, say: Output) -> int:
    """Spreads the tables of a migrated database over the nodes of a Citus cluster."""
    from ..memories import without_secrets
    from ..stores import distribute_store

    bare, settings = compose(args.uri, None, settings_of(args), os.environ)
    location = without_secrets(bare)
    tables = await distribute_store(bare, schema=settings.postgres_schema, shards=args.shards, dry_run=args.dry_run)
    say.value({"location": location, "would_distribute" if args.dry_run else "distributed": dict(tables)})
    for name, place in tables.items():
        say.line(f"{name}: {place}")
    verb = "would be distributed" if args.dry_run else "are distributed now"
    say.line(f"{len(tables)} tables of {location} {verb}." if tables else f"All tables of {location} are distributed.")
    return 0


async def reembed(args: argparse.Namespace, say: Output) -> int:
    """Has the store embedded anew by another embedder."""
    from ..remote import is_remote

    if is_remote(args.uri):
        raise ConfigurationError("This command works on the database itself; pass its URI instead of the server's.")
    _, settings = compose(args.uri, None, settings_of(args), os.environ)
    args.embedding = ""  # the store may still refuse the new one, and the former need not be at hand

    def told(done: int) -> None:
        if done // TELL_EVERY > reached[-1]:
            reached.append(done // TELL_EVERY)
            say.note(f"{done} memories embedded.")

    reached = [0]
    async with opened_here(args) as memories:
        done = await memories.reembed(settings.embedding, drop_old=args.drop_old, progress=told)
    say.value(done)
    say.line(f"{done.memories} memories embedded; the store goes by {done.embedding} now.")
    for name in done.dropped:
        say.line(f"The vectors of {name} were dropped.")
    return 0


async def forget_tenant(args: argparse.Namespace, say: Output) -> int:
    """Erases all that is kept of a tenant."""
    from ..memories.validation import checked_tenant

    async with opened(args) as memories:
        if args.dry_run:
            scopes = await memories.scopes(tenant=checked_tenant(args.name), limit=PAGE)
            count = sum([(await memories.stats(scope)).visible for scope in scopes])
            say.value({"would_forget": {"scopes": len(scopes), "memories": count}})
            more = " or more" if len(scopes) == PAGE else ""
            say.line(f"{count} visible memories of {len(scopes)} agents and users{more} would be forgotten.")
            return 0
        if not args.yes:
            raise InvalidInput(f"This erases all that is kept of the tenant {args.name}; say --yes to do it.")
        erased = await memories.forget_tenant(args.name, who="command line")
    say.value(erased)
    say.line(
        f"{erased.memories} memories of {erased.scopes} agents and users forgotten, {erased.tokens} tokens revoked."
    )
    return 0


async def rotate_keys(args: argparse.Namespace, say: Output) -> int:
    """Encrypts anew what the first key did not encrypt."""
    async with opened_here(args) as memories:
        rotated = await memories.rotate_keys(dry_run=args.dry_run)
    say.value(rotated)
    if args.dry_run:
        say.line(f"Of {rotated.scopes} agents and users something would be encrypted anew with the key {rotated.key}.")
    else:
        say.line(f"{rotated.rows} rows of {rotated.scopes} agents and users encrypted with the key {rotated.key}.")
    return 0


async def receipts(args: argparse.Namespace, say: Output) -> int:
    """Lists what was forgotten of a tenant."""
    from ..stores.receipts import Receipt

    async with opened(args) as memories:
        page = await memories.receipts(tenant=args.tenant, after=args.after, limit=args.limit)
    say.value(list(page), list[Receipt])
    head = ("NUMBER", "AT", "WHAT", "MEMORIES", "WHOSE", "DIGEST", "WHO")
    rows = [
        [str(one.number), one.at.isoformat(timespec="seconds"), one.kind, str(one.memories), one.whose[:12],
         one.digest[:12], one.who or "-"]
        for one in page
    ]  # fmt: skip
    say.table(head, rows)
    if len(page) == args.limit:
        say.line(f"More: --after {page[-1].number}")
    return 0


async def audit_memories(args: argparse.Namespace, say: Output) -> int:
    """Looks for defects in one scope, or in all."""
    chosen = [name for name in args.defect or DEFECTS if name not in (args.leave_out or ())]
    read = [0]

    def told(more: int) -> None:
        if (read[0] + more) // TELL_EVERY > read[0] // TELL_EVERY:
            say.note(f"{read[0] + more} memories read.")
        read[0] += more

    async with opened(args) as memories:
        whose: Scope | Scopes | None = None
        if args.app is not None and args.user is not None:
            whose = await scope_of(args, memories)
        elif (args.tenant, args.app, args.user) != (None, None, None):
            tenant: str = memories.settings.tenant if args.tenant is None else args.tenant
            whose = Scopes(tenant=tenant, user=args.user, app=args.app)
        audit = await memories.audit(whose, defects=checked_defects(chosen), most=args.limit, progress=told)
    say.value(audit)
    head = ("DEFECT", "TENANT", "APP", "USER", "MEMORIES", "WHAT")
    rows = [
        [
            one.defect,
            one.scope.tenant or "-",
            one.scope.app,
            one.scope.user,
            " ".join(one.memory_ids),
            one.detail or "-",
        ]
        for one in audit.findings
    ]
    say.table(head, rows)
    for one in audit.left_out:
        say.note(f"Not looked for: {one}")
    counts = ", ".join(f"{count} {name}" for name, count in audit.counts.items() if count) or "nothing found"
    say.line(f"{audit.memories} memories of {audit.scopes} agents and users: {counts}.")
    return 0 if audit.is_clean else FOUND_PROBLEMS


async def audit_verify(args: argparse.Namespace, say: Output) -> int:
    """Checks the receipts of a tenant, or of all."""
    async with opened(args) as memories:
        check = await memories.check_receipts(tenant=args.tenant)
    say.value(check)
    for chain, wrong in check.problems.items():
        for one in wrong:
            say.line(f"{chain}: {one}.")
    for chain, digest in check.heads.items():
        say.line(f"{chain} ends with {digest}.")
    state = "not whole" if check.problems else "whole"
    say.line(f"{check.receipts} receipts of {check.chains} tenants: {state}.")
    return FOUND_PROBLEMS if check.problems else 0


COMMANDS = (
    Command(
        name="worker",
        help="Process the queue and prune on schedule until stopped; run as many as you like.",
        examples=["kagent-memory worker --uri postgresql://memory@db/agents", "kagent-memory worker --until-idle"],
        options=(option("--until-idle", help="end when nothing is due", action="store_true"), LOG_FORMAT),
        run=worker,
        makes=True,
    ),
    Command(
        name="prune",
        help="Delete expired memories, or extend those that are popular, in every scope.",
        examples=["kagent-memory prune --dry-run", "kagent-memory prune"],
        options=(DRY_RUN,),
        run=prune,
    ),
    Command(
        name="consolidate",
        help="Merge memories that say the same, keeping their history; in every scope, or that of --app and --user.",
        examples=["kagent-memory consolidate --app demo --user ada --dry-run"],
        options=(*SCOPE_OPTIONS, DRY_RUN),
        run=consolidate,
    ),
    Command(
        name="jobs list",
        help="List jobs that are not done yet, and dead letters.",
        examples=["kagent-memory jobs list --state dead"],
        options=(*SCOPE_OPTIONS, option("--state", help="only these", choices=STATES), LIMIT),
        run=jobs_list,
    ),
    Command(
        name="jobs retry",
        help="Queue a dead letter again.",
        examples=["kagent-memory jobs retry 0199a1b2-…"],
        options=(JOB,),
        run=jobs_retry,
    ),
    Command(
        name="jobs drop",
        help="Delete a job that is not running; what it holds is lost.",
        examples=["kagent-memory jobs drop 0199a1b2-…"],
        options=(JOB, DRY_RUN),
        run=jobs_drop,
    ),
    Command(
        name="stats",
        help="Count memories, deliveries and jobs; in every scope, or that of --app and --user.",
        examples=["kagent-memory stats", "kagent-memory stats --app demo --user ada --json"],
        options=SCOPE_OPTIONS,
        run=stats,
    ),
    Command(
        name="reembed",
        help="Embed all memories anew by another embedder, and go over to it; interrupted, it goes on when run again.",
        examples=[
            "kagent-memory reembed --embedding openai/text-embedding-3-small",
            "kagent-memory reembed --embedding openai/text-embedding-3-small --drop-old",
        ],
        options=(option("--drop-old", help="drop the vectors that were replaced, in the end", action="store_true"),),
        run=reembed,
    ),
    Command(
        name="forget-tenant",
        help="Erase everything kept for a tenant, its queue and tokens too; if interrupted, run it again to finish.",
        examples=["kagent-memory forget-tenant acme --dry-run", "kagent-memory forget-tenant acme --yes"],
        options=(
            option("name", help="the tenant"),
            option("--yes", help="really", action="store_true"),
            DRY_RUN,
        ),
        run=forget_tenant,
    ),
    Command(
        name="rotate-keys",
        help="Encrypt with the first of the encryption keys what is plain or of another key; goes on where it stopped.",
        examples=["kagent-memory rotate-keys --dry-run", "kagent-memory rotate-keys"],
        options=(DRY_RUN,),
        run=rotate_keys,
    ),
    Command(
        name="receipts",
        help="List what was forgotten of a tenant: when, how many, and who asked; never the content.",
        examples=["kagent-memory receipts --tenant acme", "kagent-memory receipts --after 100 --json"],
        options=(option("--after", help="only those with a higher number", type=int, default=0), LIMIT),
        run=receipts,
    ),
    Command(
        name="audit memories",
        help="Look for duplicates, contradictions, recall loops, secrets, personal data, memories never delivered or "
        "without a vector, and orphans; exit code 1 when there are any. Without --app and --user in every scope.",
        examples=[
            "kagent-memory audit",
            "kagent-memory audit --app demo --user ada --json",
            "kagent-memory audit --tenant acme --leave-out never_delivered",
            "kagent-memory audit --defect secret --defect personal_data",
        ],
        options=(
            *SCOPE_OPTIONS,
            option("--defect", help="look only for this; may be repeated", choices=DEFECTS, action="append"),
            option("--leave-out", help="do not look for this; may be repeated", choices=DEFECTS, action="append"),
            option("--limit", help="findings of each defect that are listed", type=between(0, 1000), default=SOME),
        ),
        run=audit_memories,
    ),
    Command(
        name="audit verify",
        help="Check that no receipt was edited, removed, added or moved; exit code 1 when one was.",
        examples=["kagent-memory audit verify", "kagent-memory audit verify --tenant acme --json"],
        options=(),
        run=audit_verify,
    ),
    Command(
        name="migrate",
        help="Update the database to the newest schema; every start does this too, if its user may.",
        examples=[
            "kagent-memory migrate --uri postgresql://owner@db/agents",
            "kagent-memory migrate --rls --uri postgresql://owner@db/agents",
            "kagent-memory migrate --distribute --dry-run --uri postgresql://owner@coordinator/agents",
        ],
        options=(
            option(
                "--rls",
                help="switch row level security on, so that PostgreSQL itself keeps scopes apart",
                action="store_const",
                const=True,
            ),
            option(
                "--distribute",
                help="spread the tables over the nodes of a Citus cluster, each agent and user on one of them",
                action="store_true",
            ),
            option("--shards", help="with --distribute: how many parts", type=int, default=32),
            DRY_RUN,
        ),
        run=migrate,
        makes=True,
    ),
)
