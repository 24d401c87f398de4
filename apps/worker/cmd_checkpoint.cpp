// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint inspect|verify PATH`: what a checkpoint holds, and whether every byte is as it was written.
#include <fmt/format.h>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "worker/commands.h"

namespace lockstep::worker {
namespace {

constexpr const char* kWhere = "a step folder, a run folder (its newest valid), or RUN:NAME";

int inspect(const Arguments& arguments) {
  std::string where;
  bool digest = false;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint inspect",
                     .description = "Shows what a checkpoint holds.",
                     .example = "  lockstep checkpoint inspect runs/digits --digest"});
  app.add_option("path", where, kWhere)->required();
  app.add_flag("--digest", digest, "print only one SHA-256 over the state");
  if (!cli::parse(app, arguments)) return 0;
  const Checkpoint checkpoint = load_checkpoint(where);
  fmt::print("{}\n", digest ? checkpoint_digest(checkpoint) : to_text(describe_checkpoint(checkpoint)));
  return 0;
}

int verify(const Arguments& arguments) {
  std::string where;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint verify",
                     .description = "Reads every byte of a checkpoint and compares it with the manifest.",
                     .example = "  lockstep checkpoint verify runs/digits/checkpoints/step-00001200"});
  app.add_option("path", where, kWhere)->required();
  if (!cli::parse(app, arguments)) return 0;
  const VerifyReport report = verify_checkpoint(FileSystem::system(), resolve_checkpoint(where));
  fmt::print("{}\n", to_text(report));
  if (!report.ok()) throw DataError(report.problem());
  return 0;
}

}  // namespace

int cmd_checkpoint(const Arguments& arguments) {
  return cli::dispatch("lockstep checkpoint",
                       {{"inspect", "what it holds", inspect}, {"verify", "whether it is whole", verify}}, arguments);
}

}  // namespace lockstep::worker
