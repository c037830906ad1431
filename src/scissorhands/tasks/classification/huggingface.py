"""Classifiers of Hugging Face, wrapped so that they take raw inputs and return scores like any other model."""

import errno
import os
from abc import ABC, abstractmethod
from logging import getLogger
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from torch import nn

from ...data.readers import Kind
from ...distributed import (
    any_rank,
    is_sharded,
    load_weights,
    local,
    meta_device,
    on_rank_0,
    save_weights,
    shard,
    shard_of,
    world_size,
)
from ...errors import FailedError, ModelError, ScissorhandsError
from ..pretrained import MISFITS, first_line, load_safely, require_finite, require_safe


class HuggingFaceModel(nn.Module, ABC):
    """A classifier from `transformers`, with what its folder says of its inputs."""

    noun: ClassVar[str]
    auto: ClassVar[str]  # the class of `transformers` that loads such models

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @classmethod
    @abstractmethod
    def wrap(cls, model: Any, folder: Path) -> Self:
        """Wrap a model by what the other files of its folder say."""

    @classmethod
    @abstractmethod
    def kind_of(cls, folder: Path) -> Kind:
        """Return the kind of data that the model in a folder takes."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of data that it takes."""

    @abstractmethod
    def save_beside(self, folder: Path) -> None:
        """Write what belongs beside the weights."""

    @classmethod
    def load(cls, name: str, classes: int | None = None) -> Self:
        """Load the classifier in a folder or on the hub, with its weights.

        With `classes` it is to be trained on: a head of another size is replaced. Without, every weight must fit.
        """
        import transformers

        hush()
        changes = {"num_labels": classes} if classes else {}
        folder, _ = located(name)
        try:
            require_safe(folder)
            refused, auto = () if classes else MISFITS, getattr(transformers, cls.auto)
            return cls.wrap(load_safely(auto, folder, name, refused, trust_remote_code=False, **changes), folder)
        except ScissorhandsError:
            raise
        except Exception as error:  # transformers raises whatever its many readers raise
            raise unloadable(name, error, cls.noun) from None

    @classmethod
    def opened(cls, folder: Path, device: torch.device) -> Self:
        """Load what is in a folder; of many processes each reads its part, or all if `transformers` renames it."""
        if world_size() == 1:
            return cls.load(str(folder)).to(device)
        import transformers

        hush()
        require_safe(folder)
        try:
            config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            with meta_device():
                model = getattr(transformers, cls.auto).from_config(config, trust_remote_code=False)
                model = model.to(config.dtype or torch.float32)
            classifier = cls.wrap(model, folder)
            shard(classifier, device)
            whole = load_weights(model, sorted(folder.glob("*.safetensors"))) == ([], [])
        except Exception:  # whatever is wrong, the ordinary way says it better
            whole = False
        if not any_rank(not whole):
            require_finite(classifier, folder)
            return classifier
        classifier = cls.load(str(folder))
        shard(classifier, device)
        return classifier

    def save(self, folder: Path) -> None:
        """Write the folder that `from_pretrained` reads."""
        try:
            if is_sharded(self):
                on_rank_0(lambda: self.model.config.save_pretrained(folder))
                save_weights(self.model, folder / "model.safetensors")
            else:
                self.model.save_pretrained(folder, safe_serialization=True)
        except SafetensorError as error:
            if "os error 28" in str(error) or "os error 122" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
            raise FailedError(f"the weights cannot be written: {error}") from None
        self.save_beside(folder)

    def reset_parameters(self) -> None:
        """Re-initialize all weights, as `transformers` does for a model without weights, in place."""
        self.model.load_state_dict(type(self.model)(self.model.config).state_dict())

    def restart(self, name: str) -> None:
        """Take over the weights of a pretrained classifier, all but a head of another size, in place."""
        own, given = self.model.state_dict(), self.load(name, self.model.config.num_labels).model.state_dict()
        if own.keys() != given.keys():
            raise ModelError(f"'{name}' is another architecture than the model's.")
        with torch.no_grad():
            for key, value in own.items():
                if value.shape == given[key].shape:
                    local(value).copy_(shard_of(given[key], value))


def hush() -> None:
    """Keep the Hugging Face libraries from printing."""
    from transformers.utils import logging

    logging.set_verbosity(logging.CRITICAL)
    getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry
    logging.disable_progress_bar()


_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
_TOKENIZER = ("tokenizer.json", "vocab.*", "merges.txt", "*.model", "special_tokens_map.json", "added_tokens.json")
_WANTED = ["*config.json", *_WEIGHTS, *_TOKENIZER]


def on_hub(name: str) -> tuple[str, str | None] | None:
    """Split `owner/name` or `owner/name@revision`; none where the name is that of a place here.

    >>> on_hub("microsoft/resnet-34@1a2b3c"), on_hub("microsoft/resnet-34"), on_hub("/tmp/model@1")
    (('microsoft/resnet-34', '1a2b3c'), ('microsoft/resnet-34', None), None)
    """
    repository, _, revision = name.partition("@")
    path = Path(repository)
    if Path(name).exists() or path.is_absolute() or len(path.parts) != 2 or path.parent.exists():
        return None
    return repository, revision or None


def located(name: str) -> tuple[Path, str]:
    """Find the folder of a classifier, here or on the hub, and its name: on the hub, with the commit."""
    found = on_hub(name)
    if found is None:
        return Path(name), name
    from huggingface_hub import snapshot_download

    hush()
    repository, revision = found
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=_WANTED, ignore_patterns="*/*")
    except Exception as error:  # the hub's client raises whatever its network raises
        raise unloadable(name, error) from None
    return Path(folder), f"{repository}@{Path(folder).name}"


def unloadable(name: str, error: Exception, noun: str = "classifier") -> ModelError:
    """Say why a model cannot be loaded."""
    found = "" if Path(name).is_dir() else f"there is no folder '{name}' here, and "
    return ModelError(f"{found}'{name}' cannot be loaded as a Hugging Face {noun}: {first_line(error)}")
