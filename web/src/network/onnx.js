// SPDX-License-Identifier: Apache-2.0
// A network from the bytes of an ONNX file, run by ONNX Runtime in WebAssembly, in one thread.
import * as ort from 'onnxruntime-web/wasm';

const kMetadata = 14; // ModelProto.metadata_props
const kBytes = 2; // a field with a length
const kText = new TextDecoder();

/// Calls `use` with the number and the bytes of each field that has a length.
function eachField(bytes, use) {
  let at = 0;
  const number = () => {
    for (let value = 0, place = 1; ; place *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * place;
      if (byte < 128 || at > bytes.length) return value;
    }
  };
  while (at < bytes.length) {
    const key = number();
    const kind = key % 8;
    if (kind === 0) number();
    else if (kind === kBytes) {
      const length = number();
      use(Math.trunc(key / 8), bytes.subarray(at, at + length));
      at += length;
    } else at += kind === 1 ? 8 : 4;
  }
}

/// The file's own metadata: {recipe, checkpoint, 'network.json', 'page.json', ...}.
export function textsOf(model) {
  const texts = {};
  eachField(model, (field, entry) => {
    if (field !== kMetadata) return;
    const pair = [];
    eachField(entry, (part, bytes) => { pair[part] = kText.decode(bytes); });
    texts[pair[1]] = pair[2] ?? '';
  });
  return texts;
}

/// Starts the runtime and returns the network: {page, names, recipe, checkpoint, shape, run}. Throws: Error if the file
/// says nothing about images.
export async function openNetwork(model, runtime) {
  const texts = textsOf(model);
  const network = JSON.parse(texts['network.json'] ?? '{}');
  if (!texts['page.json']) {
    throw new Error('this file does not describe how to turn images into inputs. Export a detector with --postprocess.');
  }
  ort.env.logLevel = 'error';
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = runtime;
  const session = await ort.InferenceSession.create(model, { executionProviders: ['wasm'], logSeverityLevel: 3 });
  const [, ...shape] = network.inputs[0].shape;
  const run = async (planes, more = {}) => {
    const feeds = { [network.inputs[0].name]: new ort.Tensor('float32', planes.values, [1, ...shape]) };
    for (const [name, values] of Object.entries(more)) {
      feeds[name] = new ort.Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length]);
    }
    return session.run(feeds);
  };
  return { page: JSON.parse(texts['page.json']), names: network.names, recipe: texts.recipe, checkpoint: texts.checkpoint,
    shape: { channels: shape[0], height: shape[1], width: shape[2] }, run };
}
