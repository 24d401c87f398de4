// SPDX-License-Identifier: Apache-2.0
// A file read by two threads: the bytes, their hash and its failures are those of one that reads from front to back.
#include "checkpoint/formats/shared_read.h"

#include <gtest/gtest.h>

#include "checkpoint/formats/hash.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace shared_read_test {

std::string content(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 1000);
  return text;
}

/// A file in memory, one of whose bytes may not be read.
class MemoryFile final : public ReadableFile {
 public:
  explicit MemoryFile(std::string text, std::uint64_t bad = ~std::uint64_t{0}) : text_(std::move(text)), bad_(bad) {}
  [[nodiscard]] std::uint64_t size() const override { return text_.size(); }
  void read(std::uint64_t offset, void* data, std::size_t size) override {
    if (bad_ >= offset && bad_ < offset + size) throw IoError("a bad sector");
    text_.copy(static_cast<char*>(data), size, offset);
  }

 private:
  std::string text_;
  std::uint64_t bad_;
};

TEST(SharedRead, HasTheBytesAndTheHashOfTheFile) {
  for (const std::size_t size : {1UL, 1UL << 20U, (1UL << 20U) + 1, 20UL << 20U, (37UL << 20U) + 12345}) {
    SCOPED_TRACE(size);
    const std::string text = content(size);
    MemoryFile file(text);
    const checkpoint::FileBytes bytes = checkpoint::allocate_bytes(size);
    EXPECT_EQ(checkpoint::read_with_two_threads(file, bytes), checkpoint::digest_of(text));
    EXPECT_EQ(bytes.view(), text);
  }
}

TEST(SharedRead, ThrowsWhatReadingThrowsWhereverItIs) {
  const std::string text = content(24U << 20U);
  for (const std::uint64_t bad : {0ULL, 5ULL << 20U, 12ULL << 20U, 20ULL << 20U, (24ULL << 20U) - 1}) {
    SCOPED_TRACE(bad);
    MemoryFile file(text, bad);
    const checkpoint::FileBytes bytes = checkpoint::allocate_bytes(text.size());
    EXPECT_THROW((void)checkpoint::read_with_two_threads(file, bytes), IoError);
  }
}

}  // namespace shared_read_test
}  // namespace lockstep
