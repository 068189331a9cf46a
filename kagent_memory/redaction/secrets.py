"""Recognize secrets by the text before them (a name, a header, an address), or by their check
digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import attrgetter

from .patterns import UNANCHORED, Span, Unanchored

# Names of each kind in code, configuration and headers; a sign of assignment follows the name.
_NAMES: tuple[tuple[str, str], ...] = (
    ("aws secret key", r"aws_?secret(?:_?access)?_?key|secret[ _]?access[ _]?key"),
    ("client secret", r"(?:client|consumer|app)[_-]?secret"),
    (
        "private key",
        r"priv(?:ate)?[ _-]?key(?:[_-]?id)?|client-key-data|(?:signing|encryption|ssh)[_-]?keys?",
    ),
    (
        "api key",
        (
            r"(?:api|access)[ _-]?key|(?:app|auth|account|subscription|service|master|admin"
            r"|license)[_-]?key"
        ),
    ),
    (
        "password",
        r"pass(?:word|wd|phrase|code|wort)|kennwort|contrase[nñ]a|mot[ _]de[ _]passe|senha|密码|密碼"  # noqa: E501
        r"|パスワード"
        r"|口令|暗証番号|비밀번호|пароль|wachtwoord|lösenord|hasło|şifre(?:miz|niz|si|m|n)?|heslo|jelszó"
        r"|salasana"
        r"|adgangskode|passord|kata sandi|mật khẩu|كلمة (?:ال)?(?:مرور|سر)|رمز عبور|पासवर्ड|ססמה"
        r"|סיסמה|סיסמא|รหัสผ่าน"
        r"|(?<![a-z])pwd?|(?<![a-z])pw|(?<![a-z])pass",
    ),
    (
        "token",
        r"(?<![a-z])token|(?:access|auth|refresh|id|identity|bearer|session|api|csrf|bot)token",
    ),
    ("secret", r"secret(?:[_-]?key(?:[_-]?base)?|[_-]?token)?|credentials?|connection[_-]?string"),
)
_NAMED = re.compile(
    "(?:"
    + "|".join(f"({names})" for _, names in _NAMES)
    + r""")(?:\\{0,3}["'\]])?[\s\u200b-\u200d\ufeff]{0,3}(?P<sign>=>|:=|==?|:|：|[–—]\s)\s{0,3}"""
)
_SIGN = re.compile("[=:：–—]")
# A part of every name.
_PART = re.compile(
    r"key|pass|pw|token|secret|cred|connec|kennwort|contras|mot|senha|wacht|heslo|salas|adgang"
    r"|sandi|[^\x00-\x7f]"
)
# Characters from the start of a name to its sign; the longest names take 30.
_TO_SIGN = 32
_PAST_SIGN = 5
_QUOTED = re.compile(
    r"""(?P<quote>["'`])(?P<value>(?:(?!(?P=quote))[^\\\n]|\\.){3,4096}+)(?P=quote)"""
)
_ESCAPED = re.compile(
    r"""(?P<quote>\\{1,3}["'`])(?P<value>(?:(?!(?P=quote))[^\n]){3,4096}+)(?P=quote)"""
)
_BARE = re.compile(
    # also after a quote that is left open
    r"""\\{0,3}["'`]?(?P<value>(?![()\[\]{}])(?:[^\s"'`;&<>\\]|\\(?![nrt"'\\])){3,}+)"""
)
# "tests that pass: 12/13", "the pass: 2757m", "ski pass: 189€"
_PASSED = re.compile(r"pass(?![a-z])")
_COUNT = re.compile(
    r"[€$£]?[\d.,/]{1,9}(?:%|€|\$|£|k?m|ft|eur|usd|chf|h|min)?(?![^\s,.;)])", re.IGNORECASE
)
_PATH = re.compile(r"~?/|[A-Za-z]:\\")  # the output of pwd
# Scripts in which nobody types a password.
_PROSE = re.compile("[\u0590-\u0dff\u0e00-\u0eff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_ALONE = re.compile(r"[)\]},.;]*+[ \t\r]*+(?:$|\\n)", re.MULTILINE)

_PLACEHOLDER = re.compile(
    r"(?i)(?:[*x.•_\-]{3,}+|\$.*+|%.*+|none|null|nil|true|false|undefined|required|optional"
    r"|redacted|masked|hidden"
    r"|str|string|text|bytes|secretstr|any|your[_\-].*+|(?:os|self|process|config|settings|args"
    r"|env)\.[\w.].*+"
    r"|[a-z_][\w.]*+\(.*+)\Z"
)
_BE = r"""(?:is|was|lautet|ist|wurde|war|es|est|é|è|är)(?:\s{1,3}(?:now|jetzt|ahora))?"""
_TURNED = r"""(?:\s{1,3}(?:(?:re)?set|changed|updated)(?:\s{1,3}to)?|\s{1,3}geändert auf)"""
_IS = rf"""(?:\s{{1,3}}{_BE}{_TURNED}?|['’]s|{_TURNED}):?\s{{1,3}}["'`]?"""
_WORDS = (
    r"(?:password|passphrase|passcode|passwort|kennwort|contraseña|mot de passe|senha"
    r"|wachtwoord|lösenord|hasło)"
)
_SAID_PASSWORD = re.compile(
    rf"(?:(?:{_WORDS}|(?<![a-z])pass|(?<![a-z])pw){_IS}"
    rf"|{_WORDS}\s(?:for|to|of|für|zum|zur|pour|para|del?|du|des|da|do"
    rf"|della)\s[^\n:=]{{1,40}}?(?:{_IS}|\s?[:=]\s{{1,3}})|hasło\s{{1,3}}to\s{{1,3}}"
    r"|login \S{1,64} password )(?P<value>[^\s\"'`\[]{5,}+)"
)
_SAID_SECRET = re.compile(
    rf"(?:(?:api key|private key|secret(?: key)?){_IS}(?P<value>[^\s\"'`\[]{{5,}}+)"
    rf"|token{_IS}(?P<token>[^\s\"'`\[]{{8,}}+))"
)
# With only a blank or dash after the name, the value must look random all the more.
_BEHIND = re.compile(
    rf"(?<![a-z\-])(?:{_WORDS}|passwd|pwd?|пароль|şifrem?)(?:\s{{1,3}}|\s-\s)"
    r"(?P<value>(?=[a-z]++\d|\d++[a-z])(?!(?:\d{1,2}(?:st|nd|rd|th|-)|base\d|oauth|argon|pbkdf"
    r"|sha-?\d|md\d|utf|sso|2fa|mfa|v\d|p\d))[a-z\d]"
    r"[^\s\"'`\[\]()<>]{5,}+)"
)
_PIN = re.compile(  # four digits: six are an Indian post code, three the pins of a plug
    rf"(?<![a-z\d\-])(?:pin(?:[ \-](?:code|number))?|passcode)"
    rf"(?:\s{{0,3}}[:=]\s{{0,3}}|{_IS}|\s{{1,3}}(?=\d{{4}}\s{{0,3}}(?:[.,;!?)\n]"
    rf"|\Z)))(?P<value>\d{{4}})(?!\w|[.,:/\-]\d)"
)
_SEED = re.compile(
    r"(?:(?:seed|mnemonic|recovery|backup|wallet)[ _-]?(?:phrase|words?|key)?|(?:12|24|twelve"
    r"|twenty-four)[ -]words?)"
    r"[\"']?(?:\s\([^()\n]{1,40}\))?\s{0,3}(?:(?:is|was|are)?\s{0,2}[:=\-]|is|was|are"
    r"|\n)\s{0,3}\[?[\"'`]?"
    r"(?P<value>(?:\d{1,2}[.)]?\s{0,2})?[a-z]{3,8}(?:[\s,\"']{1,5}(?:\d{1,2}[.)]?\s{0,2})?[a-z]{3,8}(?![a-z])){11,23})"
)
# Words of nearly every sentence and of no seed phrase.
_COMMON = re.compile(
    r"\b(?:the|and|for|from|with|are|was|were|has|had|not|but|his|her|she|our|your|its)\b"
)
_PASSWORDS = ("pass", "kennwort", "contrase", "mot de", "senha", "wachtwoord", "lösenord", "hasło")
_SAID = (
    Unanchored("password", (*_PASSWORDS, "pw"), _SAID_PASSWORD, any_case=True, made=True),
    Unanchored("secret", ("key", "secret", "token"), _SAID_SECRET, any_case=True, made=True),
    Unanchored(
        "password", (*_PASSWORDS, "pw", "пароль", "şifre"), _BEHIND, any_case=True, made=True
    ),
    Unanchored("pin", ("pin", "passcode"), _PIN, any_case=True),
    Unanchored(
        "seed phrase",
        ("seed", "mnemonic", "recovery", "backup", "wallet", " word", "-word"),
        _SEED,
        any_case=True,
    ),
)
# If several match the same text, the vendor's own shape names the kind.
_SHAPES = sorted((*_SAID, *UNANCHORED), key=attrgetter("any_case"))
KINDS = frozenset(("credit card", *(kind for kind, _ in _NAMES), *(shape.kind for shape in _SAID)))
_MIN_CHARS = {"token": 8, "api key": 6, "aws secret key": 16}


_SEPARATORS = str.maketrans("", "", " -")
_CARD = re.compile(r"\d(?<![\w.\-]\d)(?:[ \-]?\d){12,18}+(?![\w\-]|\.\d)")
# Issuer ranges with the lengths they use, as payment networks publish them (ISO/IEC 7812).
_ISSUED = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35\d{14}|62\d{14,17}"
)


def spans(text: str) -> Iterator[Span]:
    """Yield the spans of named secrets and card numbers, in no order; they may overlap."""
    yield from cards(text)
    # the only capital whose lower case is longer, which would shift positions
    low = text.replace("İ", "I").lower()
    for shape in _SHAPES:
        haystack = low if shape.any_case else text
        for match in (
            shape.pattern.finditer(haystack)
            if any(word in haystack for word in shape.holds)
            else ()
        ):
            start, end = match.span(match.lastgroup or 0)
            is_said = shape.made and (
                not _looks_made(text[start:end]) or _is_count(low, match.start(), text, start)
            )
            if is_said or (shape.pattern is _SEED and _COMMON.search(low, start, end)):
                continue
            yield start, end, shape.kind
    yield from _assigned(text, low)


def _assigned(text: str, low: str) -> Iterator[Span]:
    at = 0
    for begin, until in _near_signs(low):
        at = max(at, begin)
        while _PART.search(low, at, until) and (name := _NAMED.search(low, at, until)):
            at = name.end()
            kind = next(kind for (kind, _), hit in zip(_NAMES, name.groups(), strict=False) if hit)
            patterns = (_QUOTED, _ESCAPED, _BARE)
            value = next(
                (hit for pattern in patterns if (hit := pattern.match(text, name.end()))), None
            )
            if value is None:
                continue
            start, end = value.span("value")
            if value.re is _BARE:
                end = start + len(text[start:end].rstrip(".,)]}"))
                dash = name["sign"][0] in "–—"
                is_alone = not dash and _ALONE.match(text, end)
                if (
                    (dash or name["sign"] in ":：")
                    and not _looks_made(text[start:end])
                    and not is_alone
                ):
                    continue
            if low.startswith("pwd", name.start()) and _PATH.match(text, start):
                continue
            secret = text[start:end]
            is_long = len(secret) >= _MIN_CHARS.get(kind, 3) and (
                kind != "token" or len(secret) >= 20 or _looks_made(secret)
            )
            # prose in a script in which nobody types a password
            is_prose = _PROSE.match(secret) and not any(
                letter.isascii() and letter.isalnum() for letter in secret
            )
            is_none = (
                is_prose or _PLACEHOLDER.match(secret) or _is_count(low, name.start(), text, start)
            )
            if is_long and not is_none:
                yield start, end, kind
                at = max(at, end - 40)  # a value may end with the name of the next one


def _near_signs(low: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges around signs of assignment, the only places where names need be searched."""
    begin = end = 0
    for sign in _SIGN.finditer(low):
        if sign.start() - _TO_SIGN > end:
            yield begin, end
            begin = sign.start() - _TO_SIGN
        end = sign.start() + _PAST_SIGN
    yield begin, end


def _is_count(low: str, name: int, text: str, value: int) -> bool:
    """Return True if "pass" means a mountain pass, a ticket or passed tests, not a password."""
    return _PASSED.match(low, name) is not None and _COUNT.match(text, value) is not None


def _looks_made(value: str) -> bool:
    """Return True if a value looks random: it has a digit, a symbol or a capital inside."""
    core = value.strip(".,;:!?()")
    if any(letter.isdigit() or letter in "_@#$%^&*+=/!~|" for letter in core):
        return True
    return any(letter.isupper() for letter in core[1:]) and any(letter.islower() for letter in core)


def cards(text: str) -> Iterator[Span]:
    """Yield the spans of credit card numbers."""
    for match in _CARD.finditer(text):
        digits = match.group().translate(_SEPARATORS)
        # Luhn check digit (ISO/IEC 7812-1, annex B)
        doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
        if (
            _ISSUED.fullmatch(digits)
            and sum(value // 10 + value % 10 for value in doubled) % 10 == 0
        ):
            yield match.start(), match.end(), "credit card"
