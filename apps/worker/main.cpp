// SPDX-License-Identifier: Apache-2.0
// lockstep-worker: the half of the command that links libtorch. People type `lockstep`, which executes this.
#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "worker/commands.h"

int main(int argc, char** argv) {
  using namespace lockstep;  // NOLINT(google-build-using-namespace): this file's only function
  fault::this_is_lockstep();
  return guarded_main([&] {
    const std::vector<cli::Verb> verbs = {
        {"train", "trains a recipe", worker::cmd_train},
        {"eval", "evaluates a checkpoint on a folder", worker::cmd_eval},
        {"predict", "reads files with a checkpoint", worker::cmd_predict},
        {"generate", "makes synthetic data", worker::cmd_generate},
        {"bench", "measures", worker::cmd_bench},
        {"checkpoint", "inspects, verifies and converts checkpoints", worker::cmd_checkpoint},
        {"inspect", "shows which samples a rank reads, and settings", worker::cmd_inspect},
        {"pack", "packs a data set", worker::cmd_pack},
        {"tune", "finds the fastest settings of a recipe here", worker::cmd_tune},
    };
    return cli::dispatch("lockstep", verbs, {argv + 1, argv + argc});
  });
}
