// SPDX-License-Identifier: Apache-2.0
// The verbs of `lockstep checkpoint` that make or remove files.
#pragma once

#include "worker/commands.h"

namespace lockstep::worker {

int cmd_checkpoint_export(const Arguments& arguments);
int cmd_checkpoint_import(const Arguments& arguments);
int cmd_checkpoint_prune(const Arguments& arguments);

}  // namespace lockstep::worker
