// SPDX-License-Identifier: Apache-2.0
// The commit protocol of several ranks, each of which writes its part.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/save/attempt.h"
#include "checkpoint/save/finite_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {
namespace {

// Converts the reports that the ranks of a save exchange to and from bytes. The functions are pure.

/// The result of one step of an attempt: the temporary or finished folder, the files that were written, or the failure.
struct SaveReport {
  std::string folder;
  std::map<std::string, FileDigest> files;
  std::optional<FailureRecord> failure = {};  ///< none if there was no error
  bool again = false;                         ///< an fsync failed, so everything must be written again, to new files
  bool not_finite = false;                    ///< the failure is a NotFiniteError

  [[nodiscard]] bool failed() const { return failure.has_value(); }
};

SaveReport report_of(const std::exception& error) {
  return {.failure = record_of(error),
          .again = dynamic_cast<const SyncError*>(&error) != nullptr,
          .not_finite = dynamic_cast<const NotFiniteError*>(&error) != nullptr};
}

std::string to_bytes(const SaveReport& report) {
  auto files = nlohmann::json::object();
  for (const auto& [name, digest] : report.files) files[name] = {digest.bytes, digest.xxh3_128};
  const nlohmann::json json = {{"folder", report.folder},
                               {"files", files},
                               {"failure", report.failure ? to_json(*report.failure) : ""},
                               {"again", report.again},
                               {"not_finite", report.not_finite}};
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);  // not JSON text: a path may not be UTF-8
  return bytes;
}

/// Parses a report. Throws: InternalError.
SaveReport save_report_from_bytes(const std::string& bytes) {
  try {
    const auto json = parse_cbor(bytes);
    SaveReport report{.folder = json.at("folder"), .again = json.at("again"), .not_finite = json.at("not_finite")};
    if (const std::string failure = json.at("failure"); !failure.empty()) report.failure = parse_failure(failure);
    for (const auto& [name, digest] : json.at("files").items()) report.files[name] = {digest.at(0), digest.at(1)};
    return report;
  } catch (const JsonError& error) {
    throw InternalError(fmt::format("a rank's report on a save is invalid: {}", error.message()));
  } catch (const nlohmann::json::exception& error) {
    throw InternalError(fmt::format("a rank's report on a save is invalid: {}", error.what()));
  }
}

/// Always throws: the error that the report describes.
[[noreturn]] void throw_report(const SaveReport& report) {
  if (report.again) throw SyncError(report.failure->message, report.failure->hint);
  if (report.not_finite) throw NotFiniteError(report.failure->message, report.failure->hint);
  rethrow(*report.failure);
}

}  // namespace
}  // namespace lockstep::checkpoint

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// One rank's part of a save. Every step ends with a report from rank 0, so that all ranks continue in the same way.
class ShardedSave {
 public:
  ShardedSave(FileSystem& files, CheckpointPeers& peers, SaveTarget target, const Content& content)
      : files_(files), peers_(peers), target_(std::move(target)), content_(content) {}

  fs::path run() {
    for (;;) {
      const SaveReport report = try_once();
      if (!report.failed()) return report.folder;
      if (!is_tried_again(report)) throw_report(report);
      if (is_main()) log::warn("{}: writing the whole checkpoint again, to new files", report.failure->message);
    }
  }

 private:
  [[nodiscard]] bool is_main() const { return peers_.rank() == 0; }

  [[nodiscard]] bool is_tried_again(const SaveReport& report) const { return report.again && attempt_ < kAttempts; }

  SaveReport try_once() {
    ++attempt_;
    std::unique_ptr<Staging> staging;
    const SaveReport begun = broadcast(begin(staging));
    if (begun.failed()) return begun;
    const std::vector<SaveReport> written = gather(write(begun.folder));
    return broadcast(is_main() ? finish(staging, written) : SaveReport{});
  }

  SaveReport begin(std::unique_ptr<Staging>& staging) {
    if (!is_main()) return {};
    try {
      staging = open_staging(files_, target_, content_);
      return {.folder = fs::absolute(staging->path()).string()};  // other ranks may have a different working directory
    } catch (const std::exception& error) {
      return explained(report_of(error));
    }
  }

  SaveReport write(const fs::path& folder) {
    try {
      require_finite(content_);
      SaveReport report{.files = write_content(files_, folder, content_, {peers_.rank(), peers_.world_size()})};
      if (content_.check) content_.check();
      return report;
    } catch (const std::exception& error) {
      return report_of(error);
    }
  }

  /// Rank 0's part: commits if all ranks have written, else returns the report of the first rank that failed.
  SaveReport finish(std::unique_ptr<Staging>& staging, const std::vector<SaveReport>& written) {
    SaveReport outcome = combine(written);
    if (!outcome.failed()) outcome = place(*staging, outcome.files);
    staging.reset();
    return explained(outcome);
  }

  /// Returns the error of the last attempt with the text for the user.
  [[nodiscard]] SaveReport explained(SaveReport report) const {
    if (!report.failed() || is_tried_again(report)) return report;
    report.failure =
        report.not_finite ? refused(files_, *report.failure, target_) : not_saved(*report.failure, target_, content_);
    return report;
  }

  [[nodiscard]] static SaveReport combine(const std::vector<SaveReport>& written) {
    SaveReport all;
    for (std::size_t rank = 0; rank < written.size(); ++rank) {
      const SaveReport& report = written[rank];
      all.files.insert(report.files.begin(), report.files.end());
      if (!report.failed() || all.failed()) continue;
      all.failure = report.failure;
      if (rank != 0) all.failure->message = fmt::format("rank {}: {}", rank, report.failure->message);
      all.again = report.again;
      all.not_finite = report.not_finite;
    }
    return all;
  }

  SaveReport place(Staging& staging, const std::map<std::string, FileDigest>& digests) {
    try {
      if (content_.check) content_.check();
      return {.folder = place_content(staging, target_.meta, peers_.world_size(), digests, placed_).string()};
    } catch (const std::exception& error) {
      return report_of(error);
    }
  }

  [[nodiscard]] SaveReport broadcast(const SaveReport& report) {
    return save_report_from_bytes(peers_.broadcast(is_main() ? to_bytes(report) : ""));
  }

  [[nodiscard]] std::vector<SaveReport> gather(const SaveReport& report) {
    std::vector<SaveReport> reports;
    for (const std::string& text : peers_.gather(to_bytes(report))) reports.push_back(save_report_from_bytes(text));
    return reports;
  }

  FileSystem& files_;
  CheckpointPeers& peers_;
  SaveTarget target_;
  const Content& content_;
  int attempt_ = 0;
  bool placed_ = false;  ///< an attempt of this save has renamed the folder into place
};

}  // namespace

fs::path commit_sharded_checkpoint(FileSystem& files, CheckpointPeers& peers, const fs::path& folder,
                                   const CheckpointMeta& meta, const ShardedContent& content) {
  const Content own_content{content.parts, content.texts, content.check, content.finite};
  if (peers.world_size() == 1) return commit_alone(files, {folder, meta}, own_content);
  return ShardedSave(files, peers, {folder, meta}, own_content).run();
}

}  // namespace lockstep
