// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file_system.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/data/png_writer.h"

namespace lockstep {

void write_png(const Image& image, const std::filesystem::path& path) {
  write_file_atomically(FileSystem::system(), path, encode_png(view_of(image)));
}

}  // namespace lockstep
