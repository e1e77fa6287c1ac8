"""Puts the console into the app."""

from __future__ import annotations

from fastapi import FastAPI

from app.api.operations import DocsFiles
from app.console import (
    assets,
    comparing,
    entries,
    health,
    platform,
    saved_searches,
    searching,
    signing_in,
)
from app.console.rendering import FOLDER


def install_console(app: FastAPI) -> None:
    """The pages under /console, and the files that they use."""
    app.mount("/console/files", DocsFiles(directory=FOLDER / "static"), name="console-files")
    for router in (
        signing_in.router,
        searching.router,
        comparing.router,
        entries.writers,
        entries.readers,
        assets.writers,
        assets.readers,
        saved_searches.router,
        health.router,
        platform.router,
    ):
        app.include_router(router)
