// SPDX-License-Identifier: Apache-2.0
// The commit protocol of several ranks, of which each writes its part.
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/save/attempt.h"
#include "checkpoint/save/save_words.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// One save, by one rank of those that take part. Every step ends with rank 0's word, so that all do the same.
class ShardedSave {
 public:
  ShardedSave(FileSystem& files, CheckpointPeers& peers, SaveTarget target, const Content& content)
      : files_(files), peers_(peers), target_(std::move(target)), content_(content) {}

  fs::path run() {
    for (;;) {
      const SaveWord word = try_once();
      if (!word.failed()) return word.folder;
      if (!is_tried_again(word)) throw_word(word);
      if (is_main()) log::warn("{}: all of it is written again, to new files", word.failure->message);
    }
  }

 private:
  [[nodiscard]] bool is_main() const { return peers_.rank() == 0; }

  [[nodiscard]] bool is_tried_again(const SaveWord& word) const { return word.again && attempt_ < kAttempts; }

  SaveWord try_once() {
    ++attempt_;
    std::unique_ptr<Staging> staging;
    const SaveWord begun = broadcast(begin(staging));
    if (begun.failed()) return begun;
    const std::vector<SaveWord> written = gather(write(begun.folder));
    return broadcast(is_main() ? finish(staging, written) : SaveWord{});
  }

  SaveWord begin(std::unique_ptr<Staging>& staging) {
    if (!is_main()) return {};
    try {
      staging = open_staging(files_, target_, content_);
      return {.folder = fs::absolute(staging->path()).string()};  // the others may stand in another folder
    } catch (const std::exception& error) {
      return explained(word_of(error));
    }
  }

  SaveWord write(const fs::path& folder) {
    try {
      SaveWord word{.files = write_content(files_, folder, content_, {peers_.rank(), peers_.world_size()})};
      if (content_.check) content_.check();
      return word;
    } catch (const std::exception& error) {
      return word_of(error);
    }
  }

  /// Rank 0's part: everything is there, or the first rank that failed says why not.
  SaveWord finish(std::unique_ptr<Staging>& staging, const std::vector<SaveWord>& written) {
    SaveWord outcome = combine(written);
    if (!outcome.failed()) outcome = place(*staging, outcome.files);
    staging.reset();
    return explained(outcome);
  }

  /// What the last attempt has failed with, in the words that the user reads.
  [[nodiscard]] SaveWord explained(SaveWord word) const {
    if (word.failed() && !is_tried_again(word)) word.failure = not_saved(*word.failure, target_, content_);
    return word;
  }

  [[nodiscard]] static SaveWord combine(const std::vector<SaveWord>& written) {
    SaveWord all;
    for (std::size_t rank = 0; rank < written.size(); ++rank) {
      const SaveWord& word = written[rank];
      all.files.insert(word.files.begin(), word.files.end());
      if (!word.failed() || all.failed()) continue;
      all.failure = word.failure;
      if (rank != 0) all.failure->message = fmt::format("rank {}: {}", rank, word.failure->message);
      all.again = word.again;
    }
    return all;
  }

  SaveWord place(Staging& staging, const std::map<std::string, FileDigest>& digests) {
    try {
      if (content_.check) content_.check();
      return {.folder = place_content(staging, target_.meta, peers_.world_size(), digests, placed_).string()};
    } catch (const std::exception& error) {
      return word_of(error);
    }
  }

  [[nodiscard]] SaveWord broadcast(const SaveWord& word) {
    return save_word_from_bytes(peers_.broadcast(is_main() ? to_bytes(word) : ""));
  }

  [[nodiscard]] std::vector<SaveWord> gather(const SaveWord& word) {
    std::vector<SaveWord> words;
    for (const std::string& text : peers_.gather(to_bytes(word))) words.push_back(save_word_from_bytes(text));
    return words;
  }

  FileSystem& files_;
  CheckpointPeers& peers_;
  SaveTarget target_;
  const Content& content_;
  int attempt_ = 0;
  bool placed_ = false;  ///< by an attempt of this save
};

}  // namespace

fs::path commit_sharded_checkpoint(FileSystem& files, CheckpointPeers& peers, const fs::path& folder,
                                   const CheckpointMeta& meta, const ShardedContent& content) {
  const Content mine{content.parts, content.texts, content.check};
  if (peers.world_size() == 1) return commit_alone(files, {folder, meta}, mine);
  return ShardedSave(files, peers, {folder, meta}, mine).run();
}

}  // namespace lockstep
