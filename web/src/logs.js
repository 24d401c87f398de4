// SPDX-License-Identifier: Apache-2.0
// The end of a rank's log file, followed as it grows.
import { byId, make, show } from './dom.js';
import * as server from './server.js';
import { chosen, on } from './state.js';

const kEvery = 1000;
const kMost = 200_000; // letters
let next = -1;
let asked = 0;
let isBusy = false;
let isVisible = false;
let shownFile = '';

const file = () => ({ attempt: byId('log-attempt').value, rank: byId('log-rank').value, stream: byId('log-stream').value });

function keepChoice(select, values) {
  const before = select.value;
  const changed = show(select, ...values.map((value) => make('option', { value: String(value) }, String(value))));
  if (changed && values.map(String).includes(before)) select.value = before;
  return changed;
}

function fill() {
  const attempts = chosen()?.state?.attempts ?? [];
  const numbers = attempts.map((each) => each.attempt).reverse();
  const isNew = numbers.length > 0 && String(numbers[0]) !== byId('log-attempt').firstChild?.value;
  keepChoice(byId('log-attempt'), numbers);
  if (isNew) byId('log-attempt').value = String(numbers[0]);
  const one = attempts.find((each) => String(each.attempt) === byId('log-attempt').value);
  keepChoice(byId('log-rank'), one?.ranks ?? []);
  ask();
}

// Carriage returns come from progress bars: only the last state of a line counts. Colour codes are stripped.
function clean(text) {
  return text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '').replace(/[^\n]*\r(?!\n)/g, '').replace(/\r/g, '');
}

async function ask() {
  if (isBusy || !isVisible || document.hidden || byId('log-rank').value === '') return;
  isBusy = true;
  asked = performance.now();
  const wanted = file();
  const key = JSON.stringify([chosen().id, wanted]);
  if (key !== shownFile) next = -1;
  try {
    const part = await server.log(chosen().id, { ...wanted, from: next });
    const box = byId('log-text');
    const isNew = key !== shownFile || part.from !== next;
    if (isNew) box.textContent = part.from > 0 ? '… (the last 64 KB)\n' : '';
    if (part.text) box.append(clean(part.text));
    if (part.size === 0) box.textContent = '(empty)';
    if (box.textContent.length > kMost) box.textContent = box.textContent.slice(-kMost / 2);
    shownFile = key;
    next = part.next;
    if (byId('follow').checked && (part.text || isNew)) box.scrollTop = box.scrollHeight;
  } catch {
    // the link status shows that the server does not respond
  } finally {
    isBusy = false;
  }
}

for (const id of ['log-attempt', 'log-rank', 'log-stream']) byId(id).addEventListener('change', () => (id === 'log-attempt' ? fill() : ask()));
new IntersectionObserver((entries) => {
  isVisible = entries.at(-1).isIntersecting;
  if (isVisible && chosen()) fill();
}).observe(byId('logs'));
on('state', fill);
on('runs', fill);
on('moment', () => {
  if (performance.now() - asked > kEvery) ask();
});
