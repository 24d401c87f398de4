// Your own loop: it evaluates, saves, resumes, keeps the best weights, and runs inference with them.
#include <lockstep/lockstep.h>

namespace fs = std::filesystem;

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(2, 32))),
        out(register_module("out", torch::nn::Linear(32, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

// Points in a square; the class says whether both coordinates have the same sign.
lockstep::Sample point(int64_t i) {
  const double x = (i % 64) / 32.0 - 1, y = (i / 64) / 32.0 - 1;
  return {at::tensor({x, y}, at::kFloat), at::scalar_tensor(x * y > 0 ? 1 : 0, at::kLong)};
}

const fs::path kCheckpoints = "runs/own/checkpoints";

struct Progress {
  int64_t epochs = 0;      // completed
  int64_t best_epoch = 0;  // the completed epochs at the best accuracy so far
  double best = 0;         // that accuracy
};

// Each point of the test set counts once, on one rank; all ranks get the same number.
template <class Model>
double accuracy(lockstep::Job& job, Model& model) {
  const auto test_set = lockstep::make_dataset(1000, [](int64_t i) { return point(4 * i + 1); });
  const auto found = lockstep::evaluate_sharded(
      job, model, test_set, {.batch_size = 64, .device = job.device()},
      [&](const lockstep::Batch& batch) { return model(batch.data).argmax(1).eq(batch.target).sum(); });
  return found.mean();
}

// The program answers with the checkpoint of this name.
void name_if_best(const fs::path& step, Progress done) {
  if (done.best_epoch != done.epochs) return;
  lockstep::name_checkpoint(lockstep::FileSystem::system(), kCheckpoints, "best", step);
}

// One rank saves everything that the next epoch depends on, because all ranks have the same state.
template <class Model>
void save(lockstep::Job& job, const Model& model, const lockstep::AdamW& optimizer, Progress done) {
  if (job.is_main()) {
    auto& files = lockstep::FileSystem::system();
    // Your own numbers and strings.
    const lockstep::StateDict run = {{"epochs", done.epochs}, {"best_epoch", done.best_epoch}, {"best", done.best}};
    const fs::path step = lockstep::commit_checkpoint(
        files, kCheckpoints, {.step = done.epochs, .replicas = job.world_size()},
        {{"model", model.state_dict()}, {"optimizer", optimizer.state_dict()}, {"run", run}});
    name_if_best(step, done);
    lockstep::prune_checkpoints(files, kCheckpoints, {.keep_last = 2});
  }
  job.barrier();  // no rank continues or exits before the checkpoint is on disk
}

// Every rank reads, so that all start from the same state.
template <class Model>
Progress go_on(lockstep::Job& job, Model& model, lockstep::AdamW& optimizer) {
  const auto newest = lockstep::find_newest_valid(lockstep::FileSystem::system(), kCheckpoints);
  if (!newest) return {};
  const lockstep::Checkpoint checkpoint = lockstep::load_checkpoint(newest->string());
  model.load_state_dict(checkpoint.state("model"));
  optimizer.load_state_dict(checkpoint.state("optimizer"));
  const lockstep::StateDict run = checkpoint.state("run");
  const Progress done = {.epochs = std::get<int64_t>(run.at("epochs")),
                         .best_epoch = std::get<int64_t>(run.at("best_epoch")),
                         .best = std::get<double>(run.at("best"))};
  if (job.is_main()) name_if_best(*newest, done);  // a kill may come between a save and its name
  return done;
}

int train(lockstep::Job& job, int64_t epochs) {
  torch::manual_seed(0);
  const auto net = std::make_shared<Net>();
  net->to(job.device());  // this rank's GPU, if it has one
  lockstep::DistributedDataParallel model{net, job};
  lockstep::AdamW optimizer{model, {.lr = 1e-2}};
  lockstep::DataLoader loader{
      lockstep::make_dataset(4096, point), job, {.batch_size = 64, .shuffle = true, .device = job.device()}};
  Progress done = go_on(job, model, optimizer);
  job.print("starts after {} epochs with {} weights in the first layer", done.epochs, model->hidden->weight.numel());
  for (int64_t epoch = done.epochs; epoch < epochs; ++epoch) {
    for (auto& batch : loader.epoch(epoch)) {
      torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const double right = accuracy(job, model);
    job.print("epoch {}: {:.1f} % right", epoch + 1, 100 * right);
    done.epochs = epoch + 1;
    if (right > done.best) done = {.epochs = done.epochs, .best_epoch = done.epochs, .best = right};
    save(job, model, optimizer, done);
  }
  return 0;
}

// One process, no job: the plain network with the best weights.
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
