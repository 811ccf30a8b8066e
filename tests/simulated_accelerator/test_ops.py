"""Ops of the device against the same ops of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

Op = Callable[..., Any]

# Name and function of two float matrices a, b (6 x 8), a vector of indices i (below 6), a mask m (6 x 8).
NATIVE: dict[str, Op] = {
    "arithmetic": lambda a, b, i, m: (a + 2 * b - a / (b.abs() + 1) + a.pow(2) - 3) ** 2,
    "in place": lambda a, b, i, m: a.clone().add_(b).mul_(2).sub_(1).div_(3).clamp_(-1, 1),
    "exponentials": lambda a, b, i, m: (a.exp(), a.abs().log1p(), a.sigmoid(), a.tanh(), (a.abs() + 1).rsqrt()),
    "rounding": lambda a, b, i, m: (a.floor(), a.ceil(), a.round(), a.trunc(), a.sign()),
    "comparisons": lambda a, b, i, m: ((a > b) & (a != 0), (a <= 0) | m, ~m, torch.isnan(a)),
    "activations": lambda a, b, i, m: (F.relu(a), F.gelu(a), F.silu(a), F.elu(a), F.leaky_relu(a), F.softplus(a)),
    "where": lambda a, b, i, m: (torch.where(m, a, b), torch.where(m, a, 0.0), a.masked_fill(m, -1)),
    "where with an output": lambda a, b, i, m: torch.where(m, a, b, out=torch.empty(0, device=a.device)),
    "sums": lambda a, b, i, m: (a.sum(), a.sum(0), a.mean(1, keepdim=True), a.prod(1), m.sum()),
    "extremes": lambda a, b, i, m: (a.max(), a.min(), *a.max(1), a.argmax(0), a.amin(1), m.any(), m.all(1)),
    "variance": lambda a, b, i, m: (a.var(), a.std(1), *torch.var_mean(a, 0), a.norm(), a.norm(dim=1)),
    "scans": lambda a, b, i, m: (a.cumsum(1), a.abs().cumprod(0), a.logsumexp(1)),
    "softmax": lambda a, b, i, m: (a.softmax(1), a.log_softmax(0)),
    "products": lambda a, b, i, m: (a @ b.T, a[0] @ b[0], a @ b[0], torch.einsum("ij,kj->ik", a, b)),
    "batched product": lambda a, b, i, m: a.view(2, 3, 8) @ b.view(2, 8, 3),
    "product added": lambda a, b, i, m: torch.addmm(a[:, :6], a, b.T, beta=0.5, alpha=2),
    "order": lambda a, b, i, m: (*a.sort(1), *a.topk(3, 1), a.argsort(0)),
    "gather": lambda a, b, i, m: (a[i], a.index_select(0, i), a.gather(0, i[:4].view(1, 4)), a[i, i], a[m]),
    "scatter": lambda a, b, i, m: (
        a.index_add(0, i, b[: len(i)]),
        a.scatter(0, i[:4].view(1, 4), b[:1, :4]),
        a.scatter_add(0, i[:4].view(1, 4), b[:1, :4]),
        a.index_put((i,), b[0]),
    ),
    "joining": lambda a, b, i, m: (torch.cat([a, b]), torch.stack([a, b], 1), *a.chunk(2, 1), *a.split(4)),
    "shape": lambda a, b, i, m: (
        a.T,
        a.reshape(8, 6),
        a.view(-1),
        a[::2, 1::3],
        a.flip(0),
        a.roll(1, 1),
        a.repeat(2, 1),
    ),
    "triangles": lambda a, b, i, m: (a.tril(), a.triu(1)),
    "values": lambda a, b, i, m: (a.nonzero(), a.masked_select(m), torch.equal(a, b), torch.equal(a, a.clone())),
    "types": lambda a, b, i, m: (a.double(), a.half(), a.bfloat16().float(), a.int(), m.float(), i.to(torch.int32)),
    "integers": lambda a, b, i, m: (i // 2, i % 3, i * i, i.sum(), i.prod(), i.float().mean()),
    "factories": lambda a, b, i, m: (
        torch.arange(2, 9, 3, device=a.device),
        torch.linspace(0, 1, 5, device=a.device),
        torch.eye(3, device=a.device),
        torch.full((2, 3), 4.5, device=a.device),
        torch.zeros_like(a),
        torch.ones(3, dtype=torch.long, device=a.device),
    ),
    "losses": lambda a, b, i, m: (
        F.mse_loss(a, b),
        F.l1_loss(a, b, reduction="none"),
        F.smooth_l1_loss(a, b),
        F.cross_entropy(a, i.repeat(2)[:6]),
        F.binary_cross_entropy(a.sigmoid(), m.float()),
        F.binary_cross_entropy_with_logits(a, m.float()),
    ),
    "norms": lambda a, b, i, m: (
        F.layer_norm(a, (8,)),
        F.layer_norm(a.view(2, 3, 8), (3, 8), b.view(2, 3, 8)[0], b.view(2, 3, 8)[1]),
        F.group_norm(a.view(1, 6, 8), 3),
        F.batch_norm(a.view(2, 3, 8), None, None, training=True),
    ),
    "images": lambda a, b, i, m: (
        F.conv2d(a.view(1, 1, 6, 8), b[:3, :3].reshape(1, 1, 3, 3), padding=1),
        F.conv1d(a.view(1, 6, 8), b.reshape(4, 6, 2), torch.ones(4, device=a.device), dilation=2),
        F.conv_transpose1d(a.view(1, 6, 8), b.reshape(6, 4, 2), stride=3, output_padding=1),
        F.max_pool2d(a.view(1, 1, 6, 8), 2),
        F.avg_pool2d(a.view(1, 1, 6, 8), 2),
        F.adaptive_avg_pool2d(a.view(1, 1, 6, 8), (2, 3)),
        F.interpolate(a.view(1, 1, 6, 8), scale_factor=2),
        F.pad(a, (1, 2)),
    ),
    "lists": lambda a, b, i, m: (
        *torch._foreach_add([a, b], 1.0),
        *torch._foreach_mul([a, b], [b, a]),
        *torch._foreach_norm([a, b]),
        *torch._foreach_sqrt([a.abs(), b.abs()]),
    ),
    "output given": lambda a, b, i, m: (
        torch.add(a, b, out=torch.empty(0, device=a.device)),
        torch.mm(a, b.T, out=torch.empty(6, 6, device=a.device)),
        torch.cat([a, b], out=torch.empty(0, device=a.device)),
    ),
}

WITHOUT_KERNEL: dict[str, Op] = {
    "unique": lambda a, b, i, m: torch.unique(i),
    "inverse": lambda a, b, i, m: torch.linalg.inv(a[:, :6] + 10 * torch.eye(6, device=a.device)),
    "bucketize": lambda a, b, i, m: torch.bucketize(a, a[0].sort()[0]),
}


def arguments(device: str) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(6, 8, generator=generator).to(device) for _ in range(2))
    return a, b, torch.tensor([3, 1, 5, 2, 0], device=device), (torch.rand(6, 8, generator=generator) > 0.5).to(device)


def results(op: Op, device: str) -> list[Any]:
    value = op(*arguments(device))
    return list(value) if isinstance(value, (tuple, list)) else [value]


def assert_same(op: Op) -> None:
    expected = results(op, "cpu")
    found = results(op, "sim")
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert ours.device.type == "sim"
            torch.testing.assert_close(ours.cpu(), theirs)
        else:
            assert ours == theirs


@pytest.mark.parametrize("name", NATIVE)
def test_an_op_with_a_kernel_gives_what_the_cpu_gives(sim: Any, name: str) -> None:
    assert_same(NATIVE[name])
    assert sim.fallback_counts() == {}


@pytest.mark.parametrize("name", WITHOUT_KERNEL)
def test_an_op_without_a_kernel_falls_back_and_is_counted(sim: Any, name: str) -> None:
    assert_same(WITHOUT_KERNEL[name])
    assert sum(sim.fallback_counts().values()) >= 1


@pytest.mark.parametrize("op", ["aten::gelu", "aten::native_layer_norm", "aten::convolution"])
def test_a_kernel_can_be_taken_away(sim: Any, op: str) -> None:
    def use(device: str) -> Any:
        torch.manual_seed(0)
        x = torch.randn(2, 3, 8).to(device)
        return F.layer_norm(F.gelu(F.conv1d(x, torch.ones(3, 3, 2, device=device))), (7,))

    with sim.without_kernel(op):
        found = use("sim")
    assert list(sim.fallback_counts().values()) == [1]
    torch.testing.assert_close(found.cpu(), use("cpu"))
    sim.reset_fallback_counts()
    use("sim")
    assert sim.fallback_counts() == {}


def test_a_kernel_that_does_not_exist_cannot_be_taken_away(sim: Any) -> None:
    with (
        pytest.raises(RuntimeError, match=r"aten::no_such_op.*without an overload"),
        sim.without_kernel("aten::no_such_op"),
    ):
        pass


LAYOUTS: dict[str, Op] = {
    "whole": lambda t: t,
    "transposed": lambda t: t.T,
    "strided": lambda t: t[::2, 1::2],
    "one column": lambda t: t[:, 3],
    "expanded": lambda t: t[:1].expand(6, 8),
    "nothing": lambda t: t[:0],
}


@pytest.mark.parametrize(
    "direction", [("cpu", "sim"), ("sim", "cpu"), ("sim", "sim"), ("sim", "sim:1"), ("sim:1", "sim")]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_keep_values_over_layouts_and_types(
    sim: Any, layout: str, dtype: Any, direction: tuple[str, str]
) -> None:
    source = torch.arange(48, dtype=torch.float32).reshape(6, 8)
    view = LAYOUTS[layout](source.to(direction[0]))
    expected = LAYOUTS[layout](source).to(dtype)
    torch.testing.assert_close(view.to(direction[1], dtype).cpu(), expected)
    target = torch.zeros(8, 6, dtype=dtype, device=direction[1]).T[: len(view)]
    if expected.dim() == 2 and expected.shape == target.shape:
        target.copy_(view)
        torch.testing.assert_close(target.cpu(), expected)
    assert sim.fallback_counts() == {}


def test_tensors_of_two_devices_do_not_mix(sim: Any) -> None:
    with pytest.raises(RuntimeError, match=r"same device|expected all tensors on"):
        torch.ones(3, device="sim:0") + torch.ones(3, device="sim:1")
    with pytest.raises(RuntimeError, match=r"same device|expected all tensors on"):
        torch.ones(3, device="sim") + torch.ones(3)
    assert (torch.ones(3, device="sim") + torch.tensor(1.0)).tolist() == [2, 2, 2]


def test_random_numbers_follow_the_seed(sim: Any) -> None:
    def draw() -> list[Any]:
        return [
            torch.rand(5, device="sim").tolist(),
            torch.randn(5, device="sim").tolist(),
            torch.randint(0, 100, (5,), device="sim").tolist(),
            torch.randperm(10, device="sim").tolist(),
            F.dropout(torch.ones(20, device="sim")).tolist(),
            torch.multinomial(torch.ones(4, device="sim"), 6, replacement=True).tolist(),
        ]

    torch.manual_seed(7)
    first = draw()
    state = torch.sim.get_rng_state()
    second = draw()
    assert first != second
    torch.manual_seed(7)
    assert draw() == first
    torch.sim.set_rng_state(state)
    assert draw() == second
    generator = torch.Generator(device="sim").manual_seed(5)
    drawn = torch.rand(4, device="sim", generator=generator)
    assert drawn.tolist() == torch.rand(4, device="sim", generator=generator.manual_seed(5)).tolist()
    assert 0 <= drawn.min().item() <= drawn.max().item() < 1
    assert sim.fallback_counts() == {}


def test_a_storage_grows_and_keeps_its_content(sim: Any) -> None:
    tensor = torch.arange(4, device="sim")
    tensor.resize_(6)
    assert tensor.tolist()[:4] == [0, 1, 2, 3]
    assert tensor.shape == (6,)
    tensor.untyped_storage().resize_(800)
    assert tensor.tolist()[:4] == [0, 1, 2, 3]
