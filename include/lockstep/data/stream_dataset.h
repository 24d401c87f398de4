// SPDX-License-Identifier: Apache-2.0
// Tar shards as an iterable set: read from start to end, including from the output of commands.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/compose.h"
#include "lockstep/data/iterable.h"
#include "lockstep/data/sources/tar_shards.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a StreamDataset.
struct StreamOptions {
  TarOptions tar = {};     ///< options of each shard
  bool shuffle = false;    ///< shuffles the shards; samples within one keep their order
  std::uint64_t seed = 0;  ///< the seed of epoch e is seed + e
};

/// Returns one image after another; none at the end.
using PictureStream = std::function<std::optional<AnnotatedImage>()>;

/// Opens the images of every `part.count`-th shard in the epoch's order, starting with shard `part.index`.
/// Throws: DataError if there are fewer shards than parts, since a part would be empty.
[[nodiscard]] PictureStream open_shards(const std::vector<std::string>& shards, const StreamOptions& options,
                                        std::int64_t epoch, ShardSpec part);

/// Creates a set of `shards` (files, or "pipe:COMMAND" with tar.allow_commands), which are distributed over the loaders
/// that share them. One thread at a time reads a shard, and all decode; `transform` is as in image_dataset(). Open
/// local files as TarShards instead: they can be shuffled as a whole, and every rank gets the same number of samples.
/// Example: DataLoader{stream_dataset(expand_braces("a-{00..15}.tar"), Compose{Resize{}, ToTensor{}}), job, options}
template <class Transform>
[[nodiscard]] std::shared_ptr<IterableDataset> stream_dataset(std::vector<std::string> shards, Transform transform,
                                                              StreamOptions options = {}) {
  const auto change = std::make_shared<const Transform>(std::move(transform));
  return make_iterable([=](std::int64_t epoch, ShardSpec part) {
    return [change, read = open_shards(shards, options, epoch, part)]() -> std::optional<SampleMaker> {
      std::optional<AnnotatedImage> picture = read();
      if (!picture) return std::nullopt;
      return [change, own = std::make_shared<AnnotatedImage>(std::move(*picture))](SampleContext& context) {
        return detail::apply_step<AnnotatedImage>(*change, std::move(*own), context);
      };
    };
  });
}

}  // namespace lockstep

#pragma GCC visibility pop
