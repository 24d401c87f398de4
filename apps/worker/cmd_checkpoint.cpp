// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint inspect|verify PATH` and `diff A B`: what a checkpoint holds, whether every byte is as it was
// written, and where two differ.
#include <fmt/format.h>

#include <algorithm>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/diff.h"
#include "lockstep/checkpoint/inspect.h"
#include "worker/commands.h"

namespace lockstep::worker {
namespace {

constexpr const char* kWhere = "a step folder, a run folder (its newest valid), or RUN:NAME";
constexpr int kDiffer = 1;  // as of cmp and diff: an answer, not an error

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
  fmt::print("{}", digest ? checkpoint_digest(checkpoint) + "\n" : to_text(describe_checkpoint(checkpoint)));
  return 0;
}

/// Every problem is on stdout already: the error counts them.
void throw_damaged(const VerifyReport& report) {
  const auto damaged =
      std::count_if(report.files.begin(), report.files.end(), [](const FileCheck& c) { return !c.problem.empty(); });
  throw DataError(fmt::format("{}: {} of {} files missing or torn", report.path.string(), damaged, report.files.size()),
                  "take another checkpoint: a run folder alone means its newest valid one");
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
  fmt::print("{}", to_text(report));
  if (!report.ok()) throw_damaged(report);
  return 0;
}

int diff(const Arguments& arguments) {
  std::string a;
  std::string b;
  bool json = false;
  std::size_t limit = 20;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint diff",
                     .description = "Compares the states of two checkpoints bit by bit.\n"
                                    "Exit code: 0 where they are equal, 1 where they differ, otherwise as always.",
                     .example = "  lockstep checkpoint diff runs/digits:best runs/digits"});
  app.add_option("a", a, kWhere)->required();
  app.add_option("b", b, "the same")->required();
  app.add_flag("--json", json, "print one JSON object with all that differs");
  app.add_option("--limit", limit, "rows of each table; 0: all")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  if (!cli::parse(app, arguments)) return 0;
  const CheckpointDiff difference = diff_checkpoints(load_checkpoint(a), load_checkpoint(b));
  fmt::print("{}", json ? to_json(difference) : to_text(difference, limit));
  return difference.equal() ? 0 : kDiffer;
}

}  // namespace

int cmd_checkpoint(const Arguments& arguments) {
  if (arguments.empty()) throw UsageError("a verb is missing: inspect, verify or diff", "lockstep checkpoint --help");
  return cli::dispatch("lockstep checkpoint",
                       {{"inspect", "what it holds", inspect},
                        {"verify", "whether it is whole", verify},
                        {"diff", "where two differ", diff}},
                       arguments);
}

}  // namespace lockstep::worker
