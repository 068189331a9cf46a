"""Maintenance commands: worker, prune, jobs, reembed, forget-tenant, receipts, audit, migrate."""

from __future__ import annotations

import argparse
import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, InvalidInput, NotFound
from ..memories.findings import DEFECTS, checked_defects
from ..records import Scope, Scopes
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
    pass

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


async def jobs(args: argparse.Namespace, say: Output) -> int:
    """List jobs that are not done, or retry or drop one."""
    if args.retry is not None and args.drop is not None:
        raise InvalidInput("Give --retry or --drop, not both.")
    if args.dry_run and args.drop is None:
        raise InvalidInput("--dry-run goes with --drop.")
    if args.retry is not None:
        return await _retry_job(args, say)
    if args.drop is not None:
        return await _drop_job(args, say)
    return await _list_jobs(args, say)


async def _list_jobs(args: argparse.Namespace, say: Output) -> int:
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


async def _retry_job(args: argparse.Namespace, say: Output) -> int:
    async with opened(args) as memories:
        await memories.retry_job(args.retry)
    say.value({"retried": args.retry})
    say.line("Queued again.")
    return 0


async def _drop_job(args: argparse.Namespace, say: Output) -> int:
    async with opened(args) as memories:
        if not args.dry_run:
            await memories.drop_job(args.drop)
        elif not any(job.state != "running" for job in await memories.jobs(id=args.drop, payloads=False)):
            raise NotFound(f"There is no idle job {args.drop!r}.")
    say.value({"would_drop" if args.dry_run else "dropped": args.drop})
    say.line("Would be dropped; what it holds would be lost." if args.dry_run else "Dropped.")
    return 0


async def migrate(args: argparse.Namespace, say: Output) -> int:
    """Brings the database to the newest schema."""
    from ..remote import is_remote

    if is_remote(args.uri):
        raise ConfigurationError("A server migrates its own database; give the database's URI.")
    if not 1 <= args.shards <= MOST_SHARDS:
        raise InvalidInput(f"--shards is a number from 1 to {MOST_SHARDS:,}.")
    if args.dry_run and not (args.distribute or args.rotate_keys):
        raise InvalidInput(
            "--dry-run goes with --distribute or --rotate-keys: a migration is made whole, or not at all."
        )
    if args.distribute and args.rotate_keys:
        raise InvalidInput("Give --distribute or --rotate-keys, not both.")
    if args.rotate_keys:
        return await rotate_keys(args, say)
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
    """Encrypt with the first key what is plain or encrypted with another one."""
    async with opened_here(args, makes=False) as memories:
        rotated = await memories.rotate_keys(dry_run=args.dry_run)
    say.value(rotated)
    if args.dry_run:
        say.line(f"Of {rotated.scopes} agents and users something would be encrypted anew with the key {rotated.key}.")
    else:
        say.line(f"{rotated.rows} rows of {rotated.scopes} agents and users encrypted with the key {rotated.key}.")
    return 0


async def receipts(args: argparse.Namespace, say: Output) -> int:
    """List what was forgotten of a tenant, or check that its receipts are whole."""
    from ..stores.receipts import Receipt

    if args.check:
        return await _check_receipts(args, say)
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


async def _check_receipts(args: argparse.Namespace, say: Output) -> int:
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


async def audit(args: argparse.Namespace, say: Output) -> int:
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
        found = await memories.audit(whose, defects=checked_defects(chosen), most=args.limit, progress=told)
    say.value(found)
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
        for one in found.findings
    ]
    say.table(head, rows)
    for one in found.left_out:
        say.note(f"Not looked for: {one}")
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count) or "nothing found"
    say.line(f"{found.memories} memories of {found.scopes} agents and users: {counts}.")
    return 0 if found.is_clean else FOUND_PROBLEMS


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
        name="jobs",
        help="List jobs that are not done yet, and dead letters; or retry or drop one.",
        examples=[
            "kagent-memory jobs --state dead",
            "kagent-memory jobs --retry 0199a1b2-…",
            "kagent-memory jobs --drop 0199a1b2-… --dry-run",
        ],
        options=(
            *SCOPE_OPTIONS,
            option("--state", help="only these", choices=STATES),
            LIMIT,
            option("--retry", help="queue this dead letter again", metavar="ID"),
            option("--drop", help="delete this job, unless it is running; what it holds is lost", metavar="ID"),
            DRY_RUN,
        ),
        run=jobs,
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
        name="receipts",
        help="List what was forgotten of a tenant: when, how many, and who asked; never the content.",
        examples=[
            "kagent-memory receipts --tenant acme",
            "kagent-memory receipts --after 100 --json",
            "kagent-memory receipts --check",
        ],
        options=(
            option("--after", help="only those with a higher number", type=int, default=0),
            LIMIT,
            option(
                "--check",
                help="instead check that no receipt of the tenant, or of any, was edited, removed, added or moved; "
                "exit code 1 when one was",
                action="store_true",
            ),
        ),
        run=receipts,
    ),
    Command(
        name="audit",
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
        run=audit,
    ),
    Command(
        name="migrate",
        help="Update the database to the newest schema; every start does this too, if its user may.",
        examples=[
            "kagent-memory migrate --uri postgresql://owner@db/agents",
            "kagent-memory migrate --rls --uri postgresql://owner@db/agents",
            "kagent-memory migrate --distribute --dry-run --uri postgresql://owner@coordinator/agents",
            "kagent-memory migrate --rotate-keys --dry-run",
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
            option(
                "--rotate-keys",
                help="encrypt with the first of the encryption keys what is plain or of another key; goes on where it "
                "stopped",
                action="store_true",
            ),
            DRY_RUN,
        ),
        run=migrate,
        makes=True,
    ),
)
