// Computes batches with ONNX Runtime, as onnx_runtime.py does. Usage: node - FOLDER
const fs = require("fs");
const ort = require("onnxruntime-node");
const types = {float32: Float32Array, float64: Float64Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array};

async function main(folder) {
  const run = JSON.parse(fs.readFileSync(`${folder}/run.json`));
  const session = await ort.InferenceSession.create(run.model, {intraOpNumThreads: run.threads, logSeverityLevel: 3});
  const batches = [];
  for (const [number, batch] of run.batches.entries()) {
    const feed = {};
    for (const each of batch) {
      const bytes = new Uint8Array(fs.readFileSync(`${folder}/${each.file}`));
      feed[each.name] = new ort.Tensor(each.type, new types[each.type](bytes.buffer), each.shape);
    }
    const results = await session.run(feed);
    const begin = performance.now();
    await session.run(feed);
    const took = performance.now() - begin;
    const said = [];
    for (const name of session.outputNames) {
      const file = `result-${number}-${name}`;
      const data = results[name].data;
      fs.writeFileSync(`${folder}/${file}`, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
      said.push({name, file, shape: results[name].dims, type: results[name].type});
    }
    batches.push({ms: took, results: said});
  }
  console.log(JSON.stringify({runtime: `ONNX Runtime ${require("onnxruntime-node/package.json").version} (Node)`, batches}));
}

main(process.argv[process.argv.length - 1]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
