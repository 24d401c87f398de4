// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/fetch_checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "checkpoint/fetch/fetch_url.h"
#include "checkpoint/folder/folder.h"
#include "checkpoint/folder/remove_quietly.h"
#include "checkpoint/formats/manifest_json.h"
#include "checkpoint/formats/read_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"
#include "lockstep/checkpoint/inspect.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// Returns the URL of a file in the folder that `url` names. A query string stays at the end. A "#sha256=" is dropped,
/// because it is not the hash of any of the files.
std::string url_of(const std::string& url, const std::string& file) {
  const std::string plain = url.substr(0, url.find('#'));
  const auto query = std::min(plain.find('?'), plain.size());
  const std::string folder = plain.substr(0, plain.find_last_not_of('/', query - 1) + 1);
  return folder + "/" + file + plain.substr(query);
}

/// Returns the URL of the file for messages, without user, password and query.
std::string shown(const std::string& url, const std::string& file) {
  return parse_fetch_url(url_of(url, file), "").text;
}

/// Returns the options with the limit `bytes`, the size of the file in the manifest.
FetchOptions at_most(FetchOptions options, std::uint64_t bytes) {
  options.max_bytes = std::min(options.max_bytes, bytes);
  return options;
}

/// Rejects a hash in the URL or the options: a folder has no hash to compare it with.
void require_no_hash(const std::string& url, const FetchOptions& options) {
  const FetchUrl parsed = parse_fetch_url(url, options.sha256);
  if (parsed.sha256.empty()) return;
  throw UsageError(
      fmt::format("a SHA-256 can verify only one file, but {} is a checkpoint, which has several", parsed.text),
      "omit the SHA-256: the files are compared with the manifest; fetch over https:// to verify their origin");
}

/// Creates a hard link to the fetched file where the disk supports it, otherwise a copy.
void put(const fs::path& from, const fs::path& to) {
  std::error_code no_link;
  fs::create_hard_link(from, to, no_link);
  if (!no_link) return;
  std::error_code problem;
  fs::copy_file(from, to, problem);
  if (problem)
    throw IoError(fmt::format("cannot copy {} to {}: {}", from.string(), to.string(), error_words(problem.value())),
                  write_remedy(problem.value()));
}

/// Compares a fetched file with the manifest, and removes it if it does not match. Throws: DataError.
void require_file(const fs::path& path, const FileDigest& expected, const std::string& url) {
  FileSystem& files = FileSystem::system();
  const std::string problem = compare(hash_file(files, path), expected);
  if (problem.empty()) return;
  remove_quietly(files, path);
  throw DataError(fmt::format("the data from {} {}", url, problem),
                  "the file was removed: try again, or use another checkpoint");
}

/// A folder that is removed on destruction unless it was renamed.
struct FetchedFolder {
  fs::path path;
  explicit FetchedFolder(fs::path folder) : path(std::move(folder)) {
    remove_quietly(FileSystem::system(), path);
    FileSystem::system().make_folder(path);
  }
  ~FetchedFolder() { remove_quietly(FileSystem::system(), path); }
  FetchedFolder(const FetchedFolder&) = delete;
  FetchedFolder& operator=(const FetchedFolder&) = delete;
};

void require_whole(const fs::path& folder, const std::string& url) {
  const VerifyReport report = verify_checkpoint(FileSystem::system(), folder);
  if (report.ok()) return;
  throw DataError(fmt::format("the data from {} is not a complete checkpoint: {}", url, report.problem()),
                  fmt::format("remove {} and try again, or use another checkpoint", folder.parent_path().string()));
}

}  // namespace

fs::path fetch_checkpoint(const std::string& url, const FetchOptions& options) {
  require_no_hash(url, options);
  const fs::path manifest_file = fetch(url_of(url, kManifestName), at_most(options, kMaxManifestBytes));
  const auto manifest = read_manifest(FileSystem::system(), manifest_file.parent_path());
  if (!manifest) {
    remove_quietly(FileSystem::system(), manifest_file);
    throw DataError(fmt::format("{} is not a manifest: {}", shown(url, kManifestName), manifest.error()),
                    "pass the URL of a step folder: .../checkpoints/step-00001200");
  }
  // The target is next to the manifest, whose folder in the cache belongs to this URL.
  const fs::path target = manifest_file.parent_path() / step_name(manifest->meta.step);
  FileSystem& files = FileSystem::system();
  if (!files.exists(target)) {
    const FetchedFolder temporary(manifest_file.parent_path() / temporary_name(target.filename().string(), ::getpid()));
    put(manifest_file, temporary.path / kManifestName);
    for (const auto& [name, digest] : manifest->files) {
      const fs::path file = fetch(url_of(url, name), at_most(options, digest.bytes));
      require_file(file, digest, shown(url, name));
      put(file, temporary.path / name);
    }
    std::error_code taken;  // another process may have created the same folder
    fs::rename(temporary.path, target, taken);
  }
  require_whole(target, parse_fetch_url(url, "").text);
  return target;
}

}  // namespace lockstep
