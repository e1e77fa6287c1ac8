"""Documents of several sections, and their chunks."""

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Asset
from app.contract.entries import Entry


def document(*subjects: str, words: int = 60) -> bytes:
    parts = [f"# On {s}\n\n" + f"The {s} is described here in a sentence. " * words for s in subjects]
    return "\n\n".join(parts).encode()


async def chunks_of(services: Services, tenant: Tenant, asset: Asset) -> list[Entry]:
    page = await services.entries.list_entries(tenant.id, asset_id=asset.id, limit=200, include_quarantined=True)
    return sorted(page.items, key=lambda entry: entry.chunk_index or 0)
