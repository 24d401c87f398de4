// SPDX-License-Identifier: Apache-2.0
#include "wire/hello.h"

#include "lockstep/base/error.h"

namespace lockstep::wire {
namespace {

constexpr std::string_view kMagic = "lswire1";  // 7 bytes; a byte for the encryption follows
constexpr std::size_t kClearBytes = kHelloBytes - kProofBytes;

/// Appends a word preceded by its length, so that different lists of words never give the same bytes.
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
  if (words.size() != kClearBytes) throw InternalError("a hello message whose nonce has the wrong length");
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

std::string tls_key_of(std::string_view key, std::string_view hello, std::string_view listener) {
  std::string words;
  append(words, "tls");
  append(words, hello);
  append(words, listener);
  return hmac(key, words);
}

}  // namespace lockstep::wire
