// Answers to questions in docs/guide/questions.md, as far as a program can show them: one function each.
#include <lockstep/lockstep.h>

using lockstep::DistributedDataParallel;
using lockstep::Job;
using lockstep::ReduceOp;

// The launcher gives the process its rank, but a Job knows it only once init() or run_program() has created the Job.
void before_init() {
  const Job unready;
  try {
    std::ignore = unready.rank();
  } catch (const lockstep::UsageError& error) {
    const char* rank = std::getenv("RANK");
    const std::string_view says = error.what();
    fmt::print("before init: RANK is {}, and Job::rank() says: {}\n", rank != nullptr ? rank : "not set",
               says.substr(0, says.find('\n')));
  }
}

// Rank 1 is slow. No barrier is needed: no rank finishes a backward before rank 1 has contributed its gradients.
void no_barrier(Job& job) {
  DistributedDataParallel model{torch::nn::Linear(4, 1), job};
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  for (int step = 0; step < 5; ++step) {
    if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    optimizer.zero_grad();
    model(torch::randn({8, 4})).pow(2).mean().backward();
    optimizer.step();
  }
  std::vector<at::Tensor> weights;
  job.group().all_gather(model->weight.detach(), weights).wait();
  const bool equal = std::all_of(weights.begin(), weights.end(), [&](auto& each) { return each.equal(weights[0]); });
  job.print("without a barrier all ranks have {} weights", equal ? "the same" : "different");
}

// backward() averages the gradients, not the loss: the number to print is averaged here.
void loss_to_print(Job& job) {
  at::Tensor loss = at::scalar_tensor(1.0 + job.rank(), at::kDouble);
  const double own = loss.item<double>();
  job.group().all_reduce(loss, {.op = ReduceOp::kMean}).wait();
  job.print("rank 0 has loss {}, the mean over all ranks is {}", own, loss.item<double>());
}

// Ten samples on three ranks: training repeats two of them, an evaluation counts each once.
void evaluation(Job& job) {
  const auto set = lockstep::make_dataset(10, [](int64_t i) { return lockstep::Sample{at::scalar_tensor(i)}; });
  const auto samples = [&](lockstep::Remainder remainder) {
    lockstep::DataLoader loader{set, job, {.batch_size = 2, .remainder = remainder}};
    at::Tensor count = at::scalar_tensor(loader.samples_per_epoch(), at::kLong);
    job.group().all_reduce(count).wait();
    return count.item<int64_t>();
  };
  const int64_t padded = samples(lockstep::Remainder::kPad), kept = samples(lockstep::Remainder::kKeep);
  job.print("of 10 samples training reads {}, an evaluation {}", padded, kept);
}

int train(Job& job) {
  torch::manual_seed(job.rank());
  no_barrier(job);
  loss_to_print(job);
  evaluation(job);
  job.print("rank {} is local rank {} on its host and computes on {}", job.rank(), job.local_rank(),
            job.device().str());
  return 0;
}

int main(int argc, char** argv) {
  before_init();
  return lockstep::run_program(argc, argv, train);
}
