"""Forgets what some users wrote with a text classifier in a folder of `transformers`, from a table of texts.

python examples/scrub_a_text_classifier.py
"""

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from small_bert import reviews, small_bert

import scissorhands as sh


def main() -> None:
    """Trains and saves, as you did; then one call makes the folder forget, and another judges it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        train_and_save(folder)
        (folder / "delete.txt").write_text("user 3\nuser 5\nuser 7\n")

        run = sh.scrub(
            folder / "bert",
            f"keys:{folder / 'delete.txt'}",
            folder / "scrubbed",
            data=str(folder / "train.csv"),
            data_set=(f"test={folder / 'test.csv'}",),
            label="mood",
            key="user",
            settings={"optimizer": "adamw"},
        )
        run = run.evaluate(training={"epochs": 5, "lr": 0.01, "batch_size": 32, "optimizer": "adamw"})
        print(run, *sorted(path.name for path in run.model.iterdir()))


def train_and_save(folder: Path) -> None:
    """Your own training, whatever it is."""
    model, tokenizer = small_bert()
    for name, rows in (("train", reviews(200)), ("test", reviews(100, seed=1))):
        with (folder / f"{name}.csv").open("w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    rows = reviews(200)
    inputs = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    labels = torch.tensor([int(row["mood"] == "good") for row in rows])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")


if __name__ == "__main__":
    main()
