"""Models train on the device as they do on the CPU, and no op of theirs falls back."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("foreach", [None, False], ids=["foreach", "one-by-one"])
@pytest.mark.parametrize("name", ["perceptron", "convolutional", "transformer"])
def test_losses_equal_those_of_the_cpu(sim: Any, name: str, foreach: bool | None) -> None:
    from .models import train

    expected = train(name, "cpu", foreach=False)
    assert train(name, "sim", foreach=foreach) == pytest.approx(expected, rel=1e-4)
    assert expected[-1] != pytest.approx(expected[0], rel=1e-2), "the run must learn something to compare"
    assert sim.fallback_counts() == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["perceptron", "convolutional", "transformer"])
def test_losses_of_a_compiled_model_equal_those_of_the_cpu(sim: Any, name: str) -> None:
    from .models import train

    torch._dynamo.reset()
    assert train(name, "sim", backend="aot_eager") == pytest.approx(train(name, "cpu"), rel=1e-4)
    assert sim.fallback_counts() == {}


def test_the_second_device_trains_too(sim: Any) -> None:
    from .models import train

    assert train("perceptron", "sim:1") == pytest.approx(train("perceptron", "cpu"), rel=1e-4)
    log = sim.engine_log()
    assert set(log.device) == {1}


def test_work_goes_to_the_queue_of_its_kind(sim: Any) -> None:
    from .models import train

    train("convolutional", "sim", steps=1)
    log = sim.engine_log()
    queue_of = {log.names[name]: sim.QUEUES[queue] for name, queue in zip(log.name, log.queue, strict=True)}
    assert queue_of["sim::convolution_kernel<float>"] == "tensor"
    assert queue_of["sim::addmm_kernel<float>"] == "tensor"
    assert queue_of["sim::native_batch_norm_kernel<float>"] == "vector"
    assert queue_of["Memcpy HtoD (Pageable -> Device)"] == "dma_in"
    assert queue_of["Memcpy DtoH (Device -> Pinned)"] == "dma_out"


@pytest.mark.parametrize("fused", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_a_fused_optimizer_is_one_kernel(sim: Any, fused: Any) -> None:
    def stepped(device: str, **options: Any) -> Any:
        torch.manual_seed(1)
        weight = torch.nn.Parameter(torch.randn(5, 7).to(device))
        optimizer = fused([weight], lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            sim.reset_engine_log()
            optimizer.step()
        return weight.detach().cpu()

    on_device = stepped("sim", fused=True)
    kernels = [name for name in sim.engine_log().names if "fused" in name]
    assert len(kernels) == 1
    torch.testing.assert_close(on_device, stepped("cpu", foreach=False))
    assert sim.fallback_counts() == {}


def test_autocast_multiplies_in_the_lower_precision(sim: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)).to("sim")
    with torch.autocast("sim", dtype=torch.bfloat16):
        hidden = model[0](torch.ones(4, 8, device="sim"))
        output = model[1](hidden)
    output.sum().backward()
    assert (hidden.dtype, output.dtype) == (torch.bfloat16, torch.float32)
    assert "sim::addmm_kernel<bFloat16>" in sim.engine_log().names
    assert sim.fallback_counts() == {}


def test_a_checkpoint_of_the_device_loads_on_both_sides(sim: Any, tmp_path: Any) -> None:
    weights = {"weight": torch.arange(6.0, device="sim:1").view(2, 3)}
    torch.save(weights, tmp_path / "checkpoint.pt")
    on_device = torch.load(tmp_path / "checkpoint.pt")["weight"]
    on_host = torch.load(tmp_path / "checkpoint.pt", map_location="cpu")["weight"]
    assert (str(on_device.device), str(on_host.device)) == ("sim:1", "cpu")
    assert on_device.tolist() == on_host.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_recomputed_activations_draw_the_same_dropout(sim: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).to("sim")
    x = torch.randn(64, 8, device="sim", requires_grad=True)
    torch.manual_seed(2)
    output = checkpoint(layer, x, use_reentrant=False)
    output.sum().backward()
    kept = (output != 0).float()
    expected = (2 * kept) @ layer[0].weight
    torch.testing.assert_close(x.grad.cpu(), expected.detach().cpu())
