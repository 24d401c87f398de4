// SPDX-License-Identifier: Apache-2.0
// The best possible scores of a network that perceives generated scenes perfectly: with the most frequent caption, the
// goal of cross entropy; with the caption that agrees best with all others, which CIDEr-D rewards; and with one
// person's. The distribution of captions is known here: the grammar is sampled repeatedly for the same scene.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "captioning/metrics/scores.h"
#include "captioning/metrics/tokens.h"
#include "captioning/synthetic/scene.h"

namespace lockstep::captioning {
namespace {

constexpr int kPeople = 1000;  // captions drawn per scene, in groups of five
constexpr int kJudges = 300;   // a caption's agreement is measured against the captions of this many people
constexpr std::uint64_t kOtherPeople = 1000003;

class Words {
 public:
  Ids ids_of(const std::string& caption) {
    Ids ids;
    for (const std::string& word : words_of(caption)) {
      ids.push_back(ids_.try_emplace(word, static_cast<std::int64_t>(ids_.size()) + 1).first->second);
    }
    return ids;
  }
  std::vector<Ids> said_about(const Scene& scene) {
    std::vector<Ids> said;
    for (const std::string& caption : scene_captions(scene)) said.push_back(ids_of(caption));
    return said;
  }

 private:
  std::map<std::string, std::int64_t> ids_;
};

struct Choice {
  Ids most_often;
  Ids agreeing;
  Ids anyone;
};

Choice choose(Scene scene, Words& words, const CiderD& cider) {
  std::map<Ids, int> counts;
  std::vector<CiderD::Reference> judges;
  Choice choice;
  for (std::uint64_t group = 1; group <= kPeople / kSceneCaptions; ++group) {
    scene.captions += kOtherPeople;
    const std::vector<Ids> said = words.said_about(scene);
    if (group <= kJudges / kSceneCaptions) judges.push_back(cider.prepare(said));
    for (const Ids& caption : said) ++counts[caption];
    choice.anyone = said.front();
  }
  int most = 0;
  double best = -1;
  for (const auto& [caption, count] : counts) {
    if (count > most) {
      most = count;
      choice.most_often = caption;
    }
    double agreement = 0;
    for (const auto& judge : judges) agreement += cider.score(caption, judge);
    if (agreement > best) {
      best = agreement;
      choice.agreeing = caption;
    }
  }
  return choice;
}

int run(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 500;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2;
  if (count < 2) {
    fmt::print(stderr, "usage: bench_captioning_ceiling [SCENES] [SEED]\n");
    return 64;
  }
  Words words;
  std::vector<std::vector<Ids>> references;
  for (std::int64_t i = 0; i < count; ++i) references.push_back(words.said_about(make_scene(seed, i)));
  const CiderD cider(std::make_shared<const DocumentFrequencies>(DocumentFrequencies::of(references)));
  std::map<std::string, std::vector<ScoredCaption>> ways;
  for (std::int64_t i = 0; i < count; ++i) {
    const Choice choice = choose(make_scene(seed, i), words, cider);
    const std::vector<Ids>& refs = references[static_cast<std::size_t>(i)];
    ways["one person's"].push_back({i, choice.anyone, refs});
    ways["said most often"].push_back({i, choice.most_often, refs});
    ways["agreeing best"].push_back({i, choice.agreeing, refs});
  }
  fmt::print("{:<18} {:>8} {:>8} {:>8}\n", "caption", "CIDEr-D", "BLEU-4", "ROUGE-L");
  for (const char* way : {"one person's", "said most often", "agreeing best"}) {
    const CaptionScores scores = score_captions(ways.at(way));
    fmt::print("{:<18} {:>8.4f} {:>8.4f} {:>8.4f}\n", way, scores.cider_d, scores.bleu[3], scores.rouge_l);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::captioning

/// captioning_ceiling [SCENES] [SEED]
int main(int argc, char** argv) { return lockstep::captioning::run(argc, argv); }
