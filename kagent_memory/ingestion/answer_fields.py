"""Types of the fields that a model fills in, which read whatever it wrote there as far as it can be used."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator

from ..records import valid_text


def text_or_empty(value: object) -> str:
    """A text; "" for anything else."""
    return valid_text(value) if isinstance(value, str) else ""


def text_or_none(value: object) -> str | None:
    """A text or whole number that says something, without white space around it."""
    return valid_text(digits(value)).strip() or None if isinstance(value, (str, int)) else None


def truth(value: object) -> bool:
    """Whether it is true, in JSON or in words."""
    return value.strip().lower() in ("true", "yes", "1") if isinstance(value, str) else value is True


def objects(value: Any) -> Any:
    """A list without the items that are not objects; anything else as it is."""
    if not isinstance(value, list):
        return value
    return [item for item in cast("list[Any]", value) if isinstance(item, (dict, BaseModel))]


def digits(value: str | int) -> str:
    """A text as it is, and a number as one."""
    try:
        return str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return ""


Text: TypeAlias = Annotated[str, BeforeValidator(text_or_empty)]
OptionalText: TypeAlias = Annotated[str | None, BeforeValidator(text_or_none)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(truth)]
