// Time as the device and the profiler tell it: nanoseconds since 1970, the clock torch.profiler stamps its events with.
#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

namespace sim {

inline int64_t read_clock(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

inline int64_t now_ns() {
  return read_clock(CLOCK_REALTIME);
}

// What the calling thread itself computed; time it waited for a core does not count.
inline int64_t thread_cpu_ns() {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

inline void sleep_ns(int64_t duration) {
  if (duration <= 0) {
    return;
  }
  timespec t{static_cast<time_t>(duration / 1'000'000'000), static_cast<long>(duration % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

// Sleeps most of the way and spins the rest: a sleep alone returns 50 us or more after the time asked for.
inline void wait_until_ns(int64_t time) {
  constexpr int64_t kSpin = 70'000;
  for (int64_t left = time - now_ns(); left > 0; left = time - now_ns()) {
    if (left > kSpin) {
      sleep_ns(left - kSpin);
    } else {
      sched_yield();
    }
  }
}

}  // namespace sim
