"""Source code is cut by its definitions, whatever its language."""

from __future__ import annotations

import time

import pytest

from app.documents.chunking import split
from app.documents.parsed import ParseLimits
from app.documents.readers.source_code import MAX_DEFINITIONS, find_definitions, parse

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
            [
                (1, "class Shop"),
                (2, "def sell"),
                (2, "def close"),
                (1, "def main"),
                (1, 'if __name__ == "__main__"'),
            ],
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
    chunks = split(parse(source.encode(), ParseLimits()), lambda text: len(text.split()), 60)
    assert [(chunk.headings, chunk.text.split("\n")[0]) for chunk in chunks] == [
        (("class Shop", "def sell"), "class Shop:"),
        (("class Shop", "def close"), "    def close(self):"),
        (("def main",), "def main():"),
    ]


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
