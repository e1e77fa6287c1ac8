"""Each section of the sample handbook is the first answer to its own question, with the default provider."""

import asyncio

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.schema.owner import register_model
from app.embeddings.providers.local import LocalProvider, load_minilm
from app.evaluation.evaluation import finish_upkeep
from app.samples import load_documents

SECTIONS = {
    "When should I open an incident, and what is one?": ("Before anything happens", 1),
    "How do I prepare before my rotation on call begins?": ("Before anything happens", 1),
    "How quickly must a SEV2 be acknowledged?": ("Severity", 1),
    "Who writes the updates, and who must not touch a keyboard?": ("Roles", 1),
    "What are the first steps after I acknowledge the page?": ("The first fifteen minutes", 2),
    "Calls of the API get a web page instead of JSON": ("The API answers with HTML", 2),
    "connections are reset after a while": ("Many ERR_CONN_RESET errors", 2),
    "Bookings wait for their payment although the skippers have paid": ("Payments are pending", 2),
    "the barriers on the pontoons stay closed": ("Gates do not open", 2),
    "What may we promise to the harbour offices?": ("Talking to customers", 3),
    "How soon must the authority hear that personal data leaked?": ("Talking to customers", 3),
    "Who may begin work at noon after a night on duty?": ("When it is over", 3),
    "How many actions come out of a review?": ("The review", 3),
    "How often do we break things on purpose?": ("Exercises", 3),
    "When do I ring the hotline of Paylane?": ("Appendix: numbers to call", 3),
}
"""Questions, the section that answers each, and its page."""


async def test_each_section_of_the_handbook_is_found_first_by_its_question(database: Database, admin_dsn: str) -> None:
    provider = LocalProvider(await asyncio.to_thread(load_minilm))
    await register_model(admin_dsn, provider.model)
    services = await build_services(database, provider)
    try:
        tenant = await services.tenants.create(NewTenant("handbook"), actor="test")
        (handbook,) = (document for document in load_documents() if document.name.endswith(".pdf"))
        await services.assets.upload(tenant.id, Upload(handbook.name, handbook.read()))
        await finish_upkeep(services, tenant.id)
        wrong = []
        for question, (section, page) in SECTIONS.items():
            hits = list(await services.search.search(tenant.id, SearchQuery(query=question)))
            headings = hits[0].metadata.get("headings", []) if hits else []
            pages = range(hits[0].metadata["page"], hits[0].metadata.get("page_end", hits[0].metadata["page"]) + 1)
            if not any(heading.endswith(section) for heading in headings[-1:]) or page not in pages:
                wrong.append((question, headings, [hit.title for hit in hits[:3]]))
        assert wrong == []
    finally:
        await services.close()
        await provider.close()
