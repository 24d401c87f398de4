// SPDX-License-Identifier: Apache-2.0
// The lockstep command: finds the verb and leaves the rest to it. No libtorch here, so that it starts at once.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "verbs.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

constexpr std::array kVerbs = {
    Verb{"new", "write a small project that builds and trains", cmd_new},
    Verb{"run", "start and watch the ranks of a program, in any language", cmd_run},
    Verb{"train", "train a recipe: captcha, detection, segmentation, captioning", cmd_train},
    Verb{"eval", "evaluate a checkpoint on a folder", cmd_worker},
    Verb{"predict", "read files with a checkpoint", cmd_worker},
    Verb{"generate", "make synthetic data", cmd_worker},
    Verb{"checkpoint", "inspect, verify, compare, convert and prune checkpoints", cmd_worker},
    Verb{"inspect", "show what a rank reads, every setting, the machine, the GPUs", cmd_worker},
    Verb{"bench", "measure: all-reduce, a training step", cmd_worker},
    Verb{"pack", "pack a data set into one file, or check one", cmd_worker},
    Verb{"tune", "find the fastest settings of a recipe on this machine", cmd_worker},
};

std::string help() {
  std::string out = "Distributed data-parallel training for C++.\n\nUsage: lockstep VERB [OPTIONS]\n\n";
  for (const auto& verb : kVerbs) out += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  out +=
      "\n  lockstep VERB --help   what a verb takes\n  lockstep VERB --quiet  warnings and errors only\n  lockstep "
      "--version\n\n";
  out += "Example: lockstep run --nproc-per-node 2 -- ./train --epochs 3\n";
  return out;
}

int dispatch(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--version" || word == "-V") {
    fmt::print("lockstep {}\n", kVersion);
    return 0;
  }
  if (word == "--help" || word == "-h" || word == "help") {
    fmt::print("{}", help());
    return 0;
  }
  if (word.empty()) {
    fmt::print(stderr, "{}", help());
    return static_cast<int>(ExitCode::kUsage);
  }
  std::vector<std::string> names;
  for (const auto& verb : kVerbs) {
    if (word == verb.name) return verb.run(argc - 1, argv + 1);
    names.emplace_back(verb.name);
  }
  throw UsageError(fmt::format("unknown verb '{}'{}", word, text::did_you_mean(word, names)),
                   fmt::format("the verbs are {}", text::join(names)));
}

}  // namespace
}  // namespace lockstep::apps

int main(int argc, char** argv) {
  lockstep::fault::this_is_lockstep();
  return lockstep::guarded_main([&] { return lockstep::apps::dispatch(argc, argv); });
}
