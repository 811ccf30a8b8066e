"""A small training run with three ordinary mistakes, for ``./run demo``: see what a recording says of them.

    stallscope record -o runs/demo samples/demo_training.py

It trains a transformer of four layers on made-up reviews, on the simulated accelerator (a real PyTorch device, built on
first use), or on the CPU where there is no C++ compiler. The reviews are tokenised in the training process, letter by
letter; the pooling takes a median, for which the device has no kernel; and the loss is read back in every step. With
--fixed the same run has none of the three: compare the two with stallscope compare.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 32
WIDTH = 64
SPEEDS = {"tensor": (8e9, 5_000), "vector": (2e9, 5_000)}
"""Of the simulated accelerator: floating-point operations and bytes a second, ns an operation."""

WORDS = [f"{first}{second}" for first in ("good", "bad", "long", "slow", "new") for second in ("ish", "ly", "er", "")]


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Made-up reviews, tokenised when they are asked for: the first mistake."""

    def __init__(self, *, ready: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randint(0, len(WORDS), (4096, 512), generator=generator).tolist()
        self._texts = [" ".join([WORDS[word] for word in review]) for review in chosen]
        self._ids = {word: number for number, word in enumerate(WORDS)}
        self._ready: torch.Tensor | None = None
        if ready:
            self._ready = torch.tensor([[self._ids[word] for word in text.split()[:LENGTH]] for text in self._texts])

    def __len__(self) -> int:
        """How many there are."""
        return len(self._texts)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """The first tokens of one review, and whether it is a good one."""
        if self._ready is not None:
            return self._ready[index], index % 2
        tokens, word = [], ""
        for letter in self._texts[index]:
            if letter == " ":
                tokens += [self._ids[word]]
                word = ""
            else:
                word += letter
        return torch.tensor(tokens[:LENGTH]), index % 2


class Classifier(nn.Module):
    """Embedding, four transformer layers, the median over the sequence and a linear head."""

    def __init__(self, *, mean: bool) -> None:
        super().__init__()
        self.mean = mean
        self.embedding = nn.Embedding(len(WORDS), WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Two logits for each review."""
        hidden = self.encoder(self.embedding(tokens))
        # The second mistake: the device has no kernel for the median.
        pooled = hidden.mean(dim=1) if self.mean else hidden.median(dim=1).values
        logits: torch.Tensor = self.head(pooled)
        return logits


def device() -> torch.device:
    """The simulated accelerator; the CPU, with the reason, where it cannot be built."""
    from stallscope.samples import simulated_accelerator

    reason = simulated_accelerator.unavailable_reason()
    if reason:
        print(f"Training on the CPU: {reason}")
        return torch.device("cpu")
    simulated_accelerator.load(progress=print)
    for queue in ("tensor", "vector"):  # a step of about 100 ms, most of it on the device
        speed, overhead_ns = SPEEDS[queue]
        simulated_accelerator.set_speed(queue, speed, overhead_ns=overhead_ns)
    return torch.device("sim")


def main() -> None:
    """Trains for some steps and prints the loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--fixed", action="store_true", help="without the three mistakes")
    options = parser.parse_args()
    steps, fixed = options.steps, options.fixed
    torch.manual_seed(0)
    torch.set_num_threads(1)
    where = device()
    model = Classifier(mean=fixed).to(where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (tokens, labels) in zip(range(steps), DataLoader(Reviews(ready=fixed), batch_size=16), strict=False):
        loss = nn.functional.cross_entropy(model(tokens.to(where)), labels.to(where))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if not fixed or step % 10 == 0:
            value = loss.item()  # the third mistake: waits for the device in every step
            if step % 10 == 0:
                print(f"step {step:3d}  loss {value:.3f}")


if __name__ == "__main__":
    main()
