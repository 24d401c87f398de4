// SPDX-License-Identifier: Apache-2.0
#include "comm/host_tensors.h"

#include <ATen/ops/empty.h>

namespace lockstep::comm {

at::Tensor host_copy(const at::Tensor& tensor) {
  if (is_plain(tensor)) return tensor;
  return at::empty(tensor.sizes(), tensor.options().device(c10::kCPU).requires_grad(false)).copy_(tensor.detach());
}

at::Tensor empty_host(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options().device(c10::kCPU).requires_grad(false));
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
