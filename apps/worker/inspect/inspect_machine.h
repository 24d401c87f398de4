// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect gpu|env`: what the machine and the environment offer to a run, and what the GPUs do right now.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/launch/gpus.h"
#include "worker/commands.h"

namespace lockstep::worker {

int inspect_gpu(const Arguments& arguments);
int inspect_env(const Arguments& arguments);

/// The table of `lockstep inspect gpu`; where there is none, one line with the reason. Pure function.
[[nodiscard]] std::string gpu_text(const GpuReport& report);

}  // namespace lockstep::worker
