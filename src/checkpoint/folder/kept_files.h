// SPDX-License-Identifier: Apache-2.0
// Files of a checkpoint that were read during the verification.
#pragma once

#include <map>
#include <string>

#include "checkpoint/formats/read_file.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep::checkpoint {

struct KeptFiles {
  std::map<std::string, FileBytes> files;  ///< by name
};

/// Does the same as verify_checkpoint(), and keeps the files that it reads. Throws: as verify_checkpoint().
[[nodiscard]] VerifyReport verify_and_keep(FileSystem& files, const std::filesystem::path& step_folder,
                                           KeptFiles* kept);

}  // namespace lockstep::checkpoint
