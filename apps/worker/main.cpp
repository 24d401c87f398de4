// SPDX-License-Identifier: Apache-2.0
// lockstep-worker: the part of the command that links libtorch. Users run `lockstep`, which executes this program.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/cli.h"
#include "common/summaries.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/tensor/memory.h"
#include "worker/answers.h"
#include "worker/commands.h"

namespace {

/// Throws: IoError if the verb's result is its output, and a part of it was not written. The other verbs leave their
/// result in a run's folder or in files, so a lost line does not matter.
void require_result(const std::vector<std::string>& words) {
  constexpr std::array kPrinting = {"eval", "bisect", "explain", "predict", "checkpoint", "inspect", "bench"};
  if (words.empty() || std::find(kPrinting.begin(), kPrinting.end(), words.front()) == kPrinting.end()) return;
  lockstep::require_output();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;  // NOLINT(google-build-using-namespace): in main() alone
  fault::this_is_lockstep();
  keep_freed_memory();  // before any thread starts
  return guarded_main([&] {
    const std::vector<cli::Verb> verbs = {
        {"train", cli::kTrainSummary, worker::cmd_train},
        {"eval", cli::kEvalSummary, worker::cmd_eval},
        {"bisect", cli::kBisectSummary, worker::cmd_bisect},
        {"explain", cli::kExplainSummary, worker::cmd_explain},
        {"predict", cli::kPredictSummary, worker::cmd_predict},
        {"generate", cli::kGenerateSummary, worker::cmd_generate},
        {"checkpoint", cli::kCheckpointSummary, worker::cmd_checkpoint},
        {"inspect", cli::kInspectSummary, worker::cmd_inspect},
        {"bench", cli::kBenchSummary, worker::cmd_bench},
        {"pack", cli::kPackSummary, worker::cmd_pack},
        {"tune", cli::kTuneSummary, worker::cmd_tune},
    };
    const auto run = [&](const std::vector<std::string>& words) {
      const int code =
          cli::dispatch({.name = "lockstep-worker",
                         .description = "Run one process of a verb; `lockstep` starts this program for you.",
                         .examples = {"lockstep train detection:smoke"}},
                        verbs, words);
      require_result(words);
      return code;
    };
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words == std::vector<std::string>{"answers"}) return worker::answer_all(run);
    if (words == std::vector<std::string>{"--version"}) return worker::print_libraries();
    // The only part of `lockstep doctor` that needs libtorch.
    if (!words.empty() && words.front() == "kernels") return worker::cmd_kernels({words.begin() + 1, words.end()});
    return run(words);
  });
}
