// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel for an existing training loop: the job, the wrapper and collectives. It compiles in a third
// of the time that torch/torch.h takes. The program also includes the libtorch headers that it uses.
#pragma once

#if __cplusplus < 202002L
#error "Lockstep needs C++20: -std=c++20, or in CMake: target_compile_features(my_program PRIVATE cxx_std_20)"
#else

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/launch/spawn.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/torch_archive.h"

#endif  // C++20
