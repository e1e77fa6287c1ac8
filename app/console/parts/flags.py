"""The flags of suspicious content, as pages name them."""

from __future__ import annotations

from collections.abc import Mapping

FLAGS: Mapping[str, str] = {
    "invisible_text": "invisible text",
    "zero_width": "characters without a width",
    "secret": "a secret, such as a key",
    "instructions": "instructions to language models",
}


def name_flag(flag: str) -> str:
    """The name of a flag; that of an unknown one is the text itself."""
    return FLAGS.get(flag, flag)
