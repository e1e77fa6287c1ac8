"""Definitions in source code, and generated files."""

import json
import time

import pytest

from app.documents.chunking import split
from app.documents.formats import detect_format
from app.documents.parsed import ParseLimits
from app.documents.readers.generated import parse_lock_file, parse_source_map, parse_stylesheet
from app.documents.readers.source_code import MAX_DEFINITIONS, find_definitions, parse, parse_javascript
from app.errors import UnreadableDocument

PYTHON = '''"""A module with a def in its text:

def not_one():
"""
import os

# Sells tickets.
@dataclass
class Shop(Base):
    """A shop."""

    def sell(
        self, ticket: str
    ) -> None:
        def inner():
            pass
        if ticket:
            return
        else:
            raise ValueError

    async def close(self): ...


def main() -> None:
    Shop().sell("x")


if __name__ == "__main__":
    main()
'''
JAVA = """package shop;
/** Sells
 *  tickets. */
public final class Shop<T> extends Base {
    private int count = sum(1, 2);
    public Shop(int count,
                String name) {
        this.count = count;
        if (count > 1) {
            throw new Error();
        }
    }
    @Override
    public void sell(Ticket ticket) throws Error {
        print(ticket);
    }
}
"""
JAVASCRIPT = """import { a } from 'b'
export const sell = async (ticket) => {
  run(() => {
    done(ticket)
  })
}
export default class Shop {
  constructor(name) {
    this.name = name
  }
  static async close() {
    while (true) {
    }
  }
}
function main() {
  describe('x', function () {
  })
}
app.listen(8000)
"""
GO = """func (s *Shop) Sell(t Ticket) error {
	if err := s.check(t); err != nil {
		return err
	}
	return nil
}
type Shop struct {
}
func main() {
}
"""
RUST = """use std::fmt;
/// A shop.
#[derive(Debug)]
pub(crate) struct Shop<T> {
    name: String,
}
impl<T> fmt::Display for Shop<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self { _ => Ok(()) }
    }
}
"""
C = """#include <stdio.h>
static int count;
struct shop;
/* Sells. */
static struct ticket *sell(struct shop *shop,
                           int number)
{
    for (int i = 0; i < 3; i++) {
        printf("x");
    }
    return NULL;
}
int main(void) {
    return sell(0, 1);
}
void
close(void)
{
}
"""
SQL = """create table if not exists shops (
  id uuid primary key
);
create or replace function sell(ticket uuid) returns void language sql as $$
  select 1;
$$;
"""
SHELL = """#!/bin/sh
sell() {
  if true; then
    echo x
  fi
}
stop()
{
  echo y
}
sell now
"""
RUBY = """module Harbour
  class Shop < Base
    def sell(ticket)
      ticket.each do |one|
      end
    end
  end
end
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            PYTHON,
            [(1, "class Shop"), (2, "def sell"), (2, "def close"), (1, "def main"), (1, 'if __name__ == "__main__"')],
        ),
        (JAVA, [(1, "class Shop"), (2, "Shop()"), (2, "sell()")]),
        (
            JAVASCRIPT,
            [
                (1, "const sell"),
                (1, "class Shop"),
                (2, "constructor()"),
                (2, "close()"),
                (1, "function main"),
                (1, "app.listen(8000)"),
            ],
        ),
        (GO, [(1, "func (s *Shop) Sell"), (1, "type Shop struct"), (1, "func main")]),
        (RUST, [(1, "struct Shop"), (1, "impl<T> fmt::Display for Shop<T>"), (2, "fn fmt")]),
        (C, [(1, "sell()"), (1, "main()"), (1, "void"), (1, "close()")]),
        (SQL, [(1, "table shops"), (1, "function sell")]),
        (SHELL, [(1, "sell()"), (1, "stop()"), (1, "sell now")]),
        (RUBY, [(1, "module Harbour"), (2, "class Shop"), (3, "def sell")]),
    ],
    ids=["Python", "Java", "JavaScript", "Go", "Rust", "C", "SQL", "shell", "Ruby"],
)
def test_definitions_of_a_language_are_found(source: str, expected: list[tuple[int, str]]) -> None:
    assert [(item.level, item.title) for item in find_definitions(source)] == expected


def test_definition_begins_with_its_comment_and_decorators() -> None:
    starts = {item.title: PYTHON[item.start :].split("\n")[0] for item in find_definitions(PYTHON)}
    assert starts["class Shop"] == "# Sells tickets."
    assert starts["def sell"] == "def sell("
    assert {item.title: RUST[item.start :].split("\n")[0] for item in find_definitions(RUST)}["struct Shop"] == (
        "/// A shop."
    )


def test_chunks_of_code_know_the_path_of_definitions_and_keep_their_indentation() -> None:
    body = "".join(f"        total += compute(value, {number})\n" for number in range(12))
    source = f"class Shop:\n    def sell(self):\n{body}\n    def close(self):\n{body}\n\ndef main():\n{body}"
    chunks = split(parse(source, ParseLimits()), lambda text: len(text.split()), 60)
    assert [(chunk.headings, chunk.text.split("\n")[0]) for chunk in chunks] == [
        (("class Shop", "def sell"), "class Shop:"),
        (("class Shop", "def close"), "    def close(self):"),
        (("def main",), "def main():"),
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        "def f():\n" * 300_000,
        "class a {\n" * 200_000,
        "\n".join(" " * (n % 200) + "class x:" for n in range(100_000)),
        "a " * 1_000_000,
        ("public " * 60 + "\n") * 5_000,
        ("const x: " + "y" * 300 + "\n") * 5_000,
        ("struct <" * 40 + "(" * 40 + "\n") * 4_000,
        ("a b c d(" * 45 + "\n") * 5_000,
        '"""\n' * 300_000,
        "/*\n" * 300_000,
        "@a\n" * 300_000,
        "\t" * 400_000 + "x",
    ],
)
def test_odd_code_takes_no_time(text: str) -> None:
    before = time.process_time()
    assert sum(1 for _ in find_definitions(text)) <= MAX_DEFINITIONS
    # Backtracking would never end; the limit leaves room for a busy machine.
    assert time.process_time() - before < 10


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
    document = parse_javascript(MINIFIED, LIMITS)
    assert document.text == (
        "harbour v1.2 | (c) Ada\nMIT licence\n\nMinified JavaScript of 6,245 characters. "
        "Its code is not searched; the source of it can be."
    )
    style = parse_stylesheet(".a{color:red}" * 300, LIMITS)
    assert style.text.startswith("Minified CSS of 3,900 characters.")


@pytest.mark.parametrize("text", [SOURCE, MINIFIED[:1_000], "var text = '" + "many words in one line " * 200 + "'"])
def test_code_that_people_wrote_is_read(text: str) -> None:
    assert parse_javascript(text, LIMITS).text == text.strip("\n")
    assert parse_stylesheet(text, LIMITS).text == text.strip("\n")


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
    document = parse_lock_file(text, LIMITS)
    assert "@a/b 1.2" in document.text.split("\n")
    assert not any(noise in document.text for noise in ("sha", "https", "registry"))
    assert document.title == "Locked packages"


def test_lock_file_in_an_unknown_form_is_kept() -> None:
    assert parse_lock_file("harbour: closed\n", LIMITS).text == "harbour: closed"
    assert parse_lock_file('{"a": [', LIMITS).text == '{"a": ['


def test_source_map_has_the_names_of_its_sources() -> None:
    value = {"version": 3, "file": "a.js", "sources": ["src/a.ts", 7], "sourcesContent": ["secret"], "mappings": "AAAA"}
    assert parse_source_map(json.dumps(value), LIMITS).text == "Source map of a.js\n\nsrc/a.ts"
    sections = {"sections": [{"map": {"sources": ["b.ts"]}}, 1]}
    assert parse_source_map(json.dumps(sections), LIMITS).text == "Source map\n\nb.ts"
    with pytest.raises(UnreadableDocument, match="damaged"):
        parse_source_map('{"sources": [', LIMITS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text",
    [
        "/*!" * 200_000,
        "/*! " + "a" * 400_000,
        '"a@' * 200_000,
        "  a@1" * 200_000,
        '[[package]]\nname = "' * 50_000,
        "    a (1" * 100_000,
    ],
)
def test_odd_generated_files_are_read(text: str) -> None:
    for read in (parse_javascript, parse_stylesheet, parse_lock_file):
        assert read(text, LIMITS).text
