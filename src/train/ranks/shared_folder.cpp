// SPDX-License-Identifier: Apache-2.0
#include "train/ranks/shared_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/objects.h"
#include "lockstep/store/store.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// A file with unique content. It is named like a temporary file, so that it is cleaned up later if this process dies.
class Probe {
 public:
  explicit Probe(const fs::path& folder)
      : path_(folder / fmt::format(".tmp-probe-{}", ::getpid())), content_(make_token()) {
    FileSystem::system().make_folder(folder);
    FileSystem::system().create(path_)->append(content_.data(), content_.size());
  }
  ~Probe() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  [[nodiscard]] std::string path() const { return fs::absolute(path_).string(); }
  [[nodiscard]] const std::string& content() const { return content_; }

 private:
  fs::path path_;
  std::string content_;
};

bool sees(const fs::path& path, const std::string& content) {
  try {
    return FileSystem::system().read(path, content.size()) == content;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void require_shared_folder(const Job& job, const fs::path& folder) {
  if (job.world_size() == 1) return;
  std::optional<Probe> probe;
  nlohmann::json answer;
  if (job.is_main()) {
    try {
      probe.emplace(folder);
      answer = {{"path", probe->path()}, {"content", probe->content()}};
    } catch (const IoError& error) {
      answer = {{"problem", error.message()}};
    }
  }
  answer = broadcast_object(job.group(), answer, 0);
  if (answer.contains("problem")) {
    throw IoError(answer["problem"].get<std::string>(), "make sure that the run folder is writable");
  }
  const nlohmann::json own = {{"host", job.host()},
                              {"sees", sees(answer["path"].get<std::string>(), answer["content"])}};
  std::vector<std::string> blind;
  int rank = 0;
  for (const nlohmann::json& other : all_gather_object(job.group(), own)) {
    if (!other["sees"].get<bool>())
      blind.push_back(fmt::format("rank {} on {}", rank, other["host"].get<std::string>()));
    ++rank;
  }
  if (blind.empty()) return;
  throw UsageError(fmt::format("checkpoint.sharded is set, but files that rank 0 writes to {} are not visible to {}",
                               fs::path(answer["path"].get<std::string>()).parent_path().string(), text::join(blind)),
                   fmt::format("use a {} on a disk that all hosts share, or {}", option_words("run-dir"),
                               setting_words("checkpoint.sharded=false")));
}

}  // namespace lockstep::train
