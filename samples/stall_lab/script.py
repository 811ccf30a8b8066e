"""Writes the script of a run: two files, a training loop and its data, with everything that is drawn from the seed."""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from .regimes import Regime
from .workload import SLOTS, Workload

WIDTH, BATCH = 32, 16
_WORDS = """
    acorn amber anvil basil birch bramble cedar cinder clover cobalt copper coral crane delta dune ember fable
    fern flint garnet glade harbor hazel heron indigo iris ivory jasper juniper kestrel lagoon larch linden
    lotus maple meadow merlin moss nectar nettle onyx opal osprey otter pebble pepper poplar quartz quill
    raven ridge russet saffron sage sienna slate sorrel sparrow spruce tallow teal thicket thistle tundra
    umber velvet walnut willow
""".split()  # noqa: SIM905 - a wall of quotes reads worse

_TRAINING = '''"""Trains a small network on random numbers."""

import gc
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from $data_module import $dataset

{module}

class $model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear($width, $width) for _ in range($depth))

    def forward(self, x):
        for place, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            {forward}
        return x


class $state:
    def __init__(self, device, folder):
        self.device, self.folder = device, folder
        self.model = $model().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, foreach=False)
        self.number = 0
        {prepare}


def $train(state, steps, end_of_step):
    device, folder, model = state.device, state.folder, state.model
    loader = DataLoader($dataset(steps), batch_size=None, num_workers=$workers)
    for batch in loader:$loop_mark
        state.number += 1
        x = batch.pin_memory().to(device, non_blocking=True)
        {copy}
        out = model(x)
        {between}
        loss = out.square().mean()
        loss.backward()
        {gradients}
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
        {end}
        end_of_step()
'''

_DATA = '''"""Random batches."""

import time

import torch
from torch.utils.data import Dataset

{data_module}

class $dataset(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        {item}
        return torch.randn($batch, $width)
'''


@dataclass(frozen=True, slots=True)
class Script:
    """A script on disk.

    Attributes:
        module: Name of the module with the loop.
        train: Name of its function that trains.
        state: Name of its class that holds model and optimizer.
        lines: Per injection that is on, the lines to blame as (file name, line).
        synchronizing: The line that waits for the device in every step, in the regime that has one.
    """

    module: str
    train: str
    state: str
    lines: dict[str, list[tuple[str, int]]]
    synchronizing: tuple[str, int] | None


def drawn_values(workload: Workload, regime: Regime, seed: int) -> dict[str, Any]:
    """Names, sizes and durations of a run: the same for every choice of what is switched on."""
    rng = random.Random(f"{workload.name} {regime.name} {seed}")
    words = rng.sample(_WORDS, 8)
    values: dict[str, Any] = {
        "data_module": words[0] + "_data", "train_module": words[1] + "_run", "model": words[2].title() + "Net",
        "dataset": words[3].title() + "Set", "state": words[4].title() + "State", "train": "train_" + words[5],
        "helper": words[6], "other": words[7], "width": WIDTH, "batch": BATCH, "depth": rng.randint(7, 9), "workers": 0,
        "loop_mark": "",
    }  # fmt: skip
    values["position"] = rng.randrange(1, values["depth"] - 1)
    values.update(workload.draw(rng, regime))
    for injection in workload.injections:
        values.update(injection.draw(rng, regime))
    return values


def write_script(workload: Workload, regime: Regime, seed: int, on: frozenset[str], folder: Path) -> Script:
    """Writes both files into ``folder``, with the injections in ``on``."""
    values = drawn_values(workload, regime, seed)
    for injection in workload.injections:
        chosen = 0 if injection.name in on else 1
        values.update({name: pair[chosen] for name, pair in injection.switched.items()})
    slots = _slots(workload, on)
    if regime.synchronizes:
        slots["end"].append("torch.accelerator.synchronize()  #! sync")
    lines: dict[str, list[tuple[str, int]]] = {}
    for module, source in ((values["train_module"], _TRAINING), (values["data_module"], _DATA)):
        text = Template(_filled(source, slots)).substitute(values)
        kept = []
        for number, line in enumerate(text.splitlines(), 1):
            code, mark, name = line.partition("#!")
            if mark:
                lines.setdefault(name.strip(), []).append((f"{module}.py", number))
            kept.append(code.rstrip())
        (folder / f"{module}.py").write_text("\n".join(kept) + "\n")
    sync = lines.pop("sync", [None])[0]
    return Script(values["train_module"], values["train"], values["state"], lines, sync)


def _slots(workload: Workload, on: frozenset[str]) -> dict[str, list[str]]:
    """The code of each slot, marks followed by the name of their injection."""
    slots: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    for slot, text in workload.slots.items():
        slots[slot].append(text)
    for injection in workload.injections:
        for slot, code in injection.slots.items():
            text = code.on if injection.name in on else code.off
            slots[slot].append(text.replace("#!", f"#! {injection.name}"))
    return slots


def _filled(source: str, slots: dict[str, list[str]]) -> str:
    lines = []
    for line in source.splitlines():
        slot = line.strip()[1:-1]
        if line.strip() != "{" + slot + "}":
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        lines += [textwrap.indent(textwrap.dedent(code).strip("\n"), indent) for code in slots[slot] if code]
    return "\n".join(lines)
