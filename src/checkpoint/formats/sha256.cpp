// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

void check(int ok) {
  if (ok != 1) throw InternalError("OpenSSL cannot compute SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ != nullptr ? EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) : 0);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::update(std::string_view bytes) { check(EVP_DigestUpdate(context_, bytes.data(), bytes.size())); }

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(context_, digest.data(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace lockstep::checkpoint
