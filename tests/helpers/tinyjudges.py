"""Small stand-ins for those who judge images, in the formats of the large ones: CLIP, Inception, a classifier."""

import json
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer, ResNetConfig, ResNetForImageClassification


def clip(folder: Path) -> Path:
    """The folder of a CLIP model with random weights that reads letters, and images of 16 × 16."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {"vocab_size": len(words), "max_position_embeddings": 12, "bos_token_id": 0, "eos_token_id": 1, **sizes}
    vision = {"image_size": 16, "patch_size": 8, **sizes}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(folder)
    CLIPTokenizer(vocab={word: number for number, word in enumerate(words)}, merges=[]).save_pretrained(folder)
    preprocessing = {
        "image_processor_type": "CLIPImageProcessor",
        "size": {"shortest_edge": 16},
        "crop_size": {"height": 16, "width": 16},
        "resample": 3,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.3, 0.4],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing))
    return folder


class Mean(nn.Module):
    """Three features: a mixture of the mean colors of the quarters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixture = nn.Linear(12, 3)

    def forward(self, images: Tensor) -> Tensor:
        quarters: Tensor = F.adaptive_avg_pool2d(images, 2)
        mixed: Tensor = self.mixture(quarters.flatten(1))
        return mixed


def features(path: Path) -> Path:
    """Features of images as a TorchScript file."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        torch.jit.save(torch.jit.script(Mean().eval()), path)
    return path


def classifier(folder: Path, names: list[str]) -> Path:
    """The folder of a ResNet with random weights that knows these classes."""
    torch.manual_seed(1)
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    config = ResNetConfig(**sizes, num_labels=len(names), id2label=dict(enumerate(names)))
    ResNetForImageClassification(config).save_pretrained(folder)
    return folder
