// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/demo_page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 64U << 20U;

std::string base64(std::string_view bytes) {
  constexpr std::size_t kPart = 3U << 20U;  // OpenSSL's lengths are int
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  auto* out = reinterpret_cast<unsigned char*>(text.data());
  for (std::size_t from = 0; from < bytes.size(); from += kPart) {
    const std::string_view part = bytes.substr(from, kPart);
    out += EVP_EncodeBlock(out, reinterpret_cast<const unsigned char*>(part.data()), static_cast<int>(part.size()));
  }
  text.pop_back();
  return text;
}

void put(std::string& page, std::string_view mark, const std::string& text) {
  const std::size_t at = page.find(mark);
  if (at == std::string::npos) throw InternalError(fmt::format("demo.html has no {}", mark));
  page.replace(at, mark.size(), text);
}

}  // namespace

DemoParts read_demo_parts() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const fs::path folder = program.parent_path().parent_path() / "share/lockstep/network";
  if (!fs::exists(folder / "demo.html")) {
    throw UsageError(fmt::format("{} has no demo.html: this Lockstep was built without npm", folder.string()),
                     "build it with Node.js and npm (Debian: apt install nodejs npm), or end --to with .onnx");
  }
  FileSystem& files = FileSystem::system();
  return {files.read(folder / "demo.html", kMostBytes), files.read(folder / "runtime.wasm.gz", kMostBytes)};
}

std::string demo_page(const DemoParts& parts, std::string_view model) {
  std::string page = parts.page;
  put(page, "@RUNTIME@", base64(parts.runtime));
  put(page, "@MODEL@", base64(model));
  return page;
}

}  // namespace lockstep::worker
