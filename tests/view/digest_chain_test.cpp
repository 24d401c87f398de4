// SPDX-License-Identifier: Apache-2.0
// digests.bin: round trips, and dropping the leftovers of a kill.
#include "lockstep/view/digest_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::view {
namespace digest_chain_test {

using ::testing::HasSubstr;

DigestRecord record(std::int64_t step, std::uint64_t weights = 7) {
  return {
      .step = step, .loss = 0xFFFF'0000'FFFF'0000, .gradients = static_cast<std::uint64_t>(step), .weights = weights};
}

void write(const std::filesystem::path& folder, std::int64_t from, std::int64_t to, const DigestBegin& begin = {}) {
  DigestWriter writer(folder, begin);
  for (std::int64_t step = from; step <= to; ++step) writer.add(record(step));
}

std::string bytes_of(const std::filesystem::path& folder) { return FileSystem::system().read(folder / kDigestFile); }

TEST(DigestChain, ReadsWhatWasWritten) {
  const test::TempDir folder;
  write(folder.path(), 1, 3);
  const DigestChain chain = DigestChain::load(folder.path());
  EXPECT_THAT(chain.records(), ::testing::ElementsAre(record(1), record(2), record(3)));
  EXPECT_EQ(*chain.at(2), record(2));
  EXPECT_EQ(chain.at(4), nullptr);
  EXPECT_EQ(bytes_of(folder.path()).size(), 4 * 32U);
}

TEST(DigestChain, GoesOnBehindItsCheckpointAsIfNothingHadCome) {
  const test::TempDir straight;
  const test::TempDir resumed;
  write(straight.path(), 1, 9);
  write(resumed.path(), 1, 7);
  const std::uint64_t fold = DigestChain::load(resumed.path()).fold_up_to(5);
  write(resumed.path(), 6, 9, {.step = 5, .fold = fold});
  EXPECT_EQ(bytes_of(resumed.path()), bytes_of(straight.path()));
}

TEST(DigestChain, GoesOnInAnotherFolderWithTheSameFold) {
  const test::TempDir first;
  const test::TempDir second;
  write(first.path(), 1, 9);
  const DigestChain whole = DigestChain::load(first.path());
  write(second.path(), 6, 9, {.step = 5, .fold = whole.fold_up_to(5)});
  const DigestChain rest = DigestChain::load(second.path());
  EXPECT_EQ(rest.begin().step, 5);
  EXPECT_EQ(rest.fold_up_to(9), whole.fold_up_to(9));
  EXPECT_EQ(common_steps(whole, rest), 4);
  EXPECT_EQ(first_difference(whole, rest), std::nullopt);
}

TEST(DigestChain, EndsBeforeARecordThatIsTornOrDamaged) {
  const test::TempDir folder;
  write(folder.path(), 1, 5);
  const std::string whole = bytes_of(folder.path());
  EXPECT_EQ(DigestChain::parse(whole.substr(0, whole.size() - 1), "x").records().size(), 4U);
  for (std::size_t bit = 0; bit < 32 * 8; ++bit) {
    std::string damaged = whole;
    damaged[3 * 32 + bit / 8] = static_cast<char>(damaged[3 * 32 + bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DigestChain::parse(damaged, "x").records().size(), 2U) << bit;
  }
}

TEST(DigestChain, RefusesWhatIsNoChain) {
  const test::TempDir folder;
  write(folder.path(), 1, 2);
  const std::string whole = bytes_of(folder.path());
  std::string other = whole;
  other[8] = 9;
  std::string damaged = whole;
  damaged[20] = 1;
  EXPECT_THAT(test::fault_of<DataError>([&] { (void)DigestChain::parse("", "x.bin"); }),
              HasSubstr("x.bin is not a digest file"));
  EXPECT_THAT(test::fault_of<DataError>([&] { (void)DigestChain::parse(other, "x.bin"); }),
              HasSubstr("x.bin has version 9"));
  EXPECT_THAT(test::fault_of<DataError>([&] { (void)DigestChain::parse(damaged, "x.bin"); }), HasSubstr("damaged"));
}

TEST(DigestChain, ThatLeadsElsewhereIsKeptUnderAnotherName) {
  const test::TempDir folder;
  write(folder.path(), 1, 7);
  const std::string before = bytes_of(folder.path());
  write(folder.path(), 6, 7, {.step = 5, .fold = 1});
  EXPECT_EQ(FileSystem::system().read(folder.path() / kOldDigestFile), before);
  EXPECT_EQ(DigestChain::load(folder.path()).begin().fold, 1U);
  EXPECT_THAT(DigestChain::load(folder.path()).records(), ::testing::ElementsAre(record(6), record(7)));
}

TEST(DigestChain, MayLackSteps) {
  const test::TempDir folder;
  write(folder.path(), 1, 3);
  write(folder.path(), 8, 9, {.step = 7, .fold = DigestChain::load(folder.path()).fold_up_to(7)});
  EXPECT_THAT(DigestChain::load(folder.path()).records(),
              ::testing::ElementsAre(record(1), record(2), record(3), record(8), record(9)));
}

TEST(DigestChain, FindsTheFirstStepThatDiffers) {
  const test::TempDir a;
  const test::TempDir b;
  write(a.path(), 1, 5);
  DigestWriter writer(b.path(), {});
  for (const DigestRecord& one : {record(1), record(2), record(4, 8), record(5, 9)}) writer.add(one);
  const auto found = first_difference(DigestChain::load(a.path()), DigestChain::load(b.path()));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->a, record(4));
  EXPECT_EQ(found->b, record(4, 8));
}

TEST(DigestChain, FoldsStepsInTheirOrder) {
  const std::uint64_t one = fold_digest(fold_digest(0, record(1)), record(2));
  EXPECT_NE(one, fold_digest(fold_digest(0, record(2)), record(1)));
  EXPECT_NE(one, fold_digest(fold_digest(0, record(1)), record(2, 8)));
}

TEST(DigestChain, IsReadOnAsItGrows) {
  const test::TempDir folder;
  write(folder.path(), 1, 5);
  const std::string bytes = bytes_of(folder.path());
  DigestChain chain = DigestChain::parse(bytes.substr(0, 3 * 32 + 5), "x");
  EXPECT_EQ(chain.records().size(), 2U);
  chain.read_on(std::string_view(bytes).substr(chain.whole_bytes()));
  EXPECT_EQ(chain.records(), DigestChain::parse(bytes, "x").records());
  chain.read_on(std::string_view(bytes).substr(32));  // steps it already has
  EXPECT_EQ(chain.records().size(), 5U);
}

}  // namespace digest_chain_test
}  // namespace lockstep::view
