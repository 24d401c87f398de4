// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/staging.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "checkpoint/folder/folder.h"
#include "checkpoint/folder/remove_quietly.h"
#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/part_file.h"
#include "checkpoint/load/text_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep::checkpoint {

namespace fs = std::filesystem;

namespace {

FileDigest write_text_file(FileSystem& files, const fs::path& path, const std::string& text) {
  HashingFile file(files.create(path));
  file.append(text.data(), text.size());
  return file.finish();
}

fs::path free_bad_path(FileSystem& files, const fs::path& folder, std::int64_t step) {
  std::int64_t n = 1;
  while (files.exists(folder / bad_name(step, n))) ++n;
  return folder / bad_name(step, n);
}

/// A name that no other save uses. A pid is not enough: after a container restarts, a new process may have the pid of a
/// rank that is still writing an earlier save.
std::string new_name(std::int64_t step) { return fmt::format("{}-{:08x}", step_name(step), std::random_device{}()); }

/// Renames `target` to `aside` and `from` to `target`. If the second rename fails, undoes the first.
void exchange(FileSystem& files, const fs::path& from, const fs::path& target, const fs::path& aside) {
  files.rename(target, aside);
  try {
    files.rename(from, target);
  } catch (const Error&) {
    try {
      files.rename(aside, target);
    } catch (const Error& error) {
      log::warn("{} could not be restored and is still there as {}: {}", target.string(), aside.string(),
                error.message());
    }
    throw;
  }
}

/// Returns the reason why the existing folder does not have the content of `manifest`; "" if it does. An unreadable
/// folder counts as different.
std::string difference(FileSystem& files, const fs::path& target, const Manifest& manifest) {
  try {
    const VerifyReport report = verify_checkpoint(files, target);
    if (!report.ok()) return report.problem();
    return report.manifest == manifest ? "" : "its content differs";
  } catch (const IoError& error) {
    return error.message();
  }
}

}  // namespace

std::map<std::string, FileDigest> write_content(FileSystem& files, const fs::path& folder, const Content& content,
                                                const Share& share) {
  std::map<std::string, FileDigest> digests;
  for (const auto& [state, part] : content.parts) {
    const std::string file = state_file_name(state, share.rank + 1, share.world_size);
    digests[file] = write_part(files, folder / file, part);
  }
  if (share.rank != 0) return digests;  // a host may have other texts under the same names
  for (const auto& [file, text] : content.texts) {
    if (const std::string why = text_problem(file, text); !why.empty()) {
      throw UsageError(fmt::format("the text {} of a checkpoint could not be read back: {}", file, why),
                       "write content that fits the extension, or use another extension, such as .txt");
    }
    digests[file] = write_text_file(files, folder / file, text);
  }
  return digests;
}

Staging::Staging(FileSystem& files, const fs::path& folder, std::int64_t step)
    : files_(files), folder_(folder), path_(folder / own_temporary_name(new_name(step))) {
  files_.make_folder(path_);
}

Staging::~Staging() { remove_quietly(files_, path_); }

fs::path Staging::place(const Manifest& manifest, bool& placed) {
  if (const std::string why = manifest_problem(manifest); !why.empty()) {
    throw UsageError(fmt::format("a checkpoint with this manifest could not be read back: {}", why),
                     "pass the actual values of the run to commit_checkpoint()");
  }
  (void)write_text_file(files_, path_ / kManifestName, manifest_to_json(manifest));
  files_.sync_folder(path_);
  fs::path target = folder_ / step_name(manifest.meta.step);
  if (placed) {
    replace(target);
  } else {
    placed = take_the_name(target, manifest);
  }
  files_.sync_folder(folder_);
  return target;
}

/// Renames the folder to `target`. Returns false if a folder with the same content already has that name.
bool Staging::take_the_name(const fs::path& target, const Manifest& manifest) {
  if (!files_.exists(target)) {
    files_.rename(path_, target);
    return true;
  }
  const std::string why = difference(files_, target, manifest);
  if (why.empty()) return false;
  const fs::path aside = free_bad_path(files_, folder_, manifest.meta.step);
  exchange(files_, path_, target, aside);
  log::note("{} is written again; the earlier folder is kept as {} ({})", target.string(), aside.filename().string(),
            why);
  return true;
}

void Staging::replace(const fs::path& target) {
  const fs::path aside = folder_ / own_temporary_name(target.filename().string() + std::string(kOldSuffix));
  exchange(files_, path_, target, aside);
  files_.sync_folder(folder_);  // a power cut must not bring its name back once some of its files are gone
  remove_quietly(files_, aside);
}

}  // namespace lockstep::checkpoint
