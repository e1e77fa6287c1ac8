"""Searches, feedback, saved searches and subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from knowledge_client.exchange import Exchange
from knowledge_client.fields import Id, SavedSearchSort, SearchOptions, SearchRequest
from knowledge_client.models import (
    Feedback,
    Hit,
    RelatedEntry,
    RelatedResponse,
    SavedSearch,
    SavedSearchPage,
    SearchBatchResponse,
    SearchOutcome,
    SearchResult,
    Subscription,
    SubscriptionWithSecret,
    WhyNot,
)
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get, path_of, post
from knowledge_client.transport import Request


def search(query: str, **options: Unpack[SearchOptions]) -> Exchange[SearchResult]:
    """The tenant's best entries for a query, semantic and keyword; no match gives an empty result."""
    return post("/knowledge/search", {"query": query, **options}, SearchResult)


def iterate_hits(query: str, **options: Unpack[SearchOptions]) -> Pages[Hit]:
    """All hits of a search, best first, fetched page by page; `limit` is the length of a page.

    Later pages continue the ranking of the first one. Raises CursorExpired when the ranking has expired, after a day.
    """

    def read(cursor: str | None) -> Exchange[tuple[Sequence[Hit], str | None]]:
        following: SearchOptions = {**options, "cursor": cursor} if cursor else options
        found = yield from search(query, **following)
        return found.results, found.metadata.next_cursor

    return read


def search_batch(searches: Sequence[SearchRequest | str]) -> Exchange[list[SearchOutcome]]:
    """1 to 32 searches in one request, each with its own outcome; a plain text is a search without options."""
    body = {"searches": [{"query": s} if isinstance(s, str) else s for s in searches]}
    return (yield from post("/knowledge/search/batch", body, SearchBatchResponse)).results


def why_not(entry_id: Id, query: str, **options: Unpack[SearchOptions]) -> Exchange[WhyNot]:
    """The filter, leg, threshold or page limit that excluded an entry."""
    request = {"query": query, **options}
    return post("/knowledge/search/why-not", {"entry_id": entry_id, "request": request}, WhyNot)


def related(entry_id: Id, *, limit: int | None = None) -> Exchange[list[RelatedEntry]]:
    """The entry's parent, siblings, sources, derived entries and entries with shared tags; 1 to 20, 5 by default."""
    path = path_of("entries", entry_id, "related")
    return (yield from get(path, RelatedResponse, {"limit": limit})).results


def give_feedback(search_id: Id, entry_id: Id, *, relevant: bool) -> Exchange[Feedback]:
    """Rate a hit of one of the caller's searches of the last 24 hours as useful or not; the last rating counts."""
    body = {"search_id": search_id, "entry_id": entry_id, "relevant": relevant}
    return post("/knowledge/feedback", body, Feedback)


def save_search(name: str, query: str, **options: Unpack[SearchOptions]) -> Exchange[SavedSearch]:
    """Save a search under a name; an existing search of the caller with this name is replaced."""
    return post("/knowledge/saved-searches", {"name": name, "request": {"query": query, **options}}, SavedSearch)


def list_saved_searches(
    *, limit: int | None = None, cursor: str | None = None, sort: SavedSearchSort | None = None
) -> Exchange[SavedSearchPage]:
    """A page of the caller's saved searches, by default newest first."""
    params = {"limit": limit, "cursor": cursor, "sort": sort}
    return get("/knowledge/saved-searches", SavedSearchPage, params)


def iterate_saved_searches(*, limit: int | None = None, sort: SavedSearchSort | None = None) -> Pages[SavedSearch]:
    """All saved searches of the caller, fetched in pages of `limit`."""
    return follow(partial(list_saved_searches, limit=limit, sort=sort))


def get_saved_search(saved_search_id: Id) -> Exchange[SavedSearch]:
    """One of the caller's saved searches."""
    return get(path_of("saved-searches", saved_search_id), SavedSearch)


def run_saved_search(saved_search_id: Id) -> Exchange[SearchResult]:
    """Run the saved search."""
    return post(path_of("saved-searches", saved_search_id, "run"), {}, SearchResult)


def delete_saved_search(saved_search_id: Id) -> Exchange[None]:
    """Delete a saved search and its subscription."""
    yield Request("DELETE", path_of("saved-searches", saved_search_id))


def subscribe(saved_search_id: Id, url: str, *, secret: str | None = None) -> Exchange[SubscriptionWithSecret]:
    """Send new and changed entries that the saved search finds to a webhook; only this answer shows the secret.

    Not repeated when it is unknown whether the call succeeded: a second call creates another secret.
    """
    body: dict[str, Any] = {"url": url} if secret is None else {"url": url, "secret": secret}
    path = path_of("saved-searches", saved_search_id, "subscription")
    return ask(Request("POST", path, json=body, repeatable=secret is not None), SubscriptionWithSecret)


def get_subscription(saved_search_id: Id) -> Exchange[Subscription]:
    """The subscription on a saved search, and the state of its deliveries."""
    return get(path_of("saved-searches", saved_search_id, "subscription"), Subscription)


def confirm_subscription(saved_search_id: Id) -> Exchange[Subscription]:
    """Send the endpoint another challenge; a confirmed subscription is unchanged."""
    path = path_of("saved-searches", saved_search_id, "subscription", "confirmation")
    return ask(Request("POST", path, repeatable=True), Subscription)


def unsubscribe(saved_search_id: Id) -> Exchange[None]:
    """End the subscription and discard its pending deliveries."""
    yield Request("DELETE", path_of("saved-searches", saved_search_id, "subscription"))
