"""Run by torchrun-like processes: trains under DistributedDataParallel and prints what it saw as JSON."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist

import stallscope.samples.simulated_accelerator as sim

from .models import MODELS, batches


def train(rank: int, world: int) -> dict[str, object]:
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(MODELS["perceptron"]().to("sim"))
    (inputs, classes), *_ = batches("perceptron", 1)
    share = len(inputs) // world
    mine = slice(rank * share, (rank + 1) * share)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    sim.reset_engine_log()
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(inputs[mine].to("sim")), classes[mine].to("sim"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        losses.append(mean.item() / world)
    log = sim.engine_log()
    collective = log.kind == 3
    return {
        "losses": losses,
        "fallbacks": sim.fallback_counts(),
        "names": [log.names[name] for name in log.name[collective]],
        "start": log.start_ns[collective].tolist(),
        "end": log.end_ns[collective].tolist(),
        "peers": log.peers_ready_ns[collective].tolist(),
        "queues": sorted({sim.QUEUES[queue] for queue in log.queue[collective]}),
        "bytes": log.bytes[collective].tolist(),
    }


def exchange(rank: int, world: int) -> dict[str, object]:
    gathered = [torch.empty(3, device="sim") for _ in range(world)]
    dist.all_gather(gathered, torch.arange(3.0, device="sim") + 10 * rank)
    source = torch.full((2,), float(rank), device="sim")
    dist.broadcast(source, src=1)
    swapped = torch.empty(4, device="sim")
    dist.all_to_all_single(swapped, torch.arange(4.0, device="sim") + 10 * rank)
    received = torch.full((2,), 5.0 + rank, device="sim")
    if rank == 0:
        dist.send(received, 1)
    else:
        dist.recv(received, 0)
    work = dist.all_reduce(torch.ones(4, device="sim"), async_op=True)
    work.wait()
    dist.barrier()
    return {
        "gathered": [part.tolist() for part in gathered],
        "broadcast": source.tolist(),
        "swapped": swapped.tolist(),
        "received": received.tolist(),
    }


def main() -> None:
    rank, world, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sim.load()
    # Different beginnings, so that one rank waits for the other.
    dist.init_process_group("cpu:gloo,sim:simgloo", init_method=f"file://{store}", rank=rank, world_size=world)
    report = {"train": train(rank, world), "exchange": exchange(rank, world)}
    dist.destroy_process_group()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
