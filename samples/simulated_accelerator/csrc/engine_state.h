// What the two halves of the engine share: hosts that launch (engine.cpp) and threads that execute (workers.cpp).
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "engine.h"

namespace sim {

struct Stream {
  std::deque<std::unique_ptr<Operation>> pending;  // not resolved yet; the first may be running
  std::deque<CompletionPtr> in_flight;             // not over yet, as far as known
  CompletionPtr tail;
  Moment waits;  // taken by the next operation
  std::vector<WaitSource> wait_sources;
  int64_t tail_end = 0;  // end of the last resolved operation
  bool running = false;
};

struct Worker {
  std::thread thread;
  std::condition_variable wake;
  bool sleeping = false;
  bool finished = false;
};

struct Device {
  std::array<Stream, kPoolStreams + 1> streams;
  std::array<QueueTimeline, kQueues> timelines;
  // Peers must meet in the same order, so collectives run in launch order whatever their streams.
  std::deque<Operation*> collectives;
  Worker compute;
  Worker communicate;
  bool started = false;
  std::string error;
};

// One lock for both devices: sections are short, and events cross devices.
struct Engine {
  std::mutex mutex;
  std::condition_variable host;  // threads in wait_for()
  std::array<Device, kDevices> devices;
  std::atomic<bool> stopped{false};
};

// Never destroyed: tensors may be freed and threads may run until the very end of the process.
Engine& engine();

// Starts the threads of a device.
void start_workers(Device& device, int index);

void wake_all(Engine& all);

}  // namespace sim
