"""Every knob once: as an argument, a query parameter of the URI, or KAGENT_MEMORY_<NAME> in the environment."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Literal, Self, TypeAlias, TypedDict
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass as validated
from pydantic_core import ArgsKwargs

from ..errors import ConfigurationError
from ..records import MemoryType, Origin
from . import kagent_config
from .policies import PRESETS, Policy, days_by_name

logger = logging.getLogger(__name__)
DEFAULT_URI = "libsql:///kagent_memory.db"
PREFIX = "KAGENT_MEMORY_"
STORES = "kagent_memory.stores"  # the entry points of what opens a URI's scheme
TURSO = (".turso.io", ".turso.tech")
MISTAKEN = ("KAGENT_MEMORY_URL", "KAGENT_MEMORY_DATABASE_URL", "KAGENT_MEMORY_DB_URL")  # for KAGENT_MEMORY_URI
_TABLE_PREFIX = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,23}|")
NEAR = 0.8  # how alike two names must be for one to be taken for a misspelling of the other


class Backend(StrEnum):
    """What MEMORY_BACKEND may say."""

    LIBSQL = "libsql"
    PGVECTOR = "pgvector"


def _off(value: object) -> object:
    return False if isinstance(value, str) and value.lower() in ("false", "off", "no", "0") else value


def _configuration(value: object) -> object:
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError("looks like JSON but is not valid") from error


def _listed(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def checked_prefix(value: object) -> object:
    """What may stand before our tables' names: with it the longest of them keeps within PostgreSQL's 63 bytes.

    Raises:
        ValueError: it may not.
    """
    if not (isinstance(value, str) and _TABLE_PREFIX.fullmatch(value)):
        raise ValueError(
            "a prefix has up to 24 of the characters a-z, 0-9 and _, and begins with neither a digit nor pg_; write "
            "team_a_, say, or leave it out"
        )
    return value


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Days: TypeAlias = Annotated[int, Field(ge=0, le=36_500)]
Origins: TypeAlias = Annotated[tuple[Origin, ...], BeforeValidator(_listed)]


@validated(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class MemorySettings:
    """What can be set. Durations carry their unit; sizes are in bytes unless the name says otherwise.

    Attributes:
        embedding: a model by LiteLLM's name (gemini/…, openai/…), or kagent's configuration of one (as text: its
            JSON); None: keyword mode.
        former_embedding: the embedder whose vectors those of `embedding` are to replace, as long as `kagent-memory
            reembed` goes on: searches ask both meanwhile.
        llm: a model by LiteLLM's name; None: the agent's own model where one is at hand; False: never.
        tenant: the tenant of scopes that a service makes from ADK's user and app.
        secrets_file: a TOML table of further vendors' secrets to mask, in the form of `redact/vendors.toml`.
        pii: what is done to a text with personal data in it, before a model, embedder, queue or disk sees it: "mask"
            it, "drop" the text, or "refuse" it with InvalidInput (in a transcript: leave the message out and warn).
            None: nothing. Needs the extra [pii].
        pii_kinds: which personal data (comma-separated in the environment and the URI, as all lists): email, phone,
            card, iban, ip, national_id, and those of `pii_file`; none: all of them.
        pii_regions: the countries, as US or DE, whose phone numbers are known without a country code; none: eleven
            large ones.
        pii_file: a TOML table of further personal data: `[[pii]]` with `kind` and `pattern`, a regular expression.
        quarantine: origins (tool, agent, user, import) whose new memories are found by nobody until somebody confirms
            them; what tools say, web pages among it, is of the origin tool. None: all memories are found at once.
        token: opens a server (an http URI); best kept in the environment.
        search_limit: hits that a search returns at most.
        min_score: floor on the full query's cosine for rows that only the vector leg found (0 to 1).
        search_types: ADK's `search_memory` finds memories of these types only (comma-separated in the environment and
            the URI, as all lists); none: of every type.
        search_topics: ADK's `search_memory` finds memories with any of these topics only.
        search_tags: ADK's `search_memory` finds memories with all of these tags only.
        search_min_importance: ADK's `search_memory` finds memories at least this important only (0 to 1).
        policy: how memories age where the settings below do not say otherwise: "kagent" (15 days, and what is popular
            lives on), "archive" (nothing expires that names no TTL of its own), or "tiers" (90 days, decay, capacity,
            importance in effect). See docs/how-to/ageing.md.
        ttl_days: days that a memory lives that names no TTL of its own; 0: for ever. "archive": 0, "tiers": 90.
        ttl_days_by_type: the same for memories of a type, as a mapping or `episodic:30,procedural:0`.
        ttl_days_by_tag: the same for memories with a tag, before those by type; the first that a memory has counts.
        half_life_days: the prune erases what has faded: a memory's own importance, halved every so many days in which
            it was not added, changed or delivered, is below 0.05, after one half-life at the earliest. 0: nothing
            fades. "tiers": 30.
        unimportant_after_days: the prune erases what is older than so many days, was delivered fewer than 3 times and
            is of an importance below 0.5 by the formula. 0: off. "tiers": 180.
        short_term_hours: hours that what is learnt from a session is kept for that session only; what proves important
            or is repeated elsewhere is promoted to a long-term memory meanwhile. 0: all is long-term at once. "tiers":
            24. See docs/how-to/ageing.md.
        short_term_per_session: the most short-term memories of one session; the oldest go first.
        promote_importance: what is learnt from a session is long-term at once from this importance on (0 to 1).
        popular_after: deliveries that let the prune extend an expired memory instead of deleting it.
        max_memories: the most visible memories that a prune leaves in one scope; of the others those with the least
            importance are erased, pinned ones never. 0: no bound. "tiers": 10,000.
        importance_boost: weight of the importance formula in ranking, where `rank` gives its `standing` none; 0: off.
            "tiers": 0.1.
        nothing_below: a search answers nothing when none of its first five hits is of this relevance (0..1), where
            `rank` gives its own none; 0: off. 0.07 is a good beginning.
        summarize_after_days: consolidation sums up episodic memories that are older than so many days and share a
            topic, five at least; they stay as the summary's history. 0: off. Needs a model. See docs/how-to/ageing.md.
        prune_every_hours: hours between two prunes in the background; 0: none. "tiers": 168.
        dimensions: numbers in a vector, asked of the embedder; longer vectors are cut and normalised, shorter ones
            refused. None: as many as the model gives.
        batch_size: texts in one call of the embedder.
        embedding_cache_mb: the most that this process keeps of the vectors that it embedded last, in MiB: half of
            documents, half of queries; by the hashes of their texts, apart for each tenant. 0: none.
        embedding_cache_seconds: how long it keeps them; forgetting drops all of them at once.
        max_content_bytes: the longest content, in bytes of UTF-8, that an explicit add accepts.
        prefetch_tokens: the most that prefetched memories may add to a turn, in tokens (of 4 ASCII characters, or 1
            other).
        load_tokens: the most that an answer of load_memory or recall_memory may hold of memories' texts, in tokens.
        embed_timeout_seconds: the longest that one attempt at the embedder may take.
        query_embed_timeout_seconds: the longest that a search waits for the embedder, all attempts together; after it
            the search goes by words.
        llm_timeout_seconds: the longest that one attempt at the language model may take.
        rerank: a LiteLLM rerank model, or local/<cross-encoder>, that orders what was found anew; None: none.
        rerank_base_url: where the rerank model is reached, when it is not at its usual place.
        rerank_timeout_seconds: the longest that reranking may take; after it the order stands as it was.
        gate: whether greetings, thanks and general questions are kept from prefetch and preload.
        rewrite: whether the model completes a query before it is searched. Needs llm.
        rewrite_timeout_seconds: the longest that `rewrite` may take; after it the query stands as asked.
        consolidate_after: new memories of a scope after which what says the same is merged; 0: never by itself.
        consolidate_every_hours: the longest that a scope with new memories waits for that merge; 0: no such wait.
        model_retries: further attempts after a failed model call.
        lease_seconds: seconds that a killed worker's job waits for another worker (30 at most).
        job_attempts: failures after which a job becomes a dead letter; what may pass (a model that is away) does not
            count.
        worker: whether this process works on the queue; False leaves it to `kagent-memory worker`.
        cache_mb: the most that this process keeps of the word indexes of the scopes searched last, in MiB, and as much
            again of their vectors. What was searched last stays, however large it is.
        driver: what opens a file: sqlite3, which Python brings along, or libsql, which needs the extra [libsql]; None:
            sqlite3. All that open one file in one process take the same one.
        postgres_schema: the schema of Postgres that our tables live in.
        table_prefix: stands before the name of each table, index and role of ours in Postgres, for several
            installations in one schema; each finds its own memories alone.
        pool_size: the most connections to Postgres.
        pool_wait_seconds: the longest that a call waits for a free connection to Postgres while all are at work; a call
            that is cancelled stops waiting at once, and a database that is away is told at once.
        statement_timeout_seconds: the longest that Postgres may work on one statement; a connection that stays silent
            2 s longer is given up. Migrations may take longer.
        postgres_pooler: whether a pooler that hands its connections around from transaction to transaction (PgBouncer,
            say) stands before Postgres; None: each connection finds out.
        read_uri: a streaming standby of the Postgres that the URI names; searches and lists are read from it as long as
            it holds what this process wrote, and from the primary otherwise.
        rls: switches row level security on in Postgres, so that the database itself keeps scopes apart; once it is on,
            every process finds out, and leaving it out does not switch it off.
        encryption_keys: encrypts what memories say: id:key, the key 32 random bytes in Base64; after commas further
            ones, which open what they once encrypted. Never in the URI, best in the environment. Needs the extra
            [encryption].
        file_encryption_key: encrypts a file as a whole, by libSQL; a file that is there must have been made with it.
            Never in the URI, best in the environment. Needs the extra [libsql].
    """

    embedding: Annotated[str | Mapping[str, Any] | None, BeforeValidator(_configuration)] = None
    former_embedding: Annotated[str | Mapping[str, Any] | None, BeforeValidator(_configuration)] = None
    llm: Annotated[str | Literal[False] | None, BeforeValidator(_off)] = None
    tenant: str = ""
    secrets_file: str | None = None
    pii: Literal["mask", "drop", "refuse"] | None = None
    pii_kinds: Names = ()
    pii_regions: Names = ()
    pii_file: str | None = None
    quarantine: Origins = ()
    token: str | None = Field(default=None, repr=False)
    search_limit: int = Field(default=5, ge=0)
    min_score: float = Field(default=0.0, ge=0, le=1)
    search_types: Names = ()
    search_topics: Names = ()
    search_tags: Names = ()
    search_min_importance: float = Field(default=0.0, ge=0, le=1)
    policy: Policy = "kagent"
    ttl_days: Days = 15
    ttl_days_by_type: Annotated[Mapping[MemoryType, Days], BeforeValidator(days_by_name)] = Field(
        default_factory=dict[MemoryType, int]
    )
    ttl_days_by_tag: Annotated[Mapping[str, Days], BeforeValidator(days_by_name)] = Field(
        default_factory=dict[str, int]
    )
    short_term_hours: float = Field(default=0.0, ge=0, le=876_000)
    short_term_per_session: int = Field(default=50, ge=1, le=10_000)
    promote_importance: float = Field(default=0.7, ge=0, le=1)
    popular_after: int = Field(default=10, ge=0)
    half_life_days: float = Field(default=0.0, ge=0, le=36_500)
    unimportant_after_days: Days = 0
    max_memories: int = Field(default=0, ge=0)
    importance_boost: float = Field(default=0.0, ge=0, le=1)
    nothing_below: float = Field(default=0.0, ge=0, le=1)
    summarize_after_days: Days = 0
    prune_every_hours: float = Field(default=24.0, ge=0)
    dimensions: int | None = Field(default=None, ge=1, le=16_000)
    batch_size: int = Field(default=64, ge=1)
    embedding_cache_mb: int = Field(default=64, ge=0)
    embedding_cache_seconds: float = Field(default=600.0, gt=0)
    max_content_bytes: int = Field(default=16_384, ge=1)
    prefetch_tokens: int = Field(default=1024, ge=1)
    load_tokens: int = Field(default=2048, ge=1)
    embed_timeout_seconds: float = Field(default=30.0, gt=0)
    query_embed_timeout_seconds: float = Field(default=10.0, gt=0)
    llm_timeout_seconds: float = Field(default=60.0, gt=0)
    rerank: str | None = None
    rerank_base_url: str | None = None
    rerank_timeout_seconds: float = Field(default=5.0, gt=0)
    gate: bool = True
    rewrite: bool = False
    rewrite_timeout_seconds: float = Field(default=3.0, gt=0)
    consolidate_after: int = Field(default=50, ge=0)
    consolidate_every_hours: float = Field(default=1.0, ge=0)
    model_retries: int = Field(default=2, ge=0)
    lease_seconds: float = Field(default=20.0, gt=0, le=30)
    job_attempts: int = Field(default=5, ge=1)
    worker: bool = True
    cache_mb: int = Field(default=256, ge=1)
    driver: Literal["sqlite3", "libsql"] | None = None
    postgres_schema: str = Field(default="kagent_memory", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    table_prefix: Annotated[str, BeforeValidator(checked_prefix)] = ""
    pool_size: int = Field(default=10, ge=1)
    pool_wait_seconds: float = Field(default=60.0, gt=0)
    statement_timeout_seconds: float = Field(default=15.0, gt=0, le=86_400)
    postgres_pooler: bool | None = None
    read_uri: str | None = Field(default=None, repr=False)
    rls: bool = False
    encryption_keys: str | None = Field(default=None, repr=False)
    file_encryption_key: str | None = Field(default=None, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _with_policy(cls, given: Any) -> Any:
        """What is given, and what its policy says of the rest."""
        values: dict[str, Any] = dict((given.kwargs or {}) if isinstance(given, ArgsKwargs) else given)
        return {**PRESETS.get(str(values.get("policy")), {}), **values}

    @classmethod
    def from_kagent(cls, config: object) -> Self | None:
        """The settings that kagent's configuration means: 768 dimensions and a floor of 0.3, as its runtime has them.

        Args:
            config: the controller's `memory` block, its whole config.json, an Agent manifest together with the
                ModelConfig it names (a sequence), or the text of any of these in JSON or YAML.

        Returns:
            None when kagent's configuration leaves memory off.

        Raises:
            ConfigurationError: a value does not fit, or the model's provider has no embeddings.
        """
        options = kagent_config.options(config)
        return None if options is None else cls().updated(options)

    def updated(self, options: Mapping[str, Any]) -> Self:
        """These settings with some of them replaced; another policy brings its own values for all that is as the former
        had it.

        Raises:
            ConfigurationError: an unknown name or a value that does not fit.
        """
        known = {field.name for field in fields(self)}
        if unknown := sorted(set(options) - known):
            raise ConfigurationError(f"Unknown setting {', '.join(unknown)}; {_known_names(unknown[0], known)}.")
        try:
            former = type(self)(policy=self.policy)
            values = {name: value for name in known if (value := getattr(self, name)) != getattr(former, name)}
            values["policy"] = self.policy
            return TypeAdapter(type(self)).validate_python({**values, **options})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise ConfigurationError(f"Invalid value for the setting {name}: {first['msg']}.") from error


class SettingOptions(TypedDict, total=False):
    """The fields of `MemorySettings` as keyword arguments, but for `embedding`, `former_embedding`, `llm`, `rerank` and
    `gate`: these take objects as well, and are arguments of their own.
    """

    tenant: str
    secrets_file: str | None
    pii: Literal["mask", "drop", "refuse"] | None
    pii_kinds: Sequence[str]
    pii_regions: Sequence[str]
    pii_file: str | None
    quarantine: Sequence[Origin]
    token: str | None
    search_limit: int
    min_score: float
    search_types: Sequence[str]
    search_topics: Sequence[str]
    search_tags: Sequence[str]
    search_min_importance: float
    policy: Policy
    ttl_days: int
    ttl_days_by_type: Mapping[MemoryType, int]
    ttl_days_by_tag: Mapping[str, int]
    short_term_hours: float
    short_term_per_session: int
    promote_importance: float
    popular_after: int
    half_life_days: float
    unimportant_after_days: int
    max_memories: int
    importance_boost: float
    nothing_below: float
    summarize_after_days: int
    prune_every_hours: float
    dimensions: int | None
    batch_size: int
    embedding_cache_mb: int
    embedding_cache_seconds: float
    max_content_bytes: int
    prefetch_tokens: int
    load_tokens: int
    embed_timeout_seconds: float
    query_embed_timeout_seconds: float
    llm_timeout_seconds: float
    rerank_base_url: str | None
    rerank_timeout_seconds: float
    rewrite: bool
    rewrite_timeout_seconds: float
    consolidate_after: int
    consolidate_every_hours: float
    model_retries: int
    lease_seconds: float
    job_attempts: int
    worker: bool
    cache_mb: int
    driver: Literal["sqlite3", "libsql"] | None
    postgres_schema: str
    table_prefix: str
    pool_size: int
    pool_wait_seconds: float
    statement_timeout_seconds: float
    postgres_pooler: bool | None
    read_uri: str | None
    rls: bool
    encryption_keys: str | None
    file_encryption_key: str | None


def compose(
    uri: str | None, settings: MemorySettings | None, options: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str, MemorySettings]:
    """Which store, and the settings it runs with: arguments win over the URI's query, that over the environment.

    `settings`, when given, stands in for the environment. Query parameters that name no setting stay in a Postgres
    URI, for libpq.

    Raises:
        ConfigurationError: no URI, an environment that does not tell which store, an unknown setting or query
            parameter, or a value that does not fit.
    """
    if settings is not None and not isinstance(settings, MemorySettings):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise ConfigurationError(f"settings takes MemorySettings(…), not {type(settings).__name__}.")
    base = settings or MemorySettings()
    known = {field.name for field in fields(base)}
    ours = {} if settings else {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    named = {name.removeprefix(PREFIX).lower(): value for name, value in ours.items()}
    for name in sorted(named.keys() - known - {"uri"}):  # a warning only: Kubernetes makes variables of services' names
        if near := get_close_matches(name, known, n=1, cutoff=NEAR):
            logger.warning("%s%s has no effect; did you mean %s%s?", PREFIX, name.upper(), PREFIX, near[0].upper())
    environment = {name: value for name, value in named.items() if name in known}
    bare, _, query = _checked(_default_uri(environ) if uri is None else uri).partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if secret := next((name for name, _ in pairs if name in ("encryption_keys", "file_encryption_key")), None):
        raise ConfigurationError(
            f"{secret} does not belong in a URI, which is logged and shown; set KAGENT_MEMORY_{secret.upper()}."
        )
    others = [pair for pair in pairs if pair[0] not in known]
    is_server, is_postgres = _is_libsql_server(bare), bare.removeprefix("kagent+").startswith("postgres")
    unknown = None if is_postgres else next((name for name, _ in others if name != "authToken" or not is_server), None)
    if unknown is not None and unknown.casefold().replace("_", "").startswith("sync"):
        raise ConfigurationError(
            f"{unknown}: embedded replicas are not supported, because what is forgotten would stay in each until it "
            "syncs; name the server itself, libsql://host?authToken=…, or a file alone, libsql:///memory.db."
        )
    if unknown is not None:
        raise ConfigurationError(f"Unknown query parameter {unknown!r}; {_known_names(unknown, known)}.")
    if others:
        bare = f"{bare}?{urlencode(others, quote_via=quote)}"
    # at once: what is set anywhere counts before what a policy says that is chosen elsewhere
    return bare, base.updated({**environment, **dict(pair for pair in pairs if pair[0] in known), **options})


def scheme_of(uri: str) -> str:
    """Which kind of store a URI names; "" when none.

    Raises:
        ConfigurationError: it cannot be read as a URI.
    """
    try:
        return urlsplit(uri).scheme
    except ValueError:  # its text may hold the password
        raise ConfigurationError(
            "Invalid URI. A server is postgresql://user:password@host:5432/database; [ ] stand around an IPv6 "
            "address alone, and in a user or password they are written %5B %5D, and @ : / as %40 %3A %2F."
        ) from None


def _checked(uri: object) -> str:
    if not isinstance(uri, str):
        raise ConfigurationError(f"The URI must be text, such as {DEFAULT_URI}, not {type(uri).__name__}.")
    if not scheme_of(uri):
        raise ConfigurationError(
            f"The URI names no store. A file is {DEFAULT_URI} (absolute: libsql:////var/lib/memory.db), "
            "a server postgresql://user:password@host/database."
        )
    if hint := _foreign(uri):  # in words of our own: the URI may hold a password
        raise ConfigurationError(hint)
    return uri


@cache
def registered_stores() -> Mapping[str, EntryPoint]:
    """What opens the URIs of each scheme; read once, since every installed distribution is looked through for it."""
    points = sorted(entry_points(group=STORES), key=lambda point: point.value, reverse=True)
    return {point.name: point for point in points}


def _foreign(uri: str) -> str | None:
    """What to write instead of another library's URI; None: it is ours, or of a store that is installed."""
    parts = urlsplit(uri)
    scheme = parts.scheme.removeprefix("kagent+")
    database, _, driver = scheme.partition("+")
    host = parts.netloc.rpartition("@")[2].partition(":")[0].lower()
    if _is_libsql_server(uri) and "@" not in parts.netloc:
        return None
    if host.endswith(TURSO) or (database == "libsql" and (host or driver)):
        return (
            "A libSQL server is libsql://host?authToken=…, or libsql+http://host:port without TLS, and "
            "no user and no password stand in it; a file is libsql:///memory.db."
        )
    if scheme in registered_stores() or scheme in ("http", "https", "kagent"):
        return None
    if database in ("sqlite", "sqlite3", "file"):
        return (
            f"{scheme}: is a URI of other libraries. libSQL opens such files: write libsql:///relative.db, "
            "libsql:////absolute.db, or libsql:///:memory:."
        )
    if database in ("postgresql", "postgres") and driver:
        return f"Leave the driver +{driver} out: a server is postgresql://user:password@host:5432/database."
    if scheme == "jdbc":
        return "Leave jdbc: out: a server is postgresql://user:password@host:5432/database."
    if len(scheme) == 1:
        return f"A path is not a URI; write libsql:///{scheme.upper()}:/directory/memory.db."
    return None


def _is_libsql_server(uri: str) -> bool:
    parts = urlsplit(uri.removeprefix("kagent+"))
    return bool(parts.netloc) and parts.scheme in ("libsql", "libsql+http", "libsql+https")


def _known_names(wrong: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown name."""
    near = get_close_matches(wrong, known, n=1, cutoff=NEAR)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"


def _default_uri(environ: Mapping[str, str]) -> str:
    if f"{PREFIX}URI" in environ:
        if uri := environ[f"{PREFIX}URI"].strip():
            return uri
        # a variable that somebody forgot to fill: a file of ours would be lost with its container
        raise ConfigurationError(f"{PREFIX}URI is set, but empty; name a store in it, {DEFAULT_URI} say, or unset it.")
    if wrong := next(filter(environ.get, MISTAKEN), None):
        raise ConfigurationError(f"{wrong} is set, but the store is read from {PREFIX}URI; rename the variable.")
    backend, url = environ.get("MEMORY_BACKEND", ""), environ.get("DATABASE_URL", "")
    known = backend.strip().lower()
    if known == Backend.PGVECTOR and url.removeprefix("kagent+").startswith(("postgres", "pgserver:")):
        return url
    if known == Backend.LIBSQL or not (backend or url):
        return DEFAULT_URI
    if known == Backend.PGVECTOR:
        raise ConfigurationError("MEMORY_BACKEND=pgvector needs DATABASE_URL, the postgresql://… URL to use.")
    if backend:
        raise ConfigurationError(
            f"MEMORY_BACKEND={backend!r} is unknown; {_known_names(known, Backend)} ({Backend.PGVECTOR} goes with "
            f"DATABASE_URL). Any other store is named in {PREFIX}URI."
        )
    raise ConfigurationError(
        "DATABASE_URL is set, but nothing says whether memories go there. Set MEMORY_BACKEND=pgvector to keep them in "
        f"it, or MEMORY_BACKEND=libsql to keep them in a file, or name the store in {PREFIX}URI."
    )
