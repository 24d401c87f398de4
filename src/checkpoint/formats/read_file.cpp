// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/read_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "checkpoint/formats/hash.h"
#include "checkpoint/formats/shared_read.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kReadBlock = 256U << 10U;  // a block is hashed while it is still in the core's L2 cache
constexpr std::size_t kHugePage = 2U << 20U;
constexpr std::size_t kLineBytes = 64;

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

/// Allocates memory in huge pages if the kernel supports them: page faults for small pages take as long as copying the
/// file.
FileBytes map_memory(std::size_t size) {
  const std::size_t mapped = round_up(size, kHugePage) + kHugePage;
  void* start = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    const int error = errno;
    throw shortage_error(fmt::format("allocate {} to read a file", text::bytes(size)), error);
  }
  auto* aligned = reinterpret_cast<char*>(round_up(reinterpret_cast<std::size_t>(start), kHugePage));
  (void)::madvise(aligned, mapped - kHugePage, MADV_HUGEPAGE);
  return {std::shared_ptr<char>(aligned, [start, mapped](char*) { ::munmap(start, mapped); }), size};
}

}  // namespace

FileBytes allocate_bytes(std::size_t size) {
  if (size >= kHugePage) return map_memory(size);
  auto* memory =
      static_cast<char*>(std::aligned_alloc(kLineBytes, round_up(std::max<std::size_t>(size, 1), kLineBytes)));
  if (memory == nullptr) throw std::bad_alloc();
  return {std::shared_ptr<char>(memory, [](char* bytes) { std::free(bytes); }), size};
}

FileBytes read_file(FileSystem& files, const std::filesystem::path& path, FileDigest* digest) {
  const auto file = files.open(path);
  FileBytes bytes = allocate_bytes(file->size());
  if (digest != nullptr && bytes.size >= kSharedReadBytes) {
    *digest = read_with_two_threads(*file, bytes);
    return bytes;
  }
  ContentHash hash;
  for (std::size_t at = 0; at < bytes.size; at += kReadBlock) {
    const std::size_t piece = std::min(kReadBlock, bytes.size - at);
    file->read(at, bytes.data.get() + at, piece);
    if (digest != nullptr) hash.add(bytes.data.get() + at, piece);
  }
  if (digest != nullptr) *digest = hash.digest();
  return bytes;
}

FileDigest hash_file(FileSystem& files, const std::filesystem::path& path) {
  const auto file = files.open(path);
  const FileBytes block = allocate_bytes(kReadBlock);
  ContentHash hash;
  for (std::uint64_t at = 0; at < file->size(); at += kReadBlock) {
    const std::size_t piece = std::min<std::uint64_t>(kReadBlock, file->size() - at);
    file->read(at, block.data.get(), piece);
    hash.add(block.data.get(), piece);
  }
  return hash.digest();
}

}  // namespace lockstep::checkpoint
