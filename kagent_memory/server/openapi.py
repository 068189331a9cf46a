"""The /api/v1 part of `/openapi.json`, made by FastAPI from the signatures and docstrings
of verbs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature, getdoc
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from pydantic import GetJsonSchemaHandler, TypeAdapter

from .. import __version__
from ..memories.types import WhichScopes
from ..memories.verbs import Verb
from ..records import Filter
from .api import JSON, JSON_LINES, VERBS, info
from .request_arguments import has_parts

DESCRIPTION = (
    "Long-term memory for agents: one route a verb. Where a call is about the memories of one "
    "agent and user, the "
    "query names them: `app`, `user` and `tenant`. What else a `GET` or `DELETE` takes stands "
    "in the query too, lists "
    "and objects as JSON; what others take stands in the body."
)
WHOSE: Mapping[str, str] = {
    "tenant": "Whose memories. Default: the caller's tenant, or the server's.",
    "user": "Whose memories: the user.",
    "app": "Whose memories: the agent's app name.",
}
PROBLEM: Any = {
    "description": "What is wrong (RFC 9457).",
    "content": {"application/problem+json": {"schema": {"type": "object"}}},
}


class Lines(Response):
    """An answer of JSON lines."""

    media_type = JSON_LINES


@dataclass(frozen=True)
class AsJson:
    """Describe a text that holds a value of this type as JSON."""

    kind: Any

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema of the text."""
        content = handler(TypeAdapter(self.kind).core_schema)
        return {"type": "string", "contentMediaType": JSON, "contentSchema": content}


@cache
def document() -> dict[str, Any]:
    """Return the description of all routes."""
    router = APIRouter(prefix="/api/v1", responses={"default": PROBLEM})
    router.add_api_route("/info", info, operation_id="info")
    for name, verb in VERBS.items():
        text = getdoc(verb.function) or ""
        is_lines = verb.is_stream or verb.takes_file
        router.add_api_route(
            verb.path,
            _endpoint(verb),
            methods=[verb.method],
            operation_id=name,
            summary=text.partition(".")[0].replace("\n", " "),
            description=text,
            response_model=None if is_lines else verb.types["return"],
            response_class=Lines if is_lines else JSONResponse,
        )
    spec = get_openapi(
        title="kagent_memory", version=__version__, description=DESCRIPTION, routes=router.routes
    )
    for name, schema in spec["components"]["schemas"].items():
        if name.startswith("Body_"):  # as `request_arguments.read` checks it
            schema["additionalProperties"] = False
    return spec


def _endpoint(verb: Verb) -> Any:
    """Return a function with the arguments of a verb, each in its place in the request."""

    def endpoint() -> None: ...

    vars(endpoint)["__signature__"] = Signature([*_parameters(verb)])
    return endpoint


def _parameters(verb: Verb) -> Iterator[Parameter]:
    kinds = dict(verb.wire_types)
    defaults = {
        name: None if isinstance(default, Filter) else default
        for name, default in verb.defaults.items()
    }
    if "scope" in kinds:
        is_single = kinds["scope"] != WhichScopes
        for name, text in WHOSE.items():
            optional = kinds.pop(name, None) or not is_single or name == "tenant"
            yield _parameter(name, str, Query(description=text), None if optional else ...)
        defaults["scope"] = None  # the query may name it instead
        if is_single:
            del kinds["scope"]
    for name, kind in kinds.items():
        yield _parameter(name, *_placement(verb, name, kind), defaults.get(name, ...))
    if verb.takes_file:
        yield _parameter(verb.takes_file, bytes, Body(media_type="application/octet-stream"), ...)


def _placement(verb: Verb, name: str, kind: Any) -> tuple[Any, Any]:
    """Return the type of an argument in a request, and its place in the request."""
    if f"{{{name}}}" in verb.path:
        return kind, Path()
    if not verb.in_query:
        return kind, Body(embed=True)
    return Annotated[str, AsJson(kind)] if has_parts(kind) else kind, Query()


def _parameter(name: str, kind: Any, place: Any, default: Any) -> Parameter:
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, place],
        default=Parameter.empty if default is ... else default,
    )
