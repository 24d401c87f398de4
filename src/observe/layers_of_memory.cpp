// SPDX-License-Identifier: Apache-2.0
#include "observe/layers_of_memory.h"

namespace lockstep::observe {
namespace {

bool has_memory(const at::Tensor& tensor) { return tensor.defined() && tensor.has_storage() && tensor.numel() > 0; }

const char* address_of(const at::Tensor& tensor) { return static_cast<const char*>(tensor.data_ptr()); }

std::string module_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "the module itself" : parameter.substr(0, dot);
}

}  // namespace

LayersOfMemory::LayersOfMemory(const NamedTensors& parameters) {
  for (const auto& [name, tensor] : parameters) {
    if (!has_memory(tensor)) continue;
    const char* begin = address_of(tensor);
    ranges_.try_emplace(begin, Range{begin + tensor.nbytes(), module_of(name)});
  }
}

const std::string* LayersOfMemory::of(const at::Tensor& tensor) const {
  if (!has_memory(tensor)) return nullptr;
  const char* address = address_of(tensor);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return nullptr;
  --range;
  return address < range->second.end ? &range->second.module : nullptr;
}

const std::string* LayersOfMemory::of(c10::ArrayRef<const c10::IValue> inputs) const {
  if (ranges_.empty()) return nullptr;
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) {
      if (const std::string* module = of(input.toTensor())) return module;
    } else if (input.isTensorList()) {
      for (const at::Tensor& tensor : input.toTensorVector()) {
        if (const std::string* module = of(tensor)) return module;
      }
    }
  }
  return nullptr;
}

}  // namespace lockstep::observe
