// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/weights.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/text.h"

namespace lockstep::detection::dfine {
namespace {

constexpr std::int64_t kCocoClasses = 80;
constexpr std::int64_t kObjectsClasses = 365;

/// For each of COCO's 80 classes, its class in Objects365, counted from 0.
constexpr std::array<std::int64_t, kCocoClasses> kObjects365 = {
    0,   46,  5,   58,  114, 55,  116, 65, 21,  40,  176, 127, 249, 24,  56,  139, 92,  78,  99,  96,
    144, 295, 178, 180, 38,  39,  13,  43, 120, 219, 148, 173, 165, 154, 137, 113, 145, 146, 204, 8,
    35,  10,  88,  84,  93,  26,  112, 82, 265, 104, 141, 152, 234, 143, 150, 97,  2,   50,  25,  75,
    98,  153, 37,  73,  115, 132, 106, 61, 163, 134, 277, 81,  133, 18,  94,  30,  169, 70,  328, 226};

const std::string kEmbedding = "decoder.denoising_class_embed.weight";

const at::Tensor* tensor_of(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  return found == state.end() ? nullptr : std::get_if<at::Tensor>(&found->second);
}

bool is_score_head(const std::string& name) {
  return name.starts_with("decoder.enc_score_head.") || name.starts_with("decoder.dec_score_head.");
}

bool of_objects365(std::int64_t classes) { return classes == kObjectsClasses || classes == kObjectsClasses + 1; }

/// True for a stage-1 file, which has only the backbone, so its names lack the prefix.
bool is_backbone(const StateDict& weights) {
  return weights.contains("stem.stem1.conv.weight") && !weights.contains("backbone.stem.stem1.conv.weight");
}

void rename_backbone(StateDict& weights) {
  StateDict renamed;
  for (auto& [name, value] : weights) renamed.emplace("backbone." + name, std::move(value));
  weights = std::move(renamed);
}

/// Converts a head between COCO and Objects365. In Objects365's head, class i has row i + 1; row 0 is unused.
at::Tensor other_head(const at::Tensor& from, const at::Tensor& ours) {
  const at::NoGradGuard guard;
  at::Tensor head = ours.detach().clone();
  for (std::size_t i = 0; i < kObjects365.size(); ++i) {
    const auto coco = static_cast<std::int64_t>(i);
    const std::int64_t objects = kObjects365[i] + 1;
    if (from.size(0) > ours.size(0)) {
      head[coco].copy_(from[objects]);
    } else {
      head[objects].copy_(from[coco]);
    }
  }
  return head;
}

/// True if both heads have the same width, and one is for COCO, the other for Objects365.
bool can_turn(const at::Tensor& a, const at::Tensor& b) {
  const auto [few, many] = std::minmax({a.size(0), b.size(0)});
  return a.dim() == b.dim() && (a.dim() == 1 || a.size(1) == b.size(1)) && few == kCocoClasses && of_objects365(many);
}

void require_same_bins(const StateDict& weights, const StateDict& model) {
  for (const char* name : {"decoder.reg_scale", "decoder.up"}) {
    const at::Tensor* theirs = tensor_of(weights, name);
    const at::Tensor* ours = tensor_of(model, name);
    if (theirs == nullptr || ours == nullptr || theirs->numel() != 1) continue;
    const auto a = theirs->item<double>();
    const auto b = ours->item<double>();
    if (std::abs(a - b) < 1e-6) continue;
    throw DataError(
        fmt::format("{} is {} in the weights but {} in the settings: boxes would be decoded differently", name, a, b),
        setting_words(fmt::format("dfine.{}={}", name + sizeof("decoder.") - 1, a)));
  }
}

void drop_computed(StateDict& weights) {
  std::erase_if(weights, [](const auto& item) {
    const std::string& name = item.first;
    return name == "decoder.anchors" || name == "decoder.valid_mask" || name == "decoder.up" ||
           name == "decoder.reg_scale" || name == "decoder.decoder.up" || name == "decoder.decoder.reg_scale";
  });
}

}  // namespace

std::vector<std::string> fit_weights(StateDict& weights, const NamedTensors& model) {
  std::vector<std::string> done;
  if (is_backbone(weights)) {
    rename_backbone(weights);
    done.emplace_back("the weights are those of a backbone");
  }
  const StateDict state = to_state_dict(model);
  require_same_bins(weights, state);
  drop_computed(weights);
  const at::Tensor* embedding = tensor_of(weights, kEmbedding);
  const at::Tensor* my_embedding = tensor_of(state, kEmbedding);
  if (embedding != nullptr && my_embedding != nullptr && embedding->sizes() != my_embedding->sizes()) {
    done.push_back(fmt::format("the denoising embedding is for {} classes and is reinitialized for {}",
                               embedding->size(0) - 1, my_embedding->size(0) - 1));
    weights.erase(kEmbedding);
  }
  std::int64_t turned = 0;
  for (auto& [name, value] : weights) {
    const auto* theirs = std::get_if<at::Tensor>(&value);
    const at::Tensor* head = tensor_of(state, name);
    if (theirs == nullptr || head == nullptr || !is_score_head(name) || theirs->sizes() == head->sizes()) continue;
    if (!can_turn(*theirs, *head)) continue;
    value = other_head(*theirs, *head);
    ++turned;
  }
  if (turned > 0)
    done.push_back(fmt::format("{} of score heads converted from one data set's classes to the other's",
                               text::counted(turned, "entry", "entries")));
  return done;
}

}  // namespace lockstep::detection::dfine
