"""Which values that match a pattern of a secret are one."""

import base64
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise

import orjson

_WORDS = re.compile(
    r"example|sample|dummy|fake|placeholder|change[-_]?(?:me|it)|redacted|removed|your|insert|replace|todo|foobar|lorem"
    r"|xxxx|\.\.\.|…|\*\*\*|0123456789|1234567890|123456|abcdef(?!0)|deadbeef"
    r"|secret[-_]?here|not[-_]?a?[-_]?real|test[-_]?(?:key|token)"
    r"|(?:my|the|some|new|old)[-_]?(?:secret|password|passwort|token|key)"
    r"|<|>|\$\{|\{\{|\}\}|%\(|%[A-Z_]+%|\$\(",
    re.IGNORECASE,
)
_COMMON = re.compile(
    r"admin|api_?key|bar|baz|changeme|default|demo|example|false|foo|geheim|guest|hidden|hunter2|kennwort|key|letmein|mysql"
    r"|none|null|p4ssw0rd|passwd|passw0rd|passwort|postgres|pw|pwd|qwerty|redis|root|s3cr3t|string|testing|token|true|value"
    r"|(?:my|admin)?pass(?:word)?(?:1|123)?|s[3e]cret(?:123)?|test|user(?:name)?|admin123|zero",
    re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """Whether the value is a placeholder: it contains a word for a secret, is a variable, or is a usual value."""
    return bool(_COMMON.fullmatch(value) or _WORDS.search(value)) or value[:1] in "$%{<[("


def entropy(value: str) -> float:
    """Shannon entropy in bits for each character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values()) if size else 0.0


def is_random(value: str, least: float = 3.0) -> bool:
    """Whether a value has at least this entropy for each character, and is not a placeholder."""
    return entropy(value) >= least and not is_placeholder(value)


_EXAMPLE_PINS = frozenset({"1337", "4711", "112233", "12345678"})
"""Numbers that documentation shows."""
_EXAMPLE_SUBJECT = "1234567890"
"""The subject of the token that documentation of JWT shows."""
_EXAMPLE_HOST = re.compile(
    r"(?:[\w.-]*\.)?(?:example(?:\.\w+)?|localhost|invalid|test|127\.0\.0\.1|host(?:name)?|server)$", re.IGNORECASE
)
_CODE = re.compile(r"[()\[\]{}<>\\$=|`,;]|::|->|//|\w\.[a-z_]")
_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^0-9A-Za-z]")))
_NAME = re.compile(r"[a-z]{4,}[_.-][a-z]{4,}")


def _is_jwt(value: str) -> bool:
    try:
        header, claims = (orjson.loads(_decode(part)) for part in value.split(".")[:2])
    except ValueError:
        return False
    known = isinstance(header, dict) and "alg" in header and isinstance(claims, dict)
    return known and claims.get("sub") != _EXAMPLE_SUBJECT


def _is_bearer(value: str) -> bool:
    return _is_jwt(value) if value.startswith("eyJ") and value.count(".") == 2 else is_random(value, 3.5)


def _is_basic(value: str) -> bool:
    try:
        _, colon, password = _decode(value.translate({43: "-", 47: "_"})).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and len(password) >= 4 and password.isprintable() and not is_placeholder(password)


def _is_connection(value: str) -> bool:
    """`value` is user:password@host of a connection string."""
    account, _, host = value.rpartition("@")
    user, _, password = account.partition(":")
    name = re.split(r"[:/?,]", host, maxsplit=1)[0]
    return password.lower() != user.lower() and not is_placeholder(password) and not _EXAMPLE_HOST.match(name)


def _is_password(value: str) -> bool:
    """Whether people type this as a password: it has digits and two other kinds of characters, and is not code."""
    value = value.rstrip(".,;:!?")
    return (
        8 <= len(value) <= 64
        and sum(kind.search(value) is not None for kind in _KINDS) >= 3
        and _KINDS[2].search(value) is not None
        and _CODE.search(value) is None
        and entropy(value) >= 2.75
        and not is_placeholder(value)
    )


def _is_assigned(value: str) -> bool:
    """Whether a value with the name of a key is random: it has letters and digits, and is not made of words."""
    letters = _KINDS[0].search(value) or _KINDS[1].search(value)
    return bool(letters and _KINDS[2].search(value) and is_random(value, 3.5) and not _NAME.search(value))


def _is_mixed(value: str) -> bool:
    """Whether a value has lower case, upper case and digits throughout, as keys have and names do not."""
    if value.endswith("="):  # a digest
        return False
    counts = [sum(map(test, value)) for test in (str.islower, str.isupper, str.isdigit)]
    changes = sum(one.isdigit() != other.isdigit() for one, other in pairwise(value))
    return min(counts) >= 2 and changes >= 4 and is_random(value, 4.0) and not _NAME.search(value)


def _is_row(rows: str) -> bool:
    """Whether a cell of the rows of a table is a password."""
    return any(_is_password(cell.strip("`*\"' ")) for cell in rows.replace("\n", "|").split("|"))


def _is_pin(value: str) -> bool:
    """Whether digits are not the usual ones of an example, nor a year."""
    steps = {int(b) - int(a) for a, b in pairwise(value)}
    return len(steps) > 1 and not (len(value) == 4 and value[:2] in {"19", "20"}) and value not in _EXAMPLE_PINS


def _decode(part: str) -> bytes:
    """Raises ValueError."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "assigned": _is_assigned,
    "basic": _is_basic,
    "bearer": _is_bearer,
    "connection": _is_connection,
    "jwt": _is_jwt,
    "mixed": _is_mixed,
    "password": _is_password,
    "pin": _is_pin,
    "row": _is_row,
    "value": lambda value: not is_placeholder(value),
}
"""The names that rules have for them."""
