// SPDX-License-Identifier: Apache-2.0
// A disk that fails at the n-th operation: once, like a full disk, or for good, like a machine that lost power. It then
// loses what such a disk would lose.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::test {

class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault { kOnce, kForGood };

  /// Counts the operations that change the disk, starting at 0. Operation number `fail_at` fails.
  FaultyFileSystem(std::int64_t fail_at, Fault fault) : fail_at_(fail_at), fault_(fault) {}

  [[nodiscard]] std::int64_t verbs() const { return verbs_; }
  /// The name of the first operation that failed (such as "fsync"); empty if none has.
  [[nodiscard]] const std::string& failed_verb() const { return failed_verb_; }
  /// Makes every operation of this name fail from now on.
  void fail_every(const std::string& verb) { fail_every_ = verb; }

  /// Acts as a power cut: files not synced since their last change lose their content.
  void drop_unsynced() {
    for (const auto& [path, synced] : synced_) {
      if (!synced && std::filesystem::exists(path)) std::filesystem::resize_file(path, 0);
    }
  }

  /// Acts as a worse power cut: new files, new folders and renames in unsynced folders are lost, but all removals have
  /// reached the disk. No order of writes is worse.
  void forget_unsynced_names() {
    while (!changes_.empty()) {
      const Change last = changes_.back();
      changes_.pop_back();
      if (!std::filesystem::exists(last.to)) continue;
      if (last.from.empty()) {
        std::filesystem::remove_all(last.to);
        continue;
      }
      std::filesystem::rename(last.to, last.from);
      for (Change& change : changes_) change.move(last.to, last.from);
      if (last.replaced) real().create(last.to)->append(last.replaced->data(), last.replaced->size());
    }
  }

  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override {
    count("create", path);
    if (!real().exists(path)) changes_.push_back({{}, path, {}});
    synced_[path.string()] = false;
    return std::make_unique<File>(*this, path, real().create(path));
  }
  std::string read(const std::filesystem::path& path, std::uint64_t most) override { return real().read(path, most); }
  bool exists(const std::filesystem::path& path) override { return real().exists(path); }
  std::vector<std::string> list(const std::filesystem::path& folder) override { return real().list(folder); }
  void make_folder(const std::filesystem::path& folder) override {
    count("make folder", folder);
    std::vector<Change> made;
    for (auto level = folder; !real().exists(level); level = level.parent_path()) made.push_back({{}, level, {}});
    changes_.insert(changes_.end(), made.rbegin(), made.rend());
    real().make_folder(folder);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    count("rename", to);
    Change change{from, to, {}};
    if (std::filesystem::is_regular_file(to)) change.replaced = real().read(to);
    real().rename(from, to);
    std::map<std::string, bool> moved;
    for (const auto& [path, synced] : synced_) moved[Change::moved(path, from, to).string()] = synced;
    synced_ = std::move(moved);
    for (Change& earlier : changes_) earlier.move(from, to);
    changes_.push_back(change);
  }
  void remove(const std::filesystem::path& path) override {
    if (fails_next()) remove_a_part(path);
    count("remove", path);
    real().remove(path);
  }
  void sync_folder(const std::filesystem::path& folder) override {
    count("fsync", folder);
    std::erase_if(changes_, [&folder](const Change& change) { return change.to.parent_path() == folder; });
  }

 private:
  /// A path that was created (`from` is empty) or that `from` was renamed to, replacing a file with the content
  /// `replaced`.
  struct Change {
    std::filesystem::path from;
    std::filesystem::path to;
    std::optional<std::string> replaced;

    /// Returns where `path` is after `source` was renamed to `target`.
    static std::filesystem::path moved(const std::filesystem::path& path, const std::filesystem::path& source,
                                       const std::filesystem::path& target) {
      const std::string text = path.string();
      const bool inside = path == source || text.starts_with(source.string() + "/");
      return inside ? std::filesystem::path(target.string() + text.substr(source.string().size())) : path;
    }
    void move(const std::filesystem::path& source, const std::filesystem::path& target) {
      to = moved(to, source, target);
    }
  };

  class File final : public WritableFile {
   public:
    File(FaultyFileSystem& owner, std::filesystem::path path, std::unique_ptr<WritableFile> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}
    void append(const void* data, std::size_t size) override {
      owner_.synced_[path_.string()] = false;
      if (owner_.fails_next()) file_->append(data, size / 2);  // a short write, then the error
      owner_.count("write", path_);
      file_->append(data, size);
    }
    void sync() override {
      owner_.count("fsync", path_);  // on a real disk, this would only take time
      owner_.synced_[path_.string()] = true;
    }

   private:
    FaultyFileSystem& owner_;
    std::filesystem::path path_;
    std::unique_ptr<WritableFile> file_;
  };

  /// An interrupted removal: part of the folder is gone.
  static void remove_a_part(const std::filesystem::path& folder) {
    const auto names = real().exists(folder / ".") ? real().list(folder) : std::vector<std::string>();
    if (!names.empty()) real().remove(folder / names.back());
  }

  static FileSystem& real() { return FileSystem::system(); }
  [[nodiscard]] bool fails_next() const {
    return fault_ == Fault::kOnce ? verbs_ == fail_at_ : verbs_ >= fail_at_ && fail_at_ >= 0;
  }
  void count(const char* verb, const std::filesystem::path& path) {
    const bool fails = fails_next() || verb == fail_every_;
    const std::int64_t number = verbs_++;
    if (!fails) return;
    if (failed_verb_.empty()) failed_verb_ = verb;
    const std::string what = fmt::format("verb {}: cannot {} {}", number, verb, path.string());
    if (std::string_view(verb) == "fsync") throw SyncError(what);
    throw IoError(what);
  }

  std::int64_t fail_at_;
  Fault fault_;
  std::int64_t verbs_ = 0;
  std::string failed_verb_;
  std::string fail_every_;
  std::map<std::string, bool> synced_;
  std::vector<Change> changes_;  ///< not yet durable, newest last
};

}  // namespace lockstep::test
