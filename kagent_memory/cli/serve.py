"""Commands that serve memories, manage tokens and check the setup: serve, mcp, token, doctor."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import click

from .. import doctor
from ..errors import InvalidInput, KagentMemoryError
from ..memories import Memories
from ..memories.diagnosis import bad
from ..records import Scope
from ..remote import is_remote
from ..server.tokens import create_token
from ..stores.values import Token
from .command import (
    BESIDE,
    FOUND_PROBLEMS,
    LOG_FORMAT,
    PORTS,
    Call,
    command,
    flag,
    needs,
    option,
    text,
)
from .output import Answer, Column, day, styled

MARKS = {"ok": ("ok  ", "green"), "note": ("note", "yellow"), "bad": ("BAD ", "red")}


@command(
    "serve",
    option("--host", "the address to bind; others than loopback need auth", default="127.0.0.1"),
    option("--port", "the port; 0: any free one", type=PORTS, default=8080),
    option(
        "--grpc-port",
        "the port of kagent's gRPC service, for kagent after 0.10; 0: any free one (default: no "
        "gRPC)",
        type=PORTS,
    ),
    flag("--auth", "require a token for every call"),
    flag(
        "--trusted-proxy",
        "trust X-User-Id, X-Agent-Name and X-Tenant-Id, because only the proxy in front can set "
        "them",
    ),
    option("--allow-host", "another host name to answer to without --auth", multiple=True),
    option(
        "--allow-model",
        "a model that callers may choose for their sessions, beside the server's own; may be "
        "repeated",
        multiple=True,
    ),
    option(
        "--max-body-bytes",
        "the largest request body",
        type=click.IntRange(1024, 2**30),
        default=8 * 1024 * 1024,
    ),
    option(
        "--max-import-bytes",
        "the largest import",
        type=click.IntRange(1024, 2**50),
        default=16 * 2**30,
    ),
    LOG_FORMAT,
    opens=False,
    makes=True,
)
async def serve(call: Call) -> None:
    """Serve memories over HTTP: kagent's API, /api/v1 and the page at /. It also processes the
    queue.

    Examples:
        kagent-memory serve --uri libsql:///memory.db
        kagent-memory serve --host 0.0.0.0 --auth --grpc-port 8083 --uri postgresql://memory@db/agents
    """
    with needs("server", "Serving"):
        from ..server.app import create_app
        from ..server.auth import LOOPBACK_NAMES, Access, check_binding
        from ..server.serving import bound_socket
        from ..server.serving import serve as serve_on
    args = call.args
    access = Access(
        required=args.auth,
        trusted_proxy=args.trusted_proxy,
        hosts=LOOPBACK_NAMES | {name.lower() for name in args.allow_host},
        models=frozenset(args.allow_model),
        max_body_bytes=args.max_body_bytes,
        max_import_bytes=args.max_import_bytes,
    )
    check_binding(args.host, access)
    with bound_socket(args.host, args.port) as port:
        async with call.opened(here=True, works=True) as memories:
            host = f"[{args.host}]" if ":" in args.host else args.host
            app = create_app(memories, access)
            grpc: Any = nullcontext()
            if args.grpc_port is not None:
                # else its core writes to standard error
                os.environ.setdefault("GRPC_VERBOSITY", "NONE")
                with needs("grpc", "gRPC"):
                    from ..server.grpc_service import serving
                grpc = serving(app.state.admission, host=args.host, port=args.grpc_port)
            async with grpc as grpc_port:
                also = f", gRPC on {host}:{grpc_port}" if grpc_port else ""
                at = f"http://{host}:{port.getsockname()[1]}"
                # all that was imported: half a million objects, which each full collection would
                # look through while every request waits
                gc.collect()
                gc.freeze()
                with call.until_stopped(f"Memories of {memories.location} on {at}{also}"):
                    await serve_on(app, port)


@command(
    "mcp",
    option("--app", "the agent's app name", type=text, required=True),
    option("--user", "the user", type=text, required=True),
    BESIDE,
    LOG_FORMAT,
    opens=False,
    makes=True,
)
async def mcp(call: Call) -> None:
    """Serve the memories of one agent and user to an MCP client. It talks over standard input and
    output, and also processes the queue.

    Examples:
        kagent-memory mcp --uri libsql:////home/ada/memory.db --app assistant --user ada
        kagent-memory mcp --uri https://memory.example.org --app assistant --user ada
        kagent-memory mcp --app assistant --user ada --beside assistant team
    """
    with needs("mcp", "MCP"):
        from ..server.mcp_tools import serve_stdio

    async def scopes_of(_: Memories) -> list[Scope]:
        return list(dict.fromkeys([await call.scope(), *call.beside()]))

    await serve_stdio(call.opened(works=True), scopes_of)


@command(
    "token create",
    option("--user", "limit the token to this user (default: the whole tenant)", type=text),
    flag("--operator", "allow every tenant, and prune and doctor over HTTP"),
    option("--label", "a name for people", default="", show_default=False),
    option("--days", "validity in days (default: until revoked)", type=click.IntRange(1, 36_500)),
    makes=True,
    here=True,
)
async def token_create(call: Call) -> Answer:
    """Create a bearer token for a tenant or one user of it. The token is shown only once.

    Examples:
        kagent-memory token create --label ci --days 90
        kagent-memory token create --user ada
        kagent-memory token create --operator --label maintenance
    """
    args, memories = call.args, call.memories
    if args.operator and (args.user is not None or args.tenant is not None):
        raise InvalidInput("An operator's token opens every tenant; leave --user and --tenant out.")
    secret, token = await create_token(
        memories, user=args.user, label=args.label, days=args.days, is_operator=args.operator
    )
    call.say.note("Keep it now: it is not shown again, and only its digest is stored.")
    return Answer({"token": secret, **_public(token)}, lines=[secret])


def _public(token: Token) -> dict[str, Any]:
    names = ("id", "tenant", "user", "label", "created_at", "expires_at")
    return {name: getattr(token, name) for name in names} | {"operator": token.is_operator}


TOKEN_COLUMNS: Mapping[str, Column] = {
    "ID": "id",
    "TENANT": lambda token: "every" if token.is_operator else token.tenant,
    "USER": lambda token: token.user or "all",
    "CREATED": lambda token: day(token.created_at),
    "EXPIRES": lambda token: day(token.expires_at),
    "LABEL": "label",
}


@command("token list", here=True)
async def token_list(call: Call) -> Answer:
    """List tokens without their secrets.

    Examples:
        kagent-memory token list
    """
    tokens = await call.memories.store.tokens.find()
    return Answer([*map(_public, tokens)], TOKEN_COLUMNS, tokens)


@command("token revoke", option("id", "the token's id"), here=True)
async def token_revoke(call: Call) -> Answer:
    """Revoke a token at once.

    Examples:
        kagent-memory token revoke 0199a1b2-…
    """
    await call.memories.store.tokens.drop(call.args.id)
    return Answer({"revoked": call.args.id})


@command("doctor", opens=False)
async def examine(call: Call) -> Answer:
    """Check the setup and say how to fix problems. Covers settings, database, rights and models.

    Examples:
        kagent-memory doctor --uri postgresql://memory@db/agents --embedding ollama/nomic-embed-text
    """
    try:
        if is_remote(call.args.uri):
            async with call.opened() as memories:
                findings = await memories.check()
        else:
            findings = await doctor.examine(
                call.args.uri, resolve_llm=call.resolve_llm, **call.settings()
            )
    except KagentMemoryError as error:
        findings = [bad("server", error)]
    lines: list[str] = []
    for each in findings:
        lines.append(f"{styled(*MARKS[each.state])}  {each.part:<12}{each.text}")
        if each.advice:
            lines.append(f"      {'':<12}→ {each.advice}")
    is_bad = any(each.state == "bad" for each in findings)
    return Answer(findings, lines=lines, code=FOUND_PROBLEMS if is_bad else 0)
