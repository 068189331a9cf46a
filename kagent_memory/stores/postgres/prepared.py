"""Statements as the protocol has them, and what one connection keeps of those that it has asked before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from psycopg import errors, generators
from psycopg.abc import PQGen, Transformer
from psycopg.adapt import PyFormat
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from ..sql.decoding import TOLD, memory_of
from ..sql.session import Row

MOST_PREPARED = 200
OUTDATED = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
"""The server knows a name no more, or another process changed what its statement reads: all are to be given anew."""
_TEXT_ARRAY = 1009
_VALUE = re.compile(r"%\((\w+)\)([sb])")
_FORMATS = {"s": PyFormat.AUTO, "b": PyFormat.BINARY}

RowMaker: TypeAlias = Callable[[Sequence[Any]], Row]


class Command(NamedTuple):
    """A statement as the protocol has it, with the names of its values in their order and how each is sent."""

    text: bytes
    names: Sequence[str]
    formats: list[PyFormat]


@cache
def command(text: str) -> Command:
    """The statement with numbers in place of names."""
    formats: dict[str, PyFormat] = {}

    def numbered(found: re.Match[str]) -> str:
        formats.setdefault(found[1], _FORMATS[found[2]])
        return f"${[*formats].index(found[1]) + 1}"

    numbered_text = _VALUE.sub(numbered, text).encode()
    return Command(numbered_text, [*formats], [*formats.values()])


def row_maker(result: PGresult | None) -> RowMaker:
    """Makes rows by name of a result's, lists as tuples; one that begins with a memory holds it as `memory`."""
    # the driver's own description of it makes an object a column
    named = [(result.fname(column) or b"", result.ftype(column)) for column in range(result.nfields)] if result else []
    names = [name.decode() for name, _ in named]
    lists = [name.decode() for name, kind in named if kind == _TEXT_ARRAY]

    def row(values: Sequence[Any]) -> Row:
        made = dict(zip(names, values, strict=True))
        for name in lists:
            made[name] = tuple(made[name] or ())
        return made

    if names[: len(TOLD)] != [*TOLD]:
        return row
    place, rest = names.index("sealed"), names[len(TOLD) :]

    def with_memory(values: Sequence[Any]) -> Row:
        if values[place] is not None:  # it must be opened first
            return row(values)
        return {"id": values[0], "memory": memory_of(values), **dict(zip(rest, values[len(TOLD) :], strict=True))}

    return with_memory


@dataclass(slots=True, eq=False)
class _Prepared:
    """A statement that the server knows by name, and how to read its answers once one has come."""

    name: bytes
    transformer: Transformer
    row: RowMaker | None = None


_Key: TypeAlias = tuple[bytes, Sequence[int]]


class Asked(NamedTuple):
    """What leaves for one statement, and how its answer is read; None: it is only checked.

    Attributes:
        key: of the statement that it gives a name.
    """

    sends: Callable[[], None]
    key: _Key | None = None
    prepared: _Prepared | None = None


class Statements:
    """What one connection knows of the statements that it is asked.

    Args:
        pgconn: the connection.
        transformer: makes one that knows the connection's types.
        named: whether the server keeps statements by name.
    """

    def __init__(self, pgconn: PGconn, transformer: Callable[[], Transformer], *, named: bool) -> None:
        self._pgconn = pgconn
        self._transformer = transformer
        self._values = transformer()
        self._named = named
        self._known: dict[_Key, _Prepared] = {}
        self._count = 0
        self._unread: list[_Key | None] = []  # one for each that has left and whose answer has not been read

    @property
    def is_behind(self) -> bool:
        """Whether answers are still to be read."""
        return bool(self._unread)

    def forget(self) -> None:
        """The server knows none of them any more."""
        self._known.clear()

    def drop(self, asked: Sequence[Asked]) -> None:
        """These never left, and what names they were to give neither."""
        self._drop(one.key for one in asked)

    def _drop(self, keys: Iterable[_Key | None]) -> None:
        for key in keys:
            if key is not None:
                self._known.pop(key, None)

    def asked(self, command: Command, values: Sequence[Any], *, named: bool = True) -> list[Asked]:
        """What is sent to ask this statement: itself, after it is given a name where the server has none for it."""
        sent = self._values.dump_sequence(values, command.formats)
        types, formats = self._values.types or (), self._values.formats
        if not (self._named and named):
            send = partial(self._pgconn.send_query_params, command.text, sent, types, formats, Format.BINARY)
            return [Asked(send, None, _Prepared(b"", self._transformer()))]
        key = command.text, types
        known, before = self._known.get(key), list[Asked]()
        if known is None:
            if len(self._known) >= MOST_PREPARED:
                oldest = self._known.pop(next(iter(self._known)))
                before.append(Asked(partial(self._pgconn.send_query_params, b"DEALLOCATE " + oldest.name, None)))
            self._count += 1
            known = self._known[key] = _Prepared(b"kagent_%d" % self._count, self._transformer())
            before.append(Asked(partial(self._pgconn.send_prepare, known.name, command.text, types), key))
        send = partial(self._pgconn.send_query_prepared, known.name, sent, formats, Format.BINARY)
        return [*before, Asked(send, None, known)]

    def all_asked(self, asked: Sequence[tuple[Command, Sequence[Any]]]) -> list[Asked]:
        """What is sent to ask these statements; where a value is refused, none gets a name that is never sent."""
        made = list[Asked]()
        try:
            for given in asked:
                made += self.asked(*given)
        except BaseException:
            self.drop(made)
            raise
        return made

    def steps(self, asked: Sequence[Asked]) -> PQGen[list[list[Row]]]:
        """Has them leave in one piece, which is one transaction, and reads the rows of those that are read."""
        results = yield from self.results(asked)
        return [self._rows(one.prepared, found) for one, found in zip(asked, results, strict=True) if one.prepared]

    def results(self, asked: Sequence[Asked]) -> PQGen[list[PGresult]]:
        """Has them leave in one piece, and gives their results once those of all that left before are checked too."""
        pgconn = self._pgconn
        self._send(asked)
        unread, self._unread = self._unread, []
        pgconn.pipeline_sync()
        yield from generators.send(pgconn)
        results: list[PGresult] = []
        for _ in unread:
            results += yield from generators.fetch_many(pgconn)
        yield from generators.fetch_many(pgconn)  # of the sync
        pgconn.exit_pipeline_mode()
        self._check(unread, results)
        return results[len(unread) - len(asked) :]

    def flushed(self, asked: Sequence[Asked]) -> PQGen[None]:
        """Has them leave; the server works on them while what comes next is made."""
        self._send(asked)
        yield from generators.send(self._pgconn)

    def _send(self, asked: Sequence[Asked]) -> None:
        self._pgconn.enter_pipeline_mode()
        for one in asked:
            one.sends()
            self._unread.append(one.key)

    def _check(self, keys: Sequence[_Key | None], results: Sequence[PGresult]) -> None:
        for place, result in enumerate(results):
            if result.status == ExecStatus.FATAL_ERROR:
                self._drop(keys[place:])  # the names before it were given
                raise errors.error_from_result(result)

    def _rows(self, prepared: _Prepared, result: PGresult) -> list[Row]:
        transformer, row = prepared.transformer, prepared.row
        transformer.set_pgresult(result, set_loaders=row is None)
        if row is None:
            row = prepared.row = row_maker(result)
        found = transformer.load_rows(0, result.ntuples, row)
        transformer.set_pgresult(None, set_loaders=False)  # a large answer is not kept till the next
        return found
