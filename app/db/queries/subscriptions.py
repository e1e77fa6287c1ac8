"""Saved searches, subscriptions to them, and the changed entries that are not yet compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

import orjson

from app.contract.entries import EntryCore
from app.contract.saved_searches import OwnedSubscription, SavedSearch
from app.db.queries.search import Sought
from app.db.rows import Place, Position, beyond, new_id, split_rows
from app.db.session import TenantSession
from app.db.statements import Order, load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class PutSearch:
    """The result of saving: whether the name is new, and whether a different request was replaced."""

    id: UUID
    is_new: bool
    is_replaced: bool


async def count_others(session: TenantSession, owner: str, name: str) -> int:
    """Count the owner's other saved searches; the owner cannot add one elsewhere until the transaction ends."""
    await session.fetch(SQL["lock_owner"], owner=owner)
    return int(await session.fetch_value(SQL["count"], owner=owner, name=name))


async def count_all(session: TenantSession) -> int:
    """Count the tenant's saved searches."""
    return int(await session.fetch_value(SQL["count_all"]))


async def put_saved_search(session: TenantSession, owner: str, name: str, request: Mapping[str, Any]) -> PutSearch:
    """Save a search; it replaces the owner's search of the same name. Call `count_others` before."""
    return await session.fetch_only_as(
        PutSearch, SQL["save"], id=new_id(), owner=owner, name=name, request=orjson.dumps(dict(request)).decode()
    )


async def fetch_saved_search(session: TenantSession, owner: str, saved_search_id: UUID) -> SavedSearch | None:
    """One saved search of the owner."""
    found = await fetch_saved_searches(session, owner, [saved_search_id])
    return found[0] if found else None


async def fetch_saved_searches(session: TenantSession, owner: str, ids: Sequence[UUID]) -> list[SavedSearch]:
    """Saved searches of the owner, in the order of `ids`."""
    return await session.fetch_as(SavedSearch, SQL["fetch_saved"], owner=owner, ids=list(ids))


async def list_saved_searches(
    session: TenantSession, owner: str, order: Order, after: Position | None, limit: int
) -> list[Place]:
    """Places in the list of the owner's saved searches."""
    return await session.fetch_as(Place, SQL["list_saved"].ordered(order), owner=owner, limit=limit, **beyond(after))


async def delete_saved_search(session: TenantSession, owner: str, saved_search_id: UUID) -> bool:
    """Delete a saved search of the owner, with its subscription; False when there is none."""
    return await session.execute(SQL["delete_saved"], owner=owner, id=saved_search_id) > 0


ChangeKind = Literal["ready", "words", "all"]


@dataclass(frozen=True, slots=True)
class Change:
    """A new or changed entry."""

    entry_id: UUID
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The secret of a subscription as it is stored, encrypted or not."""

    saved_search_id: UUID
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ActiveSearch:
    """A saved search with a subscription, its request, and the principals of its owner."""

    saved_search_id: UUID
    request: Mapping[str, Any]
    principals: Sequence[str]


class Match(NamedTuple):
    """An entry that a saved search finds; `similarity` is None if its vectors are not near the query's."""

    entry: EntryCore
    shares_words: bool
    similarity: float | None


async def list_other_urls(session: TenantSession, saved_search_id: UUID) -> list[str]:
    """The URLs of the tenant's other subscriptions; other transactions wait to count them until this one ends."""
    await session.fetch(SQL["lock_tenant"])
    return await session.fetch_column(SQL["list_other_urls"], id=saved_search_id)


async def put_subscription(
    session: TenantSession,
    saved_search_id: UUID,
    url: str,
    secret: str,
    rights: timedelta,
    pause: timedelta,
    principals: Sequence[str],
) -> None:
    """Create or replace a subscription, whose owner has these principals.

    The same URL gets another challenge after `pause`.
    """
    await session.execute(
        SQL["put"], id=saved_search_id, url=url, secret=secret, rights=rights, pause=pause, principals=list(principals)
    )


async def list_secrets_without(session: TenantSession, mark: str) -> list[StoredSecret]:
    """Secrets, as stored, that do not start with `mark`; locked until the transaction ends."""
    return await session.fetch_as(StoredSecret, SQL["secrets_without"], mark=mark)


async def replace_secret(session: TenantSession, stored: StoredSecret, secret: str) -> None:
    """Store the same secret in another form."""
    await session.execute(SQL["replace_secret"], id=stored.saved_search_id, secret=secret)


async def fetch_subscriptions(
    session: TenantSession, ids: Sequence[UUID], owner: str | None = None
) -> dict[UUID, OwnedSubscription]:
    """Subscriptions, without secrets, by the id of their saved search; with `owner`, only those of that owner."""
    found = await session.fetch_as(OwnedSubscription, SQL["fetch"], ids=list(ids), owner=owner)
    return {subscription.saved_search_id: subscription for subscription in found}


async def list_subscriptions(session: TenantSession, before: Position | None, limit: int) -> list[Position]:
    """A page of the list of subscriptions, by the ids of their saved searches, newest first."""
    return await session.fetch_as(Position, SQL["list"], limit=limit, **beyond(before))


async def delete_subscription(session: TenantSession, saved_search_id: UUID, owner: str | None = None) -> bool:
    """End a subscription; False when there is none or it has a different owner."""
    return await session.execute(SQL["delete"], id=saved_search_id, owner=owner) > 0


async def set_rights(session: TenantSession, owner: str, rights: timedelta, principals: Sequence[str]) -> int:
    """Treat an owner as a reader with these principals for `rights` from now; returns the number of subscriptions."""
    return await session.execute(SQL["set_rights"], owner=owner, rights=rights, principals=list(principals))


async def list_active(session: TenantSession) -> list[ActiveSearch]:
    """The searches that entries are compared with."""
    return await session.fetch_as(ActiveSearch, SQL["active"])


async def hold_requests(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Any]:
    """The requests of these saved searches, by id; locked until the transaction ends."""
    return await session.fetch_pairs(SQL["hold_requests"], ids=list(ids))


async def list_changes(session: TenantSession, kind: ChangeKind, limit: int) -> list[Change]:
    """Entries that can be compared now, longest wait first.

    `ready`: entries that have their vectors. `words`: entries whose words have not been compared yet.
    """
    return await session.fetch_as(Change, SQL["changes"], kind=kind, limit=limit)


async def count_changes(session: TenantSession) -> int:
    """The number of entries that are still to be compared."""
    return int(await session.fetch_value(SQL["count_changes"]))


async def match_entries(
    session: TenantSession,
    sought: Sought,
    ids: Sequence[UUID],
    *,
    words: str,
    alternatives: Sequence[str],
    by_words: bool,
    required: str | None,
    threshold: float,
) -> list[Match]:
    """Those of the entries that pass the filter and share a word, or have a cosine of `threshold` with the vector.

    `words` is the text of which all words count, the query the text of which only identifiers count. `alternatives` are
    queries for what stands for words of the text, and `required` is one that an entry found by its words must match.
    """
    rows = await session.fetch(
        sought.space.literal(SQL["match"]),
        ids=list(ids),
        words=words,
        alternatives=list(alternatives),
        by_words=by_words,
        required=required,
        threshold=threshold,
        **sought.as_parameters(),
    )
    return [Match(entry, *found) for entry, found in split_rows(EntryCore, rows)]


async def finish_changes(session: TenantSession, changes: Sequence[Change], *, by_words: bool = False) -> None:
    """Delete changes that have been compared with all subscriptions; `by_words`: only note that their words were."""
    if changes:
        statement = SQL["note_words" if by_words else "finish_changes"]
        ids, moments = [c.entry_id for c in changes], [c.changed_at for c in changes]
        await session.execute(statement, ids=ids, changed_ats=moments)


async def forget_changes(session: TenantSession) -> None:
    """Delete all changes if no subscription is active and not refused."""
    await session.execute(SQL["forget_changes"])
