// SPDX-License-Identifier: Apache-2.0
#include "store/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "store/wire.h"

namespace lockstep::store {
namespace {

constexpr std::string_view kKnockLabel = " knock ";
constexpr int kKnockRounds = 65'536;

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

std::string make_knock_key(const std::string& token) {
  const std::string salt = std::string(kMagic).append(kKnockLabel);
  std::string key(kNonceBytes, '\0');
  if (::PKCS5_PBKDF2_HMAC(token.data(), static_cast<int>(token.size()),
                          reinterpret_cast<const unsigned char*>(salt.data()), static_cast<int>(salt.size()),
                          kKnockRounds, EVP_sha256(), static_cast<int>(key.size()),
                          reinterpret_cast<unsigned char*>(key.data())) != 1) {
    throw InternalError("OpenSSL cannot compute PBKDF2");
  }
  return key;
}

}  // namespace

std::string make_nonce() {
  std::string bytes(kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw InternalError("the system's random generator gave no bytes");
  }
  return bytes;
}

std::string prove(std::string_view token, Side side, const Nonces& nonces) {
  // The version and who speaks, then numbers of fixed length: no two sets of words give the same bytes.
  std::string words(kMagic);
  words += side == Side::kClient ? " client " : " server ";
  words += nonces.client + nonces.server + nonces.binding;
  return hmac(token, words);
}

bool is_proof(std::string_view proof, std::string_view token, Side side, const Nonces& nonces) {
  return are_equal(proof, prove(token, side, nonces));
}

std::string knock_key(const std::string& token) {
  static std::mutex mutex;
  static std::pair<std::string, std::string> last;  // a process has one token
  const std::lock_guard lock(mutex);
  if (last.first != token || last.second.empty()) last = {token, make_knock_key(token)};
  return last.second;
}

std::string knock(std::string_view key, const Nonces& nonces) {
  return hmac(key, std::string(kMagic).append(kKnockLabel) + nonces.client + nonces.server);
}

bool is_knock(std::string_view proof, std::string_view key, const Nonces& nonces) {
  return are_equal(proof, knock(key, nonces));
}

}  // namespace lockstep::store
