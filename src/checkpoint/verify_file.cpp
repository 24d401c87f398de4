// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/verify_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/read_file.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/zip_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

void verify_zip(const FileBytes& bytes, FileReport& report) {
  const auto members = parse_zip(bytes.view());
  if (!members) {
    report.parts.push_back({report.path.string(), members.error()});
    return;
  }
  for (const ZipMember& member : *members) report.parts.push_back({member.name, check_member(bytes.view(), member)});
  report.proof = fmt::format("a CRC-32 of each of {} members", members->size());
}

void verify_safetensors(const FileBytes& bytes, FileReport& report) {
  std::string problem;
  try {
    (void)state_from_bytes(bytes, "");
  } catch (const DataError& error) {
    problem = error.message().substr(error.message().find_first_not_of(": "));
  }
  report.parts.push_back({report.path.string(), problem});
  report.proof = "its header fits its bytes; the format has no checksum";
}

}  // namespace

bool FileReport::ok() const {
  return std::all_of(parts.begin(), parts.end(), [](const FileCheck& part) { return part.problem.empty(); });
}

FileReport verify_file(FileSystem& files, const fs::path& path) {
  FileReport report{path, {}, 0, {}};
  const FileBytes bytes = read_file(files, path);
  report.bytes = bytes.size;
  const std::string ending = path.extension().string();
  const bool named_zip = ending == ".pth" || ending == ".pt" || ending == ".npz" || ending == ".zip";
  if (ending == ".safetensors") {
    verify_safetensors(bytes, report);
  } else if (is_zip(bytes.view()) || named_zip) {
    verify_zip(bytes, report);
  } else {
    throw DataError(fmt::format("{} is neither a zip file (.pth, .npz) nor .safetensors", path.string()),
                    "a checkpoint is a folder: give a step folder, a run folder or RUN:NAME");
  }
  return report;
}

std::string to_text(const FileReport& report) {
  if (report.ok()) {
    return fmt::format("{}: whole ({}; {})\n", report.path.string(), text::bytes(report.bytes), report.proof);
  }
  std::string text;
  for (const FileCheck& part : report.parts) {
    if (part.problem.empty()) continue;
    const bool itself = part.file == report.path.string();
    text += itself ? fmt::format("{}: {}\n", part.file, part.problem)
                   : fmt::format("{}: '{}': {}\n", report.path.string(), part.file, part.problem);
  }
  return text;
}

}  // namespace lockstep
