// SPDX-License-Identifier: Apache-2.0
// The checkpoints of the chosen run; a button makes the server read all of one and compare its digests.
import { byId, empty, make, show, table } from './dom.js';
import * as format from './format.js';
import * as server from './server.js';
import { chosen, on } from './state.js';

const kColumns = [
  { name: 'step', number: true }, { name: 'names' }, { name: 'size', number: true }, { name: 'written' }, { name: 'digest' }, { name: '' },
];
const results = new Map(); // folder/name -> {text, class}

async function verify(run, name) {
  const key = `${run.folder}/${name}`;
  results.set(key, { text: 'reading …', class: 'faint' });
  draw();
  try {
    const answer = await server.verify(run.id, name);
    results.set(key, answer.whole ? { text: 'whole', class: 'good' } : { text: answer.text, class: 'bad' });
  } catch (error) {
    results.set(key, { text: error.message, class: 'bad' });
  }
  draw();
  byId('checkpoint-table').querySelector(`[data-name="${name}"]`)?.focus();
}

function row(run, checkpoint) {
  const result = results.get(`${run.folder}/${checkpoint.name}`);
  const button = make('button', { type: 'button', 'data-name': checkpoint.name, 'aria-label': `verify ${checkpoint.name}` }, 'verify');
  const digest = checkpoint.digest ?? '';
  return {
    cells: [
      format.number(checkpoint.step), checkpoint.links.join(', '), format.bytes(checkpoint.bytes), format.clockTime(checkpoint.time),
      make('code', { title: digest }, digest.slice(0, 12)),
      make('span', {}, button, result ? make('span', { class: result.class, role: 'status' }, ` ${result.text}`) : null),
    ],
  };
}

function draw() {
  const run = chosen();
  const list = run?.state?.checkpoints;
  if (!list) return;
  show(
    byId('checkpoint-table'),
    list.length ? table('Checkpoints, newest first', kColumns, list.map((each) => row(run, each))) : empty('No checkpoint has been saved yet.'),
  );
}

byId('checkpoint-table').addEventListener('click', (event) => {
  const name = event.target.dataset?.name;
  if (name) verify(chosen(), name);
});
on('state', draw);
on('runs', draw);
