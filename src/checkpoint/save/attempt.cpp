// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/attempt.h"

#include <fmt/format.h>

#include "checkpoint/folder/folder.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/platform.h"
#include "checkpoint/save/room.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::checkpoint {

namespace fs = std::filesystem;

namespace {

void check_names(const std::map<std::string, StatePart>& parts, const CheckpointTexts& texts) {
  for (const auto& [name, part] : parts) {
    if (!is_plain_word(name)) {
      throw UsageError(fmt::format("'{}' is no name for a state of a checkpoint", name),
                       "use letters, digits, '_' and '-'");
    }
  }
  for (const auto& [file, text] : texts) {
    if (is_plain_file_name(file) && file != kManifestName && !file.ends_with(kStateSuffix)) continue;
    throw UsageError(fmt::format("'{}' is no name for a text of a checkpoint", file),
                     fmt::format("use letters, digits, '_', '-' and '.', not in front; {} and *{} are taken",
                                 kManifestName, kStateSuffix));
  }
}

}  // namespace

std::unique_ptr<Staging> open_staging(FileSystem& files, const SaveTarget& target, const Content& content) {
  if (target.meta.step < 0) throw UsageError(fmt::format("a checkpoint of step {}", target.meta.step));
  check_names(content.parts, content.texts);
  make_folder_durably(files, target.folder);
  remove_checkpoint_leftovers(files, target.folder);
  return std::make_unique<Staging>(files, target.folder, target.meta.step);
}

fs::path place_content(Staging& staging, const CheckpointMeta& meta, int world_size,
                       const std::map<std::string, FileDigest>& digests, bool& placed) {
  const std::int64_t format = world_size == 1 ? kFormatVersion : kShardedFormatVersion;
  return staging.place({format, meta, tensor::libtorch_version(), instruction_set(), blas_kernels(), digests}, placed);
}

FailureRecord not_saved(const FailureRecord& why, const SaveTarget& target, const Content& content) {
  if (why.type != "IoError") return why;
  FailureRecord failure = why;
  failure.message = fmt::format("the checkpoint of step {} is not saved: {}{}", target.meta.step, why.message,
                                missing_room(target.folder, need_of(content)));
  failure.hint = fmt::format("{}; --resume auto goes on from the checkpoint before it",
                             why.hint.empty() ? "see that this folder can be written" : why.hint);
  return failure;
}

FailureRecord refused(FileSystem& files, const FailureRecord& why, const SaveTarget& target) {
  const auto good = find_newest_finite(files, target.folder, target.meta.step);
  FailureRecord failure = why;
  failure.message = fmt::format("the checkpoint of step {} is not saved: {}", target.meta.step, why.message);
  failure.hint = fmt::format(
      "{}; look at the loss: a division by zero, a logarithm or root of 0; check_gradients=true names the step and the "
      "parameter",
      good ? fmt::format("the last good one is {}, and --resume auto goes on from it", good->string())
           : "there is no good one before it");
  return failure;
}

}  // namespace lockstep::checkpoint
