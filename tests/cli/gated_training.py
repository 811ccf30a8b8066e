"""Records a small training run on the simulated accelerator, several times, with one change in it or none.

python gated_training.py FOLDER CHANGE[:RUNS] ...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import stallscope
from stallscope.samples import simulated_accelerator as sim

BATCH, WIDTH, LAYERS, STEPS = 32, 64, 4, 10


class Numbers(Dataset):
    def __init__(self, change):
        self.change = change

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if self.change == "loader":
            time.sleep(0.1)
        return torch.randn(BATCH, WIDTH)


class Net(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        if self.change == "fallback":
            x = torch.nan_to_num(x)
        if self.change == "memory":
            x = torch.cat([x, x, x, x], dim=1)
        return x


def train(change, end_of_step):
    torch.manual_seed(0)
    model = Net(change).to("sim")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    for number, batch in enumerate(DataLoader(Numbers(change), batch_size=None)):
        x = batch.to("sim")
        if change == "recompile" and number >= 4:
            x = x[:-number]
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        end_of_step()


def main():
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    sim.load()
    # The device takes far longer than the host, so that a busy machine changes little.
    sim.set_speed("tensor", 2 * BATCH * WIDTH * WIDTH / 2e-3, overhead_ns=2_000_000)
    sim.configure(compile_ns=3_000_000, compiled_load_ns=3_000_000)
    train("none", lambda: None)
    for word in sys.argv[2:]:
        change, _, runs = word.partition(":")
        for number in range(int(runs or 1)):
            with stallscope.profile(folder / change / f"run{number}") as prof:
                train(change, prof.step)


if __name__ == "__main__":
    main()
