#include "kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <dlfcn.h>

#include "device.h"
#include "trace.h"

namespace sim {

void prepare_compute_thread() {
  // Ends with the thread.
  static thread_local const at::AutoDispatchBelowADInplaceOrView below_autograd;
  // What the device computes is no op of the program: a profile of all threads must not show it.
  static thread_local const at::DisableRecordFunctionGuard unrecorded;
  (void)below_autograd;
  (void)unrecorded;
  // Torch sets the number of threads on first use; ours comes after it, for this thread only. The library is
  // already loaded by torch, so that linking a second one is out of the question.
  at::internal::lazy_init_num_threads();
  if (auto* set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    set_threads(1);
  }
}

at::Tensor host_view(const at::Tensor& tensor) {
  const size_t skipped = static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize();
  const size_t bytes = tensor.storage().nbytes() > skipped ? tensor.storage().nbytes() - skipped : 0;
  void* data = const_cast<void*>(tensor.const_data_ptr());
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                            c10::DataPtr(data, c10::Device(c10::DeviceType::CPU)), nullptr, false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                   tensor.dtype());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  at::Tensor view(std::move(impl));
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

namespace {

// Allocations go to the current device.
class OnDevice {
 public:
  explicit OnDevice(int device) : previous_(current_device()) { set_current_device(device); }
  ~OnDevice() { set_current_device(previous_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int previous_;
};

}  // namespace

at::Tensor empty_on(int device, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  const OnDevice guard(device);
  return at::detail::empty_generic(sizes, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype,
                                   std::nullopt);
}

at::Tensor empty_strided_on(int device, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) {
  const OnDevice guard(device);
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

at::Tensor empty_like_on(const at::Tensor& like, c10::ScalarType dtype) {
  const int device = like.device().index();
  if (like.is_non_overlapping_and_dense()) {
    return empty_strided_on(device, like.sizes(), like.strides(), dtype);
  }
  return empty_strided_on(device, like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()), dtype);
}

int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<int64_t>(tensor.itemsize()) : 0;
}

const std::string* kernel_name(const std::string& label, c10::ScalarType dtype) {
  std::string type = c10::toString(dtype);
  type[0] = static_cast<char>(std::tolower(type[0]));
  return interned("sim::" + label + "_kernel<" + type + ">");
}

std::unique_ptr<Operation> make_operation(int device, const Work& work, std::function<void()> compute) {
  auto operation = std::make_unique<Operation>();
  operation->queue = work.queue;
  operation->kind = work.kind;
  operation->name = work.name;
  operation->bytes = work.bytes;
  operation->flops = work.flops;
  operation->duration_ns =
      duration_ns(device, work.queue, static_cast<double>(work.queue == Queue::tensor ? work.flops : work.bytes));
  operation->compute = std::move(compute);
  return operation;
}

CompletionPtr launch_operation(int device, StreamId stream, std::unique_ptr<Operation> operation, const char* name,
                               bool wait) {
  RuntimeCall call(name);
  call.launches();
  if (operation->kind == OperationKind::memcpy || operation->kind == OperationKind::memset) {
    call.set_bytes(operation->bytes);
  }
  operation->correlation = call.correlation();
  operation->host_operation = current_host_operation();
  operation->traced = tracing();
  CompletionPtr done = launch(device, stream, std::move(operation));
  if (wait) {
    wait_for({{done}, 0});
  }
  return done;
}

CompletionPtr launch_on_current_stream(int device, const Work& work, const char* call, std::function<void()> compute,
                                       bool wait) {
  return launch_operation(device, current_stream(device), make_operation(device, work, std::move(compute)), call, wait);
}

CompletionPtr launch_kernel(int device, const Work& work, std::function<void()> compute) {
  return launch_on_current_stream(device, work, "simLaunchKernel", std::move(compute));
}

void synchronize_current_stream(int device) {
  {
    RuntimeCall call("simStreamSynchronize");
    wait_for(stream_moment(device, current_stream(device)));
  }
  throw_device_error(device);
}

}  // namespace sim
