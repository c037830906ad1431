"""Every recipe builds all that it names, holds only differences, and carries the published settings."""

import importlib.util
import json
import math
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import ResNetConfig, ResNetForImageClassification

from helpers.commands import cli
from scissorhands import runs
from scissorhands.bench.classification import DEMO, DEMO_RANDOM, bench
from scissorhands.bench.entries import VARIANTS
from scissorhands.bench.recipe import Recipe, load
from scissorhands.bench.run import kind_of
from scissorhands.cli.train import train
from scissorhands.data.forget import Forget
from scissorhands.data.records import Stored
from scissorhands.data.sources import KNOWN, Source
from scissorhands.data.split import held_out, split
from scissorhands.errors import DataError, FailedError, ReadError, RunError, SettingError, WriteError
from scissorhands.methods import METHODS
from scissorhands.methods.parameters import select
from scissorhands.methods.training import Training
from scissorhands.tasks.classification.imageclassifier import ImageClassifier
from scissorhands.tasks.classification.networks import NETWORKS

ALL = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
RECIPES = [path for path in ALL if kind_of(load(path)) is Recipe]  # those about pipelines have tests of their own
every_recipe = pytest.mark.parametrize("path", [*RECIPES, DEMO, DEMO_RANDOM], ids=lambda path: path.stem)


@every_recipe
def test_everything_that_a_recipe_names_is_built(path: Path) -> None:
    recipe = Recipe.read(path)
    assert recipe.data.name in KNOWN
    assert recipe.entries[0].name == "retrain"
    assert {entry.name for entry in recipe.entries} >= {"retrain", "scissorhands"}
    if recipe.model in NETWORKS:
        network = NETWORKS[recipe.model](classes=10, channels=3, **recipe.model_set)
        for entry in recipe.entries:
            if entry.name == "scissorhands":
                assert select(network, entry.method.to_dict()["parameters"])


@every_recipe
def test_a_recipe_holds_only_differences_from_the_defaults(path: Path) -> None:
    text = tomllib.loads(path.read_text())
    classes: dict[str, Any] = {"training": Training, "data": Source, **METHODS}
    for table, values in text.items():
        if not isinstance(values, dict) or table in ("model_set", "tried"):
            continue
        defaults = {row["name"]: row["default"] for row in classes[table].described()}
        if set(values) & set(VARIANTS):  # it says what its source says, whatever the defaults are
            continue
        if table == "retrain":
            defaults |= Training.make(text.get("training", {})).to_dict()
        assert {k: v for k, v in values.items() if v == defaults[k]} == {}, f"[{table}] repeats a default"


def test_the_paper_is_complete() -> None:
    names = {path.stem for path in RECIPES}
    assert names >= {f"{data}-random-{share}" for data in ("svhn", "cifar10", "cifar100") for share in (10, 20, 50)}
    assert names >= {"svhn-class", "celebamask-hq-identities-10", "celebamask-hq-identities-50"}
    assert names >= {"ablation-projection-and-init", "sweep-trim", "sweep-balance", "sweep-sample"}
    assert names >= {"overhead-cifar10", "overhead-cifar100", "cifar10-random-10-multistep"}


def test_the_scope_for_faces_names_layers_of_that_architecture() -> None:
    config = ResNetConfig(embedding_size=4, hidden_sizes=[4] * 4, depths=[3, 4, 6, 3], layer_type="basic", num_labels=3)
    model = ImageClassifier(ResNetForImageClassification(config), {})
    recipe = Recipe.read(RECIPES[0].parent / "celebamask-hq-identities-10.toml")
    scope = set(select(model, recipe.entries[-1].method.to_dict()["parameters"]))
    assert {name.split(".")[4] for name in scope if "stages" in name} == {"3"}
    assert {name for name in scope if "stages" not in name} == {"model.classifier.1.weight", "model.classifier.1.bias"}


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


SMALL = 'data = "digits"\nmodel = "small"\nforget = "random:10%"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('model = "small"\nforget = "class:3"', "needs 'data'"),
        (SMALL + "[scisorhands]\ntrim=0.1", "Did you mean 'scissorhands'"),
        (SMALL + "[scissorhands]\ntrimm=0.1", "Did you mean 'trim'"),
        (SMALL + "[training]\nlr=-1", "'lr' must be"),
        (SMALL + "[scissorhands]\ntrim=[0.1, 3.0]", "'trim' must be"),
        (SMALL + "seeds=0", "'seeds' must be a list"),
        (SMALL + 'seeds=["a"]', "'seeds' must be a list"),
        (SMALL + "seeds=[]", "'seeds' must be a list"),
        (SMALL + 'methods="retrain"', "'methods' must be a list"),
        (SMALL + 'holdout="x"', "'holdout' must be a share"),
        (SMALL + "scissorhands=3", "stand in a table"),
        (SMALL + 'draws="all"', "'draws' must be a list"),
        (SMALL + "seeds=[0, 0]", r"'seeds' must be a list of whole numbers, each of them once, not \[0, 0\]"),
        (SMALL.replace("random:10%", "class:3") + "draws=[0, 1]", "'draws' are of what is forgotten at random"),
        (SMALL + "method_seeds=[]", "'method_seeds' must be a list"),
        (SMALL + 'level="standart"', "'level' must be one of quick, standard, deep, not \"standart\""),
        (SMALL + "tried={finetune=-1}", "'tried' must be a table"),
        (SMALL + "tried={finetun=1}", "Did you mean 'finetune'"),
        (SMALL + "training=[1]", r"the settings of Training are names with values, not \[1\]"),
        (SMALL + "training={epochs=[1]}", r"'epochs' must be a whole number, 1 or more, not \[1\]"),
        (SMALL + "training={epochs={of=1}}", "'epochs' must be"),
        (SMALL + "training={epochs=1e308}", "'epochs' must be"),
        (SMALL + "training={batch_size=100000000000000000000000000}", "100000000000000000000000000 is neither text"),
        (SMALL + "training={batch_size=0x7fffffffffffffff}", "'batch_size' must be .* at most 2147483647"),
        (SMALL + "training={lr=2024-01-01}", '"2024-01-01" is neither text'),
        (SMALL + "seeds=[1000000000000000000000000000000]", "is neither text, nor a number of 64 bits"),
        (SMALL + f"seeds=[0x{'f' * 5000}]", "this int is neither text"),
        (
            SMALL + "seeds=[4294967296]",
            "'seeds' must be a list of whole numbers, .* and at most 2147483647",
        ),
        (SMALL + "split_seed=4294967296", "'split_seed' must be a whole number, and at most 2147483647"),
        (SMALL + "[scissorhands]\nbalance=1e308", r"'balance' must be a number, 0 or more, and at most 1e\+30"),
        (SMALL + "[scissorhands]\nbalance=[[0.1]]", "'balance' must be"),
        (SMALL + ".".join(["title", *"x" * 50]) + "=1", "nested too deeply"),
        (SMALL + 'methods=[""]', "there is no method ''"),
        (SMALL + 'methods=["esd"]', "'esd' applies only to diffusion pipelines; the model is a classifier"),
        (SMALL + 'methods=["finetune"]\nfinetune.lr=[]', "is an empty list"),
        (SMALL + "tune=-1", "'tune' must be a whole number"),
        (SMALL + 'tune=2\nuntuned=["finetun"]', "'untuned' names 'finetun', .* Did you mean 'finetune'"),
        (SMALL + "tune=2\ntried={finetune=1}", "'finetune' is tuned here, so 'tried' says nothing of it"),
        (SMALL + "tune=2\nseeds=[1000000]", "1000000 is the seed that methods are tuned with"),
        (SMALL + "tune=2\n[finetune]\nlr=0.1\nepochs=2", "FineTune has no setting left to search"),
        (SMALL.replace("random:10%", ""), "'' does not say what to forget"),
        (SMALL + 'methods=["no_such_module:It"]', "If you trust it, name it: --trust no_such_module:It"),
        (SMALL.replace("small", "no_such_module:it"), "If you trust it, name it: --trust no_such_module:it"),
    ],
)
def test_a_mistake_in_a_recipe_is_named_with_its_file(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=says) as caught:
        Recipe.read(written(tmp_path, text))
    assert "recipe.toml" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["data = ", SMALL + SMALL, "x = " + "[" * 5000, ".".join("x" * 5000) + "=1", "\0", "# " + "x" * (5 << 20)],
)
def test_a_file_that_is_no_recipe_is_refused_by_name(text: str, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"recipe\.toml cannot be read"):
        Recipe.read(written(tmp_path, text))


def test_code_that_a_recipe_names_runs_if_the_user_names_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_method.py").write_text(
        "from dataclasses import dataclass\nimport scissorhands as sh\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Own(sh.Method):\n    paper = 'none'\n"
        "    def scrub(self, model, problem, log=None): ...\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    recipe = written(tmp_path, SMALL + 'methods=["own_method:Own"]')
    answer = cli(f"bench {recipe} -o {tmp_path}/out")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "--trust own_method:Own" in answer.err
    assert "own_method" not in sys.modules
    assert [entry.name for entry in Recipe.read(recipe, ["own_method:Own"]).entries] == ["own_method:Own"]


def test_a_recipe_holds_out_as_much_as_training_does(tmp_path: Path) -> None:
    (option,) = (one for one in train.params if one.name == "holdout")
    assert Recipe.read(written(tmp_path, SMALL)).holdout == option.default == 0.1


def test_the_recipes_of_the_paper_hold_out_a_tenth_of_the_training_data_and_leave_the_test_data_whole() -> None:
    shares = {path.stem: Recipe.read(path).holdout for path in RECIPES}
    assert shares == {name: 0.2 if name == "digits-random-10" else 0.1 for name in shares}
    train, test = (Stored(torch.arange(n)[:, None], torch.arange(n) % 10) for n in (500, 100))
    divided = split(train, Forget("random:10%"), test=test, unseen=held_out(train, 0.1, 0).tolist())
    sizes = {name: len(part) for name, part in divided.parts().items()}
    assert sizes == {"forget": 45, "retain": 405, "calibration": 25, "audit": 25, "test": 100, "others": 25}


def test_a_value_in_a_recipe_names_no_folder_outside(tmp_path: Path) -> None:
    text = SMALL + 'methods=["scissorhands"]\n[scissorhands]\nparameters=["../../*", "*"]'
    assert [entry.label for entry in Recipe.read(written(tmp_path, text)).entries] == [
        "scissorhands-parameters=.._.._*",
        "scissorhands-parameters=*",
    ]


def test_a_list_stands_for_each_of_its_values(tmp_path: Path) -> None:
    recipe = Recipe.read(
        written(tmp_path, SMALL + 'methods=["scissorhands"]\n[scissorhands]\ntrim=[0.1, 0.2]\nlr=[1e-3]')
    )
    assert [entry.label for entry in recipe.entries] == [
        "scissorhands-trim=0.1-lr=0.001",
        "scissorhands-trim=0.2-lr=0.001",
    ]


VARIED = SMALL + (
    'seeds=[0]\nmethods=["retrain", "finetune"]\n[training]\nepochs=1\n'
    "[finetune]\nepochs=1\n[finetune.paper]\nlr=0.1\n[finetune.script]\nlr=[0.01, 0.02]\n"
)


def test_a_method_may_have_variants_by_source(tmp_path: Path) -> None:
    _, *found = Recipe.read(written(tmp_path, VARIED)).entries
    assert [(one.label, one.variant, one.method.to_dict()["lr"]) for one in found] == [
        ("finetune-paper", "paper", 0.1),
        ("finetune-script-lr=0.01", "script", 0.01),
        ("finetune-script-lr=0.02", "script", 0.02),
    ]
    assert {one.method.to_dict()["epochs"] for one in found} == {1}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("finetune.paper", "finetune.papper", "'finetune' has no variant 'papper'. Did you mean 'paper'"),
        ("finetune.paper", "finetune.paper.x", "'x' of 'finetune.paper' is a table"),
        ("[0.01, 0.02]", "[]", "'lr' of 'finetune.script' is an empty list"),
        ("lr=0.1", "rl=0.1", "has no setting 'rl'"),
    ],
)
def test_a_variant_that_is_none_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=says):
        Recipe.read(written(tmp_path, VARIED.replace(old, new)))


def test_variants_are_rows_of_their_own(tmp_path: Path) -> None:
    table = bench(Recipe.read(written(tmp_path, VARIED)), tmp_path / "out", "cpu")
    assert [row.method for row in table.rows] == [
        "original",
        "retrain",
        "finetune-paper",
        "finetune-script lr=0.01",
        "finetune-script lr=0.02",
    ]
    assert runs.read(tmp_path / "out/seed-0/finetune-paper").record["variant"] == "paper"
    assert {table.nearest(), *(d.other for d in table.differences)} == {row.method for row in table.rows} - {"retrain"}


def test_a_bench_that_fails_says_in_which_run(tmp_path: Path) -> None:
    text = SMALL + 'seeds=[0]\nmethods=["retrain", "finetune"]\n[training]\nepochs=1\n[finetune]\nepochs=2\nlr=1e12\n'
    with pytest.raises(FailedError, match="seed-0/finetune: the loss became"):
        bench(Recipe.read(written(tmp_path, text)), tmp_path / "out", "cpu")


def test_a_bench_goes_on_where_it_stopped_and_refuses_other_settings(tmp_path: Path) -> None:
    text = SMALL + 'seeds=[0]\nmethods=["retrain", "finetune"]\n[training]\nepochs=1\n[finetune]\nepochs=1\n'
    recipe, table = Recipe.read(written(tmp_path, text)), tmp_path / "out/table.json"
    said: list[tuple[Any, ...]] = []  # which run began, was there already or was made, with the rows of the page so far

    def log(event: Mapping[str, Any]) -> None:
        rows = len(json.loads(table.read_text())["rows"]) if table.exists() else 0
        said.append((event.get("run") or event.get("finished"), event.get("before"), rows))

    first = bench(recipe, tmp_path / "out", "cpu", log, watch=True)
    names = [f"seed-0/{name}" for name in ("trained", "original", "retrain", "finetune")]
    begun = [(name, rows) for name, before, rows in said if name and before is None]
    assert begun == [*zip(names, (0, 0, 1, 2), strict=True)]
    assert [name for name, before, _ in said if before is False] == names
    said.clear()
    stamp = (tmp_path / "out/seed-0/finetune/model/model.safetensors").stat().st_mtime_ns
    (tmp_path / "out/table.json").unlink()
    again = bench(recipe, tmp_path / "out", "cpu", log)
    assert again.to_dict() == first.to_dict()
    assert [entry for entry in said if entry[0]] == [(n, before, 0) for n in names for before in (None, True)]
    assert (tmp_path / "out/seed-0/finetune/model/model.safetensors").stat().st_mtime_ns == stamp
    assert (tmp_path / "out/table.json").is_file()
    for old, new in (
        ("[finetune]\nepochs=1", "[finetune]\nepochs=2"),
        ("random:10%", "class:3"),
        ('"small"', '"resnet18"'),
        ("seeds=[0]", "seeds=[0]\nholdout=0.2"),
        ("seeds=[0]", "seeds=[0]\nsplit_seed=1\nholdout=0.1"),
        ("seeds=[0]", "seeds=[0]\nunseen=0.5"),
        ("seeds=[0]", "seeds=[0]\nmodel_set={width=4}"),
        ('"digits"', '{name="digits", augment="flip"}'),
    ):
        assert old in text
        changed = Recipe.read(written(tmp_path, text.replace(old, new)))
        with pytest.raises(RunError, match="another recipe"):
            bench(changed, tmp_path / "out", "cpu")


BRIEF = SMALL + 'seeds=[0]\nmethods=["finetune"]\n[training]\nepochs=1\n[finetune]\nepochs=1\n'


def test_a_bench_folder_knows_its_recipe_and_grows_but_never_shrinks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    bench(Recipe.read(written(tmp_path, BRIEF)), out, "cpu")
    kept = {name: (out / name).read_bytes() for name in ("report.html", "table.json", "recipe.json")}
    others = {
        "another 'finetune'": ("[finetune]\nepochs=1", "[finetune]\nepochs=0"),
        "another 'forget'": ("random:10%", "class:3"),
        "another 'training'": ("[training]\nepochs=1", "[training]\nepochs=2"),
        "which has seed-0/original too": ("seeds=[0]", "seeds=[1]"),
        "which has seed-0/finetune too": ('["finetune"]\n[training]', '["ascent"]\n[ascent]\nepochs=1\n[training]'),
        "which has seed-0/original too: keep": ("seeds=[0]", "seeds=[0]\ndraws=[0]"),
    }
    for says, (old, new) in others.items():
        assert old in BRIEF
        other = BRIEF.replace(old, new)
        other = other if '"finetune"' in other else other.replace("[finetune]\nepochs=1\n", "")
        answer = cli(f"bench {written(tmp_path, other)} -o {out}")
        assert (answer.code, len(answer.err.splitlines())) == (2, 1), answer.err
        assert "was made by another recipe" in answer.err
        assert says in answer.err
        assert "choose another folder" in answer.err
        assert {name: (out / name).read_bytes() for name in kept} == kept
    more = BRIEF.replace("seeds=[0]", "seeds=[0, 1]").replace('["finetune"]', '["finetune", "ascent"]')
    table = bench(Recipe.read(written(tmp_path, more)), out, "cpu")
    assert [(row.method, row.seeds) for row in table.rows][1:] == [("finetune", [0, 1]), ("ascent", [0, 1])]
    assert "seed-1/ascent" in json.loads((out / "recipe.json").read_text())["runs"]


def test_a_folder_whose_recipe_is_not_known_is_not_taken_for_a_bench(tmp_path: Path) -> None:
    for name in ("table.json", "report.html", "seed-0", "run.toml"):
        out = tmp_path / f"with-{name}"
        (out / name).mkdir(parents=True)
        with pytest.raises(RunError, match="contains files this recipe did not write: choose another folder"):
            bench(Recipe.read(written(tmp_path, BRIEF)), out, "cpu")
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write to .*file: "):
        bench(Recipe.read(written(tmp_path, BRIEF)), tmp_path / "file", "cpu")


def test_a_recipe_that_failed_at_once_may_be_mended_in_the_same_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no data set or folder 'digit'"):
        bench(Recipe.read(written(tmp_path, BRIEF.replace("digits", "digit"))), tmp_path / "out", "cpu")
    bench(Recipe.read(written(tmp_path, BRIEF)), tmp_path / "out", "cpu")


def test_a_bench_replaces_no_device_and_no_link(tmp_path: Path) -> None:
    out = tmp_path / "out"
    bench(Recipe.read(written(tmp_path, BRIEF)), out, "cpu")
    (out / "report.html").rename(tmp_path / "elsewhere")
    (out / "report.html").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WriteError, match="not a regular file"):
        bench(Recipe.read(written(tmp_path, BRIEF)), out, "cpu")


def test_a_demo_replaces_an_earlier_demo_only(tmp_path: Path) -> None:
    bench(Recipe.read(written(tmp_path, BRIEF)), tmp_path / "out", "cpu")
    for folder in (tmp_path / "out", tmp_path / "out/seed-0/finetune"):
        for which in ("", "--diffusion"):
            answer = cli(f"demo {which} -o {folder} --overwrite")
            assert answer.code == 2
            assert "is not an earlier demo, so it is not replaced: choose another folder." in answer.err
        assert folder.is_dir()


def test_chance_enters_at_three_levels(tmp_path: Path) -> None:
    text = SMALL.replace("class:3", "random:10%") + (
        'seeds=[0, 1]\ndraws=[3, 4]\nmethod_seeds=[5, 6]\nmethods=["retrain", "finetune"]\n'
        "[tried]\nfinetune=7\n[training]\nepochs=1\n[finetune]\nepochs=1\n"
    )
    table = bench(Recipe.read(written(tmp_path, text)), tmp_path / "out", "cpu")
    rows = [row for row in table.rows if row.method.startswith("finetune")]
    assert len(rows) == len({row.manifest for row in rows}) == 2
    for row in rows:
        assert row.seeds == ["0/5", "0/6", "1/5", "1/6"]
        assert row.metrics["tuning"]["mean"] == pytest.approx(7 * (row.metrics["rte"]["mean"] or 0))
    assert {d.pairs for d in table.differences} == {8}
    assert (tmp_path / "out/seed-1/draw-4/method-6/finetune").is_dir()
    shown = cli(f"report {tmp_path}/out -o {tmp_path}/page.html").out
    assert "Gap of means" in shown
    assert "…" not in shown


def test_the_demo_says_how_many_runs_chose_its_settings() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "choose_demo_settings.py"
    spec = importlib.util.spec_from_file_location("choose_demo_settings", path)
    assert spec
    assert spec.loader
    chooser = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chooser)
    names = {kind: name for name, kind in METHODS.items()}
    runs = {
        names[kind]: len(chooser.SEEDS) * math.prod(map(len, grid.values())) for kind, grid in chooser.GRIDS.items()
    }
    assert {e.name: e.tried for e in Recipe.read(DEMO).entries if e.tried is not None} == runs | {"scissorhands": 0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('forget = "class:3"\n', "class:12"),
        ('parameters = "ghost*"\n', "matches no trainable parameter"),
    ],
    ids=["a class that is not there", "weights that are not there"],
)
def test_what_would_fail_after_training_is_refused_before_it_and_leaves_nothing(
    change: str, says: str, tmp_path: Path
) -> None:
    text = (
        'data = "digits"\nmodel = "small"\nforget = "class:3"\nmethods = ["scissorhands"]\n[scissorhands]\nepochs = 1\n'
    )
    text = text.replace("class:3", "class:12") if "class" in change else text + change
    (tmp_path / "recipe.toml").write_text(text)
    answer = cli(f"bench {tmp_path}/recipe.toml -o {tmp_path}/some/out")
    assert answer.code == 2
    assert says in answer.err
    assert not (tmp_path / "some").exists()


def test_a_method_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL + 'methods = ["finetune", "finetune"]\n')
    with pytest.raises(SettingError, match="'methods' must be a list of names, each of them once"):
        Recipe.read(path)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("epochs = []", "'epochs' of 'scissorhands' is an empty list"),
        (
            f"epochs = {[*range(200)]}\nbatch_size = {[*range(1, 2001)]}\nlr = {[0.1] * 2000}",
            "the lists of 'scissorhands' stand for 800,000,000 settings, and at most 1,000 are run",
        ),
    ],
)
def test_lists_that_are_empty_or_stand_for_too_many_settings_are_refused(
    settings: str, says: str, tmp_path: Path
) -> None:
    recipe = tmp_path / "r.toml"
    text = 'data = "digits"\nmodel = "small"\nforget = "class:3"\nmethods = ["scissorhands"]\n[scissorhands]\n'
    recipe.write_text(text + settings)
    answer = cli(f"bench {recipe} -o {tmp_path / 'out'}")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert says in answer.err
    assert not (tmp_path / "out").exists()


def test_the_recipe_on_the_page_about_the_command_line_builds(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    assert [entry.label for entry in Recipe.read(written(tmp_path, text)).entries] == [
        "retrain",
        "finetune-paper",
        "finetune-script",
        *(f"scissorhands-trim={trim}" for trim in (0.01, 0.03, 0.1)),
    ]
