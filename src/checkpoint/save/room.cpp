// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/room.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include "lockstep/base/text.h"

namespace lockstep::checkpoint {

Need need_of(const Content& content) {
  Need need{.bytes = 0,
            .entries = content.parts.size() + content.texts.size() + 2};  // the manifest, and the folder of all
  for (const auto& [name, part] : content.parts) {
    for (const auto& [key, value] : part.entries) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor != nullptr && tensor->defined()) need.bytes += tensor->nbytes();
    }
  }
  for (const auto& [file, text] : content.texts) need.bytes += text.size();
  return need;
}

std::string missing_room(const std::filesystem::path& folder, const Need& need) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return "";
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free < need.bytes) {
    return fmt::format(" (it needs {}, {} are free)", text::bytes(need.bytes), text::bytes(free));
  }
  // Some file systems have no such limit, and report 0 of 0.
  if (disk.f_files == 0 || disk.f_favail >= need.entries) return "";
  return fmt::format(" (it needs {} files and folders, the disk takes {} more)", need.entries, disk.f_favail);
}

}  // namespace lockstep::checkpoint
