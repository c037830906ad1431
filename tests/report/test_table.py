"""Runs side by side."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scissorhands.errors import RunError
from scissorhands.evaluation.evaluate import Scores
from scissorhands.metrics import Verdict
from scissorhands.report.rows import Row
from scissorhands.report.table import TITLES, tabulate
from scissorhands.runs import Result, Run

VALUES = {"forget_accuracy": 40.0, "retain_accuracy": 99.0, "test_accuracy": 95.0, "mia": 60.0}


def run(
    method: str = "finetune",
    seed: int = 0,
    manifest: str = "m",
    settings: dict[str, Any] | None = None,
    model: str = "small",
    arguments: dict[str, Any] | None = None,
    fingerprint: str = "0123456789abcdef",
    folder: str = "",
    reference: str = "",
    failed: dict[str, str] | None = None,
    training_seed: int | None = None,
    verdict: str = "",
    examined: dict[str, Any] | None = None,
    damage: str = "",
    **values: float,
) -> Run:
    """A run as it is read from a folder."""
    record: dict[str, Any] = {
        "seed": seed,
        "model": {"name": model, "arguments": arguments or {}},
        "data": {"name": "digits"},
        "split": {"manifest": manifest, "fingerprint": fingerprint, "holdout": 0.1},
        "method": {"name": method, **(settings or {})},
    }
    if training_seed is not None:
        record["training_seed"] = training_seed
    if damage:
        record["damage"] = damage
    measured = {name: value for name, value in {**VALUES, **values}.items() if name not in (failed or {})}
    said = Verdict(verdict, "as asked") if verdict else None
    scores = Scores(measured, {}, failed or {}, manifest, VALUES if reference else {}, said)
    result = Result(scores, 2.0, 100.0, reference, 8.0 if reference else None, examined=examined or {})
    return Run(Path(folder or f"/runs/{method}-{manifest}-{seed}"), record, result)


def column(rows: list[Row], name: str) -> list[float | None]:
    """The mean of one metric in every row."""
    return [row.metrics[name]["mean"] for row in rows]


def test_runs_that_differ_in_the_seed_alone_are_averaged() -> None:
    table = tabulate([run(seed=seed, mia=value) for seed, value in ((2, 10.0), (0, 20.0), (1, 60.0))])
    (row,) = table.rows
    assert row.method == "finetune"
    assert row.seeds == [0, 1, 2]
    assert row.metrics["mia"]["mean"] == 30.0


def test_the_spread_is_the_standard_deviation_of_a_sample() -> None:
    values = [10.0, 20.0, 60.0]
    (row,) = tabulate([run(seed=seed, mia=value) for seed, value in enumerate(values)]).rows
    assert row.metrics["mia"]["std"] == pytest.approx(statistics.stdev(values))
    assert row.metrics["mia"]["std"] != pytest.approx(statistics.pstdev(values))
    assert row.cell("mia") == "30.00 ± 26.46"


def test_a_single_run_has_no_spread() -> None:
    (row,) = tabulate([run()]).rows
    assert row.metrics["mia"] == {"mean": 60.0, "std": None}
    assert row.cell("mia") == "60.00"


def test_runs_that_forgot_different_things_are_not_averaged() -> None:
    rows = tabulate([run(manifest="a", mia=10.0), run(manifest="b", seed=1, mia=20.0)]).rows
    assert [row.manifest for row in rows] == ["a", "b"]
    assert [row.method for row in rows] == ["finetune split.manifest=a", "finetune split.manifest=b"]
    assert column(rows, "mia") == [10.0, 20.0]


def test_runs_of_different_networks_are_not_averaged_and_show_what_differs() -> None:
    rows = tabulate([run(model="small", mia=10.0), run(model="resnet18", seed=1, mia=20.0)]).rows
    assert [row.method for row in rows] == ["finetune model.name=small", "finetune model.name=resnet18"]
    assert column(rows, "mia") == [10.0, 20.0]


def test_runs_of_networks_built_differently_are_not_averaged_and_show_what_differs() -> None:
    narrow, wide = {"classes": 10, "width": 2}, {"classes": 10, "width": 4}
    rows = tabulate([run(arguments=narrow, mia=10.0), run(arguments=wide, seed=1, mia=20.0)]).rows
    assert [row.method for row in rows] == ["finetune model.width=2", "finetune model.width=4"]
    assert column(rows, "mia") == [10.0, 20.0]


def test_runs_on_different_data_are_not_averaged_and_show_what_differs() -> None:
    rows = tabulate([run(fingerprint="a" * 16, mia=10.0), run(fingerprint="b" * 16, seed=1, mia=20.0)]).rows
    assert [row.method for row in rows] == [f"finetune split.fingerprint={x * 16}" for x in "ab"]
    assert column(rows, "mia") == [10.0, 20.0]


def test_runs_of_different_methods_are_not_averaged() -> None:
    rows = tabulate([run("finetune", mia=10.0), run("retrain", seed=1, mia=20.0)]).rows
    assert [row.method for row in rows] == ["finetune", "retrain"]
    assert column(rows, "mia") == [10.0, 20.0]


def test_runs_of_different_settings_are_not_averaged_and_show_what_differs() -> None:
    rows = tabulate(
        [
            run(settings={"lr": 0.1, "epochs": 2}, mia=10.0),
            run(settings={"lr": 0.2, "epochs": 2}, seed=1, mia=20.0),
            run("retrain", settings={"lr": 0.3, "epochs": 3}),
        ]
    ).rows
    assert [row.method for row in rows] == ["finetune lr=0.1", "finetune lr=0.2", "retrain"]
    assert column(rows, "mia")[:2] == [10.0, 20.0]


def test_the_order_in_which_settings_were_written_makes_no_difference() -> None:
    settings = {"lr": 0.1, "epochs": 2}
    backwards = dict(reversed(settings.items()))
    assert len(tabulate([run(settings=settings), run(seed=1, settings=backwards)]).rows) == 1


def test_rows_stand_in_the_order_of_the_runs() -> None:
    rows = tabulate([run("retrain"), run("finetune"), run("retrain", seed=1)]).rows
    assert [row.method for row in rows] == ["retrain", "finetune"]


def test_two_runs_of_one_seed_are_refused_by_name() -> None:
    with pytest.raises(RunError, match=r"two runs of finetune have the same seed: /b and /c\.$"):
        tabulate([run(folder="/a"), run(folder="/b", seed=1), run(folder="/c", seed=1)])


def test_one_seed_may_stand_in_different_rows() -> None:
    assert [row.seeds for row in tabulate([run("finetune"), run("retrain")]).rows] == [[0], [0]]


def test_no_runs_make_no_table() -> None:
    with pytest.raises(RunError, match="there is no run to show"):
        tabulate([])


def test_a_metric_that_failed_is_a_column_that_says_so() -> None:
    table = tabulate([run(failed={"mia": "too few members"}), run("retrain")])
    failed, measured = table.rows
    assert "mia" in table.names()
    assert failed.failed == {"mia": "too few members"}
    assert failed.cell("mia") == "failed"
    assert measured.cell("mia") == "60.00"


def test_a_metric_that_failed_once_is_not_averaged_over_the_other_seeds() -> None:
    (row,) = tabulate([run(failed={"mia": "too few members"}), run(seed=1)]).rows
    assert row.cell("mia") == "failed"
    assert "mia" not in row.metrics
    assert row.cell("test_accuracy") == "95.00 ± 0.00"


def test_a_metric_that_failed_everywhere_is_still_shown() -> None:
    table = tabulate([run(failed={"mia": "too few members"})])
    assert "mia" in table.names()


def test_a_metric_that_was_not_measured_is_a_dash() -> None:
    table = tabulate([run("finetune", reference="../retrain-m-0"), run("retrain")])
    assert [row.cell("avg_gap") for row in table.rows] == ["0.00", "–"]


def test_columns_stand_in_the_order_of_the_titles() -> None:
    names = tabulate([run(reference="../retrain-m-0")]).names()
    assert names == [name for name in TITLES if name in names]
    assert set(names) == {*VALUES, "avg_gap", "rte", "memory_mib"}


def test_numbers_have_the_digits_that_a_reader_needs() -> None:
    (row,) = tabulate([run(reference="../retrain-m-0", mia=61.23456)]).rows
    assert row.cell("mia") == "61.23"
    assert row.cell("rte") == "0.250"
    assert row.cell("memory_mib") == "100"


def test_the_reference_is_the_method_that_the_runs_were_compared_with() -> None:
    compared = run("finetune", folder="/runs/a", reference="../gold")
    assert tabulate([compared, run("retrain", folder="/runs/gold")]).reference == "retrain"


def test_a_reference_that_is_not_in_the_table_goes_by_its_folder() -> None:
    assert tabulate([run(reference="../gold")]).reference == "gold"


def test_runs_compared_with_different_methods_have_no_reference_in_common() -> None:
    compared = [run("finetune", reference="../gold"), run("scissorhands", reference="../silver")]
    assert tabulate(compared).reference is None


def test_a_table_without_comparisons_has_no_reference() -> None:
    assert tabulate([run("finetune"), run("retrain")]).reference is None


def test_a_table_as_plain_values_holds_every_row() -> None:
    stored = tabulate([run(mia=10.0), run(seed=1, mia=30.0), run("retrain", settings={"lr": 0.1})]).to_dict()
    assert [row["method"] for row in stored["rows"]] == ["finetune", "retrain"]
    assert stored["rows"][0]["seeds"] == [0, 1]
    assert stored["rows"][0]["metrics"]["mia"]["mean"] == 20.0
    assert stored["rows"][1]["settings"] == {"lr": 0.1}


def compared(gaps: dict[str, list[float]], manifests: tuple[str, ...] = ("m",)) -> list[Run]:
    """Runs with these Avg. Gaps by seed, and a retrained model for each that repeats the reference exactly."""
    found = []
    for manifest in manifests:
        for seed in range(len(next(iter(gaps.values())))):
            place = f"/runs/retrain-{manifest}-{seed}"
            found.append(run("retrain", seed, manifest, reference=place))
            for method, values in gaps.items():
                mia = VALUES["mia"] + 4 * values[seed]
                found.append(run(method, seed, manifest, reference=place, mia=mia))
    return found


def test_the_noise_floor_is_the_gap_between_retrained_models_of_different_seeds() -> None:
    runs = [run("retrain", seed, reference="/runs/retrain-m-0", mia=mia) for seed, mia in enumerate((60.0, 64.0, 60.0))]
    table = tabulate(runs)
    assert table.noise_floor() == pytest.approx((1 + 0 + 1) / 3)
    assert "Noise floor" in table.notes()[0]


def test_one_retrained_model_has_no_noise_floor() -> None:
    assert tabulate([run("retrain", reference="/runs/retrain-m-0")]).noise_floor() is None


def test_retrained_models_that_forgot_different_things_are_not_taken_for_noise() -> None:
    runs = [
        run("retrain", 0, manifest, reference=f"/runs/retrain-{manifest}-0", mia=mia)
        for manifest, mia in (("a", 0.0), ("b", 90.0))
    ]
    assert tabulate(runs).noise_floor() is None


def test_methods_whose_paired_difference_may_be_zero_cannot_be_told_apart() -> None:
    table = tabulate(compared({"finetune": [5.0, 6.0, 5.5], "salun": [1.0, 2.0, 1.5], "ascent": [1.2, 1.9, 1.6]}))
    assert table.nearest() == "salun"
    told = {d.other: d.apart for d in table.differences}
    assert told == {"finetune": True, "ascent": False}
    assert "Nearest: salun. With 3 paired runs it cannot be told apart from ascent." in table.notes()


def test_a_difference_is_paired_so_that_what_a_seed_does_to_all_methods_cancels() -> None:
    (difference,) = tabulate(compared({"salun": [1.0, 20.0, 40.0], "ascent": [2.0, 21.0, 41.1]})).differences
    assert difference.mean == pytest.approx(31 / 30)
    assert difference.apart


def test_a_difference_below_the_noise_floor_is_none() -> None:
    noisy = [run("retrain", seed, reference=f"/runs/retrain-m-{seed}", mia=60.0 + 40 * seed) for seed in range(3)]
    table = tabulate(
        [*noisy, *(r for r in compared({"salun": [1.0] * 3, "ascent": [2.0, 2.01, 2.0]}) if r.method != "retrain")]
    )
    (difference,) = table.differences
    assert difference.low is not None
    assert difference.low > 0
    assert not difference.apart


def test_one_pair_tells_nothing_apart() -> None:
    (difference,) = tabulate(compared({"salun": [1.0], "ascent": [50.0]})).differences
    assert (difference.low, difference.high, difference.apart) == (None, None, False)


def test_differences_are_paired_within_a_forget_set_and_pooled_over_them() -> None:
    table = tabulate(compared({"salun": [1.0, 1.1], "ascent": [2.0, 2.1]}, ("a", "b")))
    (difference,) = table.differences
    assert difference.pairs == 4
    assert len(table.rows) == 6  # rows of different forget sets are never averaged


def test_runs_of_other_originals_are_told_apart_by_the_seed_of_their_training() -> None:
    (row,) = tabulate([run(seed=7, training_seed=first) for first in (1, 0)]).rows
    assert row.seeds == ["0/7", "1/7"]
    with pytest.raises(RunError, match="the same seed"):
        tabulate([run(seed=7, training_seed=1), run(seed=7, training_seed=1, folder="/runs/other")])


def test_a_row_counts_its_verdicts() -> None:
    (row,) = tabulate([run(seed=seed, verdict=said) for seed, said in enumerate(("b", "a", "b"))]).rows
    assert row.verdicts == {"b": 2, "a": 1}
    assert row.verdict() == "2 b, 1 a"
    assert tabulate([run(verdict="a")]).rows[0].verdict() == "a"
    assert tabulate([run()]).rows[0].verdict() == "–"


def test_epochs_that_were_not_enough_are_shown_as_more_than_that() -> None:
    (row,) = tabulate([run(failed={"relearn_epochs": "more than 200 epochs"})]).rows
    assert row.cell("relearn_epochs") == "> 200"


def test_a_gap_that_cannot_be_computed_is_shown_as_failed() -> None:
    (row,) = tabulate([run(reference="/runs/r", failed={"mia": "no members"})]).rows
    assert row.cell("avg_gap") == "failed"
    assert "'mia'" in row.failed["avg_gap"]


def test_draws_are_named_by_their_seed_where_that_names_them() -> None:
    runs = [run(seed=seed, manifest=manifest) for seed, manifest in ((0, "a"), (0, "b"))]
    for one, draw in zip(runs, (3, 4), strict=True):
        one.record["split"]["seed"] = draw
    assert [row.method for row in tabulate(runs).rows] == ["finetune draw=3", "finetune draw=4"]
    runs[1].record["split"]["seed"] = 3
    assert [row.method for row in tabulate(runs).rows] == ["finetune split.manifest=a", "finetune split.manifest=b"]


def test_where_the_forget_set_makes_the_difference_many_seeds_do_not_help() -> None:
    found = []
    for manifest, more in (("a", 0.1), ("b", 6.0)):
        gaps = {"salun": [1.0] * 6, "ascent": [1.0 + more + 0.01 * seed for seed in range(6)]}
        found += compared(gaps, (manifest,))
    (difference,) = tabulate(found).differences
    assert difference.pairs == 12
    assert not difference.apart


def test_a_retrained_model_that_is_there_twice_is_no_noise() -> None:
    twice = [
        run("retrain", seed, training_seed=first, folder=f"/runs/{first}-{seed}", reference="/runs/0-0", mia=mia)
        for first in (0, 1)
        for seed, mia in ((0, 60.0), (1, 64.0))
    ]
    assert tabulate(twice).noise_floor() == 1.0


def test_a_method_that_ran_on_other_cases_is_not_the_nearest_by_them() -> None:
    runs = compared({"salun": [1.0, 1.0, 1.0], "ascent": [5.0, 5.1, 5.0]})
    runs += [run("finetune", 0, reference="/runs/retrain-m-0", mia=VALUES["mia"] + 12.0)]
    runs += [run("finetune", 7, reference="/runs/retrain-m-0", mia=VALUES["mia"])]
    assert tabulate(runs).nearest() == "salun"


def test_runs_that_were_examined_differently_are_not_averaged_and_show_what_differs() -> None:
    ways = [{"shots": shots, "shadows": 64, "training": {"epochs": 2}} for shots in (5, 10)]
    rows = tabulate([run(seed=seed, examined=way, probe=10.0 * seed) for seed, way in enumerate(ways)]).rows
    assert [row.method for row in rows] == ["finetune evaluation.shots=5", "finetune evaluation.shots=10"]
    assert column(rows, "probe") == [0.0, 10.0]


def test_reference_models_that_were_trained_differently_are_a_difference() -> None:
    ways = [{"references": 4, "training": {"epochs": epochs}} for epochs in (2, 3)]
    runs = [run(seed=seed, examined=way, rmia_auc=0.5) for seed, way in enumerate(ways)]
    labels = [f"finetune evaluation.training.epochs={epochs}" for epochs in (2, 3)]
    assert [row.method for row in tabulate(runs).rows] == labels
    failed = [run(seed=seed, examined=way, failed={"rmia_auc": "no references"}) for seed, way in enumerate(ways)]
    assert len(tabulate(failed).rows) == 2


def test_what_no_number_depends_on_may_differ() -> None:
    ways = [{"shots": 5, "shadows": 16}, {"shots": 5, "shadows": 64}]
    (row,) = tabulate([run(seed=seed, examined=way, probe=10.0) for seed, way in enumerate(ways)]).rows
    assert row.seeds == [0, 1]


def test_a_run_that_was_not_examined_is_averaged_with_one_that_was() -> None:
    (row,) = tabulate([run(), run(seed=1, examined={"shots": 5}, probe=10.0)]).rows
    assert row.seeds == [0, 1]
    assert "probe" not in row.metrics


def test_how_runs_were_examined_does_not_keep_their_gaps_apart() -> None:
    runs = compared({"salun": [1.0, 1.1], "ascent": [2.0, 2.2]})
    ways = [replace(one.result, examined={"shots": 5 + one.record["seed"]}) for one in runs]
    scores = [replace(way.scores, values={**way.scores.values, "probe": 1.0}) for way in ways]
    runs = [replace(one, result=replace(way, scores=score)) for one, way, score in zip(runs, ways, scores, strict=True)]
    table = tabulate(runs)
    assert len(table.rows) == 6
    assert [(d.method, d.other, d.pairs) for d in table.differences] == [("salun", "ascent", 2)]


def test_a_damaged_run_is_called_so_beside_its_verdict() -> None:
    (row,) = tabulate([run(verdict="a", damage="it fell")]).rows
    assert (row.verdict(), row.damaged) == ("a, damaged", {"0": "it fell"})
    (row,) = tabulate([run(verdict="damaged", damage="it fell")]).rows
    assert row.verdict() == "damaged"
    table = tabulate([run(), run(seed=1, damage="it fell")])
    assert table.rows[0].verdict() == "1 damaged"
    assert table.judged()
    assert table.damage() == ["finetune, seed 1: it fell"]
    assert table.to_dict()["rows"][0]["damaged"] == {"1": "it fell"}
    assert not tabulate([run()]).judged()


def test_a_run_that_only_trained_stands_beside_one_that_was_scored() -> None:
    trained, scored = run("original", manifest=""), run("original", manifest="m")
    scored.record["split"]["seed"] = 3
    assert [row.method for row in tabulate([trained, scored]).rows] == ["original", "original draw=3"]


def drawn(draw: int, method: str = "finetune", seed: int = 2, mia: float = 60.0) -> Run:
    """A run on one of several draws of what is forgotten."""
    one = run(method, seed=seed, manifest=f"m{draw}", reference="../retrain", mia=mia)
    one.record["split"].update(seed=draw, forget="random:10%")
    return one


def test_one_original_and_several_draws_have_a_row_that_says_so() -> None:
    table = tabulate([drawn(draw, mia=mia) for draw, mia in ((1, 50.0), (2, 60.0), (3, 85.0))])
    assert [row.method for row in table.rows] == [f"finetune draw={draw}" for draw in (1, 2, 3)]
    assert [row.metrics["mia"]["std"] for row in table.rows] == [None] * 3
    (over,) = table.over_draws
    assert (over.method, over.seeds, over.manifest) == ("finetune over 3 draws", ["draw 1", "draw 2", "draw 3"], "")
    assert over.cell("mia") == f"65.00 ± {statistics.stdev([50.0, 60.0, 85.0]):.2f}"
    assert table.to_dict()["over_draws"][0]["metrics"]["mia"] == over.metrics["mia"]


def test_the_spread_over_draws_is_that_of_their_means() -> None:
    runs = [drawn(draw, seed=seed, mia=10.0 * draw + seed) for draw in (1, 2) for seed in (0, 4)]
    (over,) = tabulate(runs).over_draws
    assert over.metrics["mia"] == {"mean": 17.0, "std": pytest.approx(statistics.stdev([12.0, 22.0]))}


def test_draws_of_other_methods_settings_or_requests_are_not_averaged() -> None:
    other = drawn(3)
    other.record["split"]["forget"] = "random:20%"
    shares = tabulate([drawn(1), drawn(2, "ascent"), other])
    assert shares.over_draws == []


def test_the_gap_of_the_means_stands_beside_the_mean_of_the_gaps() -> None:
    runs = [run(seed=seed, reference="../retrain", mia=60.0 + miss) for seed, miss in enumerate((8.0, -4.0))]
    (row,) = tabulate(runs).rows
    assert row.metrics["avg_gap"]["mean"] == pytest.approx((8 / 4 + 4 / 4) / 2)
    assert row.metrics["gap_of_means"] == {"mean": pytest.approx(2 / 4), "std": None}
    assert {"avg_gap", "gap_of_means"} <= {*tabulate(runs).names()}
    (single,) = tabulate(runs[:1]).rows
    assert "gap_of_means" not in single.metrics


def test_the_gap_of_the_means_over_draws_is_the_published_one() -> None:
    (over,) = tabulate([drawn(draw, mia=60.0 + miss) for draw, miss in ((1, 8.0), (2, -4.0))]).over_draws
    assert over.metrics["avg_gap"] == {"mean": pytest.approx(1.5), "std": pytest.approx(statistics.stdev([2.0, 1.0]))}
    assert over.metrics["gap_of_means"]["mean"] == pytest.approx(0.5)


def test_variants_of_a_method_have_rows_of_their_own_even_with_equal_settings() -> None:
    one = run(settings={"lr": 0.1})
    runs = [replace(one, record={**one.record, "variant": variant}) for variant in ("paper", "script")]
    assert [row.method for row in tabulate(runs).rows] == ["finetune-paper", "finetune-script"]
