// SPDX-License-Identifier: Apache-2.0
// Checkpoints: folders that are committed atomically, with hashes of their content. docs/formats/checkpoint.md
// describes the protocol and the manifest's grammar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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

/// The states of a checkpoint by name: "model", "optimizer", "ema", "trainer"; each becomes `<name>.safetensors`.
using CheckpointStates = std::map<std::string, StateDict>;

/// The text files of a checkpoint by name ("config.yml"). They are verified like states, but are not part of names() or
/// the digest.
using CheckpointTexts = std::map<std::string, std::string>;

/// Decides whether non-finite values may be saved. A run cannot resume from a checkpoint with NaN in its weights, and
/// pruning would remove the earlier checkpoints.
///
/// The check covers the floating-point tensors of the states whose names begin with "model", "optimizer" or "ema". NaN
/// is rejected in all of them. Infinity is rejected in optimizers, in the running statistics of norm layers, and in
/// learnt entries. Learnt entries are those in `learnt`, those for which an optimizer in the checkpoint has a tensor,
/// and, if the optimizers have no tensor at all, those whose names end in "weight" or "bias". Other entries, such as an
/// attention mask, may be infinite.
struct FiniteCheck {
  bool required = true;               ///< false saves everything
  std::set<std::string> learnt = {};  ///< entries of the model that are known to be learnt
};

/// Saves `states` and `texts` as `<folder>/step-<8 digits>` and returns that path once it is durable. `folder` is a
/// run's "checkpoints" folder; it is created if missing. If the step is saved again with the same content, the old
/// folder is kept. If the content differs, or the old folder is torn, it is renamed to `step-<8 digits>.bad-<n>`. The
/// unfinished folders of dead writers are removed.
///
/// After a failed fsync everything is written again, to new files, in up to three attempts.
///
/// Blocks: until the data is on disk. The call is a section "save" (trace.h): under a launcher, the other ranks'
/// collectives wait for it beyond LOCKSTEP_TIMEOUT. Lifetime: the tensors must not change during the call.
/// Throws: IoError, UsageError (a name that is not a plain word, a text's name that is taken or points outside the
///         folder, an entry that cannot be saved), DataError (non-finite values, see FiniteCheck; if they are
///         intended, use commit_sharded_checkpoint() with no_peers()). All earlier checkpoints then still exist.
std::filesystem::path commit_checkpoint(FileSystem& files, const std::filesystem::path& folder,
                                        const CheckpointMeta& meta, const CheckpointStates& states,
                                        const CheckpointTexts& texts = {});

/// The content that one rank writes to a checkpoint.
struct ShardedContent {
  std::map<std::string, StatePart> parts;  ///< parts by state name; the names are the same on every rank
  CheckpointTexts texts;                   ///< text files: those of rank 0 are saved, all others ignored
  /// Throws if the written files must not be kept. Every rank calls it after writing its files, and rank 0 calls it
  /// again before the folder gets its name. It may be empty.
  std::function<void()> check = nullptr;
  FiniteCheck finite = {};  ///< the same on every rank
};

/// Like commit_checkpoint(), but with all ranks of `peers`: each rank writes its parts,
/// `<state>.part-<i>-of-<n>.safetensors`, and rank 0 writes the manifest. Any number of ranks can read the whole
/// states.
///
/// Collective: every rank of `peers`. Blocks: until all data is on disk.
/// Throws: anything commit_checkpoint() throws, the same error on every rank, if a rank failed to write or its check
/// threw;
///         TimeoutError, PeerError.
std::filesystem::path commit_sharded_checkpoint(FileSystem& files, CheckpointPeers& peers,
                                                const std::filesystem::path& folder, const CheckpointMeta& meta,
                                                const ShardedContent& content);

/// Removes the files that dead writers on any host left in `folder`; call it only if no other process writes there.
/// commit_checkpoint() starts by doing this for files from its own host. The folder may be missing. A file that cannot
/// be removed stays. Throws: IoError if the folder cannot be listed or synced.
void remove_checkpoint_leftovers(FileSystem& files, const std::filesystem::path& folder);

/// Returns true if `folder` holds a step folder of any kind: whole, torn, or set aside. This distinguishes a run
/// without checkpoints from a run whose checkpoints all fail to verify.
[[nodiscard]] bool has_step_folders(FileSystem& files, const std::filesystem::path& folder);

/// The rule that decides which checkpoints are kept.
struct Retention {
  std::int64_t keep_last = 3;   ///< number of newest checkpoints to keep; 0: all
  std::int64_t keep_every = 0;  ///< also keeps checkpoints whose step is a multiple of this; 0: none
};

/// Returns the step folders that may be removed: all except the newest `keep_last`, the multiples of `keep_every`,
/// those with a name such as "best", and the newest whose values are finite (FiniteCheck). Returns none if the newest
/// does not verify. Throws: IoError.
[[nodiscard]] std::vector<std::filesystem::path> choose_prunable(FileSystem& files, const std::filesystem::path& folder,
                                                                 const Retention& retention);

/// Removes choose_prunable() and returns it. If a folder loses its name but cannot be removed, as on NFS while another
/// process reads one of its files, it stays as `.tmp-...` with a warning, and the next save removes it.
/// Throws: IoError (a folder that cannot be renamed); the remaining checkpoints are then whole.
std::vector<std::filesystem::path> prune_checkpoints(FileSystem& files, const std::filesystem::path& folder,
                                                     const Retention& retention);

/// Renames the step folders after `step` to "step-00001200.suspect", a name that checkpoint searches ignore. Removes a
/// name such as "best" that refers to one of them. Throws: IoError.
void put_checkpoints_aside(FileSystem& files, const std::filesystem::path& folder, std::int64_t step);

/// Makes `name` ("best", "best_stg1") refer to the committed step folder `step_folder` in `folder`.
/// Throws: UsageError if the name is not a plain word, DataError if the folder has no manifest; IoError.
void name_checkpoint(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                     const std::filesystem::path& step_folder);

/// Returns the step folder that `name` refers to.
/// Throws: DataError if there is no such name (the nearest one is suggested) or its step folder is gone.
[[nodiscard]] std::filesystem::path find_named_checkpoint(FileSystem& files, const std::filesystem::path& folder,
                                                          const std::string& name);

/// Returns the names that refer to a step folder, sorted.
[[nodiscard]] std::vector<std::string> checkpoint_names(FileSystem& files, const std::filesystem::path& folder);

/// Returns the folder of the latest step, whether or not it is whole; none if there is no step folder.
[[nodiscard]] std::optional<std::filesystem::path> find_newest(FileSystem& files, const std::filesystem::path& folder);

/// Returns the newest step folder in which every byte verifies, or none. Torn folders are skipped with a note.
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

  /// Returns the step after which the checkpoint was saved.
  [[nodiscard]] std::int64_t step() const noexcept { return manifest_.meta.step; }
  /// Returns the manifest: files with their hashes, and facts about the run.
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  /// Returns the step folder.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Returns the names of its states, sorted: "model", "optimizer", ...
  [[nodiscard]] std::vector<std::string> names() const;
  /// Returns true if the checkpoint has a state of this name.
  [[nodiscard]] bool has(const std::string& name) const;

  /// Reads one state; its bytes are verified again. After read_checkpoint() it uses the bytes read at that time, and
  /// tensors from several calls share that memory. If the state has non-finite values, a warning names the newest
  /// earlier checkpoint without any (FiniteCheck).
  /// Throws: DataError if the checkpoint has no such state (the message lists its states) or the file is torn; IoError.
  [[nodiscard]] StateDict state(const std::string& name) const;

  /// Returns the names of its text files ("config.yml"), sorted.
  [[nodiscard]] std::vector<std::string> text_files() const;

  /// Reads one text; its bytes are verified again. Returns none if the checkpoint has no such text.
  /// Throws: DataError if the file is torn; IoError.
  [[nodiscard]] std::optional<std::string> text(const std::string& file) const;

 private:
  [[nodiscard]] StateDict read_state(const std::string& name) const;
  [[nodiscard]] checkpoint::FileBytes read_verified(const std::string& file, const FileDigest& expected) const;

  FileSystem* files_;
  std::filesystem::path path_;
  Manifest manifest_;
  std::shared_ptr<const checkpoint::KeptFiles> kept_;  ///< null if each file is read on request
};

/// Returns the step folder of `source`: the step folder itself, the newest valid one in a run folder (or in its
/// checkpoints folder), or, for RUN:NAME, the one with that name.
/// Throws: DataError naming `source` and the searched places, and, if no checkpoint of a run verifies, how many there
/// are and what is wrong with the first.
[[nodiscard]] std::filesystem::path resolve_checkpoint(const std::string& source,
                                                       FileSystem& files = FileSystem::system());

/// Opens the checkpoint of `source` (see resolve_checkpoint).
/// Cost: reads every byte once. Throws: DataError if it is missing or torn (file, expected and found size or hash).
/// Example: model.load_state_dict(load_checkpoint("runs/captcha:best").state("model"));
[[nodiscard]] Checkpoint load_checkpoint(const std::string& source, FileSystem& files = FileSystem::system());

/// Like load_checkpoint(), but keeps the bytes: every byte is read and verified once, and later calls do not read the
/// disk. Cost: memory for the whole checkpoint, until the object and its states are destroyed.
[[nodiscard]] Checkpoint read_checkpoint(const std::string& source, FileSystem& files = FileSystem::system());

}  // namespace lockstep

#pragma GCC visibility pop
