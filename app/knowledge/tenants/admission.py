"""Limit each tenant's requests per minute, simultaneous work and bytes in progress."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import UUID

from app.concurrency.limits import Arrival, Arrivals, ByteBudget
from app.concurrency.part import Buckets, Part, SharedBuckets
from app.concurrency.share import AdmissionTicket, LoopShare, Work
from app.concurrency.stopwatch import current_stopwatch
from app.concurrency.turns import Turns
from app.errors import LimitName, RateLimited
from app.knowledge.tenants.directory import TenantContext

PLACES = 500
"""Simultaneous searches, and simultaneous reads, of all tenants: a bound on memory. The database's pool is smaller."""

WAITING = 64
"""Searches of one tenant that can wait for their turn; further ones are refused at once."""

PATIENCE = 10.0
"""Seconds that a search or a read waits for its turn."""

REST = 0.5
"""Pause factor, measured on two cores with benchmarks/flood.py; without it, a flooding tenant starves the others."""

READING_REST = 3.0
"""The same for reads, which occupy this process's event loop; measured in the same way."""

INTAKE_REST = 3.0
"""The same for bodies that are parsed and checked, also on the event loop."""

PARSED_AT_ONCE = 2
"""Bodies of one tenant that are parsed at the same time, although no other tenant is active. They are parsed one after
the other in any case, and a tenant that becomes active waits for those that have begun."""

REPORTS = 60
"""Messages of a tenant in a minute that are read although they are refused, so that a model reads the reason."""

BODY_BYTES = 32 * 1024 * 1024
"""Bodies of one tenant that are in progress at the same time; further ones wait, unread."""

FILE_COPIES = 3
"""Times that an uploaded file is in memory while it is stored: as bytes, as a parameter, and in the connection."""

BODY_TOTAL = 8 * BODY_BYTES
"""The same of all tenants together."""

ANSWER_BYTES = 32 * 1024 * 1024
"""Large answers of one tenant that are built at the same time, such as batches and texts; further ones wait."""

ANSWER_TOTAL = 4 * ANSWER_BYTES
"""The same of all tenants together."""

CHARGED_BYTES = 64 * 1024
"""A refused body counts as one more request for each of these."""


class Intake:
    """A tenant's turn to have one body parsed and checked; it ends when the work with its content begins."""

    def __init__(self, turns: Turns, tenant_id: UUID, clock: Callable[[], float]) -> None:
        self._turns, self._tenant_id, self._clock = turns, tenant_id, clock
        self._began: float | None = None

    def begin_at_once(self) -> bool:
        """Take the turn if it is free."""
        if self._turns.take(self._tenant_id, most=PARSED_AT_ONCE):
            self._began = self._clock()
        return self.running

    async def begin(self) -> None:
        """Wait for the turn."""
        await self._turns.acquire(self._tenant_id, most=PARSED_AT_ONCE)
        self._began = self._clock()

    @property
    def running(self) -> bool:
        """Whether the turn is still held, so that the body was not accepted yet."""
        return self._began is not None

    def end(self) -> None:
        """Release the turn; a second time, nothing happens."""
        if self._began is not None:
            began, self._began = self._began, None
            self._turns.release(self._tenant_id, self._clock() - began)


class Admission:
    """Counts in memory, which is cheap. With `part`, the processes of the service count together.

    Reads and the parsing of bodies occupy the event loop of a process, so each process has its own turns for them.
    """

    def __init__(
        self,
        *,
        crowd: int | None = None,
        part: Part | None = None,
        waiting: int = WAITING,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """While several tenants search, each has an equal share of `crowd` simultaneous searches, at least one.

        The same applies to reads.
        """
        self._clock = clock
        self._waiting = waiting
        self._patience = patience
        self._buckets = Buckets(clock) if part is None else SharedBuckets(part.memory)
        searches, bodies, answers = (
            None if part is None else part.amounts(kind) for kind in ("searches", "bodies", "answers")
        )
        self._turns = Turns(PLACES, crowd=crowd, rest=REST, common=searches, clock=clock)
        self._readings = Turns(PLACES, crowd=crowd, rest=READING_REST, clock=clock)
        self._intakes = Turns(PLACES, crowd=1, rest=INTAKE_REST, clock=clock)
        self._bodies = ByteBudget(BODY_BYTES, common=bodies)
        self._arrivals = Arrivals(BODY_TOTAL, BODY_BYTES)
        self._answers = ByteBudget(ANSWER_BYTES, ANSWER_TOTAL, answers)
        self._loop = LoopShare(self._intakes.is_alone, clock=clock)
        self.refused: dict[str, int] = {}

    def admit(self, tenant: TenantContext) -> None:
        """Count one request. Raises RateLimited when the requests of the minute are used up."""
        limit = tenant.limits.requests_per_minute
        if limit and (seconds := self._buckets.take(tenant.tenant_id, limit)):
            raise self._refuse("requests_per_minute", limit, seconds)

    def may_report(self, tenant: TenantContext) -> bool:
        """Whether a refused message may be read, to report the refusal in its result; counts it.

        Only REPORTS of a tenant are read in a minute; further ones are refused unread.
        """
        return not self._buckets.take(("report", tenant.tenant_id), REPORTS)

    def charge(self, tenant: TenantContext, requests: int) -> None:
        """Count further requests in an admitted batch; they reduce what later requests can use."""
        self._buckets.charge(tenant.tenant_id, requests)

    async def pace(self, tenant: TenantContext, announced: int) -> AdmissionTicket:
        """Wait while the tenant's refused and large requests have used more than its share of the event loop.

        A large body is charged by its `announced` bytes at once. `charge_answered` follows. Raises RateLimited when
        it takes too long.
        """
        self._intakes.note(tenant.tenant_id)
        paced = not self._loop.may_pass(tenant.tenant_id)
        if paced:
            async with self._patiently("concurrent_requests"):
                await self._loop.wait(tenant.tenant_id)
        return self._loop.enter(tenant.tenant_id, announced, paced)

    def charge_answered(self, tenant: TenantContext, work: Work, ticket: AdmissionTicket | None) -> None:
        """Charge a tenant for an answered request; without `ticket`, it has waited too long for one."""
        self._loop.charge_answered(tenant.tenant_id, work, ticket)

    @asynccontextmanager
    async def search(self, tenant: TenantContext) -> AsyncIterator[None]:
        """Hold one of the tenant's places for a search. Raises RateLimited when too many wait or one waits too long."""
        limit = tenant.limits.concurrent_searches
        key = tenant.tenant_id
        if limit and self._turns.waiting(key) >= self._waiting:
            raise self._refuse("concurrent_searches", limit, 1.0)
        others = (self._readings, self._intakes)
        for turns in others:
            turns.begin_elsewhere(key)
        try:
            if not self._turns.take(key, most=limit or None):
                async with self._patiently("concurrent_searches", limit):
                    await self._turns.acquire(key, most=limit or None)
            began = self._clock()
            try:
                yield
            finally:
                self._turns.release(key, self._clock() - began)
        finally:
            for turns in others:
                turns.end_elsewhere(key)

    @asynccontextmanager
    async def reading(self, tenant: TenantContext) -> AsyncIterator[None]:
        """Hold a place for a read, so that many reads of one tenant do not delay all others.

        Raises RateLimited when it takes too long to get one. It can be held while waiting for a search's place.
        """
        self._turns.note(tenant.tenant_id)
        self._intakes.note(tenant.tenant_id)
        if not self._readings.take(tenant.tenant_id):
            async with self._patiently("concurrent_requests"):
                await self._readings.acquire(tenant.tenant_id)
        began = self._clock()
        try:
            yield
        finally:
            self._readings.release(tenant.tenant_id, self._clock() - began)

    @asynccontextmanager
    async def holding(self, tenant: TenantContext, count: int) -> AsyncIterator[Arrival]:
        """Hold `count` bytes of the tenant's budget for a body that is announced with this length; `receive` its parts.

        Raises RateLimited when the budget is used up for too long.
        """
        async with self._hold(self._bodies, "body_bytes", tenant, count):
            with self._arrivals.arrival(tenant.tenant_id) as arrival:
                yield arrival

    async def receive(self, arrival: Arrival, count: int) -> None:
        """Hold `count` bytes that have arrived, of the bytes for all tenants. Raises RateLimited as `holding` does."""
        if not arrival.take(count):
            async with self._patiently("body_bytes"):
                await arrival.grow(count)

    @asynccontextmanager
    async def storing(self, tenant: TenantContext, size: int) -> AsyncIterator[None]:
        """The same for an uploaded file of `size` bytes, which counts with its copies."""
        count = min(FILE_COPIES * size, BODY_BYTES)
        async with self.holding(tenant, count) as arrival:
            await self.receive(arrival, count)
            arrival.complete()
            yield

    def answering(self, tenant: TenantContext, count: int) -> AbstractAsyncContextManager[None]:
        """Hold `count` bytes of the tenant's budget for a large answer. Raises RateLimited as `holding` does."""
        return self._hold(self._answers, "answer_bytes", tenant, count)

    @asynccontextmanager
    async def _hold(
        self, budget: ByteBudget, name: LimitName, tenant: TenantContext, count: int
    ) -> AsyncIterator[None]:
        if not budget.take(tenant.tenant_id, count):
            async with self._patiently(name):
                await budget.acquire(tenant.tenant_id, count)
        try:
            yield
        finally:
            budget.release(tenant.tenant_id, count)

    @asynccontextmanager
    async def intake(self, tenant: TenantContext, count: int) -> AsyncIterator[Intake]:
        """Take the tenant's turn to have a body of `count` bytes parsed and checked; it ends before the block if
        the caller ends it.

        A body that was refused is charged by its length. Raises RateLimited when the turn does not come.
        """
        intake = Intake(self._intakes, tenant.tenant_id, self._clock)
        if not intake.begin_at_once():
            async with self._patiently("concurrent_requests"):
                await intake.begin()
        try:
            yield intake
        finally:
            if intake.running and (further := count // CHARGED_BYTES):
                self.charge(tenant, further)
                current_stopwatch().refused = True
            intake.end()

    @property
    def running_and_waiting(self) -> tuple[int, int]:
        """Numbers of searches of all tenants that are running, and that wait for their turn."""
        return self._turns.taken, self._turns.waited_for

    def used(self, tenant: TenantContext) -> dict[str, int]:
        """Requests of the last minute that still count, and running searches."""
        limit = tenant.limits.requests_per_minute
        return {
            "requests_per_minute": round(limit - self._buckets.left(tenant.tenant_id, limit)),
            "concurrent_searches": self._turns.held(tenant.tenant_id),
        }

    @asynccontextmanager
    async def _patiently(self, limit: LimitName, most: int = 0) -> AsyncIterator[None]:
        """Raise RateLimited when the block, which waits for a place, takes too long."""
        try:
            async with asyncio.timeout(self._patience):
                yield
        except TimeoutError:
            raise self._refuse(limit, most, 1.0) from None

    def _refuse(self, limit: LimitName, most: int, retry_after: float) -> RateLimited:
        self.refused[limit] = self.refused.get(limit, 0) + 1
        said = {
            "requests_per_minute": f"the tenant's limit of {most} requests a minute is used up",
            "concurrent_searches": f"the tenant's limit of {most} simultaneous searches is reached"
            if most
            else "too many searches are running",
            "body_bytes": "too many bytes of request bodies are in progress",
            "answer_bytes": "too many bytes of answers are in progress",
            "concurrent_requests": "too many requests of the tenant are running",
        }[limit]
        return RateLimited(f"{limit}: {said}", retry_after, limit)
