// Current device and stream per thread, events, and the hooks that torch.accelerator and autograd call.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <array>
#include <mutex>

#include "clock.h"
#include "device.h"
#include "trace.h"

namespace sim {
namespace {

thread_local int this_device = 0;
thread_local std::array<StreamId, kDevices> this_stream{};
std::array<std::atomic<int64_t>, kDevices> streams_given{};

c10::Stream make_stream(int device, StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device)), id);
}

int index_of(c10::Device device) {
  return device.index() < 0 ? this_device : device.index();
}

struct Event {
  Moment moment;
  int device = 0;
  StreamId stream = kDefaultStream;
  uint32_t correlation = 0;  // of the call that recorded it
  bool timing = false;
  bool recorded = false;
};

Event& event_of(void* event) {
  return *static_cast<Event*>(event);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const int previous = this_device;
    set_current_device(index_of(device));
    return {kDeviceType, static_cast<c10::DeviceIndex>(previous)};
  }
  c10::Device getDevice() const override { return {kDeviceType, static_cast<c10::DeviceIndex>(this_device)}; }
  void setDevice(c10::Device device) const override { set_current_device(index_of(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { this_device = index_of(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override {
    return make_stream(index_of(device), this_stream[index_of(device)]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return make_stream(index_of(device), kDefaultStream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return make_stream(index_of(device), next_pool_stream(index_of(device)));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return make_stream(index_of(device), next_pool_stream(index_of(device)));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const int device = stream.device_index();
    const StreamId previous = this_stream.at(device);
    set_current_stream(device, stream.id());
    return make_stream(device, previous);
  }
  // There is no handle below the id; it is never dereferenced.
  void* getStreamNativeHandle(const c10::Stream stream) const override { return reinterpret_cast<void*>(stream.id()); }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (*event == nullptr) {
      *event = new Event();
    }
    RuntimeCall call("simEventRecord");
    event_of(*event) = {stream_moment(stream.device_index(), stream.id()),
                        stream.device_index(),
                        stream.id(),
                        call.correlation(),
                        flag == c10::EventFlag::BACKEND_DEFAULT,
                        true};
  }

  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr || !event_of(event).recorded) {
      return;
    }
    RuntimeCall call("simStreamWaitEvent");
    const Event& on = event_of(event);
    stream_wait(stream.device_index(), stream.id(), on.moment,
                {on.stream, on.correlation, call.correlation(), current_host_operation(), now_ns()});
  }

  bool queryEvent(void* event) const override {
    RuntimeCall call("simEventQuery");
    return event == nullptr || !event_of(event).recorded || has_passed(event_of(event).moment);
  }

  bool queryStream(const c10::Stream& stream) const override {
    RuntimeCall call("simStreamQuery");
    return has_passed(stream_moment(stream.device_index(), stream.id()));
  }

  void synchronizeStream(const c10::Stream& stream) const override {
    {
      RuntimeCall call("simStreamSynchronize");
      wait_for(stream_moment(stream.device_index(), stream.id()));
    }
    throw_device_error(stream.device_index());
  }

  void synchronizeEvent(void* event) const override {
    if (event == nullptr || !event_of(event).recorded) {
      return;
    }
    {
      RuntimeCall call("simEventSynchronize");
      wait_for(event_of(event).moment);
    }
    throw_device_error(event_of(event).device);
  }

  void synchronizeDevice(const c10::DeviceIndex device) const override {
    const int index = device < 0 ? this_device : device;
    {
      RuntimeCall call("simDeviceSynchronize");
      wait_for(device_moment(index));
    }
    throw_device_error(index);
  }

  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr && event_of(first).recorded && event_of(second).recorded,
                "both events must be recorded before the time between them is asked for");
    TORCH_CHECK(event_of(first).timing && event_of(second).timing,
                "both events must be created with enable_timing=True");
    TORCH_CHECK(has_passed(event_of(first).moment) && has_passed(event_of(second).moment),
                "the device has not passed both events yet; synchronize first");
    return static_cast<double>(event_of(second).moment.time_ns() - event_of(first).moment.time_ns()) / 1e6;
  }

  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    device_allocator()->recordStream(pointer, stream);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}

  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(this_device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const int previous = this_device;
    set_current_device(device);
    return static_cast<c10::DeviceIndex>(previous);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void*) const override {
    return {kDeviceType, static_cast<c10::DeviceIndex>(this_device)};
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

// The profiler of torch.autograd without Kineto times ops with a pair of events.
struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    if (device != nullptr) {
      *device = static_cast<c10::DeviceIndex>(this_device);
    }
    *event = std::make_shared<Moment>(stream_moment(this_device, current_stream(this_device)));
    if (cpu_ns != nullptr) {
      *cpu_ns = now_ns();
    }
  }
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* first,
                const torch::profiler::impl::ProfilerVoidEventStub* second) const override {
    const auto& from = *static_cast<const Moment*>(first->get());
    const auto& to = *static_cast<const Moment*>(second->get());
    wait_for(from);
    wait_for(to);
    return static_cast<float>(to.time_ns() - from.time_ns()) / 1e3F;
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> action) const override {
    for (int device = 0; device < kDevices; ++device) {
      action(device);
    }
  }
  void synchronize() const override { wait_for(device_moment(this_device)); }
};

}  // namespace

int current_device() {
  return this_device;
}

void set_current_device(int device) {
  TORCH_CHECK(device >= 0 && device < kDevices, "there is no device sim:", device, "; there are ", kDevices);
  this_device = device;
}

StreamId current_stream(int device) {
  return this_stream.at(device);
}

void set_current_stream(int device, StreamId stream) {
  TORCH_CHECK(stream >= 0 && stream <= kPoolStreams, "the device sim has no stream ", stream);
  this_stream.at(device) = stream;
}

StreamId next_pool_stream(int device) {
  return 1 + streams_given.at(device)++ % kPoolStreams;
}

void wait_on_stream(int device, StreamId stream, int source_device, StreamId source) {
  RuntimeCall record("simEventRecord");
  RuntimeCall call("simStreamWaitEvent");
  stream_wait(device, stream, stream_moment(source_device, source),
              {source, record.correlation(), call.correlation(), current_host_operation(), now_ns()});
}

void register_device() {
  c10::impl::registerDeviceGuard(kDeviceType, new Guard());
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  c10::SetAllocator(kDeviceType, device_allocator());
  at::setHostAllocator(kDeviceType, static_cast<at::HostAllocator*>(pinned_allocator()));
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs());
  register_profiler();
}

}  // namespace sim
