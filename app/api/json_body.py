"""Reading a JSON body: what cannot be a request is refused by name before any model sees it."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from app.errors import InvalidInput

MAX_DEPTH = 64
"""Objects and lists inside one another; the deepest request that the API describes has four."""


class JsonRequest(Request):
    """A request whose `json()` refuses, as InvalidInput, what `parse_json` refuses."""

    async def json(self) -> Any:
        """The parsed body. Raises InvalidInput, and json.JSONDecodeError where it is no JSON."""
        return parse_json(await self.body())


def parse_json(body: bytes) -> Any:
    """Parse UTF-8 JSON of at most `MAX_DEPTH` levels. Raises InvalidInput and json.JSONDecodeError."""
    try:
        value = json.loads(body.decode("utf-8"))
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise InvalidInput.of("body", "must be UTF-8") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # Python refuses to read integers of more than 4,300 digits
        raise InvalidInput.of("body", "must not contain numbers of thousands of digits") from None
    level = _items([value])  # what the next round looks into is one level deeper
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _items(outer)]
        if not level:
            return value
    raise _too_deep()


def _items(container: dict[str, Any] | list[Any]) -> list[Any]:
    """What is in it, without the scalars, of which a body may have millions."""
    values = container.values() if isinstance(container, dict) else container
    return [value for value in values if isinstance(value, dict | list)]


def _too_deep() -> InvalidInput:
    return InvalidInput.of("body", f"must be nested at most {MAX_DEPTH} levels deep")
