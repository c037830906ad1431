"""Reviews made of a few words, and a very small BERT that reads them: what the examples of texts work on."""

import random
from typing import Any

import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

WORDS = {"good": ("great", "lovely", "fine", "superb", "warm"), "bad": ("awful", "dull", "poor", "cold", "flat")}
TEMPLATES = ("the {} film was {}", "a {} and {} story", "{} acting , {} music", "i found the {} play rather {}")


def reviews(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Make rows with a user, a text and a mood."""
    draw, rows = random.Random(seed), []
    for number in range(count):
        mood = draw.choice(("good", "bad"))
        words = draw.choices(WORDS[mood] if draw.random() < 0.9 else WORDS["good"] + WORDS["bad"], k=2)
        rows.append({"user": f"user {number % 40}", "text": draw.choice(TEMPLATES).format(*words), "mood": mood})
    return rows


def small_bert() -> tuple[Any, Any]:
    """Build the model, untrained, and its tokenizer."""
    known = sorted({word for words in (*WORDS.values(), " ".join(TEMPLATES).split()) for word in words})
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(["[PAD]", "[UNK]", *known])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=16, **size)
    config.id2label, config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    return BertForSequenceClassification(config), tokenizer
