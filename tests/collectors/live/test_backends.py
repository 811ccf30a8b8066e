"""Backends that are not here: what torch's profiler is asked for, with the vendors' packages or fakes of them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from stallscope.collectors.live.torch_options import OPTIONS, accelerator, profiler_arguments, vendor_config


class NeuronConfig:
    """The arguments of torch_neuronx.profiling.NeuronConfig as its documentation lists them."""

    def __init__(
        self, modes: Any = None, max_events_per_nc: int = 0, capture_enabled_for_nc: str = "",
        profile_output_dir: str = "", neff_cache_dir: str = "", precache_node_info: bool = True,
    ) -> None:  # fmt: skip
        self.profile_output_dir = profile_output_dir


class OlderConfig:
    """One that takes no folder."""

    def __init__(self, event_filters: str = "") -> None:
        self.event_filters = event_filters


def profiling(config: type) -> ModuleType:
    module = ModuleType("torch_neuronx.profiling")
    module.NeuronConfig = config  # type: ignore[attr-defined]
    return module


def test_neurons_plug_in_writes_beside_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_neuronx.profiling", profiling(NeuronConfig))
    config = vendor_config("neuron", tmp_path / "vendor")
    assert isinstance(config, NeuronConfig)
    assert config.profile_output_dir == str(tmp_path / "vendor" / "neuron")
    named = profiler_arguments("deep", "neuron", config, stacks=True)
    assert named["experimental_config"] is config
    assert named["use_device"] == "neuron"
    assert named["record_shapes"]


def test_a_plug_in_that_takes_no_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_neuronx.profiling", profiling(OlderConfig))
    assert vendor_config("neuron", tmp_path) is None
    monkeypatch.delitem(sys.modules, "torch_neuronx.profiling")
    assert vendor_config("neuron", tmp_path) is None
    assert vendor_config("cuda", tmp_path) is None
    assert vendor_config(None, tmp_path) is None


def test_each_kind_of_device_is_found_where_its_module_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("cuda", "xpu", "mtia"):
        with monkeypatch.context() as there:
            asked = []

            def is_available(device: str = device, asked: list[str] = asked) -> bool:
                asked.append(device)
                return True

            used = SimpleNamespace(is_available=is_available, is_initialized=lambda: False)
            there.setattr(torch, device, used, raising=False)
            assert accelerator(only_if_initialised=False) == device
            assert asked == [device]
            assert accelerator(only_if_initialised=True) is None
            assert asked == [device], "asking a driver that the program has not used could initialise it"


def test_a_module_that_raises_has_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bool:
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch, "xpu", SimpleNamespace(is_available=broken))
    assert accelerator(only_if_initialised=False) != "xpu"


def test_stacks_can_be_left_out_of_any_level() -> None:
    for detail, options in OPTIONS.items():
        assert "with_stack" not in profiler_arguments(detail, None, None, stacks=False)
        assert ("with_stack" in profiler_arguments(detail, None, None, stacks=True)) == ("with_stack" in options)


TPU = """
import json, sys
from pathlib import Path
import torch
import torch_tpu._loader as loader
loader._init_device("tpu")
import stallscope
from stallscope.collectors.live.torch_options import accelerator, vendor_config

config = vendor_config("tpu", Path(sys.argv[1]) / "vendor")
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with stallscope.profile(Path(sys.argv[1]) / "run", detail="low") as prof:
    for _ in range(3):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        prof.step()
print(json.dumps({
    "config": type(config).__name__,
    "activities": sorted(str(one) for one in torch.profiler.supported_activities()),
    "device": accelerator(only_if_initialised=True),
}))
"""


@pytest.mark.skipif(importlib.util.find_spec("torch_tpu") is None, reason="torch_tpu is not installed")
def test_tpus_plug_in_is_registered_and_a_run_without_a_chip_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    ran = subprocess.run(
        [sys.executable, "-c", TPU, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.strip().splitlines()[-1])
    assert told["config"] == "TpuProfilerConfig"
    assert any("TPU" in one for one in told["activities"])
    from stallscope.profiler.recording.reader import open_recording

    recording = open_recording(tmp_path / "run")
    assert recording.rank_info(0)["status"] == "completed"
    assert recording.table("slices", columns=["name"])["name"].to_pylist().count("aten::addmm") == 3
