#include "settings.h"

#include <stdexcept>

namespace sim {

Settings& settings(int device) {
  // Never destroyed: threads read it until the process ends.
  static auto* all = new std::array<Settings, kDevices>();
  return all->at(device);
}

Queue queue_named(const std::string& name) {
  for (int i = 0; i < kQueues; ++i) {
    if (name == kQueueNames[i]) {
      return static_cast<Queue>(i);
    }
  }
  throw std::invalid_argument("no queue is called '" + name +
                              "'; the queues are tensor, vector, dma_in, dma_out, collective");
}

int64_t duration_ns(int device, Queue queue, double work) {
  const QueueSpeed& speed = settings(device).queues[static_cast<int>(queue)];
  return speed.overhead_ns.load() + static_cast<int64_t>(work / speed.work_per_s.load() * 1e9);
}

}  // namespace sim
