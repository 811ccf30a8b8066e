// The value types of engine.h: instants of device time, and when a queue is taken.
#include <mutex>
#include <unordered_set>

#include "engine.h"

namespace sim {

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

}  // namespace sim
