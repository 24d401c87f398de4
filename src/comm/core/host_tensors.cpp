// SPDX-License-Identifier: Apache-2.0
#include "comm/core/host_tensors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>

#include "comm/core/tensor_tree.h"

namespace lockstep::comm {

at::Tensor host_copy(const at::Tensor& tensor) {
  if (is_plain(tensor)) return tensor;
  return empty_host(tensor.sizes(), tensor).copy_(tensor.detach());
}

// Memory that a GPU will access is pinned, so that the GPU can access it directly, which is several times faster.
at::Tensor empty_host(at::IntArrayRef sizes, const at::Tensor& like) {
  const auto options = like.options().device(c10::kCPU).requires_grad(false);
  return at::empty(sizes, options.pinned_memory(like.is_cuda()));
}

std::function<void()> write_back(const at::Tensor& from, const at::Tensor& to) {
  // A tensor made in inference mode can be written only in that mode, which belongs to a thread.
  if (to.is_cpu()) {
    return [from, to] {
      const c10::InferenceMode mode(to.is_inference());
      to.detach().copy_(from);
    };
  }
  // The copy runs on another thread, but on the caller's stream.
  const c10::Stream stream = c10::impl::VirtualGuardImpl(to.device().type()).getStream(to.device());
  return [from, to, stream] {
    const c10::StreamGuard guard(stream);
    const c10::InferenceMode mode(to.is_inference());
    to.detach().copy_(from);
  };
}

void apply_alone(const Collective& collective, const at::Tensor& input, const at::Tensor& output) {
  const at::NoGradGuard no_grad;
  const at::Tensor result = output.detach();
  if (!input.is_same(output)) result.copy_(input.detach().reshape(output.sizes()));
  const int divisor = divisor_of(collective.call, 1);
  const bool is_mean = is_reduction(collective.call.kind) && op_of(collective.call) == ReduceOp::kMean;
  if (is_mean && divisor > 1) result.div_(divisor_tensor(result, divisor));
}

std::vector<std::int64_t> with_first(const at::Tensor& like, std::int64_t first, bool replace) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  if (replace) {
    sizes.front() = first;
  } else {
    sizes.insert(sizes.begin(), first);
  }
  return sizes;
}

std::int64_t row_elements(const at::Tensor& tensor) {
  std::int64_t elements = 1;
  for (std::int64_t d = 1; d < tensor.dim(); ++d) elements *= tensor.size(d);
  return elements;
}

std::vector<at::Tensor> cut(const at::Tensor& whole, const std::vector<std::int64_t>& rows) {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t count : rows) {
    parts.push_back(whole.narrow(0, begin, count));
    begin += count;
  }
  return parts;
}

}  // namespace lockstep::comm
