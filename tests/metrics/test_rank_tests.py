"""The statistics of the verdict, against scipy and by chance itself."""

import itertools

import pytest
import torch
from scipy.stats import false_discovery_control, hypergeom, mannwhitneyu, norm

from scissorhands.metrics.rank_tests import holm, rank_sum, stratified, tail, upper


def scores(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def test_one_stratum_is_the_test_of_mann_and_whitney() -> None:
    some, rest = scores(40, 1) + 0.4, scores(120, 2)
    area, error = rank_sum([(some, rest)])
    expected = mannwhitneyu(some, rest, alternative="greater", use_continuity=False, method="asymptotic")
    assert area == pytest.approx(expected.statistic / (40 * 120))
    assert upper((area - 0.5) / error) == pytest.approx(expected.pvalue)
    assert upper(3.0) == pytest.approx(norm.sf(3.0))


def test_the_tail_of_one_stratum_is_hypergeometric() -> None:
    some, rest = scores(40, 1) + 0.7, scores(120, 2)
    found = tail([(some, rest)], 0.05)
    top = torch.cat([some, rest]).topk(8).indices  # 5 % of 160
    assert found.found == int((top < 40).sum())
    assert found.expected == 2.0
    assert found.p == pytest.approx(hypergeom.sf(found.found - 1, 160, 8, 40))
    assert tail([(some, rest)], 0.05, times=2).p == pytest.approx(hypergeom.sf(found.found - 1, 160, 16, 40))


def test_the_tail_of_two_strata_is_what_all_choices_of_forgotten_records_give() -> None:
    pools, drawn = (scores(6, 1), scores(8, 2)), (2, 3)
    high = [pool > pool.sort(descending=True).values[int(0.3 * len(pool))] for pool in pools]  # one, and two
    choices = [itertools.combinations(range(len(pool)), count) for pool, count in zip(pools, drawn, strict=True)]
    both = itertools.product(*choices)
    counts = [sum(int(h[list(ids)].sum()) for h, ids in zip(high, one, strict=True)) for one in both]
    found = tail([(pool[:count], pool[count:]) for pool, count in zip(pools, drawn, strict=True)], 0.3)
    assert found.p == pytest.approx(sum(count >= found.found for count in counts) / len(counts))
    assert found.expected == pytest.approx(sum(counts) / len(counts))


def test_many_records_take_neither_much_memory_nor_much_time() -> None:
    easy, easy_others = scores(300_000, 1), scores(300_000, 2)
    found = tail(stratified(easy.roll(1), easy_others.roll(1), easy, easy_others), 0.05)
    expected = norm.sf((found.found - 0.5 - found.expected) / (600_000 * 0.05 * 0.95 / 4) ** 0.5)
    assert found.p == pytest.approx(expected, abs=1e-3)


def test_scores_that_are_all_the_same_have_no_tail() -> None:
    assert tail([(torch.zeros(5), torch.zeros(50))], 0.05).p == 1.0


def test_holm_steps_down_and_stops_at_the_first_that_is_not_significant() -> None:
    assert holm([0.011, 0.02, 0.04, 0.005], 0.05) == [True, True, True, True]
    assert holm([0.013, 0.03, 0.04, 0.005], 0.05) == [True, False, False, True]
    assert holm([], 0.05) == []
    p_values = [0.001, 0.01, 0.02, 0.9]
    assert sum(holm(p_values, 0.05)) <= sum(false_discovery_control(p_values) <= 0.05)  # which corrects for less


def test_strata_lose_no_record_that_has_its_equals() -> None:
    easy, easy_others = scores(100, 1), scores(300, 2)
    found = stratified(easy, easy_others, easy, easy_others)
    assert len(found) == 5
    assert sorted(torch.cat([some for some, _ in found]).tolist()) == sorted(easy.tolist())
    assert all(some.max() <= later.min() for (some, _), (later, _) in itertools.pairwise(found))
    apart = stratified(easy, easy_others + 99, easy, easy_others + 99)
    assert 2 * sum(len(some) for some, _ in apart) < 100


@pytest.mark.parametrize(("forget", "others"), [(10, 60), (40, 120)])
def test_chance_alone_is_as_rare_as_the_tests_say(forget: int, others: int) -> None:
    by_rank, by_tail, models, level = 0, 0, 1500, 0.02
    for seed in range(models):
        easy = scores(forget + others, seed)
        noise = easy.abs() * scores(forget + others, models + seed) ** 3  # heavy tails, and more so for some records
        strata = stratified(noise[:forget], noise[forget:], easy[:forget], easy[forget:])
        area, error = rank_sum(strata)
        by_rank += upper((area - 0.5) / error) <= level
        by_tail += tail(strata, 0.05).p <= level
    assert 0.008 <= by_rank / models <= 0.03
    assert by_tail / models <= 0.03  # exact, and therefore cautious


def test_a_few_records_that_stand_out_very_much_are_seen_in_the_tail_alone() -> None:
    some, rest = scores(40, 1), scores(400, 2)
    some[:8] = 9.0
    area, error = rank_sum([(some, rest)])
    assert upper((area - 0.5) / error) > 0.001
    assert tail([(some, rest)], 0.05).p < 0.0005
