// SPDX-License-Identifier: Apache-2.0
// Everything that a program usually needs, in one include. Library code includes the narrow headers instead; to compile
// faster, a program includes lockstep/loop.h and the libtorch headers that it needs.
#pragma once

#if __cplusplus < 202002L
#error "Lockstep needs C++20: -std=c++20, or in CMake: target_compile_features(my_program PRIVATE cxx_std_20)"
#else

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/objects.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data.h"
#include "lockstep/launch/spawn.h"
#include "lockstep/nn/activation.h"
#include "lockstep/nn/attention.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/linear_relu.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/norm_act.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/nn/resize.h"
#include "lockstep/nn/scale_shift.h"
#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/lars.h"
#include "lockstep/optim/lion.h"
#include "lockstep/optim/make_optimizer.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/plateau.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/join.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/parallel/torch_archive.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/train/arguments.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/evaluate_sharded.h"
#include "lockstep/train/function_task.h"
#include "lockstep/train/step_graph.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

#endif  // C++20
