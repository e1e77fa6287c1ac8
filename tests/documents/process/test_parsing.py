"""The parsing process: its answers, limits, ends, and what it loads."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from app.documents.parsed import ParseLimits, PartSpan
from app.documents.process import parsing
from app.documents.process.parsing import ParserCrashed, ParserDied, ParserExhausted, parse_document
from app.errors import InvalidInput, UnreadableDocument, UnsupportedMediaType
from tests.documents.bombs import write_heavy_pages, write_picture_bomb, write_wide_structure
from tests.documents.office import text_box, text_cell, write_raw_pptx, write_raw_xlsx, write_zip
from tests.fixtures.documents import (
    WORD,
    paragraph,
    write_docx,
    write_pdf,
    write_pdf_with,
    write_raw_docx,
    write_slow_html,
)

SLOW = write_slow_html()


def find_children() -> list[psutil.Process]:
    """The reading processes that this process started."""
    return [
        process
        for process in psutil.Process().children()
        if process.status() != psutil.STATUS_ZOMBIE and "app.documents.process.child" in " ".join(process.cmdline())
    ]


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the state of a process has no event
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
async def _no_process_remains() -> AsyncIterator[None]:
    yield
    await wait_for(lambda: not find_children())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("data", "filename", "text"),
    [
        ("Grüße 🎉".encode(), "a.txt", "Grüße 🎉"),
        (b"# A\n\nb", "a.md", "# A\n\nb"),
        (b"<html><h1>A</h1><p>b", "a.html", "A\n\nb"),
        (write_pdf([["one"], ["two"]]), "a.pdf", "one\n\ntwo"),
        (write_raw_docx(paragraph("word")), "a.docx", "word"),
        (write_raw_pptx([text_box("one"), text_box("two")]), "a.pptx", "one\n\ntwo"),
        (write_raw_xlsx(f'<row r="1">{text_cell("A1", "word")}</row>'), "a.xlsx", "One\nword"),
        (b"name,age\nAda,36", "a.csv", "name: Ada | age: 36"),
        (b'{"a": {"b": 1}}', "a.json", "a.b: 1"),
        (b'{"a": 1}\n{"a": 2}', "a.jsonl", "a: 1\n\na: 2"),
        (b"def f():\n    pass\n", "a.py", "def f():\n    pass"),
        (write_zip({"x/a.txt": "word"}), "a.zip", "x/a.txt\n\nword"),
    ],
)
async def test_each_format_is_read_in_the_confined_process(data: bytes, filename: str, text: str) -> None:
    assert (await parse_document(data, filename)).text == text


async def test_pages_headings_and_title_cross_the_process_border() -> None:
    data = write_pdf_with([["Intro"], ["Setup"]], title="Guide", outline=[("Setup", 1, False)])
    document = await parse_document(data)
    assert (document.title, document.total_pages, document.format) == ("Guide", 2, "pdf")
    assert [(page.number, page.start, page.end) for page in document.pages] == [(1, 0, 5), (2, 7, 12)]
    assert [(heading.start, heading.title) for heading in document.headings] == [(7, "Setup")]


async def test_parts_cross_the_process_border() -> None:
    document = await parse_document(write_zip({"a.md": "# A", "b.csv": "x,y\n1,2"}))
    assert document.parts == (PartSpan(0, 9, "markdown"), PartSpan(9, 30, "csv"))


async def test_large_file_crosses_the_process_border() -> None:
    line = "Zeile mit Umlauten äöü\n"
    document = await parse_document((line * 200_000).encode(), "a.txt")
    assert document.text == (line * 200_000).strip()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_pdf([[]]), "no text layer"),
        (write_pdf_with([["x"]], user_password="pw"), "encrypted"),
        (b"  \n\n ", "the plain text file contains no text"),
        (write_docx()[:-100], "damaged"),
    ],
)
async def test_refusal_crosses_the_process_border(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        await parse_document(data)


async def test_file_is_refused_before_a_process_starts() -> None:
    with pytest.raises(InvalidInput):
        await parse_document(b"")
    with pytest.raises(UnsupportedMediaType):
        await parse_document(b"\x89PNG\r\n\x1a\n\x00")


async def test_time_limit_ends_the_process() -> None:
    with pytest.raises(UnreadableDocument, match=r"takes more than 0\.6 s to read"):
        await parse_document(SLOW, limits=ParseLimits(seconds=0.6))


def test_processor_time_limit_holds_without_the_parent() -> None:
    limits = asdict(ParseLimits(seconds=1))
    request = {
        "format": "html",
        "readers": ["html"],
        "limits": limits,
        "ocr": "absent",
        "codec": None,
        "guesses": False,
    }
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; from app.documents.process.child import main; main()", str(os.getpid())],
        input=json.dumps(request).encode() + b"\n" + SLOW,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode in {-signal.SIGXCPU, -signal.SIGALRM}
    assert ended.stdout == b""


async def test_memory_limit_is_explained() -> None:
    data = write_raw_docx(paragraph("x y ") * 400_000 + paragraph(os.urandom(400_000).hex()))
    with pytest.raises(UnreadableDocument, match=r"128 MiB of memory"):
        await parse_document(data, limits=ParseLimits(memory_bytes=128 << 20))


async def test_text_limit_is_explained() -> None:
    with pytest.raises(UnreadableDocument, match=r"more than 1,000 characters of text.*split it"):
        await parse_document(b"word " * 1_000, limits=ParseLimits(max_characters=1_000))


async def test_limits_of_headings_are_explained() -> None:
    headings = b"".join(b"# %d\n\n" % number for number in range(12))
    with pytest.raises(UnreadableDocument, match="more than 10 headings"):
        await parse_document(headings, "a.md", ParseLimits(max_headings=10))
    with pytest.raises(UnreadableDocument, match="more than 10 headings"):
        await parse_document(
            write_zip({"a.md": headings[:30], "b.md": headings[:30]}), limits=ParseLimits(max_headings=10)
        )
    long = ("# " + "x" * 290 + "\n\n") * 15_000
    with pytest.raises(UnreadableDocument, match="more than 4,000,000 characters of headings"):
        await parse_document(long.encode(), "a.md")


async def test_members_are_read_whatever_their_names_indicate() -> None:
    members: dict[str, str | bytes] = {
        "a.txt": write_pdf([["in a PDF"]]),
        "b": "<!doctype html><html><body><p>in HTML</p></body></html>",
        "c.pdf": "in plain text",
        "d.bin": write_raw_docx(paragraph("in Word")),
    }
    text = (await parse_document(write_zip(members), "a.zip")).text
    assert [line for line in text.splitlines() if line.startswith("in ")] == [
        *("in a PDF", "in HTML", "in plain text", "in Word")
    ]


async def test_zip_bomb_and_page_bomb_are_refused() -> None:
    with pytest.raises(UnreadableDocument, match="too large when unpacked"):
        await parse_document(write_raw_docx(paragraph("x" * (20 << 20))))
    with pytest.raises(UnreadableDocument, match="3 pages; at most 2"):
        await parse_document(write_pdf([["x"]] * 3), limits=ParseLimits(max_pages=2))


async def test_page_nested_a_hundred_thousand_deep_is_harmless() -> None:
    data = b"<html><p>first</p>" + b"<div>" * 100_000 + b"deep"
    assert (await parse_document(data)).text == "first\n\ndeep"


async def test_cancelled_call_kills_the_process() -> None:
    call = asyncio.create_task(parse_document(SLOW))
    await wait_for(lambda: bool(find_children()))
    process = find_children()[0]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_killed_process_is_explained() -> None:
    call = asyncio.create_task(parse_document(SLOW))
    await wait_for(lambda: bool(find_children()))
    find_children()[0].send_signal(signal.SIGSEGV)
    with pytest.raises(UnreadableDocument, match="the HTML file cannot be read: it is damaged, or needs") as raised:
        await call
    assert isinstance(raised.value, ParserCrashed)


@pytest.mark.parametrize("number", [signal.SIGBUS, signal.SIGTERM, signal.SIGKILL])
async def test_a_process_that_the_system_ends_may_read_the_file_later(number: signal.Signals) -> None:
    call = asyncio.create_task(parse_document(SLOW))
    await wait_for(lambda: bool(find_children()))
    find_children()[0].send_signal(number)
    with pytest.raises(ParserDied):
        await call


THROW = "from app.documents.readers import markdown; markdown.parse = lambda *_: (_ for _ in ()).throw({error})"


@pytest.mark.parametrize(
    "start",
    [
        "import sys; sys.stdin.buffer.read(); print('{}')",  # the code of another version
        f"{THROW.format(error='OSError(12, str())')}; {parsing._START}",
        f"{THROW.format(error='ImportError')}; {parsing._START}",
    ],
)
async def test_a_fault_of_the_system_is_not_called_damage(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_START", start)
    with pytest.raises(ParserDied, match="the Markdown file cannot be read"):
        await parse_document(b"# Tides", "a.md")


async def test_an_error_of_the_reader_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_START", f"{THROW.format(error='KeyError')}; {parsing._START}")
    with pytest.raises(UnreadableDocument, match="is damaged") as raised:
        await parse_document(b"# Tides", "a.md")
    assert not isinstance(raised.value, ParserDied)


async def test_a_structure_that_takes_too_long_is_left_out() -> None:
    limits = ParseLimits(structure_seconds=0.2)
    assert (await parse_document(write_wide_structure(40_000), "a.pdf", limits)).text == "tagged words"


async def test_a_picture_that_needs_too_much_does_not_lose_the_text_around_it() -> None:
    data = write_picture_bomb(b"the words around it")
    document = await parse_document(data, "a.pdf", ParseLimits(picture_seconds=0.02))
    assert document.text == "the words around it"


async def test_pages_that_cannot_be_read_in_time_are_refused_early() -> None:
    # A page takes 20 ms on two cores of 2024, and the test needs at least 2 ms and at most 2 s.
    data = write_heavy_pages(20_000, 400_000)
    with pytest.raises(UnreadableDocument, match="its 20,000 pages draw too much") as raised:
        await parse_document(data, "a.pdf", ParseLimits(seconds=20, max_pages=20_000))
    assert not isinstance(raised.value, ParserDied | ParserExhausted)


async def test_current_directory_cannot_replace_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app").mkdir()
    for name in ("app/__init__.py", "json.py", "lxml.py"):
        (tmp_path / name).write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert (await parse_document(b"<html><p>fine")).text == "fine"


def test_process_without_its_parent_ends_at_once() -> None:
    program = "import sys; from app.documents.process.child import main; main()"
    ended = subprocess.run([sys.executable, "-c", program, "1"], input=b"", capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, b"")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system tells of the parent's death on Linux only")
def test_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    slow = tmp_path / "slow.html"
    slow.write_bytes(SLOW)
    program = (
        "import asyncio, pathlib, sys\nfrom app.documents.process.parsing import parse_document\n"
        "asyncio.run(parse_document(pathlib.Path(sys.argv[1]).read_bytes()))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(slow)])
    children: list[psutil.Process] = []
    deadline = time.monotonic() + 60
    # The processor time shows that the child has finished its start.
    while not (children and sum(children[0].cpu_times()[:2]) > 0.3) and time.monotonic() < deadline:
        time.sleep(0.02)
        children = psutil.Process(parent.pid).children()
    # Otherwise it would soon end by itself.
    children[0].suspend()
    parent.kill()
    parent.wait()
    gone, alive = psutil.wait_procs(children, timeout=10)
    for process in alive:
        process.kill()
    assert (len(gone), alive) == (1, [])


CHARSETS = ("koi8-r", "windows-1251", "iso-8859-5", "cp866", "mac-cyrillic", "utf-8")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("charset", [*CHARSETS, "shift_jis", "gb18030", "euc-kr", "big5"])
async def test_declared_encoding_is_read_without_opening_its_module(charset: str) -> None:
    word = "Привет" if charset in CHARSETS else {"euc-kr": "한국"}.get(charset, "日本")
    page = f'<html><head><meta charset="{charset}"></head><body><p>{word}</p></body></html>'
    assert (await parse_document(page.encode(charset), "a.html")).text == word


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp1252"])
async def test_encoding_of_a_text_is_read_without_opening_its_module(encoding: str) -> None:
    assert (await parse_document("Grüße".encode(encoding), "a.txt")).text == "Grüße"


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "iso-8859-15"])
async def test_encoding_of_a_part_is_read_without_opening_its_module(encoding: str) -> None:
    body = f'<w:document xmlns:w="{WORD}"><w:body>{paragraph("Grüße")}</w:body></w:document>'
    xml = f'<?xml version="1.0" encoding="{encoding}"?>{body}'
    data = write_zip({"word/document.xml": xml.encode(encoding)})
    assert (await parse_document(data, "a.docx")).text == "Grüße"


async def test_old_names_of_an_archive_are_read_without_opening_their_encoding() -> None:
    data = write_zip({"Xber.txt": "word"}).replace(b"Xber", b"\x9aber")
    assert (await parse_document(data, "a.zip")).text == "Über.txt\n\nword"


LATER = {"app.documents.ocr.recogniser", "app.documents.ocr.layout", "statistics", "pypdfium2"}


def test_process_for_plain_text_loads_no_text_recognition() -> None:
    """It loaded the layout of recognised lines and its libraries, a tenth of its start."""
    command = (
        "import sys, app.documents.process.child, app.documents.readers.builder; "
        f"print(sorted({LATER} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
