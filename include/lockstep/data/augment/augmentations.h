// SPDX-License-Identifier: Apache-2.0
// A chain of augmentations chosen at run time, for example from a configuration.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The values of each setting, by name: {"size", {224, 224}}, {"p", {0.5}}.
using AugmentationSettings = std::map<std::string, std::vector<double>>;

/// One step and its name.
struct Augmentation {
  std::string name;  ///< its name in configurations, with its parameters
  /// Changes the image; draws from the context's random numbers.
  std::function<void(AnnotatedImage&, SampleContext&)> run;
};

/// Creates the built-in step `name`, such as "random_resized_crop", with `settings` and defaults for the rest.
/// Throws: UsageError for an unknown step or setting (suggesting the nearest name) or a wrong number of values.
[[nodiscard]] Augmentation make_augmentation(std::string_view name, const AugmentationSettings& settings = {});

/// Creates a step from text: "rotation degrees=20 p=0.5", "resize size=320,240".
/// Throws: the UsageErrors of make_augmentation(), and UsageError for text that cannot be parsed.
[[nodiscard]] Augmentation parse_augmentation(std::string_view text);

/// Returns the names of all built-in steps, sorted.
[[nodiscard]] std::vector<std::string> augmentation_names();

/// A sequence of steps, and itself a step of Compose. Thread-safe: yes for calls, if all steps are thread-safe.
/// Example: Augmentations chain; chain.add(make_augmentation("horizontal_flip", {{"p", {0.5}}}));
class Augmentations {
 public:
  /// Appends a step.
  void add(Augmentation step) { steps_.push_back(std::move(step)); }
  /// Returns the steps, in the order they run.
  [[nodiscard]] const std::vector<Augmentation>& steps() const noexcept { return steps_; }

  void operator()(AnnotatedImage& image, SampleContext& context) const {
    for (const Augmentation& step : steps_) step.run(image, context);
  }

 private:
  std::vector<Augmentation> steps_;
};

}  // namespace lockstep

#pragma GCC visibility pop
