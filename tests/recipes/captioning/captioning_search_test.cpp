// SPDX-License-Identifier: Apache-2.0
// Searches over table-based language models, against an enumeration of every possible caption.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "captioning/model/search.h"
#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace captioning_search_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

using Caption = std::vector<std::int64_t>;
/// Log-probabilities given the words said about an image so far.
using Table = std::function<std::vector<double>(std::int64_t image, const Caption& said)>;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Random-looking probabilities, different after each prefix.
Table random_table(std::int64_t vocabulary, std::uint64_t seed) {
  return [=](std::int64_t image, const Caption& said) {
    std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(image) + 1;
    for (const std::int64_t word : said) state = (state ^ static_cast<std::uint64_t>(word + 1)) * 0xD6E8FEB86659FD93ULL;
    std::vector<double> logs;
    double sum = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      state = (state ^ (state >> 29)) * 0xBF58476D1CE4E5B9ULL + 1;
      logs.push_back(3 * static_cast<double>(state >> 40) / static_cast<double>(1 << 24));
      sum += std::exp(logs.back());
    }
    for (double& one : logs) one -= std::log(sum);
    return logs;
  };
}

/// A Speaker that remembers the words of each row.
struct TableSpeaker {
  Table table;
  std::int64_t copies;  // rows of each image
  std::vector<Caption> said;
  std::int64_t steps = 0;

  TableSpeaker(Table scores, std::int64_t images, std::int64_t rows_each)
      : table(std::move(scores)), copies(rows_each), said(static_cast<std::size_t>(images * rows_each)) {}

  at::Tensor step(const at::Tensor& words) {
    EXPECT_FALSE(at::GradMode::is_enabled());
    std::vector<double> all;
    for (std::size_t row = 0; row < said.size(); ++row) {
      const std::int64_t word = words[static_cast<std::int64_t>(row)].item<std::int64_t>();
      if (steps > 0) said[row].push_back(word);
      const auto logs = table(static_cast<std::int64_t>(row) / copies, said[row]);
      all.insert(all.end(), logs.begin(), logs.end());
    }
    ++steps;
    return at::tensor(all, at::kDouble).view({static_cast<std::int64_t>(said.size()), -1});
  }
  void select(const at::Tensor& rows) {
    std::vector<Caption> selected;
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      const std::int64_t from = rows[i].item<std::int64_t>();
      EXPECT_EQ(from / copies, i / copies) << "a row left its image";
      selected.push_back(said[static_cast<std::size_t>(from)]);
    }
    said = selected;
  }
  Speaker speaker() {
    return {.rows = static_cast<std::int64_t>(said.size()),
            .device = at::TensorOptions(at::kCPU),
            .step = [this](const at::Tensor& words) { return step(words); },
            .select = [this](const at::Tensor& rows) { select(rows); }};
  }
};

std::vector<Caption> rows_of(const at::Tensor& words) {
  std::vector<Caption> rows;
  for (std::int64_t i = 0; i < words.size(0); ++i) {
    const auto* data = words[i].data_ptr<std::int64_t>();
    rows.emplace_back(data, data + words.size(1));
  }
  return rows;
}

/// The sum for one row of a search: words, then the 0 that ends them.
double sum_of(const Table& table, std::int64_t image, const Caption& row) {
  double sum = 0;
  Caption said;
  for (const std::int64_t word : row) {
    sum += table(image, said)[static_cast<std::size_t>(word)];
    said.push_back(word);
    if (word == 0) break;
  }
  return sum;
}

/// Every caption of at most max_words words, padded with zeros.
std::vector<Caption> all_captions(std::int64_t vocabulary, std::int64_t max_words) {
  std::vector<Caption> done;
  std::vector<Caption> open{{}};
  for (std::int64_t n = 0; n <= max_words; ++n) {
    std::vector<Caption> longer;
    for (const Caption& one : open) {
      done.push_back(one);
      done.back().resize(static_cast<std::size_t>(max_words + 1));
      for (std::int64_t word = 1; word < vocabulary; ++word) {
        longer.push_back(one);
        longer.back().push_back(word);
      }
    }
    open = longer;
  }
  return done;
}

Caption best_of_all(const Table& table, std::int64_t image, const std::vector<Caption>& captions) {
  Caption best;
  double most = kNever;
  for (const Caption& one : captions) {
    const double sum = sum_of(table, image, one);
    if (sum > most) best = one;
    most = std::max(most, sum);
  }
  return best;
}

std::vector<Caption> beam_rows(const Table& table, std::int64_t images, const BeamOptions& options) {
  TableSpeaker rows(table, images, options.beam);
  Speaker speaker = rows.speaker();
  return rows_of(beam_search(speaker, options));
}

std::vector<Caption> greedy_rows(const Table& table, std::int64_t images, std::int64_t max_words) {
  TableSpeaker rows(table, images, 1);
  Speaker speaker = rows.speaker();
  return rows_of(greedy(speaker, max_words));
}

/// The same log-probabilities whatever the words so far.
Table fixed_table(const std::vector<double>& probabilities) {
  std::vector<double> logs;
  for (const double one : probabilities) logs.push_back(std::log(one));
  return [logs](std::int64_t, const Caption&) { return logs; };
}

TEST(CaptioningSearch, GreedyTakesTheLikeliestWordEachTime) {
  const Table table = random_table(5, 3);
  const auto rows = greedy_rows(table, 7, 6);
  for (std::int64_t image = 0; image < 7; ++image) {
    Caption said;
    while (said.size() < 6 && (said.empty() || said.back() != 0)) {
      const auto logs = table(image, said);
      said.push_back(std::max_element(logs.begin(), logs.end()) - logs.begin());
    }
    said.resize(7);
    EXPECT_EQ(rows[static_cast<std::size_t>(image)], said);
  }
}

TEST(CaptioningSearch, GreedyStopsWhenAllHaveEnded) {
  const Table table = [](std::int64_t image, const Caption& said) {
    const bool end = std::ssize(said) > image;
    return std::vector<double>{end ? -0.1 : -3, end ? -3 : -0.1};
  };
  TableSpeaker rows(table, 3, 1);
  Speaker speaker = rows.speaker();
  EXPECT_THAT(rows_of(greedy(speaker, 9)),
              ElementsAre(Caption{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, Caption{1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
                          Caption{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows.steps, 4);
}

TEST(CaptioningSearch, ACaptionThatDoesNotEndIsEnded) {
  EXPECT_THAT(greedy_rows(fixed_table({0.1, 0.2, 0.7}), 1, 3), ElementsAre(Caption{2, 2, 2, 0}));
}

TEST(CaptioningSearch, BeamOfOneIsGreedy) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Table table = random_table(6, seed);
    EXPECT_EQ(beam_rows(table, 5, {.beam = 1, .max_words = 6}), greedy_rows(table, 5, 6)) << seed;
  }
}

TEST(CaptioningSearch, ABeamThatHoldsAllCaptionsFindsTheBestOfThem) {
  for (const auto& [vocabulary, max_words] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 3}, {3, 4}, {4, 3}}) {
    const auto captions = all_captions(vocabulary, max_words);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Table table = random_table(vocabulary, 100 + seed);
      const auto found = beam_rows(table, 3, {.beam = std::ssize(captions), .max_words = max_words});
      for (std::int64_t image = 0; image < 3; ++image) {
        EXPECT_EQ(found[static_cast<std::size_t>(image)], best_of_all(table, image, captions))
            << fmt::format("vocabulary {}, {} words, seed {}, image {}", vocabulary, max_words, seed, image);
      }
    }
  }
}

TEST(CaptioningSearch, AWiderBeamFindsBetterCaptionsInTheMean) {
  constexpr std::int64_t kImages = 100;
  const Table table = random_table(12, 5);
  const auto mean = [&](std::int64_t beam) {
    const auto rows = beam_rows(table, kImages, {.beam = beam, .max_words = 5});
    double sum = 0;
    for (std::int64_t i = 0; i < kImages; ++i) sum += sum_of(table, i, rows[static_cast<std::size_t>(i)]);
    return sum / kImages;
  };
  const double greedy_mean = mean(1);
  const double two = mean(2);
  const double five = mean(5);
  EXPECT_GT(two, greedy_mean + 0.1);
  EXPECT_GT(five, two + 0.05);
}

TEST(CaptioningSearch, ACaptionThatEndedKeepsItsSumAndItsWords) {
  // "1" ends immediately with 0.6 * 0.9; a caption that begins with 2 has 0.3 and can never catch up.
  const Table table = [](std::int64_t, const Caption& said) {
    if (said.empty()) return std::vector<double>{std::log(0.1), std::log(0.6), std::log(0.3)};
    if (said.back() == 1) return std::vector<double>{std::log(0.9), std::log(0.05), std::log(0.05)};
    return std::vector<double>{std::log(0.01), std::log(0.01), std::log(0.98)};
  };
  TableSpeaker rows(table, 1, 2);
  Speaker speaker = rows.speaker();
  EXPECT_THAT(rows_of(beam_search(speaker, {.beam = 2, .max_words = 8})),
              ElementsAre(Caption{1, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows.steps, 2) << "the best has ended, and sums only fall";
}

TEST(CaptioningSearch, AnEndedCaptionThatIsNotTheBestCanStillWin) {
  // The empty caption has probability 0.4; a caption that begins with 1 has 0.6, halved by each further word.
  const Table table = [](std::int64_t, const Caption& said) {
    if (said.empty()) return std::vector<double>{std::log(0.4), std::log(0.6), kNever};
    return std::vector<double>{kNever, std::log(0.5), std::log(0.5)};
  };
  EXPECT_THAT(beam_rows(table, 1, {.beam = 2, .max_words = 4}), ElementsAre(Caption{0, 0, 0, 0, 0}));
}

TEST(CaptioningSearch, TheEndIsCountedWhereACaptionIsCutToo) {
  // So far 1 1 is likelier than 2 2, but it does not end there.
  const Table table = [](std::int64_t, const Caption& said) {
    if (said.empty()) return std::vector<double>{std::log(0.01), std::log(0.60), std::log(0.39)};
    if (said.back() == 1) return std::vector<double>{std::log(0.001), std::log(0.99), std::log(0.009)};
    return std::vector<double>{said.size() == 1 ? std::log(0.005) : std::log(0.9), std::log(0.005), std::log(0.99)};
  };
  EXPECT_THAT(beam_rows(table, 1, {.beam = 3, .max_words = 2}), ElementsAre(Caption{2, 2, 0}));
}

TEST(CaptioningSearch, OfEqualSumsTheLowerPlaceAndThenTheLowerWordWins) {
  // Words 3 and 1 are equally likely, and so are their continuations.
  EXPECT_THAT(beam_rows(fixed_table({0.25, 0.25, 0.25, 0.25}), 1, {.beam = 2, .max_words = 3}),
              ElementsAre(Caption{0, 0, 0, 0}));
  const Table late = [](std::int64_t, const Caption& said) {
    const double end = said.size() < 2 ? kNever : 0;
    return std::vector<double>{end, std::log(0.3), std::log(0.35), std::log(0.35)};
  };
  EXPECT_THAT(beam_rows(late, 1, {.beam = 3, .max_words = 4}), ElementsAre(Caption{2, 2, 0, 0, 0}));
  EXPECT_THAT(greedy_rows(late, 1, 4), ElementsAre(Caption{2, 2, 0, 0, 0}));
}

TEST(CaptioningSearch, ACaptionDoesNotDependOnTheOthersOfItsBatch) {
  const Table table = random_table(7, 11);
  const auto together = beam_rows(table, 6, {.beam = 3, .max_words = 5});
  for (std::int64_t image = 0; image < 6; ++image) {
    const Table alone = [&](std::int64_t, const Caption& said) { return table(image, said); };
    EXPECT_EQ(beam_rows(alone, 1, {.beam = 3, .max_words = 5}).front(), together[static_cast<std::size_t>(image)]);
  }
}

TEST(CaptioningSearch, ABeamThatIsWiderThanTheVocabularyHoldsNoCaptionTwice) {
  // Two captions in all; the longer one is better.
  EXPECT_THAT(beam_rows(fixed_table({0.2, 0.8}), 2, {.beam = 6, .max_words = 1}),
              ElementsAre(Caption{0, 0}, Caption{0, 0}));
  EXPECT_THAT(beam_rows(fixed_table({0.6, 0.4}), 1, {.beam = 6, .max_words = 3}), ElementsAre(Caption{0, 0, 0, 0}));
}

TEST(CaptioningSearch, SamplesComeAsOftenAsTheirProbabilitySays) {
  constexpr std::int64_t kRows = 20000;
  const Table table = random_table(3, 21);
  TableSpeaker rows([&](std::int64_t, const Caption& said) { return table(0, said); }, kRows, 1);
  Speaker speaker = rows.speaker();
  at::manual_seed(7);
  std::map<Caption, double> counts;
  for (const Caption& row : rows_of(sample(speaker, 2))) ++counts[row];
  double chi_square = 0;
  double probability_of_all = 0;
  for (const Caption& caption : all_captions(3, 2)) {
    double probability = 1;
    Caption said;
    for (std::size_t i = 0; i < 2; ++i) {  // the last 0 was not chosen
      probability *= std::exp(table(0, said)[static_cast<std::size_t>(caption[i])]);
      said.push_back(caption[i]);
      if (caption[i] == 0) break;
    }
    probability_of_all += probability;
    const double wanted = probability * kRows;
    chi_square += (counts[caption] - wanted) * (counts[caption] - wanted) / wanted;
  }
  EXPECT_NEAR(probability_of_all, 1, 1e-12);
  EXPECT_EQ(counts.size(), 7U);
  EXPECT_LT(chi_square, 22.46) << "exceeded once in 1,000 with 6 degrees of freedom";
}

TEST(CaptioningSearch, AWordWithoutProbabilityIsNeverDrawn) {
  TableSpeaker rows(fixed_table({0, 0.5, 0, 0.5, 0}), 500, 1);
  Speaker speaker = rows.speaker();
  at::manual_seed(1);
  std::map<std::int64_t, int> words;
  for (const Caption& row : rows_of(sample(speaker, 4))) {
    for (std::size_t i = 0; i < 4; ++i) ++words[row[i]];
  }
  EXPECT_EQ(words.size(), 2U);
  EXPECT_GT(words[1], 850);
  EXPECT_GT(words[3], 850);
}

TEST(CaptioningSearch, ProbabilitiesWhoseSumIsNotOneAreAllDrawnFrom) {
  TableSpeaker rows(fixed_table({0.02, 0.24, 0.24}), 2000, 1);
  Speaker speaker = rows.speaker();
  at::manual_seed(2);
  std::map<std::int64_t, int> words;
  for (const Caption& row : rows_of(sample(speaker, 1))) ++words[row[0]];
  EXPECT_EQ(words.size(), 3U);
  EXPECT_NEAR(words[0], 80, 40);
  EXPECT_NEAR(words[1], 960, 120);
  EXPECT_NEAR(words[2], 960, 120);
}

TEST(CaptioningSearch, SamplingTakesTheSameRandomNumbersWhateverIsSaid) {
  const auto after = [](const Table& table) {
    TableSpeaker rows(table, 4, 1);
    Speaker speaker = rows.speaker();
    at::manual_seed(3);
    (void)sample(speaker, 5);
    return at::rand({3});
  };
  EXPECT_TRUE(at::equal(after(fixed_table({1, 0})), after(fixed_table({0, 1}))));
}

TEST(CaptioningSearch, NumbersThatAreNoneGiveWordsAllTheSame) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double beyond = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& logs : {std::vector<double>{none, none, none}, {-1, none, -1}, {-1, -1, beyond}}) {
    const Table table = [&](std::int64_t, const Caption&) { return logs; };
    TableSpeaker rows(table, 5, 1);
    Speaker speaker = rows.speaker();
    for (const Caption& row : rows_of(sample(speaker, 4))) EXPECT_THAT(row, ::testing::Each(AllOf(Ge(0), Lt(3))));
    for (const Caption& row : greedy_rows(table, 5, 4)) EXPECT_THAT(row, ::testing::Each(AllOf(Ge(0), Lt(3))));
    for (const Caption& row : beam_rows(table, 5, {.beam = 2, .max_words = 4})) {
      EXPECT_THAT(row, ::testing::Each(AllOf(Ge(0), Lt(3))));
    }
  }
}

TEST(CaptioningSearch, OneSeedGivesOneSetOfSamples) {
  const auto drawn = [](std::uint64_t seed) {
    TableSpeaker rows(random_table(9, 2), 16, 1);
    Speaker speaker = rows.speaker();
    at::manual_seed(seed);
    return rows_of(sample(speaker, 6));
  };
  EXPECT_EQ(drawn(4), drawn(4));
  EXPECT_NE(drawn(4), drawn(5));
}

TEST(CaptioningSearch, ChosenAreTheWordsUpToTheFirstEndButNotTheForcedOne) {
  const at::Tensor words = at::tensor({3, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2, 0}, at::kLong).view({3, 4});
  const at::Tensor wanted = at::tensor({1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0}, at::kLong).view({3, 4});
  EXPECT_TRUE(at::equal(chosen(words), wanted.to(at::kBool)));
}

TEST(CaptioningSearch, RefusesCaptionsWithoutWordsAndBeamsWithoutPlaces) {
  TableSpeaker rows(random_table(3, 1), 1, 1);
  Speaker speaker = rows.speaker();
  EXPECT_THROW((void)greedy(speaker, 0), UsageError);
  EXPECT_THROW((void)sample(speaker, 0), UsageError);
  EXPECT_THROW((void)beam_search(speaker, {.beam = 1, .max_words = 0}), UsageError);
  try {
    (void)beam_search(speaker, {.beam = 0});
    FAIL() << "a beam of 0";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("beam size 0 and 16 words"));
  }
}

/// A Captioner whose state is its words so far, and whose memory is the image's number.
class TableCaptioner final : public Captioner {
 public:
  explicit TableCaptioner(Table table) : table_(std::move(table)) {}

  Memory encode(const at::Tensor& data, const std::vector<std::int64_t>&) override {
    return {.tokens = data.view({-1, 1, 1}), .global = data, .mask = {}, .extra = {}};
  }
  at::Tensor logits(const Memory&, const at::Tensor& inputs, double) override { return inputs; }
  DecoderState start(const Memory& memory) override {
    return {.tensors = {at::zeros({memory.rows(), 0}, at::kLong)}, .position = 0};
  }
  at::Tensor step(const Memory& memory, DecoderState& state, const at::Tensor& words) override {
    if (state.position++ > 0) state.tensors[0] = at::cat({state.tensors[0], words.unsqueeze(1)}, 1);
    std::vector<double> all;
    for (std::int64_t row = 0; row < words.size(0); ++row) {
      const auto image = memory.tokens[row / memory.copies].item<float>();
      const auto* said = state.tensors[0][row].data_ptr<std::int64_t>();
      const auto logs = table_(static_cast<std::int64_t>(image), Caption(said, said + state.tensors[0].size(1)));
      all.insert(all.end(), logs.begin(), logs.end());
    }
    return at::tensor(all, at::kFloat).view({words.size(0), -1});
  }

 private:
  Table table_;
};

TEST(CaptioningSearch, ACaptionerIsSearchedInTheSameWay) {
  const Table table = random_table(6, 31);
  TableCaptioner model(table);
  const Memory memory = model.encode(at::arange(4, at::kFloat), {});
  EXPECT_EQ(rows_of(greedy(model, memory, 5)), greedy_rows(table, 4, 5));
  EXPECT_EQ(rows_of(beam_search(model, memory, {.beam = 3, .max_words = 5})),
            beam_rows(table, 4, {.beam = 3, .max_words = 5}));
  at::manual_seed(6);
  const auto drawn = rows_of(sample(model, repeated(memory, 2), 5));
  TableSpeaker rows(table, 4, 2);
  Speaker speaker = rows.speaker();
  at::manual_seed(6);
  EXPECT_EQ(drawn, rows_of(sample(speaker, 5)));
}

/// The largest sum of log-probabilities of any caption of one image, by teacher forcing.
double best_sum(Captioner& model, const Memory& memory, const std::vector<Caption>& captions) {
  std::vector<std::int64_t> flat;
  for (const Caption& one : captions) flat.insert(flat.end(), one.begin(), one.end());
  const at::Tensor words = at::tensor(flat, at::kLong).view({std::ssize(captions), -1});
  const at::Tensor begin = at::zeros({words.size(0), 1}, at::kLong);
  const at::Tensor inputs = at::cat({begin, words.narrow(1, 0, words.size(1) - 1)}, 1);
  const at::Tensor logs =
      model.log_probs(repeated(memory, words.size(0)), inputs).gather(2, words.unsqueeze(2)).squeeze(2);
  const at::Tensor ends = words.eq(0).to(at::kLong);
  return logs.mul(ends.cumsum(1).sub_(ends).eq(0)).sum(1).max().item<double>();
}

TEST(CaptioningSearch, TheNetworksThemselvesAreSearchedToTheBestCaption) {
  const auto captions = all_captions(4, 3);
  for (const ModelType type : {ModelType::kTransformer, ModelType::kXLinear}) {
    at::manual_seed(12);
    const auto model = make_captioner({.type = type,
                                       .vocabulary = 4,
                                       .feature_width = 6,
                                       .dim = 16,
                                       .heads = 2,
                                       .encoder_layers = 1,
                                       .decoder_layers = 1,
                                       .feed_forward = 16,
                                       .window = 0});
    model->eval();
    const at::NoGradGuard guard;
    for (at::Tensor& parameter : model->parameters()) parameter.mul_(2);  // with fresh weights, all words look alike
    const at::Tensor pictures = at::randn({3, 4, 6});
    const auto found =
        rows_of(beam_search(*model, model->encode(pictures, {}), {.beam = std::ssize(captions), .max_words = 3}));
    for (std::int64_t image = 0; image < 3; ++image) {
      const Memory alone = model->encode(pictures.narrow(0, image, 1), {});
      const double here = best_sum(*model, alone, {found[static_cast<std::size_t>(image)]});
      EXPECT_NEAR(here, best_sum(*model, alone, captions), 1e-4) << to_string(type) << ", picture " << image;
    }
  }
}

}  // namespace captioning_search_test
}  // namespace lockstep::captioning
