"""Loaded by schemathesis: rules that a schema cannot express, and a check for another tenant's words in responses.

Names the refusals of requests that the OpenAPI document allows, each by the exact text: everything else that is
valid must be accepted, and everything that is not must be refused.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import EnsureResourceAvailability, RejectedPositiveData

# They depend on stored data, or JSON Schema cannot express them.
LAWFUL_REFUSALS = (
    r"there is no entry with this id",
    r"there is no asset with this id",
    r"^must contain you or one of your groups, who (would not see|could not change) it again; you are user:",
    r"^must be group:NAME or user:SUB, printable and without outer blanks$",
    r"^must (be|have) 1 to \d+ printable characters( without outer blanks)?$",
    r"^must be an object with exactly one of \"field\", \"and\", \"or\" and \"not\"$",
    r"^must be later than (\w+_)?after$",
    r"^is required with run$",
    r"^must be at most \d+ days before `to`, and not after it$",
    r"^must be the number of the source's run$",
    r"^must be null, or a list of 1 to 64 of group:NAME and user:SUB$",
    r"^must be empty in a search with as_of$",
    r"^is not supported in why-not$",  # as_of of its search, which has the schema of every search
    r"^must have (set, add or remove|either set, or add and remove)$",
    r"^must have at least one of ids, tags, entry_type, filter, principal$",
    r"^and writers must not both be absent$",
    r"^must have exactly one of asset_id, entry_id and subject$",
    r"must be, with asset_ids, 1 to \d+ ids",
    r"must be the next_cursor of an earlier response",
    r"must (be|have) (text of |a list of )?(at most )?\d+ .* characters, no NUL and no lone surrogates",
    r"must not contain (NUL|lone)",
    r"must be finite numbers, not all zero",
    r"^must have \d+ numbers, as the tenant's model has$",
    r"semantic and keyword must sum to 1",
    r"is not registered; the operator must run: knowledge model add",
    r"this service has no second model",
    r"the file is empty",
    r"cannot be saved: (a cursor belongs to one search|former versions are kept for a time only)",
    r"^belongs to another search: send the same query and filters$",
    r"must be between 1 and \d+ in this tenant",
    r"must be whsec_ and 24 to 64 bytes in base64",
    r"must be a hit of that search",
    r"^must (be an http:// or https:// address|resolve to a public address|have a port from 1 to 65535)$",
    r"^must have (no user name, password or fragment|at most \d+ printable characters and no blanks)$",
    r"^must have a host of at most \d+ characters$",
    r"must be at most \d+, the platform's limit for this tenant",
    r"^must be an integer$",  # 35.0 is an integer to JSON Schema
    r"must be a JSON object",
    r"must be pm, dev, qa or all",
    r"^must have at most 4 items$",  # of roles in a form, where one value may be a list of them
    r"must be a time in the future, at most 20 years from now",
)
FILTER_REFUSALS = (
    r"^must have nothing but \"(and|or|not)\"$",
    r"^must be metadata\.KEY or one of id, ",
    r"^must have (one or more of|only field and operators:) eq, ne, in, exists",
    r"^must be nested at most \d+ levels deep$",
    r"^must be (a text|a finite number|a UUID|a date and time with a time zone|true or false|one of )",
)
"""Of filters only: their schema is flat, so that every client and model reads it, and what is allowed depends on the
field that is compared."""
IN_FILTER = re.compile(r"(^|\.)filter($|[.\[])")
MORE_ITEMS = r"; the same holds for \d+ more items?$"
"""What follows a message that is true of several items of a list."""
CANARIES = {name: os.environ.get(f"FUZZ_CANARY_{name.upper()}", "") for name in ("first", "second")}


NARROWING = ("limits", "default_limit", "max_limit")
"""Settings that would cause the remaining requests to be refused."""


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Remove settings that would cause the remaining requests to be refused."""
    _remove_foreign_words(case)
    valid = case.meta is not None and case.meta.generation.mode.is_positive
    if valid and case.operation.path == "/admin/settings" and isinstance(case.body, dict):
        case.body = {name: value for name, value in case.body.items() if name not in NARROWING}


def _remove_foreign_words(case: Any) -> None:
    """Replace the words of other tenants in a request: values of responses are sent by all senders.

    A sender that wrote them itself would be shown them rightly.
    """
    foreign = [word for name, word in CANARIES.items() if word and name != getattr(case, "auth_identity", None)]
    for part in ("body", "query", "path_parameters"):
        setattr(case, part, _without(getattr(case, part), foreign))


def _without(value: Any, words: Sequence[str]) -> Any:
    if isinstance(value, str):
        for word in words:
            value = value.replace(word, "word")
        return value
    if isinstance(value, dict):
        return {_without(name, words): _without(item, words) for name, item in value.items()}
    if isinstance(value, list):
        return [_without(item, words) for item in value]
    return value


@schemathesis.hook
def filter_failure(_context: Any, failure: Failure, case: Any, response: Any) -> bool:
    """Whether a failure is a real one."""
    if isinstance(failure, EnsureResourceAvailability) and "/subscription" in case.operation.path:
        return False  # a new saved search has no subscription
    if any(value in (None, "None") for value in (case.path_parameters or {}).values()):
        return False  # the id of a hit that has no asset
    if isinstance(failure, RejectedPositiveData) and response.status_code == 422:
        return not all(map(_is_lawful, response.json()["errors"]))
    if isinstance(failure, AcceptedNegativeData) and case.operation.path.endswith(("/bulk", "/batch")):
        # Each entry or search has its own status in the response.
        return all(result["status"] not in ("failed", 422) for result in response.json()["results"])
    # Form fields have no types: every value is text.
    return not (isinstance(failure, AcceptedNegativeData) and case.media_type == "multipart/form-data")


def _is_lawful(problem: dict[str, str]) -> bool:
    rules = LAWFUL_REFUSALS + (FILTER_REFUSALS if IN_FILTER.search(problem["field"]) else ())
    message = re.sub(MORE_ITEMS, "", problem["message"])
    return any(re.search(rule, message) for rule in rules)


@schemathesis.check
def foreign_words(_context: Any, response: Any, case: Any) -> None:
    """Fail when a response contains a word that only another tenant's entries contain."""
    sender = next((name for name in CANARIES if case.auth_identity == name), None)
    for name, word in CANARIES.items():
        if word and sender is not None and name != sender and word in response.text:
            raise AssertionError(f"{sender} was shown data of {name}")
