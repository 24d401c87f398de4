// SPDX-License-Identifier: Apache-2.0
// Local shards, with an index of the samples of all shards.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "data/shard_classes.h"
#include "data/sources/archives/tar_marks_json.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/files/mapped_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/sources/tar_shards.h"

namespace lockstep {
namespace data {
namespace {

const TarPart* picture_of_sample(const TarSample& sample) {
  for (const TarPart& part : sample.parts) {
    if (is_tar_picture(part.extension)) return &part;
  }
  return nullptr;
}

}  // namespace

class TarSet {
 public:
  TarSet(const std::vector<std::string>& shards, const TarOptions& options) {
    for (const std::string& shard : shards) add(shard, options);
    if (places_.empty()) throw DataError(fmt::format("no image in {} tar shards", shards.size()));
    if (left_out_ > 0) log::note("{} samples without a PNG or JPEG skipped in {} tar shards", left_out_, shards.size());
  }

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(places_); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return named_.classes(); }

  [[nodiscard]] AnnotatedImage get(std::int64_t index) const {
    const auto& [shard_index, sample_index] = places_[static_cast<std::size_t>(index)];
    const Shard& shard = shards_[shard_index];
    const TarSample& sample = shard.samples[sample_index];
    if (!shard.file->whole()) throw DataError(fmt::format("{} was truncated while it was in use", shard.name()));
    AnnotatedImage picture;
    picture.id = index;
    picture.name = fmt::format("{}/{}", shard.name(), sample.key);
    std::vector<TarContent> contents;
    for (const TarPart& part : sample.parts) {
      const std::string_view bytes = shard.file->bytes().substr(part.offset, part.size);
      shard.file->will_need(part.offset, part.size);
      if (&part == picture_of_sample(sample)) {
        picture.pixels = EncodedImage{shard.file, bytes, fmt::format("{}.{}", picture.name, part.extension)};
      } else {
        contents.push_back({part.extension, bytes});
      }
    }
    if (const Result<bool> good = read_tar_marks(contents, picture); !good) {
      throw DataError(fmt::format("cannot read sample '{}' of {} at byte {}: {}", sample.key, shard.name(),
                                  sample.parts.front().offset, good.error()));
    }
    return picture;
  }

 private:
  struct Shard {
    std::shared_ptr<const MappedFile> file;
    std::vector<TarSample> samples;
    [[nodiscard]] std::string name() const { return file->path().string(); }
  };

  void add(const std::string& path, const TarOptions& options) {
    auto file = std::make_shared<const MappedFile>(path);
    Result<TarIndex> index = parse_tar(file->bytes());
    if (!index) throw DataError(fmt::format("cannot read the shard {}: {}", path, index.error()));
    named_.add(std::move(index->classes), path);
    for (std::size_t i = 0; i < index->samples.size(); ++i) {
      if (picture_of_sample(index->samples[i]) != nullptr) {
        places_.emplace_back(shards_.size(), i);
        continue;
      }
      if (options.strict) {
        throw DataError(fmt::format("sample '{}' of the shard {} has no PNG or JPEG", index->samples[i].key, path),
                        "set strict to false to skip such samples");
      }
      ++left_out_;
    }
    shards_.push_back({std::move(file), std::move(index->samples)});
  }

  std::vector<Shard> shards_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  ShardClasses named_;
  std::int64_t left_out_ = 0;
};

}  // namespace data

namespace {

constexpr std::size_t kMaxShards = 1'000'000;

UsageError bad_brace(const std::string& pattern, const std::string& why) {
  return UsageError(fmt::format("the pattern '{}' {}", pattern, why),
                    "use a pattern such as train-{000000..000012}.tar");
}

// Returns the numbers of a range such as "000..012"; if either end has leading zeros, all get the width of the longer
// end. Returns none if it is not a range.
std::optional<std::vector<std::string>> range_of(const std::string& inside) {
  const std::size_t dots = inside.find("..");
  if (dots == std::string::npos) return std::nullopt;
  std::size_t ends[2] = {};
  const std::string texts[2] = {inside.substr(0, dots), inside.substr(dots + 2)};
  for (int i = 0; i < 2; ++i) {
    const char* last = texts[i].data() + texts[i].size();
    const auto read = std::from_chars(texts[i].data(), last, ends[i]);
    if (read.ec != std::errc() || read.ptr != last) return std::nullopt;
  }
  if (ends[0] > ends[1] || ends[1] - ends[0] >= kMaxShards) return std::nullopt;
  const std::size_t width =
      texts[0].starts_with('0') || texts[1].starts_with('0') ? std::max(texts[0].size(), texts[1].size()) : 0;
  std::vector<std::string> all;
  for (std::size_t number = ends[0]; number <= ends[1]; ++number) all.push_back(fmt::format("{:0{}}", number, width));
  return all;
}

std::vector<std::string> choices_of(const std::string& pattern, const std::string& inside) {
  if (auto range = range_of(inside)) return *std::move(range);
  if (inside.find("..") != std::string::npos || inside.find(',') == std::string::npos) {
    throw bad_brace(pattern, fmt::format("has '{{{}}}', which is neither a range nor a list", inside));
  }
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', at), inside.size());
    all.push_back(inside.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> all = {""};
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t open = std::min(pattern.find('{', at), pattern.size());
    for (std::string& text : all) text.append(pattern, at, open - at);
    if (open == pattern.size()) break;
    const std::size_t close = pattern.find('}', open);
    if (close == std::string::npos) throw bad_brace(pattern, "has a brace that is never closed");
    const std::vector<std::string> choices = choices_of(pattern, pattern.substr(open + 1, close - open - 1));
    if (choices.size() * all.size() > kMaxShards) throw bad_brace(pattern, "names more than a million shards");
    std::vector<std::string> longer;
    for (const std::string& text : all) {
      for (const std::string& choice : choices) longer.push_back(text + choice);
    }
    all = std::move(longer);
    at = close + 1;
  }
  return all;
}

namespace {

std::vector<std::string> local_shards(const std::string& pattern) {
  if (pattern.starts_with("pipe:")) {
    throw UsageError(fmt::format("'{}' is a command: its samples can only be read in order", pattern),
                     "read it with TarStream and allow_commands = true");
  }
  return expand_braces(pattern);
}

}  // namespace

TarShards::TarShards(const std::vector<std::string>& shards, const TarOptions& options)
    : set_(std::make_shared<data::TarSet>(shards, options)) {}
TarShards::TarShards(const std::string& pattern, const TarOptions& options)
    : TarShards(local_shards(pattern), options) {}

std::int64_t TarShards::size() const { return set_->size(); }
AnnotatedImage TarShards::get(std::int64_t index) const { return set_->get(index); }
const std::vector<std::string>& TarShards::class_names() const { return set_->classes(); }

}  // namespace lockstep
