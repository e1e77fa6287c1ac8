"""The tables of docs/bounds.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.concurrency.share import FREE, LARGE, MIB_SECONDS
from app.concurrency.share import SHARE as LOOP_SHARE
from app.contract.search import MAX_METADATA_VALUES
from app.contract.text import MOST_MARKS
from app.contract.validation import MOST
from app.documents.parsed import ParseLimits
from app.knowledge.administration.platform import READS
from app.knowledge.entries.reading import READ_LENGTH
from app.knowledge.paging import PAGE_BYTES
from app.knowledge.search.journal import QUEUE_BYTES
from app.knowledge.search.service import BATCH_BYTES
from app.knowledge.subscriptions.deliveries import PAUSES
from app.knowledge.subscriptions.matching import MAX_WAITING
from app.knowledge.subscriptions.sending import (
    CHALLENGES,
    HOSTS_OF_AN_ADDRESS,
    TENANTS_CHALLENGES,
    WINDOWS_PER_MINUTE,
)
from app.knowledge.subscriptions.service import MAX_OF_A_HOST, MAX_OF_A_TENANT, MAX_SAVED, MAX_SUBSCRIPTIONS
from app.knowledge.subscriptions.webhooks import SHARE
from app.knowledge.tenants.admission import (
    ANSWER_BYTES,
    ANSWER_TOTAL,
    BODY_BYTES,
    BODY_TOTAL,
    CHARGED_BYTES,
    PARSED_AT_ONCE,
    PATIENCE,
    REPORTS,
)
from app.knowledge.tenants.revocations import MAX_REVOKED
from app.knowledge.upkeep import MOST_ENDED_DELIVERIES, MOST_FEEDBACK
from app.mcp.tools.assistants import FETCH_LENGTH
from app.settings import Settings
from app.web.bodies import BODIES, DEPTH, MCP_READER, SMALL, UPLOAD_ROOM, Patience
from app.web.connection import DROPPED_BYTES, HEAD_SECONDS, MAX_HEAD_BYTES, MAX_HEADERS, REST_RATE
from app.web.layer import REFUSED
from app.web.occupancy import (
    DESCRIPTORS,
    HELD,
    HOLD_SECONDS,
    RESTS_PER_SECOND,
    SPARE_DESCRIPTORS,
    STRANGERS_AT_ONCE,
    STRANGERS_PER_SECOND,
    UNREAD_BYTES,
    UNREAD_TOTAL,
)

PAGE = (Path(__file__).parents[2] / "docs" / "bounds.md").read_text("utf-8")
PARSING = ParseLimits()


def read_rows(heading: str) -> list[list[str]]:
    """The cells of a section's table."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return rows[2:]


def test_the_bounds_of_bodies_are_those_of_the_code() -> None:
    found = {(path, role): tuple(numbers) for path, role, *numbers in read_rows("Requests")}
    bounds = {(path, role): BODIES[path] for path, role in found if path in BODIES}
    bounds |= {("/mcp", "reader"): MCP_READER, ("all other paths", "any"): SMALL}
    assert {path for path, _ in bounds} == {*BODIES, "all other paths"}
    assert found == {
        place: tuple(f"{number:,}" for number in (b.bytes, b.containers, b.values)) for place, b in bounds.items()
    }


def test_the_other_bounds_are_those_of_the_code() -> None:
    found = {what: bound for what, _, bound, _ in read_rows("Work, answers and connections")}
    assert found == {
        what: f"{number:,}"
        for what, number in {
            "bytes of bodies in progress": BODY_BYTES,
            "bytes of bodies that have arrived, of all tenants": BODY_TOTAL,
            "parts of answered bodies that still come, in a second": RESTS_PER_SECOND,
            "bodies that are parsed at the same time": PARSED_AT_ONCE,
            "text and metadata of a page of a search or of a list": PAGE_BYTES,
            "results of a batch": BATCH_BYTES,
            "batches and texts of assets in progress, in bytes": ANSWER_BYTES,
            "batches and texts of assets of all tenants in progress, in bytes": ANSWER_TOTAL,
            "answers that are not read, in bytes": UNREAD_BYTES,
            "answers of all tenants that are not read, in bytes": UNREAD_TOTAL,
            "answers to callers without a valid token in a second": STRANGERS_PER_SECOND,
            "characters of a text that `kb_get` and `kb_read_document` return": READ_LENGTH,
            "characters of a document that `fetch` returns": FETCH_LENGTH,
            "refused messages to `/mcp` that are read, in a minute": REPORTS,
            "reads of platform admins at the same time": READS,
            "invalid fields named in a problem": MOST,
            "combining marks in a row in a title, a content or a query": MOST_MARKS,
            "characters of an asset's text": PARSING.max_characters,
            "headings of an asset": PARSING.max_headings,
            "pages of an asset": PARSING.max_pages,
            "connections": Settings().server.connections_per_address,
            "connections that wait for this 503": HELD,
            "time of the event loop for refused and large requests, in percent": round(100 * LOOP_SHARE),
            "open files of the process": DESCRIPTORS,
            "bytes of a request's head": MAX_HEAD_BYTES,
            "headers": MAX_HEADERS,
            "challenges to the endpoint of a subscription": len(PAUSES) + 1,
            "subscriptions": MAX_SUBSCRIPTIONS,
            "subscriptions for one host": MAX_OF_A_HOST,
            "webhook messages to one host in a minute": Settings().webhooks.host_per_minute,
            "webhook messages to one address in a minute": HOSTS_OF_AN_ADDRESS * Settings().webhooks.host_per_minute,
            "challenges to one host, and to one address, in a minute": Settings().webhooks.host_per_minute
            // CHALLENGES,
            "challenges in a minute": TENANTS_CHALLENGES * WINDOWS_PER_MINUTE,
            "searches whose receipts are not written yet, in bytes": QUEUE_BYTES,
            "simultaneous name lookups": SHARE,
        }.items()
    }


def test_the_bounds_of_records_are_those_of_the_code() -> None:
    found = {(what, of): bound for what, of, bound, *_ in read_rows("Records")}
    assert found == {
        place: f"{number:,}" if number else "–"
        for place, number in {
            ("receipts of searches", "tenant"): Settings().limits.receipts,
            ("feedback", "tenant"): MOST_FEEDBACK,
            ("rows of the audit trail", "tenant"): Settings().records.audit_rows,
            ("rows of the platform's audit trail", "service"): Settings().records.audit_rows,
            ("saved searches", "caller"): MAX_SAVED,
            ("saved searches", "tenant"): MAX_OF_A_TENANT,
            ("pending webhook messages", "subscription"): MAX_WAITING,
            ("ended webhook messages", "tenant"): MOST_ENDED_DELIVERIES,
            ("receipts of erasures", "tenant"): None,
            ("revoked tokens", "tenant"): MAX_REVOKED,
            ("turns at hosts of webhooks", "service"): None,
        }.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        f"and {UPLOAD_ROOM:,} bytes around it",
        f"at most {DEPTH} levels deep",
        f"a search has at most {MAX_METADATA_VALUES} values",
        f"for each {CHARGED_BYTES:,} bytes",
        f"The last {BODY_BYTES:,} bytes of that total",
        f"nothing for {Patience().stall:.0f} s gets 408, as does one that takes longer than {Patience().grace:.0f} s",
        f"second for each {Patience().rate:,.0f} bytes",
        f"A rest of more than {DROPPED_BYTES:,} bytes, or one of",
        f"which less than {REST_RATE:,} bytes come in a second, over {HEAD_SECONDS:.0f} s, ends the connection",
        f"wait up to {PATIENCE:.0f} s",
        f"and {STRANGERS_AT_ONCE} answers need not wait",
        f"that leave fewer than {SPARE_DESCRIPTORS}, for {SPARE_DESCRIPTORS // 2} of them",
        f"503 after {HOLD_SECONDS:.0f} s",
        f"({', '.join(map(str, sorted(REFUSED)[:-1]))} and {max(REFUSED)})",
        f"Each MiB of either costs {1000 * MIB_SECONDS:.0f} ms more",
        f"at most {100 * LOOP_SHARE:.0f} % of the loop of a process: when the {FREE} s",
        f"bodies above {LARGE >> 20} MiB",
    ],
)
def test_the_text_states_the_numbers_of_the_code(text: str) -> None:
    assert text in re.sub(r"\s+", " ", PAGE)
