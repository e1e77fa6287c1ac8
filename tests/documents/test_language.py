import pytest

from app.documents.language import CONFIGURATIONS, detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The cat sleeps on the kitchen table every day.", "english"),
        ("Die Katze schläft jeden Tag auf dem Küchentisch.", "german"),
        ("Le chat dort tous les jours sur la table de la cuisine.", "french"),
        ("El gato duerme todos los días en la mesa de la cocina.", "spanish"),
        ("Il gatto dorme ogni giorno sul tavolo della cucina.", "italian"),
        ("De kat slaapt elke dag op de tafel in de keuken.", "dutch"),
        ("O gato dorme todos os dias na mesa da cozinha.", "portuguese"),
        ("Katten sover varje dag på bordet i köket hos oss.", "swedish"),
        ("Кошка каждый день спит на кухонном столе в доме.", "russian"),
        ("Kedi her gün mutfak masasının üzerinde uyuyor.", "turkish"),
        ("Kot śpi codziennie na stole w naszej kuchni.", "simple"),
        ("猫每天都在厨房的桌子上睡觉。", "simple"),
        ("Passwort zurücksetzen", "german"),
        ("Urlaub beantragen und genehmigen", "german"),
        ("Verträge kündigen", "german"),
        ("Der Server", "german"),
        ("Reset password", "english"),
        ("How to deploy", "english"),
        ("Release checklist", "english"),
        ("RETRY POLICY FOR JOBS", "english"),
    ],
)
def test_language_of_a_sentence_or_a_title(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    "text",
    ["", "  ", "12345", "???", "ERR_CONN_RESET vercel.json", "kubectl apply -f pod.yaml", "x", "https://a.example/b/c"],
)
def test_text_without_a_language_gets_the_default(text: str) -> None:
    assert detect_language(text) == "english"


def test_caller_sets_the_default_language() -> None:
    assert detect_language("ERR_CONN_RESET", default="german") == "german"
    assert detect_language("The cat sleeps on the table.", default="german") == "english"


def test_only_the_beginning_counts() -> None:
    text = "Die Katze schläft jeden Tag auf dem Küchentisch. " * 40
    assert detect_language(text + "The cat sleeps on the table. " * 4_000) == "german"


def test_every_language_has_its_postgres_name() -> None:
    assert all(name.isascii() and name.islower() for name in CONFIGURATIONS.values())
    assert len(set(CONFIGURATIONS.values())) == len(CONFIGURATIONS)
