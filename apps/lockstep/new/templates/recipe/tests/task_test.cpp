// A test of the task, without a framework: its exit code is 1 if something is wrong.
#include "task.h"

#include <torch/nn/module.h>

#include <cstdio>

int main() {
  const lockstep::captcha::CaptchaConfig config;
  MyTask task(config);
  if (!task.make_model()->parameters().empty()) return 0;
  std::fprintf(stderr, "the network has no parameters\n");
  return 1;
}
