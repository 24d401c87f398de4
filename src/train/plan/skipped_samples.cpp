// SPDX-License-Identifier: Apache-2.0
#include "train/plan/skipped_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::train {
namespace {

constexpr const char* kKey = "data.skipped_samples";
constexpr WholeRange kCounts{0, 1'000'000'000'000'000};

[[noreturn]] void refuse() {
  throw UsageError(fmt::format("{} is not a list of {{epoch: E, batch: B, samples: [I, ...]}}", kKey),
                   "to skip samples by name, set data.skip_samples to a file that lists them");
}

template <class T>
const T& value_of(const ConfigMap& map, const std::string& name) {
  const auto found = map.find(name);
  const T* const value = found == map.end() ? nullptr : std::get_if<T>(&found->second);
  if (value == nullptr) refuse();
  return *value;
}

std::int64_t count_of(const std::string& text) { return whole_number(kKey, text, kCounts); }

/// The position in an epoch's order from which a sample is skipped.
struct Begin {
  std::int64_t position;
  std::int64_t index;
};

/// The samples that may replace others. Their number shrinks along the order, as more samples are skipped.
class Substitutes {
 public:
  explicit Substitutes(std::int64_t size) : out_(static_cast<std::size_t>(size)) {}

  void leave_out(std::int64_t index) {
    out_[static_cast<std::size_t>(index)] = true;
    kept_.clear();
  }
  [[nodiscard]] bool is_out(std::int64_t index) const { return out_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::int64_t draw(SampleRandom random) {
    if (kept_.empty()) {
      for (std::size_t i = 0; i < out_.size(); ++i) {
        if (!out_[i]) kept_.push_back(static_cast<std::int64_t>(i));
      }
    }
    return kept_[static_cast<std::size_t>(random.below(kept_.size()))];
  }

 private:
  std::vector<bool> out_;
  std::vector<std::int64_t> kept_;
};

}  // namespace

SkippedSamples::SkippedSamples(const std::vector<ConfigMap>& maps) {
  for (const ConfigMap& map : maps) {
    if (map.size() != 3) refuse();
    const BatchPlace from{.epoch = count_of(value_of<std::string>(map, "epoch")),
                          .batch = count_of(value_of<std::string>(map, "batch"))};
    for (const std::string& index : value_of<std::vector<std::string>>(map, "samples")) add(count_of(index), from);
  }
}

SkippedSamples SkippedSamples::in_settings(const ConfigTree& settings) {
  std::vector<ConfigMap> maps;
  ConfigFields fields;
  fields.add(kKey, &maps, "");
  fields.bind(settings.filtered([](const std::string& key) { return key == kKey; }));
  return SkippedSamples(maps);
}

void SkippedSamples::add(std::int64_t index, const BatchPlace& from) {
  const auto [known, is_new] = from_.try_emplace(index, from);
  if (!is_new) known->second = std::min(known->second, from);
}

void SkippedSamples::add(const SkippedSamples& others) {
  for (const auto& [index, from] : others.from_) add(index, from);
}

std::vector<ConfigMap> SkippedSamples::to_maps() const {
  std::map<BatchPlace, std::vector<std::string>> by_place;
  for (const auto& [index, from] : from_) by_place[from].push_back(std::to_string(index));
  std::vector<ConfigMap> maps;
  for (const auto& [from, samples] : by_place) {
    maps.push_back(
        {{"epoch", std::to_string(from.epoch)}, {"batch", std::to_string(from.batch)}, {"samples", samples}});
  }
  return maps;
}

void SkippedSamples::require_enough(std::int64_t set_size, std::int64_t least) const {
  if (from_.empty()) return;
  if (const std::int64_t last = from_.rbegin()->first; last >= set_size) {
    throw DataError(fmt::format("{} names sample {}, but data.train has {} samples", kKey, last, set_size),
                    "continue with the samples that the run began with");
  }
  if (set_size - size() >= least) return;
  throw DataError(fmt::format("{} of {} samples are skipped, leaving fewer than {}", size(), set_size, least),
                  "skip fewer samples");
}

void SkippedSamples::replace_in(std::vector<std::int64_t>& order, std::int64_t epoch, const OrderShape& shape) const {
  constexpr std::uint64_t kStream = 0x7768617469737468;  // its own random stream
  std::vector<Begin> begins;
  for (const auto& [index, from] : from_) {
    if (from.epoch > epoch) continue;
    begins.push_back({from.epoch < epoch ? 0 : from.batch * shape.samples_of_step, index});
  }
  std::stable_sort(begins.begin(), begins.end(), [](auto& a, auto& b) { return a.position < b.position; });
  Substitutes substitutes(shape.size);
  auto next = begins.begin();
  for (std::int64_t position = 0; position < std::ssize(order); ++position) {
    for (; next != begins.end() && next->position <= position; ++next) substitutes.leave_out(next->index);
    std::int64_t& index = order[static_cast<std::size_t>(position)];
    if (!substitutes.is_out(index)) continue;
    index = substitutes.draw(
        SampleRandom(shape.seed ^ kStream, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index)));
  }
}

std::vector<std::int64_t> SkippingSampler::indices(std::int64_t epoch) const {
  std::vector<std::int64_t> order = RandomSampler(shape_.size, {.seed = shape_.seed}).indices(epoch);
  order.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; std::ssize(order) < size(); ++i) order.push_back(order[static_cast<std::size_t>(i)]);
  skipped_.replace_in(order, epoch, shape_);
  return order;
}

}  // namespace lockstep::train
