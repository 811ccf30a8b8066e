"""The rule table: what kind of work a slice is, for every era and vendor."""

from __future__ import annotations

import pytest

from stallscope.profiler.recording import categories
from stallscope.profiler.recording.categories import (
    CATEGORIES,
    COMMUNICATION_PATTERNS,
    RULES,
    CommunicationPattern,
    categorize,
    is_communication,
    is_device_work,
    rules_fingerprint,
)

CASES = [
    # The layout of 2021.
    ("Operator", "aten::add_", "op"),
    ("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "input"),
    ("Operator", "ProfilerStep#5", "annotation"),
    ("Operator", "Optimizer.step#SGD.step", "annotation"),
    ("Runtime", "cudaLaunchKernel", "runtime"),
    ("Runtime", "cudaStreamSynchronize", "synchronization"),
    ("Kernel", "volta_sgemm_64x64_nt", "kernel"),
    ("Memcpy", "Memcpy HtoD (Pageable -> Device)", "memcpy"),
    ("Memset", "Memset (Device)", "memset"),
    # Today's.
    ("cpu_op", "aten::mm", "op"),
    ("cpu_op", "record_param_comms", "collective"),
    ("cpu_op", "c10d::allreduce_", "collective"),
    ("cpu_op", "aten::_to_cpu", "fallback"),
    ("cpu_op", "Torch-Compiled Region: 0/0", "op"),
    ("cpu_op", "entire_frame_compile (dynamo_timed)", "compile"),
    ("user_annotation", "_compile.compile_inner (dynamo_timed)", "compile"),
    ("user_annotation", "## Call CompiledFxGraph fal4xpiah2v6 ##", "annotation"),
    ("user_annotation", "ProfilerStep#16", "annotation"),
    ("user_annotation", "nccl:all_reduce", "collective"),
    ("user_annotation", "gloo:all_reduce", "collective"),
    ("user_annotation", "## all2all_data:lengths ##", "annotation"),
    ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "input"),
    ("gpu_user_annotation", "nccl:all_reduce", "annotation"),
    ("python_function", "train_ddp.py(184): <module>", "python"),
    ("python_function", "nn.Module: Linear_3", "module"),
    ("python_function", "Python GC", "gc"),
    ("overhead", "Lazy Function Loading", "overhead"),
    ("Trace", "PyTorch Profiler (0)", "other"),
    ("cpu_instant_event", "[memory]", "other"),
    (None, "Record Window End", "other"),
    ("FEE", "work (/tmp/x.py:3)", "python"),
    # Runtimes: waiting, allocating, and the rest.
    ("cuda_runtime", "cudaDeviceSynchronize", "synchronization"),
    ("cuda_runtime", "cudaEventSynchronize", "synchronization"),
    ("cuda_runtime", "cudaMemcpy", "synchronization"),
    ("cuda_runtime", "cudaMemcpy2D", "synchronization"),
    ("cuda_runtime", "cudaMemcpyAsync", "runtime"),
    ("cuda_runtime", "cudaMemcpyBatchAsync", "runtime"),
    ("cuda_runtime", "cudaStreamWaitEvent", "runtime"),
    ("cuda_runtime", "cudaEventQuery", "runtime"),
    ("cuda_runtime", "cudaGraphLaunch", "runtime"),
    ("cuda_runtime", "cudaMalloc", "allocation"),
    ("cuda_runtime", "cudaMallocAsync", "allocation"),
    ("privateuse1_runtime", "simMalloc", "allocation"),
    ("privateuse1_runtime", "simFree", "allocation"),
    ("privateuse1_runtime", "simFreeLaunchSlot", "runtime"),
    ("cuda_runtime", "cudaFree", "allocation"),
    ("cuda_runtime", "cudaHostAlloc", "allocation"),
    ("cuda_driver", "cuMemcpyDtoH_v2", "synchronization"),
    ("cuda_driver", "cuMemcpyDtoHAsync_v2", "runtime"),
    ("cuda_driver", "cuStreamSynchronize", "synchronization"),
    ("cuda_driver", "cuMemCreate", "allocation"),
    ("cuda_runtime", "hipMemcpyWithStream", "synchronization"),
    ("cuda_runtime", "hipMemcpyAsync", "runtime"),
    ("hip_runtime", "hipDeviceSynchronize", "synchronization"),
    ("cuda_runtime", "hipMalloc", "allocation"),
    ("cuda_runtime", "hipLaunchKernel", "runtime"),
    ("xpu_runtime", "urEnqueueKernelLaunch", "runtime"),
    ("xpu_runtime", "urQueueFinish", "synchronization"),
    ("xpu_runtime", "zeMemAllocDevice", "allocation"),
    ("mtia_runtime", "synchronizeStream", "synchronization"),
    ("mtia_runtime", "enqueueCommand waitOnEvent", "runtime"),
    ("privateuse1_runtime", "launch", "runtime"),
    ("privateuse1_runtime", "simSynchronize", "synchronization"),
    ("privateuse1_driver", "nrt_execute", "runtime"),
    # Devices.
    ("kernel", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "collective"),
    ("kernel", "void cub::DeviceReduceKernel<int>(int*)", "kernel"),
    ("kernel", "Memcpy DtoD (Device -> Device)", "memcpy"),
    ("kernel", "__amd_rocclr_fillBufferAligned.kd", "memset"),
    ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "memcpy"),
    ("gpu_memset", "Memset (Device)", "memset"),
    ("cuda_sync", "Stream Wait Event", "synchronization"),
    ("mtia_ccp_events", "dma_request", "dma"),
    ("mtia_ccp_events", "pe_exe", "kernel"),
    ("mtia_ccp_events", "event_wait", "synchronization"),
    ("something new", "x", "other"),
]


@pytest.mark.parametrize(("raw", "name", "category"), CASES)
def test_each_name_has_its_category(raw: str | None, name: str, category: str) -> None:
    assert categorize(raw, name) == category


def test_every_rule_gives_a_known_category() -> None:
    assert {rule.category for rule in RULES} <= set(CATEGORIES)


COMMUNICATION = [
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void ncclKernel_SendRecv(int)",
    "rcclGenericKernel<1>(ncclDevComm*)",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)",
    "void dpsk::ep::internode::dispatch<8, false>(int4*)",
    "nvshmemi_transfer_allreduce(void*)",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void sglang::cross_device_reduce_1stage<half, 4>(sglang::RankData*)",
    "void aiter::allreduce_fusion_kernel_1stage<1>(int)",
    "void mscclpp::allreduce7<half>(half*)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<half>(int)",
    "void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(long)",
    "oneccl_allreduce_large<float>",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(int)",
]
COMPUTE = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)",
    "void cub::DeviceReduceByKeyKernel<int>(int)",
    "void splitKreduce_kernel<float, float>(int)",
    "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64",
    "aten::mm",
    "my_broadcast_add",
    "void warp_allreduce_softmax<float>(float*)",
    "accl",
]


@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication_is_known_by_more_than_a_nccl_prefix(name: str) -> None:
    assert is_communication(name)
    assert categorize("kernel", name) == "collective"


@pytest.mark.parametrize("name", COMPUTE)
def test_a_word_in_common_is_no_communication(name: str) -> None:
    assert not is_communication(name)


def test_an_added_pattern_counts_at_once_and_changes_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rules_fingerprint()
    assert categorize("kernel", "acme_ring_exchange<4>") == "kernel"
    extended = [*COMMUNICATION_PATTERNS, CommunicationPattern(r"^acme_ring_", "Acme")]
    monkeypatch.setattr(categories, "COMMUNICATION_PATTERNS", extended)
    assert categorize("kernel", "acme_ring_exchange<4>") == "collective"
    assert rules_fingerprint() != before


def test_device_work_leaves_out_host_calls_and_waiting() -> None:
    assert all(map(is_device_work, ("kernel", "memcpy", "memset", "collective", "dma", "instruction")))
    assert not any(map(is_device_work, ("annotation", "synchronization", "runtime", "op", "graph", "other")))
