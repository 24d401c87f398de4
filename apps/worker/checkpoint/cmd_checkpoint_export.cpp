// SPDX-License-Identifier: Apache-2.0
// `lockstep checkpoint export`: weights for other programs, or the trained network itself as TorchScript or ONNX.
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "common/cli.h"
#include "common/temporary_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/interop.h"
#include "lockstep/nn/onnx.h"
#include "lockstep/nn/torchscript.h"
#include "worker/checkpoint/demo_page.h"
#include "worker/checkpoint/pictures.h"
#include "worker/commands.h"
#include "worker/onnx/onnx_parity.h"
#include "worker/recipes.h"
#include "worker/trained.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string where;
  std::string to;
  ExportOptions weights;
  std::vector<std::string> sets;
  nn::OnnxOptions onnx;
  std::string runtime;
  std::string data;
  bool no_check = false;
  bool postprocess = false;
  bool as_origin = false;
  bool says_state = false;

  [[nodiscard]] bool says_weights() const {
    return weights.state != ExportOptions{}.state || weights.prefix != ExportOptions{}.prefix;
  }
};

bool parse(ExportArguments& given, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(
      app, {.name = "lockstep checkpoint export",
            .description =
                "Export the trained weights or the network of a checkpoint for other programs; the extension of FILE "
                "selects the format.\n\n.pth and .safetensors: the weights. torch.load(FILE, weights_only=True) reads "
                "the .pth file.\n\n.pt: the network as TorchScript, for torch.jit.load(FILE), with the moving average, "
                "fused layers and any batch size.\n\n.onnx: the same network for ONNX Runtime, TensorRT and browsers. "
                "The live page of a run (lockstep dashboard) has a box for images if RUN/model.onnx is such a file; "
                "for a detector, export it with --postprocess.\n\n.html: a single page that runs the network in the "
                "browser on any image you drop on the page, without a server.\n\nWith --as-origin: a file in the "
                "format that the recipe's original implementation writes and loads, with the original names.",
            .examples = {"lockstep checkpoint export runs/digits:best --to digits.safetensors",
                         "lockstep checkpoint export runs/digits:best --to model.pkl --as-origin",
                         "lockstep checkpoint export runs/scenes:best --to model.pt",
                         "lockstep checkpoint export runs/scenes:best --to model.onnx",
                         "lockstep checkpoint export runs/scenes:best --to demo.html",
                         "lockstep checkpoint export runs/scenes:best --to small.pt --set image_size=160"}});
  app.add_option("PATH", given.where, kCheckpointOrFileHelp)->required();
  app.add_option("--to", given.to, "the file to write: .safetensors, .pth, .pt, .onnx or .html")
      ->required()
      ->type_name("FILE");
  const auto* state =
      app.add_option("--state", given.weights.state, "the state to write; all writes every state, to .pth only")
          ->type_name("model|ema|optimizer|all|NAME");
  app.add_option("--prefix", given.weights.prefix, "prefix for the name of every weight, such as module.")
      ->type_name("NAME");
  app.add_flag("--postprocess", given.postprocess,
               "for a .pt or .onnx file: include a detector's postprocessing, as the original implementation deploys "
               "it: images and orig_target_sizes to labels, boxes and scores");
  app.add_option("--opset", given.onnx.opset, "for an .onnx or .html file: the ONNX opset version, 16 or 17")
      ->type_name("N");
  app.add_flag("--fp16", given.onnx.half,
               "for an .onnx or .html file: store weights in 16 bits; the network still computes in float32");
  app.add_option("--runtime", given.runtime,
                 "for an .onnx or .html file: the Python or Node executable whose ONNX Runtime runs the file for the "
                 "comparison with the network (default: python3 or node, the first that has ONNX Runtime)")
      ->type_name("PROGRAM");
  app.add_option("--data", given.data,
                 "for an .onnx or .html file: the data set whose images are used for the comparison (default: "
                 "data.test of the checkpoint, if it exists)")
      ->type_name("PATH");
  app.add_flag("--no-check", given.no_check, "for an .onnx or .html file: skip the comparison");
  app.add_option("--set", given.sets,
                 "for a .pt, .onnx or .html file: change a setting that the checkpoint was trained with")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_flag("--as-origin", given.as_origin,
               "write a .pth or .pkl file for the recipe's original implementation; --state model or ema writes only "
               "that state");
  if (!cli::parse(app, arguments)) return false;
  given.says_state = state->count() > 0;
  return true;
}

/// Throws: UsageError for options that do not work with --as-origin.
void check_as_origin(const ExportArguments& given) {
  const std::string ending = fs::path(given.to).extension().string();
  if (ending != ".pth" && ending != ".pkl")
    throw UsageError(fmt::format("{}: --as-origin writes a torch.save file", given.to),
                     "use the extension .pth or .pkl");
  if (!given.sets.empty() || !given.weights.prefix.empty())
    throw UsageError("--as-origin writes the trained state, under the names of the original implementation",
                     "leave out --set and --prefix");
  if (given.says_state && given.weights.state != "model" && given.weights.state != "ema")
    throw UsageError(fmt::format("--state is {}; with --as-origin it must be model or ema", given.weights.state));
  if (fs::is_regular_file(given.where))
    throw UsageError(
        fmt::format("{} holds only weights, but --as-origin needs the settings of a checkpoint", given.where),
        "use a checkpoint of `lockstep train`");
}

/// True if the extension is for a network: TorchScript, ONNX or a page.
bool becomes_network(const std::string& to) {
  const std::string ending = fs::path(to).extension().string();
  return ending == ".pt" || ending == ".onnx" || ending == ".html";
}

/// Throws: UsageError for options that do not suit the extension.
void check(const ExportArguments& given) {
  if (becomes_network(given.to)) {
    if (given.says_weights()) {
      throw UsageError(fmt::format("--state and --prefix apply to weights, but {} will hold a network", given.to),
                       "use the extension .pth to export the weights");
    }
    if (fs::is_regular_file(given.where)) {
      throw UsageError(
          fmt::format("{} holds only weights, but a network needs the settings of a checkpoint", given.where),
          "use a checkpoint of `lockstep train`, or end --to with .pth");
    }
    return;
  }
  const std::string ending = fs::path(given.to).extension().string();
  if (ending != ".pth" && ending != ".safetensors") {
    throw UsageError(fmt::format("{}: the extension selects the format, and this one is unknown", given.to),
                     "use .pth or .safetensors (weights), .pt (TorchScript), .onnx or .html");
  }
  if (!given.sets.empty()) {
    throw UsageError(fmt::format("--set changes a network, but {} holds weights", given.to),
                     "use the extension .pt, .onnx or .html");
  }
}

std::size_t write_torchscript(const ExportArguments& given, const Trained& trained,
                              const nn::NetworkFunction& function) {
  const std::string archive = nn::to_torchscript(*trained.model, function, {{"config.yml", trained.settings}});
  write_file_atomically(FileSystem::system(), given.to, archive);
  return archive.size();
}

/// The runtime that checks the exported file. If there is none, logs a note that the file is not checked.
std::optional<OnnxRuntime> runtime_for(const ExportArguments& given) {
  if (given.no_check) return std::nullopt;
  auto runtime = find_onnx_runtime(given.runtime);
  if (!runtime) {
    log::note(
        "{} is not compared with the network: neither python3 nor node has ONNX Runtime (pip install onnxruntime)",
        given.to);
  }
  return runtime;
}

/// The metadata stored in the file. A page is meant for other people, so it holds no settings or paths from this
/// machine.
std::map<std::string, std::string> texts_of(const Trained& trained, const nn::NetworkFunction& function, bool is_page) {
  std::map<std::string, std::string> texts = {{"recipe", trained.recipe}};
  if (!function.page.empty()) texts["page.json"] = function.page;
  if (is_page) {
    const fs::path step = trained.path;
    texts["checkpoint"] = (step.parent_path().parent_path().filename() / step.filename()).string();
  } else {
    texts["checkpoint"] = trained.path;
    texts["config.yml"] = trained.settings;
  }
  return texts;
}

/// Writes the file into a folder next to its final path, and moves it there after the comparison. A page contains the
/// ONNX file.
std::size_t write_onnx(const ExportArguments& given, const Trained& trained, const nn::NetworkFunction& function) {
  const bool is_page = fs::path(given.to).extension() == ".html";
  const std::optional<DemoParts> parts = is_page ? std::optional(read_demo_parts()) : std::nullopt;
  const std::optional<OnnxRuntime> runtime = runtime_for(given);
  const std::string name = is_page ? "model.onnx" : fs::path(given.to).filename().string();
  nn::OnnxOptions options = given.onnx;
  options.tensors_file = name + ".data";
  options.texts = texts_of(trained, function, is_page);
  const nn::OnnxFile file = nn::to_onnx(*trained.model, function, options);
  if (is_page && !file.tensors.empty()) {
    throw UsageError(fmt::format("{}: a page can only hold a network smaller than 2 GiB", given.to),
                     "use the extension .onnx");
  }
  const apps::TemporaryFolder folder(fs::absolute(given.to).string());
  const fs::path made = fs::path(folder.path()) / name;
  write_file_atomically(FileSystem::system(), made, file.model);
  if (!file.tensors.empty()) write_file_atomically(FileSystem::system(), made.string() + ".data", file.tensors);
  if (runtime) {
    print_to(stdout, "{}", compare_onnx(*runtime, made, on_pictures(trained, function, given.data)));
  }
  if (parts) {
    const std::string page = demo_page(*parts, file.model);
    write_file_atomically(FileSystem::system(), given.to, page);
    return page.size();
  }
  if (!file.tensors.empty()) fs::rename(made.string() + ".data", given.to + ".data");
  fs::rename(made, given.to);
  return file.model.size() + file.tensors.size();
}

int write_as_origin(const ExportArguments& given) {
  const TorchValue file = origin_file_of(given.where, given.says_state ? given.weights.state : "");
  const std::int64_t tensors = export_torch_file(given.to, file);
  print_to(stdout, "{}: {} tensors, {}\n", given.to, tensors, text::bytes(fs::file_size(given.to)));
  return 0;
}

/// The function of the network to export. A page needs a function whose results it can show.
std::optional<nn::NetworkFunction> function_for(const ExportArguments& given, const Trained& trained) {
  const bool is_page = fs::path(given.to).extension() == ".html";
  std::optional<nn::NetworkFunction> function;
  if (!given.postprocess) function = trained.task->network_function(*trained.model);
  if (given.postprocess || (is_page && function && function->page.empty())) {
    function = trained.task->deployed_function(*trained.model);
  }
  if (!is_page || (function && !function->page.empty())) return function;
  throw UsageError(fmt::format("a page cannot show the predictions of this {} network", trained.recipe),
                   "end --to with .onnx or .pt");
}

int write_network(const ExportArguments& given) {
  const Trained trained = load_trained(given.where, given.sets);
  const std::optional<nn::NetworkFunction> function = function_for(given, trained);
  if (!function) {
    throw UsageError(
        fmt::format("the recipe {} {}", trained.recipe,
                    given.postprocess ? "has no postprocessing: leave out --postprocess" : "cannot export a network"));
  }
  if (!trained.weights.empty()) log::note("the weights are {}", trained.weights);
  const std::string ending = fs::path(given.to).extension().string();
  const bool is_onnx = ending != ".pt";
  const std::size_t bytes =
      is_onnx ? write_onnx(given, trained, *function) : write_torchscript(given, trained, *function);
  print_to(stdout, "{}: {} of {}, {} -> {}, {}\n", given.to,
           ending == ".html" ? "a page"
           : is_onnx         ? "ONNX"
                             : "TorchScript",
           trained.recipe, text::join(function->inputs), text::join(function->outputs), text::bytes(bytes));
  return 0;
}

}  // namespace

int cmd_checkpoint_export(const Arguments& arguments) {
  ExportArguments given;
  if (!parse(given, arguments)) return 0;
  given.as_origin ? check_as_origin(given) : check(given);
  if (given.as_origin) return write_as_origin(given);
  if (becomes_network(given.to)) return write_network(given);
  const std::int64_t tensors = export_weights(given.where, given.to, given.weights);
  print_to(stdout, "{}: {} tensors, {}\n", given.to, tensors, text::bytes(fs::file_size(given.to)));
  return 0;
}

}  // namespace lockstep::worker
