"""Words of texts in every script: found, shown, and not corrected."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants

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
QUERIES = [
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
    for query, language, term in QUERIES:
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert ids(result)[:1] == [written[language]], query
        assert keyword_leg_of(result).corrections == {}, query
        if term is not None:
            assert term in result[0].matched_terms, query
