// What the device really did, operation by operation: the ground truth for whoever checks an analysis of a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.h"

namespace sim {

// Times are ns since 1970. The operation started at the latest of `launch_ns + latency`, `stream_ready_ns`,
// `event_ready_ns` and the time its queue had room.
struct LogEntry {
  int64_t start_ns;
  int64_t end_ns;
  int64_t launch_ns;
  int64_t arrival_ns;       // launch plus the launch latency: before it the device knew nothing of the operation
  int64_t stream_ready_ns;  // end of the predecessor in its stream; 0: none
  int64_t event_ready_ns;   // latest event it waited for; 0: none
  int64_t peers_ready_ns;   // collectives: start of the last rank; else 0
  int64_t compute_ns;       // CPU time that computing the result took
  int64_t late_ns;          // how long after `end_ns` the result was really there
  int64_t bytes;
  int64_t flops;
  const std::string* name;
  uint32_t correlation;
  int32_t stream;
  uint8_t device;
  uint8_t queue;
  uint8_t kind;
};

void log_operation(const LogEntry& entry);
std::vector<LogEntry> read_log();
void reset_log();
// Keeps the newest `entries`; the older ones are dropped and counted.
void set_log_capacity(size_t entries);
int64_t dropped_log_entries();

}  // namespace sim
