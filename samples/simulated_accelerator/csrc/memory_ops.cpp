// Ops that make, view, resize, copy and read tensors of the device.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal_cpu_dispatch.h>
#include <ATen/ops/masked_select_cpu_dispatch.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/nonzero_cpu_dispatch.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "device.h"
#include "op_kernels.h"

namespace sim {
namespace {

using OptionalDtype = std::optional<c10::ScalarType>;
using OptionalLayout = std::optional<c10::Layout>;
using OptionalDevice = std::optional<c10::Device>;
using OptionalBool = std::optional<bool>;
using OptionalFormat = std::optional<c10::MemoryFormat>;

int device_index(const OptionalDevice& device) {
  return device.has_value() && device->index() >= 0 ? device->index() : current_device();
}

c10::ScalarType given_or_default(OptionalDtype dtype) {
  return dtype.value_or(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

at::Tensor empty_memory_format(c10::IntArrayRef sizes, OptionalDtype dtype, OptionalLayout, OptionalDevice device,
                               OptionalBool pin, OptionalFormat format) {
  TORCH_CHECK(!pin.value_or(false), "only tensors of the host can be pinned");
  at::Tensor result = empty_on(device_index(device), sizes, given_or_default(dtype));
  if (format.has_value() && *format != c10::MemoryFormat::Contiguous && *format != c10::MemoryFormat::Preserve) {
    result.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return result;
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, OptionalDtype dtype, OptionalLayout,
                         OptionalDevice device, OptionalBool) {
  return empty_strided_on(device_index(device), sizes, strides, given_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  return at::cpu::as_strided_symint(self, sizes, strides, std::move(offset));
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sizes, OptionalFormat format) {
  const auto wanted = C10_AS_INTARRAYREF_SLOW(sizes);
  const size_t bytes = at::detail::computeStorageNbytesContiguous(wanted, self.itemsize(), self.storage_offset());
  if (bytes > self.storage().nbytes()) {
    resize_storage(self.storage().unsafeGetStorageImpl(), bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(wanted);
  if (format.has_value() && *format != c10::MemoryFormat::Preserve) {
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef sizes,
                        c10::SymIntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(source), offset.expect_int(), C10_AS_INTARRAYREF_SLOW(sizes),
                                      C10_AS_INTARRAYREF_SLOW(strides));
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_non_overlapping_and_dense() && a.strides() == b.strides() &&
         a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// One block of bytes, over the queue of its direction.
void copy_bytes(const at::Tensor& from, const at::Tensor& to, bool wait) {
  const int64_t bytes = bytes_of(to);
  if (bytes == 0) {
    return;
  }
  static const std::string* names[] = {
      interned("Memcpy HtoD (Pageable -> Device)"), interned("Memcpy HtoD (Pinned -> Device)"),
      interned("Memcpy DtoH (Device -> Pageable)"), interned("Memcpy DtoH (Device -> Pinned)"),
      interned("Memcpy DtoD (Device -> Device)"),   interned("Memcpy PtoP (Device -> Device)")};
  const at::Tensor& on_device = from.is_cpu() ? to : from;
  const int device = on_device.device().index();
  void* source = const_cast<void*>(from.const_data_ptr());
  void* target = to.mutable_data_ptr();
  Work work{nullptr, Queue::dma_out, OperationKind::memcpy, bytes, 0};
  bool pageable = false;
  if (from.is_cpu() || to.is_cpu()) {
    const void* host = from.is_cpu() ? source : target;
    pageable = !is_pinned(host);
    work.queue = from.is_cpu() ? Queue::dma_in : Queue::dma_out;
    work.name = names[(from.is_cpu() ? 0 : 2) + (pageable ? 0 : 1)];
  } else {
    work.name = names[from.device() == to.device() ? 4 : 5];
  }
  // Memory that may be paged out must not be used after the call: the call lasts as long as the copy.
  const CompletionPtr done = launch_on_current_stream(
      device, work, "simMemcpyAsync", [source, target, bytes] { memcpy(target, source, bytes); }, pageable);
  if (!pageable && (from.is_cpu() || to.is_cpu())) {
    keep_pinned(from.is_cpu() ? source : target, {{done}, 0});
    if (wait) {
      synchronize_current_stream(device);
    }
  } else if (pageable) {
    throw_device_error(device);
  }
}

// Other layout or type, on one device.
void copy_elements(const at::Tensor& from, const at::Tensor& to) {
  static const std::string* name = interned("sim::copy_kernel");
  launch_kernel(to.device().index(), {name, Queue::vector, OperationKind::kernel, bytes_of(from) + bytes_of(to), 0},
                [from = host_view(from), to = host_view(to)]() mutable { to.copy_(from); });
}

void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  if (same_layout(from, to)) {
    copy_bytes(from, to, false);
  } else {
    copy_elements(from, to);
  }
}

at::Tensor contiguous_as(const at::Tensor& tensor, c10::ScalarType dtype) {
  if (tensor.is_contiguous() && tensor.scalar_type() == dtype && !tensor.is_conj() && !tensor.is_neg()) {
    return tensor;
  }
  at::Tensor result = tensor.is_cpu() ? at::empty(tensor.sizes(), tensor.options().dtype(dtype))
                                      : empty_on(tensor.device().index(), tensor.sizes(), dtype);
  result.copy_(tensor);
  return result;
}

// The bytes cross once, in the type and order of the target; what has to be changed is changed on the side that it is
// on.
void copy_across(const at::Tensor& from, const at::Tensor& to, bool wait) {
  if (same_layout(from, to)) {
    copy_bytes(from, to, wait);
    return;
  }
  const at::Tensor source = contiguous_as(from, to.scalar_type());
  if (to.is_contiguous()) {
    copy_bytes(source, to, wait);
    return;
  }
  at::Tensor landing =
      to.is_cpu() ? at::empty(to.sizes(), to.options()) : empty_on(to.device().index(), to.sizes(), to.scalar_type());
  copy_bytes(source, landing, wait || to.is_cpu());
  to.copy_(landing);
}

// Runs on the stream of the source; both devices' streams agree on the order.
void copy_between_devices(const at::Tensor& from, const at::Tensor& to) {
  const int source = from.device().index();
  const int target = to.device().index();
  const bool direct = same_layout(from, to);
  const at::Tensor sent = direct ? from : contiguous_as(from, to.scalar_type());
  const at::Tensor landing = direct || to.is_contiguous() ? to : empty_on(target, to.sizes(), to.scalar_type());
  wait_on_stream(source, current_stream(source), target, current_stream(target));
  copy_bytes(sent, landing, false);
  wait_on_stream(target, current_stream(target), source, current_stream(source));
  if (!landing.is_same(to)) {
    to.copy_(landing);
  }
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (target.numel() == 0) {
    return target;
  }
  const at::Tensor from = source.sizes() == target.sizes() ? source : source.expand(target.sizes());
  if (from.is_cpu() || target.is_cpu()) {
    copy_across(from, target, !non_blocking);
  } else if (from.device() == target.device()) {
    copy_on_device(from, target);
  } else {
    copy_between_devices(from, target);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (source.sizes() != target.sizes()) {
    target.resize_(source.sizes());
  }
  return copy_from(source, target, false);
}

at::Tensor& zero(at::Tensor& self) {
  static const std::string* memset_name = interned("Memset (Device)");
  static const std::string* kernel_name = interned("sim::zero_kernel");
  const int device = self.device().index();
  if (self.numel() == 0) {
    return self;
  }
  if (self.is_non_overlapping_and_dense()) {
    const int64_t bytes = bytes_of(self);
    launch_on_current_stream(device, {memset_name, Queue::vector, OperationKind::memset, bytes, 0}, "simMemsetAsync",
                             [data = self.mutable_data_ptr(), bytes] { memset(data, 0, bytes); });
  } else {
    launch_kernel(device, {kernel_name, Queue::vector, OperationKind::kernel, bytes_of(self), 0},
                  [view = host_view(self)]() mutable { view.zero_(); });
  }
  return self;
}

// The host needs a value: a small copy, and a wait for all that the stream has queued.
void read_back(const at::Tensor& self, int64_t bytes) {
  static const std::string* name = interned("Memcpy DtoH (Device -> Pinned)");
  const int device = self.device().index();
  launch_on_current_stream(device, {name, Queue::dma_out, OperationKind::memcpy, bytes, 0}, "simMemcpyAsync", nullptr);
  synchronize_current_stream(device);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  read_back(self, static_cast<int64_t>(self.itemsize()));
  return host_view(self).item();
}

// The size of these results depends on values: the kernel that counts is followed by a read-back.
template <class Compute>
at::Tensor counted(const at::Tensor& self, const std::string* name, Compute compute) {
  const int device = self.device().index();
  auto result = std::make_shared<at::Tensor>();
  launch_kernel(device, {name, Queue::vector, OperationKind::kernel, bytes_of(self), 0},
                [result, compute]() mutable { *result = compute(); });
  read_back(self, 8);
  at::Tensor placed = empty_on(device, result->sizes(), result->scalar_type());
  launch_kernel(device, {name, Queue::vector, OperationKind::kernel, bytes_of(self) + bytes_of(placed), 0},
                [result, target = host_view(placed)]() mutable { target.copy_(*result); });
  return placed;
}

at::Tensor nonzero(const at::Tensor& self) {
  static const std::string* name = interned("sim::nonzero_kernel");
  return counted(self, name, [view = host_view(self)] { return at::cpu::nonzero(view); });
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  static const std::string* name = interned("sim::masked_select_kernel");
  return counted(self, name,
                 [view = host_view(self), chosen = host_view(mask)] { return at::cpu::masked_select(view, chosen); });
}

at::Tensor dropout_mask(const at::Tensor& like, double keep) {
  static const std::string* name = interned("sim::bernoulli_kernel<bool>");
  const int device = like.device().index();
  at::Tensor mask = empty_like_on(like, c10::ScalarType::Bool);
  launch_kernel(device, {name, Queue::vector, OperationKind::kernel, bytes_of(mask), 0},
                [view = host_view(mask), keep, generator = kernel_generator(std::nullopt, device)]() mutable {
                  view.bernoulli_(keep, generator);
                });
  return mask;
}

// The schema names no generator, so that it is the device's own.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || p == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(c10::ScalarType::Bool))};
  }
  at::Tensor mask = dropout_mask(input, 1 - p);
  return {at::mul(at::mul(input, mask), p == 1 ? 0.0 : 1 / (1 - p)), mask};
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  static const std::string* name = interned("sim::equal_kernel");
  auto same = std::make_shared<bool>(false);
  launch_kernel(self.device().index(),
                {name, Queue::vector, OperationKind::kernel, bytes_of(self) + bytes_of(other), 0},
                [same, a = host_view(self), b = host_view(other)] { *same = at::cpu::equal(a, b); });
  read_back(self, 1);
  return *same;
}

}  // namespace

void register_memory_ops() {
  static auto* ops =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  ops->impl("empty.memory_format", empty_memory_format);
  ops->impl("empty_strided", empty_strided);
  ops->impl("as_strided", as_strided);
  ops->impl("view", view);
  ops->impl("_reshape_alias", reshape_alias);
  ops->impl("unfold", at::native::unfold);
  ops->impl("resize_", resize);
  ops->impl("set_.source_Storage_storage_offset", set_storage);
  ops->impl("set_.source_Storage", set_whole_storage);
  ops->impl("set_.source_Tensor", set_tensor);
  ops->impl("record_stream", record_stream);
  ops->impl("_copy_from", copy_from);
  ops->impl("_copy_from_and_resize", copy_from_and_resize);
  ops->impl("zero_", zero);
  ops->impl("_local_scalar_dense", local_scalar_dense);
  ops->impl("nonzero", nonzero);
  ops->impl("masked_select", masked_select);
  ops->impl("equal", equal);
  ops->impl("native_dropout", native_dropout);
}

}  // namespace sim
