// SPDX-License-Identifier: Apache-2.0
#include "train/task/loss_terms.h"

#include <ATen/ops/cat.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

std::vector<std::string> missing(const std::vector<std::string>& present, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const std::string& name : wanted) {
    if (std::find(present.begin(), present.end(), name) == present.end()) names.push_back(name);
  }
  return names;
}

void require_scalar(const LossTerm& term) {
  if (term.value.defined() && term.value.numel() == 1) return;
  const std::string shape =
      term.value.defined() ? fmt::format("has the shape [{}]", fmt::join(term.value.sizes(), ", ")) : "is undefined";
  throw UsageError(fmt::format("the loss term '{}' {}, but must be one number", term.name, shape),
                   "return the mean over the batch");
}

}  // namespace

at::Tensor total_loss(const std::vector<LossTerm>& terms) {
  if (terms.empty()) throw UsageError("the task returns no loss", "loss_terms() must return at least one term");
  for (const LossTerm& term : terms) require_scalar(term);
  at::Tensor total = terms.front().value;
  for (std::size_t i = 1; i < terms.size(); ++i) total = total + terms[i].value;
  return total;
}

at::Tensor loss_row(const at::Tensor& total, const std::vector<LossTerm>& terms) {
  std::vector<at::Tensor> values = {total.detach().reshape({1})};
  for (const LossTerm& term : terms) {
    if (terms.size() > 1) values.push_back(term.value.detach().to(total.scalar_type()).reshape({1}));
  }
  return values.size() == 1 ? values.front() : at::cat(values);
}

std::vector<std::string> loss_names(const std::vector<LossTerm>& terms) {
  std::vector<std::string> names;
  for (const LossTerm& term : terms) {
    if (terms.size() > 1) names.push_back(term.name);
  }
  return names;
}

void require_same_names(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  if (before == now) return;
  const std::vector<std::string> gone = missing(now, before);
  const std::vector<std::string> come = missing(before, now);
  std::string difference = "their order differs";
  if (!gone.empty()) difference = fmt::format("this batch lacks {}", text::join(gone));
  if (!come.empty()) difference = fmt::format("this batch also has {}", text::join(come));
  throw UsageError(fmt::format("the parts of the loss differ from the first batch: {}", difference),
                   "loss_terms() must return the same names for every batch, with 0 for a part without a value");
}

}  // namespace lockstep::train
