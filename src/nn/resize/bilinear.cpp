// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "lockstep/nn/resize.h"
#include "lockstep/tensor/threads.h"
#include "nn/resize/bilinear_kernel.h"
#include "nn/vector/kernel_tensors.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

enum class Way : std::int64_t { kPixels, kCorners, kNearest };

Bilinear resizing(at::IntArrayRef from, at::IntArrayRef to, Way way) {
  const auto places = [&](std::size_t dim) {
    return way == Way::kNearest ? nearest_places(from[dim], to[dim])
                                : places_between(from[dim], to[dim], way == Way::kCorners);
  };
  return {.rows = places(2), .columns = places(3), .width = from[3], .channels = from[1]};
}

/// Returns image `index` of a dense batch.
char* image_of(const at::Tensor& batch, std::int64_t index) {
  const auto bytes = static_cast<std::int64_t>(batch.nbytes());
  return static_cast<char*>(batch.data_ptr()) + index * (bytes / batch.size(0));
}

class BilinearFunction : public torch::autograd::Function<BilinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images, const std::array<std::int64_t, 2>* size,
                            Way way) {
    const std::vector<std::int64_t> sizes = {images.size(0), images.size(1), (*size)[0], (*size)[1]};
    context->saved_data["sizes"] = images.sizes().vec();
    context->saved_data["way"] = static_cast<std::int64_t>(way);
    const Bilinear plan = resizing(images.sizes(), sizes, way);
    at::Tensor out = at::empty(sizes, images.options().memory_format(kLast));
    tensor::parallel_for(0, images.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        bilinear_forward(detail::element_type(images), plan, image_of(images, i), image_of(out, i));
      }
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    detail::refuse_second_derivative("lockstep::nn::resize_bilinear or resize_nearest");
    RECORD_FUNCTION("lockstep::resize_backward", std::vector<c10::IValue>({grads[0]}));
    const at::Tensor grad = grads[0].contiguous(kLast);
    const std::vector<std::int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const Bilinear plan = resizing(sizes, grad.sizes(), static_cast<Way>(context->saved_data["way"].toInt()));
    at::Tensor found = at::empty(sizes, grad.options().memory_format(kLast));
    const std::int64_t numel = found.numel() / sizes[0];
    tensor::parallel_for(0, sizes[0], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::vector<float> sums(static_cast<std::size_t>(numel));
        bilinear_backward(detail::element_type(grad), plan, image_of(grad, i), sums.data());
        write_sums(detail::element_type(found), sums.data(), numel, image_of(found, i));
      }
    });
    return {found, {}, {}};
  }
};

bool has_kernel(const at::Tensor& images, const std::array<std::int64_t, 2>& size) {
  return images.dim() == 4 && detail::has_kernel_type(images) && images.is_contiguous(kLast) &&
         images.size(1) % 8 == 0 && size[0] > 0 && size[1] > 0;
}

at::Tensor resized(const at::Tensor& images, const std::array<std::int64_t, 2>& size, Way way) {
  RECORD_FUNCTION("lockstep::resize", std::vector<c10::IValue>({images}));
  return BilinearFunction::apply(images, &size, way);
}

}  // namespace

at::Tensor resize_bilinear(const at::Tensor& images, const std::array<std::int64_t, 2>& size, bool align_corners) {
  if (!has_kernel(images, size)) return at::upsample_bilinear2d(images, size, align_corners);
  return resized(images, size, align_corners ? Way::kCorners : Way::kPixels);
}

at::Tensor resize_nearest(const at::Tensor& images, const std::array<std::int64_t, 2>& size) {
  return has_kernel(images, size) ? resized(images, size, Way::kNearest) : at::upsample_nearest2d(images, size);
}

}  // namespace lockstep::nn
