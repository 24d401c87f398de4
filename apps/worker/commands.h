// SPDX-License-Identifier: Apache-2.0
// The verbs of lockstep-worker, which `lockstep` executes because they compute with libtorch. Each takes the arguments
// after the verb. cmd_kernels is `lockstep doctor kernels`. The other groups are the verbs of `lockstep checkpoint`
// that create or remove files, and the data sets of `lockstep generate`.
#pragma once

#include <string>
#include <vector>

namespace lockstep::worker {

using Arguments = std::vector<std::string>;

int cmd_train(const Arguments& arguments);
int cmd_eval(const Arguments& arguments);
int cmd_explain(const Arguments& arguments);
int cmd_bisect(const Arguments& arguments);
int cmd_predict(const Arguments& arguments);
int cmd_generate(const Arguments& arguments);
int cmd_bench(const Arguments& arguments);
int cmd_checkpoint(const Arguments& arguments);
int cmd_kernels(const Arguments& arguments);
int cmd_inspect(const Arguments& arguments);
int cmd_pack(const Arguments& arguments);
int cmd_tune(const Arguments& arguments);

/// Prints the part of `lockstep --version` that needs libtorch: its version, and the instructions of the kernels.
int print_libraries();

int cmd_checkpoint_export(const Arguments& arguments);
int cmd_checkpoint_import(const Arguments& arguments);
int cmd_checkpoint_prune(const Arguments& arguments);

int generate_captioning(const Arguments& arguments);
int generate_segmentation(const Arguments& arguments);
int generate_scribbles(const Arguments& arguments);
int generate_pseudo_labels(const Arguments& arguments);
int generate_distance_maps(const Arguments& arguments);
int generate_weak_labels(const Arguments& arguments);

}  // namespace lockstep::worker
