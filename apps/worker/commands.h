// SPDX-License-Identifier: Apache-2.0
// The verbs of lockstep-worker: what computes with libtorch. `lockstep` executes it; each takes the words after the
// verb.
#pragma once

#include <string>
#include <vector>

namespace lockstep::worker {

using Arguments = std::vector<std::string>;

int cmd_train(const Arguments& arguments);
int cmd_eval(const Arguments& arguments);
int cmd_predict(const Arguments& arguments);
int cmd_generate(const Arguments& arguments);
int cmd_bench(const Arguments& arguments);
int cmd_checkpoint(const Arguments& arguments);
int cmd_inspect(const Arguments& arguments);
int cmd_pack(const Arguments& arguments);
int cmd_tune(const Arguments& arguments);

}  // namespace lockstep::worker
