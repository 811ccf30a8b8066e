// Current device and streams of the calling thread, the allocators and the random number generators.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "engine.h"

namespace sim {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

int current_device();
void set_current_device(int device);
StreamId current_stream(int device);
void set_current_stream(int device, StreamId stream);
StreamId next_pool_stream(int device);

// Makes a stream wait for what another one, maybe of the other device, has queued so far.
void wait_on_stream(int device, StreamId stream, int source_device, StreamId source);

c10::DeviceAllocator* device_allocator();
// Changes the size of a storage on the device, keeping its content.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

bool is_pinned(const void* pointer);
c10::Allocator* pinned_allocator();
// Pinned memory that an operation in flight reads or writes is not given out again before `moment`.
void keep_pinned(const void* pointer, const Moment& moment);

const at::Generator& default_generator(int device);
at::Generator new_generator(int device);
// A CPU generator for one kernel: seeded from the device generator's seed and its count of kernels so far.
at::Generator kernel_generator(const std::optional<at::Generator>& generator, int device);

// Guard, hooks, allocators: once, when the extension is loaded.
void register_device();

}  // namespace sim
