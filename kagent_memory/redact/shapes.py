"""Secrets that are known by their shape: what they begin with and how they go on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Span = tuple[int, int, str]

_HEX32 = r"[0-9a-f]{32}"
_B64URL = r"[A-Za-z0-9_\-]"

# kind, what it begins with (several: a space between), how it goes on. A shape begins where no letter or digit
# stands before it, and takes in every letter and digit that follows, so that a mask never has a tail of the secret.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("aws access key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])(?:[\s,:;|\"']{1,4}[A-Za-z0-9/+]{40}\b)?"),
    ("alibaba access key", "LTAI", r"[A-Za-z0-9]{12,}"),
    ("gcp api key", "AIza", _B64URL + r"{35,}"),
    ("google oauth client secret", "GOCSPX-", _B64URL + r"{20,}"),
    ("google oauth token", "ya29.", r"[A-Za-z0-9_\-.]{20,}"),
    ("github token", "ghp_", r"[A-Za-z0-9]{30,}"),
    ("github fine-grained token", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    ("github app token", "gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9_]{30,}"),
    (
        "gitlab token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glimt- glagent- gloas- GR1348941",
        r"[A-Za-z0-9_\-.]{20,}",
    ),
    ("slack token", "xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xapp-", r"[A-Za-z0-9\-%.]{10,}"),
    ("slack webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_\-]{20,}"),
    ("stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9_]{16,}"),
    ("webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    ("anthropic key", "sk-ant-", _B64URL + r"{20,}"),
    ("openrouter key", "sk-or-", _B64URL + r"{20,}"),
    ("openai key", "sk-proj- sk-svcacct- sk-admin-", _B64URL + r"{20,}"),
    ("openai key", "sk-", r"(?=[A-Za-z0-9]*[0-9])[A-Za-z0-9]{20,}"),
    ("groq key", "gsk_", r"[A-Za-z0-9]{40,}"),
    ("xai key", "xai-", r"[A-Za-z0-9]{60,}"),
    ("perplexity key", "pplx-", r"[A-Za-z0-9]{40,}"),
    ("replicate token", "r8_", r"[A-Za-z0-9]{36,}"),
    ("langsmith key", "lsv2_pt_ lsv2_sk_", r"[0-9a-f_]{32,}+[A-Za-z0-9]*+"),
    ("huggingface token", "hf_ api_org_", r"[A-Za-z0-9]{30,}"),
    ("npm token", "npm_", r"[A-Za-z0-9]{36,}"),
    ("pypi token", "pypi-", _B64URL + r"{50,}"),
    ("rubygems key", "rubygems_", r"[0-9a-f]{48}[A-Za-z0-9]*"),
    ("crates token", "cio", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("docker token", "dckr_pat_ dckr_oat_", _B64URL + r"{20,}"),
    ("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}[A-Za-z0-9]*"),
    ("heroku key", "HRKU-", _B64URL + r"{36,}"),
    ("twilio key", "SK", _HEX32 + r"(?![A-Za-z0-9])"),
    ("sendgrid key", "SG.", _B64URL + r"{16,64}+\.[A-Za-z0-9_\-]{32,}"),
    ("mailgun key", "key-", _HEX32 + r"(?![A-Za-z0-9])(?:-[0-9a-f]{8}-[0-9a-f]{8})?"),
    ("brevo key", "xkeysib- xsmtpsib-", r"[0-9a-f]{32,}+[A-Za-z0-9\-]*+"),
    ("shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9A-Fa-f]{32}[A-Za-z0-9]*"),
    ("square token", "sq0atp- sq0csp- sq0idp-", _B64URL + r"{22,}"),
    ("square token", "EAAAE EAAAl", _B64URL + r"{55,}"),
    ("facebook token", "EAACEdEose0cBA EAAB EAAG", r"[A-Za-z0-9]{60,}"),
    ("atlassian token", "ATATT3 ATCTT3 ATBB ATSTT3", r"[A-Za-z0-9_\-=.]{28,}"),
    ("databricks token", "dapi dkea dose", r"[0-9a-f]{32}(?:-\d+)?(?![A-Za-z0-9])"),
    ("vault token", "hvs. hvb. hvr.", _B64URL + r"{20,}"),
    ("new relic key", "NRAK- NRJS- NRII- NRRA- NRIQ-", r"[A-Za-z0-9_\-]{19,}"),
    ("grafana token", "glc_ glsa_", r"[A-Za-z0-9+/=_]{32,}"),
    ("sentry token", "sntrys_ sntryu_", r"[A-Za-z0-9+/=_]{32,}"),
    ("dynatrace token", "dt0c01. dt0s01.", r"[A-Z2-7]{24}\.[A-Z2-7]{64}[A-Za-z0-9]*"),
    ("linear key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,}"),
    ("notion token", "ntn_", r"[A-Za-z0-9]{40,}"),
    ("figma token", "figd_ figu_", _B64URL + r"{20,}"),
    ("postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}[A-Za-z0-9]*"),
    ("doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._\-]{40,}"),
    ("planetscale token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_\-.=]{32,}"),
    ("supabase token", "sbp_ sb_secret_", r"[A-Za-z0-9_\-]{28,}"),
    ("netlify token", "nfp_", r"[A-Za-z0-9]{36,}"),
    ("fly token", "fm1a_ fm1r_ fm2_ fo1_", r"[A-Za-z0-9+/=_\-,]{40,}"),
    ("pulumi token", "pul-", r"[0-9a-f]{40}[A-Za-z0-9]*"),
    ("buildkite token", "bkua_ bkct_", r"[A-Za-z0-9]{32,}"),
    ("circleci token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9_]{40,}"),
    ("artifactory key", "AKCp", r"[A-Za-z0-9]{60,}"),
    ("tailscale key", "tskey-", r"[A-Za-z0-9\-]{20,}"),
    ("1password token", "ops_eyJ", r"[A-Za-z0-9+/=_\-]{100,}"),
    ("age key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{50,}"),
    ("discord webhook", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", r"\d{15,}/[A-Za-z0-9_\-]{30,}"),
    ("azure key", "AccountKey= SharedAccessKey=", r"[A-Za-z0-9+/]{40,}={0,2}"),
    ("azure signature", "?sig= &sig= &amp;sig=", r"[A-Za-z0-9%+/]{40,}+=*+"),
)

# Two parts joined by a dot may fail late; they begin where no dash stands before, so that no text is read twice.
_SEGMENTED: tuple[tuple[str, str, str], ...] = (
    ("json web token", "eyJ", r"[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+(?:\.[A-Za-z0-9_\-]*+){0,3}"),
    ("mapbox token", "sk.eyJ", r"[A-Za-z0-9_\-]{20,}+\.[A-Za-z0-9_\-]{20,}"),
)

_BODY = r"[^\-]*+(?:-(?!----)[^\-]*+)*+"
_LINE = r"(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/=]{16,}+)*+(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/]{1,15}={1,2})?"
_PRIVATE_KEY = re.compile(
    r"-----BEGIN ((?:[A-Z0-9]+ ){0,3})PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BODY}-----END [A-Z0-9 ]{{0,40}}-----|{_LINE})"
)

# Shapes that have no fixed beginning: kind, what they hold somewhere, the whole.
_INNER: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("azure client secret", "Q~", re.compile(r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.\-]{31,}")),
    ("telegram bot token", ":AA", re.compile(r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_\-]{32,}")),
    (
        "discord bot token",
        ".",
        re.compile(
            r"(?<![A-Za-z0-9_\-.])[MNO][A-Za-z0-9_\-]{22,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,}+(?![A-Za-z0-9.])"
        ),
    ),
    ("mailchimp key", "-us", re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])")),
    (
        "terraform cloud token",
        ".atlasv1.",
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-]{50,}"),
    ),
    ("airtable token", "pat", re.compile(r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}[A-Za-z0-9]*")),
)


def _tables() -> tuple[re.Pattern[str], Mapping[str, tuple[str, re.Pattern[str]]]]:
    rules: dict[str, tuple[str, re.Pattern[str]]] = {}
    for kind, starts, rest in _SHAPES:
        for start in starts.split():
            edge = "" if start[0] in "?&" else "(?<![A-Za-z0-9])"
            rules[start] = (kind, re.compile(edge + re.escape(start) + rest))
    for kind, start, rest in _SEGMENTED:
        rules[start] = (kind, re.compile(r"(?<![A-Za-z0-9_\-])" + re.escape(start) + rest))
    rules["-----BEGIN "] = ("private key", _PRIVATE_KEY)
    longest_first = sorted(rules, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))), rules


_ANCHORS, _RULES = _tables()
KINDS = frozenset(kind for kind, *_ in (*_RULES.values(), *_INNER)) | {"openssh private key", "pgp private key"}


def spans(text: str) -> Iterator[Span]:
    """Where secrets of a known shape stand, in order, without overlaps."""
    found = sorted([*_anchored(text), *_inner(text)], key=lambda span: (span[0], -span[1]))
    end = 0
    for span in found:
        if span[0] >= end:
            yield span
            end = span[1]


def private_keys(text: str) -> Iterator[Span]:
    """Where blocks of private keys stand, the only secrets that are longer than a window."""
    at = text.find("-----BEGIN ")
    while at >= 0:
        match = _PRIVATE_KEY.match(text, at)
        if match:
            yield match.start(), match.end(), _key_kind(match)
        at = text.find("-----BEGIN ", match.end() if match else at + 1)


def _anchored(text: str) -> Iterator[Span]:
    at = 0
    while anchor := _ANCHORS.search(text, at):
        kind, rule = _RULES[anchor.group()]
        if match := rule.match(text, anchor.start()):
            yield match.start(), match.end(), _key_kind(match) if kind == "private key" else kind
            at = match.end()
        else:
            at = anchor.start() + 1


def _key_kind(match: re.Match[str]) -> str:
    label = match.group(1).split(" ")[0].lower()
    return f"{label} private key" if label in ("openssh", "pgp") else "private key"


def _inner(text: str) -> Iterator[Span]:
    for kind, held, rule in _INNER:
        if held in text:
            yield from ((match.start(), match.end(), kind) for match in rule.finditer(text))
