"""Files of several formats and sizes, different in each round and the same in each run."""

import json
from dataclasses import replace
from itertools import count

from app.contract.assets import Upload
from tests.fixtures.documents import write_pdf

PLACES = ("harbour", "lighthouse", "pier", "shipyard", "customs house", "breakwater", "chandlery")


class FileSource:
    """Creates one file after the other."""

    def __init__(self, seed: int) -> None:
        self._numbers = count(seed * 1_000_000)

    def make(self) -> Upload:
        """The next file; no two have the same bytes or the same name."""
        number = next(self._numbers)
        place = PLACES[number % len(PLACES)]
        form = ("md", "txt", "html", "csv", "jsonl", "pdf")[number % 6]
        data = getattr(self, f"_make_{form}")(number, place)
        return Upload(f"{number}.{form}", data, external_id=f"file-{number}", tags=[place.split()[0]])

    def revise(self, file: Upload) -> Upload:
        """A new version of a file; its first half is unchanged."""
        data = self._make_md(int(file.name.split(".")[0]), "harbour")
        addition = f"\n\n# Revised\n\nBy {next(self._numbers)}".encode()
        return replace(file, name=f"{file.name}.md", data=data + addition)

    def _make_md(self, number: int, place: str) -> bytes:
        # More than a hundred chunks, so that the provider is called twice.
        parts = [f"# Part {n}\n\nThe {place} has berth {n}, as file {number} says.\n" for n in range(130)]
        return "\n".join(parts).encode()

    def _make_txt(self, number: int, place: str) -> bytes:
        return "\n\n".join(f"Note {n} of {number} on the {place}. " * 40 for n in range(20)).encode()

    def _make_html(self, number: int, place: str) -> bytes:
        body = "".join(f"<h2>{place} {n}</h2><p>What {number} says of it.</p>" for n in range(20))
        return f"<!doctype html><html><title>Page {number}</title><body>{body}</body></html>".encode()

    def _make_csv(self, number: int, place: str) -> bytes:
        return ("name,berths\n" + "".join(f"{place} {n},{number + n}\n" for n in range(50))).encode()

    def _make_jsonl(self, number: int, place: str) -> bytes:
        return "".join(json.dumps({"place": place, "berth": number + n}) + "\n" for n in range(50)).encode()

    def _make_pdf(self, number: int, place: str) -> bytes:
        return write_pdf([[f"Page {page} of {number} on the {place}."] * 20 for page in range(3)])
