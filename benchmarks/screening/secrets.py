"""Secrets in the formats of their issuers, others without one, and ordinary values that look like secrets."""

import base64
import hashlib
import string
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

import orjson

from benchmarks.screening.samples import Sample, repeat, surround

COUNT = 10
"""Samples of each kind."""
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
SLUG = LETTERS + "_-"

Make = Callable[[Random], str]


def draw(random: Random, count: int, alphabet: str = LETTERS) -> str:
    """Characters that look random."""
    return "".join(random.choices(alphabet, k=count))


def type_password(random: Random) -> str:
    """A password as people type it: two words, digits and a mark."""
    words = random.sample(("Blau", "wal", "Kran", "tide", "Nord", "brick", "Ofen", "lamp", "Zimt", "goat"), 2)
    return f"{words[0]}{random.choice('-_!+#')}{words[1]}{random.randrange(100, 9_999)}"


def encode(value: object) -> str:
    """Base64 of JSON, as in tokens."""
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")


def write_jwt(random: Random, subject: str) -> str:
    """A signed token."""
    claims = {"sub": subject, "exp": random.randrange(1_800_000_000, 2_000_000_000)}
    return f"{encode({'alg': 'HS256', 'typ': 'JWT'})}.{encode(claims)}.{draw(random, 43, SLUG)}"


def write_key(random: Random, kind: str) -> str:
    """A private key in PEM."""
    lines = "\n".join(draw(random, 64, LETTERS + "+/") for _ in range(12))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


KNOWN: dict[str, Make] = {
    "private key": lambda r: write_key(r, r.choice(("RSA ", "EC ", "OPENSSH ", ""))),
    "AWS": lambda r: f"aws_access_key_id = AKIA{draw(r, 16, UPPER)}\naws_secret_access_key = {draw(r, 40)}",
    "GitHub": lambda r: f"gh{r.choice('pous')}_{draw(r, 36)}",
    "GitLab": lambda r: f"glpat-{draw(r, 20, SLUG)}",
    "Slack": lambda r: f"xoxb-{draw(r, 12, string.digits)}-{draw(r, 12, string.digits)}-{draw(r, 24)}",
    "Slack webhook": lambda r: (
        f"https://hooks.slack.com/services/T{draw(r, 9, UPPER)}/B{draw(r, 9, UPPER)}/{draw(r, 24)}"
    ),
    "Stripe": lambda r: f"sk_live_{draw(r, 24)}",
    "Google": lambda r: f"AIza{draw(r, 35, SLUG)}",
    "Anthropic": lambda r: f"sk-ant-api03-{draw(r, 93, SLUG)}AA",
    "OpenAI": lambda r: f"sk-proj-{draw(r, 60, SLUG)}T3BlbkFJ{draw(r, 60, SLUG)}",
    "Hugging Face": lambda r: f"hf_{draw(r, 34, string.ascii_letters)}",
    "npm": lambda r: f"npm_{draw(r, 36)}",
    "SendGrid": lambda r: f"SG.{draw(r, 22, SLUG)}.{draw(r, 43, SLUG)}",
    "JWT": lambda r: write_jwt(r, f"u-{r.randrange(10_000)}"),
    "bearer token": lambda r: f"curl -H 'Authorization: Bearer {draw(r, 40)}' https://api.acme.io/v1",
    "connection string": lambda r: (
        f"{r.choice(('postgresql', 'mysql', 'amqps', 'redis'))}://app:{draw(r, 14)}@db{r.randrange(9)}.acme.io/app"
    ),
    "ODBC": lambda r: f"Server=tcp:db.acme.io;Database=app;User Id=app;Password={draw(r, 12)};",
    "Azure storage": lambda r: f"AccountName=acme;AccountKey={draw(r, 86)}==",
    "assigned key": lambda r: (
        f'{r.choice(("api_key", "client_secret", "ACCESS_TOKEN"))}{r.choice((" = ", ": "))}"{draw(r, 32)}"'
    ),
    "assigned password": lambda r: f"{r.choice(('Password', 'password', 'Passwort'))}: {type_password(r)}",
}
UNKNOWN: dict[str, Make] = {
    "key without a name": lambda r: f"Use this on the build server: {draw(r, 40, LETTERS + '+/')}",
    "token of another issuer": lambda r: f"{r.choice(('sntrys', 'flyv1', 'acme', 'dsn'))}_{draw(r, 40)}",
    "password in a sentence": lambda r: f"Log in as deploy with {type_password(r)} and restart the crane.",
    "password in a table": lambda r: f"| account | password |\n| --- | --- |\n| deploy | {type_password(r)} |",
    "PIN": lambda r: f"The code of the safe is {r.randrange(1_000, 999_999)}.",
}
FRESH: tuple[Make, ...] = (
    lambda r: f"zk_prod_{draw(r, 40)}",
    lambda r: f"orchard-live-{draw(r, 36)}",
    lambda r: f"export ORCHARD_CRED={draw(r, 36)}",
    lambda r: f"credential: {draw(r, 44)}",
    lambda r: f"The wifi passphrase is {type_password(r)} for guests.",
    lambda r: f"Use root / {type_password(r)} to get in.",
    lambda r: f"Das WLAN-Passwort lautet {type_password(r)}.",
    lambda r: f"user deploy pw {type_password(r)}",
    lambda r: f"user,password\ndeploy,{type_password(r)}",
    lambda r: f"Alarm code: {r.randrange(3_000, 9_999)}",
    lambda r: f"Die PIN der Karte ist {r.randrange(3_000, 9_999)}.",
    lambda r: f"punch in {r.randrange(3_000, 9_999)} at the side door",
    lambda r: f"curl -u deploy:{draw(r, 16)} https://api.acme.io/v1",
    lambda r: f"X-Api-Key: {draw(r, 32)}",
    lambda r: f"https://api.acme.io/v1?access_token={draw(r, 40)}",
    lambda r: f"secret: {draw(r, 64, HEX)}",
    lambda r: "seed phrase: ripple castle oven lamp goat brick tide wal zimt nord kran house",
    lambda r: draw(r, 40),
    lambda r: f"(token {draw(r, 32)})",
    lambda r: f'"auth": "{draw(r, 44)}="',
)
"""No rule was written for these."""


def _digest(random: Random) -> str:
    kind = random.choice(("md5", "sha1", "sha256", "sha512"))
    return f"{kind}sum: {hashlib.new(kind, random.randbytes(9), usedforsecurity=False).hexdigest()}"


ORDINARY: dict[str, Make] = {
    "digest": _digest,
    "UUID": lambda r: f"entry_id: {UUID(bytes=r.randbytes(16), version=4)}",
    "commit": lambda r: f"Merge commit {draw(r, 40, HEX)} into release-{r.randrange(9)}",
    "hash of a lock file": lambda r: f'"integrity": "sha512-{base64.b64encode(r.randbytes(64)).decode()}"',
    "embedded image": lambda r: f"![](data:image/png;base64,{base64.b64encode(r.randbytes(300)).decode()})",
    "public key": lambda r: (
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{draw(r, 43)} ada@acme.io\n-----BEGIN PUBLIC KEY-----\n"
        f"{draw(r, 64)}\n-----END PUBLIC KEY-----"
    ),
    "certificate": lambda r: f"-----BEGIN CERTIFICATE-----\n{draw(r, 64)}\n{draw(r, 64)}\n-----END CERTIFICATE-----",
    "example key": lambda r: r.choice(
        (
            "AKIAIOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            'api_key = "your-api-key-goes-here-0001"',
            "export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "password: <your password>",
            "postgresql://user:password@host:5432/db",
            "OPENAI_API_KEY=sk-...",
        )
    ),
    "example of JWT": lambda r: write_jwt(r, "1234567890"),
    "variable": lambda r: r.choice(
        (
            "password = os.environ['DB_PASSWORD_2']",
            "postgresql://app:${DB_PASSWORD}@db.acme.io/app",
            "client_secret: {{ vault.client_secret_v2 }}",
            "const apiKey = config.get('services.apiKey2')",
            'token := os.Getenv("ACME_TOKEN_1")',
        )
    ),
    "rule about passwords": lambda r: (
        f"Password: at least {r.randrange(8, 20)} characters, among them a digit and a mark. Change it each year."
    ),
    "test key": lambda r: f"sk_test_{draw(r, 24)}",
    "minified code": lambda r: ";".join(
        f"var {draw(r, 2, string.ascii_lowercase)}=function(e){{return {draw(r, 3)}(e,{r.randrange(99)})}}"
        for _ in range(8)
    ),
    "serial number": lambda r: (
        "License " + "-".join(draw(r, 5, string.ascii_uppercase + string.digits) for _ in range(5))
    ),
    "query of an address": lambda r: f"https://acme.io/map?session={draw(r, 24)}&v={r.randrange(99)}",
    "bucket key": lambda r: f"storage_key: uploads/{r.randrange(2020, 2027)}/{UUID(bytes=r.randbytes(16), version=4)}",
}


def make_secrets() -> Iterator[Sample]:
    """Yield samples for the flag `secret`."""
    for kind, make in KNOWN.items():
        yield from repeat(kind, "secret", COUNT, make)
    for kind, make in UNKNOWN.items():
        yield from repeat(kind, "secret", COUNT, make, known=False)
    for number, make in enumerate(FRESH):
        content = surround(make(Random(f"fresh {number}")), Random(number))
        yield Sample("secrets: fresh", "secret", content, known=False)
    for kind, make in ORDINARY.items():
        yield from repeat(f"secret-like: {kind}", None, COUNT, make)
