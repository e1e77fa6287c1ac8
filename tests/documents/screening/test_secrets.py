"""Secrets are found by their form, examples and templates are not. The values here are made up when the tests run."""

from __future__ import annotations

import base64
import random
import string

import orjson
import pytest

from app.documents.screening.screen import find, screen

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def draw(count: int, alphabet: str = LETTERS, seed: int = 7) -> str:
    """Characters that look random, and are the same in each run."""
    return "".join(random.Random(seed).choices(alphabet, k=count))  # noqa: S311  # not a secret


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def make_jwt(subject: str) -> str:
    header, claims = ({"alg": "HS256", "typ": "JWT"}, {"sub": subject, "exp": 1_900_000_000})
    return ".".join((encode(orjson.dumps(header)), encode(orjson.dumps(claims)), draw(43)))


KEY = "-----BEGIN {}PRIVATE KEY-----\n{}\n-----END {}PRIVATE KEY-----"
SECRETS = {
    "private key": KEY.format("RSA ", draw(64), "RSA "),
    "private key in JSON": orjson.dumps({"key": KEY.format("", draw(64), "")}).decode(),
    "AWS access key": f"aws_access_key_id = AKIA{draw(16, UPPER)}",
    "AWS secret key": f"aws_secret_access_key = {draw(40)}",
    "GitHub": f"ghp_{draw(36)}",
    "GitLab": f"glpat-{draw(20)}",
    "Slack": f"xoxb-{draw(12, string.digits)}-{draw(12, string.digits)}-{draw(24)}",
    "Slack webhook": f"https://hooks.slack.com/services/T{draw(9, UPPER)}/B{draw(9, UPPER)}/{draw(24)}",
    "Stripe": f"sk_live_{draw(24)}",
    "Google": f"AIza{draw(35)}",
    "Anthropic": f"sk-ant-api03-{draw(93)}AA",
    "OpenAI": f"sk-proj-{draw(60)}T3BlbkFJ{draw(60)}",
    "Hugging Face": f"hf_{draw(34, string.ascii_letters)}",
    "npm": f"npm_{draw(36)}",
    "SendGrid": f"SG.{draw(22)}.{draw(43)}",
    "JWT": make_jwt("u-4711"),
    "bearer": f"curl -H 'Authorization: Bearer {draw(40)}' https://api.acme.io",
    "basic": "Authorization: Basic " + base64.b64encode(b"deploy:Tr0ub4dor&3").decode(),
    "the option of curl": "curl -u deploy:Zk8vQ2mWx9 https://api.acme.io/v1",
    "a registry of Docker": '"r.acme.io": {"auth": "' + base64.b64encode(b"deploy:Tr0ub4dor&3").decode() + '"}',
    "connection string": "postgresql://app:Zk8vQ2mWx@db.acme.io:5432/app",
    "ADO": "Server=tcp:db.acme.io;Database=app;User Id=app;Password=Zk8vQ2mWx;",
    "Azure storage": f"AccountName=acme;AccountKey={draw(86)}==",
    "assigned key": f'"client_secret": "{draw(32)}"',
    "password": "Root password: Zk8!vQ2mWx",
    "a prefix of its own": f"acme_{draw(40)}",
    "a password in a sentence": "Log in as deploy with Blau-Wal77!x and restart.",
    "a password in a table": "| user | password |\n| --- | --- |\n| deploy | Blau-Wal77!x |",
    "a PIN": "The code of the safe is 7392.",
    "Sentry": f"sntryu_{draw(64, HEX)}",
    "Pulumi": f"pul-{draw(40, HEX)}",
    "Sourcegraph": f"sgp_{draw(16, HEX)}_{draw(40, HEX)}",
    "Brevo": f"xkeysib-{draw(64, HEX)}-{draw(16)}",
    "NuGet": f"oy2{draw(43, HEX)}",
    "LangSmith": f"lsv2_pt_{draw(32, HEX)}_{draw(10, HEX)}",
    "Perplexity": f"pplx-{draw(48)}",
    "OpenShift": f"sha256~{draw(43)}",
    "German password": "Passwort: Blau-Wal77!x",
}
ORDINARY = {
    "the example of AWS": "AKIAIOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "a name for a key": 'api_key = "your-api-key"',
    "a placeholder": "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
    "a template": "password: {{ vault.db_password }}",
    "a variable": "postgresql://app:$DB_PASSWORD@db.acme.io/app",
    "an address of this machine": "postgresql://app:Zk8vQ2mWx@localhost/app",
    "a user of curl": "curl --user deploy:$PASSWORD_2 https://api.acme.io and curl -u name:your-password-1 https://x.io",
    "the word auth": '"auth": "required", "auth": "bmVpdGhlci1vZi10aGVt"',
    "a usual password": "postgresql://postgres:postgres@db/app",
    "a key without its text": "The file begins with -----BEGIN PRIVATE KEY----- and ends with",
    "the example of JWT": make_jwt("1234567890"),
    "code": "password = os.environ['DB_PASSWORD_2']",
    "code that calls": "password=hash_password(user.Password1)",
    "the example of a PIN": "The PIN is 1234.",
    "an exit code": "The exit code is 1001.",
    "a digest": "sha256:" + draw(64, HEX),
    "an id": "0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11",
    "names with prefixes": "re_compile_all_patterns_of_a_rule_set, secret_values_of_a_tenant",
    "a rule": "Password: at least 12 characters",
    "a long name": "access_token: com.acme.service.tokens.AccessTokenProvider2",
    "an address with a port": "http://db.acme.io:8080/path@2",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found(name: str) -> None:
    assert screen(f"Notes on the deployment.\n\n{SECRETS[name]}\n\nAsk the team.") == ["secret"]


@pytest.mark.parametrize("before", range(8_100, 8_200, 9))
def test_a_secret_is_found_wherever_it_stands(before: int) -> None:
    secret = f"ghp_{draw(36)}"
    text = "ä " * (before // 3) + secret + " end" * 3_000
    found = {text[finding.start : finding.end].strip() for finding in find(text)}
    assert found == {secret}


def test_the_flag_of_a_private_key_covers_all_of_it() -> None:
    key = KEY.format("RSA ", draw(3_000), "RSA ")
    (finding,) = find("Notes.\n" * 1_000 + key)
    assert finding.end - finding.start >= 3_000


@pytest.mark.parametrize("name", ORDINARY)
def test_what_only_resembles_a_secret_is_not_found(name: str) -> None:
    assert screen(ORDINARY[name]) == []
