// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/verify_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "checkpoint/formats/read_file.h"
#include "checkpoint/formats/safetensors_file.h"
#include "checkpoint/torch/torch_file_bytes.h"
#include "checkpoint/torch/zip_parse.h"
#include "checkpoint/weights/weight_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace fs = std::filesystem;
using namespace checkpoint;  // NOLINT(google-build-using-namespace): this file is of that namespace

namespace {

constexpr std::string_view kTorchPickle = "/data.pkl";

bool has_ending(const fs::path& path, std::initializer_list<std::string_view> endings) {
  const std::string ending = path.extension().string();
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

/// Returns the error of `read` without the leading path; "" if it accepts the file.
template <class F>
std::string refusal_of(const FileReport& report, F&& read) {
  try {
    (void)read();
    return "";
  } catch (const DataError& error) {
    const std::string path = report.path.string();
    const std::string& message = error.message();
    const std::string rest = message.starts_with(path) ? message.substr(path.size()) : message;
    return rest.substr(std::min(rest.find_first_not_of(": "), rest.size()));
  }
}

void add_itself(FileReport& report, std::string problem) {
  report.parts.push_back({report.path.string(), std::move(problem)});
}

bool is_torch_file(const FileReport& report, const std::vector<ZipMember>& members) {
  return has_ending(report.path, {".pth", ".pt", ".bin"}) ||
         std::any_of(members.begin(), members.end(),
                     [](const ZipMember& member) { return member.name.ends_with(kTorchPickle); });
}

/// Returns the reason why the members must not be unpacked; "" if they may be.
std::string packing_problem(const FileBytes& bytes, const std::vector<ZipMember>& members) {
  std::uint64_t unpacked = 0;
  for (const ZipMember& member : members) {
    if (member.deflated) unpacked += member.bytes;
    if (std::string problem = unpacked_problem(bytes.size, unpacked); !problem.empty()) return problem;
  }
  return "";
}

/// Checks a zip file. Also parses a torch file, because a malicious file can have correct checksums.
void verify_zip(FileSystem& files, FileReport& report) {
  FileBytes bytes;
  const std::string refusal = refusal_of(report, [&] { return bytes = read_zip_file(files, report.path); });
  if (!refusal.empty()) return add_itself(report, refusal);
  const auto members = parse_zip(bytes.view());
  if (!members) return add_itself(report, members.error());
  if (members->empty()) return add_itself(report, "an empty zip file");
  const bool is_torch = is_torch_file(report, *members);
  if (is_torch) {
    if (std::string problem = packing_problem(bytes, *members); !problem.empty()) return add_itself(report, problem);
  }
  for (const ZipMember& member : *members) report.parts.push_back({member.name, check_member(bytes.view(), member)});
  report.proof = fmt::format("a CRC-32 of each of {} members", members->size());
  if (!is_torch || !report.ok()) return;
  const std::string problem = refusal_of(report, [&] { return torch_file_of(bytes, report.path.string()); });
  if (!problem.empty()) add_itself(report, problem);
  report.proof += "; it holds tensors and plain values only";
}

void verify_safetensors(FileSystem& files, FileReport& report) {
  add_itself(report, refusal_of(report, [&] { return outline_of(*files.open(report.path), report.path.string()); }));
  report.proof = "its header matches its size; the format has no checksum";
}

void verify_index(FileSystem& files, FileReport& report) {
  add_itself(report, refusal_of(report, [&] { return read_weight_file(files, report.path); }));
  report.proof = "each name is in its file, and each header matches the size of its file; the format has no checksum";
}

}  // namespace

bool FileReport::ok() const {
  return std::all_of(parts.begin(), parts.end(), [](const FileCheck& part) { return part.problem.empty(); });
}

FileReport verify_file(FileSystem& files, const fs::path& path) {
  FileReport report{path, {}, 0, {}};
  const auto file = files.open(path);
  report.bytes = file->size();
  std::string front(std::min<std::uint64_t>(4, file->size()), '\0');
  file->read(0, front.data(), front.size());
  if (has_ending(path, {".safetensors"})) {
    verify_safetensors(files, report);
  } else if (has_ending(path, {".json"})) {
    verify_index(files, report);
  } else if (is_zip(front) || has_ending(path, {".pth", ".pt", ".npz", ".zip"})) {
    verify_zip(files, report);
  } else {
    throw DataError(fmt::format("{} is neither a zip file (.pth, .npz), a .safetensors file nor an index of such files",
                                path.string()),
                    "a checkpoint is a folder: use a step folder, a run folder or RUN:NAME");
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
