// Options of DistributedDataParallel, one small function for each.
#include <lockstep/lockstep.h>
#include <lockstep/parallel/join.h>
#include <lockstep/parallel/power_sgd.h>

using lockstep::DistributedDataParallel;

struct Net : torch::nn::Module {
  Net()
      : fc(register_module("fc", torch::nn::Linear(64, 64))),
        branch(register_module("branch", torch::nn::Linear(64, 64))) {}
  at::Tensor forward(const at::Tensor& x, bool with_branch = true) {
    const at::Tensor y = torch::tanh(fc(x));
    return (with_branch ? branch(y) : y).pow(2).mean();
  }
  torch::nn::Linear fc, branch;
};

void accumulate(lockstep::Job& job, const at::Tensor& x) {
  DistributedDataParallel model{Net(), job};
  lockstep::AdamW optimizer{model};
  for (int batch = 0; batch < 8; ++batch) {
    const auto backward = [&] { (model(x) / 4).backward(); };  // gradients add up: a quarter of each gives the mean
    if (batch % 4 < 3) {
      const auto local = model.no_sync();  // a forward in this scope reduces nothing
      backward();
      continue;
    }
    backward();  // reduces the sum of all four
    optimizer.step();
    optimizer.zero_grad();
  }
  job.print("{} steps of 8 batches", optimizer.steps());
}

void branches(lockstep::Job& job, const at::Tensor& x) {
  DistributedDataParallel model{Net(), job, {.find_unused_parameters = true}};
  model(x, /*with_branch=*/job.is_main()).backward();  // the other ranks contribute zeros
}

void the_same_every_step(lockstep::Job& job, const at::Tensor& x) {
  DistributedDataParallel model{Net(), job, {.static_graph = true}};
  for (int step = 0; step < 3; ++step) model(x, /*with_branch=*/false).backward();
}

void own_gradients(lockstep::Job& job, const at::Tensor& x) {
  DistributedDataParallel model{Net(), job, {.gradient_as_bucket_view = false}};
  model(x).backward();
}

void words(lockstep::Job& job) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(1000, 16).sparse(true));
  DistributedDataParallel model{table, job};
  model(torch::tensor({1, 5, 5, job.rank() + 7})).sum().backward();
  job.print("{} of 1000 rows sent", table->weight.grad()._nnz());
}

void compressed(lockstep::Job& job, const at::Tensor& x) {
  DistributedDataParallel model{Net(), job, {.hook = lockstep::hooks::bf16_compress()}};
  model(x).backward();
}

void thin_matrices(lockstep::Job& job, const at::Tensor& x) {
  auto power_sgd = std::make_shared<lockstep::PowerSgd>(lockstep::PowerSgdOptions{.rank = 2, .start_iter = 2});
  DistributedDataParallel model{Net(), job, {.hook = lockstep::hooks::power_sgd(power_sgd)}};
  for (int step = 0; step < 4; ++step) model(x).backward();
  const lockstep::StateDict state = power_sgd->gather_state_dict(job.group());  // for saving
  job.print("{} entries after {} iterations", state.size(), power_sgd->iterations());
}

void a_hook_of_ones_own(lockstep::Job& job, const at::Tensor& x) {
  const auto clip_each = [](lockstep::GradBucket& bucket) -> lockstep::HookStage {
    auto sum = bucket.all_reduce({bucket.gradient().clamp(-1, 1)});  // starts the all-reduce, without waiting
    return {{sum.work}, [&bucket, sum] {                             // after backward, when the sum is done
              bucket.result().copy_(sum.value()).div_(bucket.divisor());
              return lockstep::HookStage{};
            }};
  };
  DistributedDataParallel model{Net(), job, {.hook = clip_each}};
  model(x).backward();
}

void uneven(lockstep::Job& job, const at::Tensor& x) {
  DistributedDataParallel model{Net(), job};
  lockstep::AdamW optimizer{model};
  lockstep::JoinedState state{optimizer, job.group()};
  lockstep::Join join{{&model, &state}};
  join.run([&] {
    for (int batch = 0; batch < 3 + job.rank(); ++batch) {
      model(x).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  });
  job.print("every rank has {} steps", optimizer.steps());
}

int train(lockstep::Job& job) {
  torch::manual_seed(job.rank());
  const at::Tensor x = torch::randn({8, 64});
  accumulate(job, x);
  branches(job, x);
  the_same_every_step(job, x);
  own_gradients(job, x);
  words(job);
  compressed(job, x);
  thin_matrices(job, x);
  a_hook_of_ones_own(job, x);
  uneven(job, x);
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
