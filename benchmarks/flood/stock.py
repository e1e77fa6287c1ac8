"""The tenants of a flood, and their entries."""

import contextlib
import itertools
import random
from collections.abc import Mapping, Sequence
from uuid import UUID

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.errors import TenantNotFound
from app.evaluation.collection import Document
from benchmarks.flood.kinds import REPEATED
from benchmarks.texts import vary_text

MEASURED, FLOODING, GIANT, REPEATING = "flooded", "flooding", "giant", "repeating"
"""The tenant that is measured, the one that floods, the one that floods with giants, and the one whose entries repeat
two words."""

SENDERS = {"giant": GIANT, "unread": GIANT, "repeated": REPEATING}
"""Who sends the kinds that another tenant than FLOODING sends."""

GIANTS = 52
"""Entries of nearly the maximum length."""

REPETITIONS = 12
"""Entries of 100,000 characters of two words."""


async def fill(services: Services, texts: Sequence[Document], entries: int) -> dict[str, UUID]:
    """Fill the tenants that are not full, and wait until each entry has its vectors."""
    generators = {slug: _draft_variations(slug, texts, entries) for slug in (MEASURED, FLOODING)}
    return {
        slug: await _fill(services, slug, drafts)
        for slug, drafts in {**generators, GIANT: _draft_giants(), REPEATING: _draft_repetitions()}.items()
    }


async def remove_assets(services: Services, tenants: Mapping[str, UUID]) -> None:
    """Remove the files of earlier floods, which would still be parsed."""
    for tenant in tenants.values():
        while page := (await services.assets.list_assets(tenant)).items:
            for asset in page:
                await services.assets.delete(tenant, asset.id)


def _draft_variations(slug: str, texts: Sequence[Document], entries: int) -> list[EntryDraft]:
    generator = random.Random(slug)
    originals = itertools.islice(itertools.cycle(texts), entries)
    return [
        EntryDraft(content=f"{n} {vary_text(original, generator.choice(texts), generator)}")
        for n, original in enumerate(originals)
    ]


def _draft_giants() -> list[EntryDraft]:
    """Long lines without spaces: many bytes as JSON, few tokens to embed."""
    line = "\u00e9" * 1_900 + "\n"
    return [EntryDraft(content=f"giant {n}\n" + line * 52) for n in range(GIANTS)]


def _draft_repetitions() -> list[EntryDraft]:
    text = " ".join(REPEATED) + " "
    return [EntryDraft(content=f"{n} {text * (99_000 // len(text))}") for n in range(REPETITIONS)]


async def _fill(services: Services, slug: str, drafts: Sequence[EntryDraft]) -> UUID:
    with contextlib.suppress(TenantNotFound):
        tenant = await services.tenants.find(slug)
        stock = await services.administration.stats(tenant.id)
        if stock.entries >= len(drafts) and not stock.pending_embeddings:
            return tenant.id
        await services.tenants.delete(tenant.id, actor="benchmark")
    tenant = await services.tenants.create(NewTenant(slug), actor="benchmark")
    for first in range(0, len(drafts), 500):
        await services.entries.create_many(tenant.id, drafts[first : first + 500])
    await services.embedder.embed_all(tenant.id)
    return tenant.id
