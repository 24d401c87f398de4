// SPDX-License-Identifier: Apache-2.0
#include "train/resume/stage_base.h"

#include <fmt/format.h>

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "train/plan/run_state.h"
#include "train/ranks/same_outcome.h"
#include "train/ranks/share_state.h"

namespace lockstep::train {

namespace fs = std::filesystem;

fs::path step_folder_of(const fs::path& folder, std::int64_t step) { return folder / fmt::format("step-{:08}", step); }

void copy_checkpoint(FileSystem& files, const fs::path& from, const fs::path& folder, const std::string& name) {
  const Checkpoint checkpoint = read_checkpoint(from.string(), files);
  ShardedContent content;
  content.finite.required = false;  // the copy does not require finite values
  for (const std::string& state : checkpoint.names()) content.parts[state].entries = checkpoint.state(state);
  for (const std::string& file : checkpoint.text_files()) content.texts[file] = checkpoint.text(file).value();
  const fs::path copy = commit_sharded_checkpoint(files, *no_peers(), folder, checkpoint.manifest().meta, content);
  name_checkpoint(files, folder, name, copy);
}

void copy_best(FileSystem& files, const Checkpoint& checkpoint, const fs::path& folder) {
  const RunState run = run_state_of(checkpoint.state("run"));
  const fs::path best = step_folder_of(checkpoint.path().parent_path(), run.best_step);
  if (!run.best || run.best_step == 0 || !files.exists(best / "manifest.json")) return;
  try {
    copy_checkpoint(files, best, folder, "best");
  } catch (const DataError& error) {
    log::warn("the run's best checkpoint so far is not copied into {}: {}", folder.string(), error.message());
  }
}

bool load_base(const Job& job, const fs::path& folder, std::int64_t step, StepRunner& steps, EMA* ema) {
  if (step == 0) {
    throw UsageError("the second stage starts, but the first one had no evaluation",
                     "set data.test, or stop_epoch=0 for one stage");
  }
  std::optional<Checkpoint> base;
  do_on_main(job, [&] { base = load_checkpoint(step_folder_of(folder, step).string()); });
  const auto shared = [&](const std::string& name) { return share_state_of(job, base, name); };
  load_model_state_dict(steps.model().module().net(), shared("model"));
  steps.buffers().note_change();
  steps.weights().optimizer().load_state_dict(shared("optimizer"));
  if (steps.weights().scaler().is_enabled()) steps.weights().scaler().load_state_dict(shared("scaler"));
  if (ema == nullptr) return true;
  const StateDict average = shared("ema");
  if (!average.empty()) ema->load_state_dict(average);
  return !average.empty();
}

}  // namespace lockstep::train
