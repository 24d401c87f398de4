// Reads checkpoints by name and evaluates the weights and their moving average: one process, no Trainer.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

// Returns: the fraction of points that a network with these weights classifies correctly.
double accuracy(const lockstep::StateDict& weights) {
  Net net;
  lockstep::load_model_state_dict(net, weights);
  const torch::NoGradGuard no_grad;
  const at::Tensor line = (at::arange(32) + 0.5) / 16 - 1;
  const at::Tensor points = at::cartesian_prod({line, line});
  return net.forward(points).argmax(1).eq(points.prod(1) > 0).to(at::kDouble).mean().item<double>();
}

int evaluate(lockstep::Job& job, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto checkpoint = lockstep::load_checkpoint(argv[i]);
    const auto average = lockstep::ema_state_of(checkpoint.state("ema"));
    job.print("{:<24} step {:>4}  weights {:.4f}  average {:.4f} of {} updates", argv[i], checkpoint.step(),
              accuracy(checkpoint.state("model")), accuracy(average.model), average.updates);
  }
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return evaluate(job, argc, argv); });
}
