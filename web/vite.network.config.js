// SPDX-License-Identifier: Apache-2.0
// The page that runs a network in the browser, in share/lockstep/demo: one script including ONNX Runtime's, a style,
// the runtime's WebAssembly, and demo.html, which `lockstep checkpoint export` puts a network and the runtime into.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const kRuntime = 'node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm';
const kScript = 'network.js';
const kStyle = 'network.css';
const kEnd = /<\/script/i; // would end the script's element

const kLicence = readFileSync('src/network/licence.txt', 'utf8');

const head = (more) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${more}
<title>Lockstep</title>
</head>
<body>
`;

/// The browser rejects all scripts but this one, and everything from elsewhere.
function demoPage(body, script, style) {
  const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const policy = `default-src 'none'; script-src ${hash(script)} 'wasm-unsafe-eval'; style-src ${hash(style)}; img-src blob: data:; base-uri 'none'; form-action 'none'`;
  const policyTag = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
  return `${head(`${policyTag}\n<style>${style}</style>`)}${body}<!--
${kLicence}-->
<script type="text/plain" id="runtime">@RUNTIME@</script>
<script type="text/plain" id="model">@MODEL@</script>
<script type="module">${script}</script>
</body>
</html>
`;
}

const servedPage = (body) =>
  `${head(`<link rel="stylesheet" href="${kStyle}">\n<script type="module" src="${kScript}"></script>`)}${body}</body>\n</html>\n`;

const pages = {
  name: 'pages',
  enforce: 'post',
  generateBundle(_, bundle) {
    for (const name of Object.keys(bundle)) if (name.endsWith('.wasm')) delete bundle[name]; // it comes from elsewhere
    const script = bundle[kScript].code;
    const style = String(bundle[kStyle].source);
    if (kEnd.test(script)) this.error('the script has the end of a script element in it');
    const body = readFileSync('src/network/body.html', 'utf8');
    const emit = (fileName, source) => this.emitFile({ type: 'asset', fileName, source });
    emit('demo.html', demoPage(body, script, style));
    emit('network.html', servedPage(body));
    emit('licence.txt', kLicence);
    emit('runtime.wasm.gz', gzipSync(readFileSync(kRuntime), { level: 9 }));
  },
};

export default {
  base: './',
  plugins: [pages],
  build: {
    outDir: 'network',
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: 'src/network/main.js',
      output: { entryFileNames: kScript, assetFileNames: 'network.[ext]', inlineDynamicImports: true },
    },
  },
};
