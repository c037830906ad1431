"""A bench of a small network that forgets a digit: two seeds, a retrained model and a fine-tuned one."""

from pathlib import Path

from scissorhands.bench.classification import bench
from scissorhands.bench.recipe import Recipe

RECIPE = """data = "digits"
model = "small"
forget = "class:3"
seeds = [0, 1]
methods = ["retrain", "finetune"]
model_set = {width = 2}
[training]
epochs = 1
[finetune]
epochs = 1
"""


def benched(folder: Path) -> Path:
    """Run it in a folder, and return where."""
    (folder / "recipe.toml").write_text(RECIPE)
    bench(Recipe.read(folder / "recipe.toml"), folder / "bench", "cpu")
    return folder / "bench"
