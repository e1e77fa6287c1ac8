"""Languages of text: names of Postgres text-search configurations, and the Snowball stemmer of each."""

from __future__ import annotations

from collections.abc import Mapping

SNOWBALL: Mapping[str, str] = {
    name: name
    for name in (
        "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french",
        "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
        "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil",
        "turkish", "yiddish",
    )
}  # fmt: skip

LANGUAGES: tuple[str, ...] = ("simple", *SNOWBALL)
"""What `language` may be: those that Postgres 16 ships; the check on the entries table names the same."""
