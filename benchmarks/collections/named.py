"""The collections by name."""

from collections.abc import Sequence
from pathlib import Path

from app.evaluation.collection import Collection, read_collection, read_path
from benchmarks.collections.mixed import NAME as MIXED
from benchmarks.collections.mixed import mix_languages
from benchmarks.place import COLLECTIONS

JUDGEMENTS = {
    "scifact": "qrels.tsv",
    "cranfield": "qrels.tsv",
    "xquad-de": "qrels.tsv",
    "squad-dev": "qrels.sample1k.tsv",
}
MULTILINGUAL = Path(__file__).parent / "multilingual"
HELP_DESK = Path(__file__).parent / "help-desk"
"""Questions of a company's staff, with answers in other words and without titles: few words lead to the answer."""

OWN = {folder.name: folder for folder in (MULTILINGUAL, HELP_DESK)}
"""Collections that are part of the project."""

NAMES = (*JUDGEMENTS, MIXED, *OWN)


def is_present(name: str) -> bool:
    """Whether the files of the collection are on this machine."""
    return name in OWN or COLLECTIONS.is_dir()


def read_named(name: str) -> Collection:
    """The collection with this name. Raises UnreadableCollection."""
    if name in OWN:
        return read_path(OWN[name])
    if name == MIXED:
        german, english = (read_collection(COLLECTIONS / part) for part in ("xquad-de", "squad-dev"))
        return mix_languages(german, english).sample(1_000)
    return read_collection(COLLECTIONS / name, Path(JUDGEMENTS[name]))


def read_collections(names: Sequence[str] = NAMES) -> list[Collection]:
    """The collections with these names. Raises UnreadableCollection."""
    return [read_named(name) for name in names]
