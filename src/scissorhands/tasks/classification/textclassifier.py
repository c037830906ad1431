"""Text classifiers of Hugging Face, with the tokenizer of their folders."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from ...data.readers import Kind
from ...data.records import MASK
from ...data.texts import text_kind
from ...distributed import on_rank_0
from ...errors import ModelError
from ..pretrained import first_line, read_config, require_safe
from .huggingface import HuggingFaceModel

_TOKENS = "input_ids"
_POSITIONS = "max_position_embeddings"


class TextClassifier(HuggingFaceModel):
    """A text classifier from `transformers`. Its inputs are tokens by name, filled up with zeros where a mask is 0."""

    noun: ClassVar[str] = "text classifier"
    auto: ClassVar[str] = "AutoModelForSequenceClassification"

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__(model)
        self.tokenizer = tokenizer

    @classmethod
    def wrap(cls, model: Any, folder: Path) -> "TextClassifier":
        return cls(model, _tokenizer(folder))

    @classmethod
    def kind_of(cls, folder: Path) -> Kind:
        require_safe(folder)
        return _tokens(_tokenizer(folder), read_config(folder / "config.json").get(_POSITIONS))

    @property
    def kind(self) -> Kind:
        return _tokens(self.tokenizer, getattr(self.model.config, _POSITIONS, None))

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return one score per class."""
        padding = self.tokenizer.pad_token_id
        tokens = inputs[_TOKENS].masked_fill(inputs[MASK] == 0, padding) if padding else inputs[_TOKENS]
        logits: Tensor = self.model(**{**inputs, _TOKENS: tokens}).logits
        return logits

    def save_beside(self, folder: Path) -> None:
        on_rank_0(lambda: self.tokenizer.save_pretrained(folder))


def _tokenizer(folder: Path) -> Any:
    """Read the tokenizer in a folder, without the network and without its code."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever its many readers raise
        raise ModelError(f"{folder} has no tokenizer that can be read: {first_line(error)}") from None


def _tokens(tokenizer: Any, positions: int | None) -> Kind:
    """Return the kind of data that a tokenizer makes of texts, cut where the model cannot read on."""
    limit = min(int(tokenizer.model_max_length), positions or 1 << 30)
    return text_kind(partial(_encoded, tokenizer, limit))


def _encoded(tokenizer: Any, limit: int, texts: Sequence[str]) -> dict[str, list[list[int]]]:
    return dict(tokenizer(list(texts), truncation=True, max_length=limit, return_attention_mask=True))
