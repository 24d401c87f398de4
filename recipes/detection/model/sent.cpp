// SPDX-License-Identifier: Apache-2.0
#include "detection/model/sent.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <cstring>

namespace lockstep::detection {

std::vector<at::Tensor> sent(const std::vector<at::Tensor>& host, const at::Device& device) {
  if (device.is_cpu()) return host;
  // A view as another type must begin at a multiple of that type's size.
  constexpr std::int64_t kAlign = 16;
  const auto room = [](const at::Tensor& tensor) {
    return (static_cast<std::int64_t>(tensor.nbytes()) + kAlign - 1) / kAlign * kAlign;
  };
  std::int64_t size = 0;
  for (const at::Tensor& one : host) size += room(one);
  // With pageable memory, the call would wait for the device. The allocator keeps pinned memory until the copy is done.
  const at::Tensor all = at::empty({size}, at::TensorOptions().dtype(at::kByte).pinned_memory(device.is_cuda()));
  std::int64_t first = 0;
  for (const at::Tensor& one : host) {
    if (one.numel() > 0) std::memcpy(all.data_ptr<std::uint8_t>() + first, one.data_ptr(), one.nbytes());
    first += room(one);
  }
  const at::Tensor there = at::empty({size}, at::TensorOptions().dtype(at::kByte).device(device));
  there.copy_(all, /*non_blocking=*/true);
  std::vector<at::Tensor> found;
  first = 0;
  for (const at::Tensor& one : host) {
    const auto bytes = static_cast<std::int64_t>(one.nbytes());
    found.push_back(there.narrow(0, first, bytes).view(one.scalar_type()).view(one.sizes()));
    first += room(one);
  }
  return found;
}

}  // namespace lockstep::detection
