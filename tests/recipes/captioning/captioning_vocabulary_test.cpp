// SPDX-License-Identifier: Apache-2.0
// Words and ids: the same vocabulary from the same captions, files as the origin has them, refusals that name the line.
#include "captioning/data/vocabulary.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_vocabulary_test {

using test::fault_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<CaptionedImage> images() {
  return {{.id = "1", .file = {}, .captions = {"A dog runs.", "a cat sits, a dog runs"}},
          {.id = "2", .file = {}, .captions = {"The zebra eats a cat!"}}};
}

std::string fault_of_text(const std::string& text) {
  return fault_of<DataError>([&] { (void)Vocabulary::from_text(text, "words.txt"); });
}

TEST(Vocabulary, HasFrequentWordsFirstAndEqualOnesByTheirBytes) {
  // a 4, cat dog runs 2 each, eats sits the zebra 1 each.
  EXPECT_EQ(Vocabulary::of(images(), 1).to_text(), "a\ncat\ndog\nruns\neats\nsits\nthe\nzebra\n");
}

TEST(Vocabulary, PutsRareWordsTogetherUnderTheLastId) {
  const Vocabulary vocabulary = Vocabulary::of(images(), 2);
  EXPECT_EQ(vocabulary.to_text(), "a\ncat\ndog\nruns\nUNK\n");
  EXPECT_EQ(vocabulary.size(), 6);
  EXPECT_THAT(vocabulary.ids_of({"a", "zebra", "runs"}), ElementsAre(1, 5, 4));
  EXPECT_FALSE(vocabulary.has("zebra"));
  EXPECT_TRUE(vocabulary.has("dog"));
}

TEST(Vocabulary, IsTheSameOfTheSameCaptionsInAnyOrder) {
  std::vector<CaptionedImage> turned = images();
  std::swap(turned[0], turned[1]);
  EXPECT_EQ(Vocabulary::of(turned, 1).difference(Vocabulary::of(images(), 1)), "");
}

TEST(Vocabulary, CountsIdsFromOneAndEndsSentencesWithZero) {
  const Vocabulary vocabulary = Vocabulary::from_text("dog\ncat\n", "words.txt");
  EXPECT_EQ(vocabulary.size(), 3);
  EXPECT_EQ(vocabulary.word(0), ".");
  EXPECT_EQ(vocabulary.word(1), "dog");
  EXPECT_EQ(vocabulary.find("cat"), 2);
  EXPECT_EQ(vocabulary.find("cow"), std::nullopt);
  const Ids ids{2, 1, 1, 0, 2};
  EXPECT_EQ(vocabulary.text_of(ids.data(), 5), "cat dog dog");
  EXPECT_EQ(vocabulary.text_of(ids.data(), 2), "cat dog");
  EXPECT_EQ(vocabulary.text_of(ids.data() + 3, 2), "");
  EXPECT_EQ(fault_of<UsageError>([&] { (void)vocabulary.word(3); }), "word id 3 of a vocabulary of 3 ids");
  EXPECT_EQ(fault_of<UsageError>([&] { (void)vocabulary.word(-1); }), "word id -1 of a vocabulary of 3 ids");
}

TEST(Vocabulary, NamesAWordThatItDoesNotHave) {
  const Vocabulary vocabulary = Vocabulary::from_text("dog\ncat\n", "words.txt");
  EXPECT_EQ(fault_of<DataError>([&] {
              (void)vocabulary.ids_of({"dog", "cow"});
            }),
            "the word 'cow' is not among the 2 of the vocabulary\n  next  add it to the vocabulary, or a last line UNK "
            "for all such words");
}

TEST(Vocabulary, ReadsWhatItWritesAndFilesOfOtherSystems) {
  const Vocabulary vocabulary = Vocabulary::of(images(), 2);
  EXPECT_EQ(Vocabulary::from_text(vocabulary.to_text(), "").difference(vocabulary), "");
  EXPECT_EQ(Vocabulary::from_text("\xef\xbb\xbf"
                                  "caf\xc3\xa9\r\ndog",
                                  "")
                .to_text(),
            "caf\xc3\xa9\ndog\n");
  const test::TempDir folder;
  std::ofstream(folder / "words.txt") << vocabulary.to_text();
  EXPECT_EQ(Vocabulary::from_file(folder / "words.txt").difference(vocabulary), "");
}

TEST(Vocabulary, SaysHowAnotherDiffers) {
  const Vocabulary one = Vocabulary::from_text("dog\ncat\n", "");
  EXPECT_EQ(one.difference(one), "");
  EXPECT_EQ(one.difference(Vocabulary::from_text("dog\ncow\n", "")), "word 2 is 'cat' against 'cow'");
  EXPECT_EQ(one.difference(Vocabulary::from_text("dog\ncat\ncow\n", "")),
            "2 words against 3: word 3 is none against 'cow'");
}

TEST(Vocabulary, RefusesFilesThatAreNone) {
  EXPECT_EQ(fault_of_text(""), "vocabulary words.txt is empty\n  next  write one word a line");
  EXPECT_EQ(fault_of_text("a\n\nb\n"),
            "vocabulary words.txt: line 2 is blank\n  next  a vocabulary has one word a line, and each word once");
  EXPECT_THAT(fault_of_text("a\nb\na\n"),
              HasSubstr("vocabulary words.txt: line 3 is 'a', which stands in line 1 already"));
  EXPECT_THAT(fault_of_text("a\r\r\nb\n"), HasSubstr("line 1 is 'a?': more than one word"));
  EXPECT_THAT(fault_of_text("a\nbig dog\n"), HasSubstr("line 2 is 'big dog': more than one word"));
  EXPECT_EQ(fault_of_text("a\nb\xff\n"), "vocabulary words.txt: line 2 is no UTF-8");
  EXPECT_THAT(fault_of<DataError>([] { (void)Vocabulary::from_file("/nowhere/words.txt"); }),
              HasSubstr("/nowhere/words.txt"));
}

TEST(Vocabulary, ShowsNoMoreOfABadFileThanALine) {
  const std::string line(1'000'000, 'x');
  EXPECT_THAT(fault_of_text(line + " " + line), HasSubstr("line 1 is '" + line.substr(0, 40) + "...': more than one"));
  EXPECT_THAT(fault_of_text(line + "\n" + line), HasSubstr("line 2 is '" + line.substr(0, 40) + "...', which stands"));
  EXPECT_THAT(fault_of_text("a\x1b[2J b"), HasSubstr("line 1 is 'a?[2J b': more than one word"));
}

TEST(Vocabulary, RefusesCaptionsThatLeaveNoWord) {
  EXPECT_THAT(fault_of<DataError>([] { (void)Vocabulary::of(images(), 5); }),
              HasSubstr("no word occurs 5 times in the captions of 2 pictures"));
}

}  // namespace captioning_vocabulary_test
}  // namespace lockstep::captioning
