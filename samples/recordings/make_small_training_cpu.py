"""Makes samples/recordings/small_training_cpu: a small training run on the CPU, recorded by torch.profiler.

    python samples/recordings/make_small_training_cpu.py

The script trains for real: a text classifier of two layers on random tokens, with a data loader that tokenises in the
training process, an evaluation of the loss in every step, and AdamW. It is small enough to be kept beside the code.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from stallscope.cli.main import main as stallscope

HERE = Path(__file__).resolve().parent
STEPS = 4


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Random reviews that are tokenised when they are asked for, as many first versions of a data set are."""

    def __len__(self) -> int:
        """How many there are."""
        return 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """The tokens of one review and whether it is a good one."""
        words = [f"word{(index * 31 + n * 17) % 997}" for n in range(256)]
        tokens = [sum(ord(letter) * 31**place for place, letter in enumerate(word)) % 1000 for word in words]
        return torch.tensor(tokens[:64]), index % 2


class Classifier(nn.Module):
    """Embedding, two attention layers, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Two logits for each review."""
        logits: torch.Tensor = self.head(self.encoder(self.embedding(tokens)).mean(dim=1))
        return logits


def train(trace: Path) -> None:
    """Trains for a few steps and writes their trace."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(Reviews(), batch_size=32))
    when = schedule(wait=1, warmup=1, active=STEPS)
    with profile(activities=[ProfilerActivity.CPU], schedule=when, profile_memory=True, with_stack=False) as prof:
        for _ in range(2 + STEPS):
            tokens, labels = next(batches)
            loss = nn.functional.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            print(f"loss {loss.item():.3f}")
            prof.step()
    prof.export_chrome_trace(str(trace))


def main() -> None:
    """Writes the recording anew."""
    target = HERE / "small_training_cpu"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "small_training_cpu.json"
        train(trace)
        stallscope(["import", str(trace), "-o", str(target)], standalone_mode=False)


if __name__ == "__main__":
    main()
