// SPDX-License-Identifier: Apache-2.0
// CIDEr and CIDEr-D: the similarity of a caption to several annotators' captions, with n-grams weighted by how rare
// they are among the images. Fast enough to reward thousands of samples in each training step. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "captioning/metrics/ngram.h"

namespace lockstep::captioning {

/// For each n-gram of 1 to 4 ids, the number of images with a reference that contains it. Thread-safe: yes, immutable.
class DocumentFrequencies {
 public:
  /// Throws: UsageError if there are no images, or an id is not within 0 .. kLargestId.
  [[nodiscard]] static DocumentFrequencies of(const std::vector<std::vector<Ids>>& references_by_image);
  /// Reads a file written by save(). Throws: DataError naming the file if it is missing, damaged or a different kind of
  /// file; IoError.
  [[nodiscard]] static DocumentFrequencies from_file(const std::filesystem::path& path);
  /// Replaces the file atomically. Little-endian: "LSCIDF01", bytes per id (u64: 2 or 4), images (u64), n-grams (u64),
  /// source() (u64), NgramTable::bytes(), and a 64-bit FNV-1a hash of everything before it. Throws: IoError.
  void save(const std::filesystem::path& path) const;

  /// Returns the FNV-1a hash of the references whose n-grams were counted, including their ids and order.
  [[nodiscard]] std::uint64_t source() const noexcept { return source_; }
  [[nodiscard]] static std::uint64_t source_of(const std::vector<std::vector<Ids>>& references_by_image);

  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] const NgramTable& table() const noexcept { return table_; }

 private:
  DocumentFrequencies(std::int64_t images, std::uint64_t source, NgramTable table)
      : images_(images), source_(source), table_(std::move(table)) {}

  std::int64_t images_;
  std::uint64_t source_;
  NgramTable table_;
};

struct CiderOptions {
  double sigma = 6;    ///< width of the length penalty, in words
  double scale = 10;   ///< score of a caption that equals its only reference
  bool plain = false;  ///< compute plain CIDEr, without clipping repeated n-grams and without the length penalty
};

/// Scores captions against references. A caption's vector of order n has, for each n-gram, its count times ln(images /
/// images with the n-gram). The score is the cosine of caption and reference, with counts clipped to the reference's,
/// times exp(-(difference of lengths)^2 / (2 sigma^2)), averaged over n = 1 .. 4 and all references, times scale.
/// Thread-safe: all const methods. Source: Vedantam et al., CIDEr, 2015. The CIDEr of COCO's server is CIDEr-D with the
/// document frequencies of the references themselves, over words without the end mark.
class CiderD {
 public:
  struct Prepared;
  /// One image's references as vectors, for any CiderD with the same frequencies; cheap to copy.
  using Reference = std::shared_ptr<const Prepared>;

  /// Throws: UsageError if there are no frequencies or an option is not positive.
  explicit CiderD(std::shared_ptr<const DocumentFrequencies> frequencies, const CiderOptions& options = {});

  /// Throws: UsageError if there are no references, an id is not within 0 .. kLargestId, or they have more than 65,000
  /// words.
  [[nodiscard]] Reference prepare(const std::vector<Ids>& references) const;

  /// Throws: UsageError if an id is not within 0 .. kLargestId, or caption and references have more than 65,000 words.
  [[nodiscard]] double score(const std::int64_t* ids, std::int64_t count, const Reference& reference) const;
  [[nodiscard]] double score(const Ids& hypothesis, const Reference& reference) const {
    return score(hypothesis.data(), static_cast<std::int64_t>(hypothesis.size()), reference);
  }

 private:
  [[nodiscard]] double weight(std::uint32_t frequency) const noexcept;
  [[nodiscard]] double penalty(std::int64_t difference) const noexcept;

  std::shared_ptr<const DocumentFrequencies> frequencies_;
  CiderOptions options_;
  std::vector<double> weights_;    // by document frequency
  std::vector<double> penalties_;  // by difference of lengths
};

}  // namespace lockstep::captioning
