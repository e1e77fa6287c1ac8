"""The last line and the exit status of a failed command."""

import logging
import re
from typing import Any

import typer

from app.errors import InvalidInput, KnowledgeError

log = logging.getLogger("app.cli")

_RULES = {
    r"Input should be a valid integer\b.*": "must be an integer",
    r"Input should be a valid number\b.*": "must be a number",
    r"Input should be a valid UUID\b.*": "must be a UUID",
    r"Input should be greater than or equal to ": "must be at least ",
    r"Input should be less than or equal to ": "must be at most ",
}
"""Pydantic's messages, and the words of the service."""

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


class Interrupted(Exception):
    """A signal ended the command before it was done."""


def report_failure(error: BaseException, *, as_json: bool) -> int:
    """Print the reason of a failure on stderr and return the exit status. Raises other exceptions."""
    status, reason = _judge(error)
    if reason:
        _tell(error, reason, status, as_json=as_json)
    return status


def log_failure(error: BaseException) -> int:
    """Report a failure as `report_failure` does, for a process of a service that continues and logs the reason."""
    status, reason = _judge(error)
    if reason:
        log.error("a process failed: %s", reason)
    return status


def _judge(error: BaseException) -> tuple[int, str]:
    """The exit status and the reason, which may be empty. Raises exceptions that are not failures of the command."""
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if not isinstance(error, Exception):
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(str(error))
        return DONE, ""
    # typer's usage errors have no common public class.
    if hasattr(error, "format_message"):
        return MISUSED, _describe_misuse(error)
    log.debug("the command failed", exc_info=error)
    if isinstance(error, KnowledgeError):
        return FAILED, str(error)
    if isinstance(error, typer.Abort):
        return FAILED, "aborted: nothing was changed"
    if isinstance(error, OSError):
        reason = error.strerror or "input or output failed"
        return FAILED, f"{error.filename}: {reason}" if error.filename else reason
    hint = "" if log.isEnabledFor(logging.DEBUG) else "; LOG_LEVEL=debug shows where"
    return FAILED, f"unexpected failure ({type(error).__name__}){hint}"


def _describe_misuse(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "knowledge"
    # typer's message about a choice has a duplicate prefix; others are Pydantic's.
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    for pattern, rule in _RULES.items():
        message = re.sub(pattern, rule, message)
    return f"{message}; see: {command} --help"


def _tell(error: BaseException, reason: str, status: int, *, as_json: bool) -> None:
    line = " ".join(reason.split())
    if not as_json:
        typer.echo(f"error: {line}", err=True)
        return
    import orjson

    told: dict[str, Any] = {"error": line, "status": status}
    if isinstance(error, InvalidInput):
        told["errors"] = [{"field": e.field, "message": e.message} for e in error.errors]
    typer.echo(orjson.dumps(told).decode(), err=True)
