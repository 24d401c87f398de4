// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/objects.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cstring>

namespace lockstep {
namespace {

at::Tensor as_tensor(const std::string& bytes) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string as_bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

std::vector<std::string> all_gather_bytes(ProcessGroup& group, const std::string& bytes) {
  std::vector<std::string> all;
  for (const at::Tensor& part : group.all_gather_uneven(as_tensor(bytes))) all.push_back(as_bytes(part));
  return all;
}

std::string broadcast_bytes(ProcessGroup& group, const std::string& bytes, int root) {
  const at::Tensor size = at::full({1}, static_cast<std::int64_t>(bytes.size()), at::kLong);
  group.broadcast(size, root).wait();
  const at::Tensor data = group.rank() == root ? as_tensor(bytes) : at::empty({size.item<std::int64_t>()}, at::kByte);
  group.broadcast(data, root).wait();
  return as_bytes(data);
}

}  // namespace lockstep
