// What the user can set: how fast the queues are, what the runtime calls cost, how deep a stream may queue.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace sim {

constexpr int kDevices = 2;

// A device executes each operation on the queue of its kind. Work unit: flops on `tensor`, bytes on the others.
enum class Queue : uint8_t { tensor, vector, dma_in, dma_out, collective };
constexpr int kQueues = 5;
constexpr std::array<const char*, kQueues> kQueueNames{"tensor", "vector", "dma_in", "dma_out", "collective"};

// Throws on an unknown name.
Queue queue_named(const std::string& name);

struct QueueSpeed {
  std::atomic<double> work_per_s;
  std::atomic<int64_t> overhead_ns;
};

// One set for each device, read at every launch; a change holds from the next launch on.
struct Settings {
  // Slow enough that one CPU core computes most results within their simulated time (measured: tests and README).
  std::array<QueueSpeed, kQueues> queues{
      {{2.0e10, 5'000}, {4.0e9, 5'000}, {4.0e9, 8'000}, {4.0e9, 8'000}, {2.5e8, 20'000}}};
  std::atomic<int64_t> launch_latency_ns{4'000};    // from the end of the enqueue to the earliest start
  std::atomic<int64_t> launch_limit{1024};          // operations of one stream in flight before a launch blocks
  std::atomic<int64_t> lookahead_ns{20'000'000};    // how long before its start an operation may be computed
  std::atomic<int64_t> compile_ns{0};               // first launch of an operation with these shapes; 0: no compiler
  std::atomic<int64_t> compiled_load_ns{200'000};   // the same, when the disk cache has it
  std::atomic<int64_t> malloc_ns{100'000};          // a segment from the device, after the caching allocator missed
  std::atomic<int64_t> free_ns{60'000};             // a segment back to the device
  std::atomic<int64_t> memory_capacity{4LL << 30};  // bytes
};

Settings& settings(int device);

// overhead + work / speed, in ns.
int64_t duration_ns(int device, Queue queue, double work);

}  // namespace sim
