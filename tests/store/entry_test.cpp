// SPDX-License-Identifier: Apache-2.0
#include "store/entry.h"

#include <gtest/gtest.h>

namespace lockstep::store {
namespace entry_test {

using Kind = Entry::Step::Kind;

const std::string kToken = "a token of some length";
const std::string kPlain;

// What a client says, without the frame's header.
std::string words(FrameWriter& frame) { return frame.take().substr(kHeaderBytes); }
std::string hello(const std::string& nonce, std::string_view magic = kMagic) {
  return words(FrameWriter(Verb::kHello).string(magic).string(nonce));
}
std::string said(Verb verb, const std::string& bytes) { return words(FrameWriter(verb).string(bytes)); }

Status status_of(const Entry::Step& step) {
  return step.frame.empty() ? Status::kBadRequest : static_cast<Status>(step.frame[kHeaderBytes]);
}
std::string field_of(const Entry::Step& step) {
  FrameReader answer(std::string_view(step.frame).substr(kHeaderBytes));
  (void)answer.byte();
  return answer.string();
}

// A client that has said hello.
struct Guest {
  explicit Guest(const std::string& knocks) : entry(kToken, knocks) {
    nonces.client = make_nonce();
    nonces.server = field_of(entry.take(hello(nonces.client), ""));
  }
  Entry entry;
  Nonces nonces;
};

TEST(Entry, WithoutACertificateAProofOpensIt) {
  Guest guest(kPlain);
  const auto step = guest.entry.take(said(Verb::kProve, prove(kToken, Side::kClient, guest.nonces)), "");
  EXPECT_EQ(step.kind, Kind::kKnown);
  EXPECT_TRUE(is_proof(field_of(step), kToken, Side::kServer, guest.nonces));
}

TEST(Entry, WithACertificateAKnockComesBeforeTheProof) {
  const std::string key = knock_key(kToken);
  Guest guest(key);
  EXPECT_EQ(guest.entry.take(said(Verb::kKnock, knock(key, guest.nonces)), "").kind, Kind::kEncrypt);
  guest.nonces.binding = "of the connection";
  const std::string proof = prove(kToken, Side::kClient, guest.nonces);
  EXPECT_EQ(Guest(key).entry.take(said(Verb::kProve, proof), "").kind, Kind::kRefuse) << "it did not knock";
  EXPECT_EQ(guest.entry.take(said(Verb::kProve, proof), guest.nonces.binding).kind, Kind::kKnown);
}

TEST(Entry, AProofOfAnotherConnectionIsRefused) {
  const std::string key = knock_key(kToken);
  Guest guest(key);
  (void)guest.entry.take(said(Verb::kKnock, knock(key, guest.nonces)), "");
  guest.nonces.binding = "there";
  const auto step = guest.entry.take(said(Verb::kProve, prove(kToken, Side::kClient, guest.nonces)), "here");
  EXPECT_EQ(step.kind, Kind::kRefuse);
  EXPECT_EQ(status_of(step), Status::kRefused);
}

TEST(Entry, AKnockThatWasOverheardOpensNothing) {
  const std::string key = knock_key(kToken);
  const Guest first(key);
  Guest again(key);
  const auto step = again.entry.take(said(Verb::kKnock, knock(key, first.nonces)), "");
  EXPECT_EQ(step.kind, Kind::kRefuse);
  EXPECT_EQ(status_of(step), Status::kRefused);
}

TEST(Entry, AKnockWithTheTokenItselfAsItsKeyIsRefused) {
  Guest guest(knock_key(kToken));
  EXPECT_EQ(guest.entry.take(said(Verb::kKnock, knock(kToken, guest.nonces)), "").kind, Kind::kRefuse);
}

TEST(Entry, OneSideThatEncryptsAloneHearsThatTheOtherDoesNot) {
  const std::string key = knock_key(kToken);
  Guest plain_server(kPlain);
  EXPECT_EQ(status_of(plain_server.entry.take(said(Verb::kKnock, knock(key, plain_server.nonces)), "")),
            Status::kOtherMode);
  Guest plain_client(key);
  EXPECT_EQ(
      status_of(plain_client.entry.take(said(Verb::kProve, prove(kToken, Side::kClient, plain_client.nonces)), "")),
      Status::kOtherMode);
}

TEST(Entry, AnotherVersionHearsSo) {
  Entry entry(kToken, kPlain);
  const auto step = entry.take(hello(make_nonce(), "lockstep-store/2"), "");
  EXPECT_EQ(step.kind, Kind::kRefuse);
  EXPECT_EQ(status_of(step), Status::kOtherVersion);
  EXPECT_LE(step.frame.size(), kMaxHelloBytes);
}

TEST(Entry, AnythingElseIsTurnedAway) {
  const std::string other_verb = said(Verb::kSet, "key");
  for (const std::string& body : {std::string(), std::string("GET / HTTP/1.1"), other_verb, hello("short")}) {
    EXPECT_EQ(Entry(kToken, kPlain).take(body, "").kind, Kind::kTurnAway);
  }
  for (const std::string& body : {std::string(), hello(make_nonce()), other_verb}) {
    EXPECT_EQ(Guest(kPlain).entry.take(body, "").kind, Kind::kTurnAway) << "after a hello";
  }
}

}  // namespace entry_test
}  // namespace lockstep::store
