"""A table on the command line: trained, scrubbed by key, judged, as images are."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer

from helpers.commands import cli, done
from scissorhands import runs
from scissorhands.errors import ModelError
from scissorhands.tasks.classification import models
from scissorhands.tasks.classification.networks import Standardize

CODE = """
from torch import nn

def net():
    return nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, 2))
"""
QUICK = "--set epochs=2 --set batch_size=32"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Scikit-learn's breast cancer, with a column for the patient, in a file of the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    data = load_breast_cancer(as_frame=True)
    rows = data.frame.assign(diagnosis=data.target_names[data.target], patient=[f"p{i:03d}" for i in range(569)])
    rows = rows.drop(columns="target")
    rows.to_csv("cancer.csv", index=False)
    return rows


def test_a_table_is_trained_scrubbed_by_key_and_judged(table: pd.DataFrame) -> None:
    done(
        "train --model mlp --data cancer.csv --label diagnosis --key patient --data-set test=20% -o original"
        " --set lr=0.05 --set epochs=15 --set batch_size=32"
    )
    model = models.load(Path("original/model"))[1]
    assert model.arguments == {"classes": 2, "features": 30}
    assert model.classes == ("benign", "malignant")
    assert runs.read(Path("original")).result.scores["test_accuracy"] > 90
    Path("delete.txt").write_text("\n".join(table.patient[:60]))
    done("scrub original --forget keys:delete.txt --missing skip -o scrubbed")
    listed = [line.split("\t")[1] for line in Path("scrubbed/forget.txt").read_text().splitlines()]
    assert 20 < len(listed) < 60
    assert set(listed) < set(table.patient[:60])
    done("evaluate scrubbed --level standard --set references=2 --set relearn=5")
    scores = runs.read(Path("scrubbed")).result.scores
    assert scores.verdict
    assert {"rmia_auc", "probe", "auc"} <= scores.values.keys()
    done("report scrubbed -o report.html")


def test_any_module_takes_rows_of_a_table(table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Path("table_nets.py").write_text(CODE)
    data = "--data cancer.csv --label diagnosis --data-set test=20%"
    done(f"train --model table_nets:net {data} -o original {QUICK}")
    from table_nets import net  # type: ignore[import-not-found]

    model = net()
    state = models.load(Path("original/model"), "table_nets:net")[0].state_dict()
    torch.save(state, "net.pt")
    model.load_state_dict(state)
    done(f"scrub net.pt --factory table_nets:net {data} --forget random:10% --method finetune -o out {QUICK}")
    scrubbed = torch.load("out/model/net.pt", weights_only=True)
    assert scrubbed.keys() == state.keys()
    assert not torch.equal(scrubbed["1.weight"], state["1.weight"])


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("--model small --data cancer.csv --label diagnosis", "'small' does not take rows of numbers"),
        ("--model mlp --data digits", "'mlp' does not take images"),
        ("--model mlp --data cancer.csv --label diagnosi", "Did you mean 'diagnosis'?"),
        ("--model mlp --data cancer.csv", "no column seems to hold the label"),
        ("--model mlp --data cancer.csv --label diagnosis --data-set label=patient", "say 'label' with --label"),
        ("--model mlp --data cancer.csv --label 'mean radius' --data-set task=classification", "cannot be the label"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(command: str, says: str) -> None:
    answer = cli(f"train {command} {'' if 'digits' in command else '--data-set test=20%'} -o out")
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer.err
    assert says in answer.err
    assert not Path("out").exists()


def test_a_label_without_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    assert "--label needs --data" in cli("scrub model --forget class:3 --label a -o out").err


def test_columns_are_standardized_whatever_their_scale() -> None:
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e-6, 1.0, 0.0]) + 5000
    layer = Standardize(3)
    layer.measure(rows.double())
    out = layer(rows)
    assert out.isfinite().all()
    assert 0.5 < out[:, 1].std() < 2
    assert torch.equal(out[:, 2], torch.zeros(50))


def test_a_network_for_rows_is_refused_texts() -> None:
    from scissorhands.data.foreign import Foreign

    records = Foreign([{"input_ids": [1, 2], "label": 0}])
    with pytest.raises(ModelError, match="'mlp' does not take such data"):
        models.create("mlp", records, {})
