// One boxed function serves all ops with a kernel: it gives the results their memory, turns the arguments into CPU
// views of the same memory, and queues the op of the CPU.
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <array>
#include <mutex>

#include "device.h"
#include "op_kernels.h"

namespace sim {
namespace {

using Stack = torch::jit::Stack;

struct Registered {
  OpKernel kernel;
  std::string base;           // aten::gelu
  std::string computed_base;  // aten::clamp_min, where it differs
  std::string label;          // gelu
  c10::OperatorHandle computes;
  int generator = -1;  // index of the argument that is a random number generator
  std::vector<bool> written;
  std::atomic<bool> enabled{true};
  std::array<std::atomic<const std::string*>, static_cast<size_t>(c10::ScalarType::NumOptions)> names{};

  explicit Registered(c10::OperatorHandle handle) : computes(std::move(handle)) {}

  const std::string* name_for(c10::ScalarType dtype) {
    auto& cached = names.at(static_cast<size_t>(dtype));
    if (cached.load() == nullptr) {
      cached = kernel_name(label, dtype);
    }
    return cached;
  }
};

std::mutex fallback_mutex;
std::map<std::string, int64_t>& fallbacks() {
  static auto* counts = new std::map<std::string, int64_t>();
  return *counts;
}

std::vector<Registered*>& registered() {
  static auto* all = new std::vector<Registered*>();
  return *all;
}

std::string base_of(const std::string& op) {
  return op.substr(0, op.find('.'));
}

std::string label_of(const std::string& base) {
  std::string label = base.substr(base.find("::") + 2);
  label.erase(0, label.find_first_not_of('_'));
  label.erase(label.find_last_not_of('_') + 1);
  return label;
}

c10::OperatorHandle find_op(const std::string& op) {
  const size_t dot = op.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(op.substr(0, dot).c_str(),
                                                        dot == std::string::npos ? "" : op.substr(dot + 1).c_str());
}

void fall_back(const c10::OperatorHandle& op, Stack* stack) {
  {
    std::lock_guard lock(fallback_mutex);
    fallbacks()[op.schema().name()] += 1;
  }
  at::native::cpu_fallback(op, stack);
}

// Turns the arguments into CPU views and learns from them: device, bytes, types.
class HostArguments {
 public:
  explicit HostArguments(const c10::FunctionSchema& schema) : schema_(schema) {}

  c10::IValue convert(const c10::IValue& value, bool written) {
    if (value.isTensor()) {
      return convert(value.toTensor(), written);
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> views;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        views.push_back(convert(tensor, written));
      }
      return views;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> views;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        // Indices may live on the host; they are small.
        const bool on_host = tensor.has_value() && tensor->defined() && tensor->is_cpu();
        views.push_back(!tensor.has_value()
                            ? std::nullopt
                            : std::make_optional(on_host ? tensor->clone() : convert(*tensor, written)));
      }
      return views;
    }
    return value.isDevice() ? c10::IValue(c10::Device(c10::DeviceType::CPU)) : value;
  }

  int device = -1;
  int64_t bytes = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;

 private:
  at::Tensor convert(const at::Tensor& tensor, bool written) {
    if (!tensor.defined()) {
      return tensor;
    }
    if (tensor.device().type() != kDeviceType) {
      TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0 && !written, schema_.name(),
                  ": expected all tensors on the device sim, got one on ", tensor.device());
      // Numbers that C++ wrapped have no owner in Python; others are copied.
      return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : tensor.clone();
    }
    if (device < 0) {
      device = tensor.device().index();
    }
    TORCH_CHECK(device == tensor.device().index(), schema_.name(), ": expected all tensors on sim:", device,
                ", got one on ", tensor.device());
    if (dtype == c10::ScalarType::Undefined) {
      dtype = tensor.scalar_type();
    }
    bytes += bytes_of(tensor);
    return host_view(tensor);
  }

  const c10::FunctionSchema& schema_;
};

at::Tensor on_meta(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
}

c10::IValue on_meta(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) {
    return on_meta(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> shapes;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      shapes.push_back(on_meta(tensor));
    }
    return shapes;
  }
  return value;
}

// out=torch.empty(0) asks the op for its size; ops without a rule of ours tell it on the meta device.
void resize_empty_outputs(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  const auto& schema = op.schema();
  Stack meta;
  std::vector<std::pair<at::Tensor, at::Tensor>> outputs;
  bool wanted = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    meta.push_back(on_meta(arguments[i]));
    if (schema.arguments()[i].is_out() && arguments[i].isTensor()) {
      outputs.emplace_back(arguments[i].toTensor(), meta.back().toTensor());
      wanted = wanted || arguments[i].toTensor().numel() == 0;
    }
  }
  if (!wanted || !op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    return;
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &meta);
  for (auto& [output, shape] : outputs) {
    output.resize_(shape.sizes());
  }
}

std::function<void()> computation(const Registered& entry, Stack arguments, Tensors results) {
  const c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  if (!entry.kernel.copies) {
    for (at::Tensor& result : results) {
      arguments.emplace_back(std::move(result));
    }
    return
        [op = entry.computes, cpu, arguments = std::move(arguments)]() mutable { op.redispatchBoxed(cpu, &arguments); };
  }
  return [op = entry.computes, cpu, arguments = std::move(arguments), results = std::move(results)]() mutable {
    op.redispatchBoxed(cpu, &arguments);
    Tensors computed;
    for (const c10::IValue& value : arguments) {
      if (value.isTensorList()) {
        computed = value.toTensorVector();
      } else {
        computed.push_back(value.toTensor());
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].defined() && computed.at(i).defined()) {
        results[i].copy_(computed[i]);
      }
    }
  };
}

// An op that only devices have (convolution_overrideable) falls back to the one that computes it.
void fall_back_from(const Registered& entry, const c10::OperatorHandle& op, Stack arguments, Stack* stack) {
  if (!entry.kernel.copies) {
    fall_back(op, stack);
    return;
  }
  torch::jit::drop(*stack, arguments.size());
  if (entry.kernel.adapt != nullptr) {
    entry.kernel.adapt(arguments);
  }
  stack->insert(stack->end(), arguments.begin(), arguments.end());
  fall_back(entry.computes, stack);
}

void run(Registered& entry, const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  if (!entry.enabled) {
    fall_back_from(entry, op, std::move(arguments), stack);
    return;
  }
  Tensors results;
  Tensors written;
  HostArguments host(schema);
  Stack views;
  if (entry.kernel.allocate == nullptr) {
    resize_empty_outputs(op, arguments);
  }
  for (size_t i = 0; i < count; ++i) {
    views.push_back(host.convert(arguments[i], entry.written[i]));
    if (entry.written[i] && arguments[i].isTensor()) {
      written.push_back(arguments[i].toTensor());
    }
  }
  TORCH_CHECK(host.device >= 0, entry.kernel.op, ": no argument is on the device sim");
  if (entry.generator >= 0) {
    views[entry.generator] = kernel_generator(arguments[entry.generator].toOptional<at::Generator>(), host.device);
  }
  Tensors result_views;
  if (entry.kernel.allocate != nullptr) {
    results = entry.kernel.allocate(arguments);
    for (const at::Tensor& result : results) {
      result_views.push_back(result.defined() ? host_view(result) : result);
      host.bytes += bytes_of(result);
    }
  }
  const int64_t flops =
      entry.kernel.flops == nullptr ? 0 : entry.kernel.flops(arguments, results.empty() ? written : results);
  const std::string* name = entry.name_for(host.dtype);
  compile_if_new(host.device, name, views);
  if (entry.kernel.adapt != nullptr) {
    entry.kernel.adapt(views);
  }
  launch_kernel(host.device, {name, entry.kernel.queue, OperationKind::kernel, host.bytes, flops},
                computation(entry, std::move(views), std::move(result_views)));
  torch::jit::drop(*stack, count);
  Tensors& returned = entry.kernel.allocate == nullptr ? written : results;
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    if (schema.returns()[i].type()->kind() == c10::TypeKind::ListType) {
      stack->emplace_back(c10::List<at::Tensor>(returned));
      break;
    }
    stack->emplace_back(returned.at(i));
  }
}

struct BoxedOp final : c10::OperatorKernel {
  explicit BoxedOp(Registered* entry) : entry(entry) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) { run(*entry, op, stack); }
  Registered* entry;
};

Registered* make_entry(const OpKernel& kernel) {
  const c10::OperatorHandle op = find_op(kernel.op);
  auto* entry = new Registered(kernel.computed_by.empty() ? op : find_op(kernel.computed_by));
  entry->kernel = kernel;
  entry->base = base_of(kernel.op);
  entry->computed_base = base_of(kernel.computed_by.empty() ? kernel.op : kernel.computed_by);
  entry->label = label_of(kernel.copies ? entry->computed_base : entry->base);
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    entry->written.push_back(arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite());
    if (arguments[i].type()->str().rfind("Generator", 0) == 0) {
      entry->generator = static_cast<int>(i);
    }
  }
  return entry;
}

}  // namespace

void register_ops() {
  // Registrations end with their library, so both live for ever.
  static auto* ops =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto* rest = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const OpKernel& kernel : op_kernels()) {
    Registered* entry = make_entry(kernel);
    registered().push_back(entry);
    ops->impl(kernel.op.c_str(), torch::CppFunction::makeFromBoxedKernel(
                                     c10::BoxedKernel::makeFromFunctor(std::make_unique<BoxedOp>(entry))));
  }
  register_memory_ops();
  rest->fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

std::map<std::string, int64_t> fallback_counts() {
  std::lock_guard lock(fallback_mutex);
  return fallbacks();
}

void reset_fallback_counts() {
  std::lock_guard lock(fallback_mutex);
  fallbacks().clear();
}

void set_kernel_enabled(const std::string& op, bool enabled) {
  bool found = false;
  for (Registered* entry : registered()) {
    if (entry->base == op || (entry->kernel.copies && entry->computed_base == op)) {
      entry->enabled = enabled;
      found = true;
    }
  }
  TORCH_CHECK(found, "the device sim has no kernel named ", op, "; write it without an overload, as aten::gelu");
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const Registered* entry : registered()) {
    names.push_back(entry->kernel.op);
  }
  return names;
}

}  // namespace sim
