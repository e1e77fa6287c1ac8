"""Draining: while the service shuts down, each response closes its connection.

The caller then opens a new connection, which a load balancer directs to an instance that is ready; otherwise its next
request could cross the closing of the old one.
"""

from __future__ import annotations

from starlette.types import Scope


def is_draining(scope: Scope) -> bool:
    """Whether the app of this request shuts down."""
    return getattr(scope["app"].state, "draining", False)
