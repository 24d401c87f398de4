// SPDX-License-Identifier: Apache-2.0
// Words of captions, and scores against published examples and against a direct computation
// (golden/captioning_scores.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "captioning/metrics/meteor.h"
#include "captioning/metrics/overlap_scores.h"
#include "captioning/metrics/scores.h"
#include "captioning/metrics/tokens.h"
#include "lockstep/base/error.h"
#include "support/fault_of.h"
#include "support/sanitizer.h"

namespace lockstep::captioning {
namespace captioning_scores_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A limit for tests that take less than a second, or a few seconds under a sanitizer, but minutes with a bug.
constexpr int kMostSeconds = test::kAnySanitizer ? 100 : 10;

WordedCaption worded(std::int64_t index, const std::string& hypothesis, const std::vector<std::string>& references) {
  WordedCaption caption{.index = index, .hypothesis = words_of(hypothesis), .references = {}};
  for (const std::string& one : references) caption.references.push_back(words_of(one));
  return caption;
}

nlohmann::json golden_cases() {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/captioning_scores.json");
  return nlohmann::json::parse(file);
}

std::vector<ScoredCaption> captions_of(const nlohmann::json& one) {
  std::vector<ScoredCaption> captions;
  for (std::size_t i = 0; i < one["hypotheses"].size(); ++i) {
    captions.push_back({.index = static_cast<std::int64_t>(i),
                        .hypothesis = one["hypotheses"][i].get<Ids>(),
                        .references = one["references"][i].get<std::vector<Ids>>()});
  }
  return captions;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double one : values) sum += one;
  return sum / static_cast<double>(values.size());
}

TEST(CaptioningTokens, AreLowerCaseWordsWithoutPunctuation) {
  EXPECT_THAT(words_of("A man, riding a  horse."), ElementsAre("a", "man", "riding", "a", "horse"));
  EXPECT_THAT(words_of("\tTwo dogs (brown; white) -- \"good\" dogs!?\r\n"),
              ElementsAre("two", "dogs", "brown", "white", "good", "dogs"));
  EXPECT_THAT(words_of("Stop...now a.b ``quoted'' [x] {y} -LRB- z -RRB-"),
              ElementsAre("stop", "now", "a", "b", "quoted", "x", "y", "z"));
  EXPECT_THAT(words_of(" .,;:!?-- ' - '' "), IsEmpty());
  EXPECT_THAT(words_of(""), IsEmpty());
}

TEST(CaptioningTokens, KeepHyphensAndApostrophesInsideWordsAndPointsInsideNumbers) {
  EXPECT_THAT(words_of("a black-and-white t-shirt at 5 o'clock"),
              ElementsAre("a", "black-and-white", "t-shirt", "at", "5", "o'clock"));
  EXPECT_THAT(words_of("3.5 of 1,000 at 10:30. -4 dogs' 'tis"),
              ElementsAre("3.5", "of", "1,000", "at", "10:30", "4", "dogs", "tis"));
}

TEST(CaptioningTokens, SplitWhatIsTackedOnToAWord) {
  EXPECT_THAT(words_of("The dog's tail isn't long, they're LONGER, I'd've"),
              ElementsAre("the", "dog", "'s", "tail", "is", "n't", "long", "they", "'re", "longer", "i", "'d", "'ve"));
  EXPECT_THAT(words_of("'s n't -'s"), ElementsAre("'s", "n't", "'s"));
}

TEST(CaptioningTokens, AreInLowerCaseInEveryAlphabet) {
  EXPECT_THAT(words_of("Test en FRANÇAIS."), ElementsAre("test", "en", "français"));
  EXPECT_THAT(words_of("ÀÖØÞ×ß ÿŸ ŠŁŻ Žž ĀĶĸ İı"), ElementsAre("àöøþ×ß", "ÿÿ", "šłż", "žž", "āķĸ", "iı"));
  EXPECT_THAT(words_of("ΆΈΊΌΎΏ ΑΡΣΩΫ άω"), ElementsAre("άέίόύώ", "αρσωϋ", "άω"));
  EXPECT_THAT(words_of("ЁЏ АЯ ҐӁӮ яё"), ElementsAre("ёџ", "ая", "ґӂӯ", "яё"));
  EXPECT_THAT(words_of("テスト"), ElementsAre("テスト"));
}

TEST(CaptioningTokens, DropThePunctuationOfOtherLanguages) {
  EXPECT_THAT(words_of("狗，猫。鸟、鱼！牛？羊；马：（鹿）《虎》“兔”"),
              ElementsAre("狗", "猫", "鸟", "鱼", "牛", "羊", "马", "鹿", "虎", "兔"));
  EXPECT_THAT(words_of("„Hund“ «chien» a–b c—d…"), ElementsAre("hund", "chien", "a", "b", "c", "d"));
}

TEST(CaptioningTokens, CountTheLettersOfTextsWithoutSpaces) {
  EXPECT_EQ(unspaced_letters("一只狗在草地上"), 7);
  EXPECT_EQ(unspaced_letters("いぬx"), 2);
  EXPECT_EQ(unspaced_letters("テスト"), 0) << "a loan word may be long";
  EXPECT_EQ(unspaced_letters("강아지"), 0) << "Korean has spaces";
}

TEST(CaptioningTokens, TakeWhatTypesettersWriteForWhatItStandsFor) {
  EXPECT_THAT(words_of("a\u00A0dog\u00A0"), ElementsAre("a", "dog"));
  EXPECT_THAT(words_of("The dog\u2019s \u201Cbig\u201D \u2018ball\u2019 isn\u2019t here"),
              ElementsAre("the", "dog", "'s", "big", "ball", "is", "n't", "here"));
  EXPECT_THAT(words_of("\u00A0\u201C\u201D\u2018\u2019"), IsEmpty());
  EXPECT_THAT(words_of("caf\u00E9\u2026 \u201Ax"), ElementsAre("caf\u00E9", "\u201Ax")) << "others stay";
}

TEST(CaptioningTokens, OfForeignTextsAreShownInPartAndWithoutControlCharacters) {
  EXPECT_EQ(shown("a caf\u00E9"), "a caf\u00E9");
  EXPECT_EQ(shown("a\n\x1b[31m\x7f\u0085z"), "a??[31m??z");
  EXPECT_EQ(shown("a\xE9z\xC3"), "a?z?");
  EXPECT_EQ(shown(std::string(40, 'x')), std::string(40, 'x'));
  EXPECT_EQ(shown(std::string(41, 'x')), std::string(40, 'x') + "...");
  EXPECT_EQ(shown(std::string(39, 'x') + "\u00E9"), std::string(39, 'x') + "...") << "no half characters";
  EXPECT_EQ(shown("abc", 2), "ab...");
}

TEST(CaptioningTokens, JoinedAreTheSameWordsAgain) {
  std::mt19937_64 random(5);
  const std::string letters = "abst1.,:-' n'\"-()rlbXLRB-\xC3\xA9";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::uint64_t left = random() % 24; left > 0; --left) {
      const char letter = letters[random() % (letters.size() - 2)];
      text += random() % 20 == 0 ? std::string("\xC3\xA9") : std::string(1, letter);
    }
    const auto words = words_of(text);
    std::string joined;
    for (const std::string& word : words) {
      ASSERT_FALSE(word.empty()) << text;
      joined += word + ' ';
    }
    ASSERT_EQ(words_of(joined), words) << text;
  }
}

TEST(CaptioningTokens, KnowUtf8FromOtherBytes) {
  for (const char* good :
       {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82", "\xE2\x28\xA1",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE9z"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
  EXPECT_THAT(test::fault_of<DataError>([] { (void)words_of("a caf\xE9 here"); }),
              HasSubstr("a caption is not UTF-8: byte 0xe9 at 5 of 11, after \"a caf\""));
}

// From nlg-eval's tests: "this is a good test".
TEST(CaptioningScores, OfOneCaptionAreThePublishedOnes) {
  const CaptionScores scores =
      score_captions({worded(0, "this is a good test", {"this is a test", "this is also a test"})});
  EXPECT_NEAR(scores.bleu[0], 0.799999, 1e-6);
  EXPECT_NEAR(scores.bleu[1], 0.632455, 1e-6);
  EXPECT_NEAR(scores.bleu[2], 0.5108729, 1e-7);
  EXPECT_NEAR(scores.bleu[3], 0.0000903602, 1e-10);
  EXPECT_NEAR(scores.rouge_l, 0.9070631, 1e-7);
  EXPECT_EQ(scores.cider_d, 0) << "with one image no n-gram carries information";
}

// nlg-eval's example. Its CIDEr is CIDEr-D with the references' document frequencies, as in COCO's evaluation.
TEST(CaptioningScores, OfTwoCaptionsAreThePublishedOnes) {
  const CaptionScores scores = score_captions(
      {worded(0, "this is the model generated sentence1 which seems good enough",
              {"this is one reference sentence for sentence1", "this is one more reference sentence for sentence1"}),
       worded(1, "this is sentence2 which has been generated by your model",
              {"this is a reference sentence for sentence2 which was generated by your model",
               "this is the second reference sentence for sentence2"})});
  EXPECT_NEAR(scores.bleu[0], 0.55, 1e-6);
  EXPECT_NEAR(scores.bleu[1], 0.428174, 1e-6);
  EXPECT_NEAR(scores.bleu[2], 0.284043, 1e-6);
  EXPECT_NEAR(scores.bleu[3], 0.201143, 1e-6);
  EXPECT_NEAR(scores.rouge_l, 0.522104, 1e-6);
  EXPECT_NEAR(scores.cider_d, 1.242192, 1e-6);
}

TEST(CaptioningScores, OfRandomCaptionsAreThoseOfADirectComputation) {
  const nlohmann::json cases = golden_cases();
  ASSERT_GE(cases.size(), 30U);
  double all = 0;
  for (const auto& one : cases) {
    const CaptionScores scores = score_captions(captions_of(one));
    const auto& own = one["own"];
    for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(scores.bleu[n], own["bleu"][n].get<double>(), 1e-9);
    EXPECT_NEAR(scores.rouge_l, own["rouge_l"].get<double>(), 1e-9);
    EXPECT_NEAR(scores.meteor_exact, own["meteor_exact"].get<double>(), 1e-9);
    EXPECT_NEAR(scores.cider, mean_of(own["cider"].get<std::vector<double>>()), 1e-9);
    const auto each = own["cider_d"].get<std::vector<double>>();
    EXPECT_NEAR(scores.cider_d, mean_of(each), 1e-9);
    ASSERT_EQ(scores.cider_d_each.size(), each.size());
    for (std::size_t i = 0; i < each.size(); ++i) EXPECT_NEAR(scores.cider_d_each[i], each[i], 1e-9);
    all += scores.bleu[3] + scores.cider_d;
  }
  EXPECT_GT(all, 10) << "the cases say too little";
}

TEST(CaptioningScores, HaveTheSameBitsInAnyOrder) {
  std::mt19937_64 random(3);
  for (const auto& one : golden_cases()) {
    std::vector<ScoredCaption> captions = captions_of(one);
    const CaptionScores sorted = score_captions(captions);
    std::shuffle(captions.begin(), captions.end(), random);
    const CaptionScores shuffled = score_captions(captions);
    EXPECT_EQ(shuffled.bleu, sorted.bleu);
    EXPECT_EQ(shuffled.meteor_exact, sorted.meteor_exact);
    EXPECT_EQ(shuffled.rouge_l, sorted.rouge_l);
    EXPECT_EQ(shuffled.cider, sorted.cider);
    EXPECT_EQ(shuffled.cider_d, sorted.cider_d);
    EXPECT_EQ(shuffled.cider_d_each, sorted.cider_d_each);
  }
}

TEST(CaptioningScores, OfWordsHaveTheSameBitsInAnyOrder) {
  std::vector<WordedCaption> captions = {worded(4, "a red disc below a star", {"a red circle under a star"}),
                                         worded(2, "two blue squares", {"two squares", "blue squares side by side"}),
                                         worded(9, "a star", {"a green star", "there is a green star"})};
  const CaptionScores sorted = score_captions(captions);
  std::ranges::reverse(captions);
  EXPECT_EQ(score_captions(captions).cider_d, sorted.cider_d);
  EXPECT_EQ(score_captions(captions).cider_d_each, sorted.cider_d_each);
  EXPECT_GT(sorted.cider_d, 0);
}

TEST(CaptioningScores, TakeTheFrequenciesThatTheyAreGiven) {
  for (const auto& one : golden_cases()) {
    const auto frequencies = std::make_shared<const DocumentFrequencies>(
        DocumentFrequencies::of(one["others"].get<std::vector<std::vector<Ids>>>()));
    const CaptionScores scores = score_captions(captions_of(one), frequencies);
    EXPECT_NEAR(scores.cider, mean_of(one["foreign"]["cider"].get<std::vector<double>>()), 1e-9);
    EXPECT_NEAR(scores.cider_d, mean_of(one["foreign"]["cider_d"].get<std::vector<double>>()), 1e-9);
  }
}

TEST(CaptioningScores, OfEqualCaptionsAreTheHighestThereAre) {
  const CaptionScores scores = score_captions({worded(0, "a red disc on the left", {"a red disc on the left"}),
                                               worded(1, "two stars in one corner", {"two stars in one corner"})});
  for (const double one : scores.bleu) EXPECT_NEAR(one, 1, 1e-8);
  EXPECT_NEAR(scores.rouge_l, 1, 1e-12);
  EXPECT_NEAR(scores.meteor_exact, 1 - 0.5 * std::pow(2.0 / 11, 3), 1e-12) << "one chunk each";
  EXPECT_NEAR(scores.cider, 10, 1e-12);
  EXPECT_NEAR(scores.cider_d, 10, 1e-12);
}

TEST(CaptioningScores, OfNothingAreZero) {
  const CaptionScores none = score_captions(std::vector<ScoredCaption>{});
  EXPECT_EQ(none.bleu[0], 0);
  EXPECT_EQ(none.cider_d, 0);
  const CaptionScores silent = score_captions({worded(0, "", {"a dog"}), worded(1, "", {"a cat sits"})});
  for (const double one : {silent.bleu[0], silent.rouge_l, silent.meteor_exact, silent.cider, silent.cider_d}) {
    EXPECT_NEAR(one, 0, 1e-6);
  }
}

TEST(CaptioningScores, RefuseAnImageTwiceAndAnImageThatNobodyDescribed) {
  EXPECT_THAT(test::fault_of<UsageError>([] {
                (void)score_captions({worded(7, "a", {"a"}), worded(7, "b", {"b"})});
              }),
              HasSubstr("image 7 is scored twice"));
  EXPECT_THAT(test::fault_of<UsageError>([] {
                (void)score_captions({worded(3, "a", {"a"}), worded(5, "a", {})});
              }),
              HasSubstr("image 5 has no reference"));
  Bleu bleu;
  EXPECT_THROW(bleu.add({1}, {}), UsageError);
  EXPECT_THROW((void)rouge_l({1}, {}), UsageError);
  EXPECT_THROW((void)meteor_counts({1}, {}), UsageError);
}

TEST(CaptioningScores, BleuHoldsACaptionAgainstTheClosestLengthAndTheShorterOfTwo) {
  Bleu same;
  same.add({1, 2, 3, 4}, {{9}, {1, 2, 3, 4, 5, 6}, {1, 2}});
  EXPECT_NEAR(same.scores()[0], 1, 1e-8) << "against 2 words, not 6";
  Bleu longer;
  longer.add({1, 2, 3, 4}, {{9}, {1, 2, 3, 4, 5}});
  EXPECT_NEAR(longer.scores()[0], std::exp(1 - 5.0 / 4), 1e-8);
}

TEST(CaptioningMeteor, TakesTheAlignmentWithTheFewestChunks) {
  const MeteorCounts counts = align_words({1, 2, 3, 1, 2}, {1, 2, 9, 1, 2, 3});
  EXPECT_EQ(counts.matches, 5);
  EXPECT_EQ(counts.chunks, 2) << "1 2 3 from the end, then 1 2 from the beginning";
  EXPECT_EQ(counts.words, 5);
  EXPECT_EQ(counts.reference, 6);
  EXPECT_EQ(align_words({1, 2, 3}, {3, 2, 1}).chunks, 3);
  EXPECT_EQ(align_words({1, 1, 1}, {1, 1, 1, 1}).chunks, 1);
  EXPECT_EQ(align_words({5}, {6}).score(), 0);
}

// Banerjee and Lavie's example of chunks: "the president then spoke to the audience" against "the president spoke to
// the audience"; every word of the shorter one is matched, in two chunks: "the president" and "spoke to the audience".
TEST(CaptioningMeteor, IsTheFormulaOfThePaper) {
  const MeteorCounts counts = align_words({1, 2, 3, 4, 1, 5}, {1, 2, 9, 3, 4, 1, 5});
  EXPECT_EQ(counts.matches, 6);
  EXPECT_EQ(counts.chunks, 2);
  const double mean = 10 * 1 * (6.0 / 7) / (6.0 / 7 + 9 * 1);
  EXPECT_NEAR(counts.score(), mean * (1 - 0.5 / 27), 1e-12);
  EXPECT_NEAR(counts.score(), 0.8535, 5e-5);
}

TEST(CaptioningMeteor, EndsSoonForWordsThatAreRepeatedWithoutEnd) {
  const auto before = std::chrono::steady_clock::now();
  for (const auto& [words, places] : {std::pair{24, 24}, {16, 500}, {60, 68}, {500, 500}, {500, 20'000}}) {
    const MeteorCounts counts =
        align_words(Ids(static_cast<std::size_t>(words), 1), Ids(static_cast<std::size_t>(places), 1));
    EXPECT_EQ(counts.matches, words);
    EXPECT_EQ(counts.chunks, 1) << words << " words, " << places << " places";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(kMostSeconds));
}

TEST(CaptioningMeteor, OfManyPlacesThoseAreTriedFirstFromWhichTheCaptionGoesOn) {
  Ids reference(40, 1);
  reference.insert(reference.end(), {2, 1, 3});
  EXPECT_EQ(align_words({1, 2}, reference).chunks, 1);
  EXPECT_EQ(align_words({1, 3, 1, 2}, reference).chunks, 2);
}

TEST(CaptioningMeteor, AlignsLongTextsRunByRunWithTheMostMatches) {
  // Three words repeated in order, 400 in all, against the same words with another word after every 30: 13 runs of 30
  // and the rest.
  Ids hypothesis;
  Ids reference;
  for (std::int64_t i = 0; i < 400; ++i) {
    if (i > 0 && i % 30 == 0) reference.push_back(1000 + i);
    hypothesis.push_back(i % 3);
    reference.push_back(i % 3);
  }
  const MeteorCounts counts = align_words(hypothesis, reference);
  EXPECT_EQ(counts.matches, 400);
  EXPECT_EQ(counts.chunks, 14);
  // Fewer positions than words: each position is used once.
  EXPECT_EQ(align_words(Ids(2000, 7), Ids(30, 7)).matches, 30);
  EXPECT_EQ(align_words(Ids(2000, 7), Ids(30, 7)).chunks, 1);
}

}  // namespace captioning_scores_test
}  // namespace lockstep::captioning
