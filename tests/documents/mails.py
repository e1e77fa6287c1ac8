"""E-mail for the tests, written by the standard library."""

from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any


def write_mail(text: str, files: Mapping[str, bytes] | None = None, **more: Any) -> bytes:
    """The bytes of `make_mail`."""
    return make_mail(text, files, **more).as_bytes()


def make_mail(
    text: str,
    files: Mapping[str, bytes] | None = None,
    *,
    html: str | None = None,
    subject: str = "Ropes at the quay",
    forwarded: EmailMessage | None = None,
    charset: str = "utf-8",
) -> EmailMessage:
    """A mail with a base64 text, another form of it, and attachments."""
    mail = EmailMessage()
    mail["From"] = "Änne <anne@example.org>"
    mail["To"] = "bo@example.org"
    mail["Date"] = "Fri, 14 Mar 2025 09:30:00 +0100"
    mail["Subject"] = subject
    mail.set_content(text, charset=charset, cte="base64")
    if html is not None:
        mail.add_alternative(html, subtype="html")
    for name, content in (files or {}).items():
        mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    if forwarded is not None:
        mail.add_attachment(forwarded)
    return mail


def nest_mail(levels: int) -> bytes:
    """A mail that is forwarded again and again."""
    return b"Subject: b\nContent-Type: message/rfc822\n\n" * levels + b"\ntext"
