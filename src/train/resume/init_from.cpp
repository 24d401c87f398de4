// SPDX-License-Identifier: Apache-2.0
#include "train/resume/init_from.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/weights.h"

namespace lockstep::train {

void require_one_start(const TrainerOptions& options) {
  if (options.init_from.empty() || options.resume == "none" || options.resume == "auto") return;
  throw UsageError(fmt::format("the run cannot both resume from {} and start from the weights of {}", options.resume,
                               options.init_from.string()),
                   fmt::format("use only one of {} and {}", option_words("resume"), option_words("init-from")));
}

}  // namespace lockstep::train

namespace lockstep {
namespace {

std::string first_part(const std::string& name) { return name.substr(0, name.find('.')); }

/// Returns the part of the model, such as "backbone", that the weights fill exactly, with none left over; "" if there
/// is none. Batch norm's batch counts may be missing.
std::string part_filled_by(const WeightsMatch& match) {
  if (match.loaded.empty() || !match.unused.empty() || !match.other_shapes.empty()) return "";
  const std::string part = first_part(match.loaded.front());
  const bool is_other = std::any_of(match.loaded.begin(), match.loaded.end(),
                                    [&](const std::string& name) { return first_part(name) != part; });
  const bool has_gap = std::any_of(match.missing.begin(), match.missing.end(), [&](const std::string& name) {
    return first_part(name) == part && !name.ends_with(".num_batches_tracked");
  });
  return is_other || has_gap ? "" : part;
}

std::string if_meant() {
  return "if these are the right weights, start from them with " + option_words("init-from-partial");
}

/// Some weights of a different model may fit by chance, and a run that starts from them looks normal. So the weights
/// must either fill a part of the model or match half of it.
void require_half(const NamedTensors& model, const Weights& weights, const WeightsMatch& match) {
  std::int64_t all = 0;
  std::int64_t fitting = 0;
  for (const auto& [name, tensor] : tensor::without_repeats(model)) {
    all += tensor.numel();
    if (std::binary_search(match.loaded.begin(), match.loaded.end(), name)) fitting += tensor.numel();
  }
  if (match.loaded.empty() || 2 * fitting >= all) return;  // copy_weights() reports its own error if none match
  const std::string part = part_filled_by(match);
  if (!part.empty()) {
    return log::note("{} fills only the model's {}, {} of {} elements", weights.origin, part, text::thousands(fitting),
                     text::thousands(all));
  }
  throw DataError(fmt::format("the weights from {} fit only {} of the model's {} elements ({:.1f} %)\n{}",
                              weights.origin, text::thousands(fitting), text::thousands(all),
                              100.0 * static_cast<double>(fitting) / static_cast<double>(all), to_text(match, 5)),
                  if_meant());
}

/// If the model lacks entries of the file and the file lacks parameters of the model, then some trained part has a
/// different name in the file and would start from random weights.
void require_no_other_names(const NamedTensors& model, const Weights& weights, const WeightsMatch& match) {
  const auto random = std::count_if(model.begin(), model.end(), [&](const auto& item) {
    return item.second.requires_grad() && std::binary_search(match.missing.begin(), match.missing.end(), item.first);
  });
  if (random == 0 || match.unused.empty() || match.loaded.empty()) return;
  throw DataError(fmt::format("the weights from {} leave {} parameters of the model random, and have {} entries that "
                              "the model does not have\n{}",
                              weights.origin, random, match.unused.size(), to_text(match, 5)),
                  if_meant());
}

}  // namespace

void start_from_weights(Task& task, const NamedTensors& model, const FirstWeights& from) {
  Weights weights = load_weights(from.path.string());
  task.check_model_state(weights.tensors);
  for (const std::string& done : task.fit_weights(weights.tensors, model)) log::note("{}: {}", weights.origin, done);
  if (!from.may_be_partial) {
    const WeightsMatch match = match_weights(model, weights.tensors);
    require_half(model, weights, match);
    require_no_other_names(model, weights, match);
  }
  std::string report = to_text(copy_weights(model, weights));
  report.pop_back();  // removes the newline at the end
  log::note("weights from {}: {}", weights.origin, report);
}

}  // namespace lockstep
