// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint inspect|verify PATH` and `diff A B`: the contents of a checkpoint, the verification of every
// byte, and the differences between two checkpoints. cmd_checkpoint_files.cpp has the verbs that create or remove
// files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/checkpoint/diff.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/verify_file.h"
#include "worker/commands.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

constexpr int kDiffer = 1;  // exit code 1, as in cmp and diff: a result, not an error

/// True if the path is a file with an extension that other programs use.
bool is_other_file(const std::string& where) {
  const std::filesystem::path path = where;
  const std::string ending = path.extension().string();
  const auto known = {".pth", ".pt", ".pkl", ".bin", ".npz", ".zip", ".safetensors", ".json"};
  FileSystem& files = FileSystem::system();
  return std::find(known.begin(), known.end(), ending) != known.end() && files.exists(path) &&
         !files.exists(path / ".");
}

int inspect_checkpoint(const Arguments& arguments) {
  std::string where;
  bool digest = false;
  bool json = false;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint inspect",
                     .description = "Show the contents of a checkpoint or of a file of weights, with the norms of its "
                                    "tensors.",
                     .examples = {"lockstep checkpoint inspect runs/digits",
                                  "lockstep checkpoint inspect runs/digits:best --digest"}});
  app.add_option("PATH", where, kCheckpointOrFileHelp)->required();
  app.add_flag("--digest", digest, "print only the SHA-256 of a checkpoint's states");
  app.add_flag("--json", json, "print one JSON object instead of text");
  if (!cli::parse(app, arguments)) return 0;
  if (digest) {
    print_to(stdout, "{}\n", checkpoint_digest(load_checkpoint(where)));
    return 0;
  }
  const auto description =
      is_other_file(where) ? describe_file(FileSystem::system(), where) : describe_checkpoint(load_checkpoint(where));
  json ? cli::print_json(to_json(description)) : cli::print(to_text(description));
  return 0;
}

/// Throws an error with the number of damaged parts; the problems are already on stdout.
void throw_damaged(const std::filesystem::path& path, const std::vector<FileCheck>& parts, const std::string& hint) {
  const auto damaged = std::count_if(parts.begin(), parts.end(), [](const FileCheck& c) { return !c.problem.empty(); });
  throw DataError(fmt::format("{}: {} of {} files missing or torn", path.string(), damaged, parts.size()), hint);
}

void verify_one_file(const std::string& path) {
  const FileReport report = verify_file(FileSystem::system(), path);
  cli::print(to_text(report));
  if (!report.ok()) throw_damaged(report.path, report.parts, "fetch or export the file again");
}

/// Throws if a run folder has a checkpoint that is newer than `whole`, its newest valid one: the newer one is torn.
void require_newest_whole(const std::string& where, const std::filesystem::path& whole) {
  FileSystem& files = FileSystem::system();
  const bool is_run = !files.exists(std::filesystem::path(where) / "manifest.json") && files.exists(where);
  const auto newest = is_run ? find_newest(files, whole.parent_path()) : std::nullopt;
  if (!newest || *newest == whole) return;
  const VerifyReport torn = verify_checkpoint(files, *newest);
  cli::print(to_text(torn));
  throw_damaged(torn.path, torn.files,
                fmt::format("the newest whole checkpoint is {}: --resume auto continues from it", whole.string()));
}

int verify_any(const Arguments& arguments) {
  std::string where;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint verify",
                     .description =
                         "Read every byte of a checkpoint and compare it with the manifest. In a run folder, a damaged "
                         "checkpoint that is newer than the newest valid one is an error.\n\nA .pth, "
                         ".npz or .safetensors file is checked against its own format.",
                     .examples = {"lockstep checkpoint verify runs/digits",
                                  "lockstep checkpoint verify runs/digits/checkpoints/step-00001200"}});
  app.add_option("PATH", where, kCheckpointOrFileHelp)->required();
  if (!cli::parse(app, arguments)) return 0;
  if (is_other_file(where)) {
    verify_one_file(where);
    return 0;
  }
  const std::filesystem::path path = resolve_checkpoint(where);
  require_newest_whole(where, path);
  const VerifyReport report = verify_checkpoint(FileSystem::system(), path);
  cli::print(to_text(report));
  if (!report.ok()) {
    throw_damaged(report.path, report.files, "use another checkpoint; a run folder selects its newest valid one");
  }
  return 0;
}

int diff_two(const Arguments& arguments) {
  std::string a;
  std::string b;
  bool json = false;
  std::size_t limit = 20;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint diff",
                     .description = "Compare the states of two checkpoints bit by bit.",
                     .examples = {"lockstep checkpoint diff runs/digits:best runs/digits"},
                     .tables = {{"Exit code",
                                 {{"0", "the checkpoints are equal"},
                                  {"1", "they differ"},
                                  {"64 or more", "an error; the codes are the same for every verb"}}}}});
  app.add_option("A", a, kCheckpointHelp)->required();
  app.add_option("B", b, "the other checkpoint, named in the same way")->required();
  app.add_flag("--json", json, "print all differences as one JSON object");
  app.add_option("--limit", limit, "rows to print per table; 0 prints all")
      ->check(cli::whole({0, 1'000'000'000}))
      ->type_name("N");
  if (!cli::parse(app, arguments)) return 0;
  const CheckpointDiff difference = diff_checkpoints(load_checkpoint(a), load_checkpoint(b));
  json ? cli::print_json(to_json(difference)) : cli::print(to_text(difference, limit));
  return difference.equal() ? 0 : kDiffer;
}

}  // namespace

int cmd_checkpoint(const Arguments& arguments) {
  if (arguments.empty()) {
    throw UsageError("a verb is missing: inspect, verify, diff, export, import or prune", "lockstep checkpoint --help");
  }
  return cli::dispatch(
      {.name = "lockstep checkpoint",
       .description = "Inspect, verify, compare, convert and prune checkpoints.",
       .examples = {"lockstep checkpoint verify runs/digits",
                    "lockstep checkpoint export runs/digits:best --to digits.safetensors"}},
      {{"inspect", "show the contents of a checkpoint", inspect_checkpoint},
       {"verify", "check every byte of a checkpoint", verify_any},
       {"diff", "compare two checkpoints bit by bit", diff_two},
       {"export", "write weights as .safetensors or .pth, or the network as TorchScript (.pt)", cmd_checkpoint_export},
       {"import", "create a checkpoint from a .pth or .safetensors file", cmd_checkpoint_import},
       {"prune", "remove old checkpoints of a run", cmd_checkpoint_prune}},
      arguments);
}

}  // namespace lockstep::worker
