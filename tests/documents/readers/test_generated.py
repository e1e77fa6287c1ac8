"""Files that programs generate are told as what they are, and do not become chunks of noise."""

from __future__ import annotations

import json

import pytest

from app.documents.formats import detect_format
from app.documents.parsed import ParseLimits
from app.documents.readers.generated import parse_lock_file, parse_source_map, parse_stylesheet
from app.documents.readers.source_code import parse_javascript
from app.errors import UnreadableDocument

LIMITS = ParseLimits()
MINIFIED = "/*! harbour v1.2 | (c) Ada\n * MIT licence */\n" + "function a(b){return b.c(d,e)};" * 200
SOURCE = "function sell(ticket) {\n  return ticket.close()\n}\n\n" * 60


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.js", "text/javascript"),
        ("a.min.mjs", "text/javascript"),
        ("a.css", "text/css"),
        ("a.scss", "text/css"),
        ("a.lock", "text/x-lockfile"),
        ("pnpm-lock.yaml", "text/x-lockfile"),
        ("a.py", "text/x-source"),
    ],
)
def test_generated_files_have_their_media_types(name: str, expected: str) -> None:
    assert detect_format(b"a {}\n", name).media_type == expected


def test_source_map_is_recognised_by_its_name_and_its_keys() -> None:
    data = b'{"version": 3, "sources": []}'
    assert detect_format(data, "a.js.map").name == "sourcemap"
    assert detect_format(data, "a.json").name == "json"
    assert detect_format(b'{"harbour": 3}', "a.map").name == "json"


def test_minified_code_becomes_a_note_with_the_name_of_the_library() -> None:
    document = parse_javascript(MINIFIED.encode(), LIMITS)
    assert document.text == (
        "harbour v1.2 | (c) Ada\nMIT licence\n\nMinified JavaScript of 6,245 characters. "
        "Its code is not searched; the source of it can be."
    )
    style = parse_stylesheet(b".a{color:red}" * 300, LIMITS)
    assert style.text.startswith("Minified CSS of 3,900 characters.")


@pytest.mark.parametrize("text", [SOURCE, MINIFIED[:1_000], "var text = '" + "many words in one line " * 200 + "'"])
def test_code_that_people_wrote_is_read(text: str) -> None:
    assert parse_javascript(text.encode(), LIMITS).text == text.strip("\n")
    assert parse_stylesheet(text.encode(), LIMITS).text == text.strip("\n")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"lockfileVersion": 3, "packages": {"": {"name": "x"}, "node_modules/@a/b": {"version": "1.2"}}}),
        json.dumps({"dependencies": {"c": {"version": "3", "dependencies": {"@a/b": {"version": "1.2"}}}}}),
        json.dumps({"packages": [{"name": "@a/b", "version": "1.2"}]}),
        json.dumps({"default": {"@a/b": {"version": "==1.2", "hashes": ["sha256:0"]}}}),
        '[[package]]\nname = "@a/b"\nversion = "1.2"\nsource = "registry"\n',
        '# yarn lockfile v1\n\n"@a/b@^1.0", "@a/b@~1":\n  version "1.2"\n  resolved "https://x"\n',
        "lockfileVersion: '9.0'\n\npackages:\n\n  '@a/b@1.2':\n    resolution: {integrity: sha512-0}\n",
    ],
)
def test_lock_file_becomes_names_and_versions(text: str) -> None:
    document = parse_lock_file(text.encode(), LIMITS)
    assert "@a/b 1.2" in document.text.split("\n")
    assert not any(noise in document.text for noise in ("sha", "https", "registry"))
    assert document.title == "Locked packages"


def test_lock_file_in_an_unknown_form_is_kept() -> None:
    assert parse_lock_file(b"harbour: closed\n", LIMITS).text == "harbour: closed"
    assert parse_lock_file(b'{"a": [', LIMITS).text == '{"a": ['


def test_source_map_has_the_names_of_its_sources() -> None:
    value = {
        "version": 3,
        "file": "a.js",
        "sources": ["src/a.ts", 7],
        "sourcesContent": ["secret"],
        "mappings": "AAAA",
    }
    assert parse_source_map(json.dumps(value).encode(), LIMITS).text == "Source map of a.js\n\nsrc/a.ts"
    sections = {"sections": [{"map": {"sources": ["b.ts"]}}, 1]}
    assert parse_source_map(json.dumps(sections).encode(), LIMITS).text == "Source map\n\nb.ts"
    with pytest.raises(UnreadableDocument, match="damaged"):
        parse_source_map(b'{"sources": [', LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        b"/*!" * 200_000,
        b"/*! " + b"a" * 400_000,
        b'"a@' * 200_000,
        b"  a@1" * 200_000,
        b'[[package]]\nname = "' * 50_000,
        b"    a (1" * 100_000,
    ],
)
def test_odd_generated_files_are_read(data: bytes) -> None:
    for read in (parse_javascript, parse_stylesheet, parse_lock_file):
        assert read(data, LIMITS).text
