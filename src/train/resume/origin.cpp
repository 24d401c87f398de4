// SPDX-License-Identifier: Apache-2.0
#include "train/resume/origin.h"

#include <fmt/format.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "train/resume/resume.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

fs::path path_in(const fs::path& note) {
  const nlohmann::json said = read_json_file(FileSystem::system(), note);
  const auto path = said.find("path");
  if (path != said.end() && path->is_string()) return path->get<std::string>();
  throw DataError(fmt::format("{} names no checkpoint", note.string()), "start a new run in a different folder");
}

/// Returns true if `run` has a checkpoint of the step of `origin` or of a later one.
bool has_reached(const fs::path& run, const fs::path& origin) {
  const auto newest = find_newest(FileSystem::system(), run / "checkpoints");
  return newest && newest->filename().string() >= origin.filename().string();
}

}  // namespace

std::optional<fs::path> unsaved_origin(const fs::path& run) {
  if (run.empty() || !FileSystem::system().exists(run / kResumedFromFile)) return std::nullopt;
  fs::path origin = path_in(run / kResumedFromFile);
  if (has_reached(run, origin)) return std::nullopt;
  if (FileSystem::system().exists(origin)) return origin;
  throw DataError(fmt::format("run {} started from the checkpoint {}, which is gone, and has not saved one yet",
                              run.string(), origin.string()),
                  "restore that checkpoint, or start a new run in a different folder");
}

void keep_origin(RunFolder& folder, const std::optional<Checkpoint>& start) {
  FileSystem& files = FileSystem::system();
  const fs::path note = folder.path() / kResumedFromFile;
  if (!start) {
    if (files.exists(note)) files.remove(note);
    return;
  }
  if (is_of_run(start->path(), folder.path())) return;
  folder.write(kResumedFromFile,
               fmt::format("{{\"path\": {}}}\n", text::json_quote(fs::canonical(start->path()).string())));
}

}  // namespace lockstep::train
