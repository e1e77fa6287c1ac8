"""Values that look like a secret and are none: examples in documentation, and templates."""

from __future__ import annotations

import math
import re
from collections import Counter

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
    """Whether the value stands for a secret: it contains a word for that, is a variable, or one of the usual values."""
    return bool(_COMMON.fullmatch(value) or _WORDS.search(value)) or value[:1] in "$%{<[("


def entropy(value: str) -> float:
    """Shannon entropy in bits for each character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values()) if size else 0.0


def is_random(value: str, least: float = 3.0) -> bool:
    """Whether a value has so much entropy for each character, and is not a placeholder."""
    return entropy(value) >= least and not is_placeholder(value)
