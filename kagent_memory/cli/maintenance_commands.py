"""Commands of maintenance: worker, prune, jobs, reembed, forget-tenant, receipts, audit, migrate,
export, import.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj

import click

from ..errors import InvalidInput
from ..memories import Memories
from ..memories.audit import DEFECTS
from ..records import Scopes
from ..stores import adapter_of
from .command import (
    FOUND_PROBLEMS,
    LIMIT,
    LOG_FORMAT,
    PORTS,
    SCOPE_OPTIONS,
    Call,
    arguments,
    command,
    flag,
    needs,
    option,
)
from .output import SCOPE_COLUMNS, Answer, Column

JOB_COLUMNS: Mapping[str, Column] = {
    "ID": "id",
    "STATE": "state",
    "KIND": "kind",
    "APP": "scope.app",
    "USER": "scope.user",
    "SINCE": "created_at",
    "ATTEMPTS": "attempts",
    "DUE": "run_after",
    "REASON": "error",
}
RECEIPT_COLUMNS: Mapping[str, Column] = {
    "NUMBER": "number",
    "AT": "at",
    "WHAT": "kind",
    "MEMORIES": "memories",
    "WHOSE": lambda receipt: receipt.whose[:12],
    "DIGEST": lambda receipt: receipt.digest[:12],
    "WHO": "who",
}
FINDING_COLUMNS: Mapping[str, Column] = {
    "DEFECT": "defect",
    **SCOPE_COLUMNS,
    "MEMORIES": lambda finding: " ".join(finding.memory_ids),
    "WHAT": "detail",
}


@command(
    "worker",
    flag("--until-idle", "end when nothing is due"),
    option("--port", "answer /healthz, /readyz and /metrics on this port", type=PORTS),
    option("--host", "the address of --port to bind", default="127.0.0.1"),
    LOG_FORMAT,
    opens=False,
    makes=True,
)
async def worker(call: Call) -> Answer | None:
    """Process the queue and prune on schedule. Runs until stopped; several may run at once.

    Examples:
        kagent-memory worker --uri postgresql://memory@db/agents
        kagent-memory worker --until-idle
    """
    args = call.args
    async with call.opened(here=True, works=not args.until_idle) as memories:
        if args.until_idle:
            return Answer({"jobs": await memories.work(until_idle=True)})
        what = f"Working on {memories.location}"
        with _probed(args.host, args.port) as serving, call.until_stopped(what):
            await serving(memories)
    return None


@contextmanager
def _probed(host: str, port: int | None) -> Generator[Callable[[Memories], Awaitable[object]]]:
    """Yield a function that runs until cancelled, serving probes and `/metrics` on a port if one is
    given.
    """
    if port is None:
        yield lambda _: asyncio.Event().wait()
        return
    with needs("server", "--port"):
        from ..server.app import create_probes
        from ..server.serving import bound_socket, serve
    with bound_socket(host, port) as bound:
        yield lambda memories: serve(create_probes(memories), bound)


DRY_RUN = arguments(Memories.prune, "dry_run")


@command("prune", *DRY_RUN)
async def prune(call: Call) -> Answer:
    """Delete expired memories and extend popular ones, in every scope.

    Examples:
        kagent-memory prune --dry-run
        kagent-memory prune
    """
    pruned = await call.perform(Memories.prune)
    columns: dict[str, Column] = {**SCOPE_COLUMNS, "ID": "memory_id", "WHY": "reason"}
    return Answer(pruned, columns if pruned.gone else {}, pruned.gone)


@command(
    "jobs",
    *SCOPE_OPTIONS,
    *arguments(Memories.jobs, "state"),
    LIMIT,
    option("--retry", "queue this dead letter again", metavar="ID"),
    option("--drop", "delete this job, unless it is running; what it holds is lost", metavar="ID"),
)
async def jobs(call: Call) -> Answer:
    """List open jobs and dead letters, or retry or drop one.

    Examples:
        kagent-memory jobs --state dead
        kagent-memory jobs --retry 0199a1b2-…
        kagent-memory jobs --drop 0199a1b2-…
    """
    args, memories = call.args, call.memories
    if args.retry is not None and args.drop is not None:
        raise InvalidInput("Give --retry or --drop, not both.")
    if args.retry is not None:
        await memories.retry_job(args.retry)
        return Answer({"retried": args.retry})
    if args.drop is not None:
        await memories.drop_job(args.drop)
        return Answer({"dropped": args.drop})
    listed = await call.perform(Memories.jobs, tenant=args.tenant)
    return Answer(listed, JOB_COLUMNS)


@command(
    "reembed",
    *arguments(Memories.reembed, "drop_old"),
    opens=False,
)
async def reembed(call: Call) -> Answer:
    """Embed all memories with another embedder and switch the store to it. If interrupted, run it
    again to continue.

    Examples:
        kagent-memory reembed --embedding openai/text-embedding-3-small
        kagent-memory reembed --embedding openai/text-embedding-3-small --drop-old
    """
    embedding = call.store()[1].embedding
    # open without an embedder: the store still refuses the new one, and the old may be gone
    call.args.embedding = ""
    async with call.opened(here=True):
        return Answer(
            await call.perform(
                Memories.reembed, embedding=embedding, progress=call.progress("embedded")
            )
        )


@command("forget-tenant", option("name", "the tenant"), flag("--yes", "really"))
async def forget_tenant(call: Call) -> Answer:
    """Erase everything of a tenant, its queue and tokens included. If interrupted, run it again to
    finish. `show --tenant` counts what would be erased.

    Examples:
        kagent-memory forget-tenant acme --yes
    """
    name = call.args.name
    if not call.args.yes:
        raise InvalidInput(f"This erases everything of the tenant {name}; add --yes to do it.")
    return Answer(await call.perform(Memories.forget_tenant, tenant=name))


@command(
    "receipts",
    *arguments(Memories.receipts, "after"),
    LIMIT,
    flag(
        "--check",
        "check instead that no receipt (of the tenant, or at all) was edited, removed, added or "
        "moved; exit code 1 if one was",
    ),
)
async def receipts(call: Call) -> Answer:
    """List receipts: what was forgotten when, and who asked. They never hold the content.

    Examples:
        kagent-memory receipts --tenant acme
        kagent-memory receipts --after 100 --json
        kagent-memory receipts --check
    """
    args = call.args
    if args.check:
        check = await call.memories.check_receipts(tenant=args.tenant)
        return Answer(check, code=FOUND_PROBLEMS if check.problems else 0)
    return Answer(await call.perform(Memories.receipts, tenant=args.tenant), RECEIPT_COLUMNS)


@command(
    "audit",
    *SCOPE_OPTIONS,
    option(
        "--defect defects",
        "look only for this; may be repeated",
        type=click.Choice(DEFECTS),
        multiple=True,
    ),
    option(
        "--limit most",
        "findings of each defect that are listed",
        type=click.IntRange(0, 1000),
        default=100,
    ),
)
async def audit(call: Call) -> Answer:
    """Find duplicates, contradictions, recall loops, secrets and personal data. Exit code 1 if
    there are any. Without --app and --user it looks in every scope.

    Examples:
        kagent-memory audit
        kagent-memory audit --app demo --user ada --json
        kagent-memory audit --tenant acme
        kagent-memory audit --defect secret --defect personal_data
    """
    args = call.args
    is_named = (args.tenant, args.app, args.user) != (None, None, None)
    whose = Scopes(tenant=call.tenant, user=args.user, app=args.app) if is_named else None
    report = await call.perform(Memories.audit, scope=whose, progress=call.progress("read"))
    columns: Mapping[str, Column] = FINDING_COLUMNS if report.findings else {}
    code = 0 if report.is_clean else FOUND_PROBLEMS
    return Answer(report, columns, report.findings, code=code)


@command(
    "migrate",
    option(
        "--rls",
        "switch row level security on, so that PostgreSQL itself keeps scopes apart",
        is_flag=True,
        default=None,
    ),
    flag(
        "--distribute",
        "spread the tables over the nodes of a Citus cluster, each agent and user on one of them",
    ),
    option(
        "--shards",
        "with --distribute: how many parts (default: citus.shard_count if the server sets it, "
        "else two a node, but at least 4)",
        type=click.IntRange(1, 64_000),
    ),
    flag(
        "--rotate-keys",
        "encrypt everything with the first encryption key; run it again to continue after an "
        "interruption",
    ),
    *DRY_RUN,
    opens=False,
    makes=True,
)
async def migrate(call: Call) -> Answer:
    """Update the database to the newest schema. Every start does this too, if its role may.

    Examples:
        kagent-memory migrate --uri postgresql://owner@db/agents
        kagent-memory migrate --rls --uri postgresql://owner@db/agents
        kagent-memory migrate --distribute --dry-run --uri postgresql://owner@coordinator/agents
        kagent-memory migrate --rotate-keys --dry-run
    """
    args = call.args
    if args.dry_run and not (args.distribute or args.rotate_keys):
        raise InvalidInput(
            "--dry-run goes with --distribute or --rotate-keys; a migration has no dry run."
        )
    if args.distribute and args.rotate_keys:
        raise InvalidInput("Give --distribute or --rotate-keys, not both.")
    if args.rotate_keys:
        return await _rotate_keys(call)
    if not args.dry_run:
        async with call.opened(here=True):
            pass
    if args.distribute:
        return await _distribute(call)
    return Answer({"location": call.store()[2], "schema": "newest"})


async def _distribute(call: Call) -> Answer:
    """Spread the tables of a migrated database over the nodes of a Citus cluster."""
    dry_run = call.args.dry_run
    uri, settings, location = call.store()
    adapter, bare = adapter_of(uri)
    tables = await adapter.distribute(
        bare, schema=settings.postgres_schema, shards=call.args.shards or 0, dry_run=dry_run
    )
    name = "would_distribute" if dry_run else "distributed"
    return Answer({"location": location, name: dict(tables)})


async def _rotate_keys(call: Call) -> Answer:
    """Encrypt everything that is plain or encrypted with another key with the first key."""
    async with call.opened(here=True, makes=False) as memories:
        return Answer(await memories.rotate_keys(dry_run=call.args.dry_run))


@command(
    "export",
    *arguments(Memories.export, "app user vectors"),
)
async def export(call: Call) -> None:
    """Write memories to standard output as JSON lines. They include history, usage and expiry.

    Examples:
        kagent-memory export > all.jsonl
        kagent-memory export --tenant acme --user ada > ada.jsonl
    """
    tell, count = call.progress("exported"), -1  # the first line is the header
    async for line in call.memories.export(**call.given("tenant", "user", "app", "vectors")):
        call.say.line(line)
        count += 1
        tell(count)
    call.say.note(f"{count - 1} memories exported.")


@command(
    "import",
    option("file", "the file, or - for standard input", type=click.Path()),
    *DRY_RUN,
    opens=False,
    makes=True,
)
async def import_(call: Call) -> Answer:
    """Import the output of `export`, all of it or nothing, and nothing twice.

    Examples:
        kagent-memory import all.jsonl --dry-run
        kagent-memory import - < all.jsonl
    """
    args, path = call.args, Path(call.args.file)
    # first, so that no database is created for nothing
    if args.file != "-" and not await asyncio.to_thread(path.is_file):
        raise InvalidInput(f"{args.file} is not a file.")
    async with call.opened():
        with tempfile.TemporaryDirectory() as folder:
            if args.file == "-":
                path = Path(folder) / "standard input"
                with path.open("wb") as file:  # the import reads it twice
                    copyfileobj(sys.stdin.buffer, file)
            try:
                imported = await call.perform(
                    Memories.import_, path=path, tenant=args.tenant, progress=call.progress("read")
                )
            except InvalidInput as error:  # which names the file
                raise InvalidInput(str(error).replace(f"{folder}{os.sep}", "")) from error
            return Answer(imported)
