// SPDX-License-Identifier: Apache-2.0
// Tar's headers: ustar, pax and GNU long names, as untrusted input. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::data {

inline constexpr std::uint64_t kTarBlock = 512;                       // bytes
inline constexpr std::uint64_t kMaxTarText = std::uint64_t{1} << 20;  // bytes of a long name or of pax records
inline constexpr std::uint64_t kMaxTarFile = std::uint64_t{1} << 30;  // bytes of one file in a shard

/// Returns the size of the content, rounded up to whole blocks.
[[nodiscard]] constexpr std::uint64_t tar_padded(std::uint64_t size) noexcept {
  return (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}

/// Reads header blocks one after another, and keeps a long name until the header of its file.
class TarScanner {
 public:
  enum class What {
    kFile,  ///< `size` bytes of a file follow
    kSkip,  ///< `size` bytes to skip follow
    kText,  ///< `size` bytes follow, to be passed to text()
    kEnd,
  };
  struct Step {
    What what = What::kEnd;
    std::uint64_t size = 0;
    std::string name = {};
  };

  /// Reads one header; `block` has kTarBlock bytes.
  [[nodiscard]] Result<Step> block(std::string_view block);
  [[nodiscard]] Result<bool> text(std::string_view content);

 private:
  char text_type_ = 0;
  std::string long_name_;
  std::int64_t long_size_ = -1;
};

/// A file in a shard. `extension` is the part after the first dot of its base name, in lower case.
struct TarPart {
  std::string extension;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct TarSample {
  std::string key;  ///< name up to the first dot of the base name
  std::vector<TarPart> parts;
};

/// A file name, split as WebDataset does.
struct TarName {
  std::string key;
  std::string extension;  ///< empty if the file belongs to no sample
};
[[nodiscard]] TarName split_tar_name(const std::string& name);

/// The file in which TarWriter stores the class names; WebDataset ignores file names in double underscores.
inline constexpr std::string_view kTarClassNames = "__classes__";
/// Returns the class names in that file's content, one per line.
[[nodiscard]] std::vector<std::string> tar_class_names(std::string_view content);

struct TarIndex {
  std::vector<TarSample> samples;
  std::vector<std::string> classes;
};

/// Reads a whole shard's headers. A Failure names the byte offset.
[[nodiscard]] Result<TarIndex> parse_tar(std::string_view file);

/// Returns a tar entry: header, content and padding.
[[nodiscard]] std::string tar_member(const std::string& name, std::string_view content);

}  // namespace lockstep::data
