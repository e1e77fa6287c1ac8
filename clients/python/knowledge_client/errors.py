"""What can go wrong: the service's problems by status, and what happens on the way to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from pydantic import ValidationError

from knowledge_client.models import Asset, FieldProblem, Problem


class KnowledgeError(Exception):
    """Anything that this client raises by itself."""


class ServiceUnreachable(KnowledgeError):
    """No answer came: no connection, a broken one, or a time limit. The cause is httpx's own error."""


class UnexpectedAnswer(KnowledgeError):
    """An answer that the service does not give, such as a proxy's page."""


class IndexingFailed(KnowledgeError):
    """An uploaded file could not be indexed; `asset.error` says why."""

    def __init__(self, asset: Asset) -> None:
        super().__init__(f"{asset.name}: {asset.error}")
        self.asset = asset


class IndexingUnfinished(KnowledgeError):
    """What was written is not searchable by meaning within the time given; the service goes on with it."""


class ProblemError(KnowledgeError):
    """The service refused or failed.

    Attributes:
        problem: the whole problem, with fields that this client does not know in `model_extra`.
        retry_after: seconds after which the service asks to be tried again, or None.
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
    def detail(self) -> str:
        """What went wrong, in a sentence."""
        return self.problem.detail

    @property
    def request_id(self) -> str | None:
        """What the service's log knows the request by."""
        return self.problem.request_id

    @property
    def errors(self) -> list[FieldProblem]:
        """For InvalidInput: each field that broke a rule."""
        return self.problem.errors or []


class InvalidInput(ProblemError):
    """422: a field is outside its range."""


class Unauthenticated(ProblemError):
    """401: no valid token, or the token's tenant is gone."""


class Forbidden(ProblemError):
    """403: the token lacks the role."""


class NotFound(ProblemError):
    """404: nothing of the caller's tenant has this id."""


class Conflict(ProblemError):
    """409: the change contradicts what is stored."""


class CursorExpired(ProblemError):
    """410: the ranked list has expired; search again."""


class PreconditionFailed(ProblemError):
    """412: the entry changed since it was read."""


class TooLarge(ProblemError):
    """413: larger than the service's limit."""


class UnsupportedMediaType(ProblemError):
    """415: a kind of file that is not read."""


class RateLimited(ProblemError):
    """429: a limit is used up."""


class ServiceUnavailable(ProblemError):
    """503: the service or its database is away."""


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


def problem_error(problem: Problem, retry_after: float | None = None) -> ProblemError:
    """The error of the problem's status, also for the problem of one search of a batch."""
    return _BY_STATUS.get(problem.status, ProblemError)(problem, retry_after)


def read_problem(response: httpx.Response) -> ProblemError:
    """The error that an answer stands for, also where something between here and the service gave it."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        problem = Problem(
            title=response.reason_phrase, status=response.status_code, detail=response.text[:200].strip()
        )
    return problem_error(problem, read_retry_after(response.headers.get("retry-after")))


def read_retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header names, as a number or as a date; None where it says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        # A date without a zone is in UTC, as all dates of HTTP are.
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
