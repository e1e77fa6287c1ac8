"""The paired bootstrap interval."""

from __future__ import annotations

import numpy as np
import pytest

from app.evaluation.metrics import compare_paired, estimate_means


def test_interval_is_the_same_each_time() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = list(generator.uniform(size=50)), list(generator.uniform(size=50))
    assert compare_paired(ours, theirs) == compare_paired(ours, theirs)
    assert compare_paired(ours, theirs, seed=1) != compare_paired(ours, theirs, seed=2)


def test_interval_of_a_constant_difference_is_a_point() -> None:
    interval = compare_paired([0.5, 0.75, 1.0], [0.25, 0.5, 0.75])
    assert (interval.difference, interval.low, interval.high) == (0.25, 0.25, 0.25)


def test_interval_agrees_with_the_normal_one_for_many_queries() -> None:
    generator = np.random.default_rng(7)
    ours, theirs = generator.normal(0.6, 0.2, 2_000), generator.normal(0.5, 0.2, 2_000)
    interval = compare_paired(list(ours), list(theirs))
    spread = (ours - theirs).std() / np.sqrt(2_000)
    assert interval.difference == pytest.approx((ours - theirs).mean())
    assert interval.low == pytest.approx(interval.difference - 1.96 * spread, abs=0.1 * spread)
    assert interval.high == pytest.approx(interval.difference + 1.96 * spread, abs=0.1 * spread)


def test_interval_uses_the_pairing() -> None:
    generator = np.random.default_rng(3)
    hardness = generator.uniform(0, 1, 300)
    interval = compare_paired(list(hardness + 0.01), list(hardness))
    assert interval.low == pytest.approx(0.01)


def test_interval_of_swapped_systems_is_mirrored() -> None:
    ours, theirs = [0.1, 0.9, 0.4, 0.6], [0.3, 0.2, 0.5, 0.1]
    there, back = compare_paired(ours, theirs), compare_paired(theirs, ours)
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="value for each query"):
        compare_paired([0.1], [])
    with pytest.raises(ValueError, match="at least one"):
        compare_paired([], [])


def test_columns_share_their_draws() -> None:
    generator = np.random.default_rng(5)
    table = generator.uniform(size=(40, 3))
    table[:, 2] = table[:, 0] - table[:, 1]
    first, second, difference = estimate_means(table)
    paired = compare_paired(list(table[:, 0]), list(table[:, 1]))
    assert (paired.difference, paired.low, paired.high) == pytest.approx(
        (difference.mean, difference.low, difference.high)
    )
    assert first.mean == pytest.approx(table[:, 0].mean())
    assert first.low < first.mean < first.high
    assert first != second


def test_interval_of_a_mean_agrees_with_the_normal_one() -> None:
    values = np.random.default_rng(9).normal(0.6, 0.2, 2_000)
    (found,) = estimate_means(values[:, np.newaxis])
    spread = values.std() / np.sqrt(2_000)
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(found.mean - 1.96 * spread, abs=0.1 * spread)
    assert found.high == pytest.approx(found.mean + 1.96 * spread, abs=0.1 * spread)
