// SPDX-License-Identifier: Apache-2.0
// Shards that are read from their start, files and commands: each sample once over all loaders, at any worker count.
#include "lockstep/data/stream_dataset.h"

#include <ATen/ops/scalar_tensor.h>

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/loader.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace stream_dataset_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Five shards of three pictures; picture n is n bright.
std::vector<std::string> write_shards(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (int shard = 0; shard < 5; ++shard) {
    files.push_back((folder / ("s" + std::to_string(shard) + ".tar")).string());
    TarWriter writer(files.back());
    for (int i = 0; i < 3; ++i) {
      const int n = 3 * shard + i;
      AnnotatedImage picture{.pixels = Image{{4, 2}, 1, std::vector<std::uint8_t>(8, static_cast<std::uint8_t>(n))}};
      picture.label = n;
      writer.add(std::move(picture));
    }
    writer.finish();
  }
  return files;
}

struct FirstPixel {
  Sample operator()(AnnotatedImage& picture) const {
    const Image& image = picture.pixels.decoded(ColorMode::kGray);
    return {at::scalar_tensor(image.pixels.at(0)), at::scalar_tensor(*picture.label), {}};
  }
};

std::vector<std::int64_t> labels(DataLoader& loader, std::int64_t epoch = 0) {
  std::vector<std::int64_t> all;
  for (const auto& batch : loader.epoch(epoch)) {
    for (std::int64_t i = 0; i < batch.size; ++i) {
      all.push_back(batch.target[i].item().toLong());
      EXPECT_EQ(batch.data[i].item().toLong(), all.back());
    }
  }
  return all;
}

TEST(StreamDataset, GivesEachSampleOnceOverItsLoaders) {
  const test::TempDir folder;
  const auto shards = write_shards(folder.path());
  for (const std::int64_t workers : {0, 1, 3}) {
    std::map<std::int64_t, int> seen;
    for (std::int64_t part : {0, 1}) {
      DataLoader loader(stream_dataset(shards, FirstPixel{}, {.shuffle = true, .seed = 3}),
                        {.batch_size = 2, .workers = workers, .shard = {part, 2}});
      for (const std::int64_t label : labels(loader, 4)) ++seen[label];
    }
    EXPECT_EQ(seen.size(), 15U) << workers;
    for (const auto& [label, times] : seen) EXPECT_EQ(times, 1) << label;
  }
}

TEST(StreamDataset, ShufflesShardsByEpochAndNotByWorkers) {
  const test::TempDir folder;
  const auto shards = write_shards(folder.path());
  DataLoader alone(stream_dataset(shards, FirstPixel{}, {.shuffle = true}), {.batch_size = 4});
  DataLoader many(stream_dataset(shards, FirstPixel{}, {.shuffle = true}), {.batch_size = 4, .workers = 4});
  const auto first = labels(alone, 1);
  EXPECT_EQ(labels(many, 1), first);
  EXPECT_NE(labels(many, 2), first);
}

TEST(StreamDataset, ReadsWhatACommandWrites) {
  const test::TempDir folder;
  const auto shards = write_shards(folder.path());
  const std::string command = "pipe:cat '" + shards[1] + "'";
  DataLoader loader(stream_dataset({command}, FirstPixel{}, {.tar = {.allow_commands = true}}),
                    {.batch_size = 2, .workers = 2});
  EXPECT_EQ(labels(loader), (std::vector<std::int64_t>{3, 4, 5}));
  DataLoader refused(stream_dataset({command}, FirstPixel{}), {.batch_size = 2, .workers = 1});
  EXPECT_THROW((void)labels(refused), UsageError);
}

TEST(StreamDataset, TellsOfACommandThatFails) {
  DataLoader loader(stream_dataset({"pipe:exit 7"}, FirstPixel{}, {.tar = {.allow_commands = true}}),
                    {.batch_size = 2, .workers = 1});
  try {
    (void)labels(loader);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("7"));
  }
}

TEST(StreamDataset, RefusesShardsWithOtherClassesByTheirNames) {
  const test::TempDir folder;
  std::vector<std::string> shards;
  const std::vector<std::vector<std::string>> classes = {{"cat", "dog"}, {}, {"cat", "dog"}, {"dog", "cat"}};
  for (const auto& names : classes) {
    shards.push_back((folder.path() / ("s" + std::to_string(shards.size()) + ".tar")).string());
    TarWriter writer(shards.back(), {.class_names = names});
    AnnotatedImage picture{.pixels = Image{{1, 1}, 1, {0}}};
    picture.label = 0;
    writer.add(std::move(picture));
    writer.finish();
  }
  DataLoader good(stream_dataset({shards[0], shards[1], shards[2]}, FirstPixel{}), {.batch_size = 1});
  EXPECT_EQ(labels(good).size(), 3U);
  DataLoader bad(stream_dataset(shards, FirstPixel{}), {.batch_size = 1});
  try {
    (void)labels(bad);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("s0.tar"), HasSubstr("s3.tar"), HasSubstr("cat, dog")));
  }
}

TEST(StreamDataset, RefusesMoreReplicasThanShards) {
  EXPECT_THROW((void)open_shards({"a.tar"}, {}, 0, {0, 2}), DataError);
}

}  // namespace stream_dataset_test
}  // namespace lockstep
