// SPDX-License-Identifier: Apache-2.0
// The page that runs the chosen run's model.onnx, in a frame: it may compile WebAssembly, and this page may not.
import { byId } from './dom.js';
import { chosen, on } from './state.js';

let shown = '';

const grow = new ResizeObserver(([{ target }]) => {
  byId('network-page').style.height = `${target.scrollHeight}px`;
});

byId('network-page').addEventListener('load', ({ target }) => grow.observe(target.contentDocument.body));

function draw() {
  const run = chosen();
  const time = run?.state?.network ?? null;
  byId('network').hidden = time == null;
  const address = time == null ? '' : `/network/network.html?run=${run.id}&of=${time}`;
  if (address === shown) return;
  shown = address;
  if (address) byId('network-page').src = address;
}

on('state', draw);
on('runs', draw);
