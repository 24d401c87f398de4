// SPDX-License-Identifier: Apache-2.0
#include "support/host_waits.h"

#include <torch/version.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "lockstep/tensor/device.h"

#if TORCH_VERSION_MAJOR == 1

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Backtrace.h>
#include <torch/library.h>

namespace lockstep::testing {
namespace {

// What is counted
// ------------------------------------------------------------------------------------------------------

struct Log {
  std::mutex mutex;
  bool counts = false;
  std::vector<std::string> waits = {};
  std::map<std::string, int> calls = {};
  std::set<const void*> pinned = {};
};

Log& log() {
  static auto* const kept = new Log;
  return *kept;
}

void note_wait(const std::string& what) {
  const std::lock_guard lock(log().mutex);
  if (!log().counts) return;
  log().waits.push_back(what);
  static const bool trace = std::getenv("LOCKSTEP_TRACE_WAITS") != nullptr;
  if (trace) std::fprintf(stderr, "wait: %s\n%s\n", what.c_str(), c10::get_backtrace(0, 90, true).c_str());
}

void note_call(const std::string& name) {
  const std::lock_guard lock(log().mutex);
  if (log().counts) ++log().calls[name];
}

bool is_pinned(const void* data) {
  const std::lock_guard lock(log().mutex);
  return log().pinned.count(data) != 0;
}

/// Operators that read a value back, or make a result whose size depends on values.
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

// The device
// -----------------------------------------------------------------------------------------------------------

/// One device with one stream, whose work is done when it is called.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Device device() { return {c10::kCUDA, 0}; }
  [[nodiscard]] static c10::Stream only() { return c10::Stream(c10::Stream::UNSAFE, device(), 0); }

  [[nodiscard]] c10::DeviceType type() const override { return c10::kCUDA; }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device /*to*/) const override { return device(); }
  [[nodiscard]] c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device /*to*/) const override {}
  void uncheckedSetDevice(c10::Device /*to*/) const noexcept override {}
  [[nodiscard]] c10::Stream getStream(c10::Device /*of*/) const noexcept override { return only(); }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device /*of*/) const override { return only(); }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(c10::Device /*of*/, bool /*high*/) const override { return only(); }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream /*to*/) const noexcept override { return only(); }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream& /*of*/, c10::DeviceIndex /*on*/, c10::EventFlag /*how*/) const override {
    static int any = 0;
    *event = &any;
  }
  void block(void* /*event*/, const c10::Stream& /*stream*/) const override {}
  [[nodiscard]] bool queryEvent(void* /*event*/) const override { return true; }
  void destroyEvent(void* /*event*/, c10::DeviceIndex /*on*/) const noexcept override {}
  [[nodiscard]] bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& /*stream*/) const override { note_wait("the stream"); }
  void recordDataPtrOnStream(const c10::DataPtr& /*data*/, const c10::Stream& /*stream*/) const override {}
};

struct Pinned final : c10::Allocator {
  [[nodiscard]] c10::DataPtr allocate(size_t bytes) const override {
    void* data = ::aligned_alloc(64, (bytes + 64) / 64 * 64);
    const std::lock_guard lock(log().mutex);
    log().pinned.insert(data);
    return {data, data, &give_back, c10::kCPU};
  }
  static void give_back(void* data) {
    const std::lock_guard lock(log().mutex);
    log().pinned.erase(data);
    ::free(data);
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs /*none*/) {}
  void initCUDA() const override {}
  [[nodiscard]] bool hasCUDA() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(int64_t /*device*/) const override { return true; }
  [[nodiscard]] int64_t current_device() const override { return 0; }
  [[nodiscard]] int getNumGPUs() const override { return 1; }
  [[nodiscard]] std::string showConfig() const override { return "a make-believe GPU"; }
  [[nodiscard]] bool isPinnedPtr(void* data) const override { return is_pinned(data); }
  [[nodiscard]] at::Device getDeviceFromPtr(void* /*data*/) const override { return Guard::device(); }
  [[nodiscard]] const at::Generator& getDefaultCUDAGenerator(c10::DeviceIndex /*of*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    static Pinned allocator;
    return &allocator;
  }
};

// Tensors
// --------------------------------------------------------------------------------------------------------------

c10::Storage mirror(const c10::Storage& of, c10::Device device) {
  auto* held = new c10::Storage(of);
  c10::DataPtr data(
      of.data(), held, [](void* kept) { delete static_cast<c10::Storage*>(kept); }, device);
  c10::Allocator* const allocator = c10::GetAllocator(c10::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t{}, of.nbytes(), std::move(data), allocator, device.is_cpu());
}

at::Tensor over(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  made.unsafeGetTensorImpl()->set_storage_offset(like.storage_offset());
  return made;
}

at::Tensor on_host(const at::Tensor& value) {
  return value.is_cuda() ? over(mirror(value.storage(), c10::kCPU), c10::DispatchKey::CPU, value) : value;
}

/// One call of an operator: its device tensors as the CPU's, and back.
class Call {
 public:
  /// Same storages on the host are the same tensors, so that views and what is written in place come back as such.
  at::Tensor there(const at::Tensor& value) {
    if (!value.defined() || !value.is_cuda()) return value;
    for (const auto& [device, host] : pairs_) {
      if (device.is_same(value)) return host;
    }
    pairs_.emplace_back(value, on_host(value));
    return pairs_.back().second;
  }
  at::Tensor back(const at::Tensor& value) {
    if (!value.defined() || !value.is_cpu()) return value;
    for (const auto& [device, host] : pairs_) {
      if (host.is_same(value)) return device;
    }
    for (const auto& [device, host] : pairs_) {
      if (host.storage().data() == value.storage().data() && value.storage().data() != nullptr) {
        return over(device.storage(), c10::DispatchKey::CUDA, value);
      }
    }
    return over(mirror(value.storage(), Guard::device()), c10::DispatchKey::CUDA, value);
  }
  /// What an operator has resized.
  void settle() {
    for (auto& [device, host] : pairs_) {
      auto* impl = device.unsafeGetTensorImpl();
      if (host.storage().data() != device.storage().data()) {
        impl->set_storage_keep_dtype(mirror(host.storage(), Guard::device()));
      }
      if (host.sizes() == device.sizes() && host.strides() == device.strides()) continue;
      impl->set_storage_offset(host.storage_offset());
      impl->set_sizes_and_strides(host.sizes(), host.strides());
    }
  }
  [[nodiscard]] bool any() const { return !pairs_.empty(); }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

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

/// Indices that are masks are counted first, and those of the host are copied.
void note_indices(const c10::IValue& value) {
  if (!value.isOptionalTensorList()) return;
  for (const c10::optional<at::Tensor>& one : value.toOptionalTensorList()) {
    if (!one || !one->defined()) continue;
    if (one->scalar_type() == at::kBool || one->scalar_type() == at::kByte) note_wait("a mask as an index");
    if (one->is_cpu() && one->dim() > 0) note_wait("an index of the host's");
  }
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t arguments = op.schema().arguments().size();
  const std::size_t results = op.schema().returns().size();
  const std::string& name = op.schema().name();
  note_call(name);
  if (waiting_operators().count(name) != 0) note_wait(name);
  Call call;
  for (std::size_t i = stack->size() - arguments; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    note_indices(value);
    change_tensors(value, [&](const at::Tensor& one) { return call.there(one); });
    if (value.isDevice() && value.toDevice().is_cuda()) value = c10::IValue(c10::Device(c10::kCPU));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (std::size_t i = stack->size() - results; i < stack->size(); ++i) {
    change_tensors((*stack)[i], [&](const at::Tensor& one) { return call.back(one); });
  }
  call.settle();
}

// Operators that are not the CPU's
// ---------------------------------------------------------------------------------------

at::Tensor& copy(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  if (from.is_cpu() && from.dim() == 0 && !non_blocking) {
    note_wait("copy of a number to the device");
  } else if (from.is_cpu() && !non_blocking) {
    note_wait("copy to the device");
  } else if (self.is_cpu() && !(non_blocking && is_pinned(self.storage().data()))) {
    note_wait("copy to the host");
  } else if (self.is_cuda() && from.is_cuda()) {
    note_call("aten::copy_");
  }
  on_host(self).copy_(on_host(from));
  return self;
}

at::Tensor& set(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, strides);
  return self;
}

void record_stream(at::Tensor& /*self*/, at::Stream /*stream*/) {}

bool is_pinned_tensor(const at::Tensor& self, c10::optional<at::Device> /*on*/) {
  return is_pinned(self.storage().data());
}

at::Tensor pinned(const at::Tensor& self, c10::optional<at::Device> /*on*/) {
  return at::empty(self.sizes(), self.options().pinned_memory(true)).copy_(self);
}

/// libtorch 1.13 has it for CUDA only.
void unscale(at::TensorList values, at::Tensor& found_inf, const at::Tensor& factor) {
  for (const at::Tensor& value : values) {
    at::Tensor host = on_host(value);
    host.mul_(on_host(factor));
    if (!at::isfinite(host).all().item<bool>()) on_host(found_inf).fill_(1);
  }
}

/// For the life of the process, as a device's own are. What a CPU's kernel may not be reached through by the fallback:
/// libtorch's own choice between the kernels of devices.
void register_device() {
  static const Guard guard;
  static c10::impl::DeviceGuardImplRegistrar const guards(c10::kCUDA, &guard);
  at::CUDAHooksRegistry()->Register("CUDAHooks", [](at::CUDAHooksArgs args) -> std::unique_ptr<at::CUDAHooksInterface> {
    return std::make_unique<Hooks>(args);
  });
  using torch::CppFunction;
  static torch::Library any(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  any.fallback(CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  aten.impl("copy_", &copy);
  aten.impl("set_.source_Storage_storage_offset", &set);
  aten.impl("record_stream", &record_stream);
  aten.impl("is_pinned", &is_pinned_tensor);
  aten.impl("_pin_memory", &pinned);
  aten.impl("_amp_foreach_non_finite_check_and_unscale_", &unscale);
  for (const char* name : {"convolution", "convolution_backward"}) {
    aten.impl(name, CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  }
}

/// Before main(): libtorch asks for devices once, at the first backward.
const bool kRegistered = [] {
  if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return false;
  register_device();
  return true;
}();

}  // namespace

c10::Device make_believe_gpu() { return Guard::device(); }

std::string why_no_make_believe_gpu() { return kRegistered ? "" : "this libtorch has a CUDA of its own"; }

HostWaits::HostWaits() {
  const std::lock_guard lock(log().mutex);
  log().waits.clear();
  log().calls.clear();
  log().counts = true;
}

HostWaits::~HostWaits() {
  const std::lock_guard lock(log().mutex);
  log().counts = false;
}

std::vector<std::string> HostWaits::found() {
  const std::lock_guard lock(log().mutex);
  return log().waits;
}

int HostWaits::calls(const std::string& name) {
  const std::lock_guard lock(log().mutex);
  const auto found = log().calls.find(name);
  return found == log().calls.end() ? 0 : found->second;
}

}  // namespace lockstep::testing

#else

namespace lockstep::testing {

c10::Device make_believe_gpu() { return c10::kCPU; }
std::string why_no_make_believe_gpu() { return "the make-believe GPU is made of libtorch 1.13's interfaces"; }
HostWaits::HostWaits() = default;
HostWaits::~HostWaits() = default;
std::vector<std::string> HostWaits::found() { return {}; }
int HostWaits::calls(const std::string& /*name*/) { return 0; }

}  // namespace lockstep::testing

#endif
