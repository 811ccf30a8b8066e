#include "engine.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unordered_set>
#include <utility>

#include "clock.h"
#include "engine_log.h"
#include "kernels.h"
#include "trace.h"

namespace sim {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Stream {
  std::deque<std::unique_ptr<Operation>> pending;  // not resolved yet; the first may be running
  std::deque<CompletionPtr> in_flight;             // not over yet, as far as known
  CompletionPtr tail;
  Moment waits;          // taken by the next operation
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

std::atomic<bool> threads_started{false};
std::atomic<bool> bad_fork{false};

// Never destroyed: tensors may be freed and threads may run until the very end of the process.
Engine& engine() {
  static auto* instance = new Engine();
  return *instance;
}

void wake_all(Engine& all) {
  for (Device& device : all.devices) {
    device.compute.wake.notify_all();
    device.communicate.wake.notify_all();
  }
  all.host.notify_all();
}

bool over(const CompletionPtr& completion, int64_t now) {
  return completion->resolved.load(std::memory_order_acquire) && completion->end_ns <= now;
}

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
                 operation->waits.time_ns(), result.peers_ready, result.compute, std::max<int64_t>(0, now_ns() - result.end),
                 operation->bytes, operation->flops, operation->name, operation->correlation,
                 static_cast<int32_t>(operation->stream), static_cast<uint8_t>(index),
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

void start_threads(Device& device, int index) {
  device.started = true;
  threads_started = true;
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

const int fork_handler = [] {
  return pthread_atfork(nullptr, nullptr, [] {
    if (threads_started) {
      bad_fork = true;
    }
  });
}();

// Waits until the stream has room for one more operation.
void wait_for_room(int device, Stream& stream, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    const int64_t now = now_ns();
    while (!stream.in_flight.empty() && over(stream.in_flight.front(), now)) {
      stream.in_flight.pop_front();
    }
    const auto limit = static_cast<size_t>(std::max<int64_t>(1, settings(device).launch_limit.load()));
    if (stream.in_flight.size() < limit || engine().stopped) {
      return;
    }
    Moment oldest{{stream.in_flight[stream.in_flight.size() - limit]}, 0};
    lock.unlock();
    wait_for(oldest);
    lock.lock();
  }
}

}  // namespace

void Moment::add(const Moment& other) {
  floor_ns = std::max(floor_ns, other.floor_ns);
  for (const CompletionPtr& completion : other.after) {
    if (completion->resolved.load(std::memory_order_acquire)) {
      floor_ns = std::max(floor_ns, completion->end_ns);
    } else if (std::find(after.begin(), after.end(), completion) == after.end()) {
      after.push_back(completion);
    }
  }
}

bool Moment::resolved() const {
  return std::all_of(after.begin(), after.end(),
                     [](const CompletionPtr& one) { return one->resolved.load(std::memory_order_acquire); });
}

int64_t Moment::time_ns() const {
  int64_t time = floor_ns;
  for (const CompletionPtr& completion : after) {
    time = std::max(time, completion->end_ns);
  }
  return time;
}

const std::string* interned(const std::string& name) {
  static auto* mutex = new std::mutex();
  static auto* names = new std::unordered_set<std::string>();
  std::lock_guard lock(*mutex);
  return &*names->insert(name).first;
}

int64_t QueueTimeline::place(int64_t ready, int64_t duration) {
  int64_t start = std::max(ready, free_at_);
  auto next = reservations_.begin();
  for (; next != reservations_.end() && start + duration > next->start; ++next) {
    start = std::max(start, next->end);
  }
  if (next != reservations_.begin() && std::prev(next)->end == start) {
    std::prev(next)->end = start + duration;
  } else {
    reservations_.insert(next, {start, start + duration});
  }
  constexpr size_t kKept = 64;
  if (reservations_.size() > kKept) {
    free_at_ = reservations_.front().end;
    reservations_.erase(reservations_.begin());
  }
  return start;
}

CompletionPtr launch(int index, StreamId id, std::unique_ptr<Operation> operation) {
  require_usable();
  Engine& all = engine();
  std::unique_lock lock(all.mutex);
  Device& device = all.devices.at(index);
  Stream& stream = device.streams.at(id);
  if (!device.started) {
    start_threads(device, index);
  }
  wait_for_room(index, stream, lock);
  auto done = std::make_shared<Completion>();
  operation->stream = id;
  operation->done = done;
  operation->waits = std::exchange(stream.waits, {});
  operation->wait_sources = std::exchange(stream.wait_sources, {});
  for (const CompletionPtr& completion : operation->waits.after) {
    completion->awaited = true;
  }
  const bool heads = stream.pending.empty();
  Worker& worker = operation->queue == Queue::collective ? device.communicate : device.compute;
  if (operation->queue == Queue::collective) {
    device.collectives.push_back(operation.get());
  }
  operation->launch_ns = now_ns();
  stream.pending.push_back(std::move(operation));
  stream.in_flight.push_back(done);
  stream.tail = done;
  // Behind another operation there is nothing to do yet.
  if (heads && worker.sleeping) {
    worker.wake.notify_one();
  }
  return done;
}

namespace {

Moment moment_of(const Stream& stream, int64_t now) {
  Moment moment{{}, now};
  if (stream.tail) {
    moment.add({{stream.tail}, 0});
  }
  moment.add(stream.waits);
  return moment;
}

}  // namespace

Moment stream_moment(int device, StreamId stream) {
  if (bad_fork) {
    return {};
  }
  std::lock_guard lock(engine().mutex);
  return moment_of(engine().devices.at(device).streams.at(stream), now_ns());
}

void stream_wait(int device, StreamId id, const Moment& moment, const WaitSource& source) {
  std::lock_guard lock(engine().mutex);
  Stream& stream = engine().devices.at(device).streams.at(id);
  stream.waits.add(moment);
  stream.wait_sources.push_back(source);
}

Moment device_moment(int device) {
  Moment moment;
  if (bad_fork) {
    return moment;
  }
  std::lock_guard lock(engine().mutex);
  for (const Stream& stream : engine().devices.at(device).streams) {
    moment.add(moment_of(stream, 0));
  }
  return moment;
}

bool has_passed(const Moment& moment) {
  return moment.resolved() && moment.time_ns() <= now_ns();
}

void wait_for(const Moment& moment) {
  if (bad_fork) {
    return;
  }
  Engine& all = engine();
  {
    std::unique_lock lock(all.mutex);
    for (const CompletionPtr& completion : moment.after) {
      completion->awaited = true;
      all.host.wait(lock, [&] { return completion->resolved.load() || all.stopped; });
    }
    if (all.stopped) {
      return;
    }
  }
  wait_until_ns(moment.time_ns());
}

void throw_device_error(int device) {
  std::string error;
  {
    std::lock_guard lock(engine().mutex);
    error = engine().devices.at(device).error;
  }
  if (!error.empty()) {
    throw std::runtime_error("sim:" + std::to_string(device) + ": a kernel failed earlier: " + error);
  }
}

void clear_device_error(int device) {
  std::lock_guard lock(engine().mutex);
  engine().devices.at(device).error.clear();
}

void shut_down() {
  if (bad_fork) {
    return;
  }
  Engine& all = engine();
  std::unique_lock lock(all.mutex);
  all.stopped = true;
  wake_all(all);
  for (Device& device : all.devices) {
    for (Worker* worker : {&device.compute, &device.communicate}) {
      if (!worker->thread.joinable()) {
        continue;
      }
      // A collective may wait for a peer that is gone; the process must end all the same.
      if (all.host.wait_for(lock, std::chrono::seconds(5), [&] { return worker->finished; })) {
        lock.unlock();
        worker->thread.join();
        lock.lock();
      } else {
        worker->thread.detach();
      }
    }
  }
}

bool in_bad_fork() {
  return bad_fork;
}

void require_usable() {
  if (bad_fork) {
    throw std::runtime_error(
        "the device sim was used before this process was forked and cannot be used in the child; start it with the "
        "'spawn' method");
  }
  if (engine().stopped) {
    throw std::runtime_error("the device sim has been shut down: the process is ending");
  }
}

}  // namespace sim
