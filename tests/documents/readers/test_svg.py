"""SVG pictures are read as the texts that they show."""

import pytest

from app.documents.formats import detect_format
from app.documents.parsed import ParseLimits
from app.documents.process.parsing import parse_document
from app.documents.readers.svg import parse
from app.errors import UnreadableDocument
from tests.documents.listing import list_hidden

PICTURE = b"""<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"
  [<!ENTITY lol "laugh">]>
<!-- drawn by hand -->
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><title>The harbour</title>
<style>.small { font: 3px serif }</style><script>alert("no")</script><desc>Boats at the pier.</desc>
<g><text class="small" x="1">A <tspan dy="2">boat</tspan> lies &lol; here</text><path d="M0 0L9 9"/></g>
<foreignObject><p xmlns="http://www.w3.org/1999/xhtml">Tugs wait.<style>p{}</style></p></foreignObject></svg>"""


def test_svg_has_its_texts_and_no_source() -> None:
    document = parse(PICTURE, ParseLimits())
    assert document.title == "The harbour"
    assert document.text.split("\n\n") == [
        "The harbour", "Boats at the pier.", "A boat lies here", "Tugs wait.",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a.svg", "a.txt", "a.html", "a.xml", None])
def test_svg_is_recognised_by_its_beginning(name: str | None) -> None:
    assert detect_format(PICTURE, name).media_type == "image/svg+xml"
    assert detect_format(b"<svg width='1'/>", name).name == "svg"
    assert detect_format(b"<p>An <svg></svg> in a page</p>", "a.html").name == "html"


async def test_svg_without_text_is_refused_with_a_reason() -> None:
    with pytest.raises(UnreadableDocument, match="the SVG file contains no text"):
        await parse_document(b"<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>", "a.svg")
    with pytest.raises(UnreadableDocument, match="the SVG file is damaged"):
        await parse_document(b"<svg><text>Boats", "a.svg")


async def test_svg_expands_no_entities_and_nests_deeply() -> None:
    entities = b"<!ENTITY a 'xxxxxxxxxx'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>"
    bomb = b"<!DOCTYPE svg [" + entities + b"]><svg><text>Boats &b;</text></svg>"
    assert (await parse_document(bomb, "a.svg")).text == "Boats"
    deep = b"<svg>" + b"<g>" * 200 + b"<text>Boats</text>" + b"</g>" * 200 + b"</svg>"
    assert (await parse_document(deep, "a.svg")).text == "Boats"


@pytest.mark.parametrize(
    ("hidden", "reason"),
    [
        ('<text display="none">Secret tugs</text>', "hidden_element"),
        ('<g visibility="hidden"><text>Secret tugs</text></g>', "hidden_element"),
        ('<g style="display: none"><text>Secret tugs</text></g>', "hidden_element"),
        ('<text opacity="0">Secret tugs</text>', "transparent"),
        ('<text fill-opacity="0">Secret tugs</text>', "transparent"),
        ('<text font-size="0">Secret tugs</text>', "tiny"),
        ('<text>Boats <tspan style="opacity:0">Secret tugs</tspan> sail</text>', "transparent"),
    ],
)
def test_svg_text_that_a_viewer_does_not_show_stays_and_is_marked(hidden: str, reason: str) -> None:
    picture = (
        f"<svg xmlns='http://www.w3.org/2000/svg'><title>A</title><text>Seen</text>{hidden}<text>Also</text></svg>"
    )
    document = parse(picture.encode(), ParseLimits())
    assert list_hidden(document) == [("Secret tugs", reason)]
    assert "Seen" in document.text
    assert document.text.endswith("Also")


def test_svg_text_that_is_shown_is_not_marked() -> None:
    shown = '<title display="none">Port</title><g opacity="0.6"><text font-size="8" display="inline">Boats</text></g>'
    document = parse(f"<svg xmlns='http://www.w3.org/2000/svg'>{shown}</svg>".encode(), ParseLimits())
    assert (document.text, document.title, document.hidden) == ("Port\n\nBoats", "Port", ())
