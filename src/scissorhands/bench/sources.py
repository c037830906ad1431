"""Where the settings in the recipes of the paper come from: its text, the scripts of its published code, or neither."""

from collections.abc import Sequence
from typing import Any

from .entries import Entry

# What the paper's text states, and not as a range: values by method and setting. "" stands for every method.
_TEXT: dict[str, dict[str, Sequence[Any]]] = {
    "": {"batch_size": (8, 256)},
    "retrain": {
        "start": ("", "microsoft/resnet-34"),
        "epochs": (10, 50, 160, 182),
        "lr": (0.1, 1e-3),
        "schedule": ("cosine",),
    },
    "finetune": {"epochs": (5, 10), "lr": (0.1, 1e-4)},
    "ascent": {"epochs": (3, 5)},
    "shrink": {"epochs": (5, 10), "fgsm": (0.1,), "nearest": ("wrong",)},
    "expand": {"epochs": (5, 10)},
    "l1sparse": {"lr": (0.1,)},
    "salun": {"epochs": (5, 10)},
    "scissorhands": {
        "reading": ("paper",),
        "parameters": ("*",),
        "sample": (1.0,),
        "saliency": ("connection",),
        "init": ("uniform",),
        "project": (True,),
        "every": (1,),
        "epochs": (5, 10),
        "lr": (1e-5,),
        "batch_size": (8, 16, 256),
    },
    "salun-diffusion": {"epochs": (5,), "lr": (1e-5,), "batch_size": (16,)},
    "scissorhands-diffusion": {"epochs": (5,), "lr": (1e-5,), "batch_size": (16,)},
}
# What the scripts say nothing of, though the recipes have rows of them.
_NOT_IN_SCRIPTS = {"retrain": {"start", "epochs", "lr", "batch_size"}, "influence": {"damping", "iterations"}}


def source(name: str, value: Any, entry: Entry, entries: Sequence[Entry]) -> str:
    """Return "paper", "script" or "ours" for a setting of an entry, among all entries of its recipe.

    A row by the paper takes the scripts' value where the text has a range, or nothing. Without variants it is ours.
    """
    of_paper = any(one.variant in ("paper", "script") for one in entries)
    variant = "paper" if entry.name == "retrain" and of_paper else entry.variant
    stated = value in _TEXT.get(entry.name, {}).get(name, _TEXT[""].get(name, ()))
    if variant == "paper" and stated:
        return "paper"
    if variant not in ("paper", "script") or name in _NOT_IN_SCRIPTS.get(entry.name, ()):
        return "ours"
    scripts = [one for one in entries if one.name == entry.name and one.variant == "script"]
    return "script" if not scripts or any(one.method.to_dict()[name] == value for one in scripts) else "ours"
