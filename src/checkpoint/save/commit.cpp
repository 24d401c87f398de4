// SPDX-License-Identifier: Apache-2.0
// The commit protocol: everything into a temporary folder, everything durable, then one rename. One process alone, or
// several of which each writes its part.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "checkpoint/folder/folder.h"
#include "checkpoint/folder/remove_quietly.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/platform.h"
#include "checkpoint/save/room.h"
#include "checkpoint/save/save_words.h"
#include "checkpoint/save/staging.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/tensor/sharing.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr int kAttempts = 3;  // after a failed fsync all is written again, to new files

/// A process commits to one folder from one thread, so what bears our own pid is left over as well (pids come again).
bool is_leftover(const std::string& name) {
  const auto pid = parse_temporary_pid(name);
  if (!pid || *pid <= 0) return false;
  return *pid == ::getpid() || (::kill(*pid, 0) != 0 && errno == ESRCH);
}

void put_back(FileSystem& files, const fs::path& from, const fs::path& to) {
  try {
    files.rename(from, to);
    log::note("{} is put back: a process ended while it was writing it anew", to.string());
  } catch (const Error& error) {
    log::warn("{} is still there as {}: {}", to.string(), from.string(), error.message());
  }
}

void check_names(const std::map<std::string, StatePart>& parts, const CheckpointTexts& texts) {
  for (const auto& [name, part] : parts) {
    if (!is_plain_word(name)) {
      throw UsageError(fmt::format("'{}' is no name for a state of a checkpoint", name),
                       "use letters, digits, '_' and '-'");
    }
  }
  for (const auto& [file, text] : texts) {
    if (is_plain_file_name(file) && file != kManifestName && !file.ends_with(kStateSuffix)) continue;
    throw UsageError(fmt::format("'{}' is no name for a text of a checkpoint", file),
                     fmt::format("use letters, digits, '_', '-' and '.', not in front; {} and *{} are taken",
                                 kManifestName, kStateSuffix));
  }
}

/// Only now, with what was written of it removed, is the room that one can count on free again.
SaveWord not_saved(const SaveWord& why, const fs::path& folder, std::int64_t step, const Content& content) {
  SaveWord word = why;
  if (!word.failed() || word.failure->type != "IoError") return word;
  word.failure->message = fmt::format("the checkpoint of step {} is not saved: {}{}", step, why.failure->message,
                                      missing_room(folder, need_of(content)));
  const std::string& hint = why.failure->hint;
  word.failure->hint = fmt::format("{}; --resume auto goes on from the checkpoint before it",
                                   hint.empty() ? "see that this folder can be written" : hint);
  return word;
}

/// One save, by one rank of those that take part. Every step ends with rank 0's word, so that all do the same.
class Save {
 public:
  Save(FileSystem& files, CheckpointPeers& peers, const fs::path& folder, const CheckpointMeta& meta, Content content)
      : files_(files), peers_(peers), folder_(folder), meta_(meta), content_(std::move(content)) {}

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
    std::optional<Staging> staging;
    const SaveWord begun = broadcast(begin(staging));
    if (begun.failed()) return begun;
    const std::vector<SaveWord> written = gather(write(begun.folder));
    return broadcast(is_main() ? finish(staging, written) : SaveWord{});
  }

  SaveWord begin(std::optional<Staging>& staging) {
    if (!is_main()) return {};
    try {
      if (meta_.step < 0) throw UsageError(fmt::format("a checkpoint of step {}", meta_.step));
      check_names(content_.parts, content_.texts);
      make_folder_durably(files_, folder_);
      remove_checkpoint_leftovers(files_, folder_);
      staging.emplace(files_, folder_, meta_.step);
      return {.folder = fs::absolute(staging->path()).string()};  // the others may stand in another folder
    } catch (const std::exception& error) {
      const SaveWord word = word_of(error);
      return is_tried_again(word) ? word : not_saved(word, folder_, meta_.step, content_);
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
  SaveWord finish(std::optional<Staging>& staging, const std::vector<SaveWord>& written) {
    SaveWord outcome = combine(written);
    if (!outcome.failed()) outcome = place(*staging, outcome.files);
    staging.reset();
    if (!outcome.failed() || is_tried_again(outcome)) return outcome;
    return not_saved(outcome, folder_, meta_.step, content_);
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
      const std::int64_t format = peers_.world_size() == 1 ? kFormatVersion : kShardedFormatVersion;
      const Manifest manifest{format, meta_, tensor::libtorch_version(), instruction_set(), blas_kernels(), digests};
      if (content_.check) content_.check();
      return {.folder = staging.place(manifest, placed_).string()};
    } catch (const std::exception& error) {
      return word_of(error);
    }
  }

  [[nodiscard]] SaveWord broadcast(const SaveWord& word) {
    if (peers_.world_size() == 1) return word;
    return save_word_from_bytes(peers_.broadcast(is_main() ? to_bytes(word) : ""));
  }

  [[nodiscard]] std::vector<SaveWord> gather(const SaveWord& word) {
    if (peers_.world_size() == 1) return {word};
    std::vector<SaveWord> words;
    for (const std::string& text : peers_.gather(to_bytes(word))) words.push_back(save_word_from_bytes(text));
    return words;
  }

  FileSystem& files_;
  CheckpointPeers& peers_;
  fs::path folder_;
  CheckpointMeta meta_;
  Content content_;
  int attempt_ = 0;
  bool placed_ = false;  ///< by an attempt of this save
};

}  // namespace

void remove_checkpoint_leftovers(FileSystem& files, const fs::path& folder) {
  for (const std::string& name : files.list(folder)) {
    if (!is_leftover(name)) continue;
    const auto step = checkpoint::parse_old_name(name);
    // Killed between the two renames of Staging::replace(): the step has no folder but this one.
    if (step && !files.exists(folder / *step)) {
      put_back(files, folder / name, folder / *step);
    } else {
      remove_quietly(files, folder / name);
    }
  }
}

fs::path commit_checkpoint(FileSystem& files, const fs::path& folder, const CheckpointMeta& meta,
                           const CheckpointStates& states, const CheckpointTexts& texts) {
  tensor::warn_of_separate_training();
  std::map<std::string, StatePart> parts;
  for (const auto& [name, state] : states) parts[name].entries = state;
  return Save(files, *no_peers(), folder, meta, {std::move(parts), texts}).run();
}

fs::path commit_sharded_checkpoint(FileSystem& files, CheckpointPeers& peers, const fs::path& folder,
                                   const CheckpointMeta& meta, const ShardedContent& content) {
  return Save(files, peers, folder, meta, {content.parts, content.texts, content.check}).run();
}

}  // namespace lockstep
