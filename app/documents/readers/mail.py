"""E-mail: its headers, its text with quoted replies, and its attachments as sections."""

import codecs
import email
import email.header
import email.message
import email.parser
import email.policy
import email.utils
from collections.abc import Iterator
from email.message import Message

from app.documents.parsed import MAIL, ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.bundle import read_file
from app.documents.readers.encodings import decode, find_charset, find_codec
from app.documents.readers.html import page
from app.documents.readers.text import collapse_spaces
from app.errors import UnreadableDocument

_SHOWN = ("From", "To", "Cc", "Date")
_SIGNATURES = frozenset({f"application/{kind}-signature" for kind in ("pgp", "pkcs7", "x-pkcs7")})
_MAX_HEADER = 1_000
_MAX_PARTS = 1_000
_MAX_DEPTH = 20


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read an e-mail (RFC 5322, MIME): subject, people, date, text, and attachments that can be read.

    Of a text in several forms, the plain one is read, or else the HTML one. A forwarded mail is a section. Raises
    ReaderMissing as the reader of ZIP files does.
    """
    try:
        mail = email.message_from_bytes(data.removeprefix(codecs.BOM_UTF8), policy=email.policy.compat32)
    except RecursionError:
        raise UnreadableDocument(f"the parts of the e-mail are nested more than {_MAX_DEPTH} levels deep") from None
    builder = TextBuilder(limits)
    title = _header(mail, "Subject")
    _Writer(builder, limits).write(mail)
    kept = {name: text for name in MAIL if (text := _show(mail, name))}
    return builder.finish("eml", title=title, mail=kept)


class _Writer:
    """Writes a mail with its parts; the limits apply to all of them together."""

    def __init__(self, builder: TextBuilder, limits: ParseLimits) -> None:
        self._builder, self._limits = builder, limits
        self._parts = 0

    def write(self, mail: Message, depth: int = 0) -> None:
        """Write the headers, the text, and then the attachments."""
        if subject := _header(mail, "Subject"):
            self._builder.add_heading(subject, 1)
        self._builder.add("\n".join(f"{name}: {text}" for name in _SHOWN if (text := _show(mail, name))))
        attached: list[Message] = []
        for part in _find_texts(mail, attached, depth):
            if part.get_content_type() == "text/html":
                self._builder.add_document(page.parse(_decode(part), self._limits, whole=True))
            else:
                self._builder.add(_decode(part))
        for part in attached:
            self._write_attachment(part, depth)

    def _write_attachment(self, part: Message, depth: int) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise UnreadableDocument(f"the e-mail has more than {_MAX_PARTS:,} attachments")
        if part.get_content_type() == "message/rfc822":
            for inner in _list_parts(part):
                self.write(inner, depth + 1)
            return
        if part.get_content_type() in _SIGNATURES:
            return
        name = collapse_spaces(_unfold(part.get_filename() or "")) or "attachment"
        content = part.get_payload(decode=True)
        try:
            found = read_file(name, content if isinstance(content, bytes) else b"", self._limits, "in the e-mail")
        except UnreadableDocument:
            found = None  # the mail is worth reading without it
        if found is None:
            self._builder.add(f"Attachment: {name}")
            return
        self._builder.add_part(name, found)


def _find_texts(mail: Message, attached: list[Message], depth: int) -> Iterator[Message]:
    """The parts that a reader of the mail sees; the others are appended to `attached`."""
    if depth > _MAX_DEPTH:
        raise UnreadableDocument(f"the parts of the e-mail are nested more than {_MAX_DEPTH} levels deep")
    kind, parts = mail.get_content_type(), _list_parts(mail)
    if kind == "message/rfc822" or not parts:
        if mail.get_content_disposition() != "attachment" and kind in {"text/plain", "text/html"}:
            yield mail
        else:
            attached.append(mail)
        return
    if kind != "multipart/alternative":
        for part in parts:
            yield from _find_texts(part, attached, depth + 1)
        return
    forms = []
    for part in parts:
        others: list[Message] = []
        forms.append((list(_find_texts(part, others, depth + 1)), others))
    written = [form for form in forms if any(_decode(text).strip() for text in form[0])]
    plain = [form for form in written if form[0][0].get_content_type() == "text/plain"]
    for place, (texts, others) in enumerate(sorted(written, key=lambda form: form not in plain)):
        if not place:
            yield from texts
        # Of a form that is not shown, its pictures are not either.
        attached.extend(other for other in others if not place or not other.get("Content-ID"))


def _list_parts(mail: Message) -> list[Message]:
    parts = mail.get_payload()
    return [part for part in parts if isinstance(part, Message)] if isinstance(parts, list) else []


def _decode(part: Message) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    declared = part.get_content_charset()
    return decode(content, find_codec(declared) or find_charset(content)).text if content else ""


def _header(mail: Message, name: str) -> str:
    return collapse_spaces(_unfold(str(mail.get(name, ""))))


def _unfold(text: str) -> str:
    """A header's text, of which some words may be encoded (RFC 2047)."""
    text = text[:_MAX_HEADER]
    try:
        return str(email.header.make_header(email.header.decode_header(text)))
    except (LookupError, ValueError, email.errors.HeaderParseError):
        return text


def _show(mail: Message, name: str) -> str:
    """A header; the date in ISO 8601, if it is one."""
    text = _header(mail, name)
    if name.lower() != "date" or not text:
        return text
    try:
        return email.utils.parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError, OverflowError):
        return text
