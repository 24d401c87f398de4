// SPDX-License-Identifier: Apache-2.0
// CIDEr-D as a reward, its table of n-grams, and the file of document frequencies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "captioning/metrics/cider.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"

namespace lockstep::captioning {
namespace captioning_cider_test {

using ::testing::HasSubstr;

using References = std::vector<std::vector<Ids>>;

Ids random_caption(std::mt19937_64& random, std::int64_t words, std::int64_t step = 1) {
  Ids ids;
  for (std::uint64_t left = 2 + random() % 10; left > 0; --left) {
    ids.push_back(step * static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(words)));
  }
  ids.push_back(0);
  return ids;
}

References random_references(std::uint64_t seed, std::int64_t images, std::int64_t words, std::int64_t step = 1) {
  std::mt19937_64 random(seed);
  References references(static_cast<std::size_t>(images));
  for (auto& image : references) {
    for (int i = 0; i < 5; ++i) image.push_back(random_caption(random, words, step));
  }
  return references;
}

std::shared_ptr<const DocumentFrequencies> frequencies_of(const References& references) {
  return std::make_shared<const DocumentFrequencies>(DocumentFrequencies::of(references));
}

std::int64_t images_with(const DocumentFrequencies& frequencies, const Ids& ngram) {
  NgramKey key;
  if (!pack_ngram(ngram.data(), static_cast<int>(ngram.size()), frequencies.table().wide(), key)) return 0;
  return frequencies.table().find(key);
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A file of document frequencies with its checksum fixed up.
std::string signed_again(std::string bytes) {
  bytes.resize(bytes.size() - 8);
  std::uint64_t value = 14695981039346656037ULL;
  for (const char byte : bytes) value = (value ^ static_cast<std::uint8_t>(byte)) * 1099511628211ULL;
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return bytes;
}

std::string fault_of_file(const std::filesystem::path& path) {
  return test::fault_of<DataError>([&] { (void)DocumentFrequencies::from_file(path); });
}

TEST(CaptioningNgrams, AreCountedOncePerImage) {
  const auto frequencies = DocumentFrequencies::of({{{1, 2, 1, 2, 0}, {1, 2, 0}}, {{2, 1, 0}}, {{3, 0}}});
  EXPECT_EQ(frequencies.images(), 3);
  EXPECT_EQ(images_with(frequencies, {1}), 2);
  EXPECT_EQ(images_with(frequencies, {1, 2}), 1);
  EXPECT_EQ(images_with(frequencies, {2, 1}), 2);
  EXPECT_EQ(images_with(frequencies, {0}), 3);
  EXPECT_EQ(images_with(frequencies, {1, 2, 1, 2}), 1);
  EXPECT_EQ(images_with(frequencies, {2, 1, 2, 0}), 1);
  EXPECT_EQ(images_with(frequencies, {3, 3}), 0);
  EXPECT_EQ(frequencies.table().size(), 3 + 1 + 4 + 4 + 3) << "ids, 3 0, pairs, triples, fours";
}

TEST(CaptioningNgrams, HaveKeysOfTheirOwn) {
  for (const bool wide : {false, true}) {
    std::set<NgramKey> keys;
    const Ids some = {0, 1, 2, kLargestShortId - 1, kLargestShortId};
    std::size_t count = 0;
    const auto add = [&](const Ids& ids) {
      NgramKey key;
      ASSERT_TRUE(pack_ngram(ids.data(), static_cast<int>(ids.size()), wide, key));
      keys.insert(key);
      ++count;
    };
    for (const std::int64_t a : some) {
      add({a});
      for (const std::int64_t b : some) {
        add({a, b});
        for (const std::int64_t c : some) {
          add({a, b, c});
          for (const std::int64_t d : some) add({a, b, c, d});
        }
      }
    }
    EXPECT_EQ(keys.size(), count);
  }
}

TEST(CaptioningNgrams, OfLargeVocabulariesShareNoKey) {
  const std::int64_t far = std::int64_t{1} << 16;
  // Truncated to 16 bits, each of these would look like another one.
  const auto frequencies = DocumentFrequencies::of({{{1, 2}}, {{1 + far, 2}}, {{1, 2 + far}}, {{far, far, 1, 2}}});
  EXPECT_TRUE(frequencies.table().wide());
  EXPECT_EQ(images_with(frequencies, {1, 2}), 2);
  EXPECT_EQ(images_with(frequencies, {1 + far, 2}), 1);
  EXPECT_EQ(images_with(frequencies, {far, far, 1, 2}), 1);
  EXPECT_EQ(images_with(frequencies, {far, far}), 1);
  EXPECT_EQ(images_with(frequencies, {kLargestId}), 0);
  const auto narrow = DocumentFrequencies::of({{{1, 2}}});
  EXPECT_FALSE(narrow.table().wide());
  EXPECT_EQ(images_with(narrow, {1, 2}), 1);
  EXPECT_EQ(images_with(narrow, {2 * far + 3 - 1}), 0) << "in one piece its bits are those of 1 2";
}

TEST(CaptioningNgrams, AreFoundInATableThatHasGrown) {
  NgramTable table;
  std::map<Ids, std::uint32_t> wanted;
  std::mt19937_64 random(2);
  for (int i = 0; i < 40000; ++i) {
    Ids ids;
    for (std::uint64_t left = 1 + random() % 4; left > 0; --left)
      ids.push_back(static_cast<std::int64_t>(random() % 40));
    NgramKey key;
    ASSERT_TRUE(pack_ngram(ids.data(), static_cast<int>(ids.size()), false, key));
    table.add(key);
    ++wanted[ids];
  }
  EXPECT_EQ(table.size(), std::ssize(wanted));
  for (const auto& [ids, number] : wanted) {
    NgramKey key;
    (void)pack_ngram(ids.data(), static_cast<int>(ids.size()), false, key);
    ASSERT_EQ(table.find(key), number);
  }
}

TEST(CaptioningCiderD, IsTheScaleForACaptionEqualToItsOnlyReference) {
  const References references = {{{1, 2, 3, 4, 0}}, {{5, 6, 7, 0}}, {{8, 9, 0}}};
  const CiderD cider(frequencies_of(references));
  EXPECT_NEAR(cider.score({1, 2, 3, 4, 0}, cider.prepare(references[0])), 10, 1e-12);
  EXPECT_EQ(cider.score({5, 6, 7}, cider.prepare(references[0])), 0);
  EXPECT_EQ(cider.score({}, cider.prepare(references[0])), 0);
  const CiderD unit(frequencies_of(references), {.scale = 1});
  EXPECT_NEAR(unit.score({5, 6, 7, 0}, unit.prepare(references[1])), 1, 1e-12);
}

TEST(CaptioningCiderD, PunishesRepetitionAndOtherLengthsButCiderDoesNot) {
  const References references = {{{1, 2}}, {{5, 6}}, {{8, 9}}};
  const auto frequencies = frequencies_of(references);
  const CiderD d(frequencies);
  const CiderD plain(frequencies, {.plain = true});
  const auto reference = d.prepare(references[0]);
  // The unigram vector of {1, 1, 2, 2} has the same direction as that of {1, 2}; one of the three bigrams also occurs
  // in the reference.
  EXPECT_NEAR(plain.score({1, 1, 2, 2}, reference), 10 * (1 + 1 / std::sqrt(3.0)) / 4, 1e-12);
  const double clipped = (1 * 1 + 1 * 1) / (std::sqrt(8.0) * std::sqrt(2.0)) + 1 / std::sqrt(3.0);
  EXPECT_NEAR(d.score({1, 1, 2, 2}, reference), 10 * clipped / 4 * std::exp(-2.0 * 2 / 72), 1e-12);
  const CiderD strict(frequencies, {.sigma = 1});
  EXPECT_NEAR(strict.score({1, 1, 2, 2}, reference), 10 * clipped / 4 * std::exp(-2.0 * 2 / 2), 1e-12);
}

TEST(CaptioningCiderD, GivesLengthsFarAwayTheirPenaltyToo) {
  const References references = {{{1, 2, 0}}, {{5, 0}}};
  const CiderD cider(frequencies_of(references), {.sigma = 40});
  Ids long_one(101, 7);
  long_one.push_back(1);
  const double here = cider.score(long_one, cider.prepare(references[0]));
  const double known = std::log(2.0);
  const double cosine = known * known / (known * std::sqrt(101.0 * 101 + 1) * std::sqrt(2.0) * known);
  EXPECT_NEAR(here, 10 * cosine * std::exp(-99.0 * 99 / 3200) / 4, 1e-12);
}

TEST(CaptioningCiderD, OfIdsThatNoFrequencyKnowsIsWhatItIsForOthers) {
  // The same captions with different ids, some of them above 16 bits; the frequency table knows only small ones.
  const References small = {{{1, 2, 3, 0}, {1, 2, 4, 0}}, {{1, 2, 0}}, {{5, 6, 0}}};
  const auto frequencies = frequencies_of(small);
  ASSERT_FALSE(frequencies->table().wide());
  const CiderD cider(frequencies);
  const auto moved = [](std::int64_t shift) {
    return std::vector<Ids>{{1 + shift, 2, 20 + shift, 0}, {1 + shift, 2, 30 + shift, 0}};
  };
  const std::int64_t far = 1 << 20;
  const double near_score = cider.score({1, 2, 30 + 100, 0}, cider.prepare(moved(100)));
  EXPECT_GT(near_score, 1);
  EXPECT_EQ(cider.score({1, 2, 30 + far, 0}, cider.prepare(moved(far))), near_score);
}

TEST(CaptioningCiderD, OfWideIdsIsThatOfNarrowOnes) {
  const References narrow = random_references(4, 30, 12);
  const References wide = random_references(4, 30, 12, 100003);
  const CiderD one(frequencies_of(narrow));
  const CiderD other(frequencies_of(wide));
  for (std::size_t i = 0; i + 1 < narrow.size(); ++i) {
    const Ids& hypothesis = narrow[i + 1][0];
    Ids moved = wide[i + 1][0];
    ASSERT_EQ(hypothesis.size(), moved.size());
    EXPECT_EQ(one.score(hypothesis, one.prepare(narrow[i])), other.score(moved, other.prepare(wide[i])));
  }
}

TEST(CaptioningCiderD, GivesTheSameBitsInAnyNumberOfThreads) {
  const References references = random_references(9, 200, 30);
  const CiderD cider(frequencies_of(references));
  const auto score_all = [&] {
    std::vector<double> scores;
    for (std::size_t i = 0; i < references.size(); ++i) {
      const auto reference = cider.prepare(references[i]);
      for (const auto& other : references) scores.push_back(cider.score(other[0], reference));
    }
    return scores;
  };
  const std::vector<double> alone = score_all();
  std::vector<std::vector<double>> each(4);
  std::vector<std::thread> threads;
  for (auto& scores : each) threads.emplace_back([&] { scores = score_all(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& scores : each) EXPECT_EQ(scores, alone);
}

TEST(CaptioningCiderD, RefusesWhatItCannotScore) {
  const auto frequencies = frequencies_of({{{1, 2, 0}}});
  const CiderD cider(frequencies);
  const auto reference = cider.prepare({{1, 2, 0}});
  EXPECT_THAT(test::fault_of<UsageError>([&] {
                (void)cider.score({1, -1, 0}, reference);
              }),
              HasSubstr("word 1 of a caption has the id -1"));
  EXPECT_THROW((void)cider.score({kLargestId + 1}, reference), UsageError);
  EXPECT_THROW((void)cider.prepare({{1, -1}}), UsageError);
  EXPECT_THAT(test::fault_of<UsageError>([&] { (void)cider.prepare({}); }), HasSubstr("without a reference"));
  EXPECT_THROW((void)DocumentFrequencies::of({}), UsageError);
  EXPECT_THROW((void)DocumentFrequencies::of({{{-3}}}), UsageError);
  EXPECT_THROW(CiderD(nullptr), UsageError);
  EXPECT_THROW(CiderD(frequencies, {.sigma = 0}), UsageError);
  EXPECT_THROW(CiderD(frequencies, {.scale = -1}), UsageError);
  Ids many;
  for (std::int64_t id = 0; id < 65001; ++id) many.push_back(id);
  EXPECT_THAT(test::fault_of<UsageError>([&] { (void)cider.prepare({many}); }), HasSubstr("65001 different words"));
}

TEST(CaptioningFrequencies, ComeBackFromTheirFile) {
  const test::TempDir folder;
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{100003}}) {
    const References references = random_references(6, 80, 25, step);
    const auto frequencies = frequencies_of(references);
    frequencies->save(folder / "df");
    const auto read = std::make_shared<const DocumentFrequencies>(DocumentFrequencies::from_file(folder / "df"));
    EXPECT_EQ(read->images(), 80);
    EXPECT_EQ(read->source(), frequencies->source());
    EXPECT_EQ(read->table().wide(), step > 1);
    EXPECT_EQ(read->table().bytes(), frequencies->table().bytes());
    const CiderD one(frequencies);
    const CiderD other(read);
    EXPECT_EQ(one.score(references[3][0], one.prepare(references[2])),
              other.score(references[3][0], other.prepare(references[2])));
  }
}

TEST(CaptioningFrequencies, OfATornOrForeignFileAreRefusedByName) {
  const test::TempDir folder;
  const std::filesystem::path path = folder / "frequencies";
  frequencies_of(random_references(1, 5, 9))->save(path);
  const std::string good = FileSystem::system().read(path);
  EXPECT_THAT(fault_of_file(folder / "none"), HasSubstr("none"));
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{47}, good.size() / 2, good.size() - 1}) {
    write_bytes(path, good.substr(0, size));
    EXPECT_THAT(fault_of_file(path), HasSubstr(path.string())) << size;
  }
  write_bytes(path, "{\"document_frequency\": {}}, and more than forty bytes of it");
  EXPECT_THAT(fault_of_file(path), HasSubstr("not a document frequency file"));
  for (std::size_t at = 8; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write_bytes(path, bad);
    EXPECT_THAT(fault_of_file(path), HasSubstr("checksum")) << at;
  }
}

TEST(CaptioningFrequencies, KnowTheReferencesThatTheyAreOf) {
  const auto source = [](const References& references) { return DocumentFrequencies::source_of(references); };
  const References here = {{{1, 2, 0}, {3, 0}}, {{4, 0}}};
  EXPECT_EQ(DocumentFrequencies::of(here).source(), source(here));
  EXPECT_NE(source({{{1, 2, 0}, {3, 0}}, {{5, 0}}}), source(here)) << "another word";
  EXPECT_NE(source({{{1, 2, 0}}, {{3, 0}, {4, 0}}}), source(here)) << "captions of other images";
  EXPECT_NE(source({{{1, 2}, {0, 3, 0}}, {{4, 0}}}), source(here)) << "cut elsewhere";
}

TEST(CaptioningFrequencies, WithAnAbsurdHeaderOrTableAreRefused) {
  const test::TempDir folder;
  const std::filesystem::path path = folder / "frequencies";
  frequencies_of({{{1, 2, 0}}, {{4, 0}}})->save(path);
  const std::string good = FileSystem::system().read(path);
  const auto fault = [&](std::size_t at, const std::string& bytes) {
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    write_bytes(path, signed_again(bad));
    return fault_of_file(path);
  };
  EXPECT_THAT(fault(8, std::string("\x03", 1)), HasSubstr("its ids have 3 bytes"));
  EXPECT_THAT(fault(8, std::string("\x04", 1)), HasSubstr("not a multiple of 20"));
  EXPECT_THAT(fault(16, std::string("\0", 1)), HasSubstr("number of images is 0,"));
  EXPECT_THAT(fault(16, std::string(8, '\xFF')), HasSubstr("number of images is 18446744073709551615,"));
  EXPECT_THAT(fault(16, std::string("\x01", 1)), HasSubstr("is in 2 images, but there are 1"));
  EXPECT_THAT(fault(24, std::string("\x07", 1)), HasSubstr("8 n-grams, but its header says 7"));
  EXPECT_THAT(fault(40, std::string(1, '\xFF')), HasSubstr("n-gram 1 is out of order"));
  EXPECT_THAT(fault(40, std::string("\0\0\1", 3)), HasSubstr("n-gram 0 is out of order or invalid"));
  EXPECT_THAT(fault(40, std::string("\5\0\0\0\1", 5)), HasSubstr("n-gram 0 is out of order or invalid"));
  EXPECT_THAT(fault(48, std::string(4, '\0')), HasSubstr("is in 0 images"));
  write_bytes(path, signed_again(good.substr(0, 32)));
  EXPECT_THAT(fault_of_file(path), HasSubstr("it ends after 32 bytes"));
}

}  // namespace captioning_cider_test
}  // namespace lockstep::captioning
