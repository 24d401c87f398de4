// SPDX-License-Identifier: Apache-2.0
// The Trainer with a task, data sets and settings, without torch/torch.h. The program also includes the libtorch
// headers that its network uses, such as torch/nn/modules/linear.h.
#pragma once

#if __cplusplus < 202002L
#error "Lockstep needs C++20: -std=c++20, or in CMake: target_compile_features(my_program PRIVATE cxx_std_20)"
#else

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/job.h"
#include "lockstep/data/dataset.h"
#include "lockstep/launch/spawn.h"
#include "lockstep/train/arguments.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/function_task.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

#endif  // C++20
