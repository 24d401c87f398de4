// SPDX-License-Identifier: Apache-2.0
// Keeps the checkpoint files that verification has read.
#pragma once

#include <map>
#include <string>

#include "checkpoint/formats/read_file.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep::checkpoint {

struct KeptFiles {
  std::map<std::string, FileBytes> files;  ///< content by file name
};

/// Does the same as verify_checkpoint(), and keeps the files that it reads. Throws: anything verify_checkpoint()
/// throws.
[[nodiscard]] VerifyReport verify_and_keep(FileSystem& files, const std::filesystem::path& step_folder,
                                           KeptFiles* kept);

}  // namespace lockstep::checkpoint
