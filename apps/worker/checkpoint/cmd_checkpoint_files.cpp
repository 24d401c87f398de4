// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint export|import|prune`: weights for other programs and from them, and room on the disk.
#include <fmt/format.h>

#include <filesystem>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/interop.h"
#include "worker/checkpoint/checkpoint_commands.h"

namespace lockstep::worker {
namespace {

constexpr WholeRange kSteps{0, 1'000'000'000'000'000};

namespace fs = std::filesystem;

/// A run folder's "checkpoints", or the folder itself where it holds step folders.
fs::path checkpoints_folder(const fs::path& where) {
  FileSystem& files = FileSystem::system();
  if (files.exists(where / "checkpoints" / ".")) return where / "checkpoints";
  if (has_step_folders(files, where)) return where;
  throw DataError(fmt::format("{} holds no checkpoints", where.string()), "give a run folder");
}

std::uint64_t folder_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;  // what goes away meanwhile takes no room
  for (const auto& entry : fs::directory_iterator(folder, ignored)) bytes += entry.file_size(ignored);
  return bytes;
}

std::string import_text(const ImportedStates& imported, const fs::path& folder) {
  std::string text = fmt::format("{}\n", folder.string());
  for (const auto& [name, state] : imported.states) text += fmt::format("  {}: {} entries\n", name, state.size());
  if (!imported.left_out.empty()) text += fmt::format("left out: {}\n", imported.left_out.size());
  for (const std::string& what : imported.left_out) text += fmt::format("  {}\n", what);
  return text;
}

}  // namespace

int cmd_checkpoint_export(const Arguments& arguments) {
  std::string where;
  std::string to;
  ExportOptions options;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint export",
                     .description = "Writes the weights of a checkpoint, or of a .pth or .safetensors file, for other "
                                    "programs. torch.load(FILE, weights_only=True) reads the .pth.",
                     .example = "  lockstep checkpoint export runs/digits:best --to digits.safetensors"});
  app.add_option("path", where, "a step folder, a run folder (its newest valid), RUN:NAME, or a file")->required();
  app.add_option("--to", to, "the file: .safetensors, .pth or .pt")->required();
  app.add_option("--state", options.state, "whose tensors: model, ema, optimizer, ...; all: every state, only to .pth")
      ->capture_default_str();
  app.add_option("--prefix", options.prefix, "in front of every name of the weights (\"module.\")");
  if (!cli::parse(app, arguments)) return 0;
  const std::int64_t tensors = export_weights(where, to, options);
  fmt::print("{}: {} tensors, {}\n", to, tensors, text::bytes(fs::file_size(to)));
  return 0;
}

int cmd_checkpoint_import(const Arguments& arguments) {
  std::string from;
  std::string to;
  std::int64_t step = 0;
  CLI::App app;
  cli::prepare(app, {.name = "lockstep checkpoint import",
                     .description = "Makes a checkpoint of a .pth, .pt or .safetensors file: its model, its moving "
                                    "average and its plain values. Nothing in the file is executed.",
                     .example = "  lockstep checkpoint import resnet.pth --to runs/start\n"
                                "  lockstep train FILE.yml --init-from runs/start"});
  app.add_option("file", from, "what torch.save wrote, .safetensors, or the index of several")->required();
  app.add_option("--to", to, "the run folder, which is made")->required();
  app.add_option("--step", step, "the step that the checkpoint is of")
      ->capture_default_str()
      ->check(cli::whole(kSteps));
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
  cli::prepare(app,
               {.name = "lockstep checkpoint prune",
                .description = "Removes old checkpoints of a run. Those that a name stands for (best) stay, and so "
                               "do all while the newest does not verify.",
                .example = "  lockstep checkpoint prune runs/digits --keep-last 3 --keep-every 1000 --dry-run"});
  app.add_option("path", where, "a run folder")->required();
  app.add_option("--keep-last", keep.keep_last, "the newest so many stay")
      ->required()
      ->check(cli::whole({1, 1'000'000'000}));
  app.add_option("--keep-every", keep.keep_every, "and those whose step is a multiple of it; 0: none")
      ->capture_default_str()
      ->check(cli::whole(kSteps));
  app.add_flag("--dry-run", dry_run, "only say what would be removed");
  if (!cli::parse(app, arguments)) return 0;
  FileSystem& files = FileSystem::system();
  const fs::path folder = checkpoints_folder(where);
  std::uint64_t bytes = 0;
  const auto doomed = choose_prunable(files, folder, keep);
  for (const fs::path& step : doomed) {
    bytes += folder_bytes(step);
    fmt::print("{}\n", step.string());
  }
  if (!dry_run && !doomed.empty()) (void)prune_checkpoints(files, folder, keep);
  fmt::print("{} {}, {}\n", doomed.size(), dry_run ? "would be removed" : "removed", text::bytes(bytes));
  return 0;
}

}  // namespace lockstep::worker
