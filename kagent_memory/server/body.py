"""Bodies of requests: JSON that is parsed and validated off the event loop before a route sees it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from typing_extensions import override

from ..concurrency import run_in_thread

MAX_ERRORS = 5
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JSON_ADVICE = "send one JSON value in UTF-8, nested at most 200 levels deep"  # pydantic's parser ends there


def media_type(request: Request) -> str:
    """Return the request's media type, without parameters such as the character set."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def as_object(value: object) -> Mapping[str, object]:
    """Return `value` if it is a JSON object, else an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


class Strict(BaseModel):
    """A body without unknown fields: a misspelt one is an error, not silence."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: object) -> object:
        # one error for all fields that are too many, instead of one for each
        if len(as_object(given)) > len(cls.model_fields):
            raise ValueError(f"has more fields than {', '.join(cls.model_fields)}")
        return given


class BoundedRoute(APIRoute):
    """A route whose JSON body is parsed and validated off the event loop when it is long."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, which finds the validated body in its request."""
        handle = super().get_route_handler()
        kinds = get_type_hints(self.endpoint).values()
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Strict)), None)
        if model is None:
            return handle

        async def handle_validated(request: Request) -> Response:
            raw = await request.body()
            sent = media_type(request)
            is_json = sent == "application/json" or (sent.startswith("application/") and sent.endswith("+json"))
            if not raw or not is_json:
                return await handle(request)
            value = await run_in_thread(len(raw), validate_body, model, raw)
            return await handle(_ValidatedRequest(request, raw, value))

        return handle_validated


def validate_body(model: type[BaseModel], raw: bytes) -> BaseModel:
    """Parse and validate a JSON body.

    Raises:
        RequestValidationError: it is not JSON, or does not fit; names a few faults, never the input.
    """
    try:
        return model.model_validate_json(raw.removeprefix(BYTE_ORDER_MARK))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_ERRORS]
        raise RequestValidationError(
            [
                {
                    "type": fault["type"],
                    "loc": ("body", *fault["loc"]),
                    "msg": f"{fault['msg']}; {JSON_ADVICE}" if fault["type"] == "json_invalid" else fault["msg"],
                }
                for fault in faults
            ]
        ) from error


class _ValidatedRequest(Request):
    """A request whose body was read; its JSON is the validated model."""

    def __init__(self, request: Request, raw: bytes, value: BaseModel) -> None:
        super().__init__(request.scope, request.receive)
        self._raw, self._value = raw, value

    @override
    async def body(self) -> bytes:
        """Return the raw body."""
        return self._raw

    @override
    async def json(self) -> Any:
        """Return the validated model."""
        return self._value
