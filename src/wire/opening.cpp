// SPDX-License-Identifier: Apache-2.0
#include "wire/opening.h"

#include <algorithm>
#include <utility>

namespace lockstep::wire {

Opening::Opening(End end, Facts facts, bool is_encrypted, std::string hello)
    : end_(end), facts_(std::move(facts)), is_encrypted_(is_encrypted), hello_(std::move(hello)) {
  if (is_encrypted_) step_ = Step::kOpen;
}

Opening Opening::call(Facts facts, const Hello& hello) {
  std::string words = write_hello(hello, facts.key, facts.listener);
  Opening opening(End::kCaller, std::move(facts), hello.is_encrypted, std::move(words));
  opening.to_send_ = opening.hello_;
  return opening;
}

Opening Opening::answer(Facts facts, const Hello& hello, std::string words) {
  Opening opening(End::kCalled, std::move(facts), hello.is_encrypted, std::move(words));
  if (hello.is_encrypted) return opening;
  opening.nonce_ = make_nonce();
  const ProofFacts proved{opening.hello_, opening.nonce_, opening.facts_.route};
  opening.to_send_ = opening.nonce_ + prove_end(opening.facts_.key, End::kCalled, proved);
  return opening;
}

std::size_t Opening::arrived(std::string_view bytes) {
  const std::size_t taken = std::min(bytes.size(), missing());
  wanted_ += bytes.substr(0, taken);
  if (taken > 0 && missing() == 0) judge();
  return taken;
}

std::size_t Opening::missing() const noexcept {
  if (step_ != Step::kUnderWay) return 0;
  return (end_ == End::kCaller ? kNonceBytes + kProofBytes : kProofBytes) - wanted_.size();
}

void Opening::judge() {
  if (end_ == End::kCaller) nonce_ = wanted_.substr(0, kNonceBytes);
  const std::string_view proof = std::string_view(wanted_).substr(end_ == End::kCaller ? kNonceBytes : 0);
  const ProofFacts proved{hello_, nonce_, facts_.route};
  const End other = end_ == End::kCaller ? End::kCalled : End::kCaller;
  if (!are_equal(proof, prove_end(facts_.key, other, proved))) {
    step_ = Step::kRefused;
    return;
  }
  if (end_ == End::kCaller) to_send_ += prove_end(facts_.key, End::kCaller, proved);
  step_ = Step::kOpen;
}

std::string Opening::words() { return std::exchange(to_send_, {}); }

}  // namespace lockstep::wire
