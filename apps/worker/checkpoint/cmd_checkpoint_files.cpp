// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint import|prune`: imports weights from other programs, and frees disk space.
#include <fmt/format.h>

#include <filesystem>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/interop.h"
#include "worker/commands.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

constexpr WholeRange kSteps{0, 1'000'000'000'000'000};

namespace fs = std::filesystem;

/// A run folder's "checkpoints", or the folder itself if it holds step folders.
fs::path checkpoints_folder(const fs::path& where) {
  FileSystem& files = FileSystem::system();
  if (files.exists(where / "checkpoints" / ".")) return where / "checkpoints";
  if (has_step_folders(files, where)) return where;
  throw DataError(fmt::format("{} holds no checkpoints", where.string()), "pass a run folder");
}

std::uint64_t folder_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;  // a file that has just been removed takes no space
  for (const auto& entry : fs::directory_iterator(folder, ignored)) bytes += entry.file_size(ignored);
  return bytes;
}

std::string import_text(const ImportedStates& imported, const fs::path& folder) {
  std::string text = fmt::format("{}\n", folder.string());
  for (const auto& [name, state] : imported.states) text += fmt::format("  {}: {} entries\n", name, state.size());
  if (!imported.left_out.empty()) text += fmt::format("skipped: {}\n", imported.left_out.size());
  for (const std::string& what : imported.left_out) text += fmt::format("  {}\n", what);
  return text;
}

}  // namespace

int cmd_checkpoint_import(const Arguments& arguments) {
  std::string from;
  std::string to;
  std::int64_t step = 0;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint import",
                     .description = "Create a checkpoint from a .pth, .pt or .safetensors file.\n\nIt imports the "
                                    "model, its moving average and plain values. Nothing in the file is executed.",
                     .examples = {"lockstep checkpoint import captcha.pth --to runs/start",
                                  "lockstep train captcha:digits --set data.train=data/train --init-from runs/start"}});
  app.add_option("FILE", from, "a torch.save file, a .safetensors file, or the index of several .safetensors files")
      ->required();
  app.add_option("--to", to, "the run folder to write")->required()->type_name("FOLDER");
  app.add_option("--step", step, "the step of the new checkpoint")->check(cli::whole(kSteps))->type_name("N");
  if (!cli::parse(app, arguments)) return 0;
  FileSystem& files = FileSystem::system();
  const ImportedStates imported = import_states(read_any_file(files, from), from);
  const fs::path folder = commit_checkpoint(files, fs::path(to) / "checkpoints", {.step = step}, imported.states);
  cli::print(import_text(imported, folder));
  return 0;
}

int cmd_checkpoint_prune(const Arguments& arguments) {
  std::string where;
  Retention keep;
  bool dry_run = false;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint prune",
                     .description = "Remove old checkpoints of a run.\n\nNamed checkpoints (best) are kept. Nothing is "
                                    "removed if the newest checkpoint fails verification.",
                     .examples = {"lockstep checkpoint prune runs/digits --keep-last 3 --keep-every 1000 --dry-run"}});
  app.add_option("RUN", where, "the run folder")->required();
  app.add_option("--keep-last", keep.keep_last, "keep this many of the newest checkpoints")
      ->required()
      ->check(cli::whole({1, 1'000'000'000}))
      ->type_name("N");
  app.add_option("--keep-every", keep.keep_every, "also keep checkpoints whose step is a multiple of N; 0 keeps none")
      ->check(cli::whole(kSteps))
      ->type_name("N");
  app.add_flag("--dry-run", dry_run, "only print what would be removed");
  if (!cli::parse(app, arguments)) return 0;
  FileSystem& files = FileSystem::system();
  const fs::path folder = checkpoints_folder(where);
  std::uint64_t bytes = 0;
  const auto doomed = choose_prunable(files, folder, keep);
  for (const fs::path& step : doomed) {
    bytes += folder_bytes(step);
    print_to(stdout, "{}\n", step.string());
  }
  if (!dry_run && !doomed.empty()) (void)prune_checkpoints(files, folder, keep);
  print_to(stdout, "{} {}, {}\n", doomed.size(), dry_run ? "would be removed" : "removed", text::bytes(bytes));
  return 0;
}

}  // namespace lockstep::worker
