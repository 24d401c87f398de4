// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/operator_values.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <ATen/SequenceNumber.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "observe/memory_watch.h"

namespace lockstep::observe {
namespace {

/// Operators that allocate uninitialised memory, or fill it with the same values in every run.
constexpr std::array<std::string_view, 20> kMemory = {
    "empty",     "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "resize_",   "resize_as_", "set_",          "zeros",     "zeros_like",
    "new_zeros", "ones",       "ones_like",     "new_ones",  "full",
    "full_like", "new_full",   "zero_",         "fill_",     "scalar_tensor"};
/// Operators that create a view of memory.
constexpr std::array<std::string_view, 30> kViews = {
    "view",       "view_as",      "_unsafe_view", "reshape",     "_reshape_alias", "as_strided", "expand",
    "expand_as",  "permute",      "transpose",    "t",           "select",         "slice",      "narrow",
    "squeeze",    "unsqueeze",    "detach",       "alias",       "split",          "chunk",      "unbind",
    "numpy_T",    "resolve_conj", "resolve_neg",  "as_strided_", "detach_",        "squeeze_",   "t_",
    "transpose_", "unsqueeze_"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  constexpr std::string_view kAten = "aten::";
  if (!name.starts_with(kAten)) return false;
  name.remove_prefix(kAten.size());
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A step may or may not run these operators, depending on memory that earlier steps of this process keep.
bool makes_memory(std::string_view name) { return is_one_of(kMemory, name); }

bool has_values(std::string_view name) { return !is_one_of(kViews, name); }

/// An operator that writes into its inputs may get uninitialised memory.
bool writes_inputs(std::string_view name) { return name.ends_with('_'); }

/// Returns true for the autograd engine's own call around each node.
bool is_engine(std::string_view name) { return name.starts_with("autograd::engine"); }

std::uint64_t digest_of(c10::ArrayRef<const c10::IValue> values) {
  std::uint64_t digest = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const std::array<std::uint64_t, 2> both = {digest, digest_of_values(tensor)};
    digest = XXH3_64bits(both.data(), sizeof(both));
  };
  for (const c10::IValue& value : values) {
    if (value.isTensor()) add(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
  }
  return digest;
}

struct Open final : at::ObserverContext {
  OperatorValue value;
  std::uint64_t first_sequence = 0;
};

}  // namespace

std::uint64_t digest_of_values(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.numel() == 0) return 0;
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unseen;
  const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
  return XXH3_64bits(values.data_ptr(), values.nbytes());
}

class OperatorValues::Impl {
 public:
  explicit Impl(const NamedTensors& parameters) : layers_(parameters) {
    thread_instance() = this;
    callback_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~Impl() {
    at::removeCallback(callback_);
    thread_instance() = nullptr;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::vector<OperatorValue> take() { return std::exchange(values_, {}); }

 private:
  static Impl*& thread_instance() {
    thread_local Impl* instance = nullptr;
    return instance;
  }

  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
    Impl* const instance = thread_instance();
    const bool is_left_out = function.isAsync() || is_engine(function.name()) || makes_memory(function.name());
    return instance == nullptr || is_left_out ? nullptr : instance->begin(function);
  }

  static void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
    Impl* const instance = thread_instance();
    if (instance != nullptr && context != nullptr) instance->end(function, static_cast<Open&>(*context));
  }

  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto open = std::make_unique<Open>();
    OperatorValue& value = open->value;
    const bool is_node = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
    value.name = function.name();
    value.depth = static_cast<int>(layers_around_.size());
    value.backward = is_node || nodes_ > 0;
    value.layer = layer_of(function, is_node);
    open->first_sequence = at::sequence_number::peek();
    const bool is_outside = value.depth == 0 || is_node || std::string_view(value.name).starts_with("lockstep::");
    if (is_outside && has_values(value.name) && !writes_inputs(value.name)) value.digest = digest_of(function.inputs());
    values_.push_back(value);
    layers_around_.push_back(value.layer);
    if (is_node) ++nodes_;
    return open;
  }

  void end(const at::RecordFunction& function, Open& open) {
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) --nodes_;
    layers_around_.pop_back();
    OperatorValue& value = open.value;
    if (!value.backward && !value.layer.empty()) {
      for (std::uint64_t at = open.first_sequence; at < at::sequence_number::peek(); ++at) {
        layers_of_nodes_.try_emplace(at, value.layer);
      }
    }
    const std::vector<c10::IValue>& outputs = function.outputs();
    value.end = true;
    value.digest =
        has_values(value.name) ? digest_of(c10::ArrayRef<const c10::IValue>(outputs.data(), outputs.size())) : 0;
    values_.push_back(std::move(value));
  }

  [[nodiscard]] std::string layer_of(const at::RecordFunction& function, bool is_node) const {
    if (is_node) {
      const auto found = layers_of_nodes_.find(static_cast<std::uint64_t>(function.seqNr()));
      return found == layers_of_nodes_.end() ? "" : found->second;
    }
    const std::string* const layer = layers_.layer_of(function.inputs());
    if (layer != nullptr) return *layer;
    return layers_around_.empty() ? "" : layers_around_.back();
  }

  LayersOfMemory layers_;
  at::CallbackHandle callback_;
  std::vector<OperatorValue> values_;
  std::vector<std::string> layers_around_;  ///< layers of the open operators
  std::map<std::uint64_t, std::string> layers_of_nodes_;
  int nodes_ = 0;  ///< number of open backward nodes
};

OperatorValues::OperatorValues(const NamedTensors& parameters) : impl_(std::make_unique<Impl>(parameters)) {}
OperatorValues::~OperatorValues() = default;

std::vector<OperatorValue> OperatorValues::take() { return impl_->take(); }

}  // namespace lockstep::observe
