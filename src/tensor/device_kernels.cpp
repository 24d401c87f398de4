// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/device_kernels.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/function_finder.h"
#include "lockstep/base/log.h"
#include "lockstep/tensor/device.h"
#include "tensor/kernel_compiler.h"

namespace lockstep::tensor {
namespace {

/// The functions of the CUDA driver that this file calls, as in the driver's cuda.h. A result of 0 is success.
struct Driver {
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*attribute)(int* value, int attribute, int device) = nullptr;
  int (*current_context)(void** context) = nullptr;
  int (*primary_context)(void** context, int device) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*load)(void** module, const void* image) = nullptr;
  int (*function)(void** function, void* module, const char* name) = nullptr;
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                void* stream, void** arguments, void** extra) = nullptr;
  int (*error_string)(int error, const char** text) = nullptr;
  std::string problem;
};

constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

Driver load_driver() {
  Driver driver;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    driver.problem = fmt::format("the CUDA driver cannot be loaded: {}", ::dlerror());
    return driver;
  }
  FunctionFinder finder(library);
  finder.set(driver.device_get, "cuDeviceGet");
  finder.set(driver.attribute, "cuDeviceGetAttribute");
  finder.set(driver.current_context, "cuCtxGetCurrent");
  finder.set(driver.primary_context, "cuDevicePrimaryCtxRetain");
  finder.set(driver.set_context, "cuCtxSetCurrent");
  finder.set(driver.load, "cuModuleLoadData");
  finder.set(driver.function, "cuModuleGetFunction");
  finder.set(driver.launch, "cuLaunchKernel");
  finder.set(driver.error_string, "cuGetErrorString");
  if (!finder.missing().empty()) driver.problem = fmt::format("the CUDA driver has no function {}", finder.missing());
  return driver;
}

const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

void check(int result, const std::string& call) {
  if (result == 0) return;
  const char* said = nullptr;
  (void)driver().error_string(result, &said);
  throw ResourceError(fmt::format("{} failed: {}", call, said == nullptr ? "unknown error" : said));
}

/// Makes libtorch's context current: an autograd thread may not have it yet.
void enter_context(int gpu) {
  void* context = nullptr;
  check(driver().current_context(&context), "cuCtxGetCurrent");
  if (context != nullptr) return;
  check(driver().primary_context(&context, gpu), "cuDevicePrimaryCtxRetain");
  check(driver().set_context(context), "cuCtxSetCurrent");
}

int capability_of(int gpu) {
  int device = 0;
  int major = 0;
  int minor = 0;
  check(driver().device_get(&device, gpu), "cuDeviceGet");
  check(driver().attribute(&major, kCapabilityMajor, device), "cuDeviceGetAttribute");
  check(driver().attribute(&minor, kCapabilityMinor, device), "cuDeviceGetAttribute");
  return major * 10 + minor;
}

class LoadedKernels final : public DeviceKernels {
 public:
  LoadedKernels(int gpu, const std::string& image) : gpu_(gpu) {
    enter_context(gpu_);
    check(driver().load(&module_, image.data()), "cuModuleLoadData");
  }

  void launch(const char* kernel, const KernelGrid& grid, const void* argument) override {
    enter_context(gpu_);
    void* arguments[] = {const_cast<void*>(argument)};
    check(driver().launch(function(kernel), grid.x, grid.y, 1, grid.threads, 1, 1, 0, native_stream(stream()),
                          arguments, nullptr),
          fmt::format("the launch of {}", kernel));
  }

 private:
  [[nodiscard]] c10::Stream stream() const {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu_));
    return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getStream(device);
  }

  void* function(const char* kernel) {
    const std::scoped_lock lock(mutex_);  // forward and backward run on two threads
    void*& found = functions_[kernel];
    if (found == nullptr && driver().function(&found, module_, kernel) != 0) {
      throw InternalError(fmt::format("there is no kernel {}", kernel));
    }
    return found;
  }

  int gpu_;
  void* module_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, void*> functions_;
};

std::unique_ptr<DeviceKernels> make(const KernelSource& source, int gpu) {
  std::string problem = driver().problem;
  if (problem.empty()) {
    const CompiledKernels compiled = compile_kernels(source, capability_of(gpu));
    if (!compiled.image.empty()) return std::make_unique<LoadedKernels>(gpu, compiled.image);
    problem = compiled.problem;
  }
  log::note("{} is not used; libtorch's operators are used instead: {}", source.name, problem);
  return nullptr;
}

}  // namespace

DeviceKernels* device_kernels(const KernelSource& source) {
  static std::mutex mutex;
  static std::map<std::pair<const char*, int>, std::unique_ptr<DeviceKernels>> made;
  static const bool wanted = env::get("LOCKSTEP_GPU_KERNELS").value_or("1") != "0";
  if (!wanted || cuda_device_count() == 0) return nullptr;
  const int gpu = static_cast<int>(c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index());
  const std::scoped_lock lock(mutex);
  const auto key = std::pair{source.text, gpu};
  const auto found = made.find(key);
  if (found != made.end()) return found->second.get();
  return made.emplace(key, make(source, gpu)).first->second.get();
}

}  // namespace lockstep::tensor
