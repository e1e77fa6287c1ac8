"""E-mail."""

from email.message import EmailMessage

import pytest

from app.documents.formats import detect_format, find_format
from app.documents.parsed import ParsedDocument, ParseLimits
from app.errors import UnreadableDocument
from tests.documents.listing import list_headings
from tests.documents.mails import make_mail, nest_mail, write_mail
from tests.documents.office import write_zip
from tests.fixtures.documents import write_pdf

LIMITS = ParseLimits()


def read(data: bytes) -> ParsedDocument:
    return find_format("eml").read(data, LIMITS)


def test_a_byte_order_mark_does_not_hide_the_headers() -> None:
    assert read(b"\xef\xbb\xbf" + write_mail("The ropes are inspected.")).title == "Ropes at the quay"


def test_mail_has_its_headers_its_text_and_its_subject_as_title() -> None:
    document = read(write_mail("The ropes are inspected.\n\n> When?\n", subject="Überprüfung der Seile am Kai"))
    assert document.title == "Überprüfung der Seile am Kai"
    assert document.text.split("\n\n") == [
        "Überprüfung der Seile am Kai",
        "From: Änne <anne@example.org>\nTo: bo@example.org\nDate: 2025-03-14T09:30:00+01:00",
        "The ropes are inspected.",
        "> When?",
    ]
    assert document.mail == {
        "from": "Änne <anne@example.org>",
        "to": "bo@example.org",
        "date": "2025-03-14T09:30:00+01:00",
    }


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "koi8-r", "shift_jis", "utf-16"])
def test_text_of_a_mail_is_read_in_its_encoding(charset: str) -> None:
    word = {"koi8-r": "Погрузка", "shift_jis": "港"}.get(charset, "Größe")
    assert word in read(write_mail(f"{word} of the load", charset=charset)).text


def test_of_two_forms_the_plain_one_is_read_and_the_html_one_where_there_is_no_other() -> None:
    page = "<html><body><p>The <b>crane</b> lifts.</p><blockquote><p>How much?</p></blockquote></body></html>"
    assert "crane" not in read(write_mail("plain text", html=page)).text
    text = read(write_mail(" ", html=page)).text
    assert "The crane lifts." in text
    assert "<" not in text.partition("\n\n")[2].replace("<anne@example.org>", "")


def test_attachments_of_a_form_that_is_not_shown_are_read() -> None:
    mail = make_mail("See the list.", html="<p>See the list.<img src=cid:logo>")
    page = mail.get_payload(1)
    assert isinstance(page, EmailMessage)
    page.add_attachment(b"Berth,Depth\n4,9.5 m\n", maintype="text", subtype="csv", filename="quote.csv")
    page.add_attachment(b"logo", maintype="image", subtype="png", cid="<logo>", disposition="inline")
    document = read(mail.as_bytes())
    assert "Berth: 4 | Depth: 9.5 m" in document.text
    assert [part.format for part in document.parts] == ["csv"]


def test_attachments_are_sections_and_those_that_cannot_be_read_are_named() -> None:
    files = {
        "tides.md": b"# Tides\n\nHigh at noon.",
        "plan.pdf": write_pdf([["The quay has nine berths."]]),
        "all.zip": write_zip({"a.txt": "inner"}),
        "run.exe": b"MZ\0\0",
        "broken.pdf": b"%PDF-1.7 broken",
    }
    document = read(write_mail("See below.", files))
    assert "High at noon." in document.text
    assert "The quay has nine berths." in document.text
    for name in ("all.zip", "run.exe", "broken.pdf"):
        assert f"Attachment: {name}" in document.text
    assert [(level, title) for level, title, *_ in list_headings(document)] == [
        (1, "Ropes at the quay"),
        (1, "tides.md"),
        (2, "Tides"),
        (1, "plan.pdf"),
    ]
    assert [part.format for part in document.parts] == ["markdown", "pdf"]


SIGNED = b"""From: a@example.org
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/html

%s
--x
Content-Type: text/plain

The ropes are inspected.
--x
Content-Type: application/pgp-signature; name=signature.asc

-----BEGIN PGP SIGNATURE-----
--x--
"""


@pytest.mark.parametrize("html", [b"", b"<!-- nothing -->", b"<html></html>"])
def test_an_empty_page_and_a_signature_in_a_mail_are_left_out(html: bytes) -> None:
    assert read(SIGNED % html).text == "From: a@example.org\n\nThe ropes are inspected."


def test_an_empty_page_does_not_lose_the_files_around_it() -> None:
    data = write_zip({"a.txt": "one", "b.html": "<!-- nothing -->", "c.txt": "two"})
    assert find_format("zip").read(data, LIMITS).text.split() == ["a.txt", "one", "c.txt", "two"]


def test_a_forwarded_mail_is_a_section() -> None:
    inner = make_mail("Nine berths are free.", subject="Berths")
    document = read(write_mail("Look at this.", forwarded=inner))
    assert document.text.index("Look at this.") < document.text.index("Berths") < document.text.index("Nine berths")


def test_a_mail_is_recognised_by_its_headers_or_its_name() -> None:
    mail = write_mail("text")
    assert detect_format(mail).name == "eml"
    assert detect_format(mail, "a.eml").name == "eml"
    assert detect_format(mail, "a.txt").name == "text", "the name says what its owner takes it for"
    assert detect_format(b"Subject: a note\n\ntext", "a.eml").name == "eml"
    assert detect_format(b"Subject: a note\n\ntext").name == "text"
    assert detect_format(b"From: the harbour\n\nDear all, Date: today\nSubject: none").name == "text"


def test_parts_nested_without_end_are_refused() -> None:
    levels = 40
    data = "Subject: a\n"
    data += "".join(f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(levels)) + "\ntext\n"
    with pytest.raises(UnreadableDocument, match="more than 20 levels deep"):
        read(data.encode())
    with pytest.raises(UnreadableDocument, match="more than 20 levels deep"):
        read(nest_mail(levels))


@pytest.mark.parametrize(
    "data",
    [
        b"From: a\nTo: b\nSubject: =?x-none?B?4pyT?= =?utf-8?B?!?=\nDate: never\n\ntext",
        b"From: a\nContent-Type: text/plain; charset=none\nContent-Transfer-Encoding: none\n\ntext",
        b"From: a\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\ndGV4dA",
        b"From: a\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\ntext",
    ],
)
def test_a_mail_that_is_not_well_formed_is_read(data: bytes) -> None:
    assert read(data).text.endswith("text")
