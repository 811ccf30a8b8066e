// The threads that compute the results of operations and give each its place in device time.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "clock.h"
#include "engine_log.h"
#include "engine_state.h"
#include "kernels.h"
#include "trace.h"

namespace sim {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t arrival_ns(int device, const Operation& operation) {
  return operation.launch_ns + settings(device).launch_latency_ns.load();
}

// The earliest start that launch, stream and events allow; kNever while a dependency is not resolved.
int64_t ready_ns(int device, const Stream& stream, const Operation& operation) {
  if (!operation.waits.resolved()) {
    return kNever;
  }
  return std::max({arrival_ns(device, operation), stream.tail_end, operation.waits.time_ns()});
}

// Sleeps until woken or, with a time, until then. `lock` is held before and after.
void sleep_until(Worker& worker, std::unique_lock<std::mutex>& lock, int64_t time) {
  worker.sleeping = true;
  if (time == kNever) {
    worker.wake.wait(lock);
  } else {
    auto since_1970 = std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::nanoseconds(time));
    worker.wake.wait_until(lock, std::chrono::system_clock::time_point(since_1970));
  }
  worker.sleeping = false;
}

struct Result {
  int64_t start = 0;
  int64_t end = 0;
  int64_t peers_ready = 0;
  int64_t compute = 0;
};

void note_error(Device& device, const Operation& operation, const char* what) {
  if (device.error.empty()) {
    // Torch's errors bring a stack trace of C++ along.
    const std::string text = what;
    device.error = *operation.name + ": " + text.substr(0, text.find("\nException raised from"));
  }
}

// Takes the first operation off its stream: its end is known from here on.
std::unique_ptr<Operation> resolve(Engine& all, int index, Stream& stream, const Result& result) {
  std::unique_ptr<Operation> operation = std::move(stream.pending.front());
  const int64_t stream_ready = stream.tail_end;
  stream.pending.pop_front();
  stream.running = false;
  stream.tail_end = result.end;
  log_operation({result.start, result.end, operation->launch_ns, arrival_ns(index, *operation), stream_ready,
                 operation->waits.time_ns(), result.peers_ready, result.compute,
                 std::max<int64_t>(0, now_ns() - result.end), operation->bytes, operation->flops, operation->name,
                 operation->correlation, static_cast<int32_t>(operation->stream), static_cast<uint8_t>(index),
                 static_cast<uint8_t>(operation->queue), static_cast<uint8_t>(operation->kind)});
  if (operation->traced) {
    trace_operation(index, *operation, result.start, result.end);
    for (const WaitSource& source : operation->wait_sources) {
      const int64_t from = std::max(stream_ready, source.call_ns);
      trace_stream_wait(index, operation->stream, source, from, std::max(from, operation->waits.time_ns()));
    }
  }
  operation->done->end_ns = result.end;
  operation->done->resolved.store(true, std::memory_order_release);
  if (operation->done->awaited.load()) {
    wake_all(all);
  }
  return operation;
}

// Computes the first operation of `stream` and gives it its place on the queue's timeline.
void execute(Engine& all, int index, Stream& stream, int64_t ready, std::unique_lock<std::mutex>& lock) {
  Device& device = all.devices[index];
  Operation& operation = *stream.pending.front();
  QueueTimeline& timeline = device.timelines[static_cast<int>(operation.queue)];
  Result result;
  std::string error;
  stream.running = true;
  const int64_t earliest = std::max(ready, timeline.free_at());
  lock.unlock();
  const int64_t before = thread_cpu_ns();
  try {
    if (operation.compute) {
      operation.compute();
    }
    if (operation.rendezvous) {
      result.peers_ready = operation.rendezvous(earliest);
    }
  } catch (const std::exception& raised) {
    error = raised.what();
  }
  result.compute = thread_cpu_ns() - before;
  lock.lock();
  if (!error.empty()) {
    note_error(device, operation, error.c_str());
  }
  if (operation.rendezvous) {
    // Only this thread places on the collective queue, so `earliest` still holds.
    // The values cross between processes for real: where that takes longer than simulated, it counts.
    result.end = std::max(std::max(earliest, result.peers_ready) + operation.duration_ns, now_ns());
    result.start = timeline.place(earliest, result.end - earliest);
  } else {
    const int64_t duration = std::max(operation.duration_ns, result.compute);
    result.start = timeline.place(ready, duration);
    result.end = result.start + duration;
  }
  std::unique_ptr<Operation> finished = resolve(all, index, stream, result);
  lock.unlock();
  finished.reset();
  lock.lock();
}

void run_compute(int index) {
  Engine& all = engine();
  Device& device = all.devices[index];
  std::unique_lock lock(all.mutex);
  while (!all.stopped) {
    Stream* next = nullptr;
    int64_t earliest = kNever;
    for (Stream& stream : device.streams) {
      if (stream.pending.empty() || stream.running || stream.pending.front()->queue == Queue::collective) {
        continue;
      }
      const int64_t ready = ready_ns(index, stream, *stream.pending.front());
      if (ready < earliest) {
        earliest = ready;
        next = &stream;
      }
    }
    const int64_t lookahead = settings(index).lookahead_ns.load();
    if (next != nullptr && earliest <= now_ns() + lookahead) {
      execute(all, index, *next, earliest, lock);
      // The collective behind it, if any, belongs to the other thread.
      if (!next->pending.empty() && next->pending.front()->queue == Queue::collective) {
        device.communicate.wake.notify_all();
      }
    } else {
      sleep_until(device.compute, lock, next == nullptr ? kNever : earliest - lookahead);
    }
  }
  device.compute.finished = true;
  all.host.notify_all();
}

void run_collectives(int index) {
  Engine& all = engine();
  Device& device = all.devices[index];
  std::unique_lock lock(all.mutex);
  while (!all.stopped) {
    int64_t ready = kNever;
    Stream* stream = nullptr;
    if (!device.collectives.empty()) {
      stream = &device.streams[device.collectives.front()->stream];
      if (stream->pending.front().get() == device.collectives.front()) {
        ready = ready_ns(index, *stream, *device.collectives.front());
      }
    }
    const int64_t lookahead = settings(index).lookahead_ns.load();
    if (ready != kNever && ready <= now_ns() + lookahead) {
      device.collectives.pop_front();
      execute(all, index, *stream, ready, lock);
      device.compute.wake.notify_all();
    } else {
      sleep_until(device.communicate, lock, ready == kNever ? kNever : ready - lookahead);
    }
  }
  device.communicate.finished = true;
  all.host.notify_all();
}

void prepare_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.c_str());
  // The default slack of 50 us would make every timed sleep that much longer.
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  // A device does not wait for a core. Where this is not permitted, results may be late (late_ns in the log).
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -15);
  prepare_compute_thread();
}

}  // namespace

void wake_all(Engine& all) {
  for (Device& device : all.devices) {
    device.compute.wake.notify_all();
    device.communicate.wake.notify_all();
  }
  all.host.notify_all();
}

void start_workers(Device& device, int index) {
  // Signals go to the threads of the program: a handler of Python's must not run on ours.
  sigset_t everything, previous;
  sigfillset(&everything);
  pthread_sigmask(SIG_SETMASK, &everything, &previous);
  const std::string name = "sim" + std::to_string(index);
  device.compute.thread = std::thread([index, name] {
    prepare_thread(name + "-compute");
    run_compute(index);
  });
  device.communicate.thread = std::thread([index, name] {
    prepare_thread(name + "-collect");
    run_collectives(index);
  });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

}  // namespace sim
