"""Create, list, revoke and verify API keys.

A key is `kb_` and 48 bytes as base64url: the tenant's id and a secret of 256 random bits. The database has its SHA-256
only. A slow hash protects secrets that people choose; 256 random bits cannot be guessed, and each call hashes the key.
The tenant's id is not secret, tokens contain it too; with it the key is looked up as a row of its tenant, under
row-level security.
"""

import asyncio
import base64
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID
from weakref import WeakValueDictionary

from app.concurrency.part import Generations, Part
from app.contract.fields import Page
from app.contract.keys import MAX_KEYS, ApiKey, ApiKeyWithSecret, KeyRole, NewKey
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import keys as db
from app.db.rows import Position, new_id
from app.errors import KeyExists, KeyNotFound, MaximumReached, TenantNotFound, Unauthenticated
from app.knowledge.audit import AuditTrail
from app.knowledge.background import BackgroundWriter
from app.knowledge.paging import PageRequest
from app.knowledge.tenants.directory import KEPT_SECONDS, TenantDirectory

PREFIX = "kb_"
"""What a bearer token begins with that is a key; scanners of leaked secrets find keys by it."""

_KEY = re.compile(r"kb_[A-Za-z0-9_-]{64}", re.ASCII)
_SECRET_BYTES = 32

USE_SECONDS = 60.0
"""Interval in which each process records one use of a key."""

LINGER = 1.0
"""Seconds that uses wait for others, so that those of a tenant are one statement."""

MAX_REMEMBERED = 10_000
"""Tenants whose keys, and keys whose uses, are remembered."""

INVALID = "the key is not valid"


def is_key(token: str) -> bool:
    """Whether a bearer token is meant as a key: no JWT begins so, since its first part is base64url of JSON."""
    return token.startswith(PREFIX)


def _make_key(tenant_id: UUID) -> str:
    return PREFIX + base64.urlsafe_b64encode(tenant_id.bytes + secrets.token_bytes(_SECRET_BYTES)).decode()


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()


@dataclass(frozen=True, slots=True)
class KeyGrant:
    """What a valid key grants: a subject in a tenant, with a role and groups."""

    subject: str
    tenant_id: UUID
    role: KeyRole
    groups: Sequence[str]


class ApiKeys:
    """Keeps the keys of tenants that use some in memory, for KEPT_SECONDS.

    Changes made through this object take effect at once, and with `part` in all processes of the service; changes by
    others take effect within KEPT_SECONDS.
    """

    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        tenants: TenantDirectory,
        *,
        part: Part | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._trail = trail
        self._tenants = tenants
        self._clock = clock
        self._generations = Generations() if part is None else part.generations()
        self._known: dict[UUID, tuple[float, list[float], Mapping[bytes, db.KnownKey]]] = {}
        self._reading: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()
        self._noted: dict[UUID, float] = {}
        self._used: dict[UUID, set[UUID]] = {}
        self._writer = BackgroundWriter(
            database,
            self._take,
            db.note_use,
            linger=LINGER,
            lost="uses of keys were not recorded",
            unit="keys",
            on_lost=self._note_again,
        )
        self.flush, self.close = self._writer.flush, self._writer.close

    async def create(self, tenant_id: UUID, new: NewKey, *, actor: str) -> ApiKeyWithSecret:
        """Create a key. Raises KeyExists for a name in use, MaximumReached."""
        key, key_id = _make_key(tenant_id), new_id()
        async with self._trail.writing(tenant_id, actor, "key.create", about={"name": new.name}) as session:
            await db.lock(session)
            if await db.count_keys(session) >= MAX_KEYS:
                raise MaximumReached(f"the tenant has {MAX_KEYS} keys, which is the maximum: revoke one")
            stored = await db.insert_key(session, key_id, new, _digest(key))
            if stored is None:
                raise KeyExists("another key of the tenant has this name")
            detail = {"name": stored.name, "role": stored.role, "groups": list(stored.groups)}
            await audit.write_audit(session, actor, "key.create", [key_id], detail)
        self._forget(tenant_id)
        return ApiKeyWithSecret(**asdict(stored), key=key)

    async def list_keys(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None, reader: str | None = None
    ) -> Page[ApiKey]:
        """List the tenant's keys, newest first, also expired ones; with `reader`, recorded in the trail.

        Raises InvalidInput for a bad cursor.
        """
        wanted = PageRequest.read(limit, cursor)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.list_keys(session, wanted.after, wanted.reach)
            await self._trail.note_read(session, reader, "key.list")
        return wanted.cut(found, lambda key: Position(key.created_at, key.id))

    async def revoke(self, tenant_id: UUID, key_id: UUID, *, actor: str) -> None:
        """Delete a key: all processes refuse it at once. Raises KeyNotFound."""
        async with self._trail.writing(tenant_id, actor, "key.revoke", [key_id]) as session:
            name = await db.delete_key(session, key_id)
            if name is None:
                raise KeyNotFound("there is no key with this id")
            await audit.write_audit(session, actor, "key.revoke", [key_id], {"name": name})
        self._forget(tenant_id)

    async def verify(self, key: str) -> KeyGrant:
        """Find what a key grants. Raises Unauthenticated with the same text for all that are not valid.

        Guesses cost little: those for tenants that do not exist share one query in KEPT_SECONDS, and so do those for
        each tenant. A key is found by its digest, about which the time of a lookup tells nothing that helps a guess.
        """
        if not _KEY.fullmatch(key):
            raise Unauthenticated(INVALID)
        tenant_id = UUID(bytes=base64.urlsafe_b64decode(key.removeprefix(PREFIX))[:16])
        found = (await self._keys_of(tenant_id)).get(_digest(key))
        if found is None:
            raise Unauthenticated(INVALID)
        if found.expires_at is not None and found.expires_at <= datetime.now(UTC):
            raise Unauthenticated("the key has expired")
        self._note(tenant_id, found.id)
        return KeyGrant(f"key:{found.name}", tenant_id, found.role, found.groups)

    async def _keys_of(self, tenant_id: UUID) -> Mapping[bytes, db.KnownKey]:
        if (found := self._find_known(tenant_id)) is not None:
            return found
        if not await self._tenants.is_known(tenant_id):
            return {}
        async with self._reading.setdefault(tenant_id, asyncio.Lock()):
            if (found := self._find_known(tenant_id)) is not None:
                return found
            return await self._read(tenant_id)

    def _find_known(self, tenant_id: UUID) -> Mapping[bytes, db.KnownKey] | None:
        known = self._known.get(tenant_id)
        if known is None or known[0] <= self._clock() or known[1] != self._generations.current(tenant_id):
            return None
        return known[2]

    async def _read(self, tenant_id: UUID) -> Mapping[bytes, db.KnownKey]:
        # Before the keys: a change in between then makes the result outdated.
        generation = self._generations.current(tenant_id)
        try:
            async with self._database.tenant_session(tenant_id) as session:
                keys = {key.digest: key for key in await db.fetch_digests(session)}
        except TenantNotFound:
            keys = {}
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[tenant_id] = (self._clock() + KEPT_SECONDS, generation, keys)
        return keys

    def _forget(self, tenant_id: UUID) -> None:
        self._known.pop(tenant_id, None)
        self._generations.advance(tenant_id)

    def _note(self, tenant_id: UUID, key_id: UUID) -> None:
        """Note a use; returns at once."""
        now = self._clock()
        if now - self._noted.get(key_id, -USE_SECONDS) < USE_SECONDS:
            return
        if len(self._noted) >= MAX_REMEMBERED:
            self._noted.clear()
        self._noted[key_id] = now
        self._used.setdefault(tenant_id, set()).add(key_id)
        self._writer.start()

    def _take(self) -> Mapping[UUID, set[UUID]]:
        used, self._used = self._used, {}
        return used

    def _note_again(self, key_ids: set[UUID]) -> None:
        """The next use of each is recorded."""
        for key_id in key_ids:
            self._noted.pop(key_id, None)
