// A loop of one's own that saves, goes on where it was, keeps the best, and answers with it.
#include <lockstep/lockstep.h>

namespace fs = std::filesystem;

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

// Points of a square; the class tells whether their coordinates have the same sign.
lockstep::Sample point(int64_t i) {
  const double x = (i % 64) / 32.0 - 1, y = (i / 64) / 32.0 - 1;
  return {at::tensor({x, y}, at::kFloat), at::scalar_tensor(x * y > 0 ? 1 : 0, at::kLong)};
}

const fs::path kCheckpoints = "runs/own/checkpoints";

// All that the next epoch depends on, by one rank: the others have the same.
template <class Model>
void save(lockstep::Job& job, const Model& model, const lockstep::AdamW& optimizer, int64_t epochs) {
  if (job.is_main()) {
    auto& files = lockstep::FileSystem::system();
    const lockstep::StateDict run = {{"epochs", epochs}};  // numbers and texts of your own
    const fs::path step = lockstep::commit_checkpoint(
        files, kCheckpoints, {.step = epochs, .replicas = job.world_size()},
        {{"model", model.state_dict()}, {"optimizer", optimizer.state_dict()}, {"run", run}});
    lockstep::name_checkpoint(files, kCheckpoints, "best", step);
    lockstep::prune_checkpoints(files, kCheckpoints, {.keep_last = 2});
  }
  job.barrier();  // nobody goes on, or ends, before it is on the disk
}

// Returns: the epochs that are done. Every rank reads, so that all begin with the same.
template <class Model>
int64_t go_on(Model& model, lockstep::AdamW& optimizer) {
  const auto newest = lockstep::find_newest_valid(lockstep::FileSystem::system(), kCheckpoints);
  if (!newest) return 0;
  const lockstep::Checkpoint checkpoint = lockstep::load_checkpoint(newest->string());
  model.load_state_dict(checkpoint.state("model"));
  optimizer.load_state_dict(checkpoint.state("optimizer"));
  return std::get<int64_t>(checkpoint.state("run").at("epochs"));
}

int train(lockstep::Job& job, int64_t epochs) {
  torch::manual_seed(0);
  const auto net = std::make_shared<Net>();
  net->to(job.device());  // the GPU of this rank, where there is one
  lockstep::DistributedDataParallel model{net, job};
  lockstep::AdamW optimizer{model, {.lr = 1e-2}};
  lockstep::DataLoader loader{
      lockstep::make_dataset(4096, point), job, {.batch_size = 64, .shuffle = true, .device = job.device()}};
  const int64_t done = go_on(model, optimizer);
  job.print("begins after {} epochs with {} weights in the first layer", done, model->hidden->weight.numel());
  for (int64_t epoch = done; epoch < epochs; ++epoch) {
    for (auto& batch : loader.epoch(epoch)) {
      torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    save(job, model, optimizer, epoch + 1);
  }
  return 0;
}

// One process, no job: the plain network with the weights of the best.
int answer(float x, float y) {
  Net net;
  lockstep::load_model_state_dict(net, lockstep::load_checkpoint("runs/own:best").state("model"));
  net.eval();
  const torch::NoGradGuard no_grad;
  const at::Tensor shares = net.forward(at::tensor({x, y}).view({1, 2})).softmax(1);
  fmt::print("class {}, {:.0f} %\n", shares.argmax(1).item<int64_t>(), 100 * shares.max().item<double>());
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "answer") return answer(std::stof(argv[2]), std::stof(argv[3]));
  const int64_t epochs = argc > 1 ? std::stoll(argv[1]) : 3;
  lockstep::spawn(argc, argv, {.processes = 2});
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) { return train(job, epochs); });
}
