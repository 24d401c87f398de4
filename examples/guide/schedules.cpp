// A chained schedule, and a moving average whose error is smaller than that of the weights.
#include <lockstep/lockstep.h>

int train(lockstep::Job& job) {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(16, 64), torch::nn::ReLU(), torch::nn::Linear(64, 1));
  net->to(job.device());
  lockstep::DistributedDataParallel model{net, job};
  lockstep::AdamW optimizer{model};
  lockstep::EMA ema{model, {.decay = 0.98, .warmups = 50}};
  const auto schedule = lockstep::Schedule::linear_warmup({.lr = 0.01, .steps = 20})
                            .then(20, lockstep::Schedule::cosine({.lr = 0.01, .steps = 380, .min_lr = 0.005}));

  torch::manual_seed(job.rank() + 1);
  for (int step = 0; step < 400; ++step) {
    const torch::Tensor x = torch::randn({8, 16}, job.device());
    const torch::Tensor noisy = x.sum(1, /*keepdim=*/true) + torch::randn({8, 1}, job.device());
    torch::mse_loss(model(x), noisy).backward();
    optimizer.set_lr(schedule.lr(step));
    optimizer.step();
    optimizer.zero_grad();
    ema.update();
  }
  const torch::NoGradGuard no_grad;
  torch::manual_seed(9);
  const torch::Tensor x = torch::randn({1000, 16}, job.device());
  const auto error = [&] { return torch::mse_loss(net->forward(x), x.sum(1, /*keepdim=*/true)).item<double>(); };
  const double with_weights = error();
  const lockstep::EMA::Swapped averaged = ema.swap_in();  // swapped until the end of this scope
  job.print("the average's error is smaller: {}", error() < with_weights);
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
