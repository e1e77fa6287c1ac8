"""A tenant's settings, which its admin can change, and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import permutations, product
from typing import Annotated, Any, Final, get_args
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema

from app.contract.fields import Fraction, Number, Text, YesOrNo
from app.contract.search import HalfLife, Weights
from app.contract.text import PICTURES, STORABLE, is_storable
from app.contract.validation import UNSET, Described, Items, Unset, given_fields, request
from app.contract.vocabulary import MAX_LIMIT, EntryType, Fusion, SuspiciousContent, WeightsOrigin

GREATEST = 10**15
"""Within the integers that all JSON parsers represent exactly."""
MIN_FACTOR, MAX_FACTOR = 0.01, 100
"""Bounds of the weight of an entry type and of the boost of verified entries. A factor of 0 would make all their
scores 0, and so lose their order."""
MAX_PURGE_DAYS = 36_500
MAX_KEPT_DAYS = 3_650
MAX_SYNONYMS, MAX_SYNONYM_LENGTH = 500, 500
"""Most rules of synonyms, and most characters of one."""
MAX_TERMS, MAX_TERM_LENGTH, MAX_TERM_WORDS = 20, 80, 5
"""Most terms of one rule, and most characters and words of a term."""
ONE_WAY = "=>"
TYPE_WEIGHTS: Final[Mapping[str, float]] = {"decision": 2.0, "lesson": 2.0, "summary": 0.5, "temp_note": 0.3}
"""Factors of `boost: ["type"]`; all other types have 1.0."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one tenant; 0 means unlimited.

    Attributes:
        requests_per_minute: requests over HTTP and MCP in each instance; a burst can use all of them at once.
        concurrent_searches: simultaneous searches in each instance; further ones wait briefly for their turn.
        entries: stored entries, including chunks.
        bytes: bytes of uploaded files, plus one for each character of entries' text (two for a title's).
        receipts: records of searches; the oldest are removed.
        embedding_tokens_per_day: tokens of texts and queries, with four bytes of text per token; days are in UTC.
    """

    requests_per_minute: int = 0
    concurrent_searches: int = 0
    entries: int = 0
    bytes: int = 0
    receipts: int = 0
    embedding_tokens_per_day: int = 0

    def replaced(self, given: Mapping[str, int]) -> Limits:
        """These limits, overridden by the platform's limits for one tenant."""
        known = {name: value for name, value in given.items() if name in LIMITS}
        return Limits(**{**asdict(self), **known})

    def lowered(self, own: OwnLimits) -> Limits:
        """These limits, overridden by the tenant's own where those are lower; a tenant cannot raise a limit."""
        lowest = {name: min(value, getattr(self, name) or value) for name, value in given_fields(own).items() if value}
        return Limits(**{**asdict(self), **lowest})

    def as_mapping(self) -> dict[str, int]:
        """The limits by name."""
        return asdict(self)


LIMITS: Final = tuple(field.name for field in fields(Limits))

OwnLimit = Annotated[int, Field(strict=True, ge=1, le=GREATEST)] | None
AllowedLimit = Annotated[int, Field(strict=True, ge=0, le=GREATEST)] | None


@request
class OwnLimits:
    """A tenant's own limits. They apply where they are lower than the platform's limits. Null means not set."""

    requests_per_minute: OwnLimit | Unset = UNSET
    concurrent_searches: OwnLimit | Unset = UNSET
    entries: OwnLimit | Unset = UNSET
    bytes: OwnLimit | Unset = UNSET
    receipts: OwnLimit | Unset = UNSET
    embedding_tokens_per_day: OwnLimit | Unset = UNSET


NO_LIMITS: Final = OwnLimits(**dict.fromkeys(LIMITS))


@request(schema={"examples": [{"entries": 100_000}]})
class AllowedLimits:
    """Limits that the platform sets for one tenant. 0 means unlimited; null restores the platform's default."""

    requests_per_minute: AllowedLimit | Unset = UNSET
    concurrent_searches: AllowedLimit | Unset = UNSET
    entries: AllowedLimit | Unset = UNSET
    bytes: AllowedLimit | Unset = UNSET
    receipts: AllowedLimit | Unset = UNSET
    embedding_tokens_per_day: AllowedLimit | Unset = UNSET


@request(schema={"examples": [{"limits": {"entries": 100_000, "bytes": None}}]})
class TenantPatch:
    """Changes to a tenant. Omitted limits are unchanged."""

    limits: AllowedLimits


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """The limits that the platform has set for a tenant."""

    id: UUID
    limits: AllowedLimits


@dataclass(frozen=True, slots=True)
class TunedWeights:
    """Weights that the service has found by feedback."""

    fusion: Annotated[Fusion, Field(description="The fusion that they are for.")]
    weights: Weights
    former: Annotated[Weights, Field(description="The weights that were in force before.")]
    queries: Annotated[int, Field(description="Judged queries.")]
    gain: Annotated[float, Field(description="Gain in nDCG@10 over the former weights.")]
    low: Annotated[float, Field(description="Lower bound of the 99 % interval of the gain.")]
    high: float


@dataclass(frozen=True, slots=True)
class Adaptation(Described):
    """What the tenant's searches have shown of its model, and the weights of score fusion that follow."""

    searches: Annotated[int, Field(description="Searches that were counted with the tenant's model.")]
    mean_similarity: float | None
    """Mean similarity of their best semantic hits. Null: no search has been counted."""
    centre: float | None
    """The mean at which both legs weigh the same. Null: not measured for the model, and the weights stay equal."""
    weights: Weights


@dataclass(frozen=True, slots=True)
class TenantSettings(Described):
    """The tenant's settings, including defaults."""

    weights: Weights | None
    type_weights: Mapping[str, float]
    similarity_threshold: float | None
    fusion: Fusion
    verified_boost: float
    recent_half_life_days: float
    """Days after which an entry has lost half of what `boost: ["recent"]` adds, unless a search says otherwise."""
    synonyms: Sequence[str]
    """Terms that a search for one of them also looks for: `laptop, notebook, portable computer` in all directions,
    `pc => laptop, notebook` only for the left side."""
    rerank: bool | None
    """false: no text of the tenant is sent to the reranker. Otherwise searches are reranked."""
    keep_query_text: bool
    default_limit: int | None
    max_limit: int | None
    purge_expired_after_days: int | None
    keep_versions_days: Annotated[int, Field(description="Days for which former versions of entries are kept.")]
    suspicious_content: SuspiciousContent
    """What happens to texts with invisible characters, secrets or instructions to language models: keep: nothing; flag:
    `metadata.flags` names what was found; quarantine: searches do not find them either, until an admin releases
    them."""
    limits: OwnLimits
    auto_tune: Annotated[bool, Field(description="Whether `tuned` applies, and new weights may replace it.")]
    tuned: Annotated[TunedWeights | None, Field(description="In force with `auto_tune`, without `weights`.")]
    adaptive_weights: bool
    """Whether the weights of score fusion follow the tenant's searches, without `weights` and `tuned`."""
    adaptation: Adaptation | None = None
    """What the searches have shown; also where other weights are in force. It is not a setting."""

    def weights_of(self, fusion: Fusion) -> tuple[Weights, WeightsOrigin] | None:
        """The tenant's weights for a fusion: those that its admin has set, else those that the service has tuned."""
        if self.weights is not None:
            return self.weights, "settings"
        tuned = self.tuned if self.auto_tune else None
        return (tuned.weights, "feedback") if tuned is not None and tuned.fusion == fusion else None


DEFAULT_SETTINGS: Final = TenantSettings(
    weights=None,
    type_weights=TYPE_WEIGHTS,
    similarity_threshold=None,
    fusion="score",
    verified_boost=1.5,
    recent_half_life_days=90.0,
    synonyms=(),
    rerank=None,
    keep_query_text=False,
    default_limit=None,
    max_limit=None,
    purge_expired_after_days=None,
    keep_versions_days=0,
    suspicious_content="flag",
    limits=NO_LIMITS,
    auto_tune=True,
    tuned=None,
    adaptive_weights=True,
)
"""The settings of a tenant that has set none; None means the service's default."""


def _check_type_weights(weights: dict[str, float]) -> dict[str, float]:
    allowed = get_args(EntryType)
    if not all(name in allowed and MIN_FACTOR <= w <= MAX_FACTOR for name, w in weights.items()):
        raise ValueError(f"must map any of {', '.join(allowed)} to numbers between {MIN_FACTOR} and {MAX_FACTOR}")
    return weights


TypeWeights = Annotated[
    dict[str, Number],
    AfterValidator(_check_type_weights),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"enum": list(get_args(EntryType))},
            "additionalProperties": {"type": "number", "minimum": MIN_FACTOR, "maximum": MAX_FACTOR},
        }
    ),
]


def read_synonyms(rule: str) -> Sequence[tuple[str, str]]:
    """Pairs of a term and one that a search for it also looks for, as a rule has them."""
    sides = [dict.fromkeys(term.strip() for term in side.split(",")) for side in rule.split(ONE_WAY)]
    return tuple(product(sides[0], sides[1])) if len(sides) == 2 else tuple(permutations(sides[0], 2))


def _check_synonyms(rule: str) -> str:
    terms = [term.strip() for side in rule.split(ONE_WAY) for term in side.split(",")]
    if rule.count(ONE_WAY) > 1 or not 2 <= len(terms) <= MAX_TERMS or not all(map(_is_term, terms)):
        raise ValueError(
            f"must be 2 to {MAX_TERMS} terms with commas between them, and at most one {ONE_WAY}; a term has 1 to"
            f" {MAX_TERM_WORDS} words and at most {MAX_TERM_LENGTH} characters, {STORABLE}"
        )
    return rule.strip()


_WORD = re.compile(rf"[^\W_]|[{PICTURES}]")


def _is_term(term: str) -> bool:
    is_short = len(term) <= MAX_TERM_LENGTH and 1 <= len(term.split()) <= MAX_TERM_WORDS
    return is_short and _WORD.search(term) is not None and is_storable(term)


Synonyms = Annotated[
    Items[Annotated[Text, Field(min_length=3, max_length=MAX_SYNONYM_LENGTH), AfterValidator(_check_synonyms)]],
    Field(max_length=MAX_SYNONYMS),
    AfterValidator(tuple),
]
Factor = Annotated[Number, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
PageLimit = Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)]


@request(schema={"examples": [{"similarity_threshold": 0.25}]})
class SettingsPatch:
    """Changes to the tenant's settings. Null restores the service's default."""

    weights: Weights | Unset | None = UNSET
    type_weights: TypeWeights | Unset | None = UNSET
    similarity_threshold: Fraction | Unset | None = UNSET
    fusion: Fusion | Unset | None = UNSET
    verified_boost: Factor | Unset | None = UNSET
    recent_half_life_days: HalfLife | Unset | None = UNSET
    synonyms: Annotated[Synonyms | Unset | None, Field(examples=[["laptop, notebook", "pc => laptop"]])] = UNSET
    """Replaces all rules: `a, b c` for terms that find each other, `a => b` for one direction."""
    rerank: YesOrNo | Unset | None = UNSET
    keep_query_text: YesOrNo | Unset | None = UNSET
    default_limit: PageLimit | Unset | None = UNSET
    max_limit: PageLimit | Unset | None = UNSET
    purge_expired_after_days: Annotated[int, Field(strict=True, ge=0, le=MAX_PURGE_DAYS)] | Unset | None = UNSET
    keep_versions_days: Annotated[int, Field(strict=True, ge=0, le=MAX_KEPT_DAYS)] | Unset | None = UNSET
    suspicious_content: SuspiciousContent | Unset | None = UNSET
    """Applies to what is written from now on."""
    limits: OwnLimits | Unset | None = UNSET
    auto_tune: Annotated[YesOrNo | Unset | None, Field(description="False undoes `tuned`.")] = UNSET
    adaptive_weights: YesOrNo | Unset | None = UNSET
    """Whether the weights of score fusion follow how sure the semantic leg is of the tenant's searches."""

    def given(self) -> dict[str, Any]:
        """The settings that the caller sent, as plain values."""
        given = given_fields(self)
        if isinstance(self.weights, Weights):
            given["weights"] = asdict(self.weights)
        if isinstance(self.limits, OwnLimits):
            given["limits"] = given_fields(self.limits)
        return given


@request
class StoredSettings(SettingsPatch):
    """Settings as they are stored and exported: those that a tenant has changed, and what the service has found."""

    tuned: TunedWeights | Unset | None = UNSET

    def complete(self) -> TenantSettings:
        """These settings and the defaults of the others."""
        values = {name: value for name, value in given_fields(self).items() if value is not None}
        if isinstance(self.type_weights, dict):
            values["type_weights"] = {**TYPE_WEIGHTS, **self.type_weights}
        if isinstance(self.limits, OwnLimits):
            values["limits"] = OwnLimits(**{**dict.fromkeys(LIMITS), **given_fields(self.limits)})
        return replace(DEFAULT_SETTINGS, **values)
