// SPDX-License-Identifier: Apache-2.0
// Checkpoints are folders that are committed whole or not at all and that prove their own content.
// The protocol and the manifest's grammar are docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/peers.h"
#include "lockstep/tensor/state_dict.h"
#include "lockstep/tensor/state_part.h"

#pragma GCC visibility push(default)

namespace lockstep {

namespace checkpoint {
struct FileBytes;
}

/// The states of a checkpoint by name: "model", "optimizer", "ema", "trainer"; each becomes <name>.safetensors.
using CheckpointStates = std::map<std::string, StateDict>;

/// Texts of a checkpoint by file name ("config.yml"): they lie beside the states and are verified like them, but are no
/// part of names() nor of the digest.
using CheckpointTexts = std::map<std::string, std::string>;

/// Saves `states` and `texts` as `<folder>/step-<8 digits>` and returns that path when it is durable. `folder` is a
/// run's "checkpoints" folder; it is made. A step saved twice with the same content is kept; where the content differs,
/// or the old one is torn, the old one becomes `step-<8 digits>.bad-<n>`. Leftovers of writers that died are removed.
///
/// After a failed fsync all is written again, to new files, up to three times.
///
/// Blocks: until the disk has it. Lifetime: the tensors do not change meanwhile.
/// Throws: IoError, UsageError (a name that is no plain word, a text's that is taken or leaves the folder, an entry
/// that cannot be saved); then every checkpoint that was there still is.
std::filesystem::path commit_checkpoint(FileSystem& files, const std::filesystem::path& folder,
                                        const CheckpointMeta& meta, const CheckpointStates& states,
                                        const CheckpointTexts& texts = {});

/// What one rank writes of a checkpoint.
struct ShardedContent {
  std::map<std::string, StatePart> parts;  ///< by state; the same names on every rank
  CheckpointTexts texts;                   ///< rank 0's
  /// Throws where what was written may not be kept. Called on every rank once its files are written, and on rank 0
  /// again before they get their name; may be empty.
  std::function<void()> check = nullptr;
};

/// As commit_checkpoint, by all ranks of `peers` together: each writes its parts,
/// `<state>.part-<i>-of-<n>.safetensors`, and rank 0 the one manifest. Readers, on any number of ranks, see the whole
/// states.
///
/// Collective: every rank of `peers`. Blocks: until the disk has all of it.
/// Throws: on every rank the same error, as commit_checkpoint, where any rank's writing or check failed; TimeoutError,
/// PeerError.
std::filesystem::path commit_sharded_checkpoint(FileSystem& files, CheckpointPeers& peers,
                                                const std::filesystem::path& folder, const CheckpointMeta& meta,
                                                const ShardedContent& content);

/// Removes what writers that died left in `folder`, as commit_checkpoint does at its start; fine where it is missing.
/// What cannot be removed stays. Throws: IoError where the folder cannot be listed.
void remove_checkpoint_leftovers(FileSystem& files, const std::filesystem::path& folder);

/// Whether `folder` holds a step folder of any kind: whole, torn, or put aside. Tells a run without a checkpoint from
/// one of whose checkpoints none verifies.
[[nodiscard]] bool has_step_folders(FileSystem& files, const std::filesystem::path& folder);

/// Which checkpoints stay.
struct Retention {
  std::int64_t keep_last = 3;   ///< the newest so many; 0: all
  std::int64_t keep_every = 0;  ///< besides, those whose step is a multiple of it; 0: none
};

/// The step folders that may go: not the newest `keep_last`, no multiple of `keep_every`, and none that a named best
/// names. None while the newest does not verify. Throws: IoError.
[[nodiscard]] std::vector<std::filesystem::path> choose_prunable(FileSystem& files, const std::filesystem::path& folder,
                                                                 const Retention& retention);

/// Removes choose_prunable() and returns it. Throws: IoError; what is left is whole.
std::vector<std::filesystem::path> prune_checkpoints(FileSystem& files, const std::filesystem::path& folder,
                                                     const Retention& retention);

/// Makes `name` ("best", "best_stg1") stand for the committed step folder `step_folder` of `folder`.
/// Throws: UsageError where the name is no plain word, DataError where the folder has no manifest; IoError.
void name_checkpoint(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                     const std::filesystem::path& step_folder);

/// The step folder that `name` stands for.
/// Throws: DataError where there is no such name (the nearest one is suggested) or its step folder is gone.
[[nodiscard]] std::filesystem::path find_named_checkpoint(FileSystem& files, const std::filesystem::path& folder,
                                                          const std::string& name);

/// The names that stand for a step folder, sorted.
[[nodiscard]] std::vector<std::string> checkpoint_names(FileSystem& files, const std::filesystem::path& folder);

/// The step folder of the latest step, whole or not. None where there is none.
[[nodiscard]] std::optional<std::filesystem::path> find_newest(FileSystem& files, const std::filesystem::path& folder);

/// The newest step folder whose every byte verifies; torn ones are skipped with a note. None where there is none.
[[nodiscard]] std::optional<std::filesystem::path> find_newest_valid(FileSystem& files,
                                                                     const std::filesystem::path& folder);

namespace checkpoint {
struct KeptFiles;  // bytes that were verified
}

/// One committed checkpoint, verified when it was opened.
class Checkpoint {
 public:
  Checkpoint(FileSystem& files, std::filesystem::path path, Manifest manifest,
             std::shared_ptr<const checkpoint::KeptFiles> kept = nullptr)
      : files_(&files), path_(std::move(path)), manifest_(std::move(manifest)), kept_(std::move(kept)) {}

  [[nodiscard]] std::int64_t step() const noexcept { return manifest_.meta.step; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// "model", "optimizer", ...: sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool has(const std::string& name) const;

  /// Reads one state; its bytes are verified again. Of read_checkpoint(): what was read then; its tensors share that
  /// memory with those of a further call.
  /// Throws: DataError where the checkpoint has no such state (those that it has are listed) or the file is torn;
  /// IoError.
  [[nodiscard]] StateDict state(const std::string& name) const;

  /// The file names of its texts ("config.yml"): sorted.
  [[nodiscard]] std::vector<std::string> text_files() const;

  /// Reads one text; its bytes are verified again. None where the checkpoint has no such text.
  /// Throws: DataError where the file is torn; IoError.
  [[nodiscard]] std::optional<std::string> text(const std::string& file) const;

 private:
  [[nodiscard]] checkpoint::FileBytes read_verified(const std::string& file, const FileDigest& expected) const;

  FileSystem* files_;
  std::filesystem::path path_;
  Manifest manifest_;
  std::shared_ptr<const checkpoint::KeptFiles> kept_;  ///< none: each file is read when it is asked for
};

/// Which step folder `where` means: itself; the newest valid of a run folder (or of its checkpoints folder); or the
/// named best of RUN:NAME.
/// Throws: DataError naming `where` and what was looked for; where none of a run's checkpoints verifies, how many there
/// are and what is wrong with the first.
[[nodiscard]] std::filesystem::path resolve_checkpoint(const std::string& where,
                                                       FileSystem& files = FileSystem::system());

/// Opens what `where` means (see resolve_checkpoint).
/// Cost: reads every byte once. Throws: DataError where it is missing or torn (file, expected and found size or hash).
/// Example: model.load_state_dict(load_checkpoint("runs/captcha:best").state("model"));
[[nodiscard]] Checkpoint load_checkpoint(const std::string& where, FileSystem& files = FileSystem::system());

/// As load_checkpoint, and keeps what it reads: every byte is read and verified once, and no later call can fail over
/// the disk. Cost: the memory of the checkpoint, until the object and the states taken from it are gone.
[[nodiscard]] Checkpoint read_checkpoint(const std::string& where, FileSystem& files = FileSystem::system());

}  // namespace lockstep

#pragma GCC visibility pop
