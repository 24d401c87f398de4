// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sources/idx_dataset.h"

#include "lockstep/data/decode.h"

namespace lockstep {

SampleSpec IdxDataset::spec() const {
  SampleSpec spec;
  spec.data_shape = {images_.channels(), images_.image_size().height, images_.image_size().width};
  if (images_.has_labels()) spec.target_type = c10::ScalarType::Long;
  return spec;
}

void IdxDataset::get_into(std::int64_t index, SampleContext& /*context*/, SampleSlot slot) {
  const ImageSize size = images_.image_size();
  const std::uint8_t* pixels = images_.pixels(index);
  const Image image{size, images_.channels(), {pixels, pixels + size.width * size.height * images_.channels()}};
  to_float_chw(image, slot.data_as<float>());
  if (images_.has_labels()) *slot.target_as<std::int64_t>() = images_.label(index);
}

}  // namespace lockstep
