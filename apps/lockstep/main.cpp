// SPDX-License-Identifier: Apache-2.0
// The lockstep command: finds the verb and runs it. It does not link libtorch and so starts fast.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/commit.h"
#include "common/help.h"
#include "common/summaries.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "verbs.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

constexpr std::array kVerbs = {
    Verb{"new", cli::kNewSummary, cmd_new},
    Verb{"run", cli::kRunSummary, cmd_run},
    Verb{"train", cli::kTrainSummary, cmd_train},
    Verb{"eval", cli::kEvalSummary, cmd_worker},
    Verb{"bisect", cli::kBisectSummary, cmd_worker},
    Verb{"explain", cli::kExplainSummary, cmd_worker},
    Verb{"predict", cli::kPredictSummary, cmd_worker},
    Verb{"generate", cli::kGenerateSummary, cmd_worker},
    Verb{"checkpoint", cli::kCheckpointSummary, cmd_worker},
    Verb{"inspect", cli::kInspectSummary, cmd_worker},
    Verb{"plot", cli::kPlotSummary, cmd_plot},
    Verb{"dashboard", cli::kDashboardSummary, cmd_dashboard},
    Verb{"bench", cli::kBenchSummary, cmd_worker},
    Verb{"pack", cli::kPackSummary, cmd_worker},
    Verb{"plan", cli::kPlanSummary, cmd_plan},
    Verb{"tune", cli::kTuneSummary, cmd_worker},
    Verb{"trace", cli::kTraceSummary, cmd_trace},
    Verb{"doctor", cli::kDoctorSummary, cmd_doctor},
    Verb{"cmake-dir", cli::kCmakeDirSummary, cmd_cmake_dir},
};

std::string command_help() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& verb : kVerbs) rows.emplace_back(verb.name, verb.summary);
  return cli::verbs_text(
      {.name = "lockstep",
       .description = "Distributed data-parallel training for C++.",
       .examples = {"lockstep new digits", "lockstep run --nproc-per-node 2 -- ./train --epochs 3",
                    "lockstep train detection:smoke"}},
      rows, {{"-V, --version", "print the version and details of this build"}, {"-h, --help", cli::kHelp}});
}

/// Prints the versions. The worker, if it is installed, reports libtorch and the kernels.
int print_version() {
  print_to(stdout, "lockstep {}\n", kVersion);
  if (*cli::kCommit != '\0') print_to(stdout, "commit    {}\n", cli::kCommit);
  std::fflush(stdout);
  std::array<char, 10> word{"--version"};
  char* words[] = {word.data()};
  try {
    return cmd_worker(1, words);
  } catch (const Error& error) {
    print_to(stdout, "libtorch  unknown: {}\n", error.what());
    return 0;
  }
}

int dispatch(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--version" || word == "-V") {
    return print_version();
  }
  if (word == "--help" || word == "-h" || word == "help") {
    print_to(stdout, "{}", command_help());
    return 0;
  }
  if (word.empty()) {
    print_to(stderr, "{}", command_help());
    return static_cast<int>(ExitCode::kUsage);
  }
  std::vector<std::string> names;
  for (const auto& verb : kVerbs) {
    if (word == verb.name) return verb.run(argc - 1, argv + 1);
    names.emplace_back(verb.name);
  }
  throw UsageError(fmt::format("unknown verb '{}'{}", word, text::did_you_mean(word, names)),
                   fmt::format("available verbs: {}", text::join(names)));
}

}  // namespace
}  // namespace lockstep::apps

int main(int argc, char** argv) {
  lockstep::fault::this_is_lockstep();
  return lockstep::guarded_main([&] { return lockstep::apps::dispatch(argc, argv); });
}
