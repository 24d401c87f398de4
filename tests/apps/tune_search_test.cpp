// SPDX-License-Identifier: Apache-2.0
// The search of `lockstep tune` over times that are made up.
#include "worker/tune/tune_search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <regex>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "worker/tune/tune_report.h"

namespace lockstep::worker {
namespace tune_search_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A machine whose steps take `seconds` of the values, disturbed in turn by +-noise.
struct Machine {
  std::function<double(const TuneValues&)> seconds;
  double noise = 0;
  int pairs_left = 1000;
  int pairs = 0;
  std::vector<std::string> said = {};
  std::function<bool(const TuneValues&, const TuneValues&, const TuneKey&)> same = nullptr;

  TuneResult tune(const std::vector<TuneKey>& keys, const TuneValues& start) {
    return worker::tune(keys, start,
                        {.pair =
                             [this](const TuneValues& best, const TuneValues& candidate, const TuneKey&) {
                               --pairs_left;
                               const double disturbed = 1 + noise * (pairs++ % 3 - 1);
                               return StepPair{.best = seconds(best), .candidate = seconds(candidate) * disturbed};
                             },
                         .has_time = [this] { return pairs_left > 0; },
                         .tried = [this](const TuneTrial& trial) { said.push_back(trial.key.key + "=" + trial.value); },
                         .same = same});
  }
};

const std::vector<TuneKey> kKeys = {{.key = "layout", .values = {"plain", "last"}, .changes_bits = true},
                                    {.key = "threads", .values = {"1", "2", "4"}, .changes_bits = true},
                                    {.key = "workers", .values = {"0", "1", "2"}, .loads = true}};
const TuneValues kStart = {{"layout", "plain"}, {"threads", "1"}, {"workers", "2"}};

double seconds_of(const TuneValues& values) {
  double seconds = values.at("layout") == "last" ? 0.8 : 1.0;
  seconds *= values.at("threads") == "2" ? 0.6 : values.at("threads") == "4" ? 0.7 : 1.0;
  return seconds + (values.at("workers") == "0" ? 0.5 : 0.0);
}

TEST(TuneSearch, FindsTheFastestValueOfEachKeyAfterTheOther) {
  Machine machine{.seconds = seconds_of};
  const TuneResult found = machine.tune(kKeys, kStart);
  EXPECT_EQ(found.best, (TuneValues{{"layout", "last"}, {"threads", "2"}, {"workers", "2"}}));
  EXPECT_THAT(machine.said, ElementsAre("layout=last", "threads=2", "threads=4", "workers=0", "workers=1"));
  EXPECT_THAT(found.untried, IsEmpty());
}

TEST(TuneSearch, ComparesWithTheBestSoFarAndNotWithTheStart) {
  // 4 threads are faster than 1 and slower than 2.
  Machine machine{.seconds = seconds_of};
  const TuneResult found = machine.tune({kKeys[1]}, kStart);
  ASSERT_EQ(found.trials.size(), 2U);
  EXPECT_TRUE(found.trials[0].verdict.faster);
  EXPECT_FALSE(found.trials[1].verdict.faster);
  EXPECT_NEAR(found.trials[1].verdict.ratio, 0.7 / 0.6, 1e-9);
}

TEST(TuneSearch, DoesNotComeBackToTheStartOfAKey) {
  Machine machine{.seconds = [](const TuneValues& values) { return values.at("workers") == "0" ? 0.5 : 1.0; }};
  EXPECT_EQ(machine.tune({kKeys[2]}, {{"workers", "1"}}).best.at("workers"), "0");
  EXPECT_THAT(machine.said, ElementsAre("workers=0", "workers=2"));
}

TEST(TuneSearch, DoesNotTimeWhatComputesTheSame) {
  // The second run of the same work is by chance faster.
  Machine machine{.seconds = [](const TuneValues& values) { return values.at("threads") == "4" ? 0.5 : 1.0; },
                  .same =
                      [](const TuneValues& best, const TuneValues& candidate, const TuneKey& key) {
                        return key.key == "threads" && best.at("threads") == "1" && candidate.at("threads") == "4";
                      }};
  const TuneResult found = machine.tune(kKeys, kStart);
  EXPECT_EQ(found.best.at("threads"), "1");
  EXPECT_THAT(found.same, ElementsAre("threads=4"));
  EXPECT_THAT(machine.said, ElementsAre("layout=last", "threads=2", "workers=0", "workers=1"));
}

TEST(TuneSearch, LeavesWhatIsNotFasterByMoreThanTwoPercent) {
  const auto faster_by = [](double gain) {
    Machine machine{
        .seconds = [gain](const TuneValues& values) { return values.at("layout") == "last" ? 1 - gain : 1; }};
    return machine.tune({kKeys[0]}, kStart).best.at("layout");
  };
  EXPECT_EQ(faster_by(0.019), "plain");
  EXPECT_EQ(faster_by(0.021), "last");
}

TEST(TuneSearch, LeavesWhatIsFasterByLessThanTheNoise) {
  const auto with_noise = [](double noise) {
    Machine machine{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 0.95 : 1; },
                    .noise = noise};
    return machine.tune({kKeys[0]}, kStart).best.at("layout");
  };
  EXPECT_EQ(with_noise(0.01), "last");
  EXPECT_EQ(with_noise(0.08), "plain");
}

TEST(TuneSearch, StopsMeasuringWhereTheDifferenceIsPlain) {
  Machine plain{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 2.0 : 1.0; }};
  (void)plain.tune({kKeys[0]}, kStart);
  EXPECT_EQ(plain.pairs, 3);
  Machine close{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 1.02 : 1.0; }};
  (void)close.tune({kKeys[0]}, kStart);
  EXPECT_EQ(close.pairs, 7);
}

TEST(TuneSearch, TriesNothingNewOnceThereIsNoTimeAndSaysWhatItLeft) {
  Machine machine{.seconds = [](const TuneValues& values) { return values.at("layout") == "last" ? 0.95 : 1.0; },
                  .pairs_left = 2};
  const TuneResult found = machine.tune(kKeys, kStart);
  EXPECT_EQ(found.best.at("layout"), "last");  // three pairs, which are the least, and not seven
  EXPECT_EQ(machine.pairs, 3);
  EXPECT_THAT(found.untried, ElementsAre("threads=2", "threads=4", "workers=0", "workers=1"));
}

std::vector<std::string> names(const std::vector<TuneKey>& keys, const TuneValues& values) {
  std::vector<std::string> found;
  for (const TuneKey& key : keys) {
    if (!key.applies || key.applies(values)) found.push_back(key.key);
  }
  return found;
}

/// Settings with what their rows say; their values are of no interest here.
ConfigFields rows_of_tune() {
  static std::int64_t number = 1;
  ConfigFields rows;
  for (const char* key : {"channels_last", "fused_layers"}) rows.add(key, &number, "").tuned();
  rows.add("threads", &number, "").at_resume(OnResume::kCheckpoint).tuned();
  for (const char* key : {"bucket_cap_mb", "workers", "prefetch_factor"}) {
    rows.add(key, &number, "").at_resume(OnResume::kFree).tuned();
  }
  return rows;
}

TEST(TuneKeys, AreThoseWhoseRowsSaySo) {
  ConfigFields rows = rows_of_tune();
  rows.at("workers").tune = false;
  const TunePlace place{.cores = 8, .ranks = 2, .replicas = 2};
  std::vector<std::string> bits;
  for (const TuneKey& key : tune_keys(place, rows)) {
    EXPECT_NE(key.key, "workers");
    if (key.changes_bits) bits.push_back(key.key);
  }
  EXPECT_THAT(bits, ElementsAre("channels_last", "fused_layers", "threads"));
  std::int64_t number = 1;
  rows.add("seed", &number, "").tuned();
  EXPECT_THROW((void)tune_keys(place, rows), InternalError);
}

TEST(TuneKeys, AreThoseThatDoSomethingThere) {
  const TuneValues loading = {{"workers", "2"}};
  EXPECT_THAT(names(tune_keys({.cores = 8, .ranks = 2, .replicas = 2}, rows_of_tune()), loading),
              ElementsAre("channels_last", "fused_layers", "threads", "bucket_cap_mb", "workers", "prefetch_factor"));
  EXPECT_THAT(
      names(tune_keys({.cores = 8, .ranks = 1, .replicas = 1, .cpu = false}, rows_of_tune()), {{"workers", "0"}}),
      ElementsAre("channels_last", "workers"));
}

TEST(TuneKeys, ThreadsFillTheCoresThatARankHas) {
  const auto threads = [](int cores, int ranks) {
    return tune_keys({.cores = cores, .ranks = ranks}, rows_of_tune())[2].values;
  };
  EXPECT_THAT(threads(2, 2), ElementsAre("1"));
  EXPECT_THAT(threads(12, 2), ElementsAre("1", "2", "4", "6"));
  EXPECT_THAT(threads(1, 4), ElementsAre("1"));
}

TEST(TuneSearch, ItsFiguresAreThoseOfOnePair) {
  // The machine was busy during some steps: the medians of each side are of different pairs, and their quotient is none
  // that was measured.
  const TuneVerdict verdict = judge({{.best = 10, .candidate = 8},
                                     {.best = 30, .candidate = 27},
                                     {.best = 11, .candidate = 22},
                                     {.best = 12, .candidate = 9},
                                     {.best = 40, .candidate = 38}});
  EXPECT_EQ(verdict.best, 30);
  EXPECT_EQ(verdict.seconds, 27);
  EXPECT_EQ(verdict.ratio, 0.9);
}

/// The two times and the ratio of a line.
std::vector<double> figures_of(const std::string& line) {
  static const std::regex number(R"(([0-9]+\.?[0-9]*) (ms|x the time))");
  std::vector<double> found;
  for (std::sregex_iterator at(line.begin(), line.end(), number), end; at != end; ++at) {
    found.push_back(text::parse_number((*at)[1].str()).value());
  }
  return found;
}

TEST(TuneReport, TheRatioIsTheQuotientOfTheTimesBesideIt) {
  for (const auto& [best, candidate] :
       {std::pair(0.0004449, 0.0004351), std::pair(0.0123449, 0.0122999), std::pair(1.23456, 0.99951)}) {
    const TuneTrial trial{.key = {.key = "workers"}, .value = "1", .verdict = judge({{best, candidate}})};
    const auto figures = figures_of(trial_line(trial));
    ASSERT_EQ(figures.size(), 3U) << trial_line(trial);
    EXPECT_NEAR(figures[2], figures[0] / figures[1], 0.00501) << trial_line(trial);
    const std::string gained = gain_line({.before = best, .after = candidate});
    const auto gain = figures_of(gained);
    ASSERT_EQ(gain.size(), 3U) << gained;
    EXPECT_NEAR(gain[2], gain[1] / gain[0], 0.00501) << gained;
  }
}

TEST(TuneReport, TheFileHasWhatWasGivenAndWhatWasFoundWithItsFigures) {
  std::string recipe = "captcha";
  std::string folder = "data/train: a";
  std::int64_t batch = 64;
  std::int64_t threads = 1;
  ConfigFields fields;
  fields.add("recipe", &recipe, "");
  fields.add("data.train", &folder, "");
  fields.add("batch_size", &batch, "");
  fields.add("threads", &threads, "");
  ConfigTree tree;
  tree.set("data.train=data/train: a", "--set");
  tree.set("threads=1", "--set");
  fields.bind(tree);
  Machine machine{.seconds = seconds_of};
  const TuneResult found = machine.tune(kKeys, kStart);
  const std::string yaml = tuned_yaml({"by hand"}, fields, found);
  EXPECT_EQ(yaml.substr(0, 26), "# by hand\nrecipe: captcha\n");
  EXPECT_THAT(yaml,
              HasSubstr("threads: 2               # 2: 480.0 ms against 800.0 ms, 0.60 x the time (noise 0.0 %); 4: "
                        "560.0 ms against 480.0 ms, 1.17 x the time"));
  EXPECT_THAT(yaml, ::testing::Not(HasSubstr("batch_size")));
  const ConfigTree back = ConfigTree::from_text(yaml, "tuned.yml");
  EXPECT_EQ(back.values().at("data.train").yaml, "data/train: a");
  EXPECT_EQ(back.values().at("threads").yaml, "2");
  EXPECT_EQ(back.values().at("layout").yaml, "last");
  EXPECT_THAT(bits_that_change(kStart, found), ElementsAre("layout", "threads"));
}

}  // namespace tune_search_test
}  // namespace lockstep::worker
