import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kagent_memory.redaction
from kagent_memory.errors import ConfigurationError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.redaction import KINDS, kinds_in, redact, redactor

# Made up here, from pieces: no real secret, and none that a scanner of this repository takes for one.
A36 = "aB3dE6gH9jK2" * 3
A48 = "aB3dE6gH9jK2" * 4
A64 = "aB3dE6gH9jK2mN5p" * 4
HEX32 = "0a1b2c3d4e5f6789" * 2
HEX64 = HEX32 * 2
B64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S"
UUID = "6f1c2d3e-0a1b-4c5d-8e9f-a0b1c2d3e4f5"

SEED = "gravity machine north sort system female filter attitude volume fold club stay"


def pem(label: str) -> str:
    return f"-----BEGIN {label}-----\n{B64}\nAb==\n-----END {label}-----"


# kind, a text that holds one, the secret in it, a text that looks like it and holds none
SHAPES = [
    ("aws access key", "id AKIA" + "ABCDEFGHIJKLMNOP", "AKIA", "AKIAABCDEFGH is too short"),
    ("aws access key", "AKIA" + "ABCDEFGHIJKLMNOP," + (A48[:40]), A48[:40], "AKIAabcdefghijklmnop"),
    ("alibaba access key", "LTAI" + A36[:16], A36[:16], "LTAI is short"),
    ("gcp api key", "AIza" + A36[:35], A36[:35], "AIzawa and Aizawa"),
    ("google oauth client secret", "GOCSPX-" + A36[:28], A36[:28], "GOCSPX-short"),
    ("google oauth token", "ya29." + A64, A64, "maya29.5 km"),
    ("github token", "use ghp_" + A36, A36, "ghp_short, and graphghp_" + A36),
    ("github fine-grained token", "github_pat_" + A64, A64, "github_pat_short"),
    ("github app token", "ghs_" + A36, A36, "ghs_short"),
    ("gitlab token", "glpat-" + A36[:20], A36[:20], "glpat-short"),
    ("slack token", "xoxb-" + "123456789012-" + A36, A36, "xoxb-1"),
    ("slack webhook", "https://hooks.slack.com/services/T00/B00/" + A36, A36, "https://hooks.slack.com/docs"),
    ("stripe key", "sk_live_" + A36, A36, "sk_live_short task_live_" + A36),
    ("webhook secret", "whsec_" + A36, A36, "whsec_short"),
    ("anthropic key", "sk-ant-api03-" + A64, A64, "sk-ant-short"),
    ("openrouter key", "sk-or-v1-" + HEX64, HEX64, "sk-or-not"),
    ("openai key", "sk-proj-" + A64, A64, "sk-proj-short"),
    ("openai key", "sk-" + A48, A48, "sk-learn and sk-internationalizationwords"),
    ("groq key", "gsk_" + A48, A48, "gsk_short"),
    ("xai key", "xai-" + A64, A64, "xai-short"),
    ("perplexity key", "pplx-" + A48, A48, "pplx-short"),
    ("replicate token", "r8_" + A48, A48, "r8_short"),
    ("langsmith key", "lsv2_pt_" + HEX32 + "_0a1b2c3d4e", HEX32, "lsv2_pt_short"),
    ("huggingface token", "hf_" + A36, A36, "hf_hub_download"),
    ("npm token", "npm_" + A36, A36, "npm_config_registry"),
    ("pypi token", "pypi-" + A64, A64, "pypi-simple"),
    ("rubygems key", "rubygems_" + HEX32 + HEX32[:16], HEX32, "rubygems_version"),
    ("crates token", "cio" + A36[:32], A36[:32], "cio" + A36),
    ("docker token", "dckr_pat_" + A36, A36, "dckr_pat_short"),
    ("digitalocean token", "dop_v1_" + HEX64, HEX64, "dop_v1_short"),
    ("heroku key", "HRKU-" + UUID, UUID, "HRKU-short"),
    ("twilio key", "SK" + HEX32, HEX32, "SK" + HEX32 + "f and TASK" + HEX32),
    ("sendgrid key", "SG." + A36[:22] + "." + A48[:43], A48[:43], "SG.short.one"),
    ("mailgun key", "key-" + HEX32, HEX32, "key-value and monkey-" + HEX32),
    ("brevo key", "xkeysib-" + HEX64 + "-aB3dE6gH9jK2mN5p", HEX64, "xkeysib-short"),
    ("shopify token", "shpat_" + HEX32, HEX32, "shpat_short"),
    ("square token", "sq0atp-" + A36[:22], A36[:22], "sq0atp-short"),
    ("facebook token", "EAAB" + A64, A64, "EAAB short"),
    ("atlassian token", "ATATT3" + A64, A64, "ATATT3 short"),
    ("databricks token", "dapi" + HEX32, HEX32, "dapi" + HEX32 + "f"),
    ("vault token", "hvs." + A36, A36, "hvs.short"),
    ("new relic key", "NRAK-" + A36[:27], A36[:27], "NRAK-short"),
    ("grafana token", "glsa_" + A36 + "_0a1b2c3d", A36, "glsa_short"),
    ("sentry token", "sntrys_" + A64, A64, "sntrys_short"),
    ("dynatrace token", "dt0c01." + "ABCDEF234567" * 2 + "." + "ABCDEFGH23456723" * 4, "23456723", "dt0c01.SHORT"),
    ("linear key", "lin_api_" + A48, A48, "lin_api_short"),
    ("notion token", "ntn_" + A48, A48, "ntn_short"),
    ("figma token", "figd_" + A36, A36, "figd_short"),
    ("postman key", "PMAK-" + HEX32[:24] + "-" + HEX32 + "ab", HEX32[:24], "PMAK-short"),
    ("doppler token", "dp.pt." + A48, A48, "dp.pt.short"),
    ("planetscale token", "pscale_tkn_" + A48, A48, "pscale_tkn_short"),
    ("supabase token", "sbp_" + HEX32 + "0a1b2c3d", HEX32, "sbp_short"),
    ("netlify token", "nfp_" + A48, A48, "nfp_short"),
    ("fly token", "fm2_" + A64, A64, "fm2_short"),
    ("pulumi token", "pul-" + HEX32 + "0a1b2c3d", HEX32, "pul-short"),
    ("buildkite token", "bkua_" + A48, A48, "bkua_short"),
    ("circleci token", "CCIPAT_" + A48, A48, "CCIPAT_short"),
    ("artifactory key", "AKCp" + A64, A64, "AKCp8short"),
    ("mapbox token", "sk.eyJ" + A36 + "." + A36, A36, "sk.eyJ.short"),
    ("tailscale key", "tskey-auth-" + A36, A36, "tskey-short"),
    ("1password token", "ops_eyJ" + A64 * 2, A64, "ops_eyJshort"),
    ("age key", "AGE-SECRET-KEY-1" + "QPZRY9X8GF2T" * 5, "QPZRY9X8GF2T", "AGE-SECRET-KEY-1SHORT"),
    ("json web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + A36, A36, "eyJhbGciOiJIUzI1NiJ9 alone"),
    ("discord webhook", "https://discord.com/api/webhooks/123456789012345678/" + A64, A64, "discord.com/api/webhooks/"),
    ("discord bot token", "M" + A36[:23] + ".Gabcde." + A36, A36, "M" + A36[:23] + ".short." + A36),
    ("azure key", "AccountName=x;AccountKey=" + A64 + A36[:22] + "==;", A64, "AccountKey=short;"),
    ("azure signature", "https://x.net/b?sv=1&sig=" + A48 + "%3D", A48, "?sig=short"),
    ("azure client secret", "abc8Q~" + A36, A36, "Q~ short"),
    ("telegram bot token", "123456789:AA" + A36[:33], A36[:33], "123456789:AAshort"),
    ("mailchimp key", HEX32 + "-us12", HEX32, HEX32 + "-usage"),
    ("terraform cloud token", A36[:14] + ".atlasv1." + A64, A64, A36[:14] + ".atlasv1.short"),
    ("airtable token", "pat" + A36[:14] + "." + HEX64, HEX64, "pattern.match"),
    ("private key", pem("PRIVATE KEY"), "ASC", "-----BEGIN PUBLIC KEY-----"),
    ("private key", pem("RSA PRIVATE KEY"), "7VJ", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"),
    ("tavily key", "tvly-dev-" + A36[:32], A36[:32], "tvly-short"),
    ("pinecone key", "pcsk_" + A64, A64, "pcsk_short"),
    ("langfuse key", "sk-lf-" + UUID, UUID, "sk-lf-short"),
    ("e2b key", "e2b_" + HEX64[:40], HEX64[:40], "e2b_template"),
    ("firecrawl key", "fc-" + HEX32, HEX32, "fc-barcelona"),
    ("neon key", "napi_" + A48, A48, "napi_create_function"),
    ("neon password", "npg_" + A36[:12], A36[:12], "npg_short"),
    ("cerebras key", "csk-" + A48, A48, "csk-short"),
    ("posthog key", "phc_" + A48, A48, "phc_short"),
    ("okta token", "00" + A48[:38] + "-_", A48[:38], "00" + HEX64[:38]),
    ("nuget key", "oy2" + (HEX64[:43]), HEX64[:43], "oy2short"),
    ("fcm key", "AAAA" + A36[:7] + ":" + A64 * 3, A64, "AAAA: a rating"),
    ("dropbox token", "sl." + A64 * 2, A64, "sl.wikipedia.org"),
    ("nvidia key", "nvapi-" + A64, A64, "nvapi-short"),
    ("jina key", "jina_" + A64, A64, "jina_embeddings_v3"),
    ("together key", "tgp_v1_" + A48, A48, "tgp_v1_short"),
    ("elevenlabs key", "sk_" + HEX64[:48], HEX64[:48], "sk_buff"),
    ("resend key", "re_" + A36[:8] + "_" + A36[:24], A36[:24], "re_match_object"),
    ("apify token", "apify_api_" + A36, A36, "apify_api_client"),
    ("prefect key", "pnu_" + A36, A36, "pnu_short"),
    ("kagent memory token", "kmem_" + A36, A36, "kmem_short"),
    ("openssh private key", pem("OPENSSH PRIVATE KEY"), "98C3S", "-----BEGIN SSH2 PUBLIC KEY-----"),
    ("pgp private key", pem("PGP PRIVATE KEY BLOCK"), "98C3S", "-----BEGIN PGP MESSAGE-----"),
    ("private key", pem("EC PRIVATE KEY").replace("\n", "\\n"), "7VJ", "BEGIN EC PRIVATE KEY"),
    ("private key", "-----BEGIN PRIVATE KEY-----\n" + B64 + "\nand the rest was cut", "7VJ", "PRIVATE KEY-----"),
    ("credit card", "pay 4111 1111 1111 1111 now", "1111", "order 4111 1111 1111 1112"),
    ("credit card", "378282246310005", "378282246310005", "at 1763765432123456 microseconds"),
    ("credit card", "5555-5555-5555-4444", "5555", "5555-5555-5555"),
]
NAMED = [
    ("password", "password=hunter2", "hunter2", "password=None"),
    ("password", 'PASSWORD = "hunter two!"', "two", 'password = os.environ["PW"]'),
    ("password", '{"password": "hunter2"}', "hunter2", '{"password": null}'),
    ("password", '{\\"password\\":\\"hunter2\\"}', "hunter2", "password=${DB_PASSWORD}"),
    ("password", '"password": "hunter2 was cut', "hunter2", "the password is required"),
    ("password", "db:\n  password: correcthorse\n  port: 1", "correcthorse", "Password: the thing you type"),
    ("password", '{"password": "it\'s me"}', "it's", '{"password": ""}'),
    ("password", r'{"password": "a\"b c"}', "b c", "password: |"),
    ("password", "passwd:hunter2", "hunter2", "password_min_length=12"),
    ("password", "Server=x;User Id=sa;Password=hunter2;", "hunter2", "password: ********"),
    ("password", "DB_PASS=hunter2", "hunter2", "bypass=maybe"),
    ("password", "Mein Passwort ist Sommer2024", "Sommer2024", "Das Passwort ist falsch"),
    ("password", "contraseña: hola1234", "hola1234", "la contraseña es obligatoria"),
    ("password", "密码：hunter2", "hunter2", "密码 forgotten"),
    ("password", "my password is hunter2!", "hunter2", "my password is too short"),
    ("password", "machine x login me password hunter2", "hunter2", "login me password please"),
    ("token", "access_token=abcdefgh1234", "abcdefgh1234", "max_tokens=1024"),
    ("token", "token: 8f7e6d5c4b3a", "8f7e6d5c4b3a", "token = tokenizer.next()"),
    ("token", "https://x.org/a?token=abcdefgh1234&b=1", "abcdefgh1234", "https://x.org/a?tokens=3"),
    ("secret", "the api key is 8f7e6d5c4b3a", "8f7e6d5c4b3a", "the api key is in the vault"),
    ("secret", "secret: s3cr3t-value", "s3cr3t-value", "secretary: Bob Miller"),
    ("secret", "<secret>my own words</secret>", "own", "<section>my own words</section>"),
    ("secret", "SECRET_KEY_BASE=abcdefabcdef", "abcdefabcdef", "secret: they moved away"),
    ("api key", "api_key='abcdef123456'", "abcdef123456", "api_key=<your key>"),
    ("api key", "X-Api-Key: abcdef123456", "abcdef123456", "the api key is missing"),
    ("client secret", "client_secret=abcdefghijkl", "abcdefghijkl", "client_secret=your-secret"),
    ("private key", '"private_key_id": "0a1b2c3d4e5f"', "0a1b2c3d4e5f", '"public_key_id": "0a1b2c3d4e5f"'),
    ("private key", "client-key-data: LS0tLS1CRUdJTiBSU0E=", "LS0tLS1", "client-certificate-data: LS0tLS1CRUdJTg="),
    ("aws secret key", "aws_secret_access_key = " + A48[:40], A48[:40], "aws_region = eu-central-1"),
    (
        "authorization",
        "Authorization: Basic dXNlcjpwYXNz",
        "dXNlcjpwYXNz",
        "Authorization: Basic authentication is off",
    ),
    ("authorization", '"Authorization": "Bearer abcdef123456"', "abcdef123456", "authorization: required"),
    ("bearer token", "sent bearer abcdefgh12345678", "abcdefgh12345678", "the bearer responsibilities"),
    ("cookie", "Cookie: sid=abc; theme=dark", "abc", "cookie: chocolate chip"),
    ("cookie", "Set-Cookie: sid=abc; HttpOnly", "abc", "a cookie banner: yes"),
    ("cookie", "Cookie: _sid=200; theme=dark", "200", "Cookie: 1tbsp=15g"),
    ("cookie", "cookie: butter=2000grams", "2000grams", "Cookie: flour=200g, sugar=2 cups"),
    ("pin", "My card's PIN is 4821, the blue one", "4821", "pin 12 of the connector"),
    ("pin", "PIN 4821", "4821", "PIN 560001 is Bengaluru"),
    ("pin", "the SIM pin: 0042.", "0042", "pin 1024 images to the board"),
    ("pin", "passcode 9911", "9911", "The PIN was changed in 2023"),
    ("password", "pw hunter2", "hunter2", "pw stands for power"),
    ("api key", "apikey X9fk2k3l4m5n", "X9fk2k3l4m5n", "api key rotation every 90 days"),
    ("api key", "the api key sk-abc123def456", "sk-abc123def456", "API key management in 2026"),
    ("url password", "postgresql://me:p@ss@db.example/x", "p@ss", "http://localhost:8080/a@b"),
    ("url password", "redis://:hunter2@cache:6379/0", "hunter2", "https://me@example.org:80/"),
    ("command line secret", "mysql --password hunter2", "hunter2", "--password --user me"),
    ("command line secret", "curl -u me:hunter2 http://x", "hunter2", "curl -u me http://x"),
    ("password", "pw: hunter2", "hunter2", "pw is in the vault"),
    ("password", "user ada, pass: hunter2", "hunter2", "tests that pass: 1204 of 1300"),
    ("password", "wifi pass=correcthorse", "correcthorse", "Boarding pass: gate fourteen"),
    ("password", "我的密码是hunter2。", "hunter2", "密码是什么"),
    ("password", "パスワードはhunter2です", "hunter2", "パスワードは秘密です"),
    ("password", "비밀번호는 hunter2 입니다", "hunter2", "비밀번호는 비밀입니다"),
    ("password", "db.example.org:5432:app:ada:hunter2", "hunter2", "main.py:120:col:warn:unused"),
    ("password", "*:*:*:ada:correct-horse", "correct-horse", "at 12:30:15:100:200"),
    ("private key", "private key: 0x" + HEX64, HEX64, "tx 0x" + HEX64),
    ("secret", "my private key is 0x" + HEX64, HEX64, "my private key is lost"),
    ("seed phrase", f"My seed phrase is {SEED}", "gravity", "My seed phrase is written on paper in the safe"),
    ("seed phrase", f'recovery phrase: "{SEED} {SEED}"', "gravity", "recovery: slow and steady"),
    ("seed phrase", "mnemonic = " + " ".join(f"{n}. {w}" for n, w in enumerate(SEED.split(), 1)), "gravity", SEED),
    ("command line secret", "mysql -u root -phunter2 shop", "hunter2", "mysql -u root -p shop -P3306"),
    ("command line secret", "mysqldump --opt -p'hunter 2' shop", "hunter", "docker run -p8080:80 mysql"),
    ("command line secret", "sshpass -p hunter2 ssh ada@host", "hunter2", "mkdir -p /var/lib/mysql"),
    ("registry login", '{"auths": {"ghcr.io": {"auth": "YWRhOmh1bnRlcjI="}}}', "YWRhOmh1", '{"auth": "none"}'),
    ("registry login", '{\\"auth\\": \\"YWRhOmh1bnRlcjI=\\"}', "YWRhOmh1", '"auth": true'),
    ("registry login", "//registry.example.org/:_auth=YWRhOmh1bnRlcjI=", "YWRhOmh1", "oauth = required"),
    ("private key", "privkey 0x" + HEX64, HEX64, "privkey rotation is planned"),
    (
        "seed phrase",
        f"My recovery phrase is: {SEED}",
        "gravity",
        "Backup: copy the files from the old laptop to the new",
    ),
    (
        "seed phrase",
        "Seed phrase\n" + "\n".join(f"{n}. {w}" for n, w in enumerate(SEED.split(), 1)),
        "gravity",
        "Seed: plant it in early spring and water it well every single day until the end of may",
    ),
    (
        "seed phrase",
        f"my twelve words: {SEED}",
        "gravity",
        "Wallet: found near the old river after she had lost it there",
    ),
    ("seed phrase", "seed_phrase=" + ",".join(SEED.split()), "gravity", "seeds=carrots,peas"),
    ("seed phrase", '"mnemonic": ["' + '", "'.join(SEED.split()) + '"]', "gravity", '"mnemonic": ["ROY", "G", "BIV"]'),
    (
        "password",
        "the password for the wifi is hunter2x",
        "hunter2x",
        "the password for the wifi is on the fridge door",
    ),
    ("password", "password to the vault: Sommer2024", "Sommer2024", "the password for zoom is 9 characters long"),
    ("password", "my password's hunter2x", "hunter2x", "the password's strength is weak"),
    ("password", "the password was changed to Geheim123", "Geheim123", "the password was reset on 2024-05-01"),
    ("password", "password is now: Geheim123", "Geheim123", "password is now: required"),
    ("password", "wifi password hunter2x!", "hunter2x", "password SHA256 hashing, base64, 2nd-factor login"),
    ("password", "Password\thunter2x", "hunter2x", "Password\tlogin"),
    ("password", "Пароль — Qwerty12", "Qwerty12", "пароль — это важно"),
    ("password", "мой пароль Qwerty12", "Qwerty12", "мой пароль потерян"),
    ("password", "Das Passwort für das WLAN ist Sommer2024", "Sommer2024", "Das Passwort wurde geändert"),
    ("password", "كلمة المرور: Qwerty12", "Qwerty12", "كلمة المرور: مطلوبة"),
    ("password", "पासवर्ड: Qwerty12", "Qwerty12", "पासवर्ड: ज़रूरी है"),
    ("password", "mật khẩu: Qwerty12", "Qwerty12", "mật khẩu: chưa có"),
    ("password", "ססמה: Qwerty12", "Qwerty12", "密码：请咨询管理员"),
    ("password", "Ｐａｓｓｗｏｒｄ：Sommer2024", "Sommer2024", "パスワード：変更してください"),
    ("password", "password\u200b: hunter2x", "hunter2x", "Ski pass: 189€, day pass: 59.90 EUR"),
    ("password", "pwd: s3cret/x", "s3cret", "PWD=/home/ada/project"),
    ("password", "the pass is hunter22", "hunter22", "The Stelvio Pass is 2757m high; the other pass is 2,757m"),
    ("credit card", "４１１１１１１１１１１１１１１１", "４１１１", "４１１１１１１１１１１１１１１２"),
    (
        "secret",
        "the token is 8f7e6d5c4b3a",
        "8f7e6d5c4b3a",
        "The token is 0.5ETH; the secret to 5-star reviews is service",
    ),
    ("service key", f"the heroku key {UUID}", UUID, f"the heroku app {UUID}"),
    ("service key", f"twilio auth: {HEX32}", HEX32, f"md5 {HEX32}"),
]


@pytest.mark.parametrize(("kind", "text", "secret", "harmless"), SHAPES + NAMED)
def test_a_secret_is_masked_by_its_kind_and_what_only_looks_like_one_stays(kind, text, secret, harmless):
    masked = redact(text)
    assert f"[secret: {kind}]" in masked
    assert secret not in masked
    assert kinds_in(text) == [kind]
    assert redact(harmless) == harmless


def test_every_kind_has_a_hit_and_a_near_miss():
    assert {kind for kind, *_ in SHAPES + NAMED} == KINDS
    assert len(KINDS) >= 30


def test_words_around_a_secret_stay():
    assert redact(f"Use ghp_{A36}, please (it is mine).") == "Use [secret: github token], please (it is mine)."
    assert redact("f(password=hunter2)") == "f(password=[secret: password])"
    assert redact("İstanbul İzmir password=hunter2 ok") == "İstanbul İzmir password=[secret: password] ok"


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
    assert redact(text) == text


FRAGMENTS = [text for _, text, *_ in SHAPES + NAMED] + [
    "password", "secret: ", "token=", "[secret: github token]", "[secret: nothing]", "cookie: a=", "://", "@", ":", '"',
    "\\", "\n", " ", "AA", "Bearer ", "-----", "sk-", "eyJ", "İ",
]  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=6).map("".join))
def test_masking_what_is_masked_changes_nothing(text):
    once = redact(text)
    assert redact(once) == once


HOSTILE = [
    "eyJaaaaaaaa-",
    "-----BEGIN PRIVATE KEY-----\na",
    "cookie: a=",
    "token is ",
    "secret:   ",
    "password='aaaa\\\"",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_input_does_not_take_quadratic_time(piece):
    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        begin = time.process_time()
        redact(text)
        return time.process_time() - begin

    # Linear time would be 16 times as much, quadratic time 256 times; a busy machine may stretch either a little.
    assert any(seconds(1 << 18) < max(seconds(1 << 14), 0.005) * 128 for _ in range(3))


WORDS = "We met at the harbour and spoke of trains. "


@pytest.mark.parametrize(("kind", "text", "secret", "harmless"), SHAPES + NAMED)
def test_a_secret_is_found_wherever_it_stands_in_a_long_text(kind, text, secret, harmless, monkeypatch):
    # a long text is read in windows: around their edges nothing may be lost or made up
    monkeypatch.setattr(kagent_memory.redaction, "_WINDOW", 1024)
    for before in (0, len(text) // 2, 513):
        lead = (WORDS * 60)[: 1024 - before] + "\n"
        tail = "\n" + (WORDS * 100)[: 2500 - len(lead)]
        assert redact(lead + text + tail) == lead + redact(text) + tail
        assert redact(lead + harmless + tail) == lead + harmless + tail


def test_a_private_key_longer_than_a_window_is_masked_whole():
    lines = "\n".join([A64] * 800)
    key = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----"
    assert redact(f"{WORDS * 900}\n{key}\n{WORDS}") == f"{WORDS * 900}\n[secret: private key]\n{WORDS}"


def test_a_table_of_a_user_s_own_is_known_too(tmp_path):
    table = tmp_path / "ours.toml"
    table.write_text('[[secret]]\nkind = "acme key 2"\nstarts = ["acme_", "sk-acme"]\nthen = \'[a-z0-9]{8,}\'\n')
    own = redactor(table)
    text = f"use acme_abcd1234 and sk-acmeabcd1234, ghp_{A36}, sk-{A48}, not acme_short; password=hunter2"
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
        '[[secret]]\nkind = "x"',
        '[[secret]]\nkind = "x"\nstarts = "acme"\nthen = "a"',
        '[[secret]]\nkind = "x"\nstarts = []\nthen = "a"',
        '[[secret]]\nkind = "x"\nstarts = [""]\nthen = "a"',
        '[[secret]]\nkind = "x]"\nstarts = ["a"]\nthen = "a"',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "("',
        '[[secret]]\nkind = "x"\nstarts = ["a"]\nthen = "a*"',
    ],
)
def test_a_table_that_is_none_is_refused(table, tmp_path):
    (tmp_path / "ours.toml").write_text(table)
    with pytest.raises(ConfigurationError, match=r"ours\.toml"):
        redactor(tmp_path / "ours.toml")


async def test_a_table_is_a_setting(tmp_path):
    (tmp_path / "ours.toml").write_text('[[secret]]\nkind = "acme key"\nstarts = ["acme_"]\nthen = "[a-z0-9]{8,}"\n')
    scope = Scope("", "ada", "app")
    uri = f"libsql:///:memory:?secrets_file={tmp_path}/ours.toml"
    async with await Memories.open(uri, llm=False, worker=False) as memories:
        (id,) = await memories.add(scope, ["The key is acme_abcd1234"])
        assert (await memories.get(scope, id)).content == "The key is [secret: acme key]"
    with pytest.raises(ConfigurationError, match="secrets_file"):
        await Memories.open("libsql:///:memory:", secrets_file=f"{tmp_path}/none.toml", llm=False)
    with pytest.raises(ConfigurationError, match="redact"):
        await Memories.open(uri, redact=str.lower, llm=False)


@pytest.mark.parametrize("sign", ["=>", ":=", "==", "=", ":", "：", "– ", "— "])
def test_a_sign_assigns_to_a_name_as_far_before_it_as_one_may_stand_and_signs_before_that_do_not_matter(sign):
    value = "wJalrXUtnFEMI0K7MDENGbPxRfiCYEXAMPLEKEY"
    told = f'= : "x":y –aws_secret_access_key\\\\\\"\u200b\u200b\u200b{sign}   {value} ='
    assert value not in redact(told)


def test_what_is_looked_for_first_is_held_by_all_that_each_pattern_finds() -> None:
    """A kind is only looked for in a text that holds one of its words: each way to say it is still masked."""
    said = {
        "password": [
            *(f"{name} is Xk9#mQ2vLp" for name in ("password", "passphrase", "passcode", "Kennwort", "contraseña")),
            *(f"{name} is Xk9#mQ2vLp" for name in ("Passwort", "mot de passe", "senha", "wachtwoord", "lösenord")),
            *("hasło to Xk9#mQ2vLp", "the pw is Xk9#mQ2vLp", "pass was Xk9#mQ2vLp", "pwd Xk9mQ2vLp", "пароль k9mq2vlp"),
            *("şifrem k9mq2vlp", "密码是Xk9#mQ2vLp", "パスワードはXk9#mQ2vLp", "비밀번호는 Xk9#mQ2vLp"),
            "db.example:5432:shop:bob:Xk9#mQ2vLp",
        ],
        "command line secret": [
            *("mysql -u bob -pXk9#mQ2vLp", "mariadb-dump -h db -pXk9#mQ2vLp", "sshpass -p Xk9#mQ2vLp ssh bob@host"),
            *("redis-cli -h db -a Xk9#mQ2vLp", "deploy --api-key Xk9#mQ2vLp"),
        ],
        "pin": ["my PIN is 4821", "PIN code: 4821"],
        "service key": ["okta api token 00aabbccddeeff00112233445566778899aabbcc"],
    }
    for kind, texts in said.items():
        for text in texts:
            assert f"[secret: {kind}]" in redact(f"For the record, {text} and so on."), text


def test_a_secret_begins_at_the_edge_of_a_word_and_a_key_block_anywhere() -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    assert token not in redact(f"see {token}, ({token}) -{token}")
    assert redact(f"x{token}") == f"x{token}"
    block = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
    assert redact(f"key9{block}") == "key9[secret: private key]"
    assert "Zm9vYmFyYmF6cXV4" not in redact("https://x.example/a?sig=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6")
