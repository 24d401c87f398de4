// SPDX-License-Identifier: Apache-2.0
// The commit protocol of several ranks, of which each writes its part.
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/save/attempt.h"
#include "checkpoint/save/finite_check.h"
#include "checkpoint/save/save_reports.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

/// One rank's part of a save. Every step ends with rank 0's report, so that all ranks do the same.
class ShardedSave {
 public:
  ShardedSave(FileSystem& files, CheckpointPeers& peers, SaveTarget target, const Content& content)
      : files_(files), peers_(peers), target_(std::move(target)), content_(content) {}

  fs::path run() {
    for (;;) {
      const SaveReport report = try_once();
      if (!report.failed()) return report.folder;
      if (!is_tried_again(report)) throw_report(report);
      if (is_main()) log::warn("{}: all of it is written again, to new files", report.failure->message);
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
      return {.folder = fs::absolute(staging->path()).string()};  // the other ranks may run in another folder
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

  /// Does rank 0's part: everything is there, or the first rank that failed says why not.
  SaveReport finish(std::unique_ptr<Staging>& staging, const std::vector<SaveReport>& written) {
    SaveReport outcome = combine(written);
    if (!outcome.failed()) outcome = place(*staging, outcome.files);
    staging.reset();
    return explained(outcome);
  }

  /// Returns the error of the last attempt, in the words that the user reads.
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
  bool placed_ = false;  ///< placed by an attempt of this save
};

}  // namespace

fs::path commit_sharded_checkpoint(FileSystem& files, CheckpointPeers& peers, const fs::path& folder,
                                   const CheckpointMeta& meta, const ShardedContent& content) {
  const Content mine{content.parts, content.texts, content.check, content.finite};
  if (peers.world_size() == 1) return commit_alone(files, {folder, meta}, mine);
  return ShardedSave(files, peers, {folder, meta}, mine).run();
}

}  // namespace lockstep
