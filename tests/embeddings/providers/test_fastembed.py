"""Models of fastembed: small ones that this module makes, as files in a folder."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastembed", reason="the extra `fastembed` is not installed")

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import resolve_model
from app.embeddings.providers.fastembed import FastembedProvider
from app.errors import ConfigurationError
from app.reranking import RerankerConfig, build_reranker

MODEL, RERANKER = "sentence-transformers/all-MiniLM-L6-v2", "Xenova/ms-marco-MiniLM-L-6-v2"
WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "harbour", "crane", "cake")
MAX_TOKENS = 8
FLOAT, INT64 = 1, 7


def varint(number: int) -> bytes:
    """A number of a message, as protocol buffers write it."""
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: int | str | bytes) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], kind: int) -> bytes:
    shape = b"".join(field(1, size) for size in values.shape)
    return shape + field(2, kind) + field(8, name) + field(9, values.tobytes())


def place(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sizes = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, sizes)))


def node(operator: str, inputs: Sequence[str], output: str) -> bytes:
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator)


def make_model(nodes: Sequence[bytes], constants: Sequence[bytes], output: bytes) -> bytes:
    """An ONNX model of the tokens of a text: the messages of onnx.proto3, by the numbers of their fields."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "small")
    graph += b"".join(field(5, each) for each in constants)
    graph += field(11, place("input_ids", INT64, ("texts", "tokens"))) + field(12, output)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def write_folder(folder: Path, file: str, model: bytes) -> None:
    words = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_bytes(model)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}), "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an embedding model, which gives each word its own direction, and a reranker, which adds up numbers
    of words."""
    table = np.eye(len(WORDS), 384, dtype=np.float32)
    embedding = make_model(
        [node("Gather", ("table", "input_ids"), "last_hidden_state")],
        [tensor("table", table, FLOAT)],
        place("last_hidden_state", FLOAT, ("texts", "tokens", 384)),
    )
    write_folder(tmp_path / "all-MiniLM-L6-v2", "model.onnx", embedding)
    numbers = np.array([[0], [0], [0], [0], [3], [1], [-2]], dtype=np.float32)
    scoring = make_model(
        [node("Gather", ("numbers", "input_ids"), "each"), node("ReduceSum", ("each", "axis"), "sums"),
         node("Squeeze", ("sums", "axis"), "logits")],
        [tensor("numbers", numbers, FLOAT), tensor("axis", np.array([1], dtype=np.int64), INT64)],
        place("logits", FLOAT, ("texts", 1)),
    )  # fmt: skip
    write_folder(tmp_path / "ms-marco-MiniLM-L-6-v2", "onnx/model.onnx", scoring)
    return tmp_path


async def test_a_model_in_a_folder_embeds_texts(folder: Path) -> None:
    provider = build_provider(ProviderConfig("fastembed", MODEL, folder=folder))
    assert (provider.model.name, provider.model.dimensions, provider.model.max_tokens) == (MODEL, 384, MAX_TOKENS)
    harbour, cake = await provider.embed_documents(["harbour crane", "cake cake cake"])
    query = await provider.embed_query("harbour crane")
    (again,) = await provider.embed_queries(["harbour crane"])
    assert np.array_equal(query, harbour)
    assert np.array_equal(query, again)
    assert float(np.linalg.norm(cake)) == pytest.approx(1.0)
    assert float(query @ harbour) > float(query @ cake) + 0.3
    long = "harbour " * 20
    assert provider.count_tokens(long) == 22, "before it is cut"
    await provider.close()


async def test_a_reranker_in_a_folder_scores_texts_in_order(folder: Path) -> None:
    reranker = build_reranker(RerankerConfig(None, "fastembed", folder=folder))
    assert reranker.name == f"fastembed/{RERANKER}"
    assert list(await reranker.rerank("crane", ["cake", "harbour harbour", "unknown"])) == [-1.0, 7.0, 1.0]
    assert await reranker.rerank("crane", []) == ()
    await reranker.close()


def test_what_cannot_be_loaded_names_its_setting(folder: Path) -> None:
    (folder / "all-MiniLM-L6-v2" / "model.onnx").write_bytes(b"not a model")
    for config, setting in (
        (ProviderConfig("fastembed", "no/such-model", 384, folder=folder), "EMBEDDING_MODEL"),
        (ProviderConfig("fastembed", "no/such-model", folder=folder), "EMBEDDING_DIMENSIONS"),
        (ProviderConfig("fastembed", MODEL, folder=folder), "EMBEDDING_MODEL"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            build_provider(config)
        assert caught.value.setting == setting
    for reranker, setting in (
        (RerankerConfig(None, "fastembed", "no/such-model", folder=folder), "KB_RERANKER_MODEL"),
        (RerankerConfig("http://localhost/rerank", "fastembed", folder=folder), "KB_RERANKER_URL"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            build_reranker(reranker)
        assert caught.value.setting == setting


def test_the_dimensions_are_those_of_the_model(folder: Path) -> None:
    wrong = resolve_model("openai", "x", 200)
    with pytest.raises(ConfigurationError, match="384"):
        FastembedProvider(type(wrong)("fastembed", MODEL, 200, 512, 0.3), folder)
