// A libtorch program with its own data set, loader, optimizer and loop; the lines marked + make it distributed.
#include <lockstep/ddp.h>  // +
#include <torch/torch.h>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

struct Points : torch::data::datasets::Dataset<Points> {
  torch::data::Example<> get(size_t i) override { return {points[i], (points[i].prod() > 0).to(torch::kLong)}; }
  torch::optional<size_t> size() const override { return points.size(0); }
  torch::Tensor points = torch::rand({2048, 2}) * 2 - 1;
};

int train(lockstep::Job& job) {  // + was main()
  torch::manual_seed(1);
  torch::data::samplers::DistributedRandomSampler sampler(2048, job.world_size(), job.rank());  // + this rank's part
  const auto points = Points().map(torch::data::transforms::Stack<>());
  auto net = std::make_shared<Net>();
  net->to(job.device());                              // + this rank's GPU, if it has one
  lockstep::DistributedDataParallel model{net, job};  // +
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  for (int epoch = 0; epoch < 5; ++epoch) {
    double sum = 0;
    sampler.set_epoch(epoch);  // + a different order in each epoch; before the loader, which copies the sampler
    auto loader = torch::data::make_data_loader(points, sampler, 64);
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      auto output = model(batch.data.to(job.device()));  // + was net->forward(batch.data)
      auto loss = torch::nn::functional::cross_entropy(output, batch.target.to(job.device()));  // +
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
    }
    job.print("epoch {} loss {:.4f}", epoch, sum);  // + only rank 0 prints
  }
  if (job.is_main()) torch::save(model, "model.pt");  // + one rank writes
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }  // +
