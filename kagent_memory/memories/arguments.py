"""The arguments of the verbs, checked against their declaration in `MemoryApi` before anything is done with them."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ..errors import InvalidInput
from ..records import checked_name

SCOPE_PARTS = frozenset({"tenant", "user", "app"})
Verb = TypeVar("Verb", bound=Callable[..., Any])


class _MisfitError(Exception):
    """Says what a value is instead; no TypeError, which an iterable of the caller's may raise itself."""


class Kind(NamedTuple):
    """What an argument may be.

    Attributes:
        name: of one, for people.
        names: of several.
        fitting: gives what is passed on, the value itself, Python's like of numpy's, or a list of what an iterable
            yields; raises _MisfitError.
        exact: types that fit whatever their value is.
    """

    name: str
    names: str
    fitting: Callable[[object], object]
    exact: frozenset[type] = frozenset()


def checked_arguments(declared: Callable[..., Any], verb: Verb) -> Verb:
    """A verb that refuses arguments of other types than its declaration has with `InvalidInput`, raised when its
    answer is awaited, as all errors of a verb are; and names that neither has, which its `**options` would pass over.
    """
    own = {name for name, each in inspect.signature(verb).parameters.items() if each.kind is not each.VAR_KEYWORD}

    @functools.wraps(verb)
    async def awaited(self: object, /, *args: object, **kwargs: object) -> object:
        args = _fitting_all(declared, own, args, kwargs)
        return await verb(self, *args, **kwargs)

    @functools.wraps(verb)
    def called(self: object, /, *args: object, **kwargs: object) -> object:
        try:
            args = _fitting_all(declared, own, args, kwargs)
        except InvalidInput as error:
            return _refused(error) if inspect.iscoroutinefunction(declared) else _refused_lines(error)
        return verb(self, *args, **kwargs)

    return cast("Verb", awaited if inspect.iscoroutinefunction(verb) else called)


async def _refused(error: InvalidInput) -> None:
    raise error


async def _refused_lines(error: InvalidInput) -> AsyncGenerator[str]:
    raise error
    yield ""


def _fitting_all(
    declared: Callable[..., Any], own: Set[str], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[object, ...]:
    by_position, by_name = _kinds(declared)
    if unknown := kwargs.keys() - by_name.keys() - own:
        raise TypeError(f"{declared.__name__}() got an unexpected keyword argument {min(unknown)!r}")
    for place, ((name, kind), value) in enumerate(zip(by_position, args, strict=False)):
        if type(value) not in kind.exact:
            args = (*args[:place], _fitting(name, kind, value), *args[place + 1 :])
    for name, value in kwargs.items():
        if (kind := by_name.get(name)) is not None and type(value) not in kind.exact:
            kwargs[name] = _fitting(name, kind, value)
    return args


def _fitting(name: str, kind: Kind, value: object) -> object:
    try:
        return kind.fitting(value)
    except _MisfitError as error:
        raise InvalidInput(f"{name} takes {kind.name}, not {error}.") from None


@functools.cache
def _kinds(declared: Callable[..., Any]) -> tuple[Sequence[tuple[str, Kind]], Mapping[str, Kind]]:
    """What a verb takes, by position and by name."""
    from ..stores.base import JobState, Order

    parameters = list(inspect.signature(declared).parameters.values())[1:]
    unresolved = types.SimpleNamespace(__annotations__={p.name: p.annotation for p in parameters})
    names = {"Llm": _Model, "JobState": JobState, "Order": Order, "Vector": _Vector}
    hints = get_type_hints(unresolved, getattr(inspect.unwrap(declared), "__globals__", {}), names)
    by_name: dict[str, Kind] = {}
    for parameter in parameters:
        if parameter.kind is not parameter.VAR_KEYWORD:
            by_name[parameter.name] = _kind(hints[parameter.name])
            continue
        [options] = get_args(hints[parameter.name])  # Unpack[…]
        by_name |= {name: _kind(hint) for name, hint in get_type_hints(options, localns=names).items()}
    for name in SCOPE_PARTS & by_name.keys():
        by_name[name] = by_name[name]._replace(fitting=_name_of(by_name[name], name), exact=frozenset())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return [(name, by_name[name]) for name in positional], by_name


def _name_of(kind: Kind, part: str) -> Callable[[object], object]:
    def fitting(value: object) -> object:
        return None if (name := kind.fitting(value)) is None else checked_name(cast("str", name), f"The {part}")

    return fitting


class _Vector:
    """Stands for the type of vectors, which only numpy knows; the verbs check their numbers."""


class _Model:
    """Stands for `Llm`: any object of that shape."""


def _kind(hint: Any) -> Kind:
    of, parts = get_origin(hint), get_args(hint)
    if of in (Union, types.UnionType):
        return _either([_kind(part) for part in parts if part is not type(None)], optional=type(None) in parts)
    if of is Literal:
        return _literal(parts)
    if of is Callable:
        return Kind("a function", "functions", _if(callable))
    if of is not None and issubclass(of, Mapping):
        return Kind("a mapping", "mappings", _if(lambda value: isinstance(value, Mapping)))
    if of is not None:
        return _list_of(_kind(parts[0]))
    return _NAMED.get(hint) or _instance(hint, f"{hint.__name__}(…)", f"{hint.__name__}(…)")


def _if(fits: Callable[[object], bool]) -> Callable[[object], object]:
    def fitting(value: object) -> object:
        if not fits(value):
            raise _MisfitError(_type_of(value))
        return value

    return fitting


def _type_of(value: object) -> str:
    return (
        "None" if value is None else f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    )


def _instance(kind: type, name: str, names: str) -> Kind:
    return Kind(name, names, _if(lambda value: isinstance(value, kind)), frozenset({kind}))


def _truth(value: object) -> object:
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):  # of comparing its numbers
        return bool(value)
    raise _MisfitError(_type_of(value))


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _MisfitError(_type_of(value))
    return value if isinstance(value, int) else int(value)


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _MisfitError(_type_of(value))
    try:
        number = float(value)
    except OverflowError:
        raise _MisfitError("one beyond all floats") from None
    return value if isinstance(value, int | float) else number


def _is_model(value: object) -> bool:
    has_name = isinstance(getattr(value, "name", None), str)
    return has_name and callable(getattr(value, "complete", None)) and not isinstance(value, type)


_NAMED: Mapping[Any, Kind] = {
    Any: Kind("anything", "anything", _if(lambda _: True)),
    _Vector: Kind("a vector", "vectors", _if(lambda _: True)),
    _Model: Kind("a model with name and complete", "models", _if(_is_model)),
    str: _instance(str, "text", "texts"),
    bool: Kind("True or False", "True or False", _truth, frozenset({bool})),
    datetime: _instance(datetime, "a datetime", "datetimes"),
    int: Kind("a whole number", "whole numbers", _whole, frozenset({int})),
    float: Kind("a number", "numbers", _number, frozenset({float})),
}


def _literal(values: Sequence[object]) -> Kind:
    def fitting(value: object) -> object:
        if not isinstance(value, str):
            raise _MisfitError(_type_of(value))
        if value not in values:
            raise _MisfitError(repr(value[:100]))
        return value

    words = ", ".join(map(repr, values))
    return Kind(f"one of {words}", f"some of {words}", fitting)


def _list_of(kind: Kind) -> Kind:
    def fitting(value: object) -> object:
        if value is None or not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            raise _MisfitError(f"a single {_type_of(cast('object', value))}" if value is not None else "None")
        several = cast("Iterable[object]", value)
        try:
            iterator = iter(several)
        except TypeError:  # an array of no dimension
            raise _MisfitError(f"a single {_type_of(several)}") from None
        values = several if isinstance(several, Sequence) else list(iterator)
        for one in values:
            if type(one) not in kind.exact:
                try:
                    kind.fitting(one)
                except _MisfitError as error:
                    raise _MisfitError(f"one that holds {error}") from None
        return values

    return Kind(f"a list of {kind.names}", f"lists of {kind.names}", fitting)


def _either(kinds: Sequence[Kind], *, optional: bool) -> Kind:
    def fitting(value: object) -> object:
        if optional and value is None:
            return value
        for kind in first:
            try:
                return kind.fitting(value)
            except _MisfitError:
                pass
        return last.fitting(value)

    *first, last = sorted(kinds, key=lambda kind: not kind.exact)  # a list last: its error says the most
    exact = frozenset[type]().union(*(kind.exact for kind in kinds), {type(None)} if optional else ())
    name = f"{', '.join(kind.name for kind in first)} or {last.name}" if first else last.name
    return Kind(name, " and ".join(kind.names for kind in (*first, last)), fitting, exact)
