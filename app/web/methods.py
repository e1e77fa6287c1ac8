"""The methods of each path, over all routers, and the method of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from fastapi import FastAPI
from starlette.types import Scope

SENT = "knowledge.sent_method"
"""The key of a request's scope with the method that was sent, where the request is served as another."""


class MethodTable:
    """The methods of the app's described paths; read when first needed, once all routers are in."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def of(self, path: str) -> frozenset[str]:
        """The methods of a request's path; empty if the description has no such path."""
        # A path without a parameter takes precedence over one with a parameter.
        if path in self._methods:
            return self._methods[path]
        return next(
            (self._methods[t] for t, form in self._forms.items() if form.fullmatch(path)), frozenset()
        )

    def takes(self, path: str, method: str) -> bool:
        """Whether the path supports the method; True if the description has no such path."""
        allowed = self.of(path)
        return not allowed or method in allowed

    @cached_property
    def _methods(self) -> Mapping[str, frozenset[str]]:
        paths = self._app.openapi()["paths"]
        return {path: frozenset(method.upper() for method in methods) for path, methods in paths.items()}

    @cached_property
    def _forms(self) -> Mapping[str, re.Pattern[str]]:
        return {
            path: re.compile(re.sub(r"\{[^{}]+\}", "[^/]+", path)) for path in self._methods if "{" in path
        }


def is_head(scope: Scope) -> bool:
    """Whether a request asks for the headers only: HEAD is served as GET, and must not change anything."""
    return bool(scope.get(SENT, scope["method"]) == "HEAD")
