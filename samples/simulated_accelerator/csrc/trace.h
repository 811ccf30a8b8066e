// What torch.profiler gets to see: runtime calls of host threads and operations of the device.
#pragma once

#include <cstdint>

#include "engine.h"

namespace sim {

bool tracing();

// torch.profiler's id of the op that runs on the calling thread; 0 outside of ops and of profiles.
uint64_t current_host_operation();

// A call into the device's runtime, from construction to destruction, on the calling thread. Static names only.
class RuntimeCall {
 public:
  explicit RuntimeCall(const char* name);
  ~RuntimeCall();
  RuntimeCall(const RuntimeCall&) = delete;
  RuntimeCall& operator=(const RuntimeCall&) = delete;

  // Unique in the process; the operation that this call launches carries it too.
  uint32_t correlation() const { return correlation_; }
  void launches() { launches_ = true; }
  void set_bytes(int64_t bytes) { bytes_ = bytes; }
  void set_subject(const std::string* subject) { subject_ = subject; }

 private:
  const char* name_;
  int64_t start_ns_;
  uint32_t correlation_;
  bool traced_;
  bool launches_ = false;
  int64_t bytes_ = -1;
  const std::string* subject_ = nullptr;
};

void trace_operation(int device, const Operation& operation, int64_t start_ns, int64_t end_ns);

// A stream that waited for another one; CUDA's profiler calls it cuda_sync.
void trace_stream_wait(int device, StreamId stream, const WaitSource& source, int64_t start_ns, int64_t end_ns);

// Makes the device known to torch.profiler; once.
void register_profiler();

}  // namespace sim
