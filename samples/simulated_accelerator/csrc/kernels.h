// From tensors on the device to operations in its streams.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "engine.h"

namespace sim {

// Once on each thread that computes results: one core, no autograd, no record functions.
void prepare_compute_thread();

// A CPU tensor over the same memory that owns nothing: the caching allocator keeps the memory until the stream has
// passed, and a reference held by a queued operation could be the last one to a tensor that belongs to Python.
at::Tensor host_view(const at::Tensor& tensor);

at::Tensor empty_on(int device, c10::IntArrayRef sizes, c10::ScalarType dtype);
at::Tensor empty_strided_on(int device, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);
// Same sizes and, where they are dense, strides.
at::Tensor empty_like_on(const at::Tensor& like, c10::ScalarType dtype);

int64_t bytes_of(const at::Tensor& tensor);

struct Work {
  const std::string* name = nullptr;
  Queue queue = Queue::vector;
  OperationKind kind = OperationKind::kernel;
  int64_t bytes = 0;
  int64_t flops = 0;
};

// sim::gelu_kernel<float>
const std::string* kernel_name(const std::string& label, c10::ScalarType dtype);

std::unique_ptr<Operation> make_operation(int device, const Work& work, std::function<void()> compute);

// Queues an operation; the call is a slice of the trace named `call`, which lasts until the end of the operation with
// `wait`.
CompletionPtr launch_operation(int device, StreamId stream, std::unique_ptr<Operation> operation, const char* call,
                               bool wait = false);
CompletionPtr launch_on_current_stream(int device, const Work& work, const char* call, std::function<void()> compute,
                                       bool wait = false);
CompletionPtr launch_kernel(int device, const Work& work, std::function<void()> compute);

// Waits for the current stream of `device`, as `simStreamSynchronize`, and throws the device's error, if any.
void synchronize_current_stream(int device);

}  // namespace sim
