"""A causal transformer: matrix products, softmax, layer normalisation, embeddings."""

from __future__ import annotations

import torch
from torch import nn

WORDS = 500
WIDTH = 64
LENGTH = 32


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each behind a layer norm."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sequence with what its positions have learned from those before them."""
        batch, length, _ = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        result: torch.Tensor = x + self.feed_forward(x)
        return result


class LanguageModel(nn.Module):
    """Two blocks between an embedding and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next word at each position."""
        logits: torch.Tensor = self.head(self.blocks(self.words(tokens)))
        return logits


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight sequences and their next words."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, WORDS, (8, LENGTH + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def loss(logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Cross entropy over all positions."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())


def make() -> tuple[nn.Module, object, object]:
    """The factory."""
    return LanguageModel(), batch, loss
