"""Fair turns between tenants at a limited resource, so that one tenant's flood does not delay others."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from app.concurrency.memory import LOOK_AGAIN, SharedAmounts
from app.concurrency.stopwatch import current_stopwatch

LATELY = 1.0
"""Seconds for which a tenant counts as active after a turn, so that its next request finds a place."""

LONGEST_REST = 0.25
"""Seconds: a long turn did not take places from others all the time."""

PLATFORM = "platform"
"""Work for no tenant: it gets turns like a tenant, but without a share, and takes none from others."""


@dataclass(slots=True)
class _Queue:
    """The places that one tenant holds and waits for."""

    held: int = 0
    resting: int = 0
    elsewhere: int = 0
    most: int | None = None
    most_here: int | None = None
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    seen: float = 0.0


class Turns:
    """`places` shared by tenants: first come, first served within a tenant; by turns between tenants.

    A single active tenant may hold all places. Several active tenants share `crowd` places equally, and have
    at least `least` each: a tenant that sends more than its share never holds so many that it slows others down.
    With `common`, what the other processes of the service hold counts too, for shares and limits, but not for `places`.
    """

    def __init__(
        self,
        places: int,
        *,
        crowd: int | None = None,
        least: int = 1,
        rest: float = 0.0,
        common: SharedAmounts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`crowd` is how many can work at the same time without slowing each other down; None: all. No share is
        below `least` places, for those whose work may take long.

        While others are active, a tenant that has more waiting rests between two turns, `rest` times as long as its
        last one took, LONGEST_REST at most.
        """
        self._places = places
        self._least = least
        self._rest = rest
        self._crowd = places if crowd is None else crowd
        self._common = common
        self._all_places = places if common is None else places * common.processes
        self._looking = False
        self._clock = clock
        self.taken = 0
        # Ordered by last activity, the most recent at the end.
        self._queues: OrderedDict[Hashable, _Queue] = OrderedDict()
        # Only waiting tenants; the next turn is at the beginning.
        self._line: OrderedDict[Hashable, None] = OrderedDict()

    @property
    def waited_for(self) -> int:
        """Places that tenants wait for."""
        return sum(len(self._queues[tenant].waiting) for tenant in self._line)

    @property
    def is_uncontended(self) -> bool:
        """Whether at most one tenant is active."""
        return self._count_active(self._clock()) <= 1

    def is_alone(self, tenant: Hashable) -> bool:
        """Whether no tenant but this one is active, which may be inactive itself."""
        others = self._count_active(self._clock()) - (tenant in self._queues)
        return others <= 0

    @property
    def share(self) -> int:
        """Places that one tenant may hold now, in all processes of the service."""
        return self._share_at(self._clock())

    def _share_at(self, now: float) -> int:
        active = self._count_active(now)
        return self._all_places if active <= 1 else max(self._least, self._crowd // active)

    @asynccontextmanager
    async def turn(self, tenant: Hashable) -> AsyncIterator[None]:
        """Hold a place while the block runs."""
        await self.acquire(tenant)
        began = self._clock()
        try:
            yield
        finally:
            self.release(tenant, self._clock() - began)

    def held(self, tenant: Hashable) -> int:
        """Places that the tenant has."""
        if self._common is not None:
            return round(self._common.held(tenant))
        return self._queues[tenant].held if tenant in self._queues else 0

    def waiting(self, tenant: Hashable) -> int:
        """Places that the tenant waits for."""
        return len(self._queues[tenant].waiting) if tenant in self._queues else 0

    def note(self, tenant: Hashable) -> None:
        """Count the tenant as active, for work that it does elsewhere."""
        self._note_at(tenant, self._clock())

    def _note_at(self, tenant: Hashable, now: float) -> None:
        if tenant not in self._queues:
            self._queues[tenant] = _Queue()
            if self._common is not None and tenant is not PLATFORM:
                self._common.enter(tenant)
        self._queues[tenant].seen = now
        self._queues.move_to_end(tenant)
        self._forget_inactive(now)

    def begin_elsewhere(self, tenant: Hashable) -> None:
        """Count the tenant as active until `end_elsewhere`, however long its work elsewhere takes."""
        self.note(tenant)
        self._queues[tenant].elsewhere += 1

    def end_elsewhere(self, tenant: Hashable) -> None:
        """End the tenant's work elsewhere."""
        self._queues[tenant].elsewhere -= 1
        self.note(tenant)

    def take(self, tenant: Hashable, *, most: int | None = None, most_here: int | None = None) -> bool:
        """Take a place as `acquire` does, if one is free at once."""
        # One reading of the clock: a process that stands still between two would forget the tenant in the meantime.
        now = self._clock()
        self._note_at(tenant, now)
        queue = self._queues[tenant]
        queue.most, queue.most_here = most, most_here
        return not queue.waiting and self.taken < self._places and self._take(tenant, queue, self._share_at(now))

    async def acquire(self, tenant: Hashable, *, most: int | None = None, most_here: int | None = None) -> None:
        """Wait for a place; it is the tenant's until `release`.

        The tenant never has more than `most`, nor more than `most_here` in this process.
        """
        if self.take(tenant, most=most, most_here=most_here):
            return
        queue = self._queues[tenant]
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiting.append(place)
        self._line.setdefault(tenant)
        self._publish(tenant, queue)
        self._look_again()
        try:
            with current_stopwatch().waiting():
                await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.release(tenant)
            elif place in queue.waiting:
                queue.waiting.remove(place)
                if not queue.waiting:
                    self._line.pop(tenant, None)
                self._publish(tenant, queue)
            raise

    def release(self, tenant: Hashable, took: float = 0.0) -> None:
        """Release a place after `took` seconds; the next tenant in turn gets it."""
        queue = self._queues[tenant]
        queue.held -= 1
        self.taken -= 1
        pause = min(self._rest * took, LONGEST_REST)
        if pause > 0 and queue.waiting and not self.is_uncontended:
            queue.resting += 1
            asyncio.get_running_loop().call_later(pause, self._wake, tenant, queue)
        self._publish(tenant, queue)
        self._hand_out()

    def _wake(self, tenant: Hashable, queue: _Queue) -> None:
        queue.resting -= 1
        self._publish(tenant, queue)
        self._hand_out()

    def _publish(self, tenant: Hashable, queue: _Queue) -> None:
        if self._common is not None and tenant is not PLATFORM:
            self._common.publish(tenant, queue.held + queue.resting, bool(queue.waiting))

    def _look_again(self) -> None:
        """Look again soon whether another process has released a place, which does not announce it."""
        if self._common is not None and self._line and not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look)

    def _look(self) -> None:
        self._looking = False
        self._hand_out()
        self._look_again()

    def _hand_out(self) -> None:
        share = self.share
        while self.taken < self._places and (tenant := self._next(share)) is not None:
            queue = self._queues[tenant]
            queue.waiting.popleft().set_result(None)
            if queue.waiting:
                self._line.move_to_end(tenant)
            else:
                del self._line[tenant]
                self._publish(tenant, queue)

    def _next(self, share: int) -> Hashable | None:
        """The first waiting tenant that may have another place, after it has taken it."""
        for tenant in list(self._line):
            queue = self._queues[tenant]
            while queue.waiting and queue.waiting[0].done():
                queue.waiting.popleft()
            if not queue.waiting:
                del self._line[tenant]
            elif self._take(tenant, queue, share):
                return tenant
        return None

    def _take(self, tenant: Hashable, queue: _Queue, share: int) -> bool:
        """Take another place for the tenant, if it may have one."""
        if tenant is not PLATFORM:
            most = share if queue.most is None else min(share, queue.most)
            own = queue.held + queue.resting
            if own >= min(most, queue.most_here or most):
                return False
            if self._common is None:
                pass
            elif most >= self._all_places:
                self._common.publish(tenant, own + 1, bool(queue.waiting))
            elif not self._common.take(tenant, 1, own, most):
                return False
        queue.held += 1
        self.taken += 1
        return True

    def _count_active(self, now: float) -> int:
        """Tenants that hold or wait for places, or did so recently."""
        self._forget_inactive(now)
        if self._common is not None:
            return self._common.count_active()
        return len(self._queues) - (PLATFORM in self._queues)

    def _forget_inactive(self, now: float) -> None:
        horizon = now - LATELY
        while self._queues:
            tenant, queue = next(iter(self._queues.items()))
            if queue.seen >= horizon:
                break
            if queue.held or queue.waiting or queue.resting or queue.elsewhere:
                queue.seen = horizon + LATELY
                self._queues.move_to_end(tenant)
            else:
                del self._queues[tenant]
                if self._common is not None:
                    self._common.leave(tenant)
