"""Two very small Hugging Face classifiers, a transformer and a convolutional net."""

import json
from pathlib import Path

import torch
from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification


def pretrained(folder: Path) -> None:
    """Save them in the folders `vit` and `resnet` of a folder."""
    tiny = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    vit = ViTConfig(**tiny, image_size=16, patch_size=8, num_labels=10)
    resnet = ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=10)
    torch.manual_seed(0)
    for name, model in {"vit": ViTForImageClassification(vit), "resnet": ResNetForImageClassification(resnet)}.items():
        model.save_pretrained(folder / name)
        preprocessing = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 16, "width": 16}}
        (folder / name / "preprocessor_config.json").write_text(json.dumps(preprocessing))
