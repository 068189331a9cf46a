"""Every setting once: as an argument, a query parameter of the URI, or KAGENT_MEMORY_<NAME>."""

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
STORES = "kagent_memory.stores"  # the entry points of what opens a URI's scheme
TURSO = (".turso.io", ".turso.tech")
# for KAGENT_MEMORY_URI
MISTAKEN = ("KAGENT_MEMORY_URL", "KAGENT_MEMORY_DATABASE_URL", "KAGENT_MEMORY_DB_URL")
SECRETS = {"encryption_keys"}  # settings that no URI may hold
NEAR = 0.8  # how alike two names must be for one to be taken for a misspelling of the other
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
"""Values of what the settings do not say; the settings' own defaults are kagent's."""


def _off(value: object) -> object:
    return (
        False if isinstance(value, str) and value.lower() in ("false", "off", "no", "0") else value
    )


def _json(value: object) -> object:
    """Return the object that a text holds as JSON; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError("looks like JSON but is not valid") from error


def _configured(value: object) -> object:
    """Return the configuration of an embedder that a mapping or JSON means; anything else as it
    is.
    """
    value = _json(value)
    return EmbeddingConfig.parsed(cast("object", value)) if isinstance(value, Mapping) else value


def _named(key: str, value: object) -> object:
    """Return the fields of a setting whose short form is a text, which stands for the field
    `key`.
    """
    value = _json(value)
    return {key: value} if value and isinstance(value, str) else value or None


def _listed(value: object) -> object:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, str)
        else value
    )


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Days: TypeAlias = Annotated[int, Field(ge=0, le=36_500)]
TypeOrTag: TypeAlias = Annotated[str, Field(pattern=f"^({'|'.join(MEMORY_TYPES)}|{TAG}.+)$")]
Origins: TypeAlias = Annotated[tuple[Origin, ...], BeforeValidator(_listed)]


@validated(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class PersonalDataRules:
    """Rules for personal data.

    Attributes:
        mode: "mask" it, "drop" the text, or "refuse" it with InvalidInput.
        kinds: which personal data; none: all known kinds.
        regions: countries, as US or DE, whose phone numbers are recognized without a country code;
            none: eleven large ones.
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
        model: its LiteLLM name, or local/ and that of a cross-encoder of fastembed.
        api_base: where it is reached, when it is not at its usual place.
    """

    model: str
    api_base: str | None = None


@validated(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class MemorySettings:
    """Settings of memory. Durations carry their unit; sizes are in bytes unless the name says
    otherwise.

    A setting with several fields is a mapping, or JSON text of one (in the environment and the
    URI). A list may be comma-separated text.

    Attributes:
        embedding: a model by its LiteLLM name (gemini/…, openai/…), or kagent's configuration of
            one (a mapping or JSON); None: keyword search.
        llm: a model by its LiteLLM name; None: the agent's own model where it is known; False:
            never.
        tenant: the tenant of scopes that a service makes from ADK's user and app.
        token: opens a server (an http URI); best kept in the environment.
        search_limit: the most hits that a search returns.
        min_score: floor on the full query's cosine for memories that only the vector search found
            (0 to 1).
        policy: how memories age where the settings do not say otherwise: "kagent" (15 days, and
            what is popular lives on), "archive" (nothing expires that names no TTL of its own), or
            "tiers" (90 days, decay, capacity). See docs/how-to/keeping.md.
        ttl_days: days that a memory lives that names no TTL of its own; 0: for ever. "archive": 0,
            "tiers": 90.
        quarantine: origins (tool, agent, user, import) whose new memories no search finds until
            somebody confirms them; what tools return, web pages included, is of the origin tool.
            None: all memories are found at once.
        pii: what is done to a text with personal data in it, before a model, embedder, queue or
            disk sees it: "mask" it, "drop" the text, or "refuse" it with InvalidInput (in a
            transcript: leave the message out and warn). Or in full, `{"mode": "mask", "kinds":
            ["email", "phone"], "regions": ["DE"], "file": "own.toml"}`: kinds are email, phone,
            card, iban, ip, national_id and those of the file (all, where none is named); regions
            are the countries whose phone numbers are recognized without a country code; the file is
            a TOML table of `[[pii]]` with `kind` and `pattern`, a regular expression. None:
            nothing. Needs the extra [pii].
        rerank: a LiteLLM rerank model, or local/ and a cross-encoder of fastembed, that reorders
            the best hits; where it is not at its usual place, `{"model": "hosted_vllm/any",
            "api_base": "http://…"}`.
        worker: whether this process works on the queue; False leaves it to `kagent-memory worker`.
        postgres_schema: the schema of Postgres that holds our tables.
        encryption_keys: encrypts what memories say: id:key, the key 32 random bytes in Base64;
            after commas further ones, which open what they once encrypted. Never in the URI, best
            in the environment. Needs the extra [encryption].
        handover_floor: what is put before a model, by prefetch and load_memory, is nothing unless
            one of the first five hits has this relevance (0 to 1); 0: off.
        ttl_days_by: `ttl_days` by type and by tag: a mapping such as `{"episodic": 30,
            "tag=invoice": 3650}`. Tags come before types; of several tags that a memory has, the
            first named here counts.
        short_term_hours: hours that what is learnt from a session is kept for that session only;
            meanwhile what proves important or is repeated elsewhere becomes a long-term memory. 0:
            all is long-term at once. "tiers": 24. See docs/how-to/keeping.md.
        popular_after: deliveries that let the prune extend an expired memory instead of deleting
            it.
        half_life_days: the prune erases what has faded: a memory's own importance, halved every so
            many days in which it was not added, changed or delivered, is below 0.05, after one
            half-life at the earliest. 0: nothing fades. "tiers": 30.
        max_memories: the most visible memories that a prune leaves in one scope; beyond it the
            least important are erased, pinned ones never. 0: no bound. "tiers": 10,000.
        prune_every_hours: hours between two prunes in the background; 0: none. "tiers": 168.
        secrets_file: a TOML table of further vendors' secrets to mask, in the form of
            `redaction/vendors.toml`.
        dimensions: numbers in a vector, requested from the embedder; longer vectors are cut and
            normalised, shorter ones refused. None: as many as the model returns.
        batch_size: texts in one call of the embedder.
        cache_mb: memory for the word indexes of the scopes searched last, in MiB; as much again for
            their vectors, and a quarter as much for the vectors embedded last, each for ten
            minutes. What was searched last stays, however large it is.
        max_content_bytes: the longest content, in bytes of UTF-8, that an explicit add accepts.
        model_timeout_seconds: the longest that one attempt at a language model or embedder may
            take.
        search_timeout_seconds: the longest that a search waits for each model that helps it (query
            embedding, rewriting, reranking), all attempts together; after it the search goes on
            without that model.
        keep_turns: whether what was said is kept beside the facts that a model finds in it, as
            their source; with short-term memory it never is. See docs/how-to/learning.md.
        gate: whether greetings, thanks and general questions are kept from prefetch and preload.
        rewrite: whether the model completes a query before it is searched. Needs llm.
        pool_size: the most connections to Postgres.
        statement_timeout_seconds: the longest that Postgres may work on one statement; a connection
            that stays silent 2 s longer is given up. Migrations may take longer.
        read_uri: a streaming standby of the Postgres that the URI names; searches and lists are
            read from it as long as it holds what this process wrote, and from the primary
            otherwise.
        rls: switches row level security on in Postgres, so that the database itself keeps scopes
            apart; once it is on, every process finds out, and leaving it out does not switch it
            off.
    """

    embedding: Annotated[str | EmbeddingConfig | None, BeforeValidator(_configured)] = None
    llm: Annotated[str | Literal[False] | None, BeforeValidator(_off)] = None
    tenant: str = ""
    token: str | None = Field(default=None, repr=False)
    search_limit: int = Field(default=5, ge=0, le=1000)
    min_score: float = Field(default=0.0, ge=0, le=1)
    policy: PolicyName = "kagent"
    ttl_days: Days = 15
    quarantine: Origins = ()
    pii: Annotated[PersonalDataRules | None, BeforeValidator(partial(_named, "mode"))] = None
    rerank: Annotated[RerankConfig | None, BeforeValidator(partial(_named, "model"))] = None
    worker: bool = True
    postgres_schema: str = Field(default="kagent_memory", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    encryption_keys: str | None = Field(default=None, repr=False)

    handover_floor: float = Field(default=0.38, ge=0, le=1)
    ttl_days_by: Annotated[Mapping[TypeOrTag, Days], BeforeValidator(_json)] = Field(
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
    def _with_policy(cls, given: Any) -> Any:
        """Add the policy's values to the given ones, which win."""
        values: dict[str, Any] = dict(
            (given.kwargs or {}) if isinstance(given, ArgsKwargs) else given
        )
        return {**POLICIES.get(str(values.get("policy")), {}), **values}

    @classmethod
    def from_kagent(cls, config: object) -> Self | None:
        """The settings that kagent's configuration means: 768 dimensions and a floor of 0.3, as its
        runtime has them.

        Args:
            config: the controller's `memory` block, its whole config.json, or the text of one of
                these.

        Returns:
            None when kagent's configuration leaves memory off.

        Raises:
            ConfigurationError: a value does not fit, or the model's provider has no embeddings.
        """
        options = kagent_config.options(config)
        return None if options is None else cls().updated(options)

    def differences(self, other: MemorySettings) -> dict[str, Any]:
        """Return the settings whose values are not those of the other ones, by name."""
        return {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) != getattr(other, field.name)
        }

    def updated(self, options: Mapping[str, Any]) -> Self:
        """These settings with some of them replaced; another policy brings its own values for all
        that is as the former had it.

        Raises:
            ConfigurationError: an unknown name or a value that does not fit.
        """
        known = {field.name for field in fields(self)}
        if unknown := sorted(set(options) - known):
            raise ConfigurationError(
                f"Unknown setting {', '.join(unknown)}; {_known_names(unknown[0], known)}"
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
    """Return the store's URI and its settings: arguments win over the URI's query, that over the
    environment.

    `settings`, when given, stands in for the environment. Query parameters that name no setting
    stay in a Postgres URI, for libpq.

    Raises:
        ConfigurationError: no URI, an environment that does not tell which store, an unknown
            setting or query parameter, or a value that does not fit.
    """
    if settings is not None and not isinstance(settings, MemorySettings):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise ConfigurationError(
            f"settings takes MemorySettings(…), not {type(settings).__name__}."
        )
    base = settings or MemorySettings()
    known = {field.name for field in fields(base)}
    named = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and settings is None
    }
    # a warning only: Kubernetes makes variables of services' names
    for name in sorted(named.keys() - known - {"uri"}):
        if near := get_close_matches(name, known, n=1, cutoff=NEAR):
            wrong, right = f"{PREFIX}{name.upper()}", f"{PREFIX}{near[0].upper()}"
            logger.warning("%s has no effect; did you mean %s?", wrong, right)
    bare, _, query = _checked(_default_uri(environ) if uri is None else uri).partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    given = dict(pairs)
    for secret in SECRETS & given.keys():
        raise ConfigurationError(
            f"{secret} does not belong in a URI, which is logged and shown; set "
            f"KAGENT_MEMORY_{secret.upper()}."
        )
    others = [pair for pair in pairs if pair[0] not in known]
    allowed = ("authToken",) if _is_libsql_server(bare) else ()
    for name, _ in others:
        if name not in allowed and not bare.removeprefix("kagent+").startswith("postgres"):
            raise ConfigurationError(
                f"Unknown query parameter {name!r}; {_known_names(name, known)}"
            )
    if others:
        bare = f"{bare}?{urlencode(others, quote_via=quote)}"
    # at once: what is set anywhere counts before what a policy says that is chosen elsewhere
    stated = {name: value for name, value in {**named, **given}.items() if name in known}
    return bare, base.updated({**stated, **options})


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI; "" when it has none.

    Raises:
        ConfigurationError: it cannot be read as a URI.
    """
    try:
        return urlsplit(uri).scheme
    except ValueError:  # its text may hold the password
        raise ConfigurationError(
            "Invalid URI. A server is postgresql://user:password@host:5432/database; [ ] stand "
            "around an IPv6 "
            "address alone, and in a user or password they are written %5B %5D, and @ : / as "
            "%40 %3A %2F."
        ) from None


def _checked(uri: object) -> str:
    if not isinstance(uri, str):
        raise ConfigurationError(
            f"The URI must be text, such as {DEFAULT_URI}, not {type(uri).__name__}."
        )
    if not scheme_of(uri):
        raise ConfigurationError(
            f"The URI names no store. A file is {DEFAULT_URI} (absolute: "
            "libsql:////var/lib/memory.db), "
            "a database server postgresql://host/database."
        )
    if hint := _foreign(uri):  # in words of our own: the URI may hold a password
        raise ConfigurationError(hint)
    if scheme_of(uri) not in ("http", "https"):  # a server of ours opens its store itself
        registered_store(uri)
    return uri


def registered_store(uri: str) -> EntryPoint:
    """Return what opens a store of this URI.

    Raises:
        ConfigurationError: nothing does.
    """
    scheme = scheme_of(uri).removeprefix("kagent+")
    if scheme in ("libsql+http", "libsql+https"):
        scheme = "libsql"  # how its server is reached makes no other store
    registered = registered_stores()
    if scheme not in registered:
        raise ConfigurationError(
            f"No store for the URI scheme {scheme!r}; known schemes: "
            f"{', '.join(sorted((*registered, 'http', 'https')))}. A file is {DEFAULT_URI}, a "
            "database server postgresql://host/database."
        )
    return registered[scheme]


@cache
def registered_stores() -> Mapping[str, EntryPoint]:
    """Return the entry points of stores by scheme, read once from the installed distributions."""
    points = sorted(entry_points(group=STORES), key=lambda point: point.value, reverse=True)
    return {point.name: point for point in points}


def _foreign(uri: str) -> str | None:
    """Return what to write instead of a libSQL server's URI that another library takes; None: it is
    ours.
    """
    parts = urlsplit(uri.removeprefix("kagent+"))
    is_turso = (parts.hostname or "").endswith(TURSO)
    names_server = bool(parts.netloc) or parts.scheme != "libsql"
    is_libsql = parts.scheme.partition("+")[0] == "libsql" and names_server
    if (is_turso or is_libsql) and (not _is_libsql_server(uri) or "@" in parts.netloc):
        return (
            "A libSQL server is libsql://host?authToken=…, or libsql+http://host:port without "
            "TLS, and "
            "no user and no password stand in it; a file is libsql:///memory.db."
        )
    return None


def _is_libsql_server(uri: str) -> bool:
    parts = urlsplit(uri.removeprefix("kagent+"))
    return bool(parts.netloc) and parts.scheme in ("libsql", "libsql+http", "libsql+https")


def _known_names(wrong: str, known: Iterable[str]) -> str:
    """Return advice that replaces an unknown name."""
    near = get_close_matches(wrong, known, n=1, cutoff=NEAR)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}."


def _default_uri(environ: Mapping[str, str]) -> str:
    if f"{PREFIX}URI" in environ:
        if uri := environ[f"{PREFIX}URI"].strip():
            return uri
        # a variable that somebody forgot to fill: a file of ours would be lost with its container
        raise ConfigurationError(
            f"{PREFIX}URI is set, but empty; name a store in it, {DEFAULT_URI} say, or unset it."
        )
    if wrong := next(filter(environ.get, MISTAKEN), None):
        raise ConfigurationError(
            f"{wrong} is set, but the store is read from {PREFIX}URI; rename the variable."
        )
    backend = environ.get("MEMORY_BACKEND", "").strip().lower()
    url = environ.get("DATABASE_URL", "")
    if backend == "libsql" or not (backend or url):
        return DEFAULT_URI
    if backend == "pgvector" and url.removeprefix("kagent+").startswith(("postgres", "pgserver:")):
        return url
    raise ConfigurationError(
        f"MEMORY_BACKEND={backend} and DATABASE_URL do not say where memories go. Set "
        "MEMORY_BACKEND=pgvector to keep them in the database of DATABASE_URL (postgresql://…), or "
        f"MEMORY_BACKEND=libsql to keep them in a file; name any other store in {PREFIX}URI."
    )
