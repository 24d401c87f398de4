// SPDX-License-Identifier: Apache-2.0
// Pickles and zip files made by hand, such as no honest program writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/formats/little_endian.h"
#include "checkpoint/torch/zip_write.h"

namespace lockstep::test {

/// A file whose content is stored in a string.
class StringFile final : public WritableFile {
 public:
  explicit StringFile(std::string& content) : content_(content) {}
  void append(const void* data, std::size_t size) override { content_.append(static_cast<const char*>(data), size); }
  void sync() override {}

 private:
  std::string& content_;
};

using Members = std::vector<std::pair<std::string, std::string>>;

inline std::string zip_of(const Members& members, std::uint64_t wide_from = 0xFFFFFFFF) {
  std::string content;
  checkpoint::ZipWriter zip(std::make_unique<StringFile>(content), wide_from);
  for (const auto& [name, bytes] : members) zip.add(name, bytes);
  zip.finish();
  return content;
}

inline std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text;
  checkpoint::append_little_endian(text, value, bytes);
  return text;
}

inline std::string pickled_text(std::string_view text) {
  return "X" + little_endian(text.size(), 4) + std::string(text);
}
inline std::string pickled_integer(std::int64_t value) {
  return "\x8a\x08" + little_endian(static_cast<std::uint64_t>(value), 8);
}
inline std::string pickled_name(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string pickle_of(const std::string& body) { return "\x80\x02" + body + "."; }

/// The fields of a pickled tensor, which may be nonsense.
struct PickledTensor {
  std::string storage_class = "FloatStorage";
  std::string key = "0";
  std::int64_t elements = 6;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
  std::string metadata = {};  ///< the bytes of one more argument, or none
};

inline std::string pickled_counts(const std::vector<std::int64_t>& counts) {
  std::string bytes = "(";
  for (const std::int64_t count : counts) bytes += pickled_integer(count);
  return bytes + "t";
}

inline std::string pickled_tensor(const PickledTensor& tensor) {
  return pickled_name("torch._utils", "_rebuild_tensor_v2") + "((" + pickled_text("storage") +
         pickled_name("torch", tensor.storage_class) + pickled_text(tensor.key) + pickled_text("cpu") +
         pickled_integer(tensor.elements) + "tQ" + pickled_integer(tensor.offset) + pickled_counts(tensor.sizes) +
         pickled_counts(tensor.strides) + "\x89" + pickled_name("collections", "OrderedDict") + ")R" + tensor.metadata +
         "tR";
}

}  // namespace lockstep::test
