// SPDX-License-Identifier: Apache-2.0
#include "support/double/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ThreadLocalState.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "support/double/device.h"
#include "support/double/memory.h"
#include "support/double/streams.h"
#include "support/host_log.h"

namespace lockstep::testing::make_believe {
namespace {

using Stack = torch::jit::Stack;

/// Operators that read a value back, or create a result whose size depends on values.
const std::set<std::string>& waiting_operators() {
  static const std::set<std::string> names = {"aten::_local_scalar_dense",
                                              "aten::nonzero",
                                              "aten::masked_select",
                                              "aten::equal",
                                              "aten::_unique",
                                              "aten::_unique2",
                                              "aten::unique_consecutive",
                                              "aten::unique_dim",
                                              "aten::bincount",
                                              "aten::multinomial",
                                              "aten::repeat_interleave"};
  return names;
}

/// In-place operators that change a tensor's shape or storage.
const std::set<std::string>& reshaping_operators() {
  static const std::set<std::string> names = {"aten::resize_",    "aten::resize_as_", "aten::set_",
                                              "aten::t_",         "aten::squeeze_",   "aten::unsqueeze_",
                                              "aten::transpose_", "aten::as_strided_"};
  return names;
}

/// Facts from an operator's schema.
struct Traits {
  bool is_view = false;      ///< does not access memory
  bool can_be_late = false;  ///< its results are the caller's tensors, so the caller need not wait
  bool makes_empty = false;  ///< its results have no values yet
  bool may_resize = false;   ///< may resize its results, unless they are among its inputs
  bool waits = false;
  std::vector<bool> writes = {};
};

Traits traits_of(const c10::FunctionSchema& schema) {
  Traits traits;
  traits.waits = waiting_operators().count(schema.name()) != 0;
  traits.makes_empty = schema.name().starts_with("aten::empty") || schema.name().starts_with("aten::new_empty");
  bool writes = false;
  bool draws = false;
  for (const c10::Argument& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    traits.writes.push_back(alias != nullptr && alias->isWrite());
    writes = writes || traits.writes.back();
    draws = draws || argument.name() == "generator";
  }
  bool returns_own = true;
  for (const c10::Argument& result : schema.returns()) {
    const auto* alias = result.alias_info();
    if (alias != nullptr && !alias->isWrite()) traits.is_view = true;
    returns_own = returns_own && alias != nullptr && alias->isWrite();
  }
  const bool reshapes = reshaping_operators().count(schema.name()) != 0;
  traits.is_view = traits.is_view || reshapes;
  traits.may_resize = schema.overload_name().find("out") != std::string::npos;
  traits.can_be_late = writes && returns_own && !draws && !reshapes && !traits.waits;
  return traits;
}

const Traits& known_traits(const c10::FunctionSchema& schema) {
  static thread_local std::unordered_map<const c10::FunctionSchema*, Traits> known;
  const auto found = known.find(&schema);
  return found != known.end() ? found->second : known.emplace(&schema, traits_of(schema)).first->second;
}

template <class Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> list = value.toTensorVector();
    for (at::Tensor& one : list) one = change(one);
    value = c10::IValue(c10::List<at::Tensor>(list));
  } else if (value.isOptionalTensorList()) {
    c10::List<c10::optional<at::Tensor>> list;
    for (const c10::optional<at::Tensor>& one : value.toOptionalTensorList()) {
      list.push_back(one ? c10::optional<at::Tensor>(change(*one)) : one);
    }
    value = c10::IValue(list);
  }
}

/// Records waits for indices: masks must be counted first, and indices on the host are copied.
bool note_indices(const c10::IValue& value) {
  bool waits = false;
  if (!value.isOptionalTensorList()) return waits;
  for (const c10::optional<at::Tensor>& one : value.toOptionalTensorList()) {
    if (!one || !one->defined()) continue;
    const bool is_mask = one->scalar_type() == at::kBool || one->scalar_type() == at::kByte;
    if (is_mask) note_wait("a mask as an index");
    if (one->is_cpu() && one->dim() > 0) note_wait("an index of the host's");
    waits = waits || is_mask;
  }
  return waits;
}

at::Tensor random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

void run_on_cpu(const c10::OperatorHandle& op, Stack& stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

/// One call of an operator.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack)
      : op_(op), stack_(stack), traits_(known_traits(op.schema())), waits_(traits_.waits) {
    note_call(name());
    if (traits_.waits) note_wait(name());
    for (std::size_t i = 0; i < traits_.writes.size(); ++i) take(i);
    gpu_ = index_.value_or(current_gpu().index());
  }

  void run() {
    TORCH_CHECK(
        !mixes_ || !index_ || name() == "aten::_pack_padded_sequence",
        "Expected all tensors to be on the same device, but found at least two devices, cuda and cpu: ", name());
    const OnGpu on(gpu_);
    const c10::Stream current = current_stream(current_gpu());
    DeviceStream& stream = stream_of(current);
    if (const auto recording = stream.recording()) return record(stream, *recording);
    if (can_be_late() && !stream.lane().is_idle()) return enqueue(stream);
    if (traits_.is_view || traits_.makes_empty) {
      run_on_cpu(op_, stack_);
      return give_results(stream);
    }
    const Lane::Turn turn(stream.lane());
    run_on_cpu(op_, stack_);
    give_results(stream);
    Ledger::instance().run(stream.number(), name(), accesses_);
    if (waits_) Ledger::instance().waited(Ledger::instance().record(stream.number()));
  }

 private:
  [[nodiscard]] const std::string& name() const { return op_.schema().name(); }
  [[nodiscard]] c10::IValue& argument(std::size_t i) { return stack_[stack_.size() - traits_.writes.size() + i]; }

  /// True if the call can run later. An in-place operator may be called as an out= operator whose result is an input.
  [[nodiscard]] bool can_be_late() const {
    if (!traits_.can_be_late || waits_) return false;
    const auto is_input = [&](const at::Tensor& own) {
      return std::any_of(read_.begin(), read_.end(), [&](const at::Tensor& one) { return one.is_same(own); });
    };
    return !traits_.may_resize || std::all_of(own_.begin(), own_.end(), is_input);
  }

  void take(std::size_t i) {
    c10::IValue& value = argument(i);
    if (note_indices(value)) waits_ = true;
    change_tensors(value, [&](const at::Tensor& one) {
      if (!one.defined() || !one.is_cuda()) {
        mixes_ = mixes_ || (one.defined() && one.dim() > 0 && !value.isOptionalTensorList());
        return one;
      }
      index_ = one.device().index();
      if (!traits_.is_view && one.has_storage()) accesses_.push_back(span_of(one, traits_.writes[i]));
      (traits_.writes[i] ? own_ : read_).push_back(one);
      return twins_.there(one);
    });
    if (!value.isDevice() || !value.toDevice().is_cuda()) return;
    if (value.toDevice().has_index()) index_ = value.toDevice().index();
    value = c10::IValue(c10::Device(c10::kCPU));
  }

  /// Returns the arguments for later use, with the host's current values.
  [[nodiscard]] Stack kept_arguments() const {
    Stack copy(stack_.end() - static_cast<std::ptrdiff_t>(traits_.writes.size()), stack_.end());
    for (c10::IValue& value : copy) {
      change_tensors(value,
                     [&](const at::Tensor& one) { return !one.defined() || twins_.is_twin(one) ? one : one.clone(); });
    }
    return copy;
  }

  /// Enqueues the work on the stream.
  void enqueue(DeviceStream& stream) {
    Stack copy = kept_arguments();
    torch::jit::drop(stack_, traits_.writes.size());
    for (std::size_t i = 0; i < op_.schema().returns().size(); ++i) stack_.emplace_back(own_.at(i));
    Ledger::instance().run(stream.number(), name(), accesses_);
    stream.lane().push([op = op_, copy = std::move(copy), state = at::ThreadLocalState()]() mutable {
      const at::ThreadLocalStateGuard guard(state);
      run_on_cpu(op, copy);
    });
  }

  /// Records the call: each replay computes into the results' current memory.
  void record(DeviceStream& stream, Recording& recording) {
    if (waits_) recording.refuse_to_wait();
    const bool computes = !traits_.is_view && !traits_.makes_empty;
    Stack arguments = computes ? kept_arguments() : Stack{};
    recording.save(accesses_);
    const std::set<const void*> memory_before = memory_of_arguments();
    const at::Tensor random_before = random_state();
    run_on_cpu(op_, stack_);
    if (!at::equal(random_state(), random_before)) recording.note_draw();
    std::vector<at::Tensor> results = results_here();
    give_results(stream);
    for (const std::vector<at::Tensor>& some : {results_here(), own_}) {
      for (const at::Tensor& one : some) own_if_new(recording, one, memory_before);
    }
    if (!computes) return;
    const auto lent = [this](const at::Tensor& one) { return twins_.is_twin(one) ? without_gpu(one) : one; };
    for (c10::IValue& value : arguments) change_tensors(value, lent);
    for (at::Tensor& one : results) one = lent(one);
    recording.add(stream, name(), accesses_, [op = op_, arguments, results, state = at::ThreadLocalState()] {
      const at::ThreadLocalStateGuard guard(state);
      Stack again = arguments;
      run_on_cpu(op, again);
      copy_results(op, again, results);
    });
  }

  static void copy_results(const c10::OperatorHandle& op, Stack& found, const std::vector<at::Tensor>& results) {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::size_t next = 0;
    for_results(op, found, [&](const at::Tensor& one) {
      const at::Tensor& place = results.at(next++);
      if (one.defined() && one.data_ptr() != place.data_ptr()) place.copy_(one);
      return one;
    });
  }

  template <class Change>
  static void for_results(const c10::OperatorHandle& op, Stack& stack, const Change& change) {
    for (std::size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
      change_tensors(stack[i], change);
    }
  }

  [[nodiscard]] std::vector<at::Tensor> results_here() const {
    std::vector<at::Tensor> results;
    for_results(op_, stack_, [&](const at::Tensor& one) {
      results.push_back(one);
      return one;
    });
    return results;
  }

  [[nodiscard]] std::set<const void*> memory_of_arguments() const {
    std::set<const void*> found;
    for (const std::vector<at::Tensor>& some : {read_, own_}) {
      for (const at::Tensor& one : some) found.insert(one.storage().data());
    }
    return found;
  }

  static void own_if_new(Recording& recording, const at::Tensor& result, const std::set<const void*>& old) {
    if (!result.defined() || !result.is_cuda()) return;
    const at::Storage& storage = result.storage();
    if (storage.data() != nullptr && old.count(storage.data()) == 0) recording.own(storage);
  }

  void give_results(DeviceStream& stream) {
    for_results(op_, stack_, [&](const at::Tensor& one) {
      at::Tensor there = twins_.back(one, current_gpu(), stream.number());
      if (there.defined() && there.is_cuda() && !traits_.is_view) accesses_.push_back(span_of(there, true));
      return there;
    });
    twins_.settle(stream.number());
  }

  const c10::OperatorHandle& op_;
  Stack& stack_;
  const Traits& traits_;
  bool waits_;
  bool mixes_ = false;  ///< true: some arguments are tensors of the host
  Twins twins_;
  std::optional<int> index_;
  int gpu_ = 0;
  std::vector<Access> accesses_;
  std::vector<at::Tensor> read_;
  std::vector<at::Tensor> own_;  ///< tensors that it writes
};

void run_operator(const c10::OperatorHandle& op, Stack* stack) { Call(op, *stack).run(); }

// Operators with their own implementation -----------------------------------------------------------------------------

/// CUDA copies up to this much pageable memory without waiting; for more, it waits until the stream is done.
constexpr std::size_t kStagedBytes = std::size_t{64} << 10;

/// Returns true if the host waits for this copy. Records the kind of wait.
bool copy_waits(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (from.is_cpu() && from.dim() == 0 && !non_blocking) {
    note_wait("copy of a number to the device");
  } else if (from.is_cpu() && !non_blocking) {
    note_wait("copy to the device");
  } else if (to.is_cpu() && !(non_blocking && is_pinned(to.storage().data()))) {
    note_wait("copy to the host");
  } else if (from.is_cpu() && from.nbytes() > kStagedBytes && !is_pinned(from.storage().data())) {
    note_wait("copy from pageable memory");
  } else {
    if (to.is_cuda() && from.is_cuda()) note_call("aten::copy_");
    return false;
  }
  return true;
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  const bool waits = copy_waits(self, from, non_blocking);
  const c10::Device gpu = from.is_cuda() ? from.device() : self.device();
  DeviceStream& stream = stream_of(current_stream(gpu));
  const auto recording = stream.recording();
  if (recording && waits) recording->refuse_to_wait();
  std::vector<Access> accesses;
  if (from.is_cuda()) accesses.push_back(span_of(from, false));
  if (self.is_cuda()) accesses.push_back(span_of(self, true));
  DeviceStream& others = stream_of(current_stream(self.is_cuda() ? self.device() : gpu));
  stream.hold(others.mark());  // between two GPUs both streams wait for the copy
  // Pageable memory is read immediately.
  const bool is_read_now = from.is_cpu() && !waits && !is_pinned(from.storage().data());
  at::Tensor to = on_host(self);
  // If the host reads before the copy is done, it must get wrong values.
  if (self.is_cpu() && !waits && self.is_contiguous())
    std::memset(self.data_ptr(), 0xff, static_cast<std::size_t>(self.nbytes()));
  const at::Tensor source = is_read_now ? from.clone() : on_host(from);
  const auto copying = [](const at::Tensor& there, const at::Tensor& values) {
    return [there, values] {
      const at::AutoDispatchBelowADInplaceOrView below;
      there.copy_(values);
    };
  };
  if (recording) {
    recording->save(accesses);
    copying(to, source)();
    to = without_gpu(to);
  }
  stream.enqueue_or_run("aten::copy_", accesses,
                        copying(to, recording && from.is_cuda() ? without_gpu(source) : source));
  others.hold(stream.mark());
  if (waits) stream.wait();
  return self;
}

at::Tensor& set(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, strides);
  return self;
}

void record_stream(at::Tensor& self, at::Stream stream) {
  Ledger::instance().record_stream(self.storage().data(), stream_of(stream).number());
}

bool is_pinned_tensor(const at::Tensor& self, c10::optional<at::Device> /*on*/) {
  return is_pinned(self.storage().data());
}

at::Tensor pinned(const at::Tensor& self, c10::optional<at::Device> /*on*/) {
  return at::empty(self.sizes(), self.options().pinned_memory(true)).copy_(self);
}

/// Unscales gradients, for which libtorch 1.13 has only a CUDA kernel.
void unscale(at::TensorList values, at::Tensor& found_inf, const at::Tensor& factor) {
  DeviceStream& stream = stream_of(current_stream(found_inf.device()));
  std::vector<Access> accesses = {span_of(found_inf, true), span_of(factor, false)};
  for (const at::Tensor& value : values) accesses.push_back(span_of(value, true));
  if (const auto recording = stream.recording()) recording->refuse("not for recordings yet");
  Ledger::instance().run(stream.number(), "aten::_amp_foreach_non_finite_check_and_unscale_", accesses);
  const Lane::Turn turn(stream.lane());
  for (const at::Tensor& value : values) {
    at::Tensor host = on_host(value);
    host.mul_(on_host(factor));
    if (!at::isfinite(host).all().item<bool>()) on_host(found_inf).fill_(1);
  }
}

}  // namespace

void register_operators() {
  using torch::CppFunction;
  static torch::Library any(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  any.fallback(CppFunction::makeFromBoxedFunction<&run_operator>());
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  aten.impl("copy_", &copy);
  aten.impl("set_.source_Storage_storage_offset", &set);
  aten.impl("record_stream", &record_stream);
  aten.impl("is_pinned", &is_pinned_tensor);
  aten.impl("_pin_memory", &pinned);
  aten.impl("_amp_foreach_non_finite_check_and_unscale_", &unscale);
  // Registered separately: for these operators libtorch chooses a device's kernel before the fallback is called.
  for (const char* name : {"convolution", "convolution_backward"}) {
    aten.impl(name, CppFunction::makeFromBoxedFunction<&run_operator>());
  }
}

}  // namespace lockstep::testing::make_believe
