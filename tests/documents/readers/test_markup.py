"""reStructuredText, AsciiDoc, Org, captions and notebooks."""

import json

import pytest

from app.documents.formats import detect_format, find_format
from app.documents.parsed import ParsedDocument, ParseLimits
from tests.documents.listing import list_headings


def read(name: str, text: str) -> ParsedDocument:
    return find_format(name).read(text.encode(), ParseLimits())


RST = """\
=======
Harbour
=======

Berths
======

Text of the berths.

Prices
------

::

    Not a heading

Cranes
======
"""
ASCIIDOC = "= Harbour\n\n== Berths\n\nText.\n\n----\n== code\n----\n\n=== Prices ===\n"
ORG = "#+title: Harbour\n* TODO Berths  :quay:\nText.\n#+begin_src sh\n* code\n#+end_src\n** [#A] Prices\n"


@pytest.mark.parametrize(
    ("name", "source", "title", "headings"),
    [
        ("rst", RST, "Harbour", [(1, "Harbour"), (2, "Berths"), (3, "Prices"), (2, "Cranes")]),
        ("asciidoc", ASCIIDOC, "Harbour", [(1, "Harbour"), (2, "Berths"), (3, "Prices")]),
        ("org", ORG, "Harbour", [(1, "Berths"), (2, "Prices")]),
    ],
)
def test_headings_are_found_outside_of_code(
    name: str, source: str, title: str, headings: list[tuple[int, str]]
) -> None:
    document = read(name, source)
    assert document.title == title
    assert [(level, text) for level, text, *_ in list_headings(document)] == headings
    assert document.text == source.strip("\n")
    extension = {"asciidoc": "adoc"}.get(name, name)
    assert detect_format(source.encode(), f"a.{extension}").name == name


VTT = """\
WEBVTT

intro
00:00:01.000 --> 00:00:04.000 align:start
<v Ann>The harbour &amp; the quay</v>

00:00:04.500 --> 00:00:07.000
<c.loud>open</c> at seven.

00:00:30.000 --> 00:00:33.000
After a pause.

NOTE a comment

01:02:03.000 --> 01:02:05.000
Late.
"""
SRT = """\
1
00:00:01,000 --> 00:00:04,000
<i>Ropes</i>
are old.

2
00:00:04,100 --> 00:00:06,000
are old.
""".replace("\n", "\r\n")


def test_captions_become_paragraphs_with_their_times() -> None:
    document = read("captions", VTT)
    assert document.text.split("\n\n") == [
        "[0:01] Ann: The harbour & the quay open at seven.",
        "[0:30] After a pause.",
        "[1:02:03] Late.",
    ]
    assert read("captions", SRT).text == "[0:01] Ropes are old. are old."
    scrolling = "WEBVTT\n\n0:01.000 --> 0:02.000\nsame\n\n0:02.000 --> 0:03.000\nsame\n"
    assert read("captions", scrolling).text == "[0:01] same"
    cues = (
        ("1.000", "3.000", "the harbour"),
        ("3.000", "3.010", "the harbour"),
        ("3.010", "5.000", "the harbour\nis open"),
    )
    rolling = (*cues, ("5.000", "5.010", "is open"), ("5.010", "7.000", "is open\nat seven"))
    written = "\n\n".join(f"00:00:0{start} --> 00:00:0{end}\n{text}" for start, end, text in rolling)
    assert read("captions", f"WEBVTT\n\n{written}\n").text == "[0:01] the harbour is open at seven"
    spoken = "0:01.000 --> 0:02.000\n- What?\n- Nothing.\n\n0:02.000 --> 0:03.000\n- What?\n- I said nothing.\n"
    assert read("captions", f"WEBVTT\n\n{spoken}").text == "[0:01] - What? - Nothing. - What? - I said nothing."
    assert detect_format(VTT.encode()).name == detect_format(SRT.encode(), "a.srt").name == "captions"


def test_a_notebook_is_read_by_its_cells() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "\n", "High at noon."]},
        {
            "cell_type": "code",
            "source": "print('```')",
            "outputs": [
                {"output_type": "stream", "text": ["high\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure>"]}},
                {"output_type": "error", "traceback": ["\x1b[31mKeyError\x1b[0m", "'quay'"]},
            ],
        },
        {"cell_type": "raw", "source": ""},
    ]
    notebook = {"nbformat": 4, "metadata": {"kernelspec": {"language": "python"}}, "cells": cells}
    document = read("ipynb", json.dumps(notebook))
    assert document.text == (
        "# Tides\n\nHigh at noon.\n\n````python\nprint('```')\n````\n\n```\nhigh\n```\n\n```\n<Figure>\n```\n\n"
        "```\nKeyError\n'quay'\n```"
    )
    assert document.title == "Tides"
    assert detect_format(json.dumps(notebook).encode(), "a.ipynb").name == "ipynb"
    assert detect_format(json.dumps(notebook).encode()).name == "ipynb"


@pytest.mark.parametrize("source", ['{"cells": 1}', '{"cells": [1, {"source": {}}]}', "{", "{}x"])
def test_json_with_the_name_of_a_notebook_is_json(source: str) -> None:
    assert read("ipynb", source).format in ("json", "code", "ipynb")
