// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources/image_files.h"

namespace lockstep::data {

namespace fs = std::filesystem;

EncodedImage encoded_bytes(std::string bytes, std::string name) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const std::string_view view = *owner;
  return {std::move(owner), view, std::move(name)};
}

EncodedImage encoded_file(const fs::path& path) {
  return encoded_bytes(FileSystem::system().read(path, kMostPictureBytes), path.string());
}

std::string first_bytes(const fs::path& path, std::size_t most) {
  const auto file = FileSystem::system().open(path);
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(most, file->size())), '\0');
  file->read(0, bytes.data(), bytes.size());
  return bytes;
}

AnnotatedImage picture_of(const fs::path& path, std::int64_t index) {
  AnnotatedImage picture;
  picture.pixels = encoded_file(path);
  picture.id = index;
  picture.name = path.string();
  return picture;
}

std::string lower_case(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  return std::ranges::find(extensions, lower_case(path.extension().string())) != extensions.end();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

fs::path file_of_name(const fs::path& folder, const std::string& name, const std::vector<std::string>& extensions) {
  const auto spelled = [](std::string ending, std::size_t capitals) {
    for (std::size_t i = 1; i < ending.size(); ++i) {
      if ((capitals >> (i - 1) & 1U) != 0)
        ending[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(ending[i])));
    }
    return ending;
  };
  // Extensions in all lower case or all capitals come first; mixed spellings are tried only if no such file exists.
  constexpr std::size_t kMostSpellings = 16;  // spellings of four letters
  for (const std::size_t capitals : {std::size_t{0}, kMostSpellings - 1}) {
    for (const std::string& ending : extensions) {
      if (fs::path path = folder / (name + spelled(ending, capitals)); FileSystem::system().exists(path)) return path;
    }
  }
  for (const std::string& ending : extensions) {
    for (std::size_t capitals = 1; capitals + 1 < std::size_t{1} << (ending.size() - 1); ++capitals) {
      if (fs::path path = folder / (name + spelled(ending, capitals)); FileSystem::system().exists(path)) return path;
    }
  }
  return {};
}

void note_numbered_classes(const std::string& where, const std::vector<std::string>& classes) {
  const auto is_number = [](const std::string& name) {
    return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!std::ranges::all_of(classes, is_number)) return;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (classes[label] == std::to_string(label)) continue;
    return log::note("{}: the class names are numbers, which are sorted as text, as in torchvision: '{}' is class {}",
                     where, classes[label], label);
  }
}

void require_folder(const fs::path& folder) {
  std::error_code fault;
  const fs::file_status status = fs::status(folder, fault);
  if (!fs::exists(status)) throw DataError(fmt::format("folder {} does not exist", folder.string()));
  if (!fs::is_directory(status)) throw DataError(fmt::format("{} is not a folder", folder.string()));
}

std::vector<fs::path> files_in(const fs::path& folder, const std::vector<std::string>& extensions) {
  std::vector<fs::path> paths;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault)) {
    std::error_code broken_link;
    if (is_hidden(entry->path()) || !has_extension(entry->path(), extensions)) continue;
    if (entry->is_regular_file(broken_link)) paths.push_back(entry->path());
  }
  if (fault) throw IoError(fmt::format("cannot list folder {}: {}", folder.string(), fault.message()));
  std::ranges::sort(paths);
  return paths;
}

std::vector<fs::path> files_below(const fs::path& folder, const std::vector<std::string>& extensions,
                                  OtherImages* others) {
  std::vector<std::pair<std::string, std::string>> found;  // folder, name
  std::error_code fault;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, fault);
  for (const fs::recursive_directory_iterator end; !fault && entry != end; entry.increment(fault)) {
    std::error_code broken_link;
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (has_extension(entry->path(), extensions) && entry->is_regular_file(broken_link)) {
      found.emplace_back(entry->path().parent_path().string(), entry->path().filename().string());
    } else if (others != nullptr && has_extension(entry->path(), other_image_extensions())) {
      if (others->count++ == 0 || entry->path().string() < others->first) others->first = entry->path().string();
    }
  }
  if (fault) throw IoError(fmt::format("cannot list folder {}: {}", folder.string(), fault.message()));
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (const auto& [parent, name] : found) paths.push_back(fs::path(parent) / name);
  return paths;
}

void note_other_images(const std::string& where, const OtherImages& others) {
  if (others.count == 0) return;
  log::note("{}: {} ignored, as only PNG and JPEG files are read; the first: {}", where,
            text::counted(others.count, "image"), others.first);
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault)) {
    std::error_code broken_link;
    if (!is_hidden(entry->path()) && entry->is_directory(broken_link))
      names.push_back(entry->path().filename().string());
  }
  if (fault) throw IoError(fmt::format("cannot list folder {}: {}", folder.string(), fault.message()));
  std::ranges::sort(names);
  return names;
}

}  // namespace lockstep::data
