// SPDX-License-Identifier: Apache-2.0
// A file that is mapped into memory for reading. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::data {

class MappedFile {
 public:
  /// Throws: DataError if the file is missing; IoError.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::string_view bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Asks the kernel to read these bytes ahead.
  void will_need(std::size_t offset, std::size_t size) const noexcept;
  /// True if the same file, not another one of that name, still has as many bytes as when it was mapped. Reading past
  /// its end would kill the process.
  [[nodiscard]] bool whole() const noexcept;

 private:
  std::filesystem::path path_;
  std::uint64_t inode_ = 0;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep::data
