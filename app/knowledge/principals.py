"""Lists of readers and writers: groups and users of a tenant."""

from collections.abc import Sequence

from app.db.principals import EVERYONE, SERVICE, current_principals
from app.errors import InvalidInput

MOST_SHOWN = 10
"""Most principals of a caller that a refusal names."""

_OUTSIDE = {
    "readers": "must contain you or one of your groups, who would not see it again",
    "writers": "must contain you or one of your groups, who could not change it again",
}


def own_list(field: str, principals: Sequence[str]) -> list[str]:
    """The list in the order of the database. Raises InvalidInput unless the caller is one of its principals itself."""
    current = set(current_principals())
    if current != set(SERVICE) and current.isdisjoint(principals):
        raise InvalidInput.of(field, _describe_refusal(field, sorted(current - {EVERYONE}, reverse=True)))
    return sorted(set(principals))


def _describe_refusal(field: str, own: Sequence[str]) -> str:
    if not own:
        return "must be null where the work names no principal with acting_as"
    more = f" and {len(own) - MOST_SHOWN} more" if len(own) > MOST_SHOWN else ""
    return f"{_OUTSIDE[field]}; you are {', '.join(own[:MOST_SHOWN])}{more}"
