// Runs a model with ONNX Runtime, as onnx_runtime.py does. Usage: node -e ... MODEL FOLDER THREADS
const fs = require("fs");
const ort = require("onnxruntime-node");
const types = {float32: Float32Array, float64: Float64Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array};

function argument(folder, each) {
  const bytes = new Uint8Array(fs.readFileSync(`${folder}/${each.file}`));
  return new ort.Tensor(each.type, new types[each.type](bytes.buffer), each.shape);
}

function result(folder, name, tensor) {
  const {data} = tensor;
  const file = `result-${name}`;
  fs.writeFileSync(`${folder}/${file}`, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  return {name, file, shape: tensor.dims, type: tensor.type};
}

async function main(model, folder, threads) {
  const session = await ort.InferenceSession.create(model, {intraOpNumThreads: Number(threads), logSeverityLevel: 3});
  const runtime = `ONNX Runtime ${require("onnxruntime-node/package.json").version} (Node)`;
  console.log(JSON.stringify({runtime, inputs: session.inputNames, outputs: session.outputNames}));
  for await (const line of require("readline").createInterface({input: process.stdin})) {
    const feed = Object.fromEntries(JSON.parse(line).map((each) => [each.name, argument(folder, each)]));
    const begin = performance.now();
    const results = await session.run(feed);
    const ms = performance.now() - begin;
    console.log(JSON.stringify({ms, results: session.outputNames.map((name) => result(folder, name, results[name]))}));
  }
}

main(...process.argv.slice(-3)).catch((error) => {
  console.error(error.message.replace(/\s+/g, " "));
  process.exit(1);
});
