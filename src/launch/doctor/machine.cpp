// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "launch/doctor/machine_facts.h"
#include "launch/doctor/pci.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/launch/gpus.h"

namespace lockstep {

view::MachineFacts read_machine(const MachineOptions& options) {
  using namespace launch;  // NOLINT(google-build-using-namespace): this file's only function
  constexpr auto kOfTheDisk = std::chrono::milliseconds(1500);
  const GroupLimits group = read_control_group();
  std::error_code problem;
  return {.cores = read_cores_facts(group),
          .memory = read_memory_facts(group),
          .shared_memory = read_shared_memory(),
          .limits = read_limits(group),
          .ports = read_ports(),
          .network = read_network(),
          .clock = read_clock(),
          .gpus = read_gpu_facts(options.nccl),
          .gpu_links = read_gpu_links(read_gpu_places(), "/sys"),
          .disk = read_disk(std::filesystem::current_path(problem), options.measures_disk, kOfTheDisk)};
}

}  // namespace lockstep
