// SPDX-License-Identifier: Apache-2.0
#include "store/handshake.h"

#include <openssl/evp.h>

#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "store/wire.h"

namespace lockstep::store {
namespace {

constexpr std::string_view kKnockLabel = " knock ";
constexpr int kKnockRounds = 65'536;

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

std::string prove(std::string_view token, Side side, const Nonces& nonces) {
  // The version and the side, then nonces of fixed length, so that different inputs always give different bytes.
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
  static std::pair<std::string, std::string> last;  // one entry is enough: a process has one token
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
