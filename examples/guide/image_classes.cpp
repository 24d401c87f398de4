// Learns to classify images, which worker threads decode and augment. Give it a folder with one folder per class;
// without one it draws its own images.
#include <lockstep/lockstep.h>

// Squares and discs. A source supplies images; those for files, COCO, VOC, tar shards and packed files are built in.
struct Shapes final : lockstep::ImageSource {
  int64_t size() const override { return 256; }
  lockstep::AnnotatedImage get(int64_t index) const override {
    lockstep::Image picture{{64, 64}, 3, std::vector<uint8_t>(64 * 64 * 3, 30)};
    const int64_t x = 16 + index % 32, y = 16 + index / 8 % 32;
    for (int64_t i = 0; i < 64 * 64; ++i) {
      const int64_t dx = std::abs(i % 64 - x), dy = std::abs(i / 64 - y);
      const bool inside = index % 2 == 0 ? std::max(dx, dy) < 10 : dx * dx + dy * dy < 100;
      if (inside) std::fill_n(picture.pixels.begin() + 3 * i, 3, uint8_t{220});
    }
    return {.pixels = std::move(picture), .label = index % 2};
  }
  const std::vector<std::string>& class_names() const override {
    static const std::vector<std::string> kNames{"square", "disc"};
    return kNames;
  }
};

torch::nn::Sequential network(int64_t classes) {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(3, 16, 5).stride(2)), ReLU(), Conv2d(Conv2dOptions(16, 32, 3).stride(2)),
                    ReLU(), AdaptiveMaxPool2d(1), Flatten(), Linear(32, classes));
}

int train(lockstep::Job& job, const std::shared_ptr<lockstep::ImageSource>& source) {
  torch::manual_seed(0);
  using namespace lockstep;
  // Built-in steps, your own classes and lambdas can be chained; each draws from the sample's own random numbers.
  const Compose transform{RandomResizedCrop{.size = {48, 48}, .min_scale = 0.8}, HorizontalFlip{},
                          ColorJitter{.brightness = 0.2, .contrast = 0.2}, ToTensor{.normalize = Normalize{}},
                          [](Sample& sample, SampleRandom& random) { sample.data.add_(random.uniform(-0.1, 0.1)); }};
  DataLoader loader{
      image_dataset(source, transform), job, {.batch_size = 32, .workers = 2, .shuffle = true, .device = job.device()}};
  auto net = network(std::ssize(source->class_names()));
  net->to(job.device());
  DistributedDataParallel model{net, job};
  AdamW optimizer{model, {.lr = 5e-3}};
  at::Tensor right;
  for (int epoch = 0; epoch < 15; ++epoch) {
    right = at::zeros({}, at::kLong);
    for (auto& batch : loader.epoch(epoch)) {  // this rank's part of the images
      const auto output = model(batch.data);
      torch::nn::functional::cross_entropy(output, batch.target).backward();
      optimizer.step();
      optimizer.zero_grad();
      right += output.argmax(1).eq(batch.target).sum().cpu();
    }
  }
  job.group().all_reduce(right).wait();  // the sum over all ranks
  job.print("{} classes, {} of {} images right", source->class_names().size(), right.item<int64_t>(), source->size());
  return 0;
}

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [&](lockstep::Job& job) {
    if (argc > 1) return train(job, std::make_shared<lockstep::ClassFolders>(argv[1]));
    return train(job, std::make_shared<Shapes>());
  });
}
