// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>
#include <utility>

namespace lockstep::checkpoint {
namespace {

FileDigest make_digest(std::uint64_t bytes, XXH128_hash_t hash) {
  return {bytes, fmt::format("{:016x}{:016x}", hash.high64, hash.low64)};
}

}  // namespace

FileDigest digest_of(std::string_view content) {
  return make_digest(content.size(), XXH3_128bits(content.data(), content.size()));
}

ContentHash::ContentHash() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_);
}

ContentHash::~ContentHash() { XXH3_freeState(state_); }

void ContentHash::add(const void* data, std::size_t size) {
  if (size == 0) return;
  XXH3_128bits_update(state_, data, size);
  bytes_ += size;
}

FileDigest ContentHash::digest() const { return make_digest(bytes_, XXH3_128bits_digest(state_)); }

HashingFile::HashingFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

void HashingFile::append(const void* data, std::size_t size) {
  if (size == 0) return;
  file_->append(data, size);
  hash_.add(data, size);
}

FileDigest HashingFile::finish() {
  file_->sync();
  return hash_.digest();
}

}  // namespace lockstep::checkpoint
