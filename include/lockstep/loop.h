// SPDX-License-Identifier: Apache-2.0
// Everything that a user's own training loop needs, without torch/torch.h: a job, data, the wrapper, AdamW and SGD,
// checkpoints. The program also includes the libtorch headers that it uses, such as torch/nn/modules/linear.h.
#pragma once

#if __cplusplus < 202002L
#error "Lockstep needs C++20: -std=c++20, or in CMake: target_compile_features(my_program PRIVATE cxx_std_20)"
#else

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/weights.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/objects.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/launch/spawn.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/evaluate_sharded.h"

#endif  // C++20
