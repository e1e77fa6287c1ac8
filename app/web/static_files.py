"""Files that the pages of the documentation and the console use."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from fastapi.staticfiles import StaticFiles


class ReleasedFiles(StaticFiles):
    """Files that change only with a release; browsers may cache them for a day."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """One file."""
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "public, max-age=86400"
        return response
