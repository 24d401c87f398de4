// A recipe's network used from another project.
#include <captcha/task.h>
#include <fmt/format.h>

int main() {
  lockstep::captcha::CaptchaTask task(lockstep::captcha::CaptchaConfig{});
  std::int64_t count = 0;
  for (const auto& parameter : task.make_model()->parameters()) count += parameter.numel();
  fmt::print("{} parameters\n", count);
}
