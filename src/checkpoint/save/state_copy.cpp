// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/state_copy.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <set>
#include <vector>

#include "checkpoint/formats/stream_copy.h"

namespace lockstep::checkpoint {
namespace {

/// The tensor's bytes fill its memory without a gap, so that one memcpy copies it.
bool is_dense_on_cpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() &&
         !tensor.is_conj() && !tensor.is_neg();
}

bool fits(const at::Tensor& memory, const at::Tensor& tensor) {
  return memory.defined() && memory.scalar_type() == tensor.scalar_type() && memory.sizes() == tensor.sizes() &&
         (memory.strides() == tensor.strides() || !is_dense_on_cpu(tensor));
}

at::Tensor make_room(const at::Tensor& tensor) {
  auto options = at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU);
  if (tensor.is_cuda()) options = options.pinned_memory(true);
  const bool dense = tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense();
  return dense ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
               : at::empty_strided(tensor.sizes(), tensor.contiguous().strides(), options);
}

/// A plain copy is only added to the list.
void copy_into(at::Tensor& memory, const at::Tensor& tensor, std::vector<CopyJob>& plain) {
  if (is_dense_on_cpu(tensor)) {
    plain.push_back({static_cast<char*>(memory.data_ptr()), static_cast<const char*>(tensor.data_ptr()),
                     static_cast<std::size_t>(tensor.nbytes())});
  } else {
    memory.copy_(tensor.detach(), /*non_blocking=*/!tensor.device().is_cpu());
  }
}

/// Copies from devices were only started.
void finish_copies(const std::set<std::string>& devices) {
  for (const std::string& name : devices) {
    const c10::Device device(name);
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  }
}

}  // namespace

at::Tensor& StateCopy::room_for(const std::string& key, const at::Tensor& tensor) {
  at::Tensor& memory = memory_[key];
  if (!fits(memory, tensor)) memory = make_room(tensor);
  return memory;
}

void StateCopy::reserve(const StateParts& parts) {
  for (const auto& [state, part] : parts) {
    for (const auto& [name, value] : part.entries) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor == nullptr || !tensor->defined()) continue;
      at::Tensor& memory = room_for(state + "/" + name, *tensor);
      std::memset(memory.data_ptr(), 0, memory.nbytes());
    }
  }
}

const StateParts& StateCopy::take(const StateParts& parts) {
  copy_.clear();
  std::set<std::string> devices;
  std::vector<CopyJob> plain;
  for (const auto& [state, part] : parts) {
    StatePart& copy = copy_[state];
    copy.slices = part.slices;
    for (const auto& [name, value] : part.entries) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      // The writer names entries that cannot be saved (an undefined or sparse tensor).
      if (tensor == nullptr || !tensor->defined() || tensor->layout() != at::kStrided || tensor->is_meta()) {
        copy.entries[name] = value;
        continue;
      }
      at::Tensor& memory = room_for(state + "/" + name, *tensor);
      copy_into(memory, *tensor, plain);
      if (!tensor->device().is_cpu()) devices.insert(tensor->device().str());
      copy.entries[name] = memory;
    }
  }
  stream_copy(plain);
  finish_copies(devices);
  return copy_;
}

}  // namespace lockstep::checkpoint
