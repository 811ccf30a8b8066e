"""How far two results are apart: against a calculation element by element, and on models."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch")

from stallscope.profiler.session.coverage_agreement import agreement, largest_error, relative_error  # noqa: E402
from stallscope.profiler.session.coverage_task import CoverageTask  # noqa: E402
from stallscope.profiler.session.coverage_training import Training, Workload, called, moved  # noqa: E402


def test_it_is_the_largest_difference_over_the_largest_value() -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(30):
        expected = torch.randn(3, 5, generator=generator)
        found = expected + 1e-3 * torch.randn(3, 5, generator=generator)
        pairs = list(zip(found.flatten().tolist(), expected.flatten().tolist(), strict=True))
        slow = max(abs(mine - theirs) for mine, theirs in pairs) / max(abs(theirs) for _, theirs in pairs)
        assert relative_error(found, expected) == slow


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 1e-9], [0.0, 0.0], math.inf),
        ([1.0, math.nan], [1.0, 2.0], math.inf),
        ([1.0, 2.0], [1.0, math.inf], math.inf),
        ([1.5, math.inf], [1.0, math.inf], 0.5),
        ([1.0], [1.0, 2.0], math.inf),
        ([], [], 0.0),
    ],
)
def test_special_values(found: list[float], expected: list[float], error: float) -> None:
    assert relative_error(torch.tensor(found), torch.tensor(expected)) == error


def test_a_small_scale_is_not_divided_by() -> None:
    assert relative_error(torch.tensor([2e-8]), torch.tensor([1e-8]), smallest_scale=1e-3) == pytest.approx(1e-5)


def test_lists_that_do_not_match() -> None:
    one = torch.ones(2)
    assert largest_error([one], [one, one]) == math.inf
    assert largest_error([], []) is None


class Scaled(torch.nn.Module):
    """A linear layer whose output is wrong by a factor where it is told so, behind dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.dropout = torch.nn.Dropout(0.5)
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.layer(x)) * self.factor


def compared(factor: float, tolerance: float | None = None, *, trained: bool = True) -> dict[str, object]:
    torch.manual_seed(0)
    model = Scaled()
    reference = copy.deepcopy(model)
    workload = Workload(
        model, lambda step: (torch.randn(8, 4, generator=torch.Generator().manual_seed(step)), torch.zeros(8, 3)),
        torch.nn.functional.mse_loss if trained else None,
    )  # fmt: skip
    training = Training(workload, CoverageTask("eager", "m", device="cpu", optimizer="SGD"))
    for number in range(3):
        training.step(training.batch(number))
    model.factor = factor
    return agreement(training, reference, workload.loss, tolerance, "float32")


def test_the_same_model_agrees_though_it_was_trained_and_drops_out() -> None:
    found = compared(1.0)
    assert (found["outputs"], found["loss"], found["gradients"]) == (0.0, 0.0, 0.0)
    assert (found["agrees"], found["tolerance"], found["not_finite"]) == (True, 1e-4, [])


def test_a_model_that_is_off_by_one_percent() -> None:
    found = compared(1.01)
    assert found["outputs"] == pytest.approx(0.01, rel=1e-4)
    assert found["loss"] == pytest.approx(1.01**2 - 1, rel=1e-4)
    assert found["gradients"] == pytest.approx(1.01**2 - 1, rel=1e-4)
    assert found["agrees"] is False
    assert compared(1.01, tolerance=0.03)["agrees"] is True


def test_a_result_that_is_not_finite_never_agrees() -> None:
    found = compared(math.nan, tolerance=1e9)
    assert (found["outputs"], found["agrees"]) == (None, False)
    assert found["not_finite"] == ["outputs", "loss", "gradients"]


def test_a_model_that_is_only_called_has_outputs_alone() -> None:
    found = compared(1.0, trained=False)
    assert (found["outputs"], found["loss"], found["gradients"], found["agrees"]) == (0.0, None, None, True)


def test_inputs_of_each_form_reach_the_model() -> None:
    assert called(lambda a, b=0: (a, b), (1, 2)) == (1, 2)
    assert called(lambda a, b=0: (a, b), {"a": 1, "b": 3}) == (1, 3)
    assert called(lambda a: a, 5) == 5
    tokens, scale = torch.arange(3), torch.ones(2)
    told = moved({"tokens": tokens, "rest": (scale, "text")}, "cpu", torch.bfloat16)
    assert told["tokens"].dtype == torch.int64
    assert told["rest"][0].dtype == torch.bfloat16
    assert told["rest"][1] == "text"
