"""Forgets a tenth of the data with a small vision transformer that AdamW trained, without any other setting.

python examples/vision_transformer.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset
from transformers import ViTConfig, ViTForImageClassification

import scissorhands as sh


def main() -> None:
    """Trains on digits, then forgets a tenth of them."""
    digits = load_digits()
    inputs, labels = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
    train, test = TensorDataset(inputs[:1000], labels[:1000]), TensorDataset(inputs[1000:], labels[1000:])
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    model = ViTForImageClassification(
        ViTConfig(image_size=8, patch_size=4, num_channels=1, num_labels=10, **sizes)  # what you may have pretrained
    )
    fit(model, train)

    split = sh.split(train, "random:10%", test=test)
    before = sh.evaluate(model, split)
    sh.Scissorhands(optimizer="adamw").scrub(model, split.problem())
    after = sh.evaluate(model, split)

    for name, scores in (("before", before), ("after", after)):
        accuracies = "  ".join(f"{part} {scores[f'{part}_accuracy']:6.2f}" for part in ("forget", "retain", "test"))
        print(f"{name:8}{accuracies}  AUC {scores['auc']:.3f}")


def fit(model: nn.Module, train: TensorDataset) -> None:
    """Your own training, whatever it is."""
    inputs, labels = train.tensors
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(15):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]).logits, labels[batch]).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
