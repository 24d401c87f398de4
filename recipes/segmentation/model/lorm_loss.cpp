// SPDX-License-Identifier: Apache-2.0
// LoRM's loss with its gradient, one block of foreground positions at a time. The gradient from a position's difference
// d between feature and rectified feature needs only that position's row of the attention, so no row is kept. Forward
// computes gradients of the sum of squares; backward divides them by the number of squares.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"
#include "lockstep/tensor/torch_version.h"
#include "segmentation/model/lorm.h"

namespace lockstep::segmentation {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kSmallestNorm = 1e-12;

/// The number of foreground positions processed together, for an image of `places` positions: a block of the attention
/// is 8 MiB. Smaller blocks would cost more time than the saved memory is worth. With 3481 positions, a block has 602
/// rows.
std::int64_t block_of(std::int64_t places) {
  constexpr std::int64_t kElements = 1 << 21;
  return std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(places, 1), 64, 1024);
}

struct LormTypes {
  at::ScalarType product;
  at::ScalarType sum;
};

LormTypes types_of(const at::Tensor& features) {
  if (features.scalar_type() == at::kDouble) return {at::kDouble, at::kDouble};
  const tensor::AutocastState autocast = tensor::autocast_state(features.device().type());
  const bool bfloat16 = autocast.enabled && autocast.dtype == at::kBFloat16;
  return {bfloat16 ? at::kBFloat16 : at::kFloat, at::kFloat};
}

/// Rows normalised to length 1, and their original lengths.
struct UnitRows {
  at::Tensor rows;
  at::Tensor lengths;  ///< [.., 1]
};

UnitRows unit_rows_of(const at::Tensor& rows) {
  const at::Tensor lengths = rows.norm(2, {-1}, /*keepdim=*/true).clamp_min_(kSmallestNorm);
  return {rows / lengths, lengths};
}

/// Turns the gradient of the rows of length 1 into the gradient of the original rows, in place.
at::Tensor through_lengths(at::Tensor grad, const UnitRows& unit) {
  const at::Tensor along = (grad * unit.rows).sum(-1, /*keepdim=*/true);
  return grad.sub_(unit.rows * along).div_(unit.lengths);
}

/// The sums of one image, or of all images.
struct LormSums {
  at::Tensor squares;  ///< a number
  at::Tensor count;    ///< int64: number of nonzero squares
  at::Tensor gamma;    ///< gradient of `squares` with respect to gamma
};

/// Sums in two steps: libtorch splits a sum of all elements between its threads.
at::Tensor sum_rows(const at::Tensor& rows) { return rows.sum({1}).sum(); }

/// Adds a product of any type to `sum`.
void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == sum.scalar_type()) {
    sum.addmm_(a, b);
  } else {
    sum.add_(at::mm(a, b));
  }
}

LormSums zero_sums(const at::TensorOptions& options) {
  return {at::zeros({}, options), at::zeros({}, options.dtype(at::kLong)), at::zeros({}, options)};
}

/// The loss of one image.
class Picture {
 public:
  Picture(const at::Tensor& features, const at::Tensor& keys, const at::Tensor& gamma, LormTypes types)
      : types_(types),
        x_(features.to(types.sum)),
        x_product_(features.to(types.product)),
        keys_(unit_rows_of(keys.to(types.sum))),
        keys_product_(keys_.rows.to(types.product)),
        gamma_(gamma.to(types.sum)),
        sums_(zero_sums(x_.options())) {}

  /// Adds the background positions, for which x' is 0.
  void background(const at::Tensor& foreground, bool wants_grad) {
    const at::Tensor rows = x_.masked_fill(foreground.unsqueeze(1), 0);
    add_squares(rows);
    if (!wants_grad) return;
    grad_x_ = rows * 2;
    grad_keys_ = at::zeros_like(x_);
  }

  /// Adds a block of foreground positions with their queries. Returns the queries' gradient, or an undefined tensor.
  at::Tensor foreground(const at::Tensor& places, const at::Tensor& queries, bool wants_grad) {
    const UnitRows unit = unit_rows_of(queries.to(types_.sum));
    const at::Tensor unit_product = unit.rows.to(types_.product);
    at::Tensor attention = at::mm(unit_product, keys_product_.t()).to(types_.sum).exp_();  // cosines: no overflow
    attention.div_(attention.sum(1, /*keepdim=*/true));
    const at::Tensor shares = attention.to(types_.product);
    const at::Tensor said = at::mm(shares, x_product_).to(types_.sum);
    const at::Tensor difference = x_.index_select(0, places) - gamma_ * said;
    add_squares(difference);
    if (!wants_grad) return {};
    const at::Tensor by_difference = difference * 2;
    sums_.gamma.sub_(sum_rows(by_difference * said));
    const at::Tensor by_said = by_difference * -gamma_;
    const at::Tensor by_said_product = by_said.to(types_.product);
    grad_x_.index_add_(0, places, by_difference);
    add_product(grad_x_, shares.t(), by_said_product);
    at::Tensor by_scores = at::mm(by_said_product, x_product_.t()).to(types_.sum);
    by_scores.sub_((by_said * said).sum(1, /*keepdim=*/true)).mul_(attention);
    const at::Tensor scores_product = by_scores.to(types_.product);
    add_product(grad_keys_, scores_product.t(), unit_product);
    return through_lengths(at::mm(scores_product, keys_product_).to(types_.sum), unit);
  }

  void add_to(LormSums& all) const {
    all.squares.add_(sums_.squares);
    all.count.add_(sums_.count);
    all.gamma.add_(sums_.gamma);
  }
  [[nodiscard]] const at::Tensor& grad_features() const noexcept { return grad_x_; }
  [[nodiscard]] at::Tensor grad_keys() { return through_lengths(grad_keys_, keys_); }

 private:
  void add_squares(const at::Tensor& differences) {
    const at::Tensor squares = differences.square();
    sums_.squares.add_(sum_rows(squares));
    sums_.count.add_(squares.count_nonzero());
  }

  LormTypes types_;
  at::Tensor x_;
  at::Tensor x_product_;
  UnitRows keys_;
  at::Tensor keys_product_;
  at::Tensor gamma_;
  at::Tensor grad_x_;
  at::Tensor grad_keys_;
  LormSums sums_;
};

/// Indices of the tensors that autograd tracks, and of the tensors kept for backward.
enum Kept { kFeatures, kQueries, kKeys, kGamma, kMeanOver };

/// Processes all images together, in blocks of positions: no size depends on the foreground.
class AllPlaces {
 public:
  AllPlaces(const at::TensorList& tensors, const at::Tensor& foreground, LormTypes types)
      : types_(types),
        x_(tensors[kFeatures].to(types.sum)),
        x_product_(x_.to(types.product)),
        keys_(unit_rows_of(tensors[kKeys].to(types.sum))),
        keys_product_(keys_.rows.to(types.product)),
        queries_(unit_rows_of(tensors[kQueries].to(types.sum))),
        foreground_(foreground.unsqueeze(2).to(types.sum)),
        gamma_(tensors[kGamma].to(types.sum)),
        sums_(zero_sums(x_.options())) {}

  void compute(bool wants_grad) {
    if (wants_grad) {
      grad_x_ = at::zeros_like(x_);
      grad_queries_ = at::empty_like(x_);
      grad_keys_ = at::zeros_like(x_);
    }
    const std::int64_t block = rows_of_block();
    for (std::int64_t begin = 0; begin < x_.size(1); begin += block) {
      compute_block({begin, std::min(block, x_.size(1) - begin)}, wants_grad);
    }
    if (wants_grad) grad_keys_ = through_lengths(grad_keys_, keys_);
  }

  [[nodiscard]] const LormSums& sums() const noexcept { return sums_; }
  /// The gradients in the order of Kept.
  [[nodiscard]] variable_list grads() const { return {grad_x_, grad_queries_, grad_keys_}; }

 private:
  struct Rows {
    std::int64_t begin;
    std::int64_t count;
    [[nodiscard]] at::Tensor of(const at::Tensor& values) const { return values.narrow(1, begin, count); }
  };

  /// The number of rows per block for which the attention of all images takes 64 MiB in float32.
  [[nodiscard]] std::int64_t rows_of_block() const {
    constexpr std::int64_t kElements = 1 << 24;
    return std::max<std::int64_t>(64, kElements / std::max<std::int64_t>(1, x_.size(0) * x_.size(1)));
  }

  void compute_block(const Rows& rows, bool wants_grad) {
    const at::Tensor unit_product = rows.of(queries_.rows).to(types_.product);
    at::Tensor attention = at::bmm(unit_product, keys_product_.transpose(1, 2)).to(types_.sum).exp_();
    attention.div_(attention.sum(2, /*keepdim=*/true)).mul_(rows.of(foreground_));
    const at::Tensor shares = attention.to(types_.product);
    const at::Tensor said = at::bmm(shares, x_product_).to(types_.sum);
    const at::Tensor difference = rows.of(x_) - gamma_ * said;
    const at::Tensor squares = difference.square();
    sums_.squares.add_(squares.sum());
    sums_.count.add_(squares.count_nonzero());
    if (!wants_grad) return;
    const at::Tensor by_difference = difference * 2;
    sums_.gamma.sub_((by_difference * said).sum());
    const at::Tensor by_said = by_difference * -gamma_;
    const at::Tensor by_said_product = by_said.to(types_.product);
    rows.of(grad_x_).add_(by_difference);
    grad_x_.add_(at::bmm(shares.transpose(1, 2), by_said_product));
    at::Tensor by_scores = at::bmm(by_said_product, x_product_.transpose(1, 2)).to(types_.sum);
    by_scores.sub_((by_said * said).sum(2, /*keepdim=*/true)).mul_(attention);
    const at::Tensor scores_product = by_scores.to(types_.product);
    grad_keys_.add_(at::bmm(scores_product.transpose(1, 2), unit_product));
    rows.of(grad_queries_)
        .copy_(through_lengths(at::bmm(scores_product, keys_product_).to(types_.sum),
                               {rows.of(queries_.rows), rows.of(queries_.lengths)}));
  }

  LormTypes types_;
  at::Tensor x_;
  at::Tensor x_product_;
  UnitRows keys_;
  at::Tensor keys_product_;
  UnitRows queries_;
  at::Tensor foreground_;
  at::Tensor gamma_;
  LormSums sums_;
  at::Tensor grad_x_;
  at::Tensor grad_queries_;
  at::Tensor grad_keys_;
};

/// The arguments of forward that autograd does not track.
struct LormCall {
  const at::Tensor& foreground;
  bool wants_grad;
};

/// The sums of all images and, if requested, the gradients of the first three tensors.
LormSums sums_of_all_places(const at::TensorList& tensors, const LormCall& call, LormTypes types,
                            variable_list& grads) {
  AllPlaces all(tensors, call.foreground, types);
  all.compute(call.wants_grad);
  if (!call.wants_grad) return all.sums();
  const variable_list found = all.grads();
  for (std::size_t i = 0; i < found.size(); ++i) grads[i] = found[i].to(tensors[i].scalar_type());
  return all.sums();
}

/// Does the same with the queries of the foreground only.
LormSums sums_of_foreground(const at::TensorList& tensors, const LormCall& call, LormTypes types,
                            variable_list& grads) {
  const at::Tensor& features = tensors[kFeatures];
  if (call.wants_grad) {
    for (std::size_t i = 0; i < 3; ++i) grads[i] = at::empty_like(tensors[i]);
  }
  LormSums sums = zero_sums(features.options().dtype(types.sum));
  const std::int64_t block = block_of(features.size(1));
  std::int64_t row = 0;
  for (std::int64_t b = 0; b < features.size(0); ++b) {
    Picture picture(features[b], tensors[kKeys][b], tensors[kGamma], types);
    picture.background(call.foreground[b], call.wants_grad);
    const at::Tensor places = call.foreground[b].nonzero().squeeze(1);
    for (std::int64_t begin = 0; begin < places.size(0); begin += block) {
      const std::int64_t rows = std::min(block, places.size(0) - begin);
      const at::Tensor grad =
          picture.foreground(places.narrow(0, begin, rows), tensors[kQueries].narrow(0, row, rows), call.wants_grad);
      if (call.wants_grad) grads[kQueries].narrow(0, row, rows).copy_(grad);
      row += rows;
    }
    picture.add_to(sums);
    if (!call.wants_grad) continue;
    grads[kFeatures][b].copy_(picture.grad_features());
    grads[kKeys][b].copy_(picture.grad_keys());
  }
  return sums;
}

class LormFunction : public torch::autograd::Function<LormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, at::TensorList tensors, const LormCall* call) {
    const LormTypes types = types_of(tensors[kFeatures]);
    const Autocast plain(tensors[kFeatures].device().type(), Amp::kNone);
    variable_list grads(3);
    const bool all_places = tensors[kQueries].dim() == 3;
    const LormSums sums = (all_places ? sums_of_all_places : sums_of_foreground)(tensors, *call, types, grads);
    const at::Tensor mean_over = sums.count.clamp_min(1).to(types.sum);
    grads.push_back(sums.gamma.to(tensors[kGamma].scalar_type()).expand_as(tensors[kGamma]).contiguous());
    grads.push_back(mean_over);
    context->save_for_backward(grads);
    return sums.squares / mean_over;
  }

  static variable_list backward(AutogradContext* context, const variable_list& incoming) {
    if (at::GradMode::is_enabled()) {
      throw UsageError("second derivatives through LoRM's loss are not supported",
                       "call backward() without create_graph");
    }
    variable_list grads = context->get_saved_variables();
    const at::Tensor factor = incoming[0] / grads[kMeanOver];
    grads.pop_back();
    for (at::Tensor& grad : grads) grad = grad * factor.to(grad.scalar_type());
    grads.emplace_back();  // the last argument, `call`, has no gradient
    return grads;
  }
};

}  // namespace

at::Tensor lorm_loss(const LormInputs& inputs) {
  const bool wants_grad =
      at::GradMode::is_enabled() && (inputs.features.requires_grad() || inputs.queries.requires_grad() ||
                                     inputs.keys.requires_grad() || inputs.gamma.requires_grad());
  const LormCall call{.foreground = inputs.foreground, .wants_grad = wants_grad};
  const variable_list tensors = {inputs.features, inputs.queries, inputs.keys, inputs.gamma};
  return LormFunction::apply(at::TensorList(tensors), &call);
}

}  // namespace lockstep::segmentation
