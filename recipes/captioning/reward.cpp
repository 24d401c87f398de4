// SPDX-License-Identifier: Apache-2.0
#include "captioning/reward.h"

#include <ATen/ops/empty.h>

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

/// The number of words in a row, including the first 0 if the network chose it.
std::int64_t length_of(const std::int64_t* row, std::int64_t columns) {
  const auto* end = std::find(row, row + columns, 0);
  // The 0 in the last column is not the network's choice: there was no room left.
  return std::min<std::int64_t>(end - row + 1, columns - (end - row == columns - 1 ? 1 : 0));
}

}  // namespace

std::shared_ptr<const DocumentFrequencies> frequencies_of(const CaptionDataset& set,
                                                          const std::filesystem::path& cache) {
  std::vector<std::vector<Ids>> references;
  references.reserve(static_cast<std::size_t>(set.size()));
  for (std::int64_t i = 0; i < set.size(); ++i) references.push_back(set.captions(i).references);
  if (!cache.empty() && FileSystem::system().exists(cache)) {
    auto kept = std::make_shared<const DocumentFrequencies>(DocumentFrequencies::from_file(cache));
    if (kept->source() == DocumentFrequencies::source_of(references)) return kept;
    throw DataError(
        fmt::format("{} holds document frequencies of {} images with different captions or a different vocabulary",
                    cache.string(), text::thousands(kept->images())),
        "remove the file to have it recreated, or set another file");
  }
  auto counted = std::make_shared<const DocumentFrequencies>(DocumentFrequencies::of(references));
  // Several ranks may write the file at the same time: they write the same bytes, and each does so atomically.
  if (!cache.empty()) counted->save(cache);
  return counted;
}

at::Tensor Reward::operator()(const at::Tensor& words, const CaptionBatch& batch) const {
  const at::Tensor here = words.to(at::kCPU, at::kLong).contiguous();
  const auto images = static_cast<std::int64_t>(batch.images.size());
  const std::int64_t columns = here.size(1);
  if (images == 0 || here.size(0) % images != 0) throw InternalError("the captions belong to another batch");
  const std::int64_t samples = here.size(0) / images;
  at::Tensor rewards = at::empty({here.size(0)}, at::kFloat);
  auto* reward = rewards.data_ptr<float>();
  const auto* row = here.data_ptr<std::int64_t>();
  for (const auto& image : batch.images) {
    const CiderD::Reference reference = cider_.prepare(image->references);
    for (std::int64_t s = 0; s < samples; ++s, row += columns) {
      *reward++ = static_cast<float>(cider_.score(row, length_of(row, columns), reference));
    }
  }
  return rewards;
}

}  // namespace lockstep::captioning
