"""The tables of docs/bounds.md are those of the code."""

import re
from pathlib import Path

import pytest

from app.concurrency import share
from app.contract import search, text, validation
from app.documents.parsed import ParseLimits
from app.knowledge import paging, upkeep
from app.knowledge.administration import platform
from app.knowledge.entries import reading
from app.knowledge.search import journal
from app.knowledge.search import service as searches
from app.knowledge.subscriptions import deliveries, matching, webhooks
from app.knowledge.subscriptions import service as subscriptions
from app.knowledge.tenants import admission, directory
from app.mcp.tools import reading as tools
from app.settings import Settings
from app.web import bodies, connection, layer, occupancy

PAGE = (Path(__file__).parents[2] / "docs" / "bounds.md").read_text("utf-8")
PARSING, PATIENCE = ParseLimits(), bodies.Patience()
PER_HOST = Settings().webhooks.host_per_minute


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
    bounds = {(path, role): bodies.BODIES[path] for path, role in found if path in bodies.BODIES}
    bounds |= {("/mcp", "reader"): bodies.MCP_READER, ("all other paths", "any"): bodies.SMALL}
    assert {path for path, _ in bounds} == {*bodies.BODIES, "all other paths"}
    assert found == {
        place: tuple(f"{number:,}" for number in (b.bytes, b.containers, b.values)) for place, b in bounds.items()
    }


def test_the_other_bounds_are_those_of_the_code() -> None:
    found = {what: bound for what, _, bound, _ in read_rows("Work, answers and connections")}
    assert found == {
        what: f"{number:,}"
        for what, number in {
            "bytes of bodies in progress": admission.BODY_BYTES,
            "bytes of bodies that have arrived, of all tenants": admission.BODY_TOTAL,
            "parts of answered bodies that still come, in a second": occupancy.RESTS_PER_SECOND,
            "bodies that are parsed at the same time": admission.PARSED_AT_ONCE,
            "text and metadata of a page of a search or of a list": paging.PAGE_BYTES,
            "results of a batch": searches.BATCH_BYTES,
            "batches and texts of assets in progress, in bytes": admission.ANSWER_BYTES,
            "batches and texts of assets of all tenants in progress, in bytes": admission.ANSWER_TOTAL,
            "answers that are not read, in bytes": occupancy.UNREAD_BYTES,
            "answers of all tenants that are not read, in bytes": occupancy.UNREAD_TOTAL,
            "answers to callers without a valid token in a second": occupancy.STRANGERS_PER_SECOND,
            "characters of a text that `kb_get` and `kb_read_document` return": reading.READ_LENGTH,
            "characters of a document that `fetch` returns": tools.FETCH_LENGTH,
            "refused messages to `/mcp` that are read, in a minute": admission.REPORTS,
            "reads of platform admins at the same time": platform.READS,
            "invalid fields named in a problem": validation.MOST,
            "combining marks in a row in a title, a content or a query": text.MOST_MARKS,
            "characters of an asset's text": PARSING.max_characters,
            "headings of an asset": PARSING.max_headings,
            "pages of an asset": PARSING.max_pages,
            "connections": Settings().server.connections_per_address,
            "connections that wait for this 503": occupancy.HELD,
            "time of the event loop for refused and large requests, in percent": round(100 * share.SHARE),
            "open files of the process": occupancy.DESCRIPTORS,
            "bytes of a request's head": connection.MAX_HEAD_BYTES,
            "headers": connection.MAX_HEADERS,
            "challenges to the endpoint of a subscription": len(deliveries.PAUSES) + 1,
            "subscriptions": subscriptions.MAX_SUBSCRIPTIONS,
            "subscriptions for one host": subscriptions.MAX_OF_A_HOST,
            "webhook messages to one host in a minute": PER_HOST,
            "webhook messages to one address in a minute": webhooks.HOSTS_OF_AN_ADDRESS * PER_HOST,
            "challenges to one host, and to one address, in a minute": PER_HOST // webhooks.CHALLENGES,
            "challenges in a minute": webhooks.TENANTS_CHALLENGES * webhooks.WINDOWS_PER_MINUTE,
            "searches whose receipts are not written yet, in bytes": journal.QUEUE_BYTES,
            "simultaneous name lookups": webhooks.SHARE,
        }.items()
    }


def test_the_bounds_of_records_are_those_of_the_code() -> None:
    found = {(what, of): bound for what, of, bound, *_ in read_rows("Records")}
    assert found == {
        place: f"{number:,}" if number else "–"
        for place, number in {
            ("receipts of searches", "tenant"): Settings().limits.receipts,
            ("feedback", "tenant"): upkeep.MOST_FEEDBACK,
            ("rows of the audit trail", "tenant"): Settings().records.audit_rows,
            ("rows of the platform's audit trail", "service"): Settings().records.audit_rows,
            ("saved searches", "caller"): subscriptions.MAX_SAVED,
            ("saved searches", "tenant"): subscriptions.MAX_OF_A_TENANT,
            ("pending webhook messages", "subscription"): matching.MAX_WAITING,
            ("ended webhook messages", "tenant"): upkeep.MOST_ENDED_DELIVERIES,
            ("receipts of erasures", "tenant"): None,
            ("revoked tokens", "tenant"): directory.MAX_REVOKED,
            ("turns at hosts of webhooks", "service"): None,
        }.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        f"and {bodies.UPLOAD_ROOM:,} bytes around it",
        f"at most {bodies.DEPTH} levels deep",
        f"a search has at most {search.MAX_METADATA_VALUES} values",
        f"for each {admission.CHARGED_BYTES:,} bytes",
        f"The last {admission.BODY_BYTES:,} bytes of that total",
        f"nothing for {PATIENCE.stall:.0f} s gets 408, as does one that takes longer than {PATIENCE.grace:.0f} s",
        f"second for each {PATIENCE.rate:,.0f} bytes",
        f"A rest of more than {connection.DROPPED_BYTES:,} bytes, or one of",
        f"which less than {connection.REST_RATE:,} bytes come in a second, over {connection.HEAD_SECONDS:.0f} s, ends",
        f"wait up to {admission.PATIENCE:.0f} s",
        f"and {occupancy.STRANGERS_AT_ONCE} answers need not wait",
        f"that leave fewer than {occupancy.SPARE_DESCRIPTORS}, for {occupancy.SPARE_DESCRIPTORS // 2} of them",
        f"503 after {occupancy.HOLD_SECONDS:.0f} s",
        f"({', '.join(map(str, sorted(layer.REFUSED)[:-1]))} and {max(layer.REFUSED)})",
        f"Each MiB of either costs {1000 * share.MIB_SECONDS:.0f} ms more",
        f"at most {100 * share.SHARE:.0f} % of the loop of a process: when the {share.FREE} s",
        f"bodies above {share.LARGE >> 20} MiB",
    ],
)
def test_the_text_states_the_numbers_of_the_code(text: str) -> None:
    assert text in re.sub(r"\s+", " ", PAGE)
