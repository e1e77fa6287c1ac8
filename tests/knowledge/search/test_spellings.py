"""What counts as a word: names with signs, parts of names, other spellings, and stop words."""

import json
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.search import SearchQuery
from app.db.rows import new_id
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.writing import write

MODES: Sequence[Literal["keyword", "hybrid"]] = ("keyword", "hybrid")
CASES = Path(__file__).parents[4] / "shared" / "cases" / "search"

TEXTS = (
    "The parser returns Result<BadgerInvoice, ParseError> to the worker.",
    "Mount <OtterPanel> below the header.",
    "Call helm upgrade <release-label> with the new chart.",
    "The element <xs:gYearMonth> holds the quarter.",
    "Pass it as let total = &walrus; in Rust.",
    "Write &lt;lynxkey&gt; into the template.",
    "def refundShippingLabel(order): the courier is told.",
    "The ledger is closed with parse_voucher_ledger at midnight.",
    "XMLHttpRequest is replaced by fetch.",
    "C++ builds run on the amber agents.",
    "C# builds run on the teal agents.",
    "C builds run on the white agents.",
    "F# notebooks belong to the risk desk.",
    ".NET workers run in the north cell.",
    "The fishing net hangs in the hall.",
    "H&M has the shop on the corner.",
    "R&D sits above the bakery.",
    "WHO limits for nitrate are in the binder.",
    "The lamp in the hall was left on by the guest who slept there.",
    "US customs needs form seven.",
    "Tell us the colour.",
    "Hepatitis A shots are free.",
    "To see, or not to see: the museum shows it in autumn.",
    "The E.S.A. badge opens gate two.",
    "A M.Sc. is enough for the post.",
    "The grant is 2,500,000 euros.",
    "The dam holds 7000000 litres.",
    "Disks have 40TB each.",
    "The camera needs 12 V at the plug.",
    "Release v3.4.0 fixes the export.",
    "Release 4.0.3 fixes the import.",
    "PLS-00201 means an undeclared name.",
    "HTTP 418 is answered by the teapot.",
    "RFC7231 tells what a verb means.",
    "Code 0x8007A12B means no disk.",
    "The multi-region plan starts in March.",
    "The preflight check takes a minute.",
    "The Daten\u00adspeicher\u00adraum is on level two.",
    "Use zero\u200bwidth joints in the floor.",
    "OAuth2Token is renewed by the gate.",
    "The sign-off is given by the harbour master.",
    "P/5ORBIT runs the books.",
    "Chart.js draws the tide.",
    "The pre-configuration of the crane is on paper.",
    "T & S is next to the lift.",
    "The Was play on the pier.",
    "What was, was.",
    "✅Ferrywork is done, and the 🚀rocketdock too 👩🏽‍🚒.",
    "⏰Alarms™️ bellows twice ⏳️.",
    "Kestrelfin™ pays the Tidebank® levy, see ❶Moorings.",
)

QUERIES = (
    # Text in angle brackets, and after an ampersand.
    ("BadgerInvoice", "BadgerInvoice", "badgerinvoice"),
    ("Result<BadgerInvoice, ParseError>", "BadgerInvoice", "parseerror"),
    ("<OtterPanel>", "OtterPanel", "otterpanel"),
    ("release-label", "release-label", "label"),
    ("gYearMonth", "gYearMonth", "gyearmonth"),
    ("walrus", "walrus", "walrus"),
    ("lynxkey", "lynxkey", "lynxkey"),
    # Parts of names, and the name in another style.
    ("badger", "BadgerInvoice", "badger"),
    ("shipping labels", "refundShippingLabel", "shipping"),
    ("refund_shipping_label", "refundShippingLabel", "refund"),
    ("parseVoucherLedger", "parse_voucher_ledger", "voucher"),
    ("http request", "XMLHttpRequest", "request"),
    # Names with signs.
    ("C++", "C++", "c++"),
    ("c# agents", "C#", "c#"),
    ("csharp", "C#", "csharp"),
    ("C", "C builds", "c"),
    ("F#", "F#", "f#"),
    (".NET", ".NET", ".net"),
    ("dotnet", ".NET", "dotnet"),
    ("H&M", "H&M", "h&m"),
    ("R&D", "R&D", "r&d"),
    # Stop words.
    ("who", "WHO limits", "who"),
    ("WHO", "WHO limits", "who"),
    ("US customs", "US customs", "us"),
    ("US", "US customs", "us"),
    ("Hepatitis A", "Hepatitis A", "hepatitis"),
    ("to see or not to see", "To see, or", "see"),
    # One form for several spellings.
    ("ESA", "E.S.A.", "esa"),
    ("E.S.A.", "E.S.A.", "e.s.a"),
    ("MSc", "M.Sc.", "msc"),
    ("2500000", "2,500,000", "2500000"),
    ("7,000,000", "7000000", "7000000"),
    ("40 TB", "40TB", "tb"),
    ("12V", "12 V", "12"),
    ("3.4.0", "v3.4.0", "4"),
    ("v4.0.3", "4.0.3", "3"),
    ("PLS 201", "PLS-00201", "201"),
    ("pls00201", "PLS-00201", "pls00201"),
    ("HTTP418", "HTTP 418", "418"),
    ("RFC 7231", "RFC7231", "rfc"),
    ("8007a12b", "0x8007A12B", "8007a12b"),
    ("multiregion", "multi-region", "multiregion"),
    ("pre-flight", "preflight", "preflight"),
    ("multi-region", "multi-region", "multi"),
    ("Datenspeicherraum", "Daten\u00adspeicher", "datenspeicherraum"),
    ("zerowidth", "zero\u200bwidth", "zerowidth"),
    ("zero\u00adwidth", "zero\u200bwidth", "zerowidth"),
    ("oauth token", "OAuth2Token", "oauth"),
    ("oauth2", "OAuth2Token", "oauth2"),
    ("signoff", "sign-off", "signoff"),
    ("p5orbit", "P/5ORBIT", "p5orbit"),
    ("chartjs", "Chart.js", "chartjs"),
    ("preconfiguration", "pre-configuration", "preconfiguration"),
    ("T&S", "T & S", "t&s"),
    ("2 500 000", "2,500,000", "000"),
    ("7 000 000", "7000000", "7000000"),
    ("the was", "The Was", "was"),
    # Next to pictures and signs.
    ("ferrywork", "Ferrywork", "ferrywork"),
    ("✅ferrywork", "Ferrywork", "ferrywork"),
    ("rocketdock", "rocketdock", "rocketdock"),
    ("🚀", "rocketdock", "🚀"),
    ("👩🏽‍🚒", "rocketdock"),
    ("🚀🚀", "rocketdock", "🚀"),
    ("🚀✅", "rocketdock", "🚀"),
    ("👩", "rocketdock", "👩"),
    ("👩🏿", "rocketdock", "👩"),
    ("⏰", "Alarms", "⏰"),
    ("⏳", "Alarms", "⏳"),
    ("⏰️", "Alarms", "⏰"),
    ('"alarms bellows"', "Alarms"),
    ("kestrelfin", "Kestrelfin", "kestrelfin"),
    ("Kestrelfin™", "Kestrelfin", "kestrelfin"),
    ("tidebank", "Tidebank", "tidebank"),
    ("moorings", "Moorings", "moorings"),
)


async def find_wrong(
    services: Services, texts: Sequence[str], asked: Iterable[Sequence[str]], **fields: Any
) -> Sequence[object]:
    """What is not found first, by words or by default; `asked` has queries, part of their text, and a matched term."""
    tenant = await services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    await write(services, tenant, *texts, **fields)
    await services.embedder.embed_all(tenant.id)
    wrong = []
    for (query, expected, *terms), mode in product(asked, MODES):
        hit = next(iter(await services.search.search(tenant.id, SearchQuery(query=query, mode=mode))), None)
        if hit is None or expected not in hit.content or not set(terms) <= set(hit.matched_terms):
            wrong.append((mode, query, hit and hit.content, hit and hit.matched_terms))
    return wrong


async def test_each_spelling_finds_its_text_first(local_services: Services) -> None:
    assert not await find_wrong(local_services, TEXTS, QUERIES, language="english")


@pytest.mark.parametrize(("language", "word"), [("hindi", "विभाग"), ("russian", "отдел"), ("english", "desk 7")])
async def test_an_english_stop_word_in_capitals_is_a_word(services: Services, language: str, word: str) -> None:
    texts = (f"{word}, {word}.", f"IT {word}.", f"{word}: WHO.")
    asked = ((f"IT {word}", "IT", "it"), (f"WHO {word}", "WHO", "who"))
    assert not await find_wrong(services, texts, asked, language=language)


async def test_the_stem_in_another_language_does_not_correct_an_incomplete_word(services: Services) -> None:
    texts = ("The port of ships.", "Portable computers.", "Kütüphaneler.")
    tenant = await services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    for text, language in zip(texts, ("english", "english", "turkish"), strict=True):
        await write(services, tenant, text, language=language)
    result = await services.search.search(tenant.id, SearchQuery(query="portab", mode="keyword", explain=True))
    assert [hit.content for hit in result] == ["Portable computers."]
    assert keyword_leg_of(result).corrections == {}


@pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is not there")
@pytest.mark.parametrize("number", ["15", "18", "19", "21", "22", "24"])
async def test_reported_cases_find_their_text_first(local_services: Services, number: str) -> None:
    (folder,) = CASES.glob(f"{number}-*")
    entries, lines = ((folder / name).read_text() for name in ("entries.json", "queries.txt"))
    asked = [[part.strip() for part in line.split(" => ")] for line in lines.splitlines()]
    assert not await find_wrong(local_services, json.loads(entries), asked)
