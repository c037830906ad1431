"""The verdict on made-up models, of which it is known whether they have forgotten."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import one_hot

from scissorhands.metrics import CALLS, Outputs, Verdict, scaled_logit, verdict

UNDER, OVER, DAMAGED, SAME, UNKNOWN = CALLS
CLASSES = 5
PEOPLE = 62
KINDS = ("drawn", "test", "classes", "chosen")

Said = dict[str, Any]
Case = tuple[Said, list[Said]]


def outputs(sure: Tensor, labels: Tensor, draw: torch.Generator) -> Outputs:
    """Logits by which a model is as sure of the true labels as is wanted."""
    rest = torch.randn(len(labels), CLASSES, generator=draw).scatter(1, labels[:, None], -torch.inf)
    return Outputs(rest.scatter(1, labels[:, None], (sure + rest.logsumexp(1))[:, None]), labels)


def case(
    seed: int,
    *,
    forget: int = 100,
    others: int = 300,
    unseen: int = 300,
    references: int = 2,
    spread: float = 2.0,
    mean: float = 2.0,
    known: float = 0.0,
    harder: float = 0.0,
    stranger: bool = False,
) -> Case:
    """What a model and its references say.

    How hard a record is they share, with a deviation of `spread`; besides, each has its own opinion, with a deviation
    of 1. Of the forgotten records the model is surer by `known`, and all are less sure by `harder`. A `stranger` is a
    class that nobody was shown.
    """
    draw = torch.Generator().manual_seed(seed)
    said: list[Said] = [{} for _ in range(1 + references)]
    for part, count in (("forget", forget), ("others", others), ("audit", unseen)):
        labels = torch.randint(CLASSES, (count,), generator=draw)
        level = -5.0 if stranger and part != "audit" else mean
        easy = level + spread * torch.randn(count, generator=draw) - harder * (part == "forget")
        for i, one in enumerate(said):
            sure = easy + torch.randn(count, generator=draw) + known * (part == "forget" and i == 0)
            one[part] = outputs(sure, labels, draw)
    return said[0], said[1:]


def of_kind(kind: str, seed: int, **world: Any) -> Case:
    """A case as it is for the kind: of a class that is forgotten whole, a reference knows nothing."""
    return case(seed, stranger=kind == "classes", **world)


def replaced(said: Said, logits: Mapping[str, Tensor]) -> Said:
    """The same records with other logits."""
    return {**said, **{part: Outputs(values, said[part].labels) for part, values in logits.items()}}


def shifted(said: Said, by: Mapping[str, float]) -> Said:
    """As said, but surer of the true labels of some parts."""
    return replaced(
        said, {part: said[part].logits + more * one_hot(said[part].labels, CLASSES) for part, more in by.items()}
    )


def faces(seed: int, *accuracies: Mapping[str, float], counts: Mapping[str, int]) -> list[Said]:
    """What models of these accuracies say about faces of 62 people; what is hard for one is hard for the others."""
    draw = torch.Generator().manual_seed(seed)
    said: list[Said] = [{} for _ in accuracies]
    for part, count in counts.items():
        labels = torch.randint(PEOPLE, (count,), generator=draw)
        hard = torch.randn(count, generator=draw)
        for one, accuracy in zip(said, accuracies, strict=True):
            # Two models disagree about 15 in 100 faces, as small networks do that were trained by two seeds.
            easy = -(0.9**0.5) * hard - 0.1**0.5 * torch.randn(count, generator=draw)
            known = easy.argsort().argsort() >= count - round(accuracy[part] * count)
            wrong = (labels + torch.randint(1, PEOPLE, (count,), generator=draw)) % PEOPLE
            logits = torch.randn(count, PEOPLE, generator=draw)
            logits[torch.arange(count), torch.where(known, labels, wrong)] = 6.0 + easy.abs()
            one[part] = Outputs(logits, labels)
    return said


FACES = {"forget": 220, "others": 240, "retain": 2000, "audit": 240, "test": 580}
RETRAINED = {"forget": 0.44, "others": 0.44, "retain": 0.541, "audit": 0.44, "test": 0.44}
SCRUBBED = {"forget": 0.333, "others": 0.333, "retain": 0.356, "audit": 0.333, "test": 0.333}


def another_seed(seed: int) -> dict[str, float]:
    """The accuracies of a model retrained by another seed: up to 5 points off in the small networks we trained."""
    better = 0.066 * torch.randn(1, generator=torch.Generator().manual_seed(seed)).item()
    return {part: float(norm.cdf(norm.ppf(accuracy) + better)) for part, accuracy in RETRAINED.items()}


def right(count: int, share: float) -> Tensor:
    """As many ones as the share says, then zeros."""
    return (torch.arange(count) < round(share * count)).double()


def guessed(count: int, share: float, seed: int) -> Tensor:
    """Ones and zeros, with this chance of a one."""
    return (torch.rand(count, generator=torch.Generator().manual_seed(seed)) < share).double()


def calls(count: int, kind: str, **world: Any) -> Counter[str]:
    return Counter(verdict(*of_kind(kind, seed, **world), kind).call for seed in range(count))


# --- a model that has forgotten


@pytest.mark.parametrize("references", [1, 4], ids=["one reference", "four references"])
@pytest.mark.parametrize("spread", [0.0, 2.0], ids=["equally hard", "of all degrees"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_treats_all_records_alike_is_indistinguishable(kind: str, spread: float, references: int) -> None:
    assert calls(100, kind, spread=spread, references=references)[SAME] >= 95


def test_fewer_than_two_in_a_hundred_models_that_have_forgotten_are_accused() -> None:
    accused = 0
    for seed in range(400):
        kind = ("drawn", "classes")[seed % 2]
        forget, others = ((100, 300), (300, 100), (60, 900))[seed % 3]
        model, references = of_kind(kind, seed, forget=forget, others=others)
        model |= {"probe": guessed(forget, 0.6, seed), "probe_others": guessed(others, 0.6, 5_000 + seed)}
        references = [{**one, "probe": guessed(forget, 0.6, 10_000 * i + seed)} for i, one in enumerate(references, 1)]
        accused += verdict(model, references, kind).call in (UNDER, OVER, DAMAGED)
    assert accused / 400 < 0.02


@pytest.mark.parametrize("kind", ["drawn", "classes"])
def test_five_thousand_forgotten_records_beside_sixty_others_are_no_reason_for_an_accusation(kind: str) -> None:
    assert calls(60, kind, forget=5000, others=60)[SAME] >= 58


def test_logits_with_heavy_tails_are_no_reason_for_an_accusation() -> None:
    found = Counter[str]()
    for seed in range(100):
        draw = torch.Generator().manual_seed(seed)
        model, references = case(seed)
        wild = [
            replaced(
                one,
                {
                    part: said.logits * torch.empty(len(said), 1).cauchy_(generator=draw).abs()
                    for part, said in one.items()
                },
            )
            for one in (model, *references)
        ]
        found[verdict(wild[0], wild[1:], "drawn").call] += 1
    assert found[SAME] >= 97


def test_references_that_know_less_are_no_reason_for_an_accusation() -> None:
    found = Counter[str]()
    for seed in range(100):
        model, references = case(seed)
        weaker = [replaced(one, {part: 0.4 * said.logits for part, said in one.items()}) for one in references]
        found[verdict(model, weaker, "drawn").call] += 1
    assert found[SAME] >= 97


# --- one that has not


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_surer_of_forgotten_records_is_under_forgotten(kind: str) -> None:
    model, references = of_kind(kind, 0, known=2.0)
    found = verdict(model, references, kind)
    assert found.call == UNDER
    assert found.low is not None
    assert found.low > 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_less_sure_of_forgotten_records_is_over_forgotten(kind: str) -> None:
    model, references = of_kind(kind, 0, known=-2.0)
    found = verdict(model, references, kind)
    assert found.call == OVER
    assert found.high is not None
    assert found.high < 0.5
    assert "avoided" in found.reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("collapse", ["constant", "random", "one class"])
def test_a_collapsed_model_beside_a_good_reference_is_damaged(collapse: str, kind: str) -> None:
    model, references = of_kind(kind, 0)
    draw = torch.Generator().manual_seed(1)
    broken = {}
    for part, said in model.items():
        broken[part] = torch.zeros_like(said.logits)
        if collapse == "random":
            broken[part] = torch.randn(said.logits.shape, generator=draw)
        if collapse == "one class":
            broken[part][:, 0] = 1e3
    found = verdict(replaced(model, broken), references, kind)
    assert found.call == DAMAGED
    assert "lost what it should have kept" in found.reason


def test_a_model_that_knows_a_class_which_the_reference_does_not_is_under_forgotten_though_the_auc_is_blind() -> None:
    model, references = of_kind("classes", 0)
    found = verdict(shifted(model, {"forget": 7.0, "others": 7.0}), references, "classes")
    assert found.call == UNDER
    assert "of forgotten records, the reference in" in found.reason
    assert found.auc == pytest.approx(0.5, abs=0.1)


def test_features_that_hold_more_of_a_class_than_the_references_do_are_under_forgotten() -> None:
    model, references = of_kind("classes", 0)
    references = [{**one, "probe": right(100, share)} for one, share in zip(references, (0.3, 0.5), strict=True)]
    assert verdict({**model, "probe": right(100, 0.4)}, references, "classes").call == SAME
    assert verdict({**model, "probe": right(100, 0.45)}, references, "classes").call == SAME
    assert verdict({**model, "probe": right(100, 0.1)}, references, "classes").call == SAME  # less is no memory
    found = verdict({**model, "probe": right(100, 0.9)}, references, "classes")
    assert found.call == UNDER
    assert "it is right in 90.0 % of forgotten records by a linear probe" in found.reason
    assert "the reference in 40.0 %" in found.reason


def test_a_probe_without_one_of_a_reference_says_nothing_about_a_class() -> None:
    model, references = of_kind("classes", 0)
    assert verdict({**model, "probe": right(100, 1.0)}, references, "classes").call == SAME
    mixed = [{**references[0], "probe": right(100, 0.2)}, references[1]]
    assert verdict({**model, "probe": right(100, 1.0)}, mixed, "classes").call == UNDER


def test_probes_of_other_records_are_not_compared() -> None:
    model, references = of_kind("classes", 0)
    references = [{**one, "probe": right(90, 0.2)} for one in references]
    assert verdict({**model, "probe": right(100, 1.0)}, references, "classes").call == SAME


def test_features_that_hold_more_of_forgotten_records_than_of_others_are_under_forgotten() -> None:
    model, references = case(0)
    alike = {**model, "probe": right(100, 0.9), "probe_others": right(300, 0.85)}
    assert verdict(alike, references, "drawn").call == SAME
    found = verdict({**alike, "probe_others": right(300, 0.6)}, references, "drawn")
    assert found.call == UNDER
    assert "right in 90.0 % of forgotten records and in 60.0 % of unseen ones" in found.reason


def test_how_small_a_memory_is_found_among_a_hundred_records() -> None:
    def found(**world: Any) -> float:
        return calls(60, "drawn", **world)[UNDER] / 60

    assert found(known=0.75, references=4) > 0.9  # in units of what two trainings differ by
    assert found(known=1.0, references=1) > 0.9
    assert found(known=0.5, references=4) > found(known=0.5, references=1)
    assert found(known=0.75, references=0) < 0.6 < found(known=0.75, references=1)
    assert found(known=0.1, references=4) < 0.1


# --- what was kept


def test_two_points_of_accuracy_are_within_a_seed_and_ten_are_not() -> None:
    model, references = case(0, unseen=1000, mean=9.0, spread=0.5)  # right about every record
    for wrong, call in ((0, SAME), (15, SAME), (20, SAME), (100, DAMAGED)):
        logits = model["audit"].logits.clone()
        logits[:wrong] *= -1
        found = verdict(replaced(model, {"audit": logits}), references, "drawn")
        assert found.call == call, wrong
    assert "right in 90.0 % of unseen records, the reference in 100.0 %" in found.reason


def test_a_model_that_lost_a_third_of_what_a_retrained_one_knows_is_damaged() -> None:
    for seed in range(20):
        model, retrained = faces(seed, SCRUBBED, RETRAINED, counts=FACES)
        found = verdict(model, [retrained], "drawn")
        assert found.call == DAMAGED
        assert "It is right in 35.6 % of retained records, the reference in 54.1 %" in found.reason


def test_models_retrained_by_other_seeds_are_not_damaged() -> None:
    found = Counter[str]()
    for seed in range(100):
        mine, theirs = another_seed(2 * seed), another_seed(2 * seed + 1)
        model, retrained = faces(seed, mine, theirs, counts=FACES)
        found[verdict(model, [retrained], "drawn").call] += 1
    assert found[DAMAGED] <= 1
    assert found[SAME] >= 98


def test_damage_names_the_parts_on_which_it_is_seen() -> None:
    model, retrained = faces(0, {**RETRAINED, "retain": 0.3, "test": 0.2}, RETRAINED, counts=FACES)
    found = verdict(model, [retrained], "drawn")
    assert found.call == DAMAGED
    parts = "30.0 % of retained records, the reference in 54.1 %; in 27.1 % of unseen records, the reference in 44.0 %."
    assert found.reason == f"it lost what it should have kept. It is right in {parts}"


def test_references_that_saw_half_of_the_retained_records_are_compared_on_the_others_alone() -> None:
    weak = {**RETRAINED, "forget": 0.36, "others": 0.36, "audit": 0.36, "test": 0.35}
    low = {**weak, "retain": 0.3}
    broken = {**low, "audit": 0.1, "test": 0.12}
    kept, lost, *references = faces(0, low, broken, *[weak] * 4, counts=FACES)
    halves = [{part: said for part, said in one.items() if part != "retain"} for one in references]
    assert verdict(kept, halves, "drawn").call == SAME
    assert verdict(kept, references, "drawn").call == DAMAGED  # by references that saw them all
    found = verdict(lost, halves, "drawn")
    assert found.call == DAMAGED
    assert "11.5 % of unseen records, the reference in 35.2 %" in found.reason
    assert "retained" not in found.reason


def test_beside_a_retrained_model_those_that_saw_less_are_not_asked_what_should_have_been_kept() -> None:
    less = {**RETRAINED, "audit": 0.25, "test": 0.25}
    model, retrained, *references = faces(0, less, RETRAINED, *[less] * 4, counts=FACES)
    halves = [{part: said for part, said in one.items() if part != "retain"} for one in references]
    assert verdict(model, halves, "drawn").call == SAME
    found = verdict(model, [*halves, retrained], "drawn")
    assert found.call == DAMAGED
    assert "25.0 % of unseen records, the reference in 44.0 %" in found.reason


def test_references_that_differ_much_among_themselves_make_damage_doubtful() -> None:
    def found(*spread: float) -> str:
        accuracies = [{**RETRAINED, "audit": one, "test": one} for one in (0.25, *spread)]
        model, *references = faces(0, *accuracies, counts={**FACES, "retain": 100})
        return verdict(model, [{k: v for k, v in one.items() if k != "retain"} for one in references], "drawn").call

    assert found(0.44, 0.44, 0.44) == DAMAGED
    assert found(0.32, 0.44, 0.56) != DAMAGED


def test_damage_is_told_where_nothing_can_be_said_about_forgetting() -> None:
    model, retrained = faces(0, SCRUBBED, RETRAINED, counts={**FACES, "others": 0, "audit": 0})
    found = verdict(model, [retrained], "chosen")
    assert found.call == DAMAGED
    assert found.auc is None


def test_test_records_alone_are_enough_to_clear_a_model_and_retained_ones_are_not() -> None:
    model, retrained = faces(0, RETRAINED, RETRAINED, counts=FACES)
    tested, kept = (
        [{k: v for k, v in one.items() if k in ("forget", "others", part)} for one in (model, retrained)]
        for part in ("test", "retain")
    )
    assert verdict(tested[0], tested[1:], "drawn").call == SAME
    found = verdict(kept[0], kept[1:], "drawn")
    assert found.call == UNKNOWN
    assert "to tell whether it is damaged" in found.reason
    assert found.reason.endswith("More unseen records would help: hold more out of training.")


def test_a_model_that_is_better_than_the_reference_is_not_blamed() -> None:
    model, references = case(0)
    worse = [replaced(one, {"audit": -one["audit"].logits}) for one in references]
    assert verdict(model, worse, "drawn").call == SAME


def test_records_that_are_harder_for_the_reference_too_were_not_over_forgotten() -> None:
    found = calls(100, "chosen", harder=2.0, references=4)
    assert found[OVER] + found[UNDER] <= 5
    assert calls(100, "drawn", harder=2.0, references=0)[OVER] > 50  # which only a reference can say


def test_a_small_difference_means_something_only_where_the_records_do_not_differ_in_kind() -> None:
    model, references = case(0, forget=1500, others=3000, known=0.25)
    assert verdict(model, references, "drawn").call == UNDER
    found = verdict(model, references, "chosen")
    assert found.call == UNKNOWN
    assert "were chosen, and may differ in kind from the unseen ones" in found.reason
    assert found.reason.endswith(
        "More reference models tell more (such as references=8), or a retrained one (--against)."
    )
    few = verdict(*case(0, forget=20, others=200, known=1.15), "chosen")
    assert few.call == UNKNOWN
    assert "were chosen, and may differ in kind" in few.reason
    assert "With 200 unseen records it takes 30 forgotten ones" in few.reason
    found = verdict(model, references, "test")
    assert found.call == UNKNOWN
    assert "come from the test data, which may differ from the training data" in found.reason
    assert "in kind" not in found.reason


# --- the original


def with_original(known: float, before: float, **world: Any) -> Case:
    """A model and its original, which are surer by so much of forgotten records."""
    model, references = case(0, known=known, **world)
    original, _ = case(0, known=before, **world)
    return {**model, "before": original}, references


def test_a_model_worse_than_its_original_is_damaged_and_a_good_one_cleared_without_references() -> None:
    model, _ = with_original(0.0, 3.0, mean=9.0, spread=0.5)
    assert verdict(model, [], "drawn").call == SAME
    for kind in KINDS:
        for wrong, damaged in ((10, False), (54, True)):  # of 300
            logits = model["audit"].logits.clone()
            logits[:wrong] *= -1
            found = verdict(replaced(model, {"audit": logits}), [], kind)
            assert (found.call == DAMAGED) == damaged
    assert "It is right in 82.0 % of unseen records, the original in 100.0 %." in found.reason


def test_retained_records_alone_show_damage_beside_the_original() -> None:
    model, original = faces(0, {**RETRAINED, "retain": 0.82}, {**RETRAINED, "retain": 1.0}, counts=FACES)
    found = verdict({**model, "before": original}, [], "chosen")
    assert found.call == DAMAGED
    assert "It is right in 82.0 % of retained records, the original in 100.0 %." in found.reason


def test_a_model_may_know_less_of_unseen_records_for_want_of_many_forgotten_ones() -> None:
    def call(forget: int) -> str:
        model, original = faces(
            0,
            {**RETRAINED, "audit": 0.4, "test": 0.4, "calibration": 0.4},
            {**RETRAINED, "audit": 0.57, "test": 0.57, "calibration": 0.57},
            counts={**FACES, "forget": forget, "calibration": 2000},
        )
        return verdict({**model, "before": original}, [], "chosen").call

    assert (call(100), call(3000)) == (DAMAGED, UNKNOWN)


def test_an_original_that_stands_out_shows_that_few_records_are_enough() -> None:
    world: dict[str, Any] = {"forget": 12, "others": 300, "references": 4}
    found = verdict(*with_original(0.0, 9.0, **world), "drawn")
    assert found.call == SAME
    assert "; the original has 1.00." in found.reason
    found = verdict(*with_original(0.0, 0.0, **world), "drawn")
    assert found.call == UNKNOWN
    assert "12 forgotten and 300 unseen records are too few; " in found.reason
    assert found.reason.endswith(" forgotten ones; with 12 forgotten ones no number of unseen is enough.")


def test_an_original_that_is_broken_is_compared_with_nothing() -> None:
    model, references = with_original(0.0, 3.0)
    broken = replaced(model["before"], {"audit": model["before"]["audit"].logits * math.nan})
    assert verdict({**model, "before": broken}, references, "drawn").call == SAME


def test_a_memory_of_one_record_in_five_is_found_among_forty() -> None:
    model, references = case(0, forget=40, others=400, references=4)
    logits = model["forget"].logits.clone()
    logits[:8] += 9 * one_hot(model["forget"].labels[:8], CLASSES)
    found = verdict(replaced(model, {"forget": logits}), references, "drawn")
    assert found.call == UNDER
    assert "forgotten records are among the 5 % of records that stand out most as known" in found.reason


# --- what cannot be told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("forget", "others"), [(5, 300), (300, 5), (10, 10), (1, 1)])
def test_of_few_records_nothing_is_said_but_their_number(forget: int, others: int, kind: str) -> None:
    found = verdict(*of_kind(kind, 0, forget=forget, others=others), kind)
    assert found.call == UNKNOWN
    assert f"{forget} forgotten and {others} unseen records are too few" in found.reason


@pytest.mark.parametrize("kind", ["test", "classes", "chosen"])
def test_without_a_reference_nothing_is_said_of_records_that_were_not_drawn(kind: str) -> None:
    found = verdict(case(0, known=9.0, references=0)[0], [], kind)
    assert found.call == UNKNOWN
    assert "without a reference model" in found.reason
    assert found.auc is None


def test_without_a_reference_drawn_records_can_stand_out_but_a_model_cannot_be_cleared() -> None:
    assert verdict(*case(0, known=3.0, references=0), "drawn").call == UNDER
    assert verdict(*case(0, known=-3.0, references=0), "drawn").call == OVER
    model, nobody = case(0, references=0)
    assert verdict({**model, "probe": right(100, 0.95), "probe_others": right(300, 0.6)}, nobody, "drawn").call == UNDER
    alike = verdict(model, nobody, "drawn")
    assert alike.call == UNKNOWN
    assert "only the original or a reference model could tell whether it is damaged" in alike.reason
    assert alike.reason.endswith(" Level standard trains some.")
    collapsed = verdict(replaced(model, {part: 0 * said.logits for part, said in model.items()}), nobody, "drawn")
    assert collapsed.call == UNKNOWN


@pytest.mark.parametrize("kind", KINDS)
def test_without_other_records_nothing_can_be_told(kind: str) -> None:
    model, references = of_kind(kind, 0, others=0)
    missing = {part: said for part, said in model.items() if part != "others"}
    for one in (model, missing):
        found = verdict(one, references, kind)
        said = "there are no unseen records to compare the forgotten ones with: hold some out of training."
        assert found == Verdict(UNKNOWN, said)


@pytest.mark.parametrize("references", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_models_that_say_the_same_of_every_record_are_no_trouble(kind: str, references: int) -> None:
    model, others = case(0, references=references)
    constant = [replaced(one, {part: 0 * said.logits for part, said in one.items()}) for one in (model, *others)]
    found = verdict(constant[0], constant[1:], kind)
    assert found.call == (SAME if references else UNKNOWN)
    assert found.auc in (0.5, None)


def test_half_precision_makes_ties_and_no_difference() -> None:
    for known, call in ((0.0, SAME), (2.0, UNDER), (-2.0, OVER)):
        model, references = case(0, known=known)
        rough = [
            replaced(one, {part: said.logits.bfloat16() for part, said in one.items()}) for one in (model, *references)
        ]
        assert verdict(rough[0], rough[1:], "drawn").call == call


# --- its numbers


def differences(model: Said, references: list[Said], part: str) -> tuple[Tensor, Tensor]:
    """How much surer the model is of each record than the references are, and how sure they are."""
    easy = sum(scaled_logit(one[part].logits, one[part].labels) for one in references) / len(references)
    return scaled_logit(model[part].logits, model[part].labels) - easy, torch.as_tensor(easy)


def test_with_few_records_the_auc_is_that_of_sklearn_over_all_of_them() -> None:
    model, references = case(0, forget=39, others=300)
    more, _ = differences(model, references, "forget")
    less, _ = differences(model, references, "others")
    found = verdict(model, references, "drawn")
    assert found.auc == pytest.approx(roc_auc_score([1] * 39 + [0] * 300, torch.cat([more, less])))
    error = math.sqrt((39 + 300 + 1) / (12 * 39 * 300))  # Mann and Whitney's
    assert found.low is not None
    assert found.auc is not None
    assert found.auc - found.low == pytest.approx(norm.isf(1 / 1000) * error, rel=2e-3)


def test_with_many_records_the_auc_is_a_mean_over_records_that_are_equally_hard() -> None:
    model, references = case(0, forget=100, others=300)
    (more, easy), (less, easy_others) = (differences(model, references, part) for part in ("forget", "others"))
    easy, easy_others = easy + more / 3, easy_others + less / 3  # the mean of the model and of two references
    order = torch.cat([easy, easy_others]).argsort().argsort() * 5 // 400  # a fifth of all records each
    areas, weights = [], []
    for fifth in range(5):
        some, rest = more[order[:100] == fifth].tolist(), less[order[100:] == fifth].tolist()
        areas.append(sum((a > b) + (a == b) / 2 for a in some for b in rest) / (len(some) * len(rest)))
        weights.append(len(some) * len(rest) / (len(some) + len(rest) + 1))  # van Elteren's
    expected = sum(weight * area for weight, area in zip(weights, areas, strict=True)) / sum(weights)
    assert verdict(model, references, "drawn").auc == pytest.approx(expected)


@pytest.mark.parametrize(("forget", "others"), [(60, 900), (100, 300)])
def test_the_interval_is_three_deviations_of_what_chance_alone_does(forget: int, others: int) -> None:
    model, references = case(0, forget=forget, others=others)
    areas, width = [], 0.0
    for seed in range(300):  # which records were drawn to be forgotten
        order = torch.randperm(forget + others, generator=torch.Generator().manual_seed(seed))
        mixed: list[Said] = []
        for one in (model, *references):
            logits = torch.cat([one["forget"].logits, one["others"].logits])[order]
            labels = torch.cat([one["forget"].labels, one["others"].labels])[order]
            mixed.append(
                {
                    "forget": Outputs(logits[:forget], labels[:forget]),
                    "others": Outputs(logits[forget:], labels[forget:]),
                    "audit": one["audit"],
                }
            )
        found = verdict(mixed[0], mixed[1:], "drawn")
        assert found.auc is not None
        assert found.high is not None
        areas.append(found.auc)
        width += (found.high - found.auc) / 300
    spread = torch.tensor(areas)
    assert spread.mean().item() == pytest.approx(0.5, abs=0.01)
    assert width == pytest.approx(norm.isf(1 / 1000) * spread.std().item(), rel=0.12)


def test_the_bounds_are_those_of_an_auc() -> None:
    for known in (-9.0, 0.0, 9.0):
        found = verdict(*case(0, known=known), "drawn")
        assert found.low is not None
        assert found.auc is not None
        assert found.high is not None
        assert 0 <= found.low <= found.auc <= found.high <= 1


@pytest.mark.parametrize("references", [0, 2])
def test_a_verdict_survives_json(references: int) -> None:
    for kind in KINDS:
        found = verdict(*case(0, references=references), kind)
        stored = json.loads(json.dumps(found.to_dict()))
        assert None not in stored.values()
        assert Verdict(**stored) == found
        assert found.call in CALLS
        assert found.reason.endswith(".")


# --- doubtful: each of these fails as the verdict is today


@pytest.mark.parametrize(("forget", "others"), [(40, 40), (100, 300)])
def test_records_of_which_none_is_as_hard_as_another_cannot_be_compared(forget: int, others: int) -> None:
    # Fails: a ZeroDivisionError where no stratum has both, and an accusation where one stratum has the edges of both.
    model, references = case(0, forget=forget, others=others, harder=60.0, spread=1.0, references=1)
    assert verdict(model, references, "chosen").call == UNKNOWN


@pytest.mark.parametrize("references", [0, 2])
def test_a_model_that_says_nothing_but_nan_remembers_nothing(references: int) -> None:
    # Fails without a reference: NaN is sorted above all numbers, also above NaN, so that the AUC is 1.
    model, others = case(0, references=references)
    broken = replaced(model, {part: said.logits * math.nan for part, said in model.items()})
    assert verdict(broken, others, "drawn").call != UNDER


def test_a_model_is_not_cleared_where_nobody_could_look_for_damage() -> None:
    # Fails: a split may have no unseen part; then a model that says nothing at all is called indistinguishable.
    model, references = case(0)
    blank = replaced(model, {part: 0 * said.logits for part, said in model.items()})
    del blank["audit"]
    assert verdict(blank, references, "drawn").call != SAME


def test_a_model_that_guesses_like_its_references_cannot_be_judged_until_it_knows_more() -> None:
    model, references = case(0)
    said = [replaced(one, {part: 0 * x.logits for part, x in one.items()}) for one in (model, *references)]
    found = verdict({**said[0], "retain": said[0]["audit"]}, said[1:], "drawn")
    assert found.call == UNKNOWN
    assert "it hardly knows more than a guess, and so do the references" in found.reason
    assert found.reason.endswith("Only a model that knows more than a guess can be judged: train it longer.")


def test_a_model_that_remembers_and_is_damaged_is_told_both() -> None:
    model, references = case(0, others=1000, unseen=1000)
    found = verdict(shifted(model, {"forget": 5.0, "others": -1.5, "audit": -1.5}), references, "drawn")
    assert found.call == DAMAGED
    assert found.reason.startswith("it lost what it should have kept. It is right in ")
    assert ". Besides, it is under-forgotten: forgotten records stand out as known; " in found.reason
    assert found.low is not None
    assert found.low > 0.5


def test_a_probe_of_a_hundred_records_beside_five_thousand_accuses_no_more_often_than_it_says() -> None:
    # Fails with 2 to 4 in 100: the variance of the few records is taken from themselves, and is small whenever they
    # happen to be all right. That of all records together, which are alike by hypothesis, is the one to take.
    model, references = case(0)
    accused = 0
    for seed in range(300):
        probes = {"probe": guessed(100, 0.95, seed), "probe_others": guessed(5000, 0.95, 5_000 + seed)}
        accused += verdict({**model, **probes}, references, "drawn").call == UNDER
    assert accused / 300 < 0.01


def test_records_that_are_harder_for_a_single_reference_too_were_not_over_forgotten() -> None:
    # Fails with some 15 in 100: one reference is a noisy measure of how hard a record is, and forgotten and other
    # records that are equally hard by that measure still differ (regression towards the mean of each group).
    found = calls(100, "chosen", harder=2.0, references=1)
    assert found[OVER] + found[UNDER] <= 5


def test_a_difference_in_kind_that_is_allowed_is_not_called_forgetting_by_chance() -> None:
    # Fails with some 20 in 100: the margin and the error are held against the AUC one by one, not together.
    found = calls(100, "chosen", known=-0.3, references=4)  # an AUC of 0.42 in the mean
    assert found[OVER] + found[UNDER] <= 5
