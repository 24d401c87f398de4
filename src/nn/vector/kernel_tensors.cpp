// SPDX-License-Identifier: Apache-2.0
#include "nn/vector/kernel_tensors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <mutex>

#include "lockstep/base/blas.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/plain_operators.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/vector/dropout_bits.h"

namespace lockstep::nn::detail {

bool has_kernel_type(const at::Tensor& tensor) {
  return !uses_plain_operators() && tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.numel() > 0 &&
         (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16);
}

bool is_dense(const at::Tensor& tensor) { return tensor.is_contiguous(tensor.suggest_memory_format()); }

bool is_float_vector(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

ElementType element_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? ElementType::kFloat : ElementType::kBFloat16;
}

bool multiplies_slowly(at::ScalarType type) {
#if defined(__x86_64__)
  static const bool lacks_products = !blas::cpu_features().avx512;
#else
  // On aarch64 libtorch 1.13 uses oneDNN if the processor has bfloat16 products, but Debian's oneDNN lacks them: "could
  // not create a primitive descriptor iterator". Without them, libtorch's own loops are slow.
  constexpr bool lacks_products = true;
#endif
  return lacks_products && type == at::kBFloat16;
}

c10::optional<at::ScalarType> product_type(const at::Tensor& input) {
  if (!has_kernel_type(input)) return c10::nullopt;
  const tensor::AutocastState autocast = tensor::autocast_state(at::kCPU);
  const at::ScalarType type = autocast.enabled ? autocast.dtype : input.scalar_type();
  if (type == at::kFloat) return type;
  return autocast.enabled && type == at::kBFloat16 ? c10::make_optional(type) : c10::nullopt;
}

void refuse_second_derivative(const char* layer) {
  if (!at::GradMode::is_enabled()) return;
  throw UsageError(fmt::format("second derivatives through {} are not supported", layer),
                   "call backward() without create_graph, or use libtorch's own layer (fused_layers=false)");
}

DropoutBits make_dropout_bits(std::int64_t numel) {
  DropoutBits made{at::empty({dropout_bytes(numel)}, at::kByte), 0};
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  made.seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  return made;
}

at::Tensor BlockSums::total() const {
  std::vector<double> sums(width_);
  for (std::size_t block = 0; block < sums_.size(); block += width_) {
    for (std::size_t i = 0; i < width_; ++i) sums[i] += static_cast<double>(sums_[block + i]);
  }
  at::Tensor total = at::empty({static_cast<std::int64_t>(width_)}, at::kFloat);
  std::copy(sums.begin(), sums.end(), total.data_ptr<float>());
  return total;
}

}  // namespace lockstep::nn::detail
