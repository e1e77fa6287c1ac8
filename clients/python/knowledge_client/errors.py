"""Errors: the service's problems by status, and failures on the way to the service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from knowledge_client.answers import Mismatch
from knowledge_client.transport import Response

if TYPE_CHECKING:
    from knowledge_client.models import Asset, FieldProblem, Problem


class KnowledgeError(Exception):
    """Every error that this client raises itself."""


class ServiceUnreachable(KnowledgeError):
    """No answer arrived: no connection, a broken connection, or a timeout. The cause is the transport's own error.

    Attributes:
        may_be_done: whether the service may have received the request, so that what it asks for may be done.
    """

    def __init__(self, reason: str, *, may_be_done: bool) -> None:
        super().__init__(reason)
        self.may_be_done = may_be_done


class UnexpectedAnswer(KnowledgeError):
    """An answer that did not come from the service, such as a proxy's page."""


class MalformedId(KnowledgeError, ValueError):
    """An id that is not a UUID; no request was sent."""


class IndexingFailed(KnowledgeError):
    """An uploaded file could not be indexed; `asset.error` has the reason."""

    def __init__(self, asset: Asset) -> None:
        super().__init__(f"{asset.name}: {asset.error}")
        self.asset = asset


class IndexingUnfinished(KnowledgeError):
    """The data was not searchable semantically within the timeout; the service continues to index it."""


class ProblemError(KnowledgeError):
    """The service refused the request or failed.

    Attributes:
        problem: the whole problem; fields that this client does not know are in `model_extra`.
        retry_after: seconds after which the service asks for a retry, or None.
    """

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def type(self) -> str:
        """The kind of problem, such as `/problems/entry-exists`; the service has a page about each."""
        return self.problem.type

    @property
    def detail(self) -> str:
        """What went wrong, in a sentence."""
        return self.problem.detail

    @property
    def request_id(self) -> str | None:
        """The id of the request in the service's log."""
        return self.problem.request_id

    @property
    def errors(self) -> list[FieldProblem]:
        """For InvalidInput: each field that is invalid."""
        return self.problem.errors or []


class InvalidInput(ProblemError):
    """422: a field is invalid."""


class Unauthenticated(ProblemError):
    """401: the token is missing or invalid, or its tenant was deleted."""


class Forbidden(ProblemError):
    """403: the token lacks the role."""


class NotFound(ProblemError):
    """404: the caller's tenant has nothing with this id."""


class Conflict(ProblemError):
    """409: the change conflicts with stored data."""


class CursorExpired(ProblemError):
    """410: the ranked list has expired; search again."""


class PreconditionFailed(ProblemError):
    """412: the entry changed since it was read."""


class TooLarge(ProblemError):
    """413: larger than the service's limit."""


class UnsupportedMediaType(ProblemError):
    """415: an unsupported kind of file."""


class RateLimited(ProblemError):
    """429: a limit is used up."""


class ServiceUnavailable(ProblemError):
    """503: the service or its database is unavailable."""


_BY_STATUS: Mapping[int, type[ProblemError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: CursorExpired,
    412: PreconditionFailed,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: InvalidInput,
    429: RateLimited,
    503: ServiceUnavailable,
}

PHRASES = {status.value: status.phrase for status in HTTPStatus}


def problem_error(problem: Problem, retry_after: float | None = None) -> ProblemError:
    """The error for the problem's status, also for the problem of one search of a batch."""
    return _BY_STATUS.get(problem.status, ProblemError)(problem, retry_after)


def read_problem(response: Response) -> ProblemError:
    """The error for an answer, also when a server between the client and the service gave it."""
    from knowledge_client.models import Problem  # calls that succeed do not need it

    try:
        problem = Problem.model_validate_json(response.content)
    except Mismatch:
        title = PHRASES.get(response.status_code, "")
        problem = Problem(title=title, status=response.status_code, detail=response.text[:200].strip())
    return problem_error(problem, read_retry_after(response.find_header("retry-after")))


def read_retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header names, as a number or as a date; None if it is missing or invalid."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from email.utils import parsedate_to_datetime  # rarely needed, and large

        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        # A date without a zone is in UTC, as all dates of HTTP are.
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
