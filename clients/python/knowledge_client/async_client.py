"""The client for programs with an event loop."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from knowledge_client import access, administration, assets, entries, history, oversight, searches, sources
from knowledge_client.exchange import Attempt, Exchange, Outcome, Pause, perform
from knowledge_client.pages import Pages
from knowledge_client.retries import Retries
from knowledge_client.tokens import Access, AsyncTokenSource, authorize, find_headers, find_token, find_url
from knowledge_client.transport import AsyncTransport, NotAnswered

if TYPE_CHECKING:
    import httpx

    from knowledge_client.http import AsyncHttpTransport

P = ParamSpec("P")
T = TypeVar("T")


def _call(define: Callable[P, Exchange[T]]) -> Callable[Concatenate[AsyncKnowledgeClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(define)
    async def method(client: AsyncKnowledgeClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.run(define(*args, **kwargs))

    return method


def _walk(define: Callable[P, Pages[T]]) -> Callable[Concatenate[AsyncKnowledgeClient, P], AsyncIterator[T]]:
    @functools.wraps(define)
    async def method(client: AsyncKnowledgeClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        read, cursor = define(*args, **kwargs), None
        while True:
            items, cursor = await client.run(read(cursor))
            for item in items:
                yield item
            if cursor is None:
                return

    return method


class AsyncKnowledgeClient:
    """Calls the service from one event loop, with any number of concurrent calls. Every method raises KnowledgeError.

    The methods are those of `KnowledgeClient`; both run the same definitions.
    """

    def __init__(
        self,
        url: str | None = None,
        token: AsyncTokenSource | None = None,
        *,
        access: Access | None = None,
        timeout: float = 30.0,
        retries: Retries | None = None,
        http: httpx.AsyncClient | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        """Without `url`, `token` and `access`, they are those of the variables KB_URL, KB_TOKEN and KB_ACCESS.

        With the access `all`, a tenant's admin sees and changes everything in it, which the audit trail records; the
        service refuses it to other callers.

        `timeout` is the limit of each network wait, in seconds (5 for connecting).

        `http` is your own httpx client, with its timeouts, proxies and certificates; it is not closed.

        `transport` carries the requests instead of httpx. It determines the service, and perhaps the caller: variables
        are not read, a token is optional, and `url`, `timeout` and `http` have no effect. It is not closed.

        Raises ValueError without an address or a token, and for another access.
        """
        self._own: AsyncHttpTransport | None = None
        if transport is None:
            from knowledge_client.http import AsyncHttpTransport  # httpx loads more slowly than all else

            url, token = find_url(url), find_token(token)
            transport = self._own = AsyncHttpTransport(url, timeout, http)
        self._headers = find_headers(access, variable=self._own is not None)
        self._transport = transport
        self._token = token
        self._current: str | None = None
        self._retries = retries or Retries()

    search = _call(searches.search)
    iterate_hits = _walk(searches.iterate_hits)
    search_batch = _call(searches.search_batch)
    why_not = _call(searches.why_not)
    related = _call(searches.related)
    give_feedback = _call(searches.give_feedback)
    save_search = _call(searches.save_search)
    list_saved_searches = _call(searches.list_saved_searches)
    iterate_saved_searches = _walk(searches.iterate_saved_searches)
    get_saved_search = _call(searches.get_saved_search)
    run_saved_search = _call(searches.run_saved_search)
    delete_saved_search = _call(searches.delete_saved_search)
    subscribe = _call(searches.subscribe)
    get_subscription = _call(searches.get_subscription)
    confirm_subscription = _call(searches.confirm_subscription)
    unsubscribe = _call(searches.unsubscribe)

    create_entry = _call(entries.create_entry)
    create_entries = _call(entries.create_entries)
    get_entry = _call(entries.get_entry)
    find_entry = _call(entries.find_entry)
    list_entries = _call(entries.list_entries)
    iterate_entries = _walk(entries.iterate_entries)
    list_tags = _call(entries.list_tags)
    iterate_tags = _walk(entries.iterate_tags)
    change_entry = _call(entries.change_entry)
    delete_entry = _call(entries.delete_entry)
    wait_until_embedded = _call(entries.wait_until_embedded)

    upload_asset = _call(assets.upload_asset)
    wait_until_indexed = _call(assets.wait_until_indexed)
    get_asset = _call(assets.get_asset)
    get_asset_text = _call(assets.get_asset_text)
    get_asset_content = _call(assets.get_asset_content)
    change_asset = _call(assets.change_asset)
    list_assets = _call(assets.list_assets)
    iterate_assets = _walk(assets.iterate_assets)
    retry_asset = _call(assets.retry_asset)
    delete_asset = _call(assets.delete_asset)

    put_source = _call(sources.put_source)
    get_source = _call(sources.get_source)
    list_sources = _call(sources.list_sources)
    iterate_sources = _walk(sources.iterate_sources)
    list_source_items = _call(sources.list_source_items)
    iterate_source_items = _walk(sources.iterate_source_items)
    delete_source = _call(sources.delete_source)

    list_entry_versions = _call(history.list_entry_versions)
    iterate_entry_versions = _walk(history.iterate_entry_versions)
    list_asset_versions = _call(history.list_asset_versions)
    iterate_asset_versions = _walk(history.iterate_asset_versions)
    replay_search = _call(history.replay_search)

    change_access = _call(access.change_access)
    iterate_access_changes = _walk(access.iterate_access_changes)
    get_entry_readers = _call(access.get_entry_readers)
    get_asset_readers = _call(access.get_asset_readers)
    get_source_readers = _call(access.get_source_readers)
    get_subject_access = _call(access.get_subject_access)
    iterate_subject_access = _walk(access.iterate_subject_access)

    erase = _call(oversight.erase)
    get_erasure = _call(oversight.get_erasure)
    list_erasures = _call(oversight.list_erasures)
    iterate_erasures = _walk(oversight.iterate_erasures)
    list_quarantined = _call(oversight.list_quarantined)
    iterate_quarantined = _walk(oversight.iterate_quarantined)
    release = _call(oversight.release)

    get_statistics = _call(administration.get_statistics)
    get_settings = _call(administration.get_settings)
    change_settings = _call(administration.change_settings)
    list_audit = _call(administration.list_audit)
    iterate_audit = _walk(administration.iterate_audit)
    get_search_receipt = _call(administration.get_search_receipt)
    get_usage = _call(administration.get_usage)
    get_feedback_report = _call(administration.get_feedback_report)
    revoke_token = _call(administration.revoke_token)
    list_revoked_tokens = _call(administration.list_revoked_tokens)
    iterate_revoked_tokens = _walk(administration.iterate_revoked_tokens)
    create_key = _call(administration.create_key)
    list_keys = _call(administration.list_keys)
    iterate_keys = _walk(administration.iterate_keys)
    revoke_key = _call(administration.revoke_key)
    start_model_change = _call(administration.start_model_change)
    get_model_change = _call(administration.get_model_change)
    switch_model = _call(administration.switch_model)
    end_model_change = _call(administration.end_model_change)
    create_tenant = _call(administration.create_tenant)
    list_tenants = _call(administration.list_tenants)
    iterate_tenants = _walk(administration.iterate_tenants)
    change_tenant_limits = _call(administration.change_tenant_limits)
    delete_tenant = _call(administration.delete_tenant)

    async def run(self, exchange: Exchange[T]) -> T:
        """Run a call defined elsewhere. Raises KnowledgeError."""
        steps = perform(exchange, self._retries, renewable=callable(self._token))
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = await self._take(step)

    async def _take(self, step: Attempt | Pause) -> Outcome:
        if isinstance(step, Pause):
            import asyncio  # a program with a loop has it already

            await asyncio.sleep(step.seconds)
            return None
        headers = {**step.request.headers, **self._headers}
        if self._token is not None:
            headers["Authorization"] = authorize(await self._bearer(self._token, step.renew))
        try:
            return await self._transport.send(step.request, headers)
        except NotAnswered as error:
            return error

    async def _bearer(self, source: AsyncTokenSource, renew: bool) -> str:
        if isinstance(source, str):
            return source
        if renew or self._current is None:
            given = source()
            self._current = given if isinstance(given, str) else await given
        return self._current

    async def close(self) -> None:
        """Close the connections, unless `http` or `transport` was given."""
        if self._own is not None:
            await self._own.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
