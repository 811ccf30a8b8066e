// Which ops have a kernel, on which queue it runs, and what memory its results need.
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/result_type.h>

#include <sstream>

#include "op_kernels.h"

namespace sim {
namespace {

using Sizes = std::vector<int64_t>;

at::Tensor make(const at::Tensor& beside, const Sizes& sizes) {
  return empty_on(beside.device().index(), sizes, beside.scalar_type());
}

Tensors like_first(Arguments a) {
  return {empty_like_on(a[0].toTensor(), a[0].toTensor().scalar_type())};
}

Tensors two_like_first(Arguments a) {
  return {like_first(a)[0], like_first(a)[0]};
}

Tensors like_second(Arguments a) {
  return {empty_like_on(a[1].toTensor(), a[1].toTensor().scalar_type())};
}

Tensors flags_like_first(Arguments a) {
  return {empty_like_on(a[0].toTensor(), c10::ScalarType::Bool)};
}

Tensors one_number(Arguments a) {
  return {make(a[0].toTensor(), {})};
}

// Sums and products of integers are 64 bit wide.
Tensors one_wide_number(Arguments a) {
  const at::Tensor& self = a[0].toTensor();
  c10::ScalarType dtype = c10::isIntegralType(self.scalar_type(), true) ? c10::ScalarType::Long : self.scalar_type();
  if (!a[1].isNone()) {
    dtype = a[1].toScalarType();
  }
  return {empty_on(self.device().index(), {}, dtype)};
}

Tensors broadcast(Arguments a) {
  const at::Tensor& self = a[0].toTensor();
  const at::Tensor& other = a[1].toTensor();
  const at::Tensor& on_device = self.is_cpu() ? other : self;
  return {
      empty_on(on_device.device().index(), at::infer_size(self.sizes(), other.sizes()), at::result_type(self, other))};
}

Tensors where_result(Arguments a) {
  const at::Tensor& self = a[1].toTensor();
  const at::Tensor& other = a[2].toTensor();
  const Sizes sizes = at::infer_size(a[0].toTensor().sizes(), at::infer_size(self.sizes(), other.sizes()));
  return {empty_on(a[0].toTensor().device().index(), sizes, at::result_type(self, other))};
}

Tensors selected_rows(Arguments a) {
  const at::Tensor& self = a[0].toTensor();
  Sizes sizes = self.sizes().vec();
  if (!sizes.empty()) {
    sizes[c10::maybe_wrap_dim(a[1].toInt(), self.dim())] = a[2].toTensor().numel();
  }
  return {make(self, sizes)};
}

Tensors embedded(Arguments a) {
  Sizes sizes = a[1].toTensor().sizes().vec();
  sizes.push_back(a[0].toTensor().size(1));
  return {make(a[0].toTensor(), sizes)};
}

Tensors embedding_gradient(Arguments a) {
  return {make(a[0].toTensor(), {a[2].toInt(), a[0].toTensor().size(-1)})};
}

Tensors drawn_indices(Arguments a) {
  const at::Tensor& self = a[0].toTensor();
  const Sizes sizes = self.dim() == 1 ? Sizes{a[1].toInt()} : Sizes{self.size(0), a[1].toInt()};
  return {empty_on(self.device().index(), sizes, c10::ScalarType::Long)};
}

// self, dims, correction, keepdim
Sizes reduced_sizes(const at::Tensor& self, const c10::IValue& dims, bool keep) {
  std::vector<bool> gone(self.dim(), dims.isNone() || dims.toIntVector().empty());
  if (!dims.isNone()) {
    for (int64_t dim : dims.toIntVector()) {
      gone.at(c10::maybe_wrap_dim(dim, self.dim())) = true;
    }
  }
  Sizes sizes;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (!gone[dim]) {
      sizes.push_back(self.size(dim));
    } else if (keep) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

Tensors variance(Arguments a) {
  return {make(a[0].toTensor(), reduced_sizes(a[0].toTensor(), a[1], a[3].toBool()))};
}

Tensors variance_and_mean(Arguments a) {
  return {variance(a)[0], variance(a)[0]};
}

Tensors layer_norm_results(Arguments a) {
  const at::Tensor& input = a[0].toTensor();
  Sizes statistics = input.sizes().vec();
  std::fill(statistics.end() - static_cast<std::ptrdiff_t>(a[1].toIntVector().size()), statistics.end(), 1);
  return {make(input, input.sizes().vec()), make(input, statistics), make(input, statistics)};
}

// Gradients of input, weight and bias, each where `mask` asks for it.
Tensors masked_gradients(const at::Tensor& input, const at::Tensor& weight, int64_t bias, const c10::IValue& mask) {
  const auto wanted = mask.toBoolList();
  return {wanted[0] ? make(input, input.sizes().vec()) : at::Tensor(),
          wanted[1] ? make(weight.defined() ? weight : input, weight.defined() ? weight.sizes().vec() : Sizes{bias})
                    : at::Tensor(),
          wanted[2] ? make(input, weight.defined() && bias < 0 ? weight.sizes().vec() : Sizes{bias}) : at::Tensor()};
}

at::Tensor maybe_tensor(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

Tensors layer_norm_gradients(Arguments a) {
  return masked_gradients(a[1].toTensor(), maybe_tensor(a[5]), -1, a[7]);
}

Tensors batch_norm_results(Arguments a) {
  const at::Tensor& input = a[0].toTensor();
  const bool training = a[a.size() - 3].toBool();
  const Sizes statistics{training ? input.size(1) : 0};
  return {empty_like_on(input, input.scalar_type()), make(input, statistics), make(input, statistics)};
}

Tensors batch_norm_gradients(Arguments a) {
  return masked_gradients(a[1].toTensor(), maybe_tensor(a[2]), a[1].toTensor().size(1), a[9]);
}

Tensors group_norm_results(Arguments a) {
  const at::Tensor& input = a[0].toTensor();
  const Sizes statistics{a[3].toInt(), a[6].toInt()};
  return {make(input, input.sizes().vec()), make(input, statistics), make(input, statistics)};
}

Tensors group_norm_gradients(Arguments a) {
  return masked_gradients(a[1].toTensor(), maybe_tensor(a[4]), a[6].toInt(), a[9]);
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
Tensors convolved(Arguments a) {
  const at::Tensor& input = a[0].toTensor();
  const at::Tensor& weight = a[1].toTensor();
  const auto stride = a[3].toIntVector(), padding = a[4].toIntVector(), dilation = a[5].toIntVector();
  const auto output_padding = a[7].toIntVector();
  const bool transposed = a[6].toBool();
  Sizes sizes{input.size(0), transposed ? weight.size(1) * a[8].toInt() : weight.size(0)};
  for (int64_t i = 0; i < input.dim() - 2; ++i) {
    const auto at = [i](const std::vector<int64_t>& values) { return values.size() == 1 ? values[0] : values.at(i); };
    const int64_t reach = at(dilation) * (weight.size(i + 2) - 1);
    sizes.push_back(transposed ? (input.size(i + 2) - 1) * at(stride) - 2 * at(padding) + reach + at(output_padding) + 1
                               : (input.size(i + 2) + 2 * at(padding) - reach - 1) / at(stride) + 1);
  }
  return {make(input, sizes)};
}

// grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask
Tensors convolution_gradients(Arguments a) {
  return masked_gradients(a[1].toTensor(), a[2].toTensor(), a[0].toTensor().size(1), a[9]);
}

// convolution_backward also takes the sizes of the bias.
void add_bias_sizes(std::vector<c10::IValue>& a) {
  const at::Tensor gradient = a[0].toTensor();
  a.insert(a.begin() + 3, c10::IValue(Sizes{gradient.size(1)}));
}

void clamp_at_zero(std::vector<c10::IValue>& a) {
  a.emplace_back(c10::Scalar(0));
}

Tensors pooled(Arguments a) {
  Sizes sizes = a[0].toTensor().sizes().vec();
  const auto output = a[1].toIntVector();
  std::copy(output.begin(), output.end(), sizes.end() - static_cast<std::ptrdiff_t>(output.size()));
  return {make(a[0].toTensor(), sizes)};
}

// self, target, weight, reduction (0: none)
Tensors cross_entropy_result(Arguments a) {
  return a[3].toInt() == 0 ? like_first(a) : one_number(a);
}

Tensors list_like_first(Arguments a) {
  Tensors results;
  for (const at::Tensor& tensor : a[0].toTensorVector()) {
    results.push_back(empty_like_on(tensor, tensor.scalar_type()));
  }
  return results;
}

Tensors list_of_numbers(Arguments a) {
  Tensors results;
  for (const at::Tensor& tensor : a[0].toTensorVector()) {
    results.push_back(make(tensor, {}));
  }
  return results;
}

// Multiply and add count as two; `inner` is the length of the sums.
int64_t product_flops(const Tensors& results, int64_t inner) {
  return 2 * results.at(0).numel() * inner;
}

int64_t first_times_second(Arguments a, const Tensors& results) {
  return product_flops(results, a[0].toTensor().size(-1));
}

int64_t second_times_third(Arguments a, const Tensors& results) {
  return product_flops(results, a[1].toTensor().size(-1));
}

int64_t convolution_flops(Arguments a, const Tensors& results) {
  const at::Tensor& weight = a[1].toTensor();
  const at::Tensor& positions = a[6].toBool() ? a[0].toTensor() : results.at(0);
  return weight.size(0) == 0 ? 0 : 2 * positions.numel() * (weight.numel() / weight.size(0));
}

// The gradients of input and weight each cost what the convolution did.
int64_t convolution_backward_flops(Arguments a, const Tensors& results) {
  const at::Tensor& weight = a[2].toTensor();
  const at::Tensor& positions = a[6].toBool() ? a[1].toTensor() : a[0].toTensor();
  const int64_t once = weight.size(0) == 0 ? 0 : 2 * positions.numel() * (weight.numel() / weight.size(0));
  return once * ((results.at(0).defined() ? 1 : 0) + (results.at(1).defined() ? 1 : 0));
}

// These write to an argument. Ops with a structured kernel in torch come down to their out= form by themselves.
// By paragraph: of one tensor, of several, reductions and scans, by index, images, fresh values, optimizers.
constexpr const char* kWriting = R"(
abs.out acos.out acosh.out asin.out asinh.out atan.out atanh.out bitwise_not.out ceil.out cos.out cosh.out erf.out
erfc.out erfinv.out exp.out exp2.out expm1.out floor.out frac.out isneginf.out isposinf.out lgamma.out log.out
log10.out log1p.out log2.out logical_not.out neg.out reciprocal.out round.out rsqrt.out sgn.out sigmoid.out sign.out
signbit.out sin.out sinc.out sinh.out sqrt.out tan.out tanh.out trunc.out elu.out elu_backward.grad_input gelu.out
gelu_backward.grad_input glu.out hardsigmoid.out leaky_relu.out leaky_relu_backward.grad_input
logit_backward.grad_input mish.out relu_ sigmoid_backward.grad_input silu.out silu_backward.grad_input softplus.out
softplus_backward.grad_input softshrink.out tanh_backward.grad_input threshold.out threshold_backward.grad_input
clamp.out clamp_min.out clamp_max.out tril.out triu.out

add.out sub.out mul.out div.out div.out_mode addcdiv.out addcmul.out atan2.out bitwise_and.Tensor_out
bitwise_or.Tensor_out bitwise_xor.Tensor_out clamp.Tensor_out clamp_max.Tensor_out clamp_min.Tensor_out copysign.out
eq.Scalar_out eq.Tensor_out ne.Scalar_out ne.Tensor_out lt.Scalar_out lt.Tensor_out le.Scalar_out le.Tensor_out
gt.Scalar_out gt.Tensor_out ge.Scalar_out ge.Tensor_out floor_divide.out fmax.out fmin.out fmod.Tensor_out hypot.out
lerp.Scalar_out lerp.Tensor_out logaddexp.out logical_and.out logical_or.out logical_xor.out maximum.out minimum.out
pow.Scalar_out pow.Tensor_Scalar_out pow.Tensor_Tensor_out remainder.Tensor_out where.self_out xlogy.OutTensor
masked_fill_.Scalar masked_fill_.Tensor mse_loss.out mse_loss_backward.grad_input smooth_l1_loss.out
smooth_l1_loss_backward.grad_input cat.out

all.all_out all.out amax.out amin.out any.all_out any.out argmax.out argmin.out cumprod.out cumsum.out
linalg_vector_norm.out logsumexp.out max.dim_max mean.out min.dim_min norm.dtype_out norm.out prod.int_out
sort.values_stable sum.IntList_out topk.values _log_softmax.out _log_softmax_backward_data.out _softmax.out
_softmax_backward_data.out nll_loss_forward.output nll_loss_backward.grad_input

_index_put_impl_ gather.out index.Tensor_out index_add.out index_copy.out index_fill_.int_Scalar
index_fill_.int_Tensor scatter.reduce_out scatter.src_out scatter.value_out scatter.value_reduce_out scatter_add.out
scatter_reduce.two_out

avg_pool2d.out avg_pool2d_backward.grad_input max_pool2d_with_indices.out
max_pool2d_with_indices_backward.grad_input upsample_bilinear2d.out upsample_bilinear2d_backward.grad_input
upsample_nearest2d.out upsample_nearest2d_backward.grad_input

arange.start_out eye.m_out fill_.Scalar fill_.Tensor linspace.out randperm.generator_out bernoulli.out
bernoulli_.Tensor bernoulli_.float cauchy_ exponential_ geometric_ log_normal_ normal_ random_ random_.from
random_.to uniform_

_fused_adam_ _fused_adam_.tensor_lr _fused_adamw_ _fused_adamw_.tensor_lr _fused_sgd_ _fused_sgd_.tensor_lr
_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_
)";

const std::vector<OpKernel>& allocating() {
  static const auto* kernels = new std::vector<OpKernel>{
      {"relu", Queue::vector, like_first, "clamp_min.out", false, clamp_at_zero},
      {"isnan", Queue::vector, flags_like_first, "isnan.out"},
      {"floor_divide", Queue::vector, broadcast, "floor_divide.out"},
      {"where.self", Queue::vector, where_result, "where.self_out"},
      {"hardtanh", Queue::vector, like_first, "hardtanh.out"},
      {"hardtanh_backward", Queue::vector, like_second, "hardtanh_backward.grad_input"},
      {"hardswish", Queue::vector, like_first, "hardswish.out"},
      {"hardswish_backward", Queue::vector, like_second, "hardswish_backward.out"},
      {"log_sigmoid_forward", Queue::vector, two_like_first, "", true},
      {"log_sigmoid_backward", Queue::vector, like_second, "", true},
      {"flip", Queue::vector, like_first, "flip.out"},
      {"roll", Queue::vector, like_first, "roll.out"},
      {"max", Queue::vector, one_number, "", true},
      {"min", Queue::vector, one_number, "", true},
      {"prod", Queue::vector, one_wide_number, "", true},
      {"var.correction", Queue::vector, variance, "var.correction_out"},
      {"std.correction", Queue::vector, variance, "std.correction_out"},
      {"var_mean.correction", Queue::vector, variance_and_mean, "", true},
      {"index_select", Queue::vector, selected_rows, "index_select.out"},
      {"embedding", Queue::vector, embedded, "", true},
      {"embedding_dense_backward", Queue::vector, embedding_gradient, "", true},
      {"multinomial", Queue::vector, drawn_indices, "multinomial.out"},
      {"binary_cross_entropy", Queue::vector, cross_entropy_result, "", true},
      {"binary_cross_entropy_backward", Queue::vector, like_second, "binary_cross_entropy_backward.grad_input"},
      {"native_dropout_backward", Queue::vector, like_first, "native_dropout_backward.out"},
      {"native_layer_norm", Queue::vector, layer_norm_results, "", true},
      {"native_layer_norm_backward", Queue::vector, layer_norm_gradients, "", true},
      {"native_batch_norm", Queue::vector, batch_norm_results, "native_batch_norm.out"},
      {"_native_batch_norm_legit", Queue::vector, batch_norm_results, "", true},
      {"_native_batch_norm_legit.no_stats", Queue::vector, batch_norm_results, "", true},
      {"native_batch_norm_backward", Queue::vector, batch_norm_gradients, "", true},
      {"native_group_norm", Queue::vector, group_norm_results, "", true},
      {"native_group_norm_backward", Queue::vector, group_norm_gradients, "", true},
      {"_adaptive_avg_pool2d", Queue::vector, pooled, "", true},
      {"_adaptive_avg_pool2d_backward", Queue::vector, like_second, "", true},
      {"convolution_overrideable", Queue::tensor, convolved, "convolution", true, nullptr, convolution_flops},
      {"convolution_backward_overrideable", Queue::tensor, convolution_gradients, "convolution_backward", true,
       add_bias_sizes, convolution_backward_flops},
      {"dot", Queue::tensor, one_number, "", true, nullptr, first_times_second},
      {"mm.out", Queue::tensor, nullptr, "", false, nullptr, first_times_second},
      {"bmm.out", Queue::tensor, nullptr, "", false, nullptr, first_times_second},
      {"addmm.out", Queue::tensor, nullptr, "", false, nullptr, second_times_third},
      {"_addmm_activation.out", Queue::tensor, nullptr, "", false, nullptr, second_times_third},
      {"addmv.out", Queue::tensor, nullptr, "", false, nullptr, second_times_third},
      {"baddbmm.out", Queue::tensor, nullptr, "", false, nullptr, second_times_third},
  };
  return *kernels;
}

// An op on lists of tensors is one launch, as on other devices.
void add_foreach_ops(std::vector<OpKernel>& kernels) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const std::string op = name.name + (name.overload_name.empty() ? "" : "." + name.overload_name);
    const bool out = name.overload_name.find("out") != std::string::npos;
    if (name.name.rfind("aten::_foreach_", 0) != 0 || out || name.name.find("_foreach_copy") != std::string::npos) {
      continue;
    }
    const bool numbers = name.name == "aten::_foreach_norm" || name.name == "aten::_foreach_max";
    if (name.name.back() == '_') {
      kernels.push_back({op});
    } else if (name.name.find("powsum") == std::string::npos && name.overload_name != "ScalarAndTensor") {
      kernels.push_back({op, Queue::vector, numbers ? list_of_numbers : list_like_first, "", true});
    }
  }
}

std::string in_aten(const std::string& op) {
  return op.empty() || op.rfind("aten::", 0) == 0 ? op : "aten::" + op;
}

}  // namespace

std::vector<OpKernel> op_kernels() {
  std::vector<OpKernel> kernels = allocating();
  std::istringstream writing(kWriting);
  for (std::string op; writing >> op;) {
    kernels.push_back({op});
  }
  add_foreach_ops(kernels);
  for (OpKernel& kernel : kernels) {
    kernel.op = in_aten(kernel.op);
    kernel.computed_by = in_aten(kernel.computed_by);
  }
  return kernels;
}

}  // namespace sim
