"""The pages for memories: list and search, and view, correct and delete a memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..errors import KagentMemoryError, NotFound
from ..memories import Memories
from ..records import MEMORY_TYPES, Filter, Memory, Recall, Scope, Scopes
from ..retrieval.ranking.selection import contradict
from ..stores.values import last_change, with_after
from .api import VERBS
from .auth import COOKIE
from .dependencies import caller_of, memories_of, tenant_of
from .error_responses import error_values
from .page_helpers import OwnForm, PageScope, field, page, page_user, set_cookie, to
from .request_arguments import read_texts
from .tokens import find_token

router = APIRouter(include_in_schema=False)

PAGE_SIZE = 25
SEARCH_LIMIT = 20
MAX_SCOPES = 200
MAX_LABELS = 100  # topics and tags to choose from
CHOICES = ("type", "category", "topic", "tag", "show", "order", "width")
STATES: Mapping[str, Any] = {"replaced": "only", "waiting": "quarantined"}
"""The states of a filter, by the value of `show`."""
EDIT_FIELDS = ("content", "type", "category", "importance", "ttl_days", "why", "topics", "tags")
MAY_BE_EMPTY = ("content", "category", "topics", "tags")
HISTORY_FIELDS = (
    "content",
    "type",
    "category",
    "topics",
    "tags",
    "importance",
    "ttl_days",
    "pinned",
    "state",
)
ACTIONS: Mapping[str, Callable[..., Awaitable[object]]] = {
    "pin": Memories.pin,
    "unpin": partial(Memories.pin, pinned=False),
    "undo": Memories.undo,
    "delete": Memories.forget,
    "confirm": Memories.confirm,
    "reject": Memories.reject,
}
"""The action of each button on a memory."""
ERASING = frozenset({"delete", "reject"})


@router.get("/")
async def start(request: Request) -> Response:
    """Show the scopes that the caller may view."""
    memories, caller = memories_of(request), caller_of(request)
    scopes = await memories.scopes(
        tenant=caller.tenant, user=caller.user, app=caller.app, limit=MAX_SCOPES
    )
    by = "user" if request.query_params.get("by") == "user" else "app"
    ordered = sorted(scopes, key=lambda scope: (getattr(scope, by), scope.user, scope.app))
    rows = [(scope, await memories.stats(scope)) for scope in ordered]
    tenant = tenant_of(request)
    return page(request, "start.html", rows=rows, by=by, tenant=tenant, most=MAX_SCOPES)


@router.get("/memories")
async def list_memories(request: Request, scope: PageScope) -> Response:
    """Show the memories of an agent and a user, sorted, filtered or searched."""
    return await _list_page(request, scope)


async def _list_page(
    request: Request, scope: Scope, *, status: int = 200, problem: str = "", content: str = ""
) -> Response:
    """Show the list; `problem` says why the typed `content` was not stored."""
    memories, params = memories_of(request), request.query_params
    query, chosen = params.get("q", "").strip(), {name: params.get(name, "") for name in CHOICES}
    chosen["show"] = chosen["show"] if chosen["show"] in STATES else ""
    filter, cursor = _filter(chosen), params.get("cursor") or None
    hits, listing, total = None, None, 0
    if query:
        hits = await _hits(request, scope, query, chosen, filter)
    else:
        order = "oldest" if chosen["order"] == "oldest" else "newest"
        listing = await memories.list(
            scope, filter=filter, order=order, limit=PAGE_SIZE, cursor=cursor
        )
        total = (await memories.facets(scope, filter=filter, limit=0)).total
    state = Filter(superseded=filter.superseded)
    return page(
        request,
        "memories.html",
        status,
        scope=scope,
        query=query,
        chosen=chosen,
        types=MEMORY_TYPES,
        labels=await memories.facets(scope, filter=state, limit=MAX_LABELS),
        stats=await memories.stats(scope),
        hits=hits,
        listing=listing,
        total=total,
        is_first=cursor is None,
        problem=problem,
        content=content,
    )


def _filter(chosen: Mapping[str, str]) -> Filter:
    """Return the filter in the address.

    Raises:
        InvalidInput: a value is invalid.
    """
    labels: dict[str, Any] = {
        f"{name}s": (chosen[name],) for name in ("type", "topic", "tag") if chosen[name]
    }
    return Filter(
        category=chosen["category"] or None,
        superseded=STATES.get(chosen["show"], False),
        **labels,
    )


async def _hits(
    request: Request, scope: Scope, query: str, chosen: Mapping[str, str], filter: Filter
) -> Recall:
    """Search the scopes in the address for current memories."""
    wider = {
        "user": Scopes(tenant=scope.tenant, user=scope.user),
        "app": Scopes(tenant=scope.tenant, app=scope.app),
    }
    return await memories_of(request).recall(
        caller_of(request).checked(wider.get(chosen["width"], scope)),
        query,
        limit=SEARCH_LIMIT,
        filter=replace(filter, superseded=False),
        explain=True,
        deliver=False,
        handover=True,
    )


@router.post("/memories/add")
async def add(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Store a typed memory."""
    content = field(form, "content")
    try:
        await memories_of(request).add(scope, [content], who=page_user(request))
    except KagentMemoryError as error:
        return await _list_page(request, scope, content=content, **error_values(error))
    return to("/memories", scope, done="add")


@router.post("/memories/act")
async def act(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Apply a button to the selected memories, then show the list, or the open memory."""
    action, params = field(form, "do"), request.query_params
    ids = [id for id in form.getlist("id") if isinstance(id, str)]
    if action not in ACTIONS or not ids:
        return to("/memories", scope, show=params.get("show"), done="none")
    missing_count = 0
    for id in ids:
        try:
            await ACTIONS[action](memories_of(request), scope, id, who=page_user(request))
        except NotFound:
            # it has expired, or was erased together with another one
            if (missing_count := missing_count + 1) == len(ids):
                raise
    stays_open = "open" in params and action not in ERASING
    path = f"/memories/{ids[0]}" if stays_open else "/memories"
    return to(path, scope, show=params.get("show"), done=action)


@router.get("/memories/delete-all")
async def confirm_delete_all(request: Request, scope: PageScope) -> Response:
    """Ask before everything is deleted."""
    stats = await memories_of(request).stats(scope)
    return page(request, "delete_all.html", scope=scope, stats=stats)


@router.get("/memories/{id}")
async def show(request: Request, scope: PageScope, id: str) -> Response:
    """Show one memory with its history."""
    return await _memory_page(request, scope, id)


async def _memory_page(
    request: Request,
    scope: Scope,
    id: str,
    *,
    status: int = 200,
    problem: str = "",
    typed: Mapping[str, str] = {},
) -> Response:
    """Show a memory, even a superseded one; `typed` holds the values of a form that was not
    stored, and `problem` says why.
    """
    memories = memories_of(request)
    memory = await memories.get(scope, id, superseded=True)
    revisions = await memories.history(scope, id)
    changes = [
        (revision, previous_values(revision.before, after))
        for revision, after in with_after(memory, revisions)
    ]
    linked: dict[str, list[Memory]] = {}
    for other in (*memory.links, *memory.source_ids):
        with suppress(NotFound):  # it has expired
            related = await memories.get(scope, other)
            linked.setdefault(_heading(memory, related), []).append(related)
    return page(
        request,
        "memory.html",
        status,
        scope=scope,
        memory=memory,
        linked=linked,
        revisions=changes[::-1],
        can_undo=last_change(revisions) is not None,
        types=MEMORY_TYPES,
        form={**_as_texts(memory), "why": "", **typed},
        problem=problem,
    )


def _heading(memory: Memory, related: Memory) -> str:
    """Say what a related memory is to one whose page shows it."""
    if related.state == "source":
        return "Said as"
    if memory.state == "source":
        return "Facts from it"
    return "Said otherwise" if contradict(memory, related) else "Also said as"


def _as_texts(memory: Memory) -> dict[str, str]:
    """Return the editable fields of a memory as text."""
    texts: dict[str, str] = {}
    for name in HISTORY_FIELDS:
        value = getattr(memory, name)
        if isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, tuple):
            value = ", ".join(cast("tuple[str, ...]", value))
        texts[name] = "" if value is None else str(value)
    return texts


def previous_values(before: Memory | None, after: Memory | None) -> list[tuple[str, str]]:
    """Return the fields that a change replaced, with their former values as text."""
    if before is None or after is None:
        return []
    new = _as_texts(after)
    return [
        (name.replace("_", " "), text or "–")
        for name, text in _as_texts(before).items()
        if text != new[name]
    ]


@router.post("/memories/{id}/edit")
async def edit(request: Request, scope: PageScope, form: OwnForm, id: str) -> Response:
    """Apply the form; after a failure show it again as typed."""
    memories, typed = memories_of(request), {name: field(form, name) for name in EDIT_FIELDS}
    try:
        stored = _as_texts(await memories.get(scope, id, superseded=True))
        changes = _changes(typed, stored, field(form, "revision"))
        await memories.edit(scope, id, who=page_user(request), **changes)
    except NotFound as error:
        # the memory is gone meanwhile; the typed text can be stored as a new one
        return await _list_page(request, scope, content=typed["content"], **error_values(error))
    except KagentMemoryError as error:
        return await _memory_page(request, scope, id, typed=typed, **error_values(error))
    return to(f"/memories/{id}", scope, done="edit")


def _changes(typed: Mapping[str, str], stored: Mapping[str, str], revision: str) -> dict[str, Any]:
    """Return the arguments of an edit for the fields that differ from the stored ones.

    Raises:
        InvalidInput: a value is invalid.
    """
    changes = {
        name: text
        for name, text in typed.items()
        if text != stored.get(name, "") and (text or name in MAY_BE_EMPTY)
    }
    for name in changes.keys() & {"topics", "tags"}:
        labels = [part.strip() for part in changes[name].split(",")]
        changes[name] = json.dumps([label for label in labels if label])
    return read_texts(VERBS["edit"], {**changes, **({"revision": revision} if revision else {})})


@router.get("/login")
async def login_form(request: Request) -> Response:
    """Ask for a token."""
    return page(request, "login.html", problem=False)


@router.post("/login")
async def login(request: Request, form: OwnForm) -> Response:
    """Store a valid token in a cookie."""
    secret = field(form, "token")
    if await find_token(memories_of(request), secret) is None:
        return page(request, "login.html", 401, problem=True)
    answer = to("/")
    set_cookie(request, answer, COOKIE, secret)
    return answer


@router.post("/logout")
async def logout(request: Request, form: OwnForm) -> Response:
    """Drop the cookie."""
    answer = to("/login")
    answer.delete_cookie(COOKIE, path="/")
    return answer
