"""Languages of text: names of Postgres text-search configurations, and the Snowball stemmer of each."""

from __future__ import annotations

from collections.abc import Mapping

SNOWBALL: Mapping[str, str] = {
    name: name
    for name in (
        "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "indonesian",
        "irish", "italian", "lithuanian", "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish",
        "swedish", "turkish",
    )
}  # fmt: skip

LANGUAGES: tuple[str, ...] = ("simple", *SNOWBALL)
"""What `language` may be; the check on the entries table names the same."""
