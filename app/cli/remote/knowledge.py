"""The parts of a tenant's knowledge at a service elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from app.cli.remote.access import RemoteAccess, RemoteAccessOverview
from app.cli.remote.administration import (
    RemoteAdministration,
    RemoteEmbedder,
    RemoteErasures,
    RemoteQuarantine,
    RemoteReembedding,
    RemoteTenants,
)
from app.cli.remote.entries import RemoteEntries, RemoteRelated, RemoteSearches
from app.cli.remote.exchange import TIMEOUT, Exchange
from app.cli.remote.files import RemoteAssets, RemoteSourceFiles, RemoteSources
from app.cli.remote.revocations import RemotePlatformRevocations, RemoteRevocations
from app.cli.target import Remote


@dataclass(frozen=True, slots=True)
class RemoteKnowledge:
    """A tenant's knowledge at a service elsewhere."""

    tenants: RemoteTenants
    access: RemoteAccess
    search: RemoteSearches
    entries: RemoteEntries
    related: RemoteRelated
    assets: RemoteAssets
    sources: RemoteSources
    source_uploads: RemoteSourceFiles
    administration: RemoteAdministration
    embedder: RemoteEmbedder
    erasures: RemoteErasures
    quarantine: RemoteQuarantine
    reembedding: RemoteReembedding
    revocations: RemoteRevocations
    platform_revocations: RemotePlatformRevocations


@contextlib.asynccontextmanager
async def open_remote(remote: Remote) -> AsyncIterator[RemoteKnowledge]:
    """Open a tenant's knowledge at a service elsewhere.

    Redirects are not followed, because they would take the token elsewhere.
    """
    async with httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as http:
        exchange = Exchange(remote, http)
        yield RemoteKnowledge(
            tenants=RemoteTenants(exchange),
            access=RemoteAccess(exchange, RemoteAccessOverview(exchange)),
            search=RemoteSearches(exchange),
            entries=RemoteEntries(exchange),
            related=RemoteRelated(exchange),
            assets=RemoteAssets(exchange),
            sources=RemoteSources(exchange),
            source_uploads=RemoteSourceFiles(exchange),
            administration=RemoteAdministration(exchange),
            embedder=RemoteEmbedder(),
            erasures=RemoteErasures(exchange),
            quarantine=RemoteQuarantine(exchange),
            reembedding=RemoteReembedding(exchange),
            revocations=RemoteRevocations(exchange),
            platform_revocations=RemotePlatformRevocations(exchange),
        )
