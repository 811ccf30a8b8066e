// The device: streams of operations, the five queues they run on, and the threads that compute their results.
//
// Device time is computed, not measured. An operation starts at the latest of: its launch plus the launch latency, the
// end of its predecessor in the stream, the ends of the events it waits for, and the first gap of its queue that holds
// it. It ends `duration_ns` later. One thread of the host computes the results in dependency order, up to
// `lookahead_ns` before the start, and whoever waits for the device sleeps until the end. So a thread that the
// operating system wakes late, or a core that another process uses, changes no time stamp on the device; only computing
// for longer than the operation lasts does (CPU time, not elapsed time), and the log says so. Collectives have a thread
// of their own: they wait for peers, and end when the values have arrived at the earliest.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "settings.h"

namespace sim {

using StreamId = int64_t;
constexpr StreamId kDefaultStream = 0;
constexpr StreamId kPoolStreams = 32;  // stream ids 1 to 32, given out in turn

// When an operation is over. `end_ns` is valid once `resolved` is set, and may lie ahead of the clock.
struct Completion {
  std::atomic<bool> resolved{false};
  std::atomic<bool> awaited{false};
  int64_t end_ns = 0;
};
using CompletionPtr = std::shared_ptr<Completion>;

// An instant of device time: when all of `after` are over, but not before `floor_ns`. What an event records.
struct Moment {
  std::vector<CompletionPtr> after;
  int64_t floor_ns = 0;

  void add(const Moment& other);
  // The time, once all of `after` are resolved; null before.
  bool resolved() const;
  int64_t time_ns() const;
};

// Where a wait of a stream comes from, for the trace.
struct WaitSource {
  StreamId stream;              // that recorded the event
  uint32_t record_correlation;  // of the call that recorded it
  uint32_t wait_correlation;    // of the call that made the stream wait
  uint64_t host_operation;
  int64_t call_ns;
};

enum class OperationKind : uint8_t { kernel, memcpy, memset, collective };
constexpr std::array<const char*, 4> kOperationKindNames{"kernel", "memcpy", "memset", "collective"};

// Names live for the whole process, so that an operation and its log entries hold a pointer only.
const std::string* interned(const std::string& name);

struct Operation {
  Queue queue = Queue::vector;
  OperationKind kind = OperationKind::kernel;
  const std::string* name = nullptr;
  int64_t duration_ns = 0;
  int64_t bytes = 0;
  int64_t flops = 0;
  std::function<void()> compute;
  // Collectives: given this rank's start, meets the peers and returns the start of the last of them.
  std::function<int64_t(int64_t)> rendezvous;

  // Filled in by launch().
  StreamId stream = kDefaultStream;
  int64_t launch_ns = 0;
  uint32_t correlation = 0;
  uint64_t host_operation = 0;  // torch.profiler's id of the op that launched this
  bool traced = false;
  Moment waits;
  std::vector<WaitSource> wait_sources;
  CompletionPtr done;
};

// Queues `operation` on a stream; blocks while the stream holds `launch_limit` operations. Returns its completion.
CompletionPtr launch(int device, StreamId stream, std::unique_ptr<Operation> operation);

// Everything queued on the stream so far, including waits that no operation has taken yet.
Moment stream_moment(int device, StreamId stream);
// Later operations of the stream start after `moment`.
void stream_wait(int device, StreamId stream, const Moment& moment, const WaitSource& source);
// Everything queued on all streams of the device.
Moment device_moment(int device);
bool has_passed(const Moment& moment);
// Blocks the calling thread until `moment` has passed. Raises nothing.
void wait_for(const Moment& moment);

// The first error of a kernel stays with the device; every synchronization throws it until it is cleared.
void throw_device_error(int device);
void clear_device_error(int device);

// Ends the threads; what is still queued is dropped. Later launches throw.
void shut_down();
// True in a child forked after the device was used: its threads are not there.
bool in_bad_fork();
// Throws in a bad fork and after shut_down().
void require_usable();

// When a queue is taken. An operation goes into the first gap that holds it, so that what was computed ahead of its
// time does not hold up another stream.
class QueueTimeline {
 public:
  // Reserves [start, start + duration) with start >= ready and returns start.
  int64_t place(int64_t ready, int64_t duration);
  int64_t free_at() const { return reservations_.empty() ? free_at_ : std::max(free_at_, reservations_.back().end); }

 private:
  struct Reservation {
    int64_t start;
    int64_t end;
  };
  // Sorted and disjoint. Older ones are forgotten: nothing may start before `free_at_`.
  std::vector<Reservation> reservations_;
  int64_t free_at_ = 0;
};

}  // namespace sim
