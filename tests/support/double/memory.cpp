// SPDX-License-Identifier: Apache-2.0
#include "support/double/memory.h"

#include <c10/core/Allocator.h>

#include "support/double/ledger.h"

namespace lockstep::testing::make_believe {
namespace {

void drop_storage(void* kept) { delete static_cast<c10::Storage*>(kept); }

void give_back(void* kept) {
  Ledger::instance().give_back(static_cast<c10::Storage*>(kept)->data());
  drop_storage(kept);
}

c10::Storage mirror(const c10::Storage& storage, c10::Device device, c10::DeleterFnPtr end) {
  c10::DataPtr data(storage.data(), new c10::Storage(storage), end, device);
  c10::Allocator* const allocator = c10::GetAllocator(c10::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t{}, storage.nbytes(), std::move(data), allocator, device.is_cpu());
}

/// Allocates the memory for a stream on the GPU.
c10::Storage taken(const c10::Storage& storage, c10::Device gpu, int stream) {
  Ledger::instance().take(storage.data(), storage.nbytes(), stream);
  return mirror(storage, gpu, give_back);
}

at::Tensor over(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  made.unsafeGetTensorImpl()->set_storage_offset(like.storage_offset());
  return made;
}

}  // namespace

at::Tensor on_host(const at::Tensor& value) {
  if (!value.is_cuda()) return value;
  return over(mirror(value.storage(), c10::kCPU, drop_storage), c10::DispatchKey::CPU, value);
}

at::Tensor without_gpu(const at::Tensor& twin) {
  const c10::DataPtr& lent = twin.storage().data_ptr();
  if (lent.get_deleter() != drop_storage) return twin;
  const c10::DataPtr& gpu = static_cast<c10::Storage*>(lent.get_context())->data_ptr();
  if (gpu.get_deleter() != give_back) return twin;
  return over(mirror(*static_cast<c10::Storage*>(gpu.get_context()), c10::kCPU, drop_storage), c10::DispatchKey::CPU,
              twin);
}

Access span_of(const at::Tensor& tensor, bool writes) {
  if (tensor.numel() == 0) return {};
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.data_ptr(), static_cast<std::size_t>(last + 1) * tensor.element_size(), writes};
}

at::Tensor Twins::there(const at::Tensor& value) {
  if (!value.defined() || !value.is_cuda()) return value;
  for (const auto& [gpu, host] : pairs_) {
    if (gpu.is_same(value)) return host;
  }
  pairs_.emplace_back(value, on_host(value));
  return pairs_.back().second;
}

at::Tensor Twins::back(const at::Tensor& value, const c10::Device& gpu, int stream) {
  if (!value.defined() || !value.is_cpu()) return value;
  for (const auto& [there, host] : pairs_) {
    if (host.is_same(value)) return there;
  }
  for (const auto& [there, host] : pairs_) {
    if (host.storage().data() == value.storage().data() && value.storage().data() != nullptr) {
      return over(there.storage(), c10::DispatchKey::CUDA, value);
    }
  }
  return over(taken(value.storage(), gpu, stream), c10::DispatchKey::CUDA, value);
}

bool Twins::is_twin(const at::Tensor& value) const {
  for (const auto& pair : pairs_) {
    if (pair.second.is_same(value)) return true;
  }
  return false;
}

void Twins::settle(int stream) {
  for (auto& [gpu, host] : pairs_) {
    auto* impl = gpu.unsafeGetTensorImpl();
    if (host.storage().data() != gpu.storage().data()) {
      impl->set_storage_keep_dtype(taken(host.storage(), gpu.device(), stream));
    }
    if (host.sizes() == gpu.sizes() && host.strides() == gpu.strides()) continue;
    impl->set_storage_offset(host.storage_offset());
    impl->set_sizes_and_strides(host.sizes(), host.strides());
  }
}

}  // namespace lockstep::testing::make_believe
