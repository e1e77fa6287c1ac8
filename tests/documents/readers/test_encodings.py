"""The encodings of texts: marked, declared, and guessed."""

import io
import unicodedata
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.formats import declared_codec, detect_format, find_format
from app.documents.parsed import ParseLimits
from app.documents.readers.encodings import decode, unicode_encoding
from app.documents.readers.text import clean_text
from app.errors import UnreadableDocument, UnsupportedMediaType

LIMITS = ParseLimits()

JAPANESE = "港の事務所は七時に開き、最後の船が出ると閉まります。客は門の呼び鈴を鳴らします。"
CZECH = "Kancelář přístavu otevírá v sedm a zavírá, když odpluje poslední loď. Hosté zvoní u brány a čekají."
RUSSIAN = "Контора порта открывается в семь и закрывается, когда уходит последняя лодка. Гости звонят у ворот."
GERMAN = "Das Hafenbüro öffnet um sieben und schließt, wenn das letzte Boot abgelegt hat. Gäste läuten am Tor."
GREEK = "Το γραφείο του λιμανιού ανοίγει στις επτά και κλείνει όταν φύγει το τελευταίο σκάφος."
WRITTEN = {
    "shift_jis": JAPANESE,
    "euc_jp": JAPANESE,
    "iso2022_jp": JAPANESE,
    "gb18030": "港口办公室七点开门，最后一艘船离开后关门。客人按门铃，等待值班人员开门。",
    "big5": "港口辦公室七點開門，最後一艘船離開後關門。客人按門鈴，等待值班人員開門。",
    "euc_kr": "항구 사무실은 일곱 시에 열고 마지막 배가 떠나면 닫습니다. 손님은 문에서 종을 울립니다.",
    "cp1250": CZECH,
    "iso8859_2": CZECH,
    "cp1251": RUSSIAN,
    "koi8_r": RUSSIAN,
    "cp866": RUSSIAN,
    "iso8859_5": RUSSIAN,
    "mac_cyrillic": RUSSIAN,
    "koi8_u": "Контора порту відчиняється о сьомій і зачиняється, коли відходить останній човен. Гості дзвонять.",
    "utf-16-le": RUSSIAN,
    "utf-16-be": GERMAN,
    "cp1252": GERMAN,
    "cp850": GERMAN,
    "cp1253": GREEK,
    "iso8859_7": GREEK,
    "cp1255": "משרד הנמל נפתח בשבע ונסגר כאשר הסירה האחרונה יוצאת. אורחים מצלצלים בפעמון בשער.",
    "cp1256": "يفتح مكتب الميناء في الساعة السابعة ويغلق عندما يغادر آخر قارب. يقرع الضيوف الجرس.",
    "iso8859_6": "يفتح مكتب الميناء في الساعة السابعة ويغلق عندما يغادر آخر قارب. يقرع الضيوف الجرس.",
    "cp874": "สำนักงานท่าเรือเปิดเจ็ดโมงและปิดเมื่อเรือลำสุดท้ายออกไป แขกกดกริ่งที่ประตู",
}


@pytest.mark.parametrize("encoding", WRITTEN)
def test_an_encoding_is_honoured_when_declared_and_guessed_otherwise(encoding: str) -> None:
    text = WRITTEN[encoding]
    data = text.encode(encoding)
    told = decode(data, declared_codec(f'text/plain; charset="{encoding.upper()}"'))
    assert (told.text, told.is_guessed) == (text, False)
    guessed = decode(data)
    assert (guessed.text, guessed.is_guessed) == (text, True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-marked", "utf-32"])
def test_unicode_is_recognised(encoding: str) -> None:
    text = "Größe – „naïve“ café 😀"
    data = b"\xfe\xff" + text.encode("utf-16-be") if "marked" in encoding else text.encode(encoding)
    assert (decode(data).text, decode(data).is_guessed) == (text, False)
    if encoding != "utf-8":
        assert decode(data, "cp1251").text == text, "a mark counts more than what is declared"


@pytest.mark.parametrize("text", ["café", "5 €", "“so”", "it’s fine", "São Paulo", "El niño comió", "Grüße aus Köln"])
def test_few_accents_are_those_of_western_europe(text: str) -> None:
    assert (decode(text.encode("cp1252")).text, decode(text.encode("cp1252")).encoding) == (text, "cp1252")


def test_a_wrong_or_unknown_charset_is_passed_over() -> None:
    for charset in ("us-ascii", "utf-16", "nonsense", "base64", "rot13", "\0", ""):
        codec = declared_codec(f"text/plain; charset={charset}")
        assert decode("Größe 日本".encode(), None if charset == "us-ascii" else codec).text == "Größe 日本"


def test_what_no_encoding_gives_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="declare its charset, or save it as UTF-8"):
        decode(bytes(range(128, 256)) * 20)


def test_damaged_utf8_stays_utf8() -> None:
    assert decode("äöüßéè".encode() + b"\xff").text == "äöüßéè\ufffd"


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 8, b"\x01\0\x02\0" * 99, b"ab\0\0cd ", "日本".encode("utf-16-le") * 99]
)
def test_zeros_alone_do_not_make_a_text(data: bytes) -> None:
    assert unicode_encoding(data) is None


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp"])
@pytest.mark.parametrize("text", ["倉庫の在庫" * 5, "四月の報告.txt\n予算.csv", "日報\n会議のメモ"])
def test_few_japanese_words_are_recognised(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


def test_truncated_utf16_does_not_fail() -> None:
    assert decode("ab".encode("utf-16")[:-1]).text == "a\ufffd"


@given(st.binary(max_size=400))
def test_any_bytes_give_clean_text_or_are_refused(data: bytes) -> None:
    try:
        text = clean_text(decode(data).text)
    except UnreadableDocument:
        return
    assert text.encode("utf-8").decode("utf-8") == text
    assert not any(unicodedata.category(sign) == "Cc" for sign in text if sign not in "\t\n")
    assert unicodedata.is_normalized("NFC", text)


@pytest.mark.parametrize("name", ["csv", "html", "markdown", "text", "code", "json"])
def test_a_document_tells_its_encoding(name: str) -> None:
    text = {"csv": "Größe;Stück\nä;1\nö;2", "json": '{"Größe": "ä ö ü ß"}'}.get(name, "Größe: ä ö ü ß")
    document = find_format(name).read(text.encode("cp1252"), LIMITS)
    assert (document.encoding, document.encoding_guessed) == ("cp1252", True)
    assert "Größe: ä" in document.text
    document = find_format(name).read(text.encode("utf-16"), LIMITS)
    assert (document.encoding, document.encoding_guessed) == ("utf-16-le", False)


@pytest.mark.parametrize(("encoding", "text"), [("cp1251", RUSSIAN), ("shift_jis", JAPANESE)])
@pytest.mark.parametrize("charset", ["", "; charset={}"])
def test_rows_of_a_table_are_read_in_its_encoding(encoding: str, text: str, charset: str) -> None:
    data, declared = f"id;text\n1;{text}\n2;{text}".encode(encoding), f"text/csv{charset.format(encoding)}"
    document = detect_format(data, "a.csv", declared).read(data, LIMITS, declared_codec(declared))
    assert document.text == f"id: 1 | text: {text}\nid: 2 | text: {text}"


@pytest.mark.parametrize("encoding", ["cp866", "utf-8", "cp1251"])
def test_names_in_a_zip_file_are_those_of_the_system_that_wrote_it(encoding: str) -> None:
    names = ["Контора порта.txt", "Правила возврата.txt"]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for index, name in enumerate(names):
            archive.writestr(str(index) * len(name.encode(encoding)), RUSSIAN.encode("cp1251"))
    data = file.getvalue()
    for index, name in enumerate(names):
        written = name.encode(encoding)
        data = data.replace(str(index).encode() * len(written), written)
    document = find_format("zip").read(data, LIMITS)
    assert [heading.title for heading in document.headings] == names
    assert RUSSIAN in document.text


def test_a_few_control_characters_do_not_make_a_text_binary() -> None:
    source = b"# Tides\n\nThe tide rises \x02 twice a day, at the quay and at the pontoon."
    kind = detect_format(source, "tides.md")
    assert kind.name == "markdown"
    document = kind.read(source, LIMITS)
    assert "rises  twice" in document.text
    assert document.removed_controls == 1
    assert (
        find_format("csv").read(b"id,name\n1,Ha\x1ffen\n2,Kai", LIMITS).text == "id: 1 | name: Hafen\nid: 2 | name: Kai"
    )
    for binary in (b"MZ\x90\0\x03\0text", bytes(range(1, 32)) * 20 + b"text" * 20):
        with pytest.raises(UnsupportedMediaType):
            detect_format(binary, "tides.md")


def test_brackets_without_end_in_markdown_are_markdown() -> None:
    assert detect_format(b"[" * 300_000, "notes.md").name == "markdown"
