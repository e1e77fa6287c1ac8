"""Errors as facts. They do not depend on HTTP: `app.web.problems` maps each to a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal
from uuid import UUID


class KnowledgeError(Exception):
    """Any error that is reported to a caller; its text is safe to show."""

    @property
    def facts(self) -> Mapping[str, int]:
        """Numbers that the audit trail records with a refusal."""
        return {}


class ConfigurationError(KnowledgeError):
    """The service cannot start as configured.

    `setting` is the invalid variable or option, `remedy` what the operator can do; the text is one line of all three.
    """

    def __init__(self, setting: str | None, problem: str, remedy: str | None = None) -> None:
        self.setting = setting
        self.problem = problem
        self.remedy = remedy
        super().__init__("; ".join(part for part in (self.fault, remedy) if part))

    @property
    def fault(self) -> str:
        """The problem, prefixed with the setting's name."""
        return f"{self.setting}: {self.problem}" if self.setting else self.problem


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field: `field` is a dotted path, `message` says what is allowed."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidInput(KnowledgeError):
    """Invalid input; nothing was read from or written to the database."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))

    @classmethod
    def of(cls, field: str, message: str) -> InvalidInput:
        return cls([FieldError(field, message)])


class Unauthenticated(KnowledgeError):
    """No valid token, or the token's tenant does not exist."""


class Forbidden(KnowledgeError):
    """A valid token without the role that the action requires."""


class NotAWriter(Forbidden):
    """The caller may read the item, and is not one of its writers."""


class Quarantined(Forbidden):
    """A quarantined text, and an agent, or a caller who could not correct it."""


class NotFound(KnowledgeError):
    """The item does not exist in the caller's tenant."""


class EntryNotFound(NotFound):
    """No entry with this id in the tenant."""


class AssetNotFound(NotFound):
    """No asset with this id in the tenant."""


class SavedSearchNotFound(NotFound):
    """No saved search with this id that belongs to the caller."""


class SubscriptionNotFound(NotFound):
    """No subscription for a saved search with this id that the caller may see."""


class SourceNotFound(NotFound):
    """No source with this name in the tenant."""


class TenantNotFound(NotFound):
    """No tenant with this id or slug."""

    @classmethod
    def of(cls, slug: str) -> TenantNotFound:
        """For work that names the tenant by its slug."""
        return cls(f"there is no tenant {slug!r}")


class ModelChangeNotFound(NotFound):
    """No model change is in progress."""


class SearchNotFound(NotFound):
    """No search with this id in the tenant, or its record has expired."""


class KeyNotFound(NotFound):
    """No API key with this id in the tenant."""


class ErasureNotFound(NotFound):
    """No erasure with this id in the tenant."""


class Conflict(KnowledgeError):
    """The change contradicts what is stored."""


class EntryExists(Conflict):
    """Another entry, `existing_id`, has the same external_id or content."""

    def __init__(self, message: str, existing_id: UUID | None) -> None:
        self.existing_id = existing_id
        super().__init__(message)


class AssetExists(Conflict):
    """Another asset, `existing_id`, has the same readers, and the same external_id or bytes."""

    def __init__(self, message: str, existing_id: UUID | None) -> None:
        self.existing_id = existing_id
        super().__init__(message)


class PartOfAsset(Conflict):
    """The entry is a chunk, and its asset determines what the change is about."""


class ConcurrentWrites(Conflict):
    """Other requests are writing the same item; the same request can succeed later."""


class SourceTaken(Conflict):
    """The name is that of a source which the caller may not see."""


class RunSuperseded(Conflict):
    """Another run of the source has begun since the caller's."""


class ItemChanged(Conflict):
    """The bytes are not those of an item of the source's manifest."""


class TooManyDeletions(Conflict):
    """A manifest would delete `deletions` of a source's `assets`, which needs a confirmation."""

    def __init__(self, message: str, deletions: int, assets: int) -> None:
        self.deletions = deletions
        self.assets = assets
        super().__init__(message)

    @property
    def facts(self) -> Mapping[str, int]:
        """How many assets would be deleted, and of how many."""
        return {"deletions": self.deletions, "assets": self.assets}


class TextNotReady(Conflict):
    """The asset has no text yet."""


class NotFailed(Conflict):
    """The asset has not failed, so it cannot be retried."""


class TenantExists(Conflict):
    """A tenant has this slug already."""


class KeyExists(Conflict):
    """Another API key of the tenant has this name."""


class MaximumReached(Conflict):
    """The maximum number of such items exists."""


class ModelChangeConflict(Conflict):
    """The state of the model change does not allow the step."""


class PreconditionFailed(KnowledgeError):
    """The entry changed since the caller read it (If-Match)."""


class TooLarge(KnowledgeError):
    """The input is larger than the limit that the text names."""


class TooSlow(KnowledgeError):
    """The input arrived too slowly."""


class UnsupportedMediaType(KnowledgeError):
    """The format of the file is not supported; the text lists the supported ones."""


class CursorExpired(KnowledgeError):
    """The ranked list of this cursor is not available any more; search again."""


LimitName = Literal[
    "requests_per_minute",
    "concurrent_searches",
    "concurrent_requests",
    "body_bytes",
    "answer_bytes",
    "entries",
    "bytes",
]
"""What a request may be over."""


class RateLimited(KnowledgeError):
    """A limit is reached; `limit` is its name, if it has one. Try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float, limit: str | None = None) -> None:
        self.retry_after = retry_after
        self.limit = limit
        super().__init__(message)


class DatabaseUnavailable(KnowledgeError):
    """The database does not answer, or gave up; try again after `retry_after` seconds."""

    def __init__(
        self, reason: str = "the database is not reachable at the moment", *, retry_after: float = 1.0
    ) -> None:
        self.retry_after = retry_after
        super().__init__(reason)


class ServiceUnreachable(KnowledgeError):
    """No answer arrived from the service that the command line was told to use."""


class ProviderUnavailable(KnowledgeError):
    """A provider returned no usable answer; `degradation` is its name in a search's response.

    `attempts` counts the calls (0: the circuit was open), `retry_after` is the provider's requested delay in
    seconds, and `permanent` says that trying again with the same input and key will not help. `input_refused`: the
    provider works, but refuses this text.
    """

    degradation: ClassVar[Literal["embedding_unavailable", "quota_exhausted", "reranker_unavailable"]]
    input_refused: ClassVar[bool] = False

    def __init__(
        self,
        provider: str,
        reason: str,
        *,
        attempts: int = 1,
        retry_after: float | None = None,
        permanent: bool = False,
    ) -> None:
        self.provider = provider
        self.reason = reason
        self.attempts = attempts
        self.retry_after = retry_after
        self.permanent = permanent
        super().__init__(f"{provider} unavailable: {reason}")


class EmbeddingUnavailable(ProviderUnavailable):
    """The embedding provider returned no usable vector."""

    degradation: ClassVar[Literal["embedding_unavailable", "quota_exhausted"]] = "embedding_unavailable"


LONGEST_QUOTA_WAIT = 900.0
"""Seconds after which pending entries are tried again, because the limit may have been raised."""


class EmbeddingQuotaUsed(EmbeddingUnavailable):
    """The tenant's embedding tokens of the day are used up; the provider itself is available."""

    degradation = "quota_exhausted"

    def __init__(self, provider: str) -> None:
        now = datetime.now(UTC)
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        left = min(LONGEST_QUOTA_WAIT, (midnight - now).total_seconds())
        super().__init__(provider, "the tenant's embedding tokens of the day are used up", attempts=0, retry_after=left)


class RerankerUnavailable(ProviderUnavailable):
    """The reranker returned no usable scores."""

    degradation: ClassVar[Literal["reranker_unavailable"]] = "reranker_unavailable"


class UnreadableDocument(KnowledgeError):
    """The service could not extract the text of a file; the message is a reason for people."""
