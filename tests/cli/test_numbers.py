"""Models that predict numbers, on the command line and in Python: from training to the report, and what is refused."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import TensorDataset

import scissorhands as sh
from helpers.commands import Answer, cli, done
from scissorhands import runs
from scissorhands.errors import ModelError, NoReferenceError
from scissorhands.metrics import avg_gap

QUICK = "--set epochs=30 --set lr=0.05 --set batch_size=32"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that knows diabetes by heart, scrubbed and retrained."""
    folder = tmp_path_factory.mktemp("regression")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCISSORHANDS_CACHE", str(folder / "cache"))
        done(f"train --model mlp --model-set depth=1 --data diabetes {QUICK} -o {folder}/original")
        scrub = f"scrub {folder}/original --forget random:20%"
        assert cli(f"{scrub} -o {folder}/scrubbed").code == 0
        assert cli(f"{scrub} --method retrain -o {folder}/retrained").code == 0
        done(f"evaluate {folder}/scrubbed --against {folder}/retrained")
    return folder


@pytest.fixture(autouse=True)
def _cache(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(made / "cache"))


def table(**changed: Any) -> pd.DataFrame:
    """The patients of diabetes, each with a name."""
    found = load_diabetes(as_frame=True, scaled=False).frame
    return found.assign(patient=[f"p{number:03d}" for number in range(len(found))], **changed)


def test_errors_are_measured_before_and_after_and_beside_a_retrained_model(made: Path) -> None:
    run = runs.checked(made / "scrubbed")
    values, record, reference = run.result.scores.values, run.record, run.result.scores.reference
    assert record["forget_mae_before"] < values["forget_mae"]
    assert abs(values["retain_mae"] - record["retain_mae_before"]) < 10
    assert record["retain_r2_before"] > 0.5
    assert run.damage == ""
    assert run.result.values()["avg_gap"] == pytest.approx(avg_gap(values, reference))
    assert {"mia_threshold", "auc", "difference_forget"} <= values.keys()
    assert not {"forget_accuracy", "mia", "jsd_forget"} & {*values, *run.result.scores.failed}
    assert run.result.scores.verdict
    saved = json.loads((made / "scrubbed" / "model" / "config.json").read_text())
    assert saved == {"model": "mlp", "arguments": {"features": 10, "depth": 1}, "classes": []}
    said = done(f"evaluate {made}/scrubbed --against {made}/retrained").out
    assert "MAE forget" in said
    assert "R² test" in said
    assert "Acc" not in said


def test_the_report_says_how_far_off_it_is(made: Path, tmp_path: Path) -> None:
    done(f"report {made}/retrained {made}/scrubbed -o {tmp_path}/r.html --figures {tmp_path}/figures")
    page = (tmp_path / "r.html").read_text()
    assert "How far off it is, on average (MAE)" in page
    assert "How often it is right" not in page
    assert "mean absolute error on test data" in page
    drawn = {path.name.partition("-")[0].partition(".")[0] for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"tradeoff", "losses", "attacks", "progress"}  # there are no classes
    found = json.loads(done(f"report {made}/retrained {made}/scrubbed -o {tmp_path}/r.md --json").out)
    assert {"forget_mae", "avg_gap"} <= found["rows"][1]["metrics"].keys()
    assert (
        "| Method | MAE forget | MAE retain | MAE test | R² test | MIA threshold | AUC |"
        in (tmp_path / "r.md").read_text()
    )
    assert done(f"compare {made}/retrained {made}/scrubbed").out.count("MAE") == 4


def test_a_pack_can_be_checked_and_held_to_a_policy(made: Path, tmp_path: Path) -> None:
    lost = 100 * (
        runs.read(made / "scrubbed").record["retain_r2_before"]
        - runs.read(made / "scrubbed").result.scores["retain_r2"]
    )
    (tmp_path / "policy.toml").write_text(f"largest_retain_loss = {lost - 1:.3f}\nlargest_auc = 1.0\n")
    answer = cli(f"evidence {made}/scrubbed -o {tmp_path}/pack.zip --policy {tmp_path}/policy.toml")
    assert answer.code == 3
    assert f"the loss of accuracy, or R², on retained records is {lost:.3f}" in answer.err
    checked = cli(f"verify {tmp_path}/pack.zip --model {made}/scrubbed")
    assert "holds: Avg. Gap is " in checked.out
    assert "holds: AUC is " in checked.out
    with zipfile.ZipFile(tmp_path / "pack.zip") as pack:
        card = pack.read("README.md").decode()
        assert json.loads(pack.read("evidence.json"))["task"] == "regression"
    assert "| MAE forget | " in card
    assert "| R² test | " in card


def test_a_deeper_level_trains_reference_models_of_numbers(made: Path) -> None:
    planned = done(f"evaluate {made}/scrubbed --level standard --train epochs=5 --dry-run").out
    assert "probe" not in planned
    effort = "--train epochs=5 --set relearn=2 --set references=2"
    found = done(f"evaluate {made}/scrubbed --level standard {effort} --pictures --json")
    told = json.loads(found.out)
    assert {"reawakened_mae", "calibrated_auc"} <= told["values"].keys()
    assert not {"probe", "few_shot", "rmia_auc", "reawakened"} & {*told["values"], *told["failed"]}
    assert "relearn_epochs" in {*told["values"], *told["failed"]}
    assert "gradcam" in told["failed"]
    assert runs.checked(made / "scrubbed").result.scores.verdict


def test_a_preview_says_from_where_to_where_labels_go(made: Path) -> None:
    lines = done(f"preview {made}/original --forget where:label>300").out.splitlines()
    assert lines[1].split() == ["labels", "forget", "of"]
    low, to, high, *_ = lines[2].split()
    assert (to, float(low) > 300, float(high) <= 346) == ("to", True, True)


def test_scrub_in_python_does_the_same(made: Path, tmp_path: Path) -> None:
    run = sh.scrub(made / "original", "random:20%", tmp_path / "run")
    ours, theirs = (
        load_file(folder / "model" / "model.safetensors") for folder in (tmp_path / "run", made / "scrubbed")
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert run.scores["test_mae"] == runs.read(made / "scrubbed").result.scores["test_mae"]


# what is refused


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--forget class:3", "'class:3' names classes, and the labels are numbers: write for example where:label > 3."),
        (
            "--forget random:1 --method scrub",
            "SCRUB needs classes, and the labels are numbers to predict: choose another method.",
        ),
        (
            "--forget random:1 --labels position",
            "--labels says which class is which, and the labels are numbers to predict: leave it out.",
        ),
        ("--forget random:1 --label age", "--label needs --data, the data that it says how to read."),
    ],
)
def test_what_is_for_classes_is_refused_in_a_line(asked: str, said: str, made: Path, tmp_path: Path) -> None:
    assert cli(f"scrub {made}/original {asked} -o {tmp_path}/x") == Answer(2, "", f"error: {said}\n")
    assert not [*tmp_path.iterdir()]


def train(folder: Path, data: pd.DataFrame, *more: str) -> Answer:
    data.to_csv(folder / "data.csv", index=False)
    words = f"train --model mlp --data {folder}/data.csv --key patient --data-set test=20% {QUICK}"
    return cli(f"{words} -o {folder}/run {' '.join(more)}")


def test_labels_that_cannot_be_predicted_are_refused_in_a_line(tmp_path: Path) -> None:
    same = train(tmp_path, table(target=7.25))
    assert same.err.endswith("labels are the same number, so there is nothing to predict.\n")
    gap = train(tmp_path, table().assign(target=lambda rows: rows.target.where(rows.target > 30)))
    assert gap.err.endswith(" has no number in the column 'target', which is to be predicted.\n")
    doubt = train(tmp_path, table().astype({"target": int}))
    assert "say whether they are classes or numbers to predict, --data-set task=classification or " in doubt.err
    classes = train(tmp_path, table(), "--model-set classes=3")
    assert classes.err == "error: the labels are numbers to predict, which have no classes: leave 'classes' out.\n"
    images = train(tmp_path, table(), "--model small")
    assert "'small' does not take rows of numbers" in images.err
    assert {answer.code for answer in (same, gap, doubt, classes, images)} == {2}
    assert not (tmp_path / "run").exists()


def test_a_model_of_the_other_kind_is_refused(tmp_path: Path, made: Path) -> None:
    assert train(tmp_path, table().assign(target=lambda rows: (rows.target > 140).astype(int))).code == 0
    whole, other = f"--data {tmp_path}/data.csv --key patient --data-set test=20%", f"--data diabetes -o {tmp_path}/x"
    taken = cli(f"scrub {made}/original {whole} --forget random:9 -o {tmp_path}/x")
    assert taken.err == "error: the model has 1 outputs, but the data has 2 classes.\n"
    given = cli(f"scrub {tmp_path}/run/model {other} --forget random:9")
    assert (
        given.err == "error: the labels are numbers to predict, so the model must return one per record, and not 2.\n"
    )


def test_a_model_of_another_column_is_refused(tmp_path: Path) -> None:
    assert train(tmp_path, table()).code == 0
    wrong = f"--data {tmp_path}/data.csv --key patient --label bmi --data-set test=20%"
    answer = cli(f"scrub {tmp_path}/run/model {wrong} --forget random:9 -o {tmp_path}/x")
    assert "on its training data, no better than always saying the mean, before anything was changed" in answer.err
    assert "Look at --label, and at how inputs and labels were scaled" in answer.err
    assert answer.code == 2


# tables, recipes, a PyTorch file


def test_rows_are_forgotten_by_key_and_may_be_erased(tmp_path: Path) -> None:
    assert train(tmp_path, table()).code == 0
    known = [line for line in table().patient if line in set(runs.read(tmp_path / "run").inventory()["train"].keys)]
    first, second = known[:4], known[4:8]
    for name, keys in (("first", first), ("second", second)):
        (tmp_path / f"{name}.txt").write_text("\n".join(keys))
    done(f"scrub {tmp_path}/run --forget keys:{tmp_path}/first.txt --missing skip -o {tmp_path}/one")
    table().query("patient not in @first").to_csv(tmp_path / "data.csv", index=False)
    done(f"scrub {tmp_path}/one --forget keys:{tmp_path}/second.txt --missing skip -o {tmp_path}/two")
    assert set(runs.read(tmp_path / "two").keys("before")) <= set(first)
    changed = table().query("patient not in @first")
    changed.loc[changed.patient == known[9], "target"] += 1
    changed.to_csv(tmp_path / "data.csv", index=False)
    answer = cli(f"scrub {tmp_path}/two --forget random:5 -o {tmp_path}/three")
    assert f"'{known[9]}' has changed" in answer.err


def test_a_recipe_of_a_table_of_numbers_runs(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'model = "mlp"\nforget = "random:10%"\nseeds = [0]\nmethods = ["retrain", "randomlabel", "scissorhands"]\n'
        f'[data]\nname = "{tmp_path}/data.csv"\nkey = "patient"\ntest = "20%"\n'
        "[training]\nepochs = 5\nlr = 0.05\nbatch_size = 32\n"
    )
    assert done(f"bench {recipe} --dry-run").out.splitlines()[-2].startswith("recipe: 1 training + 3 runs.")
    said = done(f"bench {recipe} -o {tmp_path}/bench").out
    assert "Avg. Gap" in said
    assert "MAE forget" in said
    recipe.write_text(recipe.read_text().replace("randomlabel", "lotus"))
    answer = cli(f"bench {recipe} -o {tmp_path}/other")
    assert answer.err == "error: LoTUS needs classes, and the labels are numbers to predict: choose another method.\n"
    assert not (tmp_path / "other" / "seed-0").exists()  # said before anything is trained


def test_a_pytorch_file_that_predicts_numbers_comes_back_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numbernet.py").write_text(
        "from torch import nn\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = nn.Sequential(nn.BatchNorm1d(10), nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))\n\n"
        "    def forward(self, rows):\n"
        "        return 150 + 77 * self.body(rows).squeeze(1)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import numbernet  # type: ignore[import-not-found]

    rows = table()
    rows[:300].to_csv("train.csv", index=False)
    rows[300:].to_csv("test.csv", index=False)
    inputs, labels = (torch.tensor(some.to_numpy()).float() for some in (rows.iloc[:300, :10], rows.target[:300]))
    torch.manual_seed(0)
    model = numbernet.Net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), labels).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "epoch": 200}, "net.pt")
    data = "--data train.csv --data-set test=test.csv --label target --key patient"
    done(f"scrub net.pt --factory numbernet:Net {data} --forget random:20 -o run")
    found = torch.load("run/model/net.pt", weights_only=True)
    assert found["epoch"] == 200
    assert found["model"].keys() == model.state_dict().keys()


# in Python


def numbers(count: int, seed: int) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 5, generator=draw)
    return TensorDataset(rows, rows[:, 0] + torch.randn(count, generator=draw))


def test_ten_lines_of_python_forget_numbers_and_judge(made: Path) -> None:
    train, test = numbers(200, 0), numbers(80, 1)
    torch.manual_seed(0)
    model, again = (nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))
    split = sh.split(train, sh.Forget("random:10%"), test=test, unseen=0.5)
    how = sh.Training(epochs=30, lr=0.05, batch_size=16)
    how.fit(model, split.problem(), part=sh.split(train, [0], test=test).retain)
    how.fit(again, split.problem())
    original = sh.evaluate(model, split)
    sh.Scissorhands().scrub(model, split.problem())
    scores = sh.evaluate(model, split, against=again)
    assert original["forget_mae"] < scores["forget_mae"]
    assert scores.avg_gap == avg_gap(scores.values, scores.reference)
    assert scores.verdict
    assert scores["forget_r2"] < 1
    with pytest.raises(NoReferenceError, match=r"Avg\. Gap needs a reference"):
        _ = original.avg_gap


def test_a_classifier_of_numbers_is_refused_in_python() -> None:
    split = sh.split(numbers(40, 0), "random:5", test=numbers(20, 1))
    with pytest.raises(ModelError, match="the model must return one per record, and not 3"):
        sh.evaluate(nn.Linear(5, 3), split)


def test_one_number_is_forgotten_without_an_r2() -> None:
    split = sh.split(numbers(40, 0), [7], test=numbers(20, 1))
    scores = sh.evaluate(nn.Linear(5, 1), split)
    assert "forget_mae" in scores.values
    assert scores.failed["forget_r2"] == "all labels are the same number, so there is no variance to explain."
