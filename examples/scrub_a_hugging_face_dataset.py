"""Forgets rows of a Hugging Face dataset with a model of `transformers`: batches by name, attention masks, logits.

python examples/scrub_a_hugging_face_dataset.py
"""

from datasets import Dataset, disable_progress_bars
from small_bert import reviews, small_bert

import scissorhands as sh


def main() -> None:
    """Trains, forgets what some users wrote, and judges the model by a few others that never saw it."""
    disable_progress_bars()
    model, tokenizer = small_bert()
    how = sh.Training(epochs=8, lr=0.01, batch_size=32, optimizer="adamw")

    table = Dataset.from_list(reviews(400)).map(lambda row: tokenizer(row["text"]))
    table = table.map(lambda row: {"label": int(row["mood"] == "good")})
    train, test = table.select(range(300)), table.select(range(300, 400))
    how.fit(model, sh.split(train, [0], test=test).problem())

    split = sh.split(train, lambda row: row["user"] in {"user 3", "user 5", "user 7", "user 9"}, test=test)
    sh.Scissorhands(optimizer="adamw").scrub(model, split.problem())
    scores = sh.evaluate(model, split, level="standard", training=how, settings=sh.Evaluation(relearn=3))
    print(f"forgot {len(split.forget)}  test {scores['test_accuracy']:.1f} %  {scores.verdict}")


if __name__ == "__main__":
    main()
