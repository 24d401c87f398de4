// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <charconv>

#include "lockstep/base/error.h"
#include "lockstep/store/store.h"

namespace lockstep {
namespace store {

std::string make_nonce() {
  std::string bytes(kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw InternalError("the system's random number generator failed");
  }
  return bytes;
}

std::string hmac(std::string_view key, std::string_view words) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(words.data()), words.size(), digest.data(), &size) == nullptr) {
    throw InternalError("OpenSSL cannot compute HMAC-SHA256");
  }
  return {digest.begin(), digest.begin() + size};
}

bool are_equal(std::string_view proof, std::string_view right) {
  return proof.size() == right.size() && ::CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4U];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15U];
  }
  return text;
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    unsigned value = 0;
    const char* const end = text.data() + at + 2;
    if (std::from_chars(text.data() + at, end, value, 16).ptr != end) return {};
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace store

std::string make_token() { return store::to_hex(store::make_nonce()); }

}  // namespace lockstep
