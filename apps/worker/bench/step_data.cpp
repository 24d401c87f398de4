// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/step_data.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include <cstdint>

#include "captcha/config.h"

namespace lockstep::worker {
namespace {

/// The number of images, enough for any sensible batch over all replicas.
constexpr std::int64_t kImages = 100'000;

class Captchas final : public Dataset {
 public:
  explicit Captchas(const captcha::CaptchaConfig& config)
      : height_(config.labels.height),
        width_(config.labels.width),
        length_(config.labels.length),
        characters_(static_cast<std::int64_t>(config.characters().size())) {}
  [[nodiscard]] std::int64_t size() const override { return kImages; }
  Sample get(std::int64_t /*index*/, SampleContext& /*context*/) override {
    return {at::rand({1, height_, width_}), at::randint(characters_, {length_}, at::kLong)};
  }

 private:
  std::int64_t height_;
  std::int64_t width_;
  std::int64_t length_;
  std::int64_t characters_;
};

}  // namespace

std::string made_up_data(const std::string& recipe) {
  return recipe == "captcha" ? std::string(kRandomImages) : "scenes:128:1";
}

std::shared_ptr<Dataset> random_captchas(const TrainConfig& config) {
  return std::make_shared<Captchas>(dynamic_cast<const captcha::CaptchaConfig&>(config));
}

}  // namespace lockstep::worker
