// Device memory: segments from the system, cut into blocks that are kept per stream and given out again.
//
// A block is free for its stream as soon as the host frees it: whatever the stream does next comes after. Blocks that
// other streams use as well (record_stream) wait for those. When the capacity is used up, cached segments go back to
// the system, which waits for the device; only then is it out of memory.
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <array>
#include <mutex>
#include <set>
#include <unordered_map>

#include "clock.h"
#include "device.h"
#include "trace.h"

namespace sim {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kRound = 512;
constexpr size_t kSmall = 1 << 20;          // up to here from small segments
constexpr size_t kSmallSegment = 2 << 20;   // size of those
constexpr size_t kLargeSegment = 20 << 20;  // segments for allocations up to half of it
constexpr size_t kSegmentRound = 2 << 20;

struct Block {
  int device;
  StreamId stream;
  bool small;
  char* address;
  size_t size;
  size_t requested = 0;
  bool cached = false;      // in the set of free blocks
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  std::set<StreamId> other_streams;
};

struct SmallestFirst {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->stream, a->small, a->size, a->address) < std::tie(b->stream, b->small, b->size, b->address);
  }
};

struct Deferred {
  Block* block;
  Moment until;
};

struct Memory {
  std::set<Block*, SmallestFirst> free;
  std::vector<Deferred> deferred;
  DeviceStats stats;
};

void increase(StatArray& stat, bool small, int64_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stat[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].increase(amount);
}

void decrease(StatArray& stat, bool small, int64_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stat[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].decrease(amount);
}

int64_t current(const StatArray& stat) {
  return stat[static_cast<size_t>(StatType::AGGREGATE)].current;
}

std::string readable(int64_t bytes) {
  std::array<char, 32> text{};
  if (bytes >= 1 << 30) {
    snprintf(text.data(), text.size(), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  } else {
    snprintf(text.data(), text.size(), "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return text.data();
}

class CachingAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int device = current_device();
    if (bytes == 0) {
      return {nullptr, nullptr, &release, c10::Device(kDeviceType, device)};
    }
    require_usable();
    void* address = allocate_block(device, current_stream(device), bytes);
    return {address, address, &release, c10::Device(kDeviceType, device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    const int device = device_of(target);
    wait_for(device_moment(device));
    memcpy(target, source, bytes);
  }

  bool initialized() override { return true; }

  void emptyCache(c10::MempoolId_t) override {
    std::lock_guard lock(mutex_);
    for (int device = 0; device < kDevices; ++device) {
      release_segments(device);
    }
  }

  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    std::lock_guard lock(mutex_);
    auto found = allocated_.find(pointer.get());
    if (found != allocated_.end() && found->second->stream != stream.id()) {
      found->second->other_streams.insert(stream.id());
    }
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    std::lock_guard lock(mutex_);
    return memory_.at(device).stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    for_each_stat(device, [](auto& stat) { stat.reset_accumulated(); });
    std::lock_guard lock(mutex_);
    DeviceStats& stats = memory_.at(device).stats;
    stats.num_alloc_retries = stats.num_ooms = stats.num_sync_all_streams = 0;
    stats.num_device_alloc = stats.num_device_free = 0;
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    for_each_stat(device, [](auto& stat) { stat.reset_peak(); });
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    std::lock_guard lock(mutex_);
    const int64_t capacity = settings(device).memory_capacity.load();
    const int64_t used = current(memory_.at(device).stats.reserved_bytes);
    return {static_cast<size_t>(std::max<int64_t>(0, capacity - used)), static_cast<size_t>(capacity)};
  }

  static CachingAllocator& instance() {
    static auto* allocator = new CachingAllocator();
    return *allocator;
  }

 private:
  static void release(void* address) {
    // A forked child inherits tensors of the device; it owns neither their memory nor a lock that was held.
    if (address != nullptr && !in_bad_fork()) {
      instance().free_block(address);
    }
  }

  int device_of(void* address) const {
    std::lock_guard lock(mutex_);
    auto found = allocated_.find(address);
    return found == allocated_.end() ? current_device() : found->second->device;
  }

  template <class Action>
  void for_each_stat(int device, Action action) {
    std::lock_guard lock(mutex_);
    DeviceStats& stats = memory_.at(device).stats;
    for (StatArray* array :
         {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
          &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
      for (auto& stat : *array) {
        action(stat);
      }
    }
  }

  void* allocate_block(int device, StreamId stream, size_t bytes) {
    std::lock_guard lock(mutex_);
    Memory& memory = memory_.at(device);
    const size_t size = (bytes + kRound - 1) / kRound * kRound;
    take_back_deferred(memory);
    Block* block = find(memory, stream, size);
    if (block == nullptr) {
      block = new_segment(device, stream, size, bytes);
    }
    split(memory, block, size);
    block->requested = bytes;
    allocated_[block->address] = block;
    count_allocated(memory.stats, *block);
    report(*block, static_cast<int64_t>(block->size));
    return block->address;
  }

  // Under the lock: another thread that gets the same memory next must not report first.
  void report(const Block& block, int64_t change) {
    const DeviceStats& stats = memory_.at(block.device).stats;
    c10::reportMemoryUsageToProfiler(block.address, change, current(stats.allocated_bytes),
                                     current(stats.reserved_bytes),
                                     c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(block.device)));
  }

  void free_block(void* address) {
    std::lock_guard lock(mutex_);
    auto found = allocated_.find(address);
    if (found == allocated_.end()) {
      return;
    }
    Block* block = found->second;
    allocated_.erase(found);
    const auto size = static_cast<int64_t>(block->size);
    Memory& memory = memory_.at(block->device);
    decrease(memory.stats.allocation, block->small, 1);
    decrease(memory.stats.allocated_bytes, block->small, size);
    decrease(memory.stats.requested_bytes, block->small, static_cast<int64_t>(block->requested));
    report(*block, -size);
    if (block->other_streams.empty()) {
      give_back(memory, block);
    } else {
      Moment until;
      for (StreamId stream : block->other_streams) {
        until.add(stream_moment(block->device, stream));
      }
      memory.deferred.push_back({block, std::move(until)});
    }
  }

  void count_allocated(DeviceStats& stats, const Block& block) {
    increase(stats.allocation, block.small, 1);
    increase(stats.allocated_bytes, block.small, static_cast<int64_t>(block.size));
    increase(stats.requested_bytes, block.small, static_cast<int64_t>(block.requested));
    increase(stats.active, block.small, 1);
    increase(stats.active_bytes, block.small, static_cast<int64_t>(block.size));
  }

  // Blocks that other streams used and have passed now.
  void take_back_deferred(Memory& memory) {
    std::erase_if(memory.deferred, [&](const Deferred& entry) {
      if (!has_passed(entry.until)) {
        return false;
      }
      give_back(memory, entry.block);
      return true;
    });
  }

  Block* find(Memory& memory, StreamId stream, size_t size) {
    Block key{0, stream, size <= kSmall, nullptr, size};
    auto found = memory.free.lower_bound(&key);
    if (found == memory.free.end() || (*found)->stream != stream || (*found)->small != key.small) {
      return nullptr;
    }
    Block* block = *found;
    remove_free(memory, block);
    return block;
  }

  void add_free(Memory& memory, Block* block) {
    memory.free.insert(block);
    block->cached = true;
    if (block->before != nullptr || block->after != nullptr) {
      increase(memory.stats.inactive_split, block->small, 1);
      increase(memory.stats.inactive_split_bytes, block->small, static_cast<int64_t>(block->size));
    }
  }

  void remove_free(Memory& memory, Block* block) {
    memory.free.erase(block);
    block->cached = false;
    if (block->before != nullptr || block->after != nullptr) {
      decrease(memory.stats.inactive_split, block->small, 1);
      decrease(memory.stats.inactive_split_bytes, block->small, static_cast<int64_t>(block->size));
    }
  }

  // Keeps the first `size` bytes; the rest becomes a free block of its own when it is worth it.
  void split(Memory& memory, Block* block, size_t size) {
    const size_t rest = block->size - size;
    if (rest < (block->small ? kRound : kSmall)) {
      return;
    }
    auto* tail = new Block{block->device, block->stream, block->small, block->address + size, rest};
    tail->before = block;
    tail->after = block->after;
    if (tail->after != nullptr) {
      tail->after->before = tail;
    }
    block->after = tail;
    block->size = size;
    add_free(memory, tail);
  }

  void give_back(Memory& memory, Block* block) {
    decrease(memory.stats.active, block->small, 1);
    decrease(memory.stats.active_bytes, block->small, static_cast<int64_t>(block->size));
    block->other_streams.clear();
    if (Block* next = block->after; next != nullptr && next->cached) {
      remove_free(memory, next);
      join(block, next);
    }
    if (Block* previous = block->before; previous != nullptr && previous->cached) {
      remove_free(memory, previous);
      join(previous, block);
      block = previous;
    }
    add_free(memory, block);
  }

  // `second` lies behind `first` in the segment and goes away.
  void join(Block* first, Block* second) {
    first->size += second->size;
    first->after = second->after;
    if (first->after != nullptr) {
      first->after->before = first;
    }
    delete second;
  }

  Block* new_segment(int device, StreamId stream, size_t size, size_t requested) {
    const bool small = size <= kSmall;
    const size_t segment = small                       ? kSmallSegment
                           : size <= kLargeSegment / 2 ? kLargeSegment
                                                       : (size + kSegmentRound - 1) / kSegmentRound * kSegmentRound;
    Memory& memory = memory_.at(device);
    if (!fits(device, segment)) {
      memory.stats.num_alloc_retries += 1;
      release_segments(device);
      if (!fits(device, segment)) {
        throw_out_of_memory(device, requested);
      }
    }
    RuntimeCall call("simMalloc");
    call.set_bytes(static_cast<int64_t>(segment));
    // Pages come with their first use, so a segment costs only what is written to it.
    void* address = mmap(nullptr, segment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      throw_out_of_memory(device, requested);
    }
    sleep_ns(settings(device).malloc_ns.load());
    increase(memory.stats.segment, small, 1);
    increase(memory.stats.reserved_bytes, small, static_cast<int64_t>(segment));
    memory.stats.num_device_alloc += 1;
    return new Block{device, stream, small, static_cast<char*>(address), segment};
  }

  bool fits(int device, size_t segment) {
    return current(memory_.at(device).stats.reserved_bytes) + static_cast<int64_t>(segment) <=
           settings(device).memory_capacity.load();
  }

  // Gives whole cached segments back to the system once the device has passed everything that was queued.
  void release_segments(int device) {
    Memory& memory = memory_.at(device);
    memory.stats.num_sync_all_streams += 1;
    {
      RuntimeCall call("simDeviceSynchronize");
      wait_for(device_moment(device));
    }
    take_back_deferred(memory);
    std::vector<Block*> whole;
    std::copy_if(memory.free.begin(), memory.free.end(), std::back_inserter(whole),
                 [](const Block* block) { return block->before == nullptr && block->after == nullptr; });
    for (Block* block : whole) {
      RuntimeCall call("simFree");
      call.set_bytes(static_cast<int64_t>(block->size));
      remove_free(memory, block);
      munmap(block->address, block->size);
      sleep_ns(settings(device).free_ns.load());
      decrease(memory.stats.segment, block->small, 1);
      decrease(memory.stats.reserved_bytes, block->small, static_cast<int64_t>(block->size));
      memory.stats.num_device_free += 1;
      delete block;
    }
  }

  [[noreturn]] void throw_out_of_memory(int device, size_t requested) {
    DeviceStats& stats = memory_.at(device).stats;
    stats.num_ooms += 1;
    const int64_t capacity = settings(device).memory_capacity.load();
    const int64_t reserved = current(stats.reserved_bytes);
    const int64_t allocated = current(stats.allocated_bytes);
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), allocated, reserved,
                                     c10::Device(kDeviceType, device));
    TORCH_CHECK_WITH(OutOfMemoryError, false, "sim:", device, " is out of memory. Tried to allocate ",
                     readable(static_cast<int64_t>(requested)), ", but of ", readable(capacity), " only ",
                     readable(std::max<int64_t>(0, capacity - reserved)), " is free: ", readable(allocated),
                     " is allocated by PyTorch and ", readable(reserved - allocated),
                     " is reserved by PyTorch but cannot serve this request.");
  }

  mutable std::mutex mutex_;
  std::array<Memory, kDevices> memory_;
  std::unordered_map<void*, Block*> allocated_;
};

}  // namespace

c10::DeviceAllocator* device_allocator() {
  return &CachingAllocator::instance();
}

}  // namespace sim
