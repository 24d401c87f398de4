// The captcha recipe with your own changes: CaptchaTask provides data, network, loss and metrics; MyTask overrides some
// of them.
#pragma once

#include <captcha/task.h>

struct MyTask : lockstep::captcha::CaptchaTask {
  using CaptchaTask::CaptchaTask;
  /// The recipe's loss of logits [N, L*C] against the labels. Change it here, or override another function.
  at::Tensor loss(const at::Tensor& output, const lockstep::Batch& batch) override;
};
