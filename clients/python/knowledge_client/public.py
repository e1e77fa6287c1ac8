"""The public names of `knowledge_client`."""

from knowledge_client import fields, models
from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.client import KnowledgeClient
from knowledge_client.errors import (
    Conflict,
    CursorExpired,
    Forbidden,
    IndexingFailed,
    IndexingUnfinished,
    InvalidInput,
    KnowledgeError,
    MalformedId,
    NotFound,
    PreconditionFailed,
    ProblemError,
    RateLimited,
    ServiceUnavailable,
    ServiceUnreachable,
    TooLarge,
    Unauthenticated,
    UnexpectedAnswer,
    UnsupportedMediaType,
    problem_error,
)
from knowledge_client.fields import *  # noqa: F403
from knowledge_client.models import *  # noqa: F403
from knowledge_client.retries import Retries
from knowledge_client.transport import AsyncTransport, Attachment, Body, NotAnswered, Request, Response, Transport

__all__ = [
    "AsyncKnowledgeClient",
    "AsyncTransport",
    "Attachment",
    "Body",
    "Conflict",
    "CursorExpired",
    "Forbidden",
    "IndexingFailed",
    "IndexingUnfinished",
    "InvalidInput",
    "KnowledgeClient",
    "KnowledgeError",
    "MalformedId",
    "NotAnswered",
    "NotFound",
    "PreconditionFailed",
    "ProblemError",
    "RateLimited",
    "Request",
    "Response",
    "Retries",
    "ServiceUnavailable",
    "ServiceUnreachable",
    "TooLarge",
    "Transport",
    "Unauthenticated",
    "UnexpectedAnswer",
    "UnsupportedMediaType",
    "problem_error",
]
__all__ += fields.__all__
__all__ += models.__all__
