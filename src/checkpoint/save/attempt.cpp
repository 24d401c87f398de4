// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/attempt.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/folder/folder.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/save/staging.h"
#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/inspect.h"
#include "lockstep/checkpoint/platform.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::checkpoint {
namespace {

// The disk space for a checkpoint. Used only in error messages, never for a decision.

struct Need {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;  ///< files and folders
};

/// Returns the space that the content needs, not counting headers of a few kB.
Need need_of(const Content& content) {
  Need need{.bytes = 0,
            .entries = content.parts.size() + content.texts.size() + 2};  // the manifest, and the folder itself
  for (const auto& [name, part] : content.parts) {
    for (const auto& [key, value] : part.entries) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor != nullptr && tensor->defined()) need.bytes += tensor->nbytes();
    }
  }
  for (const auto& [file, text] : content.texts) need.bytes += text.size();
  return need;
}

/// Returns " (the checkpoint needs 10.4 MB, 5.2 MB are free)"; "" if the disk has enough space or does not report it.
std::string missing_room(const std::filesystem::path& folder, const Need& need) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return "";
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free < need.bytes) {
    return fmt::format(" (the checkpoint needs {}, {} are free)", text::bytes(need.bytes), text::bytes(free));
  }
  // Some file systems have no limit on the number of files and report 0 of 0.
  if (disk.f_files == 0 || disk.f_favail >= need.entries) return "";
  return fmt::format(" (the checkpoint needs {} files and folders, the disk has room for {} more)", need.entries,
                     disk.f_favail);
}

}  // namespace

namespace fs = std::filesystem;

namespace {

void check_names(const std::map<std::string, StatePart>& parts, const CheckpointTexts& texts) {
  for (const auto& [name, part] : parts) {
    if (!is_plain_word(name)) {
      throw UsageError(fmt::format("'{}' is not a valid name for a state of a checkpoint", name),
                       "use letters, digits, '_' and '-'");
    }
  }
  for (const auto& [file, text] : texts) {
    if (is_plain_file_name(file) && file != kManifestName && !file.ends_with(kStateSuffix)) continue;
    throw UsageError(
        fmt::format("'{}' is not a valid name for a text of a checkpoint", file),
        fmt::format("use letters, digits, '_', '-' and '.' (not as the first character); {} and *{} are reserved",
                    kManifestName, kStateSuffix));
  }
}

}  // namespace

std::unique_ptr<Staging> open_staging(FileSystem& files, const SaveTarget& target, const Content& content) {
  if (target.meta.step < 0) throw UsageError(fmt::format("a checkpoint cannot have step {}", target.meta.step));
  check_names(content.parts, content.texts);
  // Needed only for the first save: after that the folder's own name is durable.
  if (!has_step_folders(files, target.folder)) make_folder_durably(files, target.folder);
  remove_leftovers_of_host(files, target.folder);
  return std::make_unique<Staging>(files, target.folder, target.meta.step);
}

fs::path place_content(Staging& staging, const CheckpointMeta& meta, int world_size,
                       const std::map<std::string, FileDigest>& digests, bool& placed) {
  const std::int64_t format = world_size == 1 ? kFormatVersion : kShardedFormatVersion;
  return staging.place({.format_version = format,
                        .meta = meta,
                        .libtorch = tensor::libtorch_version(),
                        .instruction_set = instruction_set(),
                        .blas = blas_kernels(),
                        .kernel_variables = kernel_variables(),
                        .files = digests},
                       placed);
}

FailureRecord not_saved(const FailureRecord& why, const SaveTarget& target, const Content& content) {
  if (why.type != "IoError") return why;
  FailureRecord failure = why;
  failure.message = fmt::format("the checkpoint of step {} is not saved: {}{}", target.meta.step, why.message,
                                missing_room(target.folder, need_of(content)));
  failure.hint = fmt::format("{}; {} continues from the checkpoint before it",
                             why.hint.empty() ? "make sure that this folder is writable" : why.hint,
                             option_words("resume", "auto"));
  return failure;
}

FailureRecord refused(FileSystem& files, const FailureRecord& why, const SaveTarget& target) {
  const auto good = find_newest_finite(files, target.folder, target.meta.step);
  FailureRecord failure = why;
  failure.message = fmt::format("the checkpoint of step {} is not saved: {}", target.meta.step, why.message);
  failure.hint = fmt::format(
      "{}; check the loss for a division by zero, a logarithm or root of 0; check_gradients=true names the step and "
      "the parameter",
      good ? fmt::format("the last good one is {}, and {} continues from it", good->string(),
                         option_words("resume", "auto"))
           : "there is no good one before it");
  return failure;
}

}  // namespace lockstep::checkpoint
