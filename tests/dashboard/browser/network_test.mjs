// SPDX-License-Identifier: Apache-2.0
// node network_test.mjs FACTS: drops pictures on a page with a network, and prints its answers as JSON, one per line.
// Facts: url, pictures (files), drawn (the drawing of each by `lockstep predict --pictures`, or nothing), shot (a file
// for a picture of the page, or nothing), frame (the frame with the network, if the page is around it), least (the
// least score of a box).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { withBrowser } from './browser.mjs';

const facts = JSON.parse(process.argv[2]);
const kLongest = 120_000;

// The page requests only itself.
function watch(page) {
  const wrong = [];
  const own = new URL(facts.url);
  page.on('request', (request) => {
    const url = new URL(request.url());
    const isOwn = own.protocol === 'file:' ? url.pathname === own.pathname : url.origin === own.origin;
    if (!isOwn && !['blob:', 'data:'].includes(url.protocol)) wrong.push(`asked ${request.url()}`);
  });
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('console', (line) => line.type() === 'error' && wrong.push(line.text()));
  return wrong;
}

const base64 = (file) => readFileSync(file).toString('base64');

// Like a hand: the file comes with the event.
async function drop(frame, file) {
  await frame.evaluate(() => { document.getElementById('result').removeAttribute('data-answer'); });
  await frame.evaluate(({ bytes, name }) => {
    const files = new DataTransfer();
    const data = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
    files.items.add(new File([data], name, { type: name.endsWith('.png') ? 'image/png' : 'image/jpeg' }));
    document.getElementById('drop').dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true }));
  }, { bytes: base64(file), name: basename(file) });
  await frame.waitForFunction(() => document.body.dataset.state !== 'busy', null, { timeout: kLongest });
}

// The share of pixels that equal those of `lockstep predict --pictures`.
const equalPixels = (frame, file) =>
  frame.evaluate(async (bytes) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0))]));
    const canvas = document.getElementById('picture');
    const other = new OffscreenCanvas(bitmap.width, bitmap.height);
    other.getContext('2d').drawImage(bitmap, 0, 0);
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) return 0;
    const [a, b] = [canvas, other].map((each) => each.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data);
    let equal = 0;
    for (let at = 0; at < a.length; at += 4) equal += a[at] === b[at] && a[at + 1] === b[at + 1] && a[at + 2] === b[at + 2];
    return equal / (a.length / 4);
  }, base64(file));

const setLeast = (frame) =>
  frame.evaluate((least) => {
    document.getElementById('least').value = least;
    document.getElementById('least').dispatchEvent(new Event('input'));
  }, facts.least);

async function answers(frame) {
  for (const [place, file] of facts.pictures.entries()) {
    await drop(frame, file);
    if (facts.least != null) await setLeast(frame);
    const said = await frame.evaluate(() => ({ status: document.getElementById('status').textContent,
      answer: JSON.parse(document.getElementById('result').dataset.answer ?? 'null') }));
    if (facts.drawn?.length) said.equal = await equalPixels(frame, facts.drawn[place]);
    console.log(JSON.stringify({ file, ...said }));
  }
}

async function test(page) {
  const wrong = watch(page);
  await page.goto(facts.url);
  let frame = page.mainFrame();
  if (facts.frame) {
    await page.locator(facts.frame).scrollIntoViewIfNeeded({ timeout: kLongest });
    frame = await (await page.waitForSelector(facts.frame)).contentFrame();
  }
  await frame.waitForFunction(() => ['ready', 'fault'].includes(document.body.dataset.state), null, { timeout: kLongest });
  console.log(JSON.stringify({ status: await frame.textContent('#status') }));
  await answers(frame);
  if (facts.shot) await page.screenshot({ path: facts.shot, fullPage: true });
  assert.deepEqual(wrong, []);
}

await withBrowser(facts, test);
