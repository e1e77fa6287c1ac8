"""A file of each kind that is read is found by its words and by its meaning, with its place."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.schema.owner import register_model
from app.embeddings.providers.local import LocalProvider, load_minilm
from app.evaluation.evaluation import finish_upkeep
from tests.documents.mails import write_mail
from tests.documents.office import (
    text_box,
    text_cell,
    write_epub,
    write_odf,
    write_raw_pptx,
    write_raw_xlsx,
    write_xls,
    write_zip,
)
from tests.fixtures.documents import write_pdf, write_raw_docx

HEADING = (
    '<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>{}</w:t></w:r></w:p><w:p><w:r><w:t>{}</w:t></w:r></w:p>'
)
FRAME = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"


def write_slides(*slides: tuple[str, str]) -> str:
    titled = ' presentation:class="title"'
    return "".join(f"<draw:page>{FRAME.format(titled, a)}{FRAME.format('', b)}</draw:page>" for a, b in slides)


def write_sheet(*rows: tuple[str, str]) -> str:
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    return "".join(f"<table:table-row>{''.join(map(cell.format, row))}</table:table-row>" for row in rows)


ROWS = (
    f'<row r="1">{text_cell("A1", "Instrument")}{text_cell("B1", "Player")}</row>'
    f'<row r="2">{text_cell("A2", "violin")}{text_cell("B2", "Clara")}</row>'
)
TREES = write_sheet(("Tree", "Fruit"), ("oak", "acorns"))
NOTE = {"cell_type": "markdown", "metadata": {}, "source": "# Earthquakes\n\nSeismographs record tremors."}
INSECT = '<svg xmlns="http://www.w3.org/2000/svg"><title>Butterfly</title><text>caterpillar becomes pupa</text></svg>'
MAIL = {"from": "Änne <anne@example.org>", "to": "bo@example.org", "date": "2025-03-14T09:30:00+01:00"}
GLACIERS = write_slides(("Start", "Welcome to the parking garage."), ("Glaciers", "They melt and shrink every summer."))
CHESS = '<text:h text:outline-level="1">Chess</text:h><text:p>The bishop moves diagonally.</text:p>'
TAXES = text_box("Taxes", "title") + text_box("The revenue office refunds overpaid levies.")


class Kind(NamedTuple):
    """A file, a word of it, a question that has none of its words, and the metadata of the hit."""

    name: str
    data: bytes | str
    word: str
    question: str
    place: Mapping[str, Any] = {}


KINDS = (
    Kind("a.txt", "Hedgehogs hibernate through the winter.", "hedgehogs", "how do animals survive cold months"),
    Kind(
        "a.md",
        "# Dough\n\nKnead yeast and flour, then bake the loaf.",
        "yeast",
        "making bread",
        {"headings": ["Dough"]},
    ),
    Kind(
        "a.html",
        "<h1>Vets</h1><p>Vaccinate your puppy against rabies.</p>",
        "rabies",
        "protecting a young dog from disease",
        {"headings": ["Vets"]},
    ),
    Kind(
        "a.docx",
        write_raw_docx(HEADING.format("Tides", "The moon pulls the oceans twice a day.")),
        "oceans",
        "gravity raises the sea level",
        {"headings": ["Tides"]},
    ),
    Kind(
        "a.pdf",
        write_pdf([["A locomotive needs coal."], ["The dentist filled a tooth."]]),
        "dentist",
        "doctor for mouth and gums",
        {"page": 2, "total_pages": 2},
    ),
    Kind(
        "a.pptx",
        write_raw_pptx([text_box("Welcome to the parking garage."), TAXES]),
        "levies",
        "getting money back from the government",
        {"page": 2, "headings": ["Taxes"]},
    ),
    Kind("a.xlsx", write_raw_xlsx(ROWS), "violin", "string musicians of an orchestra", {"headings": ["One"]}),
    Kind(
        "a.xls",
        write_xls([("Metal", "Use"), ("copper", "wires")], sheet="Ores"),
        "copper",
        "material that conducts electricity",
        {"headings": ["Ores"]},
    ),
    Kind(
        "a.ods",
        write_odf("spreadsheet", f'<table:table table:name="Trees">{TREES}</table:table>'),
        "acorns",
        "nuts growing in a forest",
        {"headings": ["Trees"]},
    ),
    Kind("a.csv", "Planet,Moons\nJupiter,95\n", "jupiter", "gas giant in the solar system"),
    Kind("a.odt", write_odf("text", CHESS), "bishop", "rules of a board game", {"headings": ["Chess"]}),
    Kind(
        "a.odp",
        write_odf("presentation", GLACIERS),
        "glaciers",
        "ice is vanishing because of global warming",
        {"page": 2, "headings": ["Glaciers"]},
    ),
    Kind(
        "a.epub",
        write_epub(["<h1>Voyage</h1><p>The captain hoisted the sails.</p>"]),
        "captain",
        "a ship sets out with wind",
        {"headings": ["Voyage"]},
    ),
    Kind(
        "a.eml",
        write_mail("Please pay the invoice by Friday.", subject="Reminder"),
        "invoice",
        "deadline for settling a bill",
        {"mail": MAIL},
    ),
    Kind(
        "a.ipynb",
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [NOTE]}),
        "seismographs",
        "measuring how the ground shakes",
        {"headings": ["Earthquakes"]},
    ),
    Kind(
        "a.vtt",
        "WEBVTT\n\n00:01.000 --> 00:04.000\nThe surgeon transplanted a kidney.\n",
        "kidney",
        "operation on an organ in a hospital",
    ),
    Kind(
        "a.srt",
        "1\n00:00:01,000 --> 00:00:04,000\nThe jury found the thief guilty.\n",
        "jury",
        "verdict of a court about a crime",
    ),
    Kind(
        "a.rst",
        "Camels\n======\n\nDromedaries cross the desert without water.\n",
        "dromedaries",
        "thirsty beasts travelling over sand",
        {"headings": ["Camels"]},
    ),
    Kind(
        "a.adoc",
        "= Coffee\n\nRoast the beans, grind them and brew.\n",
        "beans",
        "preparing an espresso",
        {"headings": ["Coffee"]},
    ),
    Kind(
        "a.org",
        "* Football\nThe striker scored from a penalty.\n",
        "striker",
        "soccer goals",
        {"headings": ["Football"]},
    ),
    Kind("a.json", '{"volcano": {"eruption": "lava destroyed the village"}}', "lava", "a mountain spewing molten rock"),
    Kind("a.svg", INSECT, "pupa", "metamorphosis of an insect"),
    Kind(
        "a.py",
        "def encrypt(password):\n    return cipher(password, salt)\n",
        "cipher",
        "cryptography of secrets",
        {"headings": ["def encrypt"]},
    ),
    Kind(
        "a.zip",
        write_zip({"notes/deep.md": "# Whales\n\nThey sing to each other under water."}),
        "whales",
        "marine mammals communicate",
        {"headings": ["notes/deep.md", "Whales"]},
    ),
)


async def test_a_file_of_each_kind_is_found_by_its_words_and_its_meaning(database: Database, admin_dsn: str) -> None:
    provider = LocalProvider(await asyncio.to_thread(load_minilm))
    await register_model(admin_dsn, provider.model)
    services = await build_services(database, provider)
    try:
        tenant = await services.tenants.create(NewTenant("kinds"), actor="test")
        for kind in KINDS:
            data = kind.data if isinstance(kind.data, bytes) else kind.data.encode()
            await services.assets.upload(tenant.id, Upload(kind.name, data))
        await finish_upkeep(services, tenant.id)
        wrong = []
        for kind in KINDS:
            words = SearchQuery(query=kind.word, mode="keyword")
            meaning = SearchQuery(query=kind.question, mode="semantic", similarity_threshold=0)
            for query in (words, meaning):
                hits = list(await services.search.search(tenant.id, query))
                found = next((hit.metadata for hit in hits[:2] if hit.asset_name == kind.name), None)
                if found is None or {name: found.get(name) for name in kind.place} != kind.place:
                    wrong.append(f"{kind.name}, {query.query}: {[(hit.asset_name, hit.metadata) for hit in hits[:2]]}")
        assert not wrong, "\n".join(wrong)
    finally:
        await services.close()
        await provider.close()
