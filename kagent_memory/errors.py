"""What can go wrong, one family per who must act.

KagentMemoryError
├── ConfigurationError   the operator: a setting, a URI, a missing extra or extension
├── InvalidInput         the caller: content, vector or filter that cannot be stored or searched
├── NotFound             the caller: no such memory or job in this scope
├── Conflict             the caller: somebody else changed it first; read again and retry
├── StoreError           the database: unreachable, read-only, refused
└── ModelError           the model or embedder: unreachable, refused
    ├── ModelUnavailable the model or embedder is away for now; the same call may succeed later
    ├── TruncatedAnswer  the model: its answer ends too early; asked for less at once, it may not
    └── UnusableAnswer   the embedder: there, and answering nonsense
"""

from __future__ import annotations


class KagentMemoryError(Exception):
    """Something in kagent_memory failed; the class says who must act, the text says what to do."""


class ConfigurationError(KagentMemoryError):
    """A setting, URI or installed part does not fit; the operator must change it."""


class InvalidInput(KagentMemoryError, ValueError):
    """What was given cannot be stored or searched; nothing of that call was written."""


class NotFound(KagentMemoryError, LookupError):
    """No such memory or job in this scope."""


class Conflict(KagentMemoryError):
    """It was changed by somebody else in between; read it again and retry."""


class StoreError(KagentMemoryError):
    """The database is unavailable or refused the work; nothing of that call was written."""


class ModelError(KagentMemoryError):
    """The model or embedder is unavailable, or answered what cannot be used."""


class ModelUnavailable(ModelError):
    """The model or embedder is away for now (unreachable, overloaded, too slow); the same call may succeed later."""


class TruncatedAnswer(ModelError):
    """The model's answer was cut off before its end; the same call would be cut again, one for less may not."""


class UnusableAnswer(ModelError):
    """The embedder is there and answered what no retry makes usable: NaN, zeros, another width or number of vectors."""
