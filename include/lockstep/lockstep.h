// SPDX-License-Identifier: Apache-2.0
// What a program types daily, in one include. Library code includes the narrow headers instead.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/objects.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sampler.h"
#include "lockstep/launch/spawn.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/join.h"
#include "lockstep/parallel/power_sgd.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/function_task.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"
