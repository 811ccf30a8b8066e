// Pinned host memory, the random number generators, and growing a storage on the device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/core/StorageImpl.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "device.h"
#include "kernels.h"

namespace sim {
namespace {

// Blocks are powers of two and are kept; one that a queued copy still uses is not given out before that copy is over.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    }
    std::lock_guard lock(mutex_);
    void* address = take_cached(bytes);
    if (address == nullptr) {
      size_t size = 4096;
      while (size < bytes) {
        size *= 2;
      }
      TORCH_CHECK(posix_memalign(&address, 4096, size) == 0, "no host memory left for ", size, " pinned bytes");
      blocks_[static_cast<char*>(address)] = {size};
    }
    blocks_[static_cast<char*>(address)].allocated = true;
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

  bool record_event(void* address, void*, c10::Stream stream) override {
    keep(address, stream_moment(stream.device_index(), stream.id()));
    return contains(address);
  }

  void empty_cache() override {
    std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [](const auto& entry) {
      const bool free = !entry.second.allocated && has_passed(entry.second.busy);
      if (free) {
        ::free(entry.first);
      }
      return free;
    });
  }

  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool contains(const void* address) {
    std::lock_guard lock(mutex_);
    return find(address) != nullptr;
  }

  void keep(const void* address, const Moment& moment) {
    std::lock_guard lock(mutex_);
    if (Block* block = find(address)) {
      block->busy.add(moment);
    }
  }

  static PinnedAllocator& instance() {
    static auto* allocator = new PinnedAllocator();
    return *allocator;
  }

 private:
  struct Block {
    size_t size = 0;
    bool allocated = false;
    Moment busy;
  };

  static void release(void* address) {
    if (address == nullptr || in_bad_fork()) {
      return;
    }
    std::lock_guard lock(instance().mutex_);
    instance().blocks_[static_cast<char*>(address)].allocated = false;
  }

  Block* find(const void* address) {
    auto after = blocks_.upper_bound(static_cast<char*>(const_cast<void*>(address)));
    if (after == blocks_.begin()) {
      return nullptr;
    }
    auto& [start, block] = *std::prev(after);
    return address < start + block.size && block.allocated ? &block : nullptr;
  }

  void* take_cached(size_t bytes) {
    for (auto& [address, block] : blocks_) {
      if (!block.allocated && block.size >= bytes && block.size < 4 * bytes + 8192 && has_passed(block.busy)) {
        block.busy = {};
        return address;
      }
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::map<char*, Block> blocks_;
};

// Counter based: kernel number n of a seed always draws the same numbers, whatever ran before it.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(int device)
      : GeneratorImpl(c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device)),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    kernels_ = 0;
  }
  void set_offset(uint64_t offset) override { kernels_ = offset; }
  uint64_t get_offset() const override { return kernels_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }

  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == kStateBytes && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                "the random state of sim is a tensor of ", kStateBytes, " bytes");
    const auto* words = static_cast<const uint64_t*>(state.data());
    seed_ = words[0];
    kernels_ = words[1];
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::detail::empty_cpu({kStateBytes}, c10::ScalarType::Byte);
    auto* words = static_cast<uint64_t*>(state.mutable_data_ptr());
    words[0] = seed_;
    words[1] = kernels_;
    return state.getIntrusivePtr();
  }

  uint64_t next_kernel_seed() {
    // splitmix64 of the pair, so that neighbouring counts give unrelated seeds.
    uint64_t x = seed_ + 0x9E3779B97F4A7C15ULL * ++kernels_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

 private:
  static constexpr int64_t kStateBytes = 16;

  DeviceGenerator* clone_impl() const override {
    auto* copy = new DeviceGenerator(device().index());
    copy->seed_ = seed_;
    copy->kernels_ = kernels_;
    return copy;
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t kernels_ = 0;
};

}  // namespace

bool is_pinned(const void* pointer) {
  return PinnedAllocator::instance().contains(pointer);
}

c10::Allocator* pinned_allocator() {
  return &PinnedAllocator::instance();
}

void keep_pinned(const void* pointer, const Moment& moment) {
  PinnedAllocator::instance().keep(pointer, moment);
}

const at::Generator& default_generator(int device) {
  static auto* generators = new std::vector<at::Generator>([] {
    std::vector<at::Generator> all;
    for (int i = 0; i < kDevices; ++i) {
      all.push_back(at::make_generator<DeviceGenerator>(i));
    }
    return all;
  }());
  return generators->at(device < 0 ? current_device() : device);
}

at::Generator new_generator(int device) {
  return at::make_generator<DeviceGenerator>(device < 0 ? current_device() : device);
}

at::Generator kernel_generator(const std::optional<at::Generator>& generator, int device) {
  const bool given = generator.has_value() && generator->defined();
  auto* source =
      dynamic_cast<DeviceGenerator*>((given ? *generator : default_generator(device)).unsafeGetGeneratorImpl());
  TORCH_CHECK(source != nullptr, "expected a generator of the device sim, got one of ", generator->device());
  std::lock_guard lock(source->mutex_);
  return at::make_generator<at::CPUGeneratorImpl>(source->next_kernel_seed());
}

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  const int device = storage->device().index();
  at::Tensor target = empty_on(device, {static_cast<int64_t>(bytes)}, c10::ScalarType::Byte);
  const size_t kept = std::min(storage->nbytes(), bytes);
  if (kept > 0) {
    void* from = storage->mutable_data();
    void* to = target.mutable_data_ptr();
    static const std::string* name = interned("Memcpy DtoD (Device -> Device)");
    launch_on_current_stream(device, {name, Queue::dma_out, OperationKind::memcpy, static_cast<int64_t>(2 * kept), 0},
                             "simMemcpyAsync", [from, to, kept] { memcpy(to, from, kept); });
  }
  // The old block goes back to the allocator: it stays valid for what its stream has queued.
  storage->set_data_ptr_noswap(target.storage().unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr()));
  storage->set_nbytes(bytes);
}

}  // namespace sim
