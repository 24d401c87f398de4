// SPDX-License-Identifier: Apache-2.0
#include "captcha/metrics/scores.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/TensorOperators.h>
#include <utility>

#include "lockstep/view/table.h"

namespace lockstep::captcha {
namespace {

// The CxC table starts after the two counts of strings.
constexpr std::int64_t kTable = 2;

std::int64_t side(const at::Tensor& counts) {
  std::int64_t classes = 0;
  while (classes * classes < counts.numel() - kTable) ++classes;
  return classes;
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

at::Tensor decode(const at::Tensor& logits, std::int64_t classes) {
  return logits.view({logits.size(0), -1, classes}).argmax(2);
}

at::Tensor count_reads(const at::Tensor& logits, const at::Tensor& target_NL, std::int64_t classes) {
  const at::Tensor read_NL = decode(logits, classes);
  const at::Tensor right_N = read_NL.eq(target_NL).all(1);
  const at::Tensor right = right_N.sum().to(at::kDouble);
  const at::Tensor strings = at::stack({at::full_like(right, static_cast<double>(target_NL.size(0))), right});
  const at::Tensor table = at::bincount((target_NL * classes + read_NL).flatten(), {}, classes * classes);
  return at::cat({strings, table.to(at::kDouble)});
}

std::vector<Metric> read_metrics(const at::Tensor& counts) {
  const std::int64_t classes = side(counts);
  const at::Tensor table = counts.narrow(0, kTable, classes * classes).view({classes, classes});
  return {{"string_accuracy", ratio(counts[1].item<double>(), counts[0].item<double>())},
          {"char_accuracy", ratio(table.trace().item<double>(), table.sum().item<double>())}};
}

std::string confusions(const at::Tensor& counts, const std::string& characters, std::size_t limit) {
  const std::size_t classes = characters.size();
  const double* table = counts.data_ptr<double>() + kTable;
  std::vector<view::Confusion> found;
  for (std::size_t truth = 0; truth < classes; ++truth) {
    for (std::size_t read = 0; read < classes; ++read) {
      const auto times = static_cast<std::int64_t>(table[truth * classes + read]);
      if (truth != read && times > 0) {
        found.push_back({std::string(1, characters[truth]), std::string(1, characters[read]), times});
      }
    }
  }
  return view::render_confusions(std::move(found), limit);
}

}  // namespace lockstep::captcha
