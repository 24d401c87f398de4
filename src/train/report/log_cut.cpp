// SPDX-License-Identifier: Apache-2.0
#include "train/report/log_cut.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/view/run_log.h"

namespace lockstep::train {
namespace {

/// Reads a file in pieces that end with a line.
class LinePieces {
 public:
  LinePieces(ReadableFile& file, std::size_t piece) : file_(file), size_(file.size()), piece_(piece) {}

  /// Returns the next whole lines; empty after the last one, which may have no newline.
  std::string next() {
    std::string lines = std::exchange(rest_, {});
    while (at_ < size_) {
      std::string part(static_cast<std::size_t>(std::min<std::uint64_t>(piece_, size_ - at_)), '\0');
      file_.read(at_, part.data(), part.size());
      at_ += part.size();
      const std::size_t newline = part.rfind('\n');
      if (newline == std::string::npos) {
        lines += part;
        continue;
      }
      lines.append(part, 0, newline + 1);
      rest_ = part.substr(newline + 1);
      break;
    }
    return lines;
  }

 private:
  ReadableFile& file_;
  std::uint64_t size_;
  std::size_t piece_;
  std::uint64_t at_ = 0;
  std::string rest_;  ///< the beginning of a line
};

void append_text(WritableFile& to, const std::string& text) {
  if (!text.empty()) to.append(text.data(), text.size());
}

void copy_begin(ReadableFile& from, std::uint64_t size, std::size_t piece, WritableFile& to) {
  std::string text;
  for (std::uint64_t at = 0; at < size; at += text.size()) {
    text.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece, size - at)));
    from.read(at, text.data(), text.size());
    append_text(to, text);
  }
}

/// Writes the kept lines to `temporary`, which is created only if a line is dropped.
LogCut write_kept(FileSystem& files, ReadableFile& log, const std::filesystem::path& temporary,
                  const view::LogPlace& place, std::size_t piece) {
  LogCut cut;
  std::unique_ptr<WritableFile> to;
  std::uint64_t same = 0;  // bytes before the first change
  LinePieces pieces(log, piece);
  for (std::string lines = pieces.next(); !lines.empty(); lines = pieces.next()) {
    const view::KeptLog kept = view::keep_log_up_to(lines, place);
    cut.damaged += kept.damaged;
    if (!to && kept.text == lines) {
      same += lines.size();
      continue;
    }
    if (!to) {
      to = files.create(temporary);
      copy_begin(log, same, piece, *to);
    }
    append_text(*to, kept.text);
  }
  if (to) to->sync();
  cut.replaced = to != nullptr;
  return cut;
}

}  // namespace

LogCut cut_log(FileSystem& files, const std::filesystem::path& path, const view::LogPlace& place, std::size_t piece) {
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp-{}", ::getpid());
  LogCut cut;
  try {
    cut = write_kept(files, *files.open(path), temporary, place, piece);
    if (cut.replaced) files.rename(temporary, path);
  } catch (const Error&) {
    try {
      files.remove(temporary);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  const std::filesystem::path folder = path.parent_path();
  if (cut.replaced) files.sync_folder(folder.empty() ? std::filesystem::path(".") : folder);
  return cut;
}

}  // namespace lockstep::train
