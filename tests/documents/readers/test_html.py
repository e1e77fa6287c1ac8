from pathlib import Path

import pytest

from app.documents.formats import find_format
from app.documents.parsed import ParseLimits
from app.documents.readers.html.page import parse
from tests.documents.listing import list_headings, list_hidden, list_tables

LIMITS = ParseLimits()

PAGE = """<!doctype html><html><head><title>T &amp; x</title><script>evil()</script><style>p{}</style></head>
<body><nav>menu</nav><header>banner</header><main>
<h1>One <em>two</em></h1><p>Hello&nbsp;wor<b>ld</b><br>line two caf&eacute;<!-- c --> tail</p>
<ul><li>a<li>b</ul><pre>  x = 1
    y</pre>
<table><tr><th>k</th><th>v</th></tr><tr><td><p>1</p></td><td>2</td></tr></table>
<article><header><h2>Part</h2></header>text</article><p hidden>unseen</p></main>after
<aside>ad</aside><footer>foot</footer><noscript>enable</noscript></body></html>"""


def test_html_text_is_that_of_the_main_content() -> None:
    document = parse(PAGE, LIMITS)
    assert document.text == (
        "One two\n\nHello world\nline two café tail\n\n- a\n- b\n\n```\n  x = 1\n    y\n```\n\n"
        "| k | v |\n| --- | --- |\n| 1 | 2 |\n\n\nPart\n\ntext\n\nunseen"
    )
    assert document.title == "T & x"
    assert list_headings(document) == [(1, "One two"), (2, "Part")]
    assert [document.text[heading.start :][:4] for heading in document.headings] == ["One ", "Part"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("<tr><th>k<th>v<tr><td>1<td>a|b", ("| k | v |\n| --- | --- |\n", "| 1 | a\\|b |")),
        ("<tr><td>name<td>size<tr><td>x<td>12", ("| name | size |\n| --- | --- |\n", "| x | 12 |")),
        ("<tr><td>1<td>2<tr><td>3<td>4", ("", "| 1 | 2 |\n| 3 | 4 |")),
        (
            "<thead><tr><th rowspan=2>A<th colspan=2>B<tr><th>x<th>y</thead>"
            "<tr><td rowspan=2>r<td>2<td>3<tr><td>5<td>6",
            ("| A | B x | B y |\n| --- | --- | --- |\n", "| r | 2 | 3 |\n| r | 5 | 6 |"),
        ),
        (
            "<tr><th>k<th>v<tr><td><p>one<br>two<td><img src=x alt='a lamp'>",
            ("| k | v |\n| --- | --- |\n", "| one two | a lamp |"),
        ),
    ],
)
def test_html_table_becomes_markdown_rows(table: str, expected: tuple[str, str]) -> None:
    document = parse(f"<html><p>before<table>{table}</table><p>after", LIMITS)
    assert list_tables(document) == [expected]
    assert document.text == f"before\n\n{''.join(expected)}\n\nafter"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<ul><li>a<ul><li>b</ul><li>c</ul><ol start=3><li>x<li><p>y</ol><dl><dt>t<dd>d<dt>u<dd>e</dl>",
            "- a\n  - b\n- c\n\n3. x\n4. y\n\nt\nd\n\nu\ne",
        ),
        ("<pre>a\n\n  ``` b<br>c</pre><pre>one</pre><p>x <code>y</code>", "````\na\n\n  ``` b\nc\n````\n\none\n\nx y"),
        ("<table><tr><td><h1>Top</h1><p>one</p><p>two</p></td><td>side</td></tr></table>", "Top\n\none\n\ntwo\n\nside"),
        ("<aside><p>only this</p></aside>", "only this"),
        (
            "<p>a<table><caption>Nuts, in <b>Nm</b></caption><tr><td>Panda<td>86</table>b",
            "a\n\nNuts, in Nm\n\n| Panda | 86 |\n\nb",
        ),
        (
            "<p>It is <math><mi>A</mi><mo>=</mo><mn>2</mn><annotation>A=2</annotation></math> here.<pre>x<button>Copy"
            "</button></pre><p>So <i class=katex-mathml><math><mi>Q</mi></math></i>Q.<p>Press <button>Go</button> now.",
            "It is A=2 here.\n\nx\n\nSo Q.\n\nPress Go now.",
        ),
        ("<div>" * 1_000 + "deep" + "</div>" * 1_000 + "end", "deep\n\nend"),
    ],
    ids=["lists", "code", "layout table", "navigation only", "caption", "formulas and buttons", "deeply nested"],
)
def test_html_text_of_a_page(page: str, text: str) -> None:
    assert parse(f"<html>{page}", LIMITS).text == text


BODY = "<p>" + "The harbour opens at six, and the boats leave with the tide. " * 5


@pytest.mark.parametrize(
    "furniture",
    [
        "<nav>menu</nav>",
        "<div role=navigation>menu</div>",
        "<header><a href=x>home</a></header>",
        "<div role=banner>ACME</div>",
        "<footer>menu</footer>",
        "<aside>ad</aside>",
        "<div class='cookie-banner'><p>We use cookies to improve the service.</p></div>",
        "<div id=consent>Accept?</div>",
        "<ul class='breadcrumbs'><li><a href=x>home</a> <li><a href=y>docs</a></ul>",
        "<div class='side-bar'><a href=x>one</a><a href=y>two</a></div>",
        "<div class='navfooter'><a href=x>next</a></div>",
        "<a class=headerlink href=#x>link</a>",
        "<div class=navheader><table><tr><th>5.1. The harbours of the coast<tr><td><a href=p><img alt=Prev></a></table>"
        "</div>",
        "<ul class='docnav top'><li><a href=p>Prev</a><li>The handbook of all harbours<li><a href=n>Next</a></ul>",
    ],
)
def test_html_menus_banners_and_notices_are_left_out(furniture: str) -> None:
    (expected,) = {parse(f"<html>{BODY}", LIMITS).text}
    assert parse(f"<html><body>{furniture}{BODY}</p>{furniture}", LIMITS).text == expected


@pytest.mark.parametrize(
    "content",
    [
        "<div class='menu'><p>Soup of the day and bread for three.</p></div>",
        "<div class='cookies'><p>" + "Take flour, sugar and butter for the cookies. " * 30 + "</p></div>",
        "<header><h1>The harbour</h1></header>",
        "<div class='navigation'><h1>The harbour</h1><a href=x>map</a></div>",
        "<div class='navheader'><h1>The harbour</h1><a href=x>map</a></div>",
        "<div class='navheader'><p>Take flour, there are no links here.</p></div>",
    ],
)
def test_html_content_with_the_name_of_a_menu_is_kept(content: str) -> None:
    text = parse(f"<html><body>{content}{BODY}", LIMITS).text
    assert text.startswith(("Soup", "Take flour", "The harbour\n\n"))


def test_html_notes_within_the_main_content_are_kept() -> None:
    data = f"<html><body>out<main>{BODY}<aside>Mind the tide.</aside><header>By Ada</header></main>out"
    text = parse(data, LIMITS).text
    assert text.endswith("Mind the tide.\n\nBy Ada")
    assert not text.startswith("out")


@pytest.mark.parametrize("named", ["id=cookies", "class=share-prices", "id=popup", "id=social-security"])
def test_html_sections_with_a_heading_and_the_name_of_a_notice_are_kept(named: str) -> None:
    section = f"<section {named}><h2>The jar</h2><p>It holds them.</p></section>"
    asks = "<div class=cookie-consent><h2>Your choice</h2><form><input> Send</form></div>"
    links = "<div class=social-links><h3>On</h3><a href=a>The first site</a></div>"
    text = parse(f"<html><body><div role=main>{BODY}{section}{asks}{links}</div>", LIMITS).text
    assert text.endswith("The jar\n\nIt holds them.")
    assert "Your choice" not in text


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("<dl><dt id=requests.Response.cookies>cookies<dd>A jar.</dl>", "cookies\nA jar."),
        ("<dl><dt class=tags>tags: <a href=x>a list</a><dd>All.</dl>", "tags: a list\nAll."),
        ("<section class=ad-hoc><p>Ask at once.</section>", "Ask at once."),
        ("<p class=consent>They agreed.", "They agreed."),
        ("<h2><a class=header-anchor href=#x>Late fees</a></h2><p>Two.", "Late fees\n\nTwo."),
        ("<h2>Late fees<a class=header-anchor href=#x>link</a></h2><p>Two.", "Late fees\n\nTwo."),
        ("<h3><button>How do I pay?</button></h3><p>Cash.", "How do I pay?\n\nCash."),
        ("<h2>Title <button>Copy link</button></h2><p>Two.", "Title\n\nTwo."),
        ("<h2><span><b>Foo</b></span><a class=anchor href=#f><i>Permalink</i></a></h2><p>Two.", "Foo\n\nTwo."),
        ("<ul><li>Then click <button>OK</button></ul>", "- Then click OK"),
        ("<div>npm install <button>Copy</button></div><p>Two.", "npm install\n\nTwo."),
        ("<p><b>Press</b> <button>Go</button>.", "Press Go."),
        (
            "<p>It is <math><mfrac><mi>a</mi><mi>b</mi></mfrac><mo>+</mo><msup><mi>x</mi><mn>2</mn></msup></math>.",
            "It is a/b+x^2.",
        ),
    ],
)
def test_html_parts_with_the_name_of_a_notice_and_links_in_headings_are_kept(part: str, text: str) -> None:
    assert parse(f"<html><body><main>{BODY}{part}</main>", LIMITS).text.removeprefix("The harbour").endswith(text)


def test_html_heading_outside_of_the_main_content_is_kept() -> None:
    page = f"<html><body><header><h1>Rent law</h1><p>In force since May.</header><main>{BODY}</main>"
    assert parse(page, LIMITS).text.startswith("Rent law\n\nIn force since May.")
    for other in ("<h1><a href=/>The site</a></h1>", "<h1><img alt=Acme></h1>", "<dialog><h1>Sign in</h1></dialog>"):
        page = f"<html><body><header>{other}</header><div>Popular</div><main>{BODY}</main>"
        assert parse(page, LIMITS).text.startswith("The harbour opens")


def test_html_with_little_in_its_main_element_is_read_as_a_whole() -> None:
    assert "opens at six" in parse(f"<html><main>Harbour</main>{BODY}", LIMITS).text
    assert "opens at six" in parse(f"<html><footer>{BODY}</footer><p>Harbour", LIMITS).text


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ("hidden", "hidden_element"),
        ("style='display: none'", "hidden_element"),
        ("style='color: red; VISIBILITY:hidden'", "hidden_element"),
        ("style='opacity: 0.0'", "transparent"),
        ("style='color: transparent'", "transparent"),
        ("style='font-size:0'", "tiny"),
        ("style='font-size: 1px !important'", "tiny"),
        ("style='position:absolute; left:-9999px'", "off_page"),
        ("style='color: #FFF'", "same_colour"),
        ("style='color: #fdfdfd'", "same_colour"),
        ("style='opacity: 1%'", "transparent"),
        ("style='clip-path: inset(100%)'", "clipped"),
        ("style='clip: rect(0 0 0 0)'", "clipped"),
        ("style='height:0;overflow:hidden'", "clipped"),
        ("style='color:rgba(0,0,0,0)'", "transparent"),
        ("style='color:rgb(0 0 0 / 0)'", "transparent"),
        ("style='color:#00000000'", "transparent"),
        ("style='filter:blur(1px) opacity(0)'", "transparent"),
        ("style='transform:translateX(-9999px)'", "off_page"),
        ("style='transform:translate(0px,-5000px)'", "off_page"),
        ("style='text-indent:-200%'", "off_page"),
        ("style='color:white;background-color:#ffffff'", "same_colour"),
        ("style='color:navy;background:navy'", "same_colour"),
    ],
)
def test_html_text_that_is_not_seen_stays_and_is_marked(attributes: str, reason: str) -> None:
    data = f"<html><p>one <b {attributes}>two <i>three</i></b> four<div {attributes}><p>five<p>six</div><p>seven"
    document = parse(data, LIMITS)
    assert document.text == "one two three four\n\nfive\n\nsix\n\nseven"
    assert list_hidden(document) == [("two three", reason), ("five", reason), ("six", reason)]


@pytest.mark.parametrize(
    "page",
    [
        "<p style='color:white;background:navy'>x",
        "<table bgcolor=navy><tr><td style='color:white'>x</table>",
        "<style>.hero{background:navy}</style><div class=hero><p style='color:white'>x</div>",
        "<p style='font-size:9px;opacity:0.5;left:-9px'>x",
        "<p style='display:block' aria-hidden=true>x",
        "<p style='color:rgba(0,0,0,.6)'>x",
        "<p style='color:rgb(0,0,0)'>x",
        "<p style='color:hsl(0,0%,0%)'>x",
        "<p style='color:#0000ff80'>x",
        "<p style='color:#000;filter:opacity(80%)'>x",
        "<p style='transform:translateX(-20px);text-indent:-2em'>x",
    ],
)
def test_html_text_that_may_be_seen_is_not_marked(page: str) -> None:
    document = parse(f"<html><body>{page}", LIMITS)
    assert document.text == "x"
    assert document.hidden == ()


def test_html_marks_of_the_reader_in_a_page_are_removed() -> None:
    document = parse("<html><title>\ufdd1t</title><h1>\ufdd1a</h1><p>\ufdd1b&#xfdd1;\ufdd0c", LIMITS)
    assert (document.title, document.text, document.hidden) == ("t", "a\n\nbc", ())


def test_html_table_that_sets_a_notice_is_read_as_text() -> None:
    table = "<table border=0><tr><td rowspan=2><img alt='[Note]'><th>Note<tr><td><p>Mind the tide.</p></table>"
    text = parse(f"<html><div class=note>{table}</div>{BODY}", LIMITS).text
    assert text.startswith("[Note]\n\nNote\n\nMind the tide.\n\nThe harbour")


def test_html_mark_that_leads_to_its_heading_is_left_out() -> None:
    document = parse("<html><h2>Tides<span><a class=mark href=#x>#</a></span></h2><h2><a href=#y>Two</a></h2>", LIMITS)
    assert [heading.title for heading in document.headings] == ["Tides", "Two"]


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
    assert find_format("html").read(data, LIMITS).text == "“Größe”"


def test_html_entities_that_it_declares_are_not_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TOP SECRET")
    layers = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    data = f'<!DOCTYPE html [<!ENTITY l0 "lol"><!ENTITY x SYSTEM "file://{secret}">{layers}]><p>&l9; &x; end</p>'
    text = parse(data, LIMITS).text
    assert "SECRET" not in text
    assert len(text) < 2_000
    assert text.endswith("end")


def test_html_control_characters_in_entities_are_dropped() -> None:
    assert parse("<html><p>a&#0;&#7;&#xD800;b&#x200B;c", LIMITS).text.replace("\ufffd", "") == "abc"


def test_html_nested_deeper_than_a_tree_is_read_in_order() -> None:
    inside = "<b>bold</b><p hidden>not <i>seen</i></p><script>var x</script><p>seen <img alt=picture></p>"
    page = f"<html><title>T</title><p>first</p>{'<div>' * 20_000}deep {inside}{'</div>' * 20_000}<p>last</p>"
    document = parse(page, LIMITS)
    assert document.text.split() == ["first", "deep", "bold", "not", "seen", "seen", "picture", "last"]
    assert [text for text, _ in list_hidden(document)] == ["not", "seen"]
    assert document.title == "T"


def test_html_without_elements_has_no_text() -> None:
    assert [parse(text, LIMITS).text for text in ("", "<!-- c -->", "<html></html>")] == ["", "", ""]


@pytest.mark.parametrize(
    ("sheet", "hidden"),
    [
        (".x { display: none }", True),
        ("p.a, p.x { /* small */ font-size: 0 }", True),
        ("#n { opacity: 0 }", True),
        (".y { display: none }", False),
        ("@media print { .x { display: none } }", False),
        (".x { display: none } .x { display: block }", False),
        (".menu .x { display: none }", False),
    ],
)
def test_rules_within_the_page_hide_an_element(sheet: str, hidden: bool) -> None:
    page = f"<style>{sheet}</style><p>first</p><p class='x b' id=n>second</p>"
    document = parse(page, LIMITS)
    assert [text for text, _ in list_hidden(document)] == ["second"] * hidden
