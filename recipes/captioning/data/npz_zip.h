// SPDX-License-Identifier: Apache-2.0
// One member of a zip file, such as an array of an .npz: foreign bytes, so that nothing is believed before it was
// compared with the file's size. checkpoint's reader is private to .pth files; this one needs less. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::captioning {

/// Bytes of a member: within the file where it is stored as it is, else unpacked into `own`.
struct ZipContent {
  std::string own;
  std::string_view stored;
  bool deflated = false;

  [[nodiscard]] std::string_view bytes() const noexcept { return deflated ? std::string_view(own) : stored; }
};

/// The member `name` of a zip file, stored or deflated, compared with its CRC-32. Fails with the reason: the file is
/// damaged, has no such member (it names those that there are), or unpacks to more than `most` bytes.
/// Lifetime: as `file`. Cost: memory grows with what is really unpacked, never with what a header says.
[[nodiscard]] Result<ZipContent> read_zip_member(std::string_view file, std::string_view name, std::uint64_t most);

}  // namespace lockstep::captioning
