"""Gradients are summed over the ranks one by one after the backward pass, where they could be during it."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

MODULE = "import torch.distributed as dist\n\n"
AVERAGED = "self.model = nn.parallel.DistributedDataParallel(self.model, bucket_cap_mb=$bucket_mb)"
SERIAL = Injection(
    "serial",
    ("communication", "wait_for_peer"),
    {
        "prepare": Code("", AVERAGED),
        "gradients": Code("for $helper in model.parameters():\n    dist.all_reduce($helper.grad)  #!"),
    },
    lambda rng, regime: {"bucket_mb": rng.uniform(0.02, 0.04)},
)
WORKLOAD = Workload(
    "no_overlap",
    "gradients are summed over the ranks after the backward pass",
    (SERIAL,),
    {"module": MODULE},
    regimes=("ahead", "sync"),
    ranks=2,
)
