"""Make the cosines of different models comparable."""

REFERENCE_THRESHOLD = 0.3
"""Similarity threshold of all-MiniLM-L6-v2, with which the weights of score fusion were measured."""


def cosine_stretch(threshold: float) -> float:
    """How much farther from 1 score fusion takes the cosines of a model with this similarity threshold; 1: as they are.

    All cosines of multilingual-e5-small are between 0.7 and 0.95; unscaled, they hardly differ, and the words decide.
    """
    return max(1.0, distance_scale(threshold)) if threshold < 1 else 1.0


def distance_scale(threshold: float) -> float:
    """The factor for 1 - cosine with which a model's similarity threshold, below 1, becomes REFERENCE_THRESHOLD."""
    return (1 - REFERENCE_THRESHOLD) / (1 - threshold)


def stretch_cosine(cosine: float, stretch: float) -> float:
    """The cosine as score fusion uses it; `stretch` is the model's `cosine_stretch`."""
    return cosine if stretch == 1.0 else 1 - (1 - cosine) * stretch
