// SPDX-License-Identifier: Apache-2.0
// Inspects the integrity and content of a checkpoint. The functions return values and text, for commands to print.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// One file of a checkpoint, compared with its entry in the manifest.
struct FileCheck {
  std::string file;     ///< file name in the step folder
  std::string problem;  ///< empty if the file is whole
};

/// The checks of every file in one step folder.
struct VerifyReport {
  std::filesystem::path path;    ///< the step folder
  Manifest manifest;             ///< the manifest; default-constructed if it cannot be read
  std::vector<FileCheck> files;  ///< the checks; manifest.json comes first

  /// Returns true if no file has a problem.
  [[nodiscard]] bool ok() const;
  /// Describes the first problem; empty if there is none.
  [[nodiscard]] std::string problem() const;
};

/// Reads and hashes every file in a step folder. Files not named in the manifest are ignored.
/// Throws: DataError if the folder is missing; IoError if the disk fails. Damage is reported, not thrown.
[[nodiscard]] VerifyReport verify_checkpoint(FileSystem& files, const std::filesystem::path& step_folder);

/// Returns "model/fc.weight is not finite (3 of 64 elements), nor are 2 other tensors" for a checkpoint from which a
/// run cannot resume; empty if all values are acceptable. It checks the floating-point tensors of the states whose
/// names begin with "model", "optimizer" or "ema", by FiniteCheck's rule.
/// Cost: reads these files once, in blocks. Throws: DataError if the folder is missing or torn; IoError.
[[nodiscard]] std::string not_finite_in(FileSystem& files, const std::filesystem::path& step_folder);

/// Returns the newest step folder that verifies and in which not_finite_in() finds nothing, or none. If `before` is
/// given, only steps below it count. Folders that were set aside do not count.
[[nodiscard]] std::optional<std::filesystem::path> find_newest_finite(FileSystem& files,
                                                                      const std::filesystem::path& folder,
                                                                      std::optional<std::int64_t> before = {});

/// Returns "step-00001200: whole (3 files, 228.9 MB)", or one line per problem.
[[nodiscard]] std::string to_text(const VerifyReport& report);

/// One entry of a state, in words: "float32 [64, 1, 3, 3]", or a scalar's canonical JSON.
struct EntryDescription {
  std::string name;            ///< the entry's name: "conv.weight"
  std::string value;           ///< the type and shape of a tensor, or the plain value as JSON
  std::uint64_t bytes = 0;     ///< size of all elements; 0 for plain values
  std::int64_t elements = 0;   ///< number of elements; 0 for plain values
  std::optional<double> norm;  ///< L2 norm; none for plain values
};

/// The content of a checkpoint, or of another program's file.
struct CheckpointDescription {
  std::filesystem::path path;                                   ///< the step folder or the file
  std::optional<Manifest> manifest;                             ///< none if it is a file
  std::map<std::string, std::vector<EntryDescription>> states;  ///< entries of each state, by the state's name
  std::map<std::string, FileDigest> texts;                      ///< sizes and hashes of the text files, by name
};

/// Describes a checkpoint. Throws: DataError if it does not verify; IoError.
[[nodiscard]] CheckpointDescription describe_checkpoint(const Checkpoint& checkpoint);

/// Describes a .pth, .pt, .safetensors or .safetensors.index.json file. Each dict inside the outer dict is a state; the
/// keys of deeper values are joined by dots. Throws: DataError; IoError.
[[nodiscard]] CheckpointDescription describe_file(FileSystem& files, const std::filesystem::path& path);

/// Returns human-readable lines: the manifest, the sizes of the text files, then every state as a table of its entries.
[[nodiscard]] std::string to_text(const CheckpointDescription& description);

/// Returns the description as one JSON object on one line.
[[nodiscard]] std::string to_json(const CheckpointDescription& description);

/// Describes how this libtorch and processor differ from those that wrote `manifest`; empty if they do not. A run that
/// resumes on a different platform does not stay bit-for-bit equal to one that never moved.
[[nodiscard]] std::string platform_difference(const Manifest& manifest);

/// Returns one SHA-256 (64 hexadecimal digits) over all states, sorted by name: each entry's name, dtype, shape and
/// row-major little-endian bytes, scalars as canonical JSON. Equal states have equal digests, independent of time,
/// host, path and version.
/// Throws: DataError if it does not verify; IoError.
[[nodiscard]] std::string checkpoint_digest(const Checkpoint& checkpoint);

}  // namespace lockstep

#pragma GCC visibility pop
