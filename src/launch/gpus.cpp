// SPDX-License-Identifier: Apache-2.0
// NVML is not a dependency: its functions, which have a stable ABI, are declared here and looked up by name, so that
// the same binary runs with or without a driver.
#include "lockstep/launch/gpus.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/gpu_devices.h"

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

struct PciInfo {
  std::array<char, 16> old_address{};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned device_id = 0;
  unsigned subsystem_id = 0;
  std::array<char, 32> address{};
};

constexpr int kPeerReads = 0;
constexpr int kPeerNvlink = 2;
constexpr std::array kPeerObstacles = {"",
                                       "the chipset does not support it",
                                       "the GPU does not support it",
                                       "the I/O hub between them does not support it",
                                       "the driver's registry key disables it",
                                       "it is not supported"};

class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose_of) {
    if (handle_ == nullptr) {
      problem_ = fmt::format("no NVIDIA driver was found ({})", dlerror());
      return;
    }
    const int result = call("nvmlInit_v2");
    if (result != kSuccess) problem_ = fmt::format("the NVIDIA driver does not respond: {}", words(result));
    ready_ = result == kSuccess;
  }
  ~Nvml() {
    if (ready_) call("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Returns the function's result; an error if the library does not have the function.
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

/// Returns RANK in another process's environment; none if it is unreadable or not set.
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
  // Versions 2 and 3 share a layout; old drivers have only version 2.
  int result = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, running.data());
  if (result == -1) result = nvml.call("nvmlDeviceGetComputeRunningProcesses_v2", device, &count, running.data());
  std::vector<GpuProcess> processes;
  for (unsigned i = 0; result == kSuccess && i < count; ++i) {
    const bool is_known = running[i].bytes != ~0ULL;
    processes.push_back({.pid = static_cast<int>(running[i].pid),
                         .bytes = is_known ? running[i].bytes : 0,
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

std::string address_of(const Nvml& nvml, Device device) {
  const auto pci = nvml.read<PciInfo>("nvmlDeviceGetPciInfo_v3", device);
  return pci ? fmt::format("{:04x}:{:02x}:{:02x}.0", pci->domain, pci->bus, pci->device) : "";
}

std::string obstacle_between(const Nvml& nvml, Device one, Device other) {
  const auto status =
      static_cast<std::size_t>(nvml.read<int>("nvmlDeviceGetP2PStatus", one, other, kPeerReads).value_or(0));
  return status < kPeerObstacles.size() ? kPeerObstacles[status] : "";
}

std::vector<Device> devices_of(const Nvml& nvml) {
  std::vector<Device> devices;
  const unsigned count = nvml.read<unsigned>("nvmlDeviceGetCount_v2").value_or(0);
  for (unsigned index = 0; index < count; ++index) {
    devices.push_back(nvml.read<Device>("nvmlDeviceGetHandleByIndex_v2", index).value_or(nullptr));
  }
  return devices;
}

/// Returns the slices of a GPU; empty if it is not sliced.
std::vector<std::string> slices_of(const Nvml& nvml, Device device) {
  std::vector<std::string> slices;
  const unsigned most = nvml.read<unsigned>("nvmlDeviceGetMaxMigDeviceCount", device).value_or(0);
  for (unsigned index = 0; index < most; ++index) {
    const auto slice = nvml.read<Device>("nvmlDeviceGetMigDeviceHandleByIndex", device, index);
    std::array<char, 96> name{};
    if (slice && nvml.call("nvmlDeviceGetUUID", *slice, name.data(), static_cast<unsigned>(name.size())) == kSuccess) {
      slices.emplace_back(name.data());
    }
  }
  return slices;
}

}  // namespace

std::string list_slices(const std::string& library) {
  const Nvml nvml(library);
  if (!nvml.problem().empty()) return "";
  std::string list;
  for (const Device device : devices_of(nvml)) {
    const std::vector<std::string> slices = slices_of(nvml, device);
    if (slices.empty()) return "";
    for (const std::string& slice : slices) list += (list.empty() ? "" : ",") + slice;
  }
  return list;
}

void show_slices() {
  if (count_gpu_devices() == 0) return;
  const std::string slices = list_slices();
  if (!slices.empty()) ::setenv("CUDA_VISIBLE_DEVICES", slices.c_str(), 0);  // NOLINT(concurrency-mt-unsafe)
}

GpuPlaces read_gpu_places(const std::string& library) {
  const Nvml nvml(library);
  GpuPlaces places;
  if (!nvml.problem().empty()) return places;
  const std::vector<Device> devices = devices_of(nvml);
  for (std::size_t second = 0; second < devices.size(); ++second) {
    places.addresses.push_back(address_of(nvml, devices[second]));
    for (std::size_t first = 0; first < second; ++first) {
      const auto nvlink = nvml.read<int>("nvmlDeviceGetP2PStatus", devices[first], devices[second], kPeerNvlink);
      places.pairs.push_back({.first = static_cast<int>(first),
                              .second = static_cast<int>(second),
                              .by_nvlink = nvlink == 0,
                              .obstacle = obstacle_between(nvml, devices[first], devices[second])});
    }
  }
  return places;
}

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
  if (report.gpus.empty()) report.problem = "the NVIDIA driver is installed but finds no GPU";
  return report;
}

}  // namespace lockstep
