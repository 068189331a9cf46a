"""Commands of maintenance: worker, prune, jobs, reembed, forget-tenant, receipts, audit, migrate,
export, import.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from ..errors import InvalidInput
from ..memories.findings import DEFECTS, Defect
from ..records import Scope, Scopes
from .command import (
    DRY_RUN,
    FOUND_PROBLEMS,
    LIMIT,
    PAGE,
    PORTS,
    SCOPE_OPTIONS,
    WHO,
    bind,
    command,
    flag,
    needs,
    on_store,
    opened,
    option,
    progress,
    scope_of,
    settings_of,
    stop_event,
    store_of,
    tenant_of,
    whole_number,
)
from .logs import LOG_FORMAT
from .output import Answer, Output, age

if TYPE_CHECKING:
    from ..memories import Memories

TELL_EVERY_SECONDS = 10.0
SCOPE_HEAD = ("TENANT", "APP", "USER")


def _names(scope: Scope) -> tuple[str, str, str]:
    return scope.tenant, scope.app, scope.user


@command(
    "worker",
    "Process the queue and prune on schedule until stopped; run as many as you like.",
    flag("--until-idle", "end when nothing is due"),
    option("--port", help="answer /healthz, /readyz and /metrics on this port", type=PORTS),
    option("--host", help="the address of --port to bind", default="127.0.0.1"),
    LOG_FORMAT,
    examples=[
        "kagent-memory worker --uri postgresql://memory@db/agents",
        "kagent-memory worker --until-idle",
    ],
    makes=True,
)
async def worker(args: argparse.Namespace, say: Output) -> Answer | None:
    """Work on the queue until stopped, or until nothing is due."""
    if args.until_idle:
        async with opened(args, here=True) as memories:
            done = await memories.work(until_idle=True)
        return Answer({"jobs": done}, lines=[f"{done} jobs done."])
    stop = stop_event()  # before anything is opened that a signal must close
    async with opened(args, here=True, works=True) as memories, _probes(args, memories, stop):
        say.note(f"Working on {memories.location}; stop with Ctrl-C.")
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), TELL_EVERY_SECONDS)
            except TimeoutError:
                if jobs := await memories.jobs(limit=PAGE, payloads=False):
                    dead = sum(job.state == "dead" for job in jobs)
                    say.note(f"{len(jobs) - dead} jobs open, {dead} dead letters.")
        say.note("Stopping.")
    return None


@asynccontextmanager
async def _probes(
    args: argparse.Namespace, memories: Memories, stop: asyncio.Event
) -> AsyncGenerator[None]:
    """Answer probes and `/metrics` on --port, if one is given, while the block runs."""
    if args.port is None:
        yield
        return
    with needs("server", "--port"):
        from ..server.app import create_probes
        from ..server.serving import serve
    with bind(args) as port:
        serving = asyncio.create_task(serve(create_probes(memories), port, stop))
        try:
            yield
        finally:
            stop.set()
            await serving


@on_store(
    "prune",
    "Delete expired memories, or extend those that are popular, in every scope.",
    DRY_RUN,
    examples=["kagent-memory prune --dry-run", "kagent-memory prune"],
)
async def prune(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Delete expired memories, extend popular ones, evict over capacity."""
    pruned = await memories.prune(dry_run=args.dry_run)
    rows = [[*_names(gone.scope), gone.memory_id, gone.reason] for gone in pruned.gone]
    would = "would be " if args.dry_run else ""
    lines = [
        f"{pruned.deleted} {would}deleted, {pruned.extended} {would}extended, {pruned.evicted} "
        f"{would}evicted, {pruned.faded} faded and {pruned.unimportant} unimportant {would}erased."
    ]
    if more := pruned.erased - len(pruned.gone):
        lines.insert(0, f"And {more} more.")
    return Answer(pruned, (*SCOPE_HEAD, "ID", "WHY"), rows, lines)


@on_store(
    "jobs",
    "List jobs that are not done yet, and dead letters; or retry or drop one.",
    *SCOPE_OPTIONS,
    option("--state", help="only these", choices=("queued", "running", "dead")),
    LIMIT,
    option("--retry", help="queue this dead letter again", metavar="ID"),
    option(
        "--drop", help="delete this job, unless it is running; what it holds is lost", metavar="ID"
    ),
    examples=[
        "kagent-memory jobs --state dead",
        "kagent-memory jobs --retry 0199a1b2-…",
        "kagent-memory jobs --drop 0199a1b2-…",
    ],
)
async def jobs(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """List jobs that are not done, or retry or drop one."""
    if args.retry is not None and args.drop is not None:
        raise InvalidInput("Give --retry or --drop, not both.")
    if args.retry is not None:
        await memories.retry_job(args.retry)
        return Answer({"retried": args.retry}, lines=["Queued again."])
    if args.drop is not None:
        await memories.drop_job(args.drop)
        return Answer({"dropped": args.drop}, lines=["Dropped."])
    scope = None if args.app is None and args.user is None else await scope_of(args, memories)
    listed = await memories.jobs(scope=scope, state=args.state, limit=args.limit, payloads=False)
    value = to_jsonable_python(listed, exclude={"__all__": {"payload"}})  # pyright: ignore[reportArgumentType] its stub takes names alone
    rows = [
        (
            job.id,
            job.state,
            job.kind,
            job.scope.app,
            job.scope.user,
            age(job.created_at),
            job.attempts,
            job.run_after,
            job.error,
        )
        for job in listed
    ]
    head = ("ID", "STATE", "KIND", "APP", "USER", "AGE", "ATTEMPTS", "DUE", "REASON")
    return Answer(value, head, rows, [] if listed else ["Nothing waits, nothing failed."])


@command(
    "reembed",
    "Embed all memories anew by another embedder, and go over to it; interrupted, it goes on when "
    "run again.",
    flag("--drop-old", "drop the vectors that were replaced, in the end"),
    examples=[
        "kagent-memory reembed --embedding openai/text-embedding-3-small",
        "kagent-memory reembed --embedding openai/text-embedding-3-small --drop-old",
    ],
)
async def reembed(args: argparse.Namespace, say: Output) -> Answer:
    """Have the store embedded anew by another embedder."""
    embedding = store_of(args.uri, settings_of(args))[1].embedding
    # the store may still refuse the new one, and the former need not be at hand
    args.embedding = ""
    async with opened(args, here=True) as memories:
        done = await memories.reembed(
            embedding, drop_old=args.drop_old, progress=progress(say, "embedded")
        )
    lines = [f"{done.memories} memories embedded; the store goes by {done.embedding} now."]
    return Answer(
        done, lines=lines + [f"The vectors of {name} were dropped." for name in done.dropped]
    )


@on_store(
    "forget-tenant",
    "Erase everything kept for a tenant, its queue and tokens too; if interrupted, run it again to "
    "finish.",
    option("name", help="the tenant"),
    flag("--yes", "really"),
    DRY_RUN,
    examples=[
        "kagent-memory forget-tenant acme --dry-run",
        "kagent-memory forget-tenant acme --yes",
    ],
)
async def forget_tenant(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Erase everything kept for a tenant."""
    from ..memories.forgetting import checked_tenant

    if args.dry_run:
        scopes = await memories.scopes(tenant=checked_tenant(args.name), limit=PAGE)
        count = sum([(await memories.stats(scope)).visible for scope in scopes])
        more = " or more" if len(scopes) == PAGE else ""
        line = (
            f"{count} visible memories of {len(scopes)} agents and users{more} would be forgotten."
        )
        return Answer({"would_forget": {"scopes": len(scopes), "memories": count}}, lines=[line])
    if not args.yes:
        raise InvalidInput(
            f"This erases all that is kept of the tenant {args.name}; say --yes to do it."
        )
    erased = await memories.forget_tenant(args.name, who=WHO)
    line = (
        f"{erased.memories} memories of {erased.scopes} agents and users forgotten, "
        f"{erased.tokens} tokens revoked."
    )
    return Answer(erased, lines=[line])


@on_store(
    "receipts",
    "List what was forgotten of a tenant: when, how many, and who asked; never the content.",
    option("--after", help="only those with a higher number", type=int, default=0),
    LIMIT,
    flag(
        "--check",
        "instead check that no receipt of the tenant, or of any, was edited, removed, added or "
        "moved; exit code 1 when one was",
    ),
    examples=[
        "kagent-memory receipts --tenant acme",
        "kagent-memory receipts --after 100 --json",
        "kagent-memory receipts --check",
    ],
)
async def receipts(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """List what was forgotten of a tenant, or check that its receipts are whole."""
    if args.check:
        return await _check_receipts(memories, args)
    page = await memories.receipts(tenant=args.tenant, after=args.after, limit=args.limit)
    rows = [
        (
            receipt.number,
            receipt.at,
            receipt.kind,
            receipt.memories,
            receipt.whose[:12],
            receipt.digest[:12],
            receipt.who,
        )
        for receipt in page
    ]
    more = [f"More: --after {page[-1].number}"] if len(page) == args.limit else []
    return Answer(page, ("NUMBER", "AT", "WHAT", "MEMORIES", "WHOSE", "DIGEST", "WHO"), rows, more)


async def _check_receipts(memories: Memories, args: argparse.Namespace) -> Answer:
    check = await memories.check_receipts(tenant=args.tenant)
    state = "not whole" if check.problems else "whole"
    lines = [
        *(f"{chain}: {one}." for chain, wrong in check.problems.items() for one in wrong),
        *(f"{chain} ends with {digest}." for chain, digest in check.heads.items()),
        f"{check.receipts} receipts of {check.chains} tenants: {state}.",
    ]
    return Answer(check, lines=lines, code=FOUND_PROBLEMS if check.problems else 0)


@on_store(
    "audit",
    "Look for duplicates, contradictions, recall loops, secrets, personal data, memories never "
    "delivered or without a vector, and orphans; exit code 1 when there are any. Without --app and "
    "--user in every scope.",
    *SCOPE_OPTIONS,
    option(
        "--defect", help="look only for this; may be repeated", choices=DEFECTS, action="append"
    ),
    option(
        "--leave-out",
        help="do not look for this; may be repeated",
        choices=DEFECTS,
        action="append",
    ),
    option(
        "--limit",
        help="findings of each defect that are listed",
        type=whole_number(0, 1000),
        default=100,
    ),
    examples=[
        "kagent-memory audit",
        "kagent-memory audit --app demo --user ada --json",
        "kagent-memory audit --tenant acme --leave-out never_delivered",
        "kagent-memory audit --defect secret --defect personal_data",
    ],
)
async def audit(memories: Memories, args: argparse.Namespace, say: Output) -> Answer:
    """Look for defects in one scope, or in all."""
    named: Sequence[Defect] = args.defect or DEFECTS
    defects: Sequence[Defect] = [name for name in named if name not in (args.leave_out or ())]
    whose: Scope | Scopes | None = None
    if args.app is not None and args.user is not None:
        whose = await scope_of(args, memories)
    elif (args.tenant, args.app, args.user) != (None, None, None):
        whose = Scopes(tenant=tenant_of(args, memories), user=args.user, app=args.app)
    tell, read = progress(say, "read"), 0

    def add(more: int) -> None:
        nonlocal read
        read += more
        tell(read)

    found = await memories.audit(whose, defects=defects, most=args.limit, progress=add)
    rows = [
        [one.defect, *_names(one.scope), " ".join(one.memory_ids), one.detail]
        for one in found.findings
    ]
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count)
    where = f"{found.memories} memories of {found.scopes} agents and users"
    line = f"{where}: {counts or 'nothing found'}."
    code = 0 if found.is_clean else FOUND_PROBLEMS
    head = ("DEFECT", *SCOPE_HEAD, "MEMORIES", "WHAT") if rows else ()
    return Answer(found, head, rows, [line], code)


@command(
    "migrate",
    "Update the database to the newest schema; every start does this too, if its user may.",
    option(
        "--rls",
        help="switch row level security on, so that PostgreSQL itself keeps scopes apart",
        action="store_const",
        const=True,
    ),
    flag(
        "--distribute",
        "spread the tables over the nodes of a Citus cluster, each agent and user on one of them",
    ),
    option(
        "--shards",
        help="with --distribute: how many parts",
        type=whole_number(1, 64_000),
        default=32,
    ),
    flag(
        "--rotate-keys",
        "encrypt with the first of the encryption keys what is plain or of another key; goes on "
        "where it stopped",
    ),
    DRY_RUN,
    examples=[
        "kagent-memory migrate --uri postgresql://owner@db/agents",
        "kagent-memory migrate --rls --uri postgresql://owner@db/agents",
        "kagent-memory migrate --distribute --dry-run --uri postgresql://owner@coordinator/agents",
        "kagent-memory migrate --rotate-keys --dry-run",
    ],
    makes=True,
)
async def migrate(args: argparse.Namespace, say: Output) -> Answer:
    """Bring the database to the newest schema."""
    if args.dry_run and not (args.distribute or args.rotate_keys):
        raise InvalidInput(
            "--dry-run goes with --distribute or --rotate-keys: a migration is made whole, or "
            "not at all."
        )
    if args.distribute and args.rotate_keys:
        raise InvalidInput("Give --distribute or --rotate-keys, not both.")
    if args.rotate_keys:
        return await _rotate_keys(args)
    if not args.dry_run:
        async with opened(args, here=True):
            pass
    location = store_of(args.uri, settings_of(args))[2]
    if args.distribute:
        return await _distribute(args, location)
    return Answer(
        {"location": location, "schema": "newest"}, lines=[f"{location} has the newest schema."]
    )


async def _distribute(args: argparse.Namespace, location: str) -> Answer:
    """Spread the tables of a migrated database over the nodes of a Citus cluster."""
    from ..stores import distribute_store

    bare, settings, _ = store_of(args.uri, settings_of(args))
    tables = await distribute_store(
        bare, schema=settings.postgres_schema, shards=args.shards, dry_run=args.dry_run
    )
    done = f"{len(tables)} tables of {location} are distributed now."
    if args.dry_run:
        done = f"{len(tables)} tables of {location} would be distributed."
    lines = [f"{name}: {place}" for name, place in tables.items()]
    lines.append(done if tables else f"All tables of {location} are distributed.")
    name = "would_distribute" if args.dry_run else "distributed"
    return Answer({"location": location, name: dict(tables)}, lines=lines)


async def _rotate_keys(args: argparse.Namespace) -> Answer:
    """Encrypt with the first key what is plain or encrypted with another one."""
    async with opened(args, here=True, makes=False) as memories:
        rotated = await memories.rotate_keys(dry_run=args.dry_run)
    of, key = f"of {rotated.scopes} agents and users", f"with the key {rotated.key}."
    line = f"{rotated.rows} rows {of} encrypted {key}"
    if args.dry_run:
        line = f"Something {of} would be encrypted anew {key}"
    return Answer(rotated, lines=[line])


@on_store(
    "export",
    "Write memories, with history, usage and expiry, to standard output, one line of JSON each.",
    option("--app", help="only of this agent"),
    option("--user", help="only of this user"),
    flag("--vectors", "with their vectors, which then need not be made anew"),
    examples=[
        "kagent-memory export > all.jsonl",
        "kagent-memory export --tenant acme --user ada > ada.jsonl",
    ],
)
async def export(memories: Memories, args: argparse.Namespace, say: Output) -> None:
    """Write memories to standard output."""
    tell, count = progress(say, "exported"), -1  # the first line is the header
    async for line in memories.export(
        tenant=args.tenant, user=args.user, app=args.app, vectors=args.vectors
    ):
        say.line(line)
        count += 1
        tell(count)
    say.note(f"{count - 1} memories exported.")


@command(
    "import",
    "Import what export wrote: all of it or nothing, and nothing twice.",
    option("file", help="the file, or - for standard input"),
    DRY_RUN,
    examples=["kagent-memory import all.jsonl --dry-run", "kagent-memory import - < all.jsonl"],
    makes=True,
)
async def import_(args: argparse.Namespace, say: Output) -> Answer:
    """Take in what export wrote."""
    path = Path(args.file)
    # before a database is made for it
    if args.file != "-" and not await asyncio.to_thread(path.is_file):
        raise InvalidInput(f"{args.file} is not a file.")
    async with opened(args) as memories:
        with tempfile.TemporaryDirectory() as folder:
            if args.file == "-":
                path = Path(folder) / "standard input"
                with path.open("wb") as file:  # it is read twice
                    copyfileobj(sys.stdin.buffer, file)
            done = await memories.import_(
                path, tenant=args.tenant, dry_run=args.dry_run, progress=progress(say, "read")
            )
    would = "would be " if args.dry_run else ""
    lines = [
        f"{done.added} {would}added, {done.present} there already, {done.equal} said by another, "
        f"{done.forgotten} forgotten here."
    ]
    if done.vectors:
        lines.append(f"{done.vectors} vectors {would}kept as they came.")
    return Answer(done, lines=lines)


COMMANDS = (
    worker, prune, jobs, reembed, forget_tenant, receipts, audit, migrate, export, import_
)  # fmt: skip
