// SPDX-License-Identifier: Apache-2.0
// Named checkpoints: small files beside the step folders, each with the name of one folder and the hash of its
// manifest.
#include <fmt/format.h>

#include "checkpoint/folder/folder.h"
#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/manifest_json.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

void name_checkpoint(FileSystem& files, const fs::path& folder, const std::string& name, const fs::path& step_folder) {
  if (!is_plain_word(name)) {
    throw UsageError(fmt::format("'{}' is not a valid name for a checkpoint", name),
                     "use letters, digits, '_' and '-'");
  }
  const std::string step = step_folder.filename().string();
  if (const auto parsed = parse_step_name(step); !parsed || parsed->bad != 0) {
    throw UsageError(fmt::format("'{}' cannot name {}, which is not a step folder", name, step_folder.string()));
  }
  const std::string manifest = files.read(folder / step / kManifestName, kMaxManifestBytes);
  write_file_atomically(files, folder / name, fmt::format("{} {}\n", step, digest_of(manifest).xxh3_128));
}

std::vector<std::string> checkpoint_names(FileSystem& files, const fs::path& folder) {
  std::vector<std::string> names;
  for (const std::string& name : files.list(folder)) {
    if (is_plain_word(name)) names.push_back(name);
  }
  return names;
}

fs::path find_named_checkpoint(FileSystem& files, const fs::path& folder, const std::string& name) {
  const auto names = checkpoint_names(files, folder);
  if (!is_plain_word(name) || !files.exists(folder / name)) {
    throw DataError(
        fmt::format("{} has no checkpoint named '{}'{}", folder.string(), name, text::did_you_mean(name, names)),
        names.empty() ? "it has no named checkpoint; pass the run folder to use the newest one"
                      : "it has " + text::join(names));
  }
  auto found = follow_name(files, folder, name);
  if (!found) throw DataError(found.error(), "pass the run folder to use its newest valid checkpoint");
  return std::move(*found);
}

}  // namespace lockstep
