// SPDX-License-Identifier: Apache-2.0
// Elements without markup in strings: anything a run wrote stays text.

export const byId = (id) => document.getElementById(id);

/// make('td', {class: 'n'}, 'text', child)
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/// A table with a caption for screen readers; cells are strings or elements. Columns: {name, number}.
export function table(caption, columns, rows) {
  const head = make('tr', {}, ...columns.map((c) => make('th', { scope: 'col', class: c.number ? 'n' : null }, c.name)));
  const body = rows.map((row) => {
    const cells = row.cells.map((cell, i) =>
      i === 0
        ? make('th', { scope: 'row', class: columns[i].number ? 'n' : null }, cell)
        : make('td', { class: columns[i].number ? 'n' : null }, cell ?? ''),
    );
    return make('tr', { class: row.class }, ...cells);
  });
  return make('table', {}, make('caption', { class: 'hidden' }, caption), make('thead', {}, head), make('tbody', {}, ...body));
}

/// Replaces the content of `element` only if it would look different, so that focus and selection are kept.
export function show(element, ...children) {
  const holder = document.createElement('div');
  holder.append(...children.filter((child) => child != null));
  if (holder.innerHTML === element.shownHtml && element.childNodes.length > 0) return false;
  element.shownHtml = holder.innerHTML;
  element.replaceChildren(...holder.childNodes);
  return true;
}

export const empty = (text) => make('p', { class: 'empty' }, text);
