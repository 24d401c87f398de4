// Ranks with different numbers of batches: with a Join they all end with the same weights, without one they hang.
#include <lockstep/lockstep.h>

struct Net : torch::nn::Module {
  Net() : fc(register_module("fc", torch::nn::Linear(2, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return fc(x); }
  torch::nn::Linear fc;
};

int train(lockstep::Job& job, bool with_join) {
  torch::manual_seed(0);
  lockstep::DistributedDataParallel model{Net(), job};
  lockstep::SGD optimizer{model, {.lr = 0.3}};
  const int batches = 200 + 100 * job.rank();  // rank 0 has 200, rank 1 has 300
  torch::manual_seed(1 + job.rank());          // each rank draws its own data
  const auto loop = [&] {
    for (int batch = 0; batch < batches; ++batch) {
      const torch::Tensor x = torch::rand({8, 2});
      torch::mse_loss(model(x), (3 * x.select(1, 0) - 2 * x.select(1, 1) + 1).unsqueeze(1)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  if (with_join) {
    lockstep::JoinedState state{optimizer, job.group()};
    lockstep::Join{{&model, &state}}.run(loop);
  } else {
    loop();
  }
  const torch::Tensor weight = model->fc->weight.detach();
  job.print_all("rank {} with {} batches: {} steps, weights {:.3f} {:.3f}", job.rank(), batches, optimizer.steps(),
                weight[0][0].item<float>(), weight[0][1].item<float>());
  return 0;
}

int main(int argc, char** argv) {
  const bool with_join = argc < 2 || std::string(argv[1]) != "without";
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, with_join); });
}
