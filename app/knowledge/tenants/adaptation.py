"""The weights of score fusion that follow how sure the semantic leg is of a tenant's searches."""

from app.contract.search import SCORE_WEIGHTS, Weights
from app.contract.settings import Adaptation
from app.embeddings.cosines import cosine_stretch
from app.embeddings.provider import EmbeddingModel

SLOPE = 2.0
"""Weight that the keyword leg loses for each 1.0 of the mean, stretched cosine above the model's centre."""

LEAST = 0.15
"""The keyword leg's smallest weight: below the smallest one on any measured collection, 0.19.

The largest one is the default. Where the best hits are far away, the words are often no better."""

PRIOR = 10
"""Searches with a mean on the centre that a tenant seems to have made before its first one."""


def weigh(model: EmbeddingModel, mean: float, certainty: float = 1.0) -> Weights:
    """The weights for questions whose best hits have this mean cosine; equal for a model without a centre.

    In hundredths, so that they change seldom while the mean moves.
    """
    if model.centre is None:
        return SCORE_WEIGHTS
    distance = cosine_stretch(model.similarity_threshold) * (mean - model.centre)
    keyword = round(max(SCORE_WEIGHTS.keyword - SLOPE * certainty * max(distance, 0.0), LEAST), 2)
    return Weights(round(1 - keyword, 2), keyword)


def adapt(model: EmbeddingModel, searches: int, mean: float) -> Adaptation:
    """The weights that follow from the mean cosine of the best hits of so many searches with the model."""
    if not searches:
        return Adaptation(0, None, model.centre, SCORE_WEIGHTS)
    return Adaptation(searches, round(mean, 4), model.centre, weigh(model, mean, searches / (searches + PRIOR)))
