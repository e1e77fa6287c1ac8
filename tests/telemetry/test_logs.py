"""The logs: their form, and that nothing that callers send gets into them."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import sqlalchemy.exc
from pydantic import SecretStr

from app.auth.principal import Role
from app.errors import EmbeddingUnavailable
from app.telemetry.logs import configure_logging, request_id
from tests.fixtures.logs import restored_logging

CONTENT = "the merger is called Bluebird"
logger = logging.getLogger("app.knowledge.search")


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.fixture
def lines() -> io.StringIO:
    stream = io.StringIO()
    configure_logging("debug", json=True, stream=stream)
    return stream


@pytest.fixture
def plain() -> io.StringIO:
    stream = io.StringIO()
    configure_logging("info", json=False, stream=stream)
    return stream


def only(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    record: dict[str, Any] = json.loads(line)
    return record


def make_database_error() -> sqlalchemy.exc.IntegrityError:
    """An error as SQLAlchemy and asyncpg raise it, with content in each of its texts."""
    driver = asyncpg.UniqueViolationError(f"duplicate key: Key (content)=({CONTENT}) already exists")
    driver.detail = f"Key (content)=({CONTENT})"
    error = sqlalchemy.exc.IntegrityError(f"insert '{CONTENT}'", {"content": CONTENT}, driver)
    error.__cause__ = driver
    return error


def test_a_record_is_one_json_object_with_its_fields(lines: io.StringIO) -> None:
    logger.info("search done in %d ms", 9, extra={"result_count": 3, "tenant_id": UUID(int=1), "top": 0.5})
    record = only(lines)
    moment = datetime.fromisoformat(record.pop("timestamp"))
    assert moment.tzinfo == UTC
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60
    assert record == {
        "level": "info",
        "logger": "app.knowledge.search",
        "message": "search done in 9 ms",
        "result_count": 3,
        "tenant_id": "00000000-0000-0000-0000-000000000001",
        "top": 0.5,
    }


def test_every_kind_of_field_becomes_json(lines: io.StringIO) -> None:
    class Opaque:
        def __repr__(self) -> str:
            return CONTENT

    extra = {
        "nan": float("nan"),
        "huge": 10**400,
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "path": Path("/a"),
        "role": Role.READER,
        "nested": {"a": [1, {2}, (None, True)]},
        "surrogate": "\ud800",
        "key": SecretStr(CONTENT),
        "opaque": Opaque(),
        "error": ValueError(CONTENT),
        "level": "mine",
    }
    logger.info("all", extra=extra)
    record = only(lines)
    assert CONTENT not in lines.getvalue()
    assert record["nan"] is None
    assert record["huge"] == 10**400
    assert record["when"] == "2026-01-02 00:00:00+00:00"
    assert (record["path"], record["role"]) == ("/a", "reader")
    assert record["nested"] == {"a": [1, [2], [None, True]]}
    assert record["error"] == "<ValueError>"
    assert record["level"] == "info"


def test_the_request_id_is_in_each_record_of_its_context(lines: io.StringIO) -> None:
    token = request_id.set("r-1")
    logger.info("inside")
    request_id.reset(token)
    logger.info("outside")
    inside, outside = (json.loads(line) for line in lines.getvalue().splitlines())
    assert inside["request_id"] == "r-1"
    assert "request_id" not in outside


@pytest.mark.parametrize("as_json", [True, False])
def test_a_database_error_is_logged_without_its_text(as_json: bool) -> None:
    stream = io.StringIO()
    configure_logging("debug", json=as_json, stream=stream)
    assert CONTENT in str(make_database_error())
    try:
        raise make_database_error()
    except sqlalchemy.exc.IntegrityError as error:
        logger.exception("write failed: %s", error, extra={"reason": error})
        logger.error(error)
    text = stream.getvalue()
    assert "Bluebird" not in text
    assert "IntegrityError" in text
    assert "UniqueViolationError" in text
    assert "23505" in text
    assert "test_a_database_error_is_logged_without_its_text" in text


def test_an_exception_is_logged_with_its_stack_and_causes(lines: io.StringIO) -> None:
    def fail() -> None:
        raise ConnectionRefusedError(111, CONTENT)

    try:
        try:
            fail()
        except OSError as error:
            raise EmbeddingUnavailable("openai", "status 500", attempts=3) from error
    except EmbeddingUnavailable:
        logger.exception("fallback")
    exception = only(lines)["exception"]
    assert CONTENT not in lines.getvalue()
    assert exception["type"] == "app.errors.EmbeddingUnavailable"
    assert exception["message"] == "openai unavailable: status 500"
    assert exception["cause"]["errno"] == "ECONNREFUSED"
    assert "message" not in exception["cause"]
    assert [frame.rpartition(".")[2] for frame in exception["cause"]["stack"]][-1] == "fail"


def test_every_member_of_an_exception_group_is_logged_without_its_text(lines: io.StringIO) -> None:
    try:
        raise ExceptionGroup(CONTENT, [ValueError(CONTENT), make_database_error()])
    except ExceptionGroup:
        logger.exception("both failed")
    assert "Bluebird" not in lines.getvalue()
    kinds = [member["type"] for member in only(lines)["exception"]["exceptions"]]
    assert kinds == ["builtins.ValueError", "sqlalchemy.exc.IntegrityError"]


async def test_a_task_that_was_never_awaited_is_logged_without_its_text(lines: io.StringIO) -> None:
    async def fail() -> None:
        raise ValueError(CONTENT)

    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    asyncio.get_running_loop().default_exception_handler(
        {"message": "Task exception was never retrieved", "exception": task.exception(), "task": task}
    )
    record = only(lines)
    assert "Bluebird" not in lines.getvalue()
    assert record["message"] == "Task exception was never retrieved"
    assert record["exception"]["type"] == "builtins.ValueError"


def test_a_record_that_cannot_be_written_does_not_print_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    lines = io.StringIO()
    configure_logging("info", json=True, stream=lines)  # here, to avoid pytest's own handler
    logger.info("%d entries", CONTENT)
    assert "Bluebird" not in lines.getvalue() + "".join(capsys.readouterr())
    assert only(lines)["message"] == "a record of app.knowledge.search was lost"


def test_an_access_line_has_no_query_string(lines: io.StringIO) -> None:
    args = ("127.0.0.1:5", "GET", f"/knowledge/entries?q={CONTENT}", "1.1", 200)
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', *args)
    record = only(lines)
    assert "Bluebird" not in lines.getvalue()
    assert (record["method"], record["path"], record["status"]) == ("GET", "/knowledge/entries", 200)


def test_named_arguments_are_rendered_without_the_text_of_exceptions(lines: io.StringIO) -> None:
    logger.warning("%(what)s failed: %(error)r", {"what": "flush", "error": ValueError(CONTENT)})
    assert only(lines)["message"] == "flush failed: 'ValueError'"


def test_uvicorn_logs_once_and_in_the_same_form(lines: io.StringIO) -> None:
    stray = logging.StreamHandler(io.StringIO())
    logging.getLogger("uvicorn").addHandler(stray)
    configure_logging("info", json=True, stream=lines)
    logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\x1b[1mStarted"})
    assert only(lines)["message"] == "Started"
    assert "color_message" not in only(lines)


def test_debug_lines_of_libraries_are_dropped_even_at_level_debug(lines: io.StringIO) -> None:
    library = logging.getLogger("httpx")
    library.setLevel(logging.DEBUG)
    library.debug("Request options: %s", CONTENT)
    library.info("HTTP Request: GET https://api.example/?key=%s", CONTENT)
    assert lines.getvalue() == ""
    library.warning("slow")
    assert only(lines)["message"] == "slow"


def test_the_level_applies_to_the_service(plain: io.StringIO) -> None:
    logger.debug("unheard")
    logger.info("yes")
    assert "unheard" not in plain.getvalue()
    assert "app.knowledge.search: yes" in plain.getvalue()


def test_a_plain_record_is_one_readable_line(plain: io.StringIO) -> None:
    token = request_id.set("r-2")
    logger.warning("asset %s", "failed\nFAKE ERROR\x1b[2J", extra={"asset_id": UUID(int=2), "n": 3})
    request_id.reset(token)
    (line,) = plain.getvalue().splitlines()
    assert line.endswith(
        r"WARNING  app.knowledge.search: asset failed\nFAKE ERROR\x1b[2J"
        ' asset_id="00000000-0000-0000-0000-000000000002" n=3 request_id="r-2"'
    )


def test_plain_exceptions_show_groups_and_causes(plain: io.StringIO) -> None:
    try:
        try:
            raise ExceptionGroup("two", [OSError(2, CONTENT), EmbeddingUnavailable("local", "no file")])
        except ExceptionGroup as group:
            raise RuntimeError(CONTENT) from group
    except RuntimeError:
        logger.exception("failed")
    text = plain.getvalue()
    assert "Bluebird" not in text
    assert "caused by" in text
    assert "+ builtins.FileNotFoundError errno=ENOENT" in text
    assert "+ app.errors.EmbeddingUnavailable: local unavailable: no file" in text


def test_a_plain_exception_is_one_line_where_stacks_are_not_wanted() -> None:
    stream = io.StringIO()
    configure_logging("warning", json=False, stream=stream, stacks=False)
    try:
        raise RuntimeError(CONTENT)
    except RuntimeError:
        logger.exception("the sweep failed")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("ERROR    app.knowledge.search: the sweep failed")


def test_logs_go_to_stderr_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", json=True)
    logger.info("hello")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["message"] == "hello"
