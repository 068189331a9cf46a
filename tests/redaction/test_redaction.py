import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories.opening import opened

import kagent_memory.redaction
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Scope
from kagent_memory.redaction import KINDS, redact, redactor
from kagent_memory.redaction.personal_data import PersonalData

# Made up here, from pieces: no real secret, and none that a scanner of this repository takes for
# one.
A36 = "aB3dE6gH9jK2" * 3
A48 = "aB3dE6gH9jK2" * 4
A64 = "aB3dE6gH9jK2mN5p" * 4
KEY32 = "q83vEjRWeJC6vN3vq83vEjRWeJC6vN3vq83vEjRWe9A="
B64 = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S",
)
UUID = "6f1c2d3e-0a1b-4c5d-8e9f-a0b1c2d3e4f5"

SEED = "gravity machine north sort system female filter attitude volume fold club stay"


PIECES = {
    "A12": "aB3dE6gH9jK2" * 20,
    "A16": "aB3dE6gH9jK2mN5p" * 20,
    "HEX": "0a1b2c3d4e5f6789" * 20,
    "KEY32": KEY32,
    "UUID": UUID,
    "SEED": SEED,
    "AKIA": "AKIA",
    "BEGIN": "BEGIN",
    **{f"B{number}": line for number, line in enumerate(B64, 1)},
}


def joined(text: str) -> str:
    """Put the pieces into the text of an item."""
    return re.sub(
        r"<<(\w+?)(?::(\d+))?>>",
        lambda match: PIECES[match[1]][: int(match[2]) if match[2] else None],
        text,
    )


TABLE = tomllib.loads((Path(__file__).parent / "items/secrets.toml").read_text("utf-8"))["item"]
ITEMS = [tuple(map(joined, item.values())) for item in TABLE]


@pytest.mark.parametrize(("kind", "text", "secret", "harmless"), ITEMS)
def test_a_secret_is_masked_by_its_kind(kind, text, secret, harmless):
    """A secret is masked by its kind and what only looks like one stays."""
    masked = redact(text)
    assert f"[secret: {kind}]" in masked
    assert secret not in masked
    assert masked.count("[secret: ") == 1
    assert redact(harmless) == harmless


def test_every_kind_has_a_hit_and_a_near_miss():
    """The items hold a secret of every kind, and a text that is none."""
    assert {kind for kind, *_ in ITEMS} == KINDS
    assert len(KINDS) >= 30


def test_words_around_a_secret_stay():
    """Only the secret itself is masked."""
    assert (
        redact(f"Use ghp_{A36}, please (it is mine).")
        == "Use [secret: github token], please (it is mine)."
    )
    assert redact("f(password=hunter2)") == "f(password=[secret: password])"
    assert (
        redact("İstanbul İzmir password=hunter2 ok")
        == "İstanbul İzmir password=[secret: password] ok"
    )


@pytest.mark.parametrize(
    "text",
    [
        "I prefer dark mode and green tea; my flight is LH 4711 on 2024-05-06 at 17:30.",
        "Call me on +49 170 1234567 or write to ada@example.org.",
        "The commit is 0a1b2c3d4e5f67890a1b2c3d4e5f67890a1b2c3d and the id " + UUID,
        "See https://example.org/docs?page=2#secret and run `kubectl get secret`.",
    ],
)
def test_ordinary_text_is_left_alone(text):
    """Prose, code and logs without secrets come back as they are."""
    assert redact(text) == text


FRAGMENTS = [text for _, text, *_ in ITEMS] + [
    "password", "secret: ", "token=", "[secret: github token]", "[secret: nothing]", "cookie: a=",
    "://", "@", ":", '"',
    "\\", "\n", " ", "AA", "Bearer ", "-----", "sk-", "eyJ", "İ",
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=6).map("".join)
)
def test_masking_what_is_masked_changes_nothing(text):
    """Masking is idempotent."""
    once = redact(text)
    assert redact(once) == once


WORDS = "We met at the harbour and spoke of trains. "


@pytest.mark.parametrize(("kind", "text", "secret", "harmless"), ITEMS)
def test_a_secret_is_found_wherever_it_stands_in_a_long_text(
    kind, text, secret, harmless, monkeypatch
):
    """Also across the edges of the windows in which a long text is read."""
    # a long text is read in windows: around their edges nothing may be lost or made up
    monkeypatch.setattr(kagent_memory.redaction, "WINDOW_CHARS", 1024)
    for before in (0, len(text) // 2, 513):
        lead = (WORDS * 60)[: 1024 - before] + "\n"
        tail = "\n" + (WORDS * 100)[: 2500 - len(lead)]
        assert redact(lead + text + tail) == lead + redact(text) + tail
        assert redact(lead + harmless + tail) == lead + harmless + tail


def test_a_private_key_longer_than_a_window_is_masked_whole():
    """The longest secrets are masked from their first line to their last."""
    lines = "\n".join([A64] * 800)
    key = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----"
    assert (
        redact(f"{WORDS * 900}\n{key}\n{WORDS}") == f"{WORDS * 900}\n[secret: private key]\n{WORDS}"
    )


def test_a_table_of_a_user_s_own_is_known_too(tmp_path):
    """A TOML table adds vendors of its own."""
    table = tmp_path / "ours.toml"
    table.write_text(
        '[[secret]]\nkind = "acme key 2"\nstarts = ["acme_", "sk-acme"]\nthen = \'[a-z0-9]{8,}\'\n'
    )
    own = redactor(table)
    text = (
        f"use acme_abcd1234 and sk-acmeabcd1234, ghp_{A36}, sk-{A48}, not acme_short; "
        "password=hunter2"
    )
    masked = own(text)
    assert masked.count("[secret: acme key 2]") == 2
    assert own(masked) == masked
    assert masked.count("[secret: ") == 5
    assert "acme_short" in masked
    assert "acme_abcd1234" in redact(text)
    assert own("x " * 20_000 + "acme_abcd1234").endswith("[secret: acme key 2]")


@pytest.mark.parametrize(
    "table",
    [
        "not toml",
        "secret = 3",
        "secret = []",
        '[[secret]]\nkind = "x"',
        '[[secret]]\nkind = "x"\nstarts = "acme"\nthen = "a"',
        '[[secret]]\nkind = "x"\nstarts = []\nthen = "a"',
        '[[secret]]\nkind = "x"\nstarts = [""]\nthen = "a"',
        '[[secret]]\nkind = "x]"\nstarts = ["a"]\nthen = "a"',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "("',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "a*"',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "(?<=a)"',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "(?i)b"',
        '[[secrets]]\nkind = "x"\nstarts = ["a"]\nthen = "b"',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "b"\nregion = "US"',
    ],
)
def test_a_table_that_is_none_is_refused(table, tmp_path):
    """A table that cannot be read as one is refused with the reason."""
    (tmp_path / "ours.toml").write_text(table)
    with pytest.raises(ConfigurationError, match=r"ours\.toml"):
        redactor(tmp_path / "ours.toml")


@pytest.mark.parametrize("key", ["secret", "pii"])
@pytest.mark.parametrize("row", ['kind = "a"\nexample = "my-own-key"', 'kind = "My-own-key"'])
def test_a_refused_table_is_not_quoted(tmp_path, key: str, row: str):
    """The refusal of a table names the fields at fault and repeats nothing that they say."""
    table = tmp_path / "ours.toml"
    table.write_text(f"[[{key}]]\n{row}\n")
    with pytest.raises(ConfigurationError, match=r"(example|kind): ") as refused:
        redactor(table) if key == "secret" else PersonalData(table=table)
    assert "y-own-key" not in str(refused.value)


async def test_a_table_is_a_setting(tmp_path):
    """The setting `secrets_file` names the table."""
    (tmp_path / "ours.toml").write_text(
        '[[secret]]\nkind = "acme key"\nstarts = ["acme_"]\nthen = "[a-z0-9]{8,}"\n'
    )
    scope = Scope("", "ada", "app")
    uri = f"libsql:///:memory:?secrets_file={tmp_path}/ours.toml"
    async with await opened(uri) as memories:
        (id,) = await memories.add(scope, ["The key is acme_abcd1234"])
        assert (await memories.get(scope, id)).content == "The key is [secret: acme key]"
    with pytest.raises(ConfigurationError, match="secrets_file"):
        await opened(secrets_file=f"{tmp_path}/none.toml")
    with pytest.raises(ConfigurationError, match="redact"):
        await opened(uri, redact=str.lower)


@pytest.mark.parametrize("sign", ["=>", ":=", "==", "=", ":", "：", "– ", "— "])
def test_a_sign_assigns_to_a_name_before_it(sign):
    """A sign assigns to a name as far before it as one may stand and signs before that do not
    matter.
    """
    value = "wJalrXUtnFEMI0K7MDENGbPxRfiCYEXAMPLEKEY"
    text = f'= : "x":y –aws_secret_access_key\\\\\\"\u200b\u200b\u200b{sign}   {value} ='
    assert value not in redact(text)


def test_each_pattern_finds_what_is_looked_for_first():
    """A kind is only looked for in a text that holds one of its words: each way to say it is still
    masked.
    """
    samples = {
        "password": [
            *(
                f"{name} is Xk9#mQ2vLp"
                for name in ("password", "passphrase", "passcode", "Kennwort", "contraseña")
            ),
            *(
                f"{name} is Xk9#mQ2vLp"
                for name in ("Passwort", "mot de passe", "senha", "wachtwoord", "lösenord")
            ),
            *(
                "hasło to Xk9#mQ2vLp",
                "the pw is Xk9#mQ2vLp",
                "pass was Xk9#mQ2vLp",
                "pwd Xk9mQ2vLp",
                "пароль k9mq2vlp",
            ),
            *(
                "şifrem k9mq2vlp",
                "密码是Xk9#mQ2vLp",
                "パスワードはXk9#mQ2vLp",
                "비밀번호는 Xk9#mQ2vLp",
            ),
            "db.example:5432:shop:bob:Xk9#mQ2vLp",
        ],
        "command line secret": [
            *(
                "mysql -u bob -pXk9#mQ2vLp",
                "mariadb-dump -h db -pXk9#mQ2vLp",
                "sshpass -p Xk9#mQ2vLp ssh bob@host",
            ),
            *("redis-cli -h db -a Xk9#mQ2vLp", "deploy --api-key Xk9#mQ2vLp"),
        ],
        "pin": ["my PIN is 4821", "PIN code: 4821"],
        "service key": ["okta api token 00aabbccddeeff00112233445566778899aabbcc"],
    }
    for kind, texts in samples.items():
        for text in texts:
            assert f"[secret: {kind}]" in redact(f"For the record, {text} and so on."), text


def test_a_secret_begins_at_the_edge_of_a_word():
    """A secret begins at the edge of a word and a key block anywhere."""
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    assert token not in redact(f"see {token}, ({token}) -{token}")
    assert redact(f"x{token}") == f"x{token}"
    block = (
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
    )
    assert redact(f"key9{block}") == "key9[secret: private key]"
    assert "Zm9vYmFyYmF6cXV4" not in redact(
        "https://x.example/a?sig=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"
    )
