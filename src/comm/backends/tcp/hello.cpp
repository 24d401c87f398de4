// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/tcp/hello.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <charconv>

#include "lockstep/base/error.h"

namespace lockstep::comm::tcp {
namespace {

constexpr std::string_view kMagic = "lswire1";  // with the byte of the wire behind it: 8 bytes
constexpr std::size_t kClearBytes = kHelloBytes - kProofBytes;

std::string hmac(std::string_view key, std::string_view words) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(words.data()), words.size(), digest.data(), &size) == nullptr) {
    throw InternalError("OpenSSL cannot compute HMAC-SHA256");
  }
  return {digest.begin(), digest.begin() + size};
}

/// Two lists of words never give the same bytes: each word has its length before it.
void append(std::string& words, std::string_view word) {
  const auto size = static_cast<std::uint32_t>(word.size());
  for (int shift = 0; shift < 32; shift += 8) words += static_cast<char>((size >> shift) & 0xFFU);
  words += word;
}

template <class Number>
void append_number(std::string& words, Number number) {
  for (std::size_t byte = 0; byte < sizeof(Number); ++byte) {
    words += static_cast<char>((number >> (8 * byte)) & 0xFFU);
  }
}

template <class Number>
Number number_at(std::string_view words, std::size_t at) {
  Number number = 0;
  for (std::size_t byte = 0; byte < sizeof(Number); ++byte) {
    number |= static_cast<Number>(static_cast<unsigned char>(words[at + byte])) << (8 * byte);
  }
  return number;
}

std::string hello_proof(std::string_view clear, std::string_view key, std::string_view listener) {
  std::string words;
  append(words, "hello");
  append(words, clear);
  append(words, listener);
  return hmac(key, words);
}

}  // namespace

std::string make_nonce() {
  std::string bytes(kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw InternalError("the system's random generator gave no bytes");
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
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

std::string wire_key(std::string_view token, std::string_view seed) {
  std::string words;
  append(words, kMagic);
  append(words, seed);
  return hmac(token, words);
}

std::string write_hello(const Hello& hello, std::string_view key, std::string_view listener) {
  std::string words(kMagic);
  words += hello.is_encrypted ? 't' : 'p';
  append_number(words, hello.from);
  append_number(words, hello.to);
  append_number(words, hello.circle);
  words += hello.nonce;
  if (words.size() != kClearBytes) throw InternalError("a hello whose nonce has another length");
  return words + hello_proof(words, key, listener);
}

std::optional<Hello> read_hello(std::string_view words, std::string_view key, std::string_view listener) {
  if (words.size() != kHelloBytes || words.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  const char wire = words[kMagic.size()];
  if (wire != 't' && wire != 'p') return std::nullopt;
  const std::string_view clear = words.substr(0, kClearBytes);
  if (!are_equal(words.substr(kClearBytes), hello_proof(clear, key, listener))) return std::nullopt;
  return Hello{.is_encrypted = wire == 't',
               .from = number_at<std::uint32_t>(words, 8),
               .to = number_at<std::uint32_t>(words, 12),
               .circle = number_at<std::uint64_t>(words, 16),
               .nonce = std::string(words.substr(24, kNonceBytes))};
}

std::string prove_end(std::string_view key, End end, const ProofFacts& facts) {
  std::string words;
  append(words, end == End::kCaller ? "caller" : "called");
  append(words, facts.hello);
  append(words, facts.nonce);
  append(words, facts.route.caller);
  append(words, facts.route.called);
  return hmac(key, words);
}

bool are_equal(std::string_view proof, std::string_view right) {
  return proof.size() == right.size() && ::CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

std::string tls_key_of(std::string_view key, std::string_view hello, std::string_view listener) {
  std::string words;
  append(words, "tls");
  append(words, hello);
  append(words, listener);
  return hmac(key, words);
}

}  // namespace lockstep::comm::tcp
