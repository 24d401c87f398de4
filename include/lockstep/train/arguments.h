// SPDX-License-Identifier: Apache-2.0
// The command line of a program that uses the Trainer, with the options of `lockstep train`.
#pragma once

#include <string>
#include <vector>

#include "lockstep/train/train_config.h"
#include "lockstep/train/trainer.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// How to treat unknown arguments, and the text of --help.
struct ArgumentOptions {
  std::string description = {};  ///< the first lines of --help
  bool keep_rest = false;        ///< unknown arguments go to ParsedArguments::rest; false: they are errors
};

/// The result of parse_arguments().
struct ParsedArguments {
  bool help = false;                   ///< --help was given and has been printed, so the program should end
  std::vector<std::string> rest = {};  ///< unknown arguments, in order
};

/// Reads the arguments into `config` and `options`, replacing values that the program has set:
///
///   FILE.yml              settings, as `key: value` or nested; repeatable
///   --set KEY=VALUE       one setting; repeatable. --KEY VALUE is the same
///   --run-dir DIR, --resume none|auto|PATH|URL, --init-from FILE, --rescue DIR, --max-time 90s|45m|1h30m|...
///   --init-from-partial   the weights may fit less than half of the model
///   --allow-other-bits    a resumed run may have a different number of replicas
///   --profile N           profiles N steps (TrainerOptions::profile)
///   --skip-samples FILE   skips the samples that FILE names from now on
///   --guard N             recomputes a replica on another rank every N steps
///   --metrics [HOST:]PORT, --tensorboard DIR, --no-tensorboard
///   --help                prints these, and every setting with its value and meaning (on rank 0)
///
/// --set wins over files, and a later --set over earlier ones. "-" and "_" are interchangeable in names. It skips the
/// options of init() (--backend, --wire, --device, --dist-url, --rank, --world-size). Later messages refer to the
/// options listed above.
///
/// Throws:  UsageError that names the unknown argument and suggests the closest name; DataError if a file is missing.
/// Example: lockstep::TrainConfig config;  // the program's own defaults
///          lockstep::TrainerOptions options{.recipe = "points", .run_dir = "runs/points"};
///          if (lockstep::parse_arguments(argc, argv, config, options).help) return 0;
[[nodiscard]] ParsedArguments parse_arguments(int argc, const char* const* argv, TrainConfig& config,
                                              TrainerOptions& options, const ArgumentOptions& about = {});

}  // namespace lockstep

#pragma GCC visibility pop
