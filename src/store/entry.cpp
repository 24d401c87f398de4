// SPDX-License-Identifier: Apache-2.0
#include "store/entry.h"

namespace lockstep::store {
namespace {

using Kind = Entry::Step::Kind;

Entry::Step refusal(Status status, std::string_view why) {
  return {Kind::kRefuse, FrameWriter(status).string(why).take()};
}

}  // namespace

Entry::Step Entry::take(std::string_view body, const std::string& binding) {
  FrameReader request(body);
  const auto verb = static_cast<Verb>(request.byte());
  if (nonces_.server.empty()) return greet(verb, request);
  const std::string proof = request.string();
  if (!request.complete() || (verb != Verb::kKnock && verb != Verb::kProve)) return {};
  const bool expects_knock = !knocks_.empty() && !has_knocked_;
  if ((verb == Verb::kKnock) != expects_knock) {
    return refusal(Status::kOtherMode, knocks_.empty() ? "not encrypted" : "encrypted");
  }
  if (expects_knock) return take_knock(proof);
  nonces_.binding = binding;
  return take_proof(proof);
}

Entry::Step Entry::greet(Verb verb, FrameReader& request) {
  const std::string magic = request.string();
  nonces_.client = request.string();
  if (verb != Verb::kHello || !request.complete() || nonces_.client.size() != kNonceBytes) return {};
  if (magic != kMagic) return refusal(Status::kOtherVersion, kMagic);
  nonces_.server = make_nonce();
  return {Kind::kAnswer, FrameWriter(Status::kOk).string(nonces_.server).take()};
}

Entry::Step Entry::take_knock(const std::string& proof) {
  if (!is_knock(proof, knocks_, nonces_)) return refusal(Status::kRefused, "wrong token");
  has_knocked_ = true;
  return {Kind::kEncrypt, FrameWriter(Status::kOk).string("").take()};
}

Entry::Step Entry::take_proof(const std::string& proof) {
  if (!is_proof(proof, token_, Side::kClient, nonces_)) return refusal(Status::kRefused, "wrong token");
  return {Kind::kKnown, FrameWriter(Status::kOk).string(prove(token_, Side::kServer, nonces_)).take()};
}

}  // namespace lockstep::store
