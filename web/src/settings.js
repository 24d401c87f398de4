// SPDX-License-Identifier: Apache-2.0
// The settings of the shown runs side by side, with their origin.
import { byId, empty, make, show, table } from './dom.js';
import { chosen, on, page, shown } from './state.js';

function rowsOf(runs) {
  const all = new Map();
  runs.forEach((run, i) => {
    for (const { key, value, origin } of run.state?.settings ?? []) {
      if (!all.has(key)) all.set(key, { key, values: runs.map(() => null), origin });
      all.get(key).values[i] = value;
    }
  });
  return [...all.values()];
}

const differs = (row) => row.values.some((value) => value !== row.values[0]);

function draw() {
  const several = page.runs.length > 1;
  byId('differ-label').hidden = !several;
  const runs = several ? shown() : [chosen()];
  if (!runs[0]?.state) return;
  const word = byId('find').value.toLowerCase();
  const rows = rowsOf(runs).filter(
    (row) => (!byId('differ').checked || !several || differs(row)) && (row.key.includes(word) || row.values.some((v) => v?.includes(word))),
  );
  const columns = [{ name: 'setting' }, ...runs.map((run) => ({ name: several ? run.name : 'value' })), { name: 'from' }];
  const cells = (row) => [row.key, ...row.values.map((value) => (value == null ? '–' : make('code', {}, value || '""'))), make('span', { class: 'faint' }, row.origin)];
  show(
    byId('setting-table'),
    rows.length === 0
      ? empty(byId('differ').checked ? 'The settings of these runs are the same.' : 'No matching settings.')
      : table('Settings', columns, rows.map((row) => ({ class: several && differs(row) ? 'differs' : null, cells: cells(row) }))),
  );
}

byId('find').addEventListener('input', draw);
byId('differ').addEventListener('change', draw);
on('state', draw);
on('runs', () => {
  if (page.runs.length > 1 && draw.before !== page.runs.length) byId('differ').checked = true;
  draw.before = page.runs.length;
  draw();
});
