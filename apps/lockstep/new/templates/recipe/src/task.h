// The captcha recipe with something of your own: CaptchaTask brings data, network, loss and figures, and MyTask changes
// what it overrides.
#pragma once

#include <captcha/task.h>

struct MyTask : lockstep::captcha::CaptchaTask {
  using CaptchaTask::CaptchaTask;
  /// The recipe's loss, of logits [N, L*C] against the labels. Change it here, or override another function.
  at::Tensor loss(const at::Tensor& output, const lockstep::Batch& batch) override;
};
