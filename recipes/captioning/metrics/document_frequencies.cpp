// SPDX-License-Identifier: Apache-2.0
// Counts the images that each n-gram occurs in, and reads and writes the file with these counts.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "captioning/metrics/cider.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "LSCIDF01";
constexpr std::size_t kHeader = 40;  // bytes

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t value = 14695981039346656037ULL) {
  for (const char byte : bytes) value = (value ^ static_cast<std::uint8_t>(byte)) * 1099511628211ULL;
  return value;
}

void append_u64(std::string& bytes, std::uint64_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::uint64_t u64_at(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::int64_t largest_id(const std::vector<std::vector<Ids>>& references_by_image) {
  std::int64_t largest = 0;
  for (const auto& references : references_by_image) {
    for (const Ids& ids : references) {
      check_ids(ids.data(), static_cast<std::int64_t>(ids.size()));
      for (const std::int64_t id : ids) largest = std::max(largest, id);
    }
  }
  return largest;
}

}  // namespace

std::uint64_t DocumentFrequencies::source_of(const std::vector<std::vector<Ids>>& references_by_image) {
  std::uint64_t value = fnv1a("");
  const auto add = [&](const std::int64_t* numbers, std::size_t count) {
    value = fnv1a({reinterpret_cast<const char*>(numbers), count * sizeof(*numbers)}, value);
  };
  for (const auto& references : references_by_image) {
    for (const Ids& ids : references) {
      const auto length = static_cast<std::int64_t>(ids.size());
      add(&length, 1);
      add(ids.data(), ids.size());
    }
    constexpr std::int64_t kImageEnds = -1;
    add(&kImageEnds, 1);
  }
  return value;
}

DocumentFrequencies DocumentFrequencies::of(const std::vector<std::vector<Ids>>& references_by_image) {
  if (references_by_image.empty()) throw UsageError("cannot count document frequencies without images");
  const bool wide = largest_id(references_by_image) > kLargestShortId;
  NgramTable table(wide);
  std::vector<NgramKey> keys;
  for (const auto& references : references_by_image) {
    keys.clear();
    for (const Ids& ids : references) {
      each_ngram(ids.data(), static_cast<std::int64_t>(ids.size()),
                 [&](int n, const std::int64_t* first) { (void)pack_ngram(first, n, wide, keys.emplace_back()); });
    }
    std::ranges::sort(keys);
    const auto rest = std::ranges::unique(keys);
    keys.erase(rest.begin(), rest.end());
    for (const NgramKey& key : keys) table.add(key);
  }
  return {static_cast<std::int64_t>(references_by_image.size()), source_of(references_by_image), std::move(table)};
}

void DocumentFrequencies::save(const fs::path& path) const {
  std::string bytes(kMagic);
  append_u64(bytes, table_.wide() ? 4 : 2);
  append_u64(bytes, static_cast<std::uint64_t>(images_));
  append_u64(bytes, static_cast<std::uint64_t>(table_.size()));
  append_u64(bytes, source_);
  bytes += table_.bytes();
  append_u64(bytes, fnv1a(bytes));
  write_file_atomically(FileSystem::system(), path, bytes);
}

constexpr std::uint64_t kMostBytes = 1U << 30U;  // COCO's file is 60 MB

DocumentFrequencies DocumentFrequencies::from_file(const fs::path& path) {
  const std::string bytes = FileSystem::system().read(path, kMostBytes);
  const auto fail = [&](const std::string& what) {
    return DataError(fmt::format("{}: {}", path.string(), what),
                     "without such a file, document frequencies are counted from the training captions");
  };
  const std::string_view view = bytes;
  if (!view.starts_with(kMagic)) throw fail("this is not a document frequency file");
  if (view.size() < kHeader + sizeof(std::uint64_t)) throw fail(fmt::format("it ends after {} bytes", view.size()));
  const std::size_t end = view.size() - sizeof(std::uint64_t);
  if (u64_at(view, end) != fnv1a(view.substr(0, end)))
    throw fail("it is truncated or was changed: its checksum is wrong");
  const std::uint64_t id_bytes = u64_at(view, 8);
  const std::uint64_t images = u64_at(view, 16);
  if (id_bytes != 2 && id_bytes != 4) throw fail(fmt::format("its ids have {} bytes; they must have 2 or 4", id_bytes));
  if (images < 1 || images > 0xFFFFFFFF)
    throw fail(fmt::format("its number of images is {}, which is out of range", images));
  try {
    NgramTable table =
        NgramTable::from_bytes(view.substr(kHeader, end - kHeader), id_bytes == 4, static_cast<std::uint32_t>(images));
    if (static_cast<std::uint64_t>(table.size()) != u64_at(view, 24)) {
      throw fail(fmt::format("it contains {} n-grams, but its header says {}", table.size(), u64_at(view, 24)));
    }
    return {static_cast<std::int64_t>(images), u64_at(view, 32), std::move(table)};
  } catch (const DataError& error) {
    if (!error.hint().empty()) throw;
    throw fail(error.message());
  }
}

}  // namespace lockstep::captioning
