"""Words of a query: compounds, scripts and completions."""

from collections.abc import Mapping, Sequence
from itertools import islice, product

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.db.queries import statistics
from tests.fixtures.database.cluster import execute
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


GERMAN = {
    "backup": "Die Sicherung der Datenbank läuft jede Nacht um zwei Uhr.",
    "restore": "Eine Datenbankwiederherstellung dauert etwa zwanzig Minuten.",
    "database": "Die Datenbank steht auf einem eigenen Server im Keller.",
    "leave": "Der Urlaubsantrag wird mindestens zwei Wochen vorher im Portal gestellt.",
    "holiday": "Im Urlaub vertritt uns das Team aus Leipzig.",
    "customer": "Die Kundennummer steht oben rechts auf jeder Rechnung.",
    "bill": "Wer eine Rechnung an einen Kunden schickt, prüft zuerst die Anschrift.",
    "password": "Das Zurücksetzen vom Passwort geht über die Seite der Anmeldung.",
    "hours": "Die Arbeitszeit wird am Monatsende von der Leitung bestätigt.",
    "work": "Unsere Arbeit beginnt mit einem kurzen Treffen am Morgen.",
    "fire": "Bei Feuer gilt der Plan zum Schutz vor Brand, der im Flur hängt.",
    "access": "Die Zugriffsrechte vergibt der Leiter der Abteilung.",
    "rights": "Welche Rechte ein Gast hat, steht im Vertrag.",
    "contract": "Der Vertrag über die Miete der Räume endet im Mai.",
    "travel": "Die Reisekostenabrechnung geht an die Buchhaltung.",
    "trip": "Nach der Reise werden die Belege gesammelt.",
    "server": "Ein Ausfall vom Server wird sofort dem Dienst gemeldet.",
    "training": "Die Sicherheitsschulung ist für neue Kollegen Pflicht.",
    "safety": "Die Sicherheit der Anlage wird jährlich geprüft.",
    "parking": "Einen Platz zum Parken bekommt, wer früh kommt; die Gebühr beträgt fünf Euro.",
    "fee": "Die Parkgebühr wird am Automaten bezahlt.",
    "language": "Der Sprachkurs findet dienstags im Saal statt.",
    "course": "Ein Kurs der Sprache Italienisch beginnt im Herbst.",
    "school": "Das Schulgebäude wird im Sommer renoviert.",
    "energy": "Der Verbrauch von Energie ist im Winter hoch.",
    "weather": "Die Wettervorhersage kommt vom Dienst in Offenbach.",
    "stock": "Der Bestand im Lager wird jeden Freitag gezählt.",
    "delivery": "Die Lieferadresse kann bis zum Versand geändert werden.",
    "dismissal": "Bei einer Kündigung beträgt die Frist drei Monate.",
    "health": "Die Gesundheitsprüfung macht der Betriebsarzt.",
    "order": "Der Bestellvorgang endet mit einer Nachricht.",
    "printer": "Die Patrone vom Drucker wechselt der Empfang.",
    "meeting": "Der Besprechungsraum im dritten Stock hat eine Kamera.",
    "room": "Ein Raum ohne Fenster dient als Archiv.",
    "insurance": "Die Haftpflichtversicherung deckt Schäden bis zehn Millionen.",
    "noise": "Der Schutz vor Lärm ist an der Maschine vorgeschrieben.",
}
OTHERS = {
    "nl-insurance": ("dutch", "De verzekering van de auto wordt ieder jaar in januari betaald."),
    "nl-tax": ("dutch", "De belastingaangifte moet voor mei worden ingediend bij het kantoor."),
    "sv-insurance": ("swedish", "En bilförsäkring betalas varje år och gäller för hela familjen."),
    "sv-key": ("swedish", "Nyckeln till ett hus lämnas hos grannen när familjen reser bort."),
    "da-security": ("danish", "Reglerne om datasikkerhed gælder for alle ansatte i virksomheden."),
    "da-water": ("danish", "Prisen på vand stiger igen til næste år, siger kommunen."),
    "nb-culture": ("norwegian", "Vår bedriftskultur er åpen og alle ansatte kan foreslå noe nytt."),
    "nb-road": ("norwegian", "Arbeidet på veien mot byen er ferdig til sommeren."),
    "fi-database": ("finnish", "Palvelun tietokanta varmistetaan joka yö kello kaksi."),
    "fi-station": ("finnish", "Juna lähtee asemalta, ja laituri on rakennuksen takana."),
    "hu-guide": ("hungarian", "Az autópálya délután zárva lesz a munkák miatt."),
}
ENTRIES: Mapping[str, tuple[str, str]] = {key: ("german", text) for key, text in GERMAN.items()} | OTHERS

QUERIES: Sequence[tuple[str, str]] = (
    ("Datenbanksicherung", "backup"),
    ("Wann läuft die Datenbanksicherung?", "backup"),
    ("Wiederherstellung der Datenbank", "restore"),
    ("Antrag auf Urlaub", "leave"),
    ("Wie stelle ich einen Antrag auf Urlaub?", "leave"),
    ("Nummer des Kunden", "customer"),
    ("Kundenrechnung", "bill"),
    ("Passwortanmeldung", "password"),
    ("Zeit der Arbeit", "hours"),
    ("Brandschutz", "fire"),
    ("Brandschutzplan", "fire"),
    ("Rechte für den Zugriff", "access"),
    ("Wer vergibt Rechte für den Zugriff?", "access"),
    ("Mietvertrag", "contract"),
    ("Kündigungsfrist", "dismissal"),
    ("Abrechnung der Reisekosten", "travel"),
    ("Serverausfall", "server"),
    ("Was tun beim Serverausfall", "server"),
    ("Schulung zur Sicherheit", "training"),
    ("Parkplatz", "parking"),
    ("Gebühr zum Parken", "fee"),
    ("Kurs für Sprache", "language"),
    ("Sprachkurs Italienisch", "course"),
    ("Gebäude der Schule", "school"),
    ("Energieverbrauch", "energy"),
    ("Energieverbrauch im Winter", "energy"),
    ("Vorhersage für das Wetter", "weather"),
    ("Lagerbestand", "stock"),
    ("Adresse der Lieferung", "delivery"),
    ("Prüfung der Gesundheit", "health"),
    ("Vorgang der Bestellung", "order"),
    ("Druckerpatrone", "printer"),
    ("Raum für Besprechungen", "meeting"),
    ("Versicherung für Haftpflicht", "insurance"),
    ("Lärmschutz", "noise"),
    ("autoverzekering", "nl-insurance"),
    ("aangifte van belasting", "nl-tax"),
    ("försäkring av bil", "sv-insurance"),
    ("husnyckel", "sv-key"),
    ("sikkerhed for data", "da-security"),
    ("vandpris", "da-water"),
    ("kultur i bedrift", "nb-culture"),
    ("veiarbeid", "nb-road"),
    ("tieto kanta", "fi-database"),
    ("autó pálya", "hu-guide"),
)


async def test_german_and_english_find_their_own_stems(services: Services, tenant: Tenant) -> None:
    german, english = await write(
        services,
        tenant,
        "Die alten Häuser am Hafen werden im nächsten Jahr von der Stadt erneuert.",
        "The old houses near the harbour are being renewed by the city next year.",
    )
    for query, expected in (
        ("Haus", german),
        ("alte Hafen", german),
        ("house", english),
        ("renewing", english),
        ("city", english),
        ("Städte", german),
        ("war", None),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == ([expected] if expected else []), query


async def test_a_stop_word_of_one_language_is_a_word_of_another(services: Services, tenant: Tenant) -> None:
    english, german = await write(
        services,
        tenant,
        "The long war between the two cities ended with a treaty about the river.",
        "Der Vertrag war lange zwischen den beiden Städten umstritten und wurde nie unterschrieben.",
    )
    result = await services.search.search(tenant.id, SearchQuery(query="war treaty", mode="keyword"))
    assert ids(result) == [english]
    # In German, this is a query of nothing but stop words.
    result = await services.search.search(tenant.id, SearchQuery(query="war", mode="keyword"))
    assert sorted(ids(result)) == sorted([english, german])


async def test_wrongly_detected_entries_do_not_make_the_other_languages_words_misspelt(
    services: Services, tenant: Tenant
) -> None:
    """Both languages stem every query; the stems of the wrong language are in no entry."""
    english = await write(
        services,
        tenant,
        "Deployments are rolled back by the releasing engineers.",
        "Engineers on duty are paged at night.",
        "Invoices are archived for ten years.",
        language="english",
    )
    await write(services, tenant, "Billing engineer.", "Deployment of invoice.", language="german")
    (german,) = await write(services, tenant, "Die Rechnungen werden von den Teams archiviert.", language="german")
    for query, expected in (
        ("releases rolling", english[0]),
        ("archiving the invoices", english[2]),
        ("Archivierung der Rechnung", german),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == {}, query
        assert result[0].id == expected, query


@pytest.mark.parametrize("counted", [False, True], ids=["small tenant", "words counted"])
async def test_correctly_spelt_word_is_never_corrected(
    services: Services, tenant: Tenant, superuser_dsn: str, counted: bool
) -> None:
    """Not even if the filter excludes its entry and there are more common words, or too many others."""
    await write(services, tenant, "the zazanulov is described here", tags=["one"], language="english")
    await write(services, tenant, "the bazanulov", "another bazanulov", tags=["two"], language="english")
    if counted:
        await execute(superuser_dsn, "update corpus_statistics set entries = 1000 where tenant_id = $1", tenant.id)
        async with services.database.tenant_session(tenant.id) as session:
            await statistics.refresh_lexemes(session)
    else:
        others = ["".join(letters) + "lov" for letters in islice(product(*["bdfgklmn", "ao"] * 3), 3_200)]
        await write(services, tenant, " ".join(others), language="english")
    for query, corrections in (("zazanulov", {}), ("bazanulow", {"bazanulow": "bazanulov"})):
        wanted = SearchQuery(query=query, mode="keyword", tags=["two"], explain=True)
        result = await services.search.search(tenant.id, wanted)
        assert keyword_leg_of(result).corrections == corrections


async def test_corrections_are_whole_words_of_the_query_and_of_an_entry(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "The Invoices are archived by the team.", language="english")
    await write(services, tenant, "Die Rechnungen werden von den Teams archiviert.", language="german")
    for typed, spelt in (("Invoicse", "Invoices"), ("Rechnugnen", "Rechnungen")):
        result = await services.search.search(tenant.id, SearchQuery(query=typed, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == {typed: spelt}
        assert result[0].matched_terms == (spelt.lower(),)


async def test_identifiers_are_found_as_a_whole_or_else_by_their_parts(services: Services, tenant: Tenant) -> None:
    whole, part = await write(
        services, tenant, "Settings are read from vercel.json at start.", "The json module parses text."
    )
    result = await services.search.search(tenant.id, SearchQuery(query="vercel.json", mode="keyword"))
    assert ids(result) == [whole]
    result = await services.search.search(tenant.id, SearchQuery(query="package.json", mode="keyword"))
    assert set(ids(result)) == {whole, part}


async def test_typographic_characters_do_not_belong_to_a_word(services: Services, tenant: Tenant) -> None:
    contents = (
        "„Methodisten“ nannten sich die Studenten in Oxford.",
        "The route’s order is “first match wins”…",
        "Timeouts – 30\u00a0seconds each – are counted per attempt.",
        "• Backups cost 5€ a month",
        "検索（全文）は、速い。",
    )
    entries = await write(services, tenant, *contents)
    for query, place in (
        ("Methodisten", 0),
        ("routes", 1),
        ("first", 1),
        ('"match wins"', 1),
        ("seconds", 2),
        ("month backups", 3),
        ("5", 3),
        ("全文", 4),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == [entries[place]], query
    # The reverse: only the query contains the characters.
    plain = await write(services, tenant, "A quota is a limit on tokens.")
    for query in ("“quota”", "the quota…", "limit\u00a0on\u00a0tokens", "quota – why"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == plain, query


async def test_match_in_the_title_is_enough_and_weighs_more(services: Services, tenant: Tenant) -> None:
    filler = "Many words about something else, going on for a while."
    body, title = (
        await write(services, tenant, f"{filler} Harbour."),
        await write(services, tenant, f"{filler} Boats.", title="Harbour"),
    )
    result = await services.search.search(tenant.id, SearchQuery(query="harbours", mode="keyword"))
    assert ids(result) == [*title, *body]
    assert result[0].matched_terms == ("harbours",)


async def test_rarer_words_and_shorter_entries_rank_higher(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, *(f"common number{n}" for n in range(10)))
    rare, common, long = await write(
        services, tenant, "rare thing", "common thing", "rare " + "padding words here " * 30
    )
    result = await services.search.search(tenant.id, SearchQuery(query="rare common", mode="keyword", limit=3))
    assert ids(result)[0] == rare
    positions = ids(await services.search.search(tenant.id, SearchQuery(query="rare", mode="keyword")))
    assert positions == [rare, long]
    assert common not in positions


async def test_keyword_scores_do_not_depend_on_other_tenants(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await write(services, tenant, "harbour lights", "boats")
    before = (await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword")))[0]
    await write(services, other_tenant, *(f"harbour {n}" for n in range(20)))
    after = (await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword")))[0]
    assert after.keyword_score == before.keyword_score


async def test_one_entry_in_another_language_does_not_change_match_strength(services: Services, tenant: Tenant) -> None:
    """The stop words of an English query are unknown words in German, which no English entry can have."""
    await write(services, tenant, "The zebra crossing is by the school.", "Llamas eat hay.", language="english")
    query = SearchQuery(query="where is the zebra crossing", mode="keyword", explain=True)
    before = await services.search.search(tenant.id, query)
    await write(services, tenant, "Das Zebra wohnt im Zoo.", language="german")
    after = await services.search.search(tenant.id, query)
    assert before.metadata.strong_match
    assert after.metadata.strong_match
    assert keyword_leg_of(after).full_match_score < 2 * keyword_leg_of(before).full_match_score


PARTS = "Die Sicherung der Datenbank läuft jede Nacht um zwei Uhr und dauert zehn Minuten."
WHOLE = "Die Datenbanksicherung läuft jede Nacht um zwei Uhr und dauert zehn Minuten."


async def test_compound_and_its_parts_find_each_other(services: Services, tenant: Tenant) -> None:
    (parts,) = await write(services, tenant, PARTS, language="german")
    for query in ("Datenbanksicherung", "Datenbanksicherungen"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == [parts], query
    (whole,) = await write(services, tenant, WHOLE, language="german")
    for query in ("Sicherung der Datenbank", "Sicherungen von Datenbanken", "Datenbank Sicherung"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert set(ids(result)) == {parts, whole}, query
    result = await services.search.search(
        tenant.id, SearchQuery(query="Datenbanksicherung", mode="keyword", explain=True)
    )
    assert ids(result) == [whole, parts]
    assert result.metadata.exact
    assert set(result[1].matched_terms) == {"datenbank", "sicherung"}
    assert keyword_leg_of(result).compounds == {"datenbanksicherung": ["Datenbank", "Sicherung"]}
    result = await services.search.search(
        tenant.id, SearchQuery(query="Sicherung der Datenbank", mode="keyword", explain=True)
    )
    assert keyword_leg_of(result).compounds == {"sicherung datenbank": ["Datenbanksicherung"]}


async def test_linking_letters_and_other_languages(services: Services, tenant: Tenant) -> None:
    pairs = (
        ("german", "Antrag auf Urlaub", "Der Urlaubsantrag wird im Portal gestellt."),
        ("german", "Nummer des Kunden", "Die Kundennummer steht auf der Rechnung."),
        ("dutch", "verzekering voor de auto", "De autoverzekering wordt jaarlijks betaald."),
        ("swedish", "försäkring bil", "En bilförsäkring betalas varje år."),
        ("danish", "sikkerhed for data", "Reglerne om datasikkerhed gælder for alle."),
        ("norwegian", "bedrift kultur", "Vår bedriftskultur er åpen."),
        ("finnish", "tieto kanta", "Palvelun tietokanta varmistetaan öisin."),
    )
    for language, query, content in pairs:
        (entry,) = await write(services, tenant, content, language=language)
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result)[:1] == [entry], query


async def test_word_and_its_parts_do_not_add_up(services: Services, tenant: Tenant) -> None:
    """An entry that has the compound and both parts scores as one with the compound, not more."""
    both, _ = await write(services, tenant, "Datenbanksicherung Sicherung Datenbank Server", PARTS, language="german")
    whole, _ = await write(services, tenant, "Datenbanksicherung Protokoll Dienste Server Ku", WHOLE, language="german")
    result = await services.search.search(tenant.id, SearchQuery(query="Datenbanksicherung", mode="keyword"))
    scores = {hit.id: hit.keyword_score for hit in result}
    assert scores[both] == pytest.approx(scores[whole], rel=0.02)


async def test_parts_are_not_sought_in_languages_without_compounds(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "The data base is full.", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query="database", mode="keyword", explain=True))
    assert keyword_leg_of(result).compounds == {}


async def test_long_query_is_searched_without_compounds(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, PARTS, "Der Server im Keller", "Minuten", language="german")
    for query, compounds in (
        ("Wie dauert die Datenbanksicherung im Keller?", {"datenbanksicherung": ["Datenbank", "Sicherung"]}),
        ("Wie lange dauert die Datenbanksicherung vom Server im Keller?", {}),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).compounds == compounds, query


async def test_filter_holds_for_compounds(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, PARTS, language="german", tags=["one"])
    (other,) = await write(services, tenant, PARTS + " Zwei.", language="german", tags=["two"])
    found = await services.search.search(
        tenant.id, SearchQuery(query="Datenbanksicherung", mode="keyword", tags=["two"])
    )
    assert ids(found) == [other]


async def test_why_not_tells_parts_from_a_part(services: Services, tenant: Tenant) -> None:
    parts, part = await write(services, tenant, PARTS, "Die Datenbank ist voll.", language="german")
    query = SearchQuery(query="Datenbanksicherung", mode="keyword")
    assert (await services.search.why_not(tenant.id, parts, query)).in_results
    missing = await services.search.why_not(tenant.id, part, query)
    assert [reason.detail for reason in missing.reasons if reason.stage == "keyword"] == [
        "shares no word with the query"
    ]


async def test_compounds_of_a_small_collection_are_among_the_first_three(services: Services, tenant: Tenant) -> None:
    """Without compounds and completions, the keyword leg has 12 of these 45 answers among its first three."""
    entries = {
        key: (await write(services, tenant, content, language=language))[0]
        for key, (language, content) in ENTRIES.items()
    }
    missed = []
    for query, key in QUERIES:
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", limit=3))
        if entries[key] not in ids(result):
            missed.append(query)
    assert len(missed) <= 3, missed


TEXTS = {
    "chinese": "数据库备份每天凌晨两点自动执行，保存三十天。",
    "japanese": "機械学習のモデルは毎週月曜日に再学習される。ログはサーバーに残る。",
    "korean": "백업은 매일 밤 두 시에 서버에서 실행되고 삼십 일 동안 보관됩니다.",
    "thai": "ระบบสำรองข้อมูลทำงานทุกคืนเวลาตีสองและเก็บไว้สามสิบวัน",
    "lao": "ລະບົບສຳຮອງຂໍ້ມູນເຮັດວຽກທຸກຄືນ",
    "khmer": "ប្រព័ន្ធបម្រុងទុកទិន្នន័យដំណើរការរៀងរាល់យប់",
    "burmese": "ဒေတာအရန်သိမ်းဆည်းမှုကို ညစဉ်လုပ်ဆောင်သည်",
    "arabic": "تُحفظ النسخ الاحتياطية للبيانات كل ليلة في الخادم الثاني.",
    "persian": "نسخه پشتیبان هر شب گرفته می‌شود و سی روز نگه‌داری می‌شود.",
    "hebrew": "גיבוי הנתונים מתבצע בכל לילה ונשמר שלושים יום.",
    "hindi": "डेटाबेस का बैकअप हर रात दो बजे लिया जाता है और तीस दिन रखा जाता है।",
    "russian": "Резервное копирование базы данных выполняется каждую ночь, и счётчик растёт.",
    "greek": "Το αντίγραφο ασφαλείας της βάσης δεδομένων δημιουργείται κάθε νύχτα.",
    "vietnamese": "Cơ sở dữ liệu được sao lưu mỗi đêm và lưu giữ ba mươi ngày.",
    "polish": "Kopia zapasowa bazy danych w Łodzi powstaje każdej nocy.",
    "portuguese": "A informação sobre a organização do armazém é guardada durante a noite.",
    "turkish": "Veritabanı yedeği her gece İstanbul sunucusunda alınır.",
}
QUERIES_BY_SCRIPT = [
    ("备份", "chinese", "备份"),
    ("数据库的备份什么时候执行？", "chinese", "数据库"),
    ("库", "chinese", "库"),
    ("機械学習", "japanese", "機械学習"),
    ("サーバー", "japanese", "サーバー"),
    ("ｻｰﾊﾞｰ", "japanese", "サーバー"),
    ("서버", "korean", "서버"),
    ("백업 시간", "korean", "백업"),
    ("สำรองข้อมูล", "thai", "สำรองข้อมูล"),
    ("ข้อมูลเก็บไว้กี่วัน", "thai", "ข้อมูล"),
    ("ຂໍ້ມູນ", "lao", "ຂໍ້ມູນ"),
    ("ទិន្នន័យ", "khmer", "ទិន្នន័យ"),
    ("ဒေတာ", "burmese", "ဒေတာ"),
    ("النسخ", "arabic", "النسخ"),
    ("تحفظ", "arabic", "تحفظ"),
    ("پشتیبان", "persian", "پشتیبان"),
    ("הנתונים", "hebrew", "הנתונים"),
    ("נְתוּנִים הַנְּתוּנִים", "hebrew", "הַנְּתוּנִים"),
    ("बैकअप", "hindi", "बैकअप"),
    ("रातों", "hindi", "रातों"),
    ("базой", "russian", "базой"),
    ("счетчик", "russian", "счетчик"),
    ("копирования", "russian", "копирования"),
    ("βασεων δεδομενων", "greek", "δεδομενων"),
    ("du lieu", "vietnamese", "du"),
    ("dữ liệu", "vietnamese", "dữ"),
    ("lodzi", "polish", "lodzi"),
    ("istanbul", "turkish", "istanbul"),
    ("VERİTABANI", "turkish", None),
    ("informacao", "portuguese", "informacao"),
    ("informações", "portuguese", "informações"),
    ("organizacao do armazem", "portuguese", "organizacao"),
]


@pytest.fixture
async def written(services: Services, tenant: Tenant) -> dict[str, object]:
    """An entry in each of these languages; the language of each is detected."""
    return dict(zip(TEXTS, await write(services, tenant, *TEXTS.values()), strict=True))


async def test_words_of_many_languages_are_found(
    services: Services, tenant: Tenant, written: dict[str, object]
) -> None:
    for query, language, term in QUERIES_BY_SCRIPT:
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert ids(result)[:1] == [written[language]], query
        assert keyword_leg_of(result).corrections == {}, query
        if term is not None:
            assert term in result[0].matched_terms, query


async def test_last_word_is_completed(services: Services, tenant: Tenant) -> None:
    titled = await write(services, tenant, "How we work.", title="Quokka handbook", language="english")
    named = await write(services, tenant, "Routes are in vercel.json.", language="english")
    other = await write(services, tenant, "Hand in the forms.", language="english")
    for query, found, completions in (
        ("handb", titled, {"handb": ["handbook"]}),
        ("quokka handb", titled, {"handb": ["handbook"]}),
        ("vercel.js", named, {"vercel.js": ["vercel.json"]}),
        ("verc", named, {"verc": ["vercel.json", "vercel"]}),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert ids(result) == found, query
        completed = keyword_leg_of(result).completions
        assert {key: sorted(words) for key, words in completed.items()} == {
            key: sorted(words) for key, words in completions.items()
        }
        assert result.metadata.exact
        assert result[0].matched_terms, query
    result = await services.search.search(tenant.id, SearchQuery(query="hand", mode="keyword", explain=True))
    assert ids(result) == other
    assert keyword_leg_of(result).completions == {}


@pytest.mark.parametrize("query", ["ha", "handb?", "handb is", "the"])
async def test_what_is_not_a_beginning_is_not_completed(services: Services, tenant: Tenant, query: str) -> None:
    """Two letters, a word before punctuation or another word, and a stop word."""
    await write(services, tenant, "A handbook of theatres.", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    assert keyword_leg_of(result).completions == {}


async def test_completion_does_not_rank_above_the_words_that_were_typed(services: Services, tenant: Tenant) -> None:
    (typed,) = await write(services, tenant, "The harbour guide is new.", language="english")
    await write(services, tenant, "A handbook for sailors.", "A handbill for tourists.", language="english")
    result = await services.search.search(
        tenant.id, SearchQuery(query="harbour guide handb", mode="keyword", explain=True)
    )
    assert ids(result)[0] == typed
    assert len(result) == 3


async def test_why_not_and_filters_agree_with_a_completion(services: Services, tenant: Tenant) -> None:
    (one,) = await write(services, tenant, "A handbook of one.", tags=["first"], language="english")
    (two,) = await write(services, tenant, "A handbook of two.", tags=["second"], language="english")
    query = SearchQuery(query="handb", mode="keyword", tags=["second"])
    assert ids(await services.search.search(tenant.id, query)) == [two]
    assert [r.stage for r in (await services.search.why_not(tenant.id, one, query)).reasons] == ["filter"]
    assert (await services.search.why_not(tenant.id, two, query)).in_results


async def test_several_misspelt_words_are_corrected(services: Services, tenant: Tenant) -> None:
    (order,) = await write(services, tenant, "In vercel.json, the routing order decides.", language="english")
    await write(services, tenant, "The ordinary backup.", "A json parser.", language="english")
    result = await services.search.search(
        tenant.id, SearchQuery(query="vercel.jsn rout ordr", mode="keyword", explain=True)
    )
    assert ids(result)[0] == order
    assert keyword_leg_of(result).corrections == {"jsn": "json", "ordr": "order"}
    assert {"json", "order"} <= set(result[0].matched_terms)


async def test_a_word_that_is_nearly_the_same_in_one_language_corrects_it_in_all(
    services: Services, tenant: Tenant
) -> None:
    layers = await write(services, tenant, "The boundary of a layer.", "The boundary of a wing.", language="english")
    await write(services, tenant, "Die Grenzschicht.", language="german")
    await write(services, tenant, "A shape bounded by walls.", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query="bounary", mode="keyword", explain=True))
    assert keyword_leg_of(result).corrections == {"bounary": "boundary"}
    assert set(ids(result)) == set(layers)
    assert all(hit.matched_terms == ("boundary",) for hit in result)


async def test_one_wrong_word_among_right_ones_is_corrected_if_it_is_nearly_the_same(
    services: Services, tenant: Tenant
) -> None:
    await write(services, tenant, "The harbour lighthouse was painted by the town.", language="english")
    for query, corrections in (
        ("painted harbour town lighthuose", {"lighthuose": "lighthouse"}),
        ("painted harbour town lighthose keeper", {"lighthose": "lighthouse"}),
        ("painted harbour town paintball", {}),
        ("who painted the harbour of the town with the lighthuose?", {}),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == corrections, query


async def test_a_stop_word_is_neither_corrected_nor_a_correction(services: Services, tenant: Tenant) -> None:
    english = ("We use Node.js for the portal.", "This is the list of dishes. We cook with regional produce.")
    await write(services, tenant, *english, language="english")
    await write(services, tenant, "Der Hafen ist im Winter geschlossen.", language="german")
    for query in ("Wer ist hier?", "wer ist", "wee thes"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == {}, query
    await write(services, tenant, "The war was over in May.", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query="waar", mode="keyword", explain=True))
    assert keyword_leg_of(result).corrections == {"waar": "war"}, "a stop word only in another language"


@pytest.mark.parametrize("word", ["_a" * 1_500, "foo_bar" * 1_000, "3.14" * 2_000, "x_" * 4_000 + "the", "a" * 9_900])
async def test_a_word_longer_than_any_lexeme_is_searched_for(services: Services, tenant: Tenant, word: str) -> None:
    (found,) = await write(services, tenant, "The qwertz lighthouse.", language="english")
    for query in (word, f"{word}!", f"qwertz {word}", f"harbour {word}"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == ([found] if "qwertz" in query else []), query[:20]
