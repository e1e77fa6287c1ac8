from __future__ import annotations

from pathlib import Path

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.html import parse
from app.errors import UnreadableDocument

LIMITS = ParseLimits()

PAGE = """<!doctype html><html><head><title>T &amp; x</title><script>evil()</script><style>p{}</style></head>
<body><nav>menu</nav><header>banner</header><main>
<h1>One <em>two</em></h1><p>Hello&nbsp;wor<b>ld</b><br>line two caf&eacute;<!-- c --> tail</p>
<ul><li>a<li>b</ul><pre>  x = 1
    y</pre>
<table><tr><th>k</th><th>v</th></tr><tr><td><p>1</p></td><td>2</td></tr></table>
<article><header><h2>Part</h2></header>text</article><p hidden>unseen</p></main>after
<aside>ad</aside><footer>foot</footer><noscript>enable</noscript></body></html>"""


def test_html_text_is_the_visible_text() -> None:
    document = parse(PAGE.encode(), LIMITS)
    assert document.text == (
        "One two\n\nHello world\nline two café tail\n\na\nb\n\n  x = 1\n    y\n\n"
        "k | v\n1 | 2\n\n\nPart\n\ntext\n\nafter"
    )
    assert document.title == "T & x"
    assert [(heading.level, heading.title) for heading in document.headings] == [(1, "One two"), (2, "Part")]
    assert [document.text[heading.start :][:4] for heading in document.headings] == ["One ", "Part"]


def test_html_layout_table_keeps_its_blocks() -> None:
    data = b"<html><table><tr><td><h1>Top</h1><p>one</p><p>two</p></td><td>side</td></tr></table>"
    assert parse(data, LIMITS).text == "Top\n\none\n\ntwo\n\nside"


def test_html_of_navigation_only_is_still_read() -> None:
    assert parse(b"<html><aside><p>only this</p></aside>", LIMITS).text == "only this"


@pytest.mark.parametrize(
    "data",
    [
        b'<html><meta charset="iso-8859-1"><p>' + "“Größe”".encode("cp1252"),
        b'<html><meta http-equiv="Content-Type" content="text/html; charset=windows-1252"><p>'
        + "“Größe”".encode("cp1252"),
        b'<html><meta charset="nonsense"><p>' + "“Größe”".encode(),
        b'<html><meta charset="utf-16"><p>' + "“Größe”".encode(),
        '<?xml version="1.0" encoding="latin-1"?><html><p>“Größe”'.encode("utf-16"),
    ],
)
def test_html_encoding_is_the_one_marked_or_declared(data: bytes) -> None:
    assert parse(data, LIMITS).text == "“Größe”"


def test_html_entities_that_it_declares_are_not_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TOP SECRET")
    layers = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    data = (
        f'<!DOCTYPE html [<!ENTITY l0 "lol"><!ENTITY x SYSTEM "file://{secret}">{layers}]><p>&l9; &x; end</p>'
    )
    text = parse(data.encode(), LIMITS).text
    assert "SECRET" not in text
    assert len(text) < 2_000
    assert text.endswith("end")


def test_html_control_characters_in_entities_are_dropped() -> None:
    assert parse(b"<html><p>a&#0;&#7;&#xD800;b&#x200B;c", LIMITS).text.replace("\ufffd", "") == "abc"


def test_deeply_nested_html_does_not_fail() -> None:
    text = parse(b"<html>" + b"<div>" * 1_000 + b"deep" + b"</div>" * 1_000 + b"end", LIMITS).text
    assert text == "deep\n\nend"


def test_html_without_text_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="no content"):
        parse(b"<!-- nothing -->", LIMITS)
