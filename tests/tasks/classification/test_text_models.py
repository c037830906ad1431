"""A text classifier of Hugging Face on the command line: trained, scrubbed by key, judged, as images are."""

import random
from pathlib import Path

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers import models as tokenizers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)

from helpers.commands import cli, done
from scissorhands import runs
from scissorhands.data.sources import Source
from scissorhands.methods.modes import evaluating
from scissorhands.tasks.classification import models

TEMPLATES = ("the {} film was {}", "a {} and {} story", "{} acting , {} music", "i found the {} play rather {}")
WORDS = {"good": ("great", "lovely", "fine", "superb", "warm"), "bad": ("awful", "dull", "poor", "cold", "flat")}
DATA = "--data reviews.csv --label mood --key user --data-set text=review --data-set test=30%"


def reviews(count: int) -> pd.DataFrame:
    """Reviews of two moods, by a third as many users."""
    draw, rows = random.Random(0), []
    for number in range(count):
        mood = draw.choice(("good", "bad"))
        text = draw.choice(TEMPLATES).format(*draw.choices(WORDS[mood], k=2))
        rows.append((f"user {number % (count // 3)}", f"{text} {draw.choice('abcdefgh')}", mood))
    return pd.DataFrame(rows, columns=["user", "review", "mood"])


def tokenizer(texts: pd.Series) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the words; the token that fills up is not 0."""
    words = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", *sorted({word for text in texts for word in text.split()})]
    made = Tokenizer(tokenizers.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("[CLS]", 1), ("[SEP]", 2)]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with reviews, and with a very small BERT that was not trained on them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCISSORHANDS_CACHE", str(tmp_path / "cache"))
    rows = reviews(240)
    rows.to_csv("reviews.csv", index=False)
    words = tokenizer(rows["review"])
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        pad_token_id=words.pad_token_id,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
    )
    BertForSequenceClassification(config).save_pretrained("bert")
    words.save_pretrained("bert")
    return tmp_path


def test_a_text_classifier_is_trained_scrubbed_by_key_and_judged(folder: Path) -> None:
    settings = "--set optimizer=adamw --set lr=0.01 --set epochs=8 --set batch_size=16"
    done(f"train --model bert {DATA} {settings} -o original")
    assert runs.read(Path("original")).result.scores["test_accuracy"] > 90
    Path("delete.txt").write_text("\n".join(f"user {i}" for i in range(12)))
    done("scrub original --forget keys:delete.txt --missing skip -o scrubbed --method finetune --set epochs=1")
    assert runs.read(Path("scrubbed")).settings["optimizer"] == "adamw"
    names = {line.split("\t")[1] for line in Path("scrubbed/forget.txt").read_text().splitlines()}
    assert names <= {f"user {i}" for i in range(12)}
    done("evaluate scrubbed --level standard --set references=2 --set relearn=3")
    scores = runs.read(Path("scrubbed")).result.scores
    assert scores.verdict
    assert {"rmia_auc", "probe", "auc"} <= scores.values.keys()
    model = AutoModelForSequenceClassification.from_pretrained("scrubbed/model")
    words = AutoTokenizer.from_pretrained("scrubbed/model")
    said = model(**words("the superb film was great", return_tensors="pt")).logits.argmax().item()
    assert model.config.id2label[said] == "good"
    done("report scrubbed -o report.html")


def test_a_text_says_the_same_alone_and_beside_a_longer_one(folder: Path) -> None:
    model, blueprint = models.load("bert")
    kind = models.kind_of("bert")
    assert kind
    assert kind.noun == "texts"
    assert blueprint.classes == ("LABEL_0", "LABEL_1")
    source = Source(name="reviews.csv", label="mood", text="review", test="train")
    train = source.load(kind=kind).train
    lengths = torch.tensor([len(text.split()) for text in pd.read_csv("reviews.csv")["review"]])
    short, long = int(lengths.argmin()), int(lengths.argmax())
    alone, beside = train.fetch(torch.tensor([short]))[0], train.fetch(torch.tensor([short, long]))[0]
    assert isinstance(alone, dict)
    assert isinstance(beside, dict)
    assert beside["input_ids"].shape[1] > alone["input_ids"].shape[1]
    with evaluating(model), torch.no_grad():
        torch.testing.assert_close(model(**alone)[0], model(**beside)[0])


def test_a_long_text_is_cut_where_the_model_cannot_read_on(folder: Path) -> None:
    pd.DataFrame({"text": ["a " * 50, "b"], "label": [0, 1]}).to_csv("long.csv", index=False)
    inputs = Source(name="long.csv", test="train").load(kind=models.kind_of("bert")).train.fetch(torch.arange(2))[0]
    assert isinstance(inputs, dict)
    assert inputs["input_ids"].shape == (2, 16)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda: Path("bert/tokenizer.json").unlink(), "bert has no tokenizer that can be read"),
        (lambda: Path("bert/model.safetensors").write_bytes(b"rubbish"), "cannot be loaded as a Hugging Face text"),
        (lambda: pd.DataFrame({"mood": ["a", "b"]}).to_csv("reviews.csv"), "no column"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(change: object, says: str) -> None:
    assert callable(change)
    change()
    for command in (f"train --model bert {DATA} -o out", f"scrub bert {DATA} --forget random:3 -o out"):
        answer = cli(command)
        assert (answer.code, answer.err.count("\n")) == (2, 1), answer.err
        assert says in answer.err
    assert not Path("out").exists()


@pytest.mark.usefixtures("folder")
def test_a_recipe_takes_texts() -> None:
    rows = ['data = {name = "reviews.csv", label = "mood", text = "review", test = "30%"}', 'model = "bert"']
    rows += ['forget = "random:10%"', "seeds = [1]", 'methods = ["finetune"]']
    rows += ["[training]", "epochs = 1", "[finetune]", "epochs = 1"]
    Path("texts.toml").write_text("\n".join(rows))
    done("bench texts.toml --dry-run -o bench")
    assert not Path("bench").exists()
    done("bench texts.toml -o bench")
    assert Path("bench/table.json").is_file()
