// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, or create tensors of a given shape.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

std::string shape_of(OnnxCall& call, std::size_t i) { return call.add("Shape", {call.in(i)}); }

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = kEnd;
};

std::string sliced(OnnxCall& call, const std::string& name, const Range& range, std::int64_t axis) {
  return call.add("Slice",
                  {name, call.integers_of({range.begin}), call.integers_of({range.end}), call.integers_of({axis})});
}

std::vector<std::int64_t> axes(std::int64_t rank) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string one_of(OnnxCall& call, const std::string& name, std::int64_t axis, const std::string& index) {
  return call.add("Gather", {name, index}, {{"axis", axis}});
}

/// Creates a tensor of the given shape, all of whose elements are `value`.
void fill(OnnxCall& call, const std::string& shape, double value) {
  const at::ScalarType type = call.result_type();
  const bool is_bool = type == at::kBool;  // some runtimes cannot create bool tensors
  const at::Tensor element = at::full({1}, value, is_bool ? at::kLong : type);
  const std::string made = call.add("ConstantOfShape", {shape}, {{"value", element}});
  call.give(is_bool ? call.cast(made, type) : made);
}

double value_of_name(const std::string& name) { return name.find("ones") != std::string::npos ? 1 : 0; }

}  // namespace

/// view(x, sizes). The form view(x, dtype) has a number instead of a list.
void view(OnnxCall& call, const char* /*op*/) {
  if (call.maybe_integer(1)) call.refuse("it reads the bytes as another type");
  call.give(call.add("Reshape", {call.in(0), call.shape(1)}));
}

void view_as(OnnxCall& call, const char* /*op*/) { call.give(call.add("Reshape", {call.in(0), shape_of(call, 1)})); }

void flatten(OnnxCall& call, const char* /*op*/) {
  const std::int64_t first = call.dim(1);
  const std::int64_t last = call.dim(2);
  const std::string shape = shape_of(call, 0);
  std::vector<std::string> parts;
  if (first > 0) parts.push_back(sliced(call, shape, {.end = first}, 0));
  parts.push_back(call.integers_of({-1}));
  if (last + 1 < call.rank(0)) parts.push_back(sliced(call, shape, {.begin = last + 1}, 0));
  call.give(call.add("Reshape", {call.in(0), call.add("Concat", parts, {{"axis", std::int64_t{0}}})}));
}

/// unflatten(x, dim, sizes, ...).
void unflatten(OnnxCall& call, const char* /*op*/) {
  const std::int64_t axis = call.dim(1);
  const std::string shape = shape_of(call, 0);
  std::vector<std::string> parts;
  if (axis > 0) parts.push_back(sliced(call, shape, {.end = axis}, 0));
  parts.push_back(call.shape(2));
  if (axis + 1 < call.rank(0)) parts.push_back(sliced(call, shape, {.begin = axis + 1}, 0));
  call.give(call.add("Reshape", {call.in(0), call.add("Concat", parts, {{"axis", std::int64_t{0}}})}));
}

/// movedim(x, from, to).
void move_axes(OnnxCall& call, const char* /*op*/) {
  const std::vector<std::int64_t> from = call.dims(1), to = call.dims(2);
  std::vector<std::int64_t> order(static_cast<std::size_t>(call.rank(0)), -1);
  for (std::size_t i = 0; i < from.size(); ++i) order.at(static_cast<std::size_t>(to.at(i))) = from[i];
  std::int64_t next = 0;
  for (std::int64_t& each : order) {
    if (each >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    each = next++;
  }
  call.give(call.add("Transpose", {call.in(0)}, {{"perm", order}}));
}

void permute(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("Transpose", {call.in(0)}, {{"perm", call.dims(1)}}));
}

void transpose(OnnxCall& call, const char* /*op*/) {
  std::vector<std::int64_t> order = axes(call.rank(0));
  std::swap(order.at(static_cast<std::size_t>(call.dim(1))), order.at(static_cast<std::size_t>(call.dim(2))));
  call.give(call.add("Transpose", {call.in(0)}, {{"perm", order}}));
}

/// t() of a matrix.
void swap_axes(OnnxCall& call, const char* /*op*/) {
  std::vector<std::int64_t> order = axes(call.rank(0));
  std::reverse(order.begin(), order.end());
  call.give(call.add("Transpose", {call.in(0)}, {{"perm", order}}));
}

void squeeze(OnnxCall& call, const char* /*op*/) {
  const std::vector<std::int64_t> sizes = call.sizes(0);
  std::vector<std::int64_t> gone;
  for (const std::int64_t axis : call.count() > 1 ? call.dims(1) : axes(call.rank(0))) {
    if (sizes.at(static_cast<std::size_t>(axis)) == 1) gone.push_back(axis);
  }
  call.give(gone.empty() ? call.in(0) : call.add("Squeeze", {call.in(0), call.integers_of(gone)}));
}

void unsqueeze(OnnxCall& call, const char* /*op*/) {
  const std::int64_t axis = call.integer(1);
  call.give(call.add("Unsqueeze", {call.in(0), call.integers_of({axis < 0 ? axis + call.rank(0) + 1 : axis})}));
}

void expand(OnnxCall& call, const char* /*op*/) { call.give(call.add("Expand", {call.in(0), call.shape(1, -1, 1)})); }
void expand_as(OnnxCall& call, const char* /*op*/) { call.give(call.add("Expand", {call.in(0), shape_of(call, 1)})); }

void repeat(OnnxCall& call, const char* /*op*/) {
  const std::int64_t more = static_cast<std::int64_t>(call.result_sizes().size()) - call.rank(0);
  const std::string name = more == 0 ? call.in(0) : call.add("Unsqueeze", {call.in(0), call.integers_of(axes(more))});
  call.give(call.add("Tile", {name, call.shape(1)}));
}

void narrow(OnnxCall& call, const char* /*op*/) {
  const std::string begin = call.shape(2);
  const auto first = call.maybe_integer(2);
  const auto length = call.maybe_integer(3);
  const bool to_end = first && *first < 0;
  std::string end = call.integers_of({kEnd});
  if (!to_end && first && length) end = call.integers_of({*first + *length});
  if (!first || !length) end = call.add("Add", {begin, call.shape(3)});
  call.give(call.add("Slice", {call.in(0), begin, end, call.integers_of({call.dim(1)})}));
}

void slice(OnnxCall& call, const char* /*op*/) {
  const std::string begin = call.none(2) ? call.integers_of({0}) : call.shape(2);
  const std::string end = call.none(3) ? call.integers_of({kEnd}) : call.shape(3);
  call.give(call.add("Slice", {call.in(0), begin, end, call.integers_of({call.dim(1)}), call.shape(4)}));
}

void select(OnnxCall& call, const char* /*op*/) {
  call.give(one_of(call, call.in(0), call.dim(1), call.constant(static_cast<double>(call.integer(2)), at::kLong)));
}

void cat(OnnxCall& call, const char* /*op*/) {
  const std::int64_t axis = call.integer(1);
  const auto rank = static_cast<std::int64_t>(call.result_sizes().size());
  call.give(call.add("Concat", call.list(0), {{"axis", axis < 0 ? axis + rank : axis}}));
}

void stack(OnnxCall& call, const char* /*op*/) {
  const std::int64_t given = call.integer(1);
  const std::int64_t axis = given < 0 ? given + static_cast<std::int64_t>(call.result_sizes().size()) : given;
  std::vector<std::string> parts;
  for (const std::string& each : call.list(0)) parts.push_back(call.add("Unsqueeze", {each, call.integers_of({axis})}));
  call.give(call.add("Concat", parts, {{"axis", axis}}));
}

/// split(x, size or sizes, dim).
void split(OnnxCall& call, const char* /*op*/) {
  const std::int64_t axis = call.dim(2);
  if (axis == 0) call.refuse("it divides the batch");
  const std::vector<std::int64_t> sizes = call.unpacked_sizes(axis);
  call.give_list(call.add_all("Split", {call.in(0), call.integers_of(sizes)}, {{"axis", axis}}, sizes.size()));
}

void chunk(OnnxCall& call, const char* op) { split(call, op); }

void unbind(OnnxCall& call, const char* /*op*/) {
  const std::int64_t axis = call.dim(1);
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < call.sizes(0).at(static_cast<std::size_t>(axis)); ++i) {
    parts.push_back(one_of(call, call.in(0), axis, call.constant(static_cast<double>(i), at::kLong)));
  }
  call.give_list(parts);
}

/// Writes the size of a dimension, as a list of one element.
void size(OnnxCall& call, const char* /*op*/) {
  call.give(one_of(call, shape_of(call, 0), 0, call.integers_of({call.dim(1)})));
}

void gather(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("GatherElements", {call.in(0), call.in(2)}, {{"axis", call.dim(1)}}));
}

void embedding(OnnxCall& call, const char* /*op*/) { call.give(one_of(call, call.in(0), 0, call.in(1))); }
void index_select(OnnxCall& call, const char* /*op*/) { call.give(one_of(call, call.in(0), call.dim(1), call.in(2))); }

/// x[:, ids]: supports one integer tensor, at one dimension.
void index(OnnxCall& call, const char* /*op*/) {
  std::int64_t axis = -1;
  const auto kinds = call.kinds(1);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == at::ScalarType::Undefined) continue;
    if (axis >= 0 || kinds[i] != at::kLong) call.refuse("it indexes by a mask, or by several tensors");
    axis = static_cast<std::int64_t>(i);
  }
  call.give(one_of(call, call.in(0), axis, call.list(1).at(static_cast<std::size_t>(axis))));
}

namespace {

/// Returns the pads in ONNX's order: those before each dimension, then those after each. `given` has the pads before
/// and after each dimension, starting with the last dimension.
std::string pads_of(OnnxCall& call, const std::vector<std::int64_t>& given) {
  const auto rank = static_cast<std::size_t>(call.rank(0));
  std::vector<std::int64_t> pads(2 * rank, 0);
  for (std::size_t i = 0; 2 * i < given.size(); ++i) {
    pads.at(rank - 1 - i) = given[2 * i];
    pads.at(2 * rank - 1 - i) = given.at(2 * i + 1);
  }
  return call.integers_of(pads);
}

/// Pads circularly: puts a copy of the end before the start, and a copy of the start after the end.
void give_circle(OnnxCall& call) {
  const std::vector<std::int64_t> pads = call.integers(1);
  std::string name = call.in(0);
  for (std::size_t i = 0; 2 * i < pads.size(); ++i) {
    const std::int64_t axis = call.rank(0) - 1 - static_cast<std::int64_t>(i);
    if (pads[2 * i] < 0 || pads[2 * i + 1] < 0) call.refuse("its circular padding is negative");
    std::vector<std::string> parts;
    if (pads[2 * i] > 0) parts.push_back(sliced(call, name, {.begin = -pads[2 * i]}, axis));
    parts.push_back(name);
    if (pads[2 * i + 1] > 0) parts.push_back(sliced(call, name, {.end = pads[2 * i + 1]}, axis));
    if (parts.size() > 1) name = call.add("Concat", parts, {{"axis", axis}});
  }
  call.give(name);
}

void give_padded(OnnxCall& call, const std::string& mode, std::size_t value) {
  std::vector<std::string> inputs = {call.in(0), pads_of(call, call.integers(1))};
  if (mode == "constant")
    inputs.push_back(call.constant(call.none(value) ? 0 : call.number(value), call.result_type()));
  call.give(call.add("Pad", inputs, {{"mode", mode}}));
}

}  // namespace

/// constant_pad_nd(x, pads, value), pad(x, pads, mode, value).
void pad(OnnxCall& call, const char* op) {
  if (std::string_view(op).empty()) return give_padded(call, "constant", 2);
  const std::string mode = call.text(2);
  if (mode == "circular") return give_circle(call);
  give_padded(call, mode == "replicate" ? "edge" : mode == "reflect" ? "reflect" : "constant", 3);
}

/// _pad_enum(x, pads, mode, value).
void pad_by_number(OnnxCall& call, const char* /*op*/) {
  constexpr const char* kModes[] = {"reflect", "edge", "", "constant"};
  const std::string mode = kModes[call.integer(2)];
  if (mode.empty()) return give_circle(call);
  give_padded(call, mode, 3);
}

/// reflection_padNd(x, pads), replication_padNd(x, pads).
void pad_edges(OnnxCall& call, const char* op) { give_padded(call, op, 0); }

void pixel_shuffle(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("DepthToSpace", {call.in(0)}, {{"blocksize", call.integer(1)}, {"mode", std::string("CRD")}}));
}

/// pixel_unshuffle(x, r): [N, C, H, r, W, r] -> [N, C, r, r, H, W].
void pixel_unshuffle(OnnxCall& call, const char* /*op*/) {
  const std::int64_t r = call.integer(1);
  const std::vector<std::int64_t> sizes = call.result_sizes();
  const std::string parts =
      call.add("Reshape", {call.in(0), call.integers_of({0, sizes.at(1) / (r * r), sizes.at(2), r, sizes.at(3), r})});
  const std::string moved = call.add("Transpose", {parts}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 5, 2, 4}}});
  call.give(call.add("Reshape", {moved, call.integers_of({0, sizes.at(1), sizes.at(2), sizes.at(3)})}));
}

/// channel_shuffle(x, groups).
void channel_shuffle(OnnxCall& call, const char* /*op*/) {
  const std::int64_t groups = call.integer(1);
  const std::int64_t channels = call.sizes(0).at(1);
  const std::string parts = call.add("Reshape", {call.in(0), call.integers_of({0, groups, channels / groups, -1})});
  const std::string moved = call.add("Transpose", {parts}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  call.give(call.add("Reshape", {moved, shape_of(call, 0)}));
}

void flip(OnnxCall& call, const char* /*op*/) {
  const std::vector<std::int64_t> along = call.dims(1);
  const std::vector<std::int64_t> last(along.size(), -1);
  const std::vector<std::int64_t> first(along.size(), std::numeric_limits<std::int64_t>::min());
  call.give(call.add("Slice", {call.in(0), call.integers_of(last), call.integers_of(first), call.integers_of(along),
                               call.integers_of(last)}));
}

/// tril(x, diagonal); likewise triu.
void triangle(OnnxCall& call, const char* op) {
  call.give(call.add("Trilu", {call.in(0), call.constant(static_cast<double>(call.integer(1)), at::kLong)},
                     {{"upper", *op == 'u' ? 1 : std::int64_t{0}}}));
}

/// scatter(x, dim, places, values); `values` may be a single number. A fifth argument names a reduction.
void scatter(OnnxCall& call, const char* /*op*/) {
  if (call.count() > 4) call.refuse("it combines values (reduce)");
  std::string values = call.as(3, call.result_type());
  if (call.rank(3) == 0) {
    values = call.add("Expand", {values, shape_of(call, 2)});
  } else if (call.sizes(3) != call.sizes(2)) {  // drops the values that have no entry in `places`
    const std::vector<std::int64_t> begin(static_cast<std::size_t>(call.rank(2)), 0);
    values = call.add("Slice", {values, call.integers_of(begin), shape_of(call, 2)});
  }
  call.give(call.add("ScatterElements", {call.in(0), call.in(2), values}, {{"axis", call.dim(1)}}));
}

/// repeat_interleave(x, times, dim, ...): repeats each element several times.
void repeat_each(OnnxCall& call, const char* /*op*/) {
  if (call.none(2)) call.refuse("it flattens all dimensions");
  const std::int64_t axis = call.dim(2);
  std::vector<std::int64_t> times(static_cast<std::size_t>(call.rank(0)) + 1, 1);
  times.at(static_cast<std::size_t>(axis) + 1) = call.integer(1);
  std::vector<std::int64_t> shape = call.result_sizes();
  shape.front() = axis == 0 ? -1 : 0;
  const std::string apart = call.add("Unsqueeze", {call.in(0), call.integers_of({axis + 1})});
  call.give(call.add("Reshape", {call.add("Tile", {apart, call.integers_of(times)}), call.integers_of(shape)}));
}

void roll(OnnxCall& call, const char* /*op*/) {
  const std::vector<std::int64_t> shifts = call.integers(1);
  const std::vector<std::int64_t> along = call.dims(2);
  if (along.empty()) call.refuse("it flattens all dimensions");
  std::string name = call.in(0);
  for (std::size_t i = 0; i < along.size(); ++i) {
    if (along[i] == 0) call.refuse("it rolls the batch");
    const std::int64_t whole = call.sizes(0).at(static_cast<std::size_t>(along[i]));
    const std::int64_t cut = ((whole - shifts.at(i)) % whole + whole) % whole;
    if (cut == 0) continue;
    name =
        call.add("Concat", {sliced(call, name, {.begin = cut}, along[i]), sliced(call, name, {.end = cut}, along[i])},
                 {{"axis", along[i]}});
  }
  call.give(name);
}

/// zeros(sizes), ones(sizes), full(sizes, value); their new_... forms take a tensor as the first argument.
void filled(OnnxCall& call, const char* op) {
  const std::size_t at = call.name().starts_with("new_") ? 1 : 0;
  fill(call, call.shape(at), std::string_view(op) == "value" ? call.number(at + 1) : value_of_name(call.name()));
}

/// zeros_like(x), full_like(x, value), fill(x, value).
void filled_as(OnnxCall& call, const char* op) {
  fill(call, shape_of(call, 0), std::string_view(op) == "value" ? call.number(1) : value_of_name(call.name()));
}

/// arange(end, ...), arange(begin, end, ...), arange(begin, end, step, ...): four more arguments follow, such as dtype.
void arange(OnnxCall& call, const char* /*op*/) {
  const std::size_t numbers = call.count() - 4;
  const at::ScalarType type = call.result_type();
  const auto scalar = [&](std::size_t i) {
    return call.maybe_integer(i) ? call.as(i, type) : call.add("Squeeze", {call.as(i, type)});
  };
  const std::string begin = numbers > 1 ? scalar(0) : call.constant(0, type);
  const std::string step = numbers > 2 ? scalar(2) : call.constant(1, type);
  call.give(call.add("Range", {begin, scalar(numbers > 1 ? 1 : 0), step}));
}

}  // namespace lockstep::nn::onnx
