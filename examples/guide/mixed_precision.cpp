// A loop in mixed precision: bf16 on CPUs; fp16 on GPUs, with a scaled loss so that no gradient vanishes.
#include <lockstep/lockstep.h>

int train(lockstep::Job& job) {
  torch::manual_seed(0);
  const bool gpu = job.device().is_cuda();
  torch::nn::Sequential net(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 1));
  net->to(job.device());
  lockstep::DistributedDataParallel model{net, job};
  lockstep::AdamW optimizer{model, {.lr = 3e-3}};
  lockstep::GradScaler scaler{{.enabled = gpu}};  // does nothing if disabled, so the loop is the same

  torch::manual_seed(job.rank() + 1);
  torch::Tensor loss;
  for (int step = 0; step < 200; ++step) {
    const torch::Tensor x = torch::rand({32, 64}, job.device());
    torch::Tensor output;
    {
      const lockstep::Autocast autocast{job.device().type(), gpu ? lockstep::Amp::kFp16 : lockstep::Amp::kBf16};
      output = model(x);
    }
    loss = torch::mse_loss(output.to(torch::kFloat), x.sum(1, /*keepdim=*/true));  // outside autocast: in float32
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);  // before the gradients are clipped
    scaler.step(optimizer, lockstep::clip_factor(optimizer.grad_norm(), 1.0));
    scaler.update();
    optimizer.zero_grad();
  }
  job.print("loss {:.2f}, scale {}", loss.item<double>(), scaler.get_scale());
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
