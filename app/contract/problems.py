"""Problem types, one row each with meaning and remedy, and the problem for each error."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import Field

from app import errors
from app.contract.validation import Described

PATH = "/problems"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem that programs can tell from the others; `error` is the class that it renders, if any."""

    name: str
    status: int
    meaning: str
    remedy: str
    error: type[errors.KnowledgeError] | None = None

    @property
    def uri(self) -> str:
        """The problem's `type`: a reference to the page about it."""
        return f"{PATH}/{self.name}"


def _of(
    error: type[errors.KnowledgeError], status: int, meaning: str, remedy: str, name: str | None = None
) -> ProblemType:
    """The type of an error; its name is that of the error, unless it has another one."""
    own = re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()
    return ProblemType(name or own, status, meaning, remedy, error)


CONFLICTS = (
    _of(
        errors.EntryExists,
        409,
        "Another entry has the same external_id, or without one the same content.",
        "Change or delete the entry that existing_id names.",
    ),
    _of(
        errors.AssetExists,
        409,
        "With these readers, the asset would have the same external_id as another one, or without one the same bytes.",
        "Change or delete the asset that existing_id names.",
    ),
    _of(
        errors.PartOfAsset,
        409,
        "The entry is a chunk of an asset, which determines its text, title, type and position.",
        "Change the title of the asset, upload a new version of it, or delete it.",
    ),
    _of(errors.ConcurrentWrites, 409, "Other requests are writing the same item.", "Send the request again."),
    _of(
        errors.SourceTaken,
        409,
        "The name is that of a source that the caller may not see.",
        "Choose another name, or ask a tenant administrator to be one of the source's writers.",
    ),
    _of(
        errors.RunSuperseded,
        409,
        "Another run of the source has sent a manifest since this one began.",
        "List the origin again, and send a manifest with the run that the source has now.",
    ),
    _of(
        errors.ItemChanged,
        409,
        "The source's last manifest does not list the file, or with another digest.",
        "List the origin again, and send a new manifest.",
    ),
    _of(
        errors.TooManyDeletions,
        409,
        "The manifest would delete more assets of the source than a run may; nothing was changed.",
        "Check the listing. If it is right, send it with confirm_deletions, or with allow_empty if it is empty.",
    ),
    _of(
        errors.TextNotReady,
        409,
        "The asset has no text yet, or its text could not be extracted.",
        "Wait until its status is indexed; if it is failed, see its error.",
    ),
    _of(errors.NotFailed, 409, "Only a failed asset can be retried.", "See the status of the asset."),
    _of(errors.TenantExists, 409, "A tenant has this slug already.", "Choose another slug."),
    _of(errors.KeyExists, 409, "An API key of the tenant has this name already.", "Choose another name."),
    _of(
        errors.MaximumReached,
        409,
        "The caller or the tenant has the maximum number of such items.",
        "Delete one first.",
    ),
    _of(
        errors.ModelChangeConflict,
        409,
        "The state of the model change does not allow this step.",
        "See the detail and GET /admin/reembed; try again when the state has changed.",
    ),
)


_ROWS = (
    ProblemType(
        "malformed-request",
        400,
        "The request is not valid HTTP, or its body cannot be read.",
        "Check the request's form and its Content-Type.",
    ),
    _of(
        errors.Unauthenticated,
        401,
        "The request has no valid token, or the tenant of the token no longer exists.",
        "Send a valid token: Authorization: Bearer <token>.",
    ),
    _of(errors.Forbidden, 403, "The token lacks the required role.", "Use a token with the role."),
    _of(
        errors.NotAWriter,
        403,
        "The caller may read the item, but is not one of its writers.",
        "Ask one of its writers to change it, or to add you.",
    ),
    _of(
        errors.Quarantined,
        403,
        "The text is in quarantine: only callers who can correct it read it, and never through /mcp.",
        "Ask a tenant administrator to release it, or to correct it.",
    ),
    ProblemType(
        "no-such-path", 404, "The service has nothing at this path.", "See /docs for the paths of the service."
    ),
    _of(
        errors.EntryNotFound,
        404,
        "The tenant has no entry with this id.",
        "Check the id; the entry may have been deleted.",
    ),
    _of(
        errors.AssetNotFound,
        404,
        "The tenant has no asset with this id.",
        "Check the id; the asset may have been deleted.",
    ),
    _of(
        errors.SavedSearchNotFound,
        404,
        "The caller has no saved search with this id.",
        "List your saved searches; those of other callers are not shown.",
    ),
    _of(
        errors.SubscriptionNotFound,
        404,
        "The saved search has no subscription that the caller may see.",
        "Subscribe first.",
    ),
    _of(
        errors.SourceNotFound,
        404,
        "The tenant has no source with this name.",
        "List the sources, or create one with PUT /knowledge/sources/{name}.",
    ),
    _of(errors.TenantNotFound, 404, "There is no tenant with this id.", "List the tenants."),
    _of(errors.ModelChangeNotFound, 404, "No model change is in progress.", "Start one with POST /admin/reembed."),
    _of(
        errors.SearchNotFound,
        404,
        "There is no search with this id, or its record has expired.",
        "Search again, and use the new search_id within 24 hours.",
    ),
    _of(errors.KeyNotFound, 404, "The tenant has no API key with this id.", "List the keys of the tenant."),
    _of(errors.ErasureNotFound, 404, "The tenant has no erasure with this id.", "List the erasures of the tenant."),
    _of(errors.NotFound, 404, "The tenant has no item with this id.", "Check the id."),
    ProblemType(
        "method-not-allowed",
        405,
        "The path does not support this method.",
        "Use one of the methods in the header Allow.",
    ),
    _of(errors.TooSlow, 408, "The request arrived too slowly.", "Send it again over a faster connection."),
    *CONFLICTS,
    _of(errors.Conflict, 409, "The change contradicts what is stored.", "See the detail."),
    _of(
        errors.CursorExpired,
        410,
        "The ranked list of the cursor is not available any more.",
        "Search again without the cursor.",
    ),
    _of(
        errors.PreconditionFailed,
        412,
        "The entry has changed since it was read, so If-Match does not name its version.",
        "Read the entry again, and repeat the change with the new ETag.",
        "stale-etag",
    ),
    _of(errors.TooLarge, 413, "The body or the file is larger than the limit.", "Send less in one request."),
    _of(
        errors.UnsupportedMediaType,
        415,
        "The body or the file has a format that the service does not read.",
        "See the detail for the supported formats.",
    ),
    _of(
        errors.InvalidInput,
        422,
        "A field, a parameter or a filter is not valid.",
        "Correct the fields that errors names.",
    ),
    _of(
        errors.UnreadableDocument,
        422,
        "The text of the file cannot be extracted.",
        "See the detail, and send a file that is not damaged or encrypted.",
    ),
    _of(
        errors.RateLimited,
        429,
        "The tenant has reached the limit that the member limit names.",
        "Wait as long as Retry-After says, or ask for a higher limit.",
        "limit-reached",
    ),
    ProblemType(
        "headers-too-long",
        431,
        "The request line and the headers are too long or too many.",
        "Send shorter or fewer headers.",
    ),
    ProblemType(
        "unexpected-error",
        500,
        "The service failed. Its log has the details under the request_id.",
        "Report the request_id to the operator.",
    ),
    ProblemType(
        "unknown-transfer-coding",
        501,
        "The body has a transfer coding that the service does not read.",
        "Send the body with a Content-Length, or with Transfer-Encoding: chunked.",
    ),
    ProblemType(
        "shutting-down", 503, "This instance is shutting down.", "Send the request again; another instance answers it."
    ),
    _of(
        errors.DatabaseUnavailable,
        503,
        "The database is down or too busy.",
        "Wait as long as Retry-After says, and try again.",
    ),
    _of(
        errors.EmbeddingQuotaUsed,
        503,
        "The tenant has used its embedding tokens of the day.",
        "Wait as long as Retry-After says, or use keyword search.",
    ),
    _of(
        errors.EmbeddingUnavailable,
        503,
        "The embedding provider is unavailable, and the request needs it.",
        "Wait as long as Retry-After says, and try again.",
    ),
)

TYPES: Mapping[str, ProblemType] = {row.name: row for row in _ROWS}
"""By name, in the order of their statuses."""

_BY_ERROR: Mapping[type[errors.KnowledgeError], ProblemType] = {
    row.error: row for row in _ROWS if row.error is not None
}
_OF_REQUESTS: Mapping[int, ProblemType] = {
    TYPES[name].status: TYPES[name]
    for name in (
        *("malformed-request", "no-such-path", "method-not-allowed", "too-slow", "headers-too-long"),
        "unknown-transfer-coding",
        "unexpected-error",
    )
}


def type_of_error(error: type[errors.KnowledgeError]) -> ProblemType | None:
    """The type of an error's class, or of the nearest class above it that has one."""
    return next((_BY_ERROR[kind] for kind in error.__mro__ if kind in _BY_ERROR), None)


def type_of_status(status: int) -> ProblemType:
    """The type of a refusal that no error describes: of the request as such, before any service sees it."""
    return _OF_REQUESTS.get(status, TYPES["unexpected-error"])


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """An invalid field."""

    field: Annotated[str, Field(examples=["limit"])]
    message: Annotated[str, Field(examples=["must be between 1 and 50"])]


@dataclass(frozen=True, slots=True)
class Problem(Described):
    """An error, as in RFC 9457."""

    type: Annotated[
        str,
        Field(
            examples=[TYPES["invalid-input"].uri],
            json_schema_extra={"format": "uri-reference", "enum": [kind.uri for kind in TYPES.values()]},
        ),
    ]
    """The kind of problem, by which programs can tell problems apart. It refers to a page of this service. More types
    may be added."""
    title: Annotated[str, Field(examples=["Unprocessable Content"])]
    status: Annotated[int, Field(examples=[422])]
    detail: Annotated[str, Field(examples=["limit: must be between 1 and 50"])]
    request_id: Annotated[str | None, Field(examples=["5f2b6c1e8d3a4f70"])] = None
    errors: Annotated[Sequence[FieldProblem] | None, Field(description="For 422: each invalid field.")] = None
    limit: Annotated[str | None, Field(description="For 429: the name of the limit that was reached.")] = None
    existing_id: UUID | None = None
    """For /problems/entry-exists and /problems/asset-exists: the entry or asset with the same identity."""
    deletions: int | None = None
    """For /problems/too-many-deletions: the number of assets that would be deleted."""
    assets: int | None = None
    """For /problems/too-many-deletions: the number of assets that the source has."""
