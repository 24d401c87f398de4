// SPDX-License-Identifier: Apache-2.0
// The functions shared by the sources that read image files. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

namespace lockstep::data {

/// Returns the bytes of an image file, not yet decoded.
/// Throws: DataError if the file is missing or not a regular file; IoError.
[[nodiscard]] EncodedImage encoded_file(const std::filesystem::path& path);

/// Returns the file's first bytes, at most `most`. Throws: anything encoded_file() throws.
[[nodiscard]] std::string first_bytes(const std::filesystem::path& path, std::size_t most);

/// Creates an image from its file, with `index` as its id.
[[nodiscard]] AnnotatedImage picture_of(const std::filesystem::path& path, std::int64_t index);

/// Wraps the bytes of an image file that are already in memory.
[[nodiscard]] EncodedImage encoded_bytes(std::string bytes, std::string name);

[[nodiscard]] std::string lower_case(std::string text);
[[nodiscard]] bool has_extension(const std::filesystem::path& path, const std::vector<std::string>& extensions);

/// True if the name begins with a dot. Programs leave such files and folders behind (.ipynb_checkpoints, ._a.png); the
/// functions below do not list them.
[[nodiscard]] bool is_hidden(const std::filesystem::path& path);

/// Finds the file `name` with one of these extensions, given in lower case and matched in any case: the first file that
/// exists, or an empty path. `name` may include subfolders of `folder`.
[[nodiscard]] std::filesystem::path file_of_name(const std::filesystem::path& folder, const std::string& name,
                                                 const std::vector<std::string>& extensions);

/// Logs a note if all class names are numbers and a label differs from its name, because names sort as text. `where`
/// names the set.
void note_numbered_classes(const std::string& where, const std::vector<std::string>& classes);

/// Throws: DataError if `folder` is missing or not a folder.
void require_folder(const std::filesystem::path& folder);

/// Lists the files in `folder` itself, sorted by name. Throws: IoError.
[[nodiscard]] std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                                          const std::vector<std::string>& extensions);

/// The images of other formats in a folder, which are not read.
struct OtherImages {
  std::int64_t count = 0;
  std::string first = {};
};

/// Lists the files below `folder`, at any depth, sorted by folder as text, then by name (as Python's sorted(os.walk)).
/// Adds images of other formats to `others`, unless it is null. Throws: IoError.
[[nodiscard]] std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                                             const std::vector<std::string>& extensions,
                                                             OtherImages* others = nullptr);

/// Logs a note if there are any. `where` names the set.
void note_other_images(const std::string& where, const OtherImages& others);

/// Lists the names of the folders in `folder`, sorted; links to folders count. Throws: IoError.
[[nodiscard]] std::vector<std::string> folders_in(const std::filesystem::path& folder);

}  // namespace lockstep::data
