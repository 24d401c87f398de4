// SPDX-License-Identifier: Apache-2.0
// NVML has a stable binary interface but no place in our dependencies: its functions are declared here and looked up by
// name, so that the same program runs with and without a driver.
#include "lockstep/launch/gpus.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace {

using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kMultiprocessorClock = 1;
constexpr unsigned kChipTemperature = 0;

struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

struct RunningProcess {
  unsigned pid = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose_of) {
    if (handle_ == nullptr) {
      problem_ = fmt::format("no NVIDIA driver was found ({})", dlerror());
      return;
    }
    const int result = call("nvmlInit_v2");
    if (result != kSuccess) problem_ = fmt::format("the NVIDIA driver does not answer: {}", words(result));
    ready_ = result == kSuccess;
  }
  ~Nvml() {
    if (ready_) call("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// The function's result; not kSuccess either where the library has no such function.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_.get(), name));
    return function == nullptr ? -1 : function(arguments...);
  }

  template <class Value, class... Arguments>
  std::optional<Value> read(const char* name, Arguments... arguments) const {
    Value value{};
    if (call(name, arguments..., &value) != kSuccess) return std::nullopt;
    return value;
  }

 private:
  static void dlclose_of(void* handle) {
    if (handle != nullptr) dlclose(handle);
  }
  std::string words(int result) const {
    auto* function = reinterpret_cast<const char* (*)(int)>(dlsym(handle_.get(), "nvmlErrorString"));
    return function == nullptr ? fmt::format("error {}", result) : function(result);
  }

  std::unique_ptr<void, void (*)(void*)> handle_;
  bool ready_ = false;
  std::string problem_;
};

/// RANK of another process's environment; none where that is not ours to read, or it has none.
std::optional<int> rank_of(unsigned pid) {
  std::string environment;
  try {
    environment = FileSystem::system().read(fmt::format("/proc/{}/environ", pid));
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string key = std::string(1, '\0') + "RANK=";
  const auto found = (std::string(1, '\0') + environment).find(key);
  if (found == std::string::npos) return std::nullopt;
  int rank = 0;
  const char* begin = environment.data() + found + key.size() - 1;
  const auto result = std::from_chars(begin, environment.data() + environment.size(), rank);
  return result.ec == std::errc() ? std::optional(rank) : std::nullopt;
}

std::vector<GpuProcess> processes_on(const Nvml& nvml, Device device) {
  std::array<RunningProcess, 128> running;
  unsigned count = running.size();
  // Versions 2 and 3 share their layout; old drivers have only the former.
  int result = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, running.data());
  if (result == -1) result = nvml.call("nvmlDeviceGetComputeRunningProcesses_v2", device, &count, running.data());
  std::vector<GpuProcess> processes;
  for (unsigned i = 0; result == kSuccess && i < count; ++i) {
    const bool told = running[i].bytes != ~0ULL;
    processes.push_back({.pid = static_cast<int>(running[i].pid),
                         .bytes = told ? running[i].bytes : 0,
                         .rank = rank_of(running[i].pid)});
  }
  return processes;
}

GpuState state_of(const Nvml& nvml, Device device, unsigned index) {
  GpuState state{.index = static_cast<int>(index), .name = "GPU"};
  std::array<char, 96> name{};
  if (nvml.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size())) == kSuccess) {
    state.name = name.data();
  }
  if (const auto use = nvml.read<Utilization>("nvmlDeviceGetUtilizationRates", device)) state.percent = use->gpu;
  if (const auto memory = nvml.read<Memory>("nvmlDeviceGetMemoryInfo", device)) {
    state.used_bytes = memory->used;
    state.total_bytes = memory->total;
  }
  state.celsius = nvml.read<unsigned>("nvmlDeviceGetTemperature", device, kChipTemperature);
  if (const auto milliwatts = nvml.read<unsigned>("nvmlDeviceGetPowerUsage", device)) state.watts = *milliwatts / 1e3;
  state.megahertz = nvml.read<unsigned>("nvmlDeviceGetClockInfo", device, kMultiprocessorClock);
  state.processes = processes_on(nvml, device);
  return state;
}

}  // namespace

GpuReport read_gpus(const std::string& library) {
  const Nvml nvml(library);
  GpuReport report{.problem = nvml.problem()};
  if (!report.problem.empty()) return report;
  std::array<char, 96> version{};
  if (nvml.call("nvmlSystemGetDriverVersion", version.data(), static_cast<unsigned>(version.size())) == kSuccess) {
    report.driver = version.data();
  }
  const unsigned count = nvml.read<unsigned>("nvmlDeviceGetCount_v2").value_or(0);
  for (unsigned index = 0; index < count; ++index) {
    const auto device = nvml.read<Device>("nvmlDeviceGetHandleByIndex_v2", index);
    if (device) report.gpus.push_back(state_of(nvml, *device, index));
  }
  if (report.gpus.empty()) report.problem = "the NVIDIA driver is there and knows no GPU";
  return report;
}

}  // namespace lockstep
