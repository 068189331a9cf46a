"""All settings, given as arguments, query parameters of the URI, or KAGENT_MEMORY_<NAME>."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Literal, Self, TypeAlias, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass as validated
from pydantic_core import ArgsKwargs

from ..checks import faults
from ..errors import ConfigurationError
from ..records import MEMORY_TYPES, Origin
from . import kagent_config
from .kagent_config import EmbeddingConfig

logger = logging.getLogger(__name__)
DEFAULT_URI = "libsql:///memory.db"
PREFIX = "KAGENT_MEMORY_"
STORES = "kagent_memory.stores"  # entry points of the stores by URI scheme
TURSO = (".turso.io", ".turso.tech")
# likely mistakes for KAGENT_MEMORY_URI
MISTAKEN = ("KAGENT_MEMORY_URL", "KAGENT_MEMORY_DATABASE_URL", "KAGENT_MEMORY_DB_URL")
SECRETS = {"encryption_keys"}  # settings that must not be in a URI
NEAR = 0.8  # similarity above which a name counts as a misspelling of another
PolicyName: TypeAlias = Literal["kagent", "archive", "tiers"]

TAG = "tag="
POLICIES: Mapping[str, Mapping[str, int | float]] = {
    "kagent": {},
    "archive": {"ttl_days": 0},
    "tiers": {
        "ttl_days": 90,
        "short_term_hours": 24.0,
        "half_life_days": 30.0,
        "max_memories": 10_000,
        "prune_every_hours": 168.0,
    },
}
"""The defaults of each policy; the defaults of the fields are those of "kagent"."""


def _parse_off(value: object) -> object:
    return (
        False if isinstance(value, str) and value.lower() in ("false", "off", "no", "0") else value
    )


def _parse_json(value: object) -> object:
    """Parse a text that looks like a JSON object; return anything else unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError("looks like JSON but is not valid") from error


def _parse_embedding(value: object) -> object:
    """Parse a mapping or JSON as the configuration of an embedder; return anything else
    unchanged.
    """
    value = _parse_json(value)
    return EmbeddingConfig.parsed(cast("object", value)) if isinstance(value, Mapping) else value


def _parse_fields(key: str, value: object) -> object:
    """Return the fields of a setting; a plain text is the value of the field `key`."""
    value = _parse_json(value)
    return {key: value} if value and isinstance(value, str) else value or None


def _parse_list(value: object) -> object:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, str)
        else value
    )


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_parse_list)]
Days: TypeAlias = Annotated[int, Field(ge=0, le=36_500)]
TypeOrTag: TypeAlias = Annotated[str, Field(pattern=f"^({'|'.join(MEMORY_TYPES)}|{TAG}.+)$")]
Origins: TypeAlias = Annotated[tuple[Origin, ...], BeforeValidator(_parse_list)]


@validated(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class PersonalDataRules:
    """The rules for personal data.

    Attributes:
        mode: "mask" it, "drop" the text, or "refuse" it with InvalidInput.
        kinds: the kinds of personal data; empty: all known kinds.
        regions: countries, such as US or DE, whose phone numbers are recognized without a country
            code; empty: eleven large ones.
        file: a TOML table of further kinds.
    """

    mode: Literal["mask", "drop", "refuse"]
    kinds: Names = ()
    regions: Names = ()
    file: str | None = None


@validated(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class RerankConfig:
    """A rerank model.

    Attributes:
        model: its LiteLLM name, or "local/" and the name of a cross-encoder of fastembed.
        api_base: the URL of its server, if it is not the provider's usual one.
    """

    model: str
    api_base: str | None = None


@validated(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class MemorySettings:
    """The settings of memory.

    A setting with several fields is a mapping, or its JSON in the environment and in a URI. A list
    may be comma-separated text.

    Attributes:
        embedding: the embedding model: a LiteLLM name (gemini/…, openai/…) or kagent's
            configuration of one (a mapping or JSON). None: keyword search.
        llm: the language model: a LiteLLM name. None: the agent's own model, if it is known; False:
            no model.
        tenant: the tenant of the scopes that a service makes from ADK's user and app.
        token: the token for a server (an http URI). Best kept in the environment.
        search_limit: the most hits that a search returns.
        min_score: the lowest cosine to the full query for memories that only the vector search
            found (0 to 1).
        policy: defaults for how memories age: "kagent" (15 days; popular ones live on), "archive"
            (nothing expires without a TTL of its own) or "tiers" (90 days, fading, a limit per
            scope). See docs/how-to/keeping.md.
        ttl_days: days until a memory without a TTL of its own expires; 0: never. "archive": 0,
            "tiers": 90.
        quarantine: origins (tool, agent, user, import) whose new memories are hidden until somebody
            confirms them. Everything a tool returns, web pages included, has the origin "tool".
            None: no quarantine.
        pii: what to do with personal data before a model, embedder, queue or disk sees it: "mask"
            it, "drop" the text, or "refuse" the text with InvalidInput (in a transcript, the
            message is left out with a warning). In full: `{"mode": "mask", "kinds": ["email",
            "phone"], "regions": ["DE"], "file": "own.toml"}`. Kinds are email, phone, card, iban,
            ip, national_id and those of the file (default: all); regions are countries whose phone
            numbers are recognized without a country code; the file is a TOML table of `[[pii]]`
            with `kind` and `pattern`, a regular expression. None: nothing. Needs the extra [pii].
        rerank: the model that reorders the best hits: a LiteLLM rerank model, or "local/" and a
            cross-encoder of fastembed; for a server of your own `{"model": "hosted_vllm/any",
            "api_base": "http://…"}`.
        worker: True if this process works on the queue; False leaves it to `kagent-memory worker`.
        postgres_schema: the Postgres schema of the tables.
        encryption_keys: keys that encrypt the content of memories: `id:key`, each key 32 random
            bytes in Base64, separated by commas. The first one encrypts, the others only decrypt.
            Not allowed in the URI; best kept in the environment. Needs the extra [encryption].
        handover_floor: the relevance (0 to 1) that one of the first five hits must reach, or
            prefetch and load_memory give the model nothing; 0: off.
        ttl_days_by: `ttl_days` by type and tag, a mapping such as `{"episodic": 30, "tag=invoice":
            3650}`. Tags come before types; if several tags of a memory match, the first one here
            counts.
        short_term_hours: hours for which a memory learned from a session is visible in that session
            only, unless it proves important or is repeated elsewhere and becomes long-term. 0: all
            memories are long-term at once. "tiers": 24. See docs/how-to/keeping.md.
        popular_after: deliveries after which the prune extends an expired memory instead of
            deleting it.
        half_life_days: days in which the importance of an unused memory halves; the prune deletes
            memories below 0.05, after one half-life at the earliest. 0: nothing fades. "tiers": 30.
        max_memories: the most visible memories that a prune leaves in a scope; it deletes the least
            important ones beyond, but never pinned ones. 0: no limit. "tiers": 10,000.
        prune_every_hours: hours between prunes in the background; 0: none. "tiers": 168.
        secrets_file: a TOML table of further vendors' secrets to mask, like
            `redaction/vendors.toml`.
        dimensions: the dimensions requested from the embedder; longer vectors are cut and
            normalised, shorter ones refused. None: the model's own.
        batch_size: texts in one call of the embedder.
        cache_mb: memory in MiB for the word indexes of recently searched scopes; as much again for
            their vectors, and a quarter as much for recent embeddings, which are kept for ten
            minutes. The scope searched last always stays.
        max_content_bytes: the longest content that an explicit add accepts, in bytes of UTF-8.
        model_timeout_seconds: the time limit of one attempt at a language model or embedder.
        search_timeout_seconds: the time that a search waits for each model that helps it (query
            embedding, rewriting, reranking), all attempts together; then it goes on without.
        keep_turns: True to keep what was said as the source of the facts that a model extracts; it
            has no effect on short-term memory. See docs/how-to/learning.md.
        gate: True to skip prefetch and preload for greetings, thanks and general questions.
        rewrite: True to let the model complete a query before the search. Needs llm.
        pool_size: the most connections to Postgres.
        statement_timeout_seconds: the time limit of a statement in Postgres, migrations excepted; a
            connection that stays silent 2 s longer is closed.
        read_uri: a streaming standby of the primary Postgres. Searches and lists read from it while
            it has everything that this process wrote, otherwise from the primary.
        rls: True to switch on row level security in Postgres, so that the database itself keeps
            scopes apart. It stays on for all processes, also those that leave this out.
    """

    embedding: Annotated[str | EmbeddingConfig | None, BeforeValidator(_parse_embedding)] = None
    llm: Annotated[str | Literal[False] | None, BeforeValidator(_parse_off)] = None
    tenant: str = ""
    token: str | None = Field(default=None, repr=False)
    search_limit: int = Field(default=5, ge=0, le=1000)
    min_score: float = Field(default=0.0, ge=0, le=1)
    policy: PolicyName = "kagent"
    ttl_days: Days = 15
    quarantine: Origins = ()
    pii: Annotated[PersonalDataRules | None, BeforeValidator(partial(_parse_fields, "mode"))] = None
    rerank: Annotated[RerankConfig | None, BeforeValidator(partial(_parse_fields, "model"))] = None
    worker: bool = True
    postgres_schema: str = Field(default="kagent_memory", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    encryption_keys: str | None = Field(default=None, repr=False)

    handover_floor: float = Field(default=0.38, ge=0, le=1)
    ttl_days_by: Annotated[Mapping[TypeOrTag, Days], BeforeValidator(_parse_json)] = Field(
        default_factory=dict[str, int]
    )
    short_term_hours: float = Field(default=0.0, ge=0, le=876_000)
    popular_after: int = Field(default=10, ge=0)
    half_life_days: float = Field(default=0.0, ge=0, le=36_500)
    max_memories: int = Field(default=0, ge=0)
    prune_every_hours: float = Field(default=24.0, ge=0)
    secrets_file: str | None = None
    dimensions: int | None = Field(default=None, ge=1, le=16_000)
    batch_size: int = Field(default=64, ge=1)
    cache_mb: int = Field(default=256, ge=1)
    max_content_bytes: int = Field(default=16_384, ge=1)
    model_timeout_seconds: float = Field(default=60.0, gt=0)
    search_timeout_seconds: float = Field(default=5.0, gt=0)
    gate: bool = True
    keep_turns: bool = True
    rewrite: bool = False
    pool_size: int = Field(default=10, ge=1)
    statement_timeout_seconds: float = Field(default=15.0, gt=0, le=86_400)
    read_uri: str | None = Field(default=None, repr=False)
    rls: bool = False

    @model_validator(mode="before")
    @classmethod
    def _with_policy(cls, raw: Any) -> Any:
        """Add the policy's defaults to the given values."""
        values: dict[str, Any] = dict((raw.kwargs or {}) if isinstance(raw, ArgsKwargs) else raw)
        return {**POLICIES.get(str(values.get("policy")), {}), **values}

    @classmethod
    def from_kagent(cls, config: object) -> Self | None:
        """Return the settings for kagent's configuration, with the 768 dimensions and the
        `min_score` of 0.3 of its runtime.

        Args:
            config: the controller's `memory` block, its whole config.json, or the text of either.

        Returns:
            None if the configuration leaves memory off.

        Raises:
            ConfigurationError: a value is invalid, or the model's provider has no embeddings.
        """
        options = kagent_config.options(config)
        return None if options is None else cls().updated(options)

    def differences(self, other: MemorySettings) -> dict[str, Any]:
        """Return the settings that differ from `other`, by name."""
        return {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) != getattr(other, field.name)
        }

    def updated(self, options: Mapping[str, Any]) -> Self:
        """Return these settings with some replaced.

        A new policy also replaces the values that were defaults of the old one.

        Raises:
            ConfigurationError: a name is unknown or a value is invalid.
        """
        names = {field.name for field in fields(self)}
        if unknown := sorted(set(options) - names):
            raise ConfigurationError(
                f"Unknown setting {', '.join(unknown)}; {_known_names(unknown[0], names)}"
            )
        try:
            values = self.differences(type(self)(policy=self.policy))
            values["policy"] = self.policy
            return TypeAdapter(type(self)).validate_python({**values, **options})
        except ValidationError as error:
            name, reason = faults(error)[0]
            raise ConfigurationError(f"Invalid value for the setting {name}: {reason}.") from error


def compose(
    uri: str | None,
    settings: MemorySettings | None,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
) -> tuple[str, MemorySettings]:
    """Return the URI of the store and its settings.

    Arguments win over query parameters of the URI, and those over the environment, for which
    `settings` stands in if it is given. Query parameters of a Postgres URI that name no setting are
    left to libpq.

    Raises:
        ConfigurationError: there is no URI, the environment names no store, a setting or query
            parameter is unknown, or a value is invalid.
    """
    if settings is not None and not isinstance(settings, MemorySettings):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise ConfigurationError(
            f"settings takes MemorySettings(…), not {type(settings).__name__}."
        )
    base = settings or MemorySettings()
    names = {field.name for field in fields(base)}
    variables = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and settings is None
    }
    # only a warning, because Kubernetes sets variables named after services
    for name in sorted(variables.keys() - names - {"uri"}):
        if guesses := get_close_matches(name, names, n=1, cutoff=NEAR):
            wrong, right = f"{PREFIX}{name.upper()}", f"{PREFIX}{guesses[0].upper()}"
            logger.warning("%s has no effect; did you mean %s?", wrong, right)
    bare, _, query = _checked(_default_uri(environ) if uri is None else uri).partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    for secret in SECRETS & parameters.keys():
        raise ConfigurationError(
            f"{secret} does not belong in a URI, which is logged and shown; set "
            f"KAGENT_MEMORY_{secret.upper()}."
        )
    others = [pair for pair in pairs if pair[0] not in names]
    allowed = ("authToken",) if _is_libsql_server(bare) else ()
    for name, _ in others:
        if name not in allowed and not bare.startswith("postgres"):
            raise ConfigurationError(
                f"Unknown query parameter {name!r}; {_known_names(name, names)}"
            )
    if others:
        bare = f"{bare}?{urlencode(others, quote_via=quote)}"
    # in one step, so that an explicit value from any source wins over a policy from another
    explicit = {name: value for name, value in {**variables, **parameters}.items() if name in names}
    return bare, base.updated({**explicit, **options})


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI, or "".

    Raises:
        ConfigurationError: the text is no valid URI.
    """
    try:
        return urlsplit(uri).scheme
    except ValueError:  # the message must not quote the URI, which may hold a password
        raise ConfigurationError(
            "Invalid URI. A server is postgresql://user:password@host:5432/database. Only an IPv6 "
            "address has [ ] around it; in a user or password write [ ] @ : / as "
            "%5B %5D %40 %3A %2F."
        ) from None


def without_secrets(uri: str) -> str:
    """Return a store's URI without password and query."""
    bare = uri.partition("?")[0]
    scheme, _, rest = bare.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _checked(uri: object) -> str:
    """Return a URI without `kagent+`, its scheme in lower case.

    Raises:
        ConfigurationError: it names no store that can be opened.
    """
    if not isinstance(uri, str):
        raise ConfigurationError(
            f"The URI must be text, such as {DEFAULT_URI}, not {type(uri).__name__}."
        )
    if not (scheme := scheme_of(uri)):
        raise ConfigurationError(
            f"The URI names no store. A file is {DEFAULT_URI} (absolute: "
            "libsql:////var/lib/memory.db), "
            "a database server postgresql://host/database."
        )
    uri = f"{scheme.removeprefix('kagent+')}:{uri.partition(':')[2]}"
    if hint := _foreign(uri):  # does not quote the URI, which may hold a password
        raise ConfigurationError(hint)
    if scheme_of(uri) not in ("http", "https"):  # our server opens its own store
        registered_store(uri)
    return uri


def registered_store(uri: str) -> EntryPoint:
    """Return the entry point of the store that opens this URI.

    Raises:
        ConfigurationError: no installed store opens it.
    """
    scheme = scheme_of(uri).removeprefix("kagent+")
    if scheme in ("libsql+http", "libsql+https"):
        scheme = "libsql"  # only the transport differs
    registered = registered_stores()
    if scheme in ("http", "https"):
        raise ConfigurationError(
            "Memories.open opens a database, and this URI names a server, which "
            "KagentMemoryService(uri) and kagent_memory.remote.open_memories(uri) open."
        )
    if scheme not in registered:
        raise ConfigurationError(
            f"No store for the URI scheme {scheme!r}; known schemes: "
            f"{', '.join(sorted((*registered, 'http', 'https')))}. A file is {DEFAULT_URI}, a "
            "database server postgresql://host/database."
        )
    return registered[scheme]


@cache
def registered_stores() -> Mapping[str, EntryPoint]:
    """Return the entry points of all installed stores by URI scheme."""
    points = sorted(entry_points(group=STORES), key=lambda point: point.value, reverse=True)
    return {point.name: point for point in points}


def _foreign(uri: str) -> str | None:
    """Return advice for a libSQL server URI in another library's form; None if the URI is fine."""
    parts = urlsplit(uri)
    is_turso = (parts.hostname or "").endswith(TURSO)
    names_server = bool(parts.netloc) or parts.scheme != "libsql"
    is_libsql = parts.scheme.partition("+")[0] == "libsql" and names_server
    if (is_turso or is_libsql) and (not _is_libsql_server(uri) or "@" in parts.netloc):
        return (
            "A libSQL server is libsql://host?authToken=…, or libsql+http://host:port without "
            "TLS, with no user or password in it; a file is libsql:///memory.db."
        )
    return None


def _is_libsql_server(uri: str) -> bool:
    parts = urlsplit(uri)
    return bool(parts.netloc) and parts.scheme in ("libsql", "libsql+http", "libsql+https")


def _known_names(wrong: str, names: Iterable[str]) -> str:
    """Return a suggestion for an unknown name, or the known ones."""
    guesses = get_close_matches(wrong, names, n=1, cutoff=NEAR)
    return f"did you mean {guesses[0]}?" if guesses else f"known: {', '.join(sorted(names))}."


def _default_uri(environ: Mapping[str, str]) -> str:
    if f"{PREFIX}URI" in environ:
        if uri := environ[f"{PREFIX}URI"].strip():
            return uri
        # probably forgotten: a default file would be lost with its container
        raise ConfigurationError(
            f"{PREFIX}URI is set, but empty; name a store ({DEFAULT_URI}, for example) or unset it."
        )
    if wrong := next(filter(environ.get, MISTAKEN), None):
        raise ConfigurationError(
            f"{wrong} is set, but the store is read from {PREFIX}URI; rename the variable."
        )
    backend = environ.get("MEMORY_BACKEND", "").strip().lower()
    url = environ.get("DATABASE_URL", "")
    if backend == "libsql" or not (backend or url):
        return DEFAULT_URI
    scheme = scheme_of(url).removeprefix("kagent+")
    if backend == "pgvector" and scheme in ("postgresql", "postgres", "pgserver"):
        return url
    raise ConfigurationError(
        f"MEMORY_BACKEND={backend} and DATABASE_URL do not say where memories go. Set "
        "MEMORY_BACKEND=pgvector to keep them in the database of DATABASE_URL (postgresql://…), or "
        f"MEMORY_BACKEND=libsql to keep them in a file; name any other store in {PREFIX}URI."
    )
