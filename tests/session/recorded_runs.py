"""Programs whose recordings are balanced against torch's own JSON: on the CPU, the simulated device, DDP."""

CPU = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    model(torch.randn(16, 32)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

SIMULATED = """
import sys
import torch
from stallscope.samples import simulated_accelerator as sim
sim.load()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to("sim")
if "compile" in sys.argv:
    model = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    model(torch.randn(16, 32).to("sim")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.sim.synchronize()
"""

DISTRIBUTED = """
import torch
import torch.distributed as dist
from stallscope.samples import simulated_accelerator as sim
sim.load()
dist.init_process_group("cpu:gloo,sim:simgloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 1).to("sim"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model(torch.randn(16, 32).to("sim")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.sim.synchronize()
dist.destroy_process_group()
"""
