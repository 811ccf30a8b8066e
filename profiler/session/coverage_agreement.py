"""How far a device's outputs, loss and gradients are from the CPU's, for one batch, at a stated precision.

The relative error of a tensor is ``max |device - cpu| / max |cpu|`` over its elements: element by element, a value that
is nearly zero would decide. A gradient that is nearly zero as a whole (of a bias in front of a normalisation, say) is
rounding noise on both sides; so no gradient is measured on a scale below a thousandth of the model's largest one.
"""

from __future__ import annotations

import math
from typing import Any

from .coverage_training import Training, called

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""The largest relative error that counts as agreement, by precision: about a thousand roundings in float32, ten in the
16-bit types, whose sums are mostly kept in float32."""

SMALLEST_SCALE = 1e-3


def agreement(training: Training, reference: Any, loss: Any, tolerance: float | None, precision: str) -> dict[str, Any]:
    """Compares one pass over the first batch, from the same parameters, with dropout off.

    Args:
        training: On the device; its parameters are overwritten with those of ``reference``.
        reference: The same model on the CPU, in the same precision, untrained.
        loss: The workload's loss function, or None.
        tolerance: Instead of the one in ``TOLERANCES``.
        precision: The element type.

    Returns:
        precision, tolerance, outputs, loss, gradients (the largest relative errors; null: not compared, or not finite),
        worst_gradient (the parameter), not_finite (names of what is finite on one side only), agrees.
    """
    torch = training.torch
    batch = training.batch(0)
    training.model.load_state_dict(reference.state_dict())
    for model in (training.model, reference):
        model.zero_grad(set_to_none=True)
        _without_dropout(model, torch)
    outputs, value = training.pass_(batch)
    expected, expected_value = _on_cpu(torch, reference, batch, loss)
    found = {"outputs": _flat(outputs), "loss": _flat(value)}
    wanted = {"outputs": _flat(expected), "loss": _flat(expected_value)}
    errors: dict[str, float | None] = {name: largest_error(found[name], wanted[name]) for name in found}
    gradients = _gradient_errors(training.model, reference)
    worst = max(gradients, key=lambda name: gradients[name], default=None)
    errors["gradients"] = gradients[worst] if worst is not None else None
    limit = tolerance if tolerance is not None else TOLERANCES.get(precision, TOLERANCES["float32"])
    told = [error for error in errors.values() if error is not None]
    return {
        "precision": precision,
        "tolerance": limit,
        **{name: error if error is None or math.isfinite(error) else None for name, error in errors.items()},
        "worst_gradient": worst,
        "not_finite": [name for name, error in errors.items() if error is not None and not math.isfinite(error)],
        "agrees": all(error <= limit for error in told) if told else None,
    }


def _on_cpu(torch: Any, model: Any, batch: tuple[Any, Any], loss: Any) -> tuple[Any, Any]:
    inputs, targets = batch
    if loss is None:
        with torch.no_grad():
            return called(model.eval(), inputs), None
    outputs = called(model, inputs)
    value = loss(outputs, targets)
    value.backward()
    return outputs, value


def _without_dropout(model: Any, torch: Any) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.eval()


def _gradient_errors(model: Any, reference: Any) -> dict[str, float]:
    """Per parameter that has a gradient on either side the error of it."""
    ours = {name: one.grad for name, one in model.named_parameters()}
    theirs = {name: one.grad for name, one in reference.named_parameters()}
    largest = max((_scale(one) for one in theirs.values() if one is not None), default=0.0)
    found: dict[str, float] = {}
    for name, gradient in theirs.items():
        mine = ours.get(name)
        if gradient is None and mine is None:
            continue
        if gradient is None or mine is None:
            found[name] = math.inf
        else:
            found[name] = relative_error(mine, gradient, smallest_scale=SMALLEST_SCALE * largest)
    return found


def largest_error(found: list[Any], expected: list[Any]) -> float | None:
    """The largest relative error over the tensors of two lists; infinite where they do not match, None where empty."""
    if len(found) != len(expected):
        return math.inf
    return max((relative_error(*pair) for pair in zip(found, expected, strict=True)), default=None)


def relative_error(found: Any, expected: Any, *, smallest_scale: float = 0.0) -> float:
    """``max |found - expected| / max |expected|`` in float64; infinite where one is not finite and the other is.

    Args:
        found: A tensor on any device.
        expected: A tensor on the CPU.
        smallest_scale: The least that the difference is divided by.
    """
    mine, theirs = found.detach().cpu().double(), expected.detach().double()
    if mine.shape != theirs.shape:
        return math.inf
    if not mine.numel():
        return 0.0
    finite = theirs.isfinite()
    if bool((mine.isfinite() != finite).any()):
        return math.inf
    difference = float((mine - theirs)[finite].abs().max()) if bool(finite.any()) else 0.0
    scale = max(_scale(expected), smallest_scale)
    return difference / scale if scale else (math.inf if difference else 0.0)


def _scale(tensor: Any) -> float:
    values = tensor.detach().double()
    values = values[values.isfinite()]
    return float(values.abs().max()) if values.numel() else 0.0


def _flat(value: Any) -> list[Any]:
    """The floating-point tensors in a value, in order."""
    if isinstance(value, dict):
        return [one for part in value.values() for one in _flat(part)]
    if isinstance(value, (tuple, list)):
        return [one for part in value for one in _flat(part)]
    return [value] if hasattr(value, "is_floating_point") and value.is_floating_point() else []
