// SPDX-License-Identifier: Apache-2.0
// Writes zip files as torch.save does: members are not compressed and begin at multiples of 64 bytes, so readers can
// use them in place. It does not use libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/torch/zip_parse.h"
#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

class ZipWriter {
 public:
  /// Sizes and offsets of `wide_from` or more take 64 bits. The default is the format's bound; tests use a smaller one.
  explicit ZipWriter(std::unique_ptr<WritableFile> file, std::uint64_t wide_from = 0xFFFFFFFF);

  /// Adds a member. Throws: IoError.
  void add(const std::string& name, std::string_view bytes);
  /// Writes the directory, and syncs the file to the disk. Throws: IoError.
  void finish();

 private:
  void write(std::string_view bytes);
  [[nodiscard]] bool is_wide(std::uint64_t number) const { return number >= wide_from_; }
  [[nodiscard]] std::string entry_of(const ZipMember& member) const;

  std::unique_ptr<WritableFile> file_;
  std::uint64_t wide_from_;
  std::uint64_t at_ = 0;
  std::vector<ZipMember> members_;
};

}  // namespace lockstep::checkpoint
