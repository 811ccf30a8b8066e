#include "engine.h"

#include <pthread.h>

#include <chrono>
#include <stdexcept>
#include <utility>

#include "clock.h"
#include "engine_state.h"

namespace sim {

Engine& engine() {
  static auto* instance = new Engine();
  return *instance;
}

namespace {

std::atomic<bool> threads_started{false};
std::atomic<bool> bad_fork{false};

bool over(const CompletionPtr& completion, int64_t now) {
  return completion->resolved.load(std::memory_order_acquire) && completion->end_ns <= now;
}

const int fork_handler = [] {
  return pthread_atfork(nullptr, nullptr, [] {
    if (threads_started) {
      bad_fork = true;
    }
  });
}();

Moment moment_of(const Stream& stream, int64_t now) {
  Moment moment{{}, now};
  if (stream.tail) {
    moment.add({{stream.tail}, 0});
  }
  moment.add(stream.waits);
  return moment;
}

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

CompletionPtr launch(int index, StreamId id, std::unique_ptr<Operation> operation) {
  require_usable();
  Engine& all = engine();
  std::unique_lock lock(all.mutex);
  Device& device = all.devices.at(index);
  Stream& stream = device.streams.at(id);
  if (!device.started) {
    device.started = true;
    threads_started = true;
    start_workers(device, index);
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

Moment stream_moment(int device, StreamId stream) {
  if (bad_fork) {
    return {};
  }
  std::lock_guard lock(engine().mutex);
  return moment_of(engine().devices.at(device).streams.at(stream), now_ns());
}

void stream_wait(int device, StreamId id, const Moment& moment, const WaitSource& source) {
  require_usable();
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
  if (bad_fork) {
    require_usable();
  }
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
  require_usable();
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
