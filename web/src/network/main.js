// SPDX-License-Identifier: Apache-2.0
// A box to drop an image on, and the network's result. demo.html contains model and runtime; the live page requests
// both from its server. Nothing else is requested.
import './style.css';
import { byId, make, show } from '../dom.js';
import { answer, chosenOf } from './answers.js';
import { draw } from './draw.js';
import { openNetwork } from './onnx.js';
import { decode } from './picture.js';

const unzipped = (stream) => new Response(stream.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();

/// The bytes that an element holds as base64.
function bytesIn(element) {
  const text = atob(element.textContent.trim());
  element.textContent = '';
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

async function embedded() {
  const runtime = await unzipped(new Blob([bytesIn(byId('runtime'))]).stream());
  return [bytesIn(byId('model')), runtime];
}

async function served() {
  const { network, runtime } = await import('../server.js');
  const run = new URLSearchParams(location.search).get('run') ?? '0';
  return Promise.all([network(run).then((bytes) => new Uint8Array(bytes)), runtime().then((body) => unzipped(body))]);
}

const say = (words, state) => {
  byId('status').textContent = words;
  document.body.dataset.state = state;
};
const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
const seconds = (from) => `${((performance.now() - from) / 1000).toFixed(2)} s`;

/// Also read by a test: boxes and names as in `lockstep predict --json`.
function report(result, picture) {
  const { objects = [], text, confidence } = result;
  return { text, confidence, width: picture.width, height: picture.height, boxes: objects.map(({ box }) => box),
    scores: objects.map(({ score }) => score), labels: objects.map(({ label }) => label), names: objects.map(({ name }) => name) };
}

const percent = (confidence) => (confidence == null ? '' : `${(100 * confidence).toFixed(1)} %`);

function present(network, picture, result) {
  draw(byId('picture'), picture, result, network.page);
  byId('text').textContent = result.text;
  byId('sure').textContent = percent(result.confidence);
  byId('note').textContent = result.note ?? '';
  byId('result').hidden = false;
  byId('result').dataset.answer = JSON.stringify(report(result, picture));
}

async function ask(network, file) {
  say(`Processing ${file.name || 'the picture'}`, 'busy');
  await painted();
  try {
    const picture = await decode(file);
    const begin = performance.now();
    const result = await answer(network, picture);
    const least = byId('least');
    const choose = () => present(network, picture, result.all ? chosenOf(result, Number(least.value)) : result);
    least.oninput = () => {
      byId('least-value').textContent = Number(least.value).toFixed(2);
      choose();
    };
    choose();
    say(`${file.name}: ${picture.width} x ${picture.height} pixels, answered in ${seconds(begin)}`, 'ready');
  } catch (error) {
    byId('result').hidden = true;
    say(`${file.name}: ${error.message ?? error}`, 'fault');
  }
}

function listen(network) {
  const box = byId('drop');
  const file = byId('file');
  const take = (files) => files?.[0] && ask(network, files[0]);
  file.addEventListener('change', () => take(file.files));
  document.addEventListener('dragover', (event) => event.preventDefault());
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    box.classList.remove('over');
    take(event.dataTransfer.files);
  });
  box.addEventListener('dragenter', () => box.classList.add('over'));
  box.addEventListener('dragleave', () => box.classList.remove('over'));
  document.addEventListener('paste', (event) => take(event.clipboardData.files));
  file.disabled = false;
}

function describe({ recipe, checkpoint, shape, names, page }) {
  byId('recipe').textContent = recipe;
  byId('threshold').hidden = page.threshold == null;
  byId('least').value = page.threshold ?? 0;
  byId('least-value').textContent = Number(byId('least').value).toFixed(2);
  document.title = `${recipe}: Lockstep`;
  const size = `${shape.width} x ${shape.height} pixels, ${shape.channels === 1 ? 'gray' : 'in colour'}`;
  const seen = page.picture === 'as_is' ? `takes images of ${size}` : `takes ${size}; images are scaled as in training`;
  show(byId('about'), make('span', {}, `The network ${seen}. It knows ${names.length} ${page.answer === 'words' ? 'words' : 'classes'}.`),
    make('span', {}, `From ${checkpoint}.`));
}

async function start() {
  document.body.classList.toggle('framed', window !== window.top);
  const begin = performance.now();
  say('Loading the network', 'busy');
  await painted();
  const network = await openNetwork(...(await (byId('model') ? embedded() : served())));
  describe(network);
  listen(network);
  say(`Ready after ${seconds(begin)}. Nothing that you drop here leaves this page.`, 'ready');
}

start().catch((error) => say(String(error.message ?? error), 'fault'));
