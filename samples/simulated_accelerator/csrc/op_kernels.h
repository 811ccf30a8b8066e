// The ops of torch that have a kernel on the device, and what happens to the others.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

#include "kernels.h"

namespace sim {

using Arguments = c10::ArrayRef<c10::IValue>;
using Tensors = std::vector<at::Tensor>;

// One op. Its result is computed by an op of the CPU on views of the same memory.
struct OpKernel {
  std::string op;  // as registered: aten::gelu.out
  Queue queue = Queue::vector;
  // Allocates the results on the device; null: the op writes to its arguments only (in place, out=).
  Tensors (*allocate)(Arguments arguments) = nullptr;
  // The op that computes: itself when empty. With `copies` it returns new tensors, which are copied to the results;
  // without, the results are its last arguments.
  std::string computed_by = {};
  bool copies = false;
  // From the arguments of `op` to those of `computed_by`, results left out; null: the same.
  void (*adapt)(std::vector<c10::IValue>& arguments) = nullptr;
  int64_t (*flops)(Arguments arguments, const Tensors& results) = nullptr;
};

std::vector<OpKernel> op_kernels();

// Registers all kernels, the fallback for the rest, and the ops that move or describe memory.
void register_ops();
void register_memory_ops();

// Ops that ran on the CPU though their tensors are on the device, by name.
std::map<std::string, int64_t> fallback_counts();
void reset_fallback_counts();
// While disabled, an op (without its overload, as "aten::gelu") falls back. Throws where no kernel has that name.
void set_kernel_enabled(const std::string& op, bool enabled);
std::vector<std::string> kernel_names();

// Waits as a compiler would when this kernel meets these shapes for the first time.
void compile_if_new(int device, const std::string* name, Arguments arguments);
void set_compile_cache(const std::string& folder);
void forget_compiled();

}  // namespace sim
