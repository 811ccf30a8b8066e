#include "engine_log.h"

#include <deque>
#include <mutex>

namespace sim {
namespace {

struct Log {
  std::mutex mutex;
  std::deque<LogEntry> entries;
  size_t capacity = 500'000;
  int64_t dropped = 0;

  void trim() {
    while (entries.size() > capacity) {
      entries.pop_front();
      ++dropped;
    }
  }
};

Log& log() {
  static auto* instance = new Log();
  return *instance;
}

}  // namespace

void log_operation(const LogEntry& entry) {
  std::lock_guard lock(log().mutex);
  log().entries.push_back(entry);
  log().trim();
}

std::vector<LogEntry> read_log() {
  std::lock_guard lock(log().mutex);
  return {log().entries.begin(), log().entries.end()};
}

void reset_log() {
  std::lock_guard lock(log().mutex);
  log().entries.clear();
  log().dropped = 0;
}

void set_log_capacity(size_t entries) {
  std::lock_guard lock(log().mutex);
  log().capacity = entries;
  log().trim();
}

int64_t dropped_log_entries() {
  std::lock_guard lock(log().mutex);
  return log().dropped;
}

}  // namespace sim
