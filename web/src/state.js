// SPDX-License-Identifier: Apache-2.0
// The state of the page, and the listeners for changes.

const kColors = ['--run-1', '--run-2', '--run-3', '--run-4', '--run-5', '--run-6', '--run-7'];

export const page = {
  runs: [], // {id, name, folder, shown, state, live}
  machine: null,
  chosen: 0, // the run for sections that show one
};

// The style's colours, looked up once for each scheme.
let colors = new Map();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  colors = new Map();
});
export function css(name) {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
}
export const colorName = (id) => kColors[id % kColors.length];
export const colorOf = (id) => css(colorName(id));

export const chosen = () => page.runs[page.chosen];
export const shown = () => page.runs.filter((run) => run.shown);

const listeners = {};
export function on(event, use) {
  (listeners[event] ??= []).push(use);
}
export function tell(event, value) {
  for (const use of listeners[event] ?? []) use(value);
}
