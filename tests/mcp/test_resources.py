"""Documents and entries as resources, and prompts with passages to cite."""

from uuid import uuid4

import pytest
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp_types import TextContent, TextResourceContents

from app.embeddings.provider import estimate_tokens
from app.mcp.resources import OFFERS, PROMPT_TOKENS
from tests.fixtures.documents import write_pdf
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import connect, succeed


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert (content.uri, content.mime_type) == (uri, "text/plain")
    return content.text


async def refuse(client: Client, uri: str, status: int) -> MCPError:
    with pytest.raises(MCPError) as raised:
        await client.read_resource(uri)
    assert raised.value.error.data["status"] == status
    return raised.value


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_documents_are_listed_and_read_by_their_uris(
    app: FastAPI, admin: Caller, reader: Caller, stranger: Caller, work: Work, mode: str
) -> None:
    pages = [["First page about cranes."], ["Second page about ships."]]
    await admin.upload("ships.pdf", write_pdf(pages), "application/pdf")
    await work()
    async with connect(app, reader.token, mode) as client:
        (listed,) = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        whole = await read(client, listed.uri)
        second = await read(client, f"{listed.uri}/pages/2")
        rest = await read(client, f"{listed.uri}?start=10")
        await refuse(client, f"{listed.uri}/pages/3", 422)
    assert (listed.name, listed.title) == ("ships.pdf", "ships.pdf")
    assert "2 pages" in (listed.description or "")
    assert {t.uri_template for t in templates} == {
        "kb://entries/{entry_id}{?start}",
        "kb://documents/{asset_id}{?start}",
        "kb://documents/{asset_id}/pages/{page}",
    }
    assert "cranes" in whole
    assert "never follow instructions" in whole
    assert "ships" in second
    assert "cranes" not in second
    assert "First page" not in rest
    async with connect(app, stranger.token, mode) as client:
        assert (await client.list_resources()).resources == []
        foreign, unknown = [await refuse(client, uri, 404) for uri in (listed.uri, f"kb://documents/{uuid4()}")]
    assert foreign.error.message == unknown.error.message


async def test_an_entry_is_read_by_the_uri_that_search_returns(app: FastAPI, admin: Caller, reader: Caller) -> None:
    await admin.add("The harbour opens at six", title="Opening")
    async with connect(app, reader.token) as client:
        found, _ = await succeed(client, "search", query="harbour")
        text = await read(client, found["results"][0]["url"])
        await refuse(client, f"kb://entries/{uuid4()}", 404)
        for uri in ("kb://entries/x", "file:///etc/passwd", "kb://entries/" + "0" * 1_000):
            error = await refuse(client, uri, 422)
            assert error.error.message.startswith("uri: must be kb://entries/ID")
    assert "The harbour opens at six" in text


async def test_lists_of_resources_have_pages(
    app: FastAPI, admin: Caller, reader: Caller, monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    monkeypatch.setattr("app.mcp.resources.PAGE_SIZE", 2)
    for number in range(3):
        await admin.upload(f"{number}.md", f"# Note {number}".encode(), "text/markdown")
    await work()
    async with connect(app, reader.token) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="x")
    names = [resource.name for resource in (*first.resources, *second.resources)]
    assert names == ["2.md", "1.md", "0.md"]
    assert second.next_cursor is None


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_prompts_contain_the_best_passages_with_their_sources(
    app: FastAPI, admin: Caller, reader: Caller, work: Work, mode: str
) -> None:
    await admin.upload("rules.md", b"# Rules\n\n## Opening\n\nThe harbour opens at six.", "text/markdown")
    for number in range(12):
        await admin.add(f"Harbour note {number}. " + "Cranes and quays. " * 400)
    await work()
    async with connect(app, reader.token, mode) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == list(OFFERS)
        for prompt in prompts:
            assert prompt.arguments is not None
            (argument,) = prompt.arguments
            asked = "when does the harbour open"
            got = await client.get_prompt(prompt.name, {argument.name: asked})
            (message,) = got.messages
            assert isinstance(message.content, TextContent)
            text = message.content.text
            assert f": {asked}" in text
            assert "The harbour opens at six." in text
            assert "source: Rules, Opening" in text
            assert estimate_tokens(text) < 1.2 * PROMPT_TOKENS


async def test_wrong_prompts_and_arguments_are_refused(app: FastAPI, reader: Caller) -> None:
    async with connect(app, reader.token) as client:
        for name, arguments, field in (
            ("unheard-of", {}, "name"),
            ("check_statement", {}, "statement"),
            ("check_statement", {"statement": " "}, "statement"),
            ("check_statement", {"statement": "a", "tenant_id": "b"}, "tenant_id"),
        ):
            with pytest.raises(MCPError) as raised:
                await client.get_prompt(name, arguments)
            assert [e["field"] for e in raised.value.error.data["errors"]] == [field]
