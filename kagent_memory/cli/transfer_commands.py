"""Commands that move memories from store to store: export, import."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .command import DRY_RUN, Command, opened, option
from .output import Output

if TYPE_CHECKING:
    from ..memories.transfer import Imported

TELL_EVERY = 1000
READ_BYTES = 2**20


async def export(args: argparse.Namespace, say: Output) -> int:
    """Writes memories to standard output."""
    count = -1  # the first line is none
    async with opened(args) as memories:
        async for line in memories.export(tenant=args.tenant, user=args.user, app=args.app, vectors=args.vectors):
            say.raw(line)
            count += 1
            if count and count % TELL_EVERY == 0:
                say.note(f"{count} memories exported.")
    say.note(f"{count - 1} memories exported.")
    return 0


async def import_(args: argparse.Namespace, say: Output) -> int:
    """Takes in what export wrote."""

    def told(done: int) -> None:
        if done // TELL_EVERY > reached[-1]:
            reached.append(done // TELL_EVERY)
            say.note(f"{done} memories read.")

    reached = [0]
    async with opened(args) as memories:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(args.file)
            if args.file == "-":
                path = Path(folder) / "standard input"
                with path.open("wb") as file:  # it is read twice
                    while some := sys.stdin.buffer.read(READ_BYTES):
                        file.write(some)
            done: Imported = await memories.import_(path, tenant=args.tenant, dry_run=args.dry_run, progress=told)
    say.value(done)
    added = f"{done.added} {'would be added' if args.dry_run else 'added'}"
    say.line(f"{added}, {done.present} there already, {done.equal} said by another, {done.forgotten} forgotten here.")
    if done.vectors:
        say.line(f"{done.vectors} vectors {'would be kept' if args.dry_run else 'kept'} as they came.")
    return 0


COMMANDS = (
    Command(
        name="export",
        help="Write memories, with history, usage and expiry, to standard output, one line of JSON each.",
        examples=["kagent-memory export > all.jsonl", "kagent-memory export --tenant acme --user ada > ada.jsonl"],
        options=(
            option("--app", help="only of this agent"),
            option("--user", help="only of this user"),
            option("--vectors", help="with their vectors, which then need not be made anew", action="store_true"),
        ),
        run=export,
    ),
    Command(
        name="import",
        help="Import what export wrote: all of it or nothing, and nothing twice.",
        examples=[
            "kagent-memory import all.jsonl --dry-run",
            "kagent-memory import - < all.jsonl",
        ],
        options=(option("file", help="the file, or - for standard input"), DRY_RUN),
        run=import_,
        makes=True,
    ),
)
