// SPDX-License-Identifier: Apache-2.0
// A new folder that the destructor removes.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "lockstep/base/resources.h"

namespace lockstep::apps {

class TemporaryFolder {
 public:
  /// `name`: the start of the folder's name; if it is a path, the folder is created next to that path. Otherwise it is
  /// in TMPDIR, or in /tmp if that folder does not exist. Throws: IoError.
  explicit TemporaryFolder(const std::string& name) : path_((parent() / (name + "-XXXXXX")).string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw_cannot("create the folder " + path_, errno);
  }
  ~TemporaryFolder() {
    std::error_code problem;
    std::filesystem::remove_all(path_, problem);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static std::filesystem::path parent() {
    std::error_code problem;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(problem);
    return problem ? "/tmp" : folder;
  }

  std::string path_;
};

}  // namespace lockstep::apps
