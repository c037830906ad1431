"""What a run is worth, as plain values and back."""

import json

from helpers.runfolder import VALUES, result
from scissorhands.evaluation.evaluate import Scores
from scissorhands.runs import Result


def test_a_result_comes_back_as_it_was() -> None:
    assert Result.from_dict(json.loads(json.dumps(result().to_dict()))) == result()


def test_a_result_without_reference_or_cost_comes_back_as_it_was() -> None:
    bare = Result(Scores(VALUES, {"test": 7}, {}, "abc"))
    assert Result.from_dict(json.loads(json.dumps(bare.to_dict()))) == bare
    assert bare.values() == VALUES


def test_a_result_shows_gap_and_time_as_computed_from_what_is_stored() -> None:
    stored = result().to_dict()
    assert stored["values"] == {**VALUES, "avg_gap": 2.0, "memory_mib": 300.5, "rte": 0.25}
    stored["values"].update(avg_gap=99.0, rte=99.0)
    assert Result.from_dict(stored).values() == {**VALUES, "avg_gap": 2.0, "memory_mib": 300.5, "rte": 0.25}
