// SPDX-License-Identifier: Apache-2.0
// The commit protocol of one process: write everything into a temporary folder, make it durable, then rename it.
#include <memory>
#include <utility>

#include "checkpoint/save/attempt.h"
#include "checkpoint/save/finite_check.h"
#include "lockstep/base/log.h"
#include "lockstep/base/trace.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/tensor/sharing.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// Makes one attempt to commit. Throws: the error that prevented the save, after the written files were removed.
fs::path commit_once(FileSystem& files, const SaveTarget& target, const Content& content, bool& placed) {
  const std::unique_ptr<Staging> staging = open_staging(files, target, content);
  const auto digests = write_content(files, staging->path(), content, {});
  if (content.check) content.check();  // called after the files are written, and again before the rename
  if (content.check) content.check();
  return place_content(*staging, target.meta, 1, digests, placed);
}

}  // namespace

fs::path checkpoint::commit_alone(FileSystem& files, const SaveTarget& target, const Content& content) {
  bool placed = false;
  for (int attempt = 1;; ++attempt) {
    try {
      require_finite(content);
      return commit_once(files, target, content, placed);
    } catch (const SyncError& error) {
      if (attempt == kAttempts) {
        const FailureRecord why = not_saved(record_of(error), target, content);
        throw SyncError(why.message, why.hint);
      }
      log::warn("{}: writing the whole checkpoint again, to new files", error.message());
    } catch (const NotFiniteError& error) {
      const FailureRecord why = refused(files, record_of(error), target);
      throw NotFiniteError(why.message, why.hint);
    } catch (const IoError& error) {
      rethrow(not_saved(record_of(error), target, content));
    }
  }
}

fs::path commit_checkpoint(FileSystem& files, const fs::path& folder, const CheckpointMeta& meta,
                           const CheckpointStates& states, const CheckpointTexts& texts) {
  const trace::Span span({.name = "save"});
  tensor::warn_of_separate_training();
  std::map<std::string, StatePart> parts;
  for (const auto& [name, state] : states) parts[name].entries = state;
  return commit_alone(files, {folder, meta}, {std::move(parts), texts});
}

}  // namespace lockstep
