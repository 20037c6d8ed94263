'use strict';

/* ---- elements: text goes in as text, never as HTML ---- */

function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (name === 'style' && value) e.style.cssText = value; /* which no policy forbids, as it does the attribute */
    else if (value !== undefined && value !== false) e.setAttribute(name, value);
  e.append(...children.flat(Infinity));
  return e;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const address = file => file.split('/').map(encodeURIComponent).join('/'); /* of a file beside the page */
const link = file => h('a', {href: address(file)}, file);
const swatch = i => h('span', {class: 'swatch', style: `color: var(--s${i})`});
const named = (i, name) => h('span', {}, swatch(i), name);
const faint = (...children) => h('p', {class: 'faint'}, ...children);
const alarm = (...children) => h('p', {class: 'alarm', role: 'alert'}, ...children);
const wrong = n => n > 0 ? h('span', {class: 'alarm'}, n) : String(n); /* in a table */

/* A picture or a clip with what it is, of an arm or (i is null) of none. */
const captioned = (media, i, name, ...lines) => h('figure', {}, media, h('figcaption', {}, i == null ? [] : swatch(i),
  h('strong', {}, name), lines.map(l => h('small', {}, l))));

const DASH = '\u2013';
const fixed = (v, digits) => v == null ? DASH : v.toFixed(digits);
const times = v => v == null ? DASH : v.toFixed(2) + '\u00d7';
const percent = (v, digits = 1) => v == null ? DASH : (100 * v).toFixed(digits) + ' %';

/* A mean with its interval below. */
function spread(v, text) {
  if (!v || v.mean == null) return DASH;
  return [text(v.mean), v.low == null ? '' : h('small', {}, `${text(v.low)} to ${text(v.high)}`)];
}
/* The same of a speed-up; without a mean 1 lies within the interval, or it has none. */
const EQUAL_TIME = 'not distinguishable in time';
function faster(v, why = EQUAL_TIME) {
  if (!v) return DASH;
  return [v.mean == null ? DASH : times(v.mean), v.mean == null ? h('small', {}, why) : '',
    v.low == null ? '' : h('small', {}, `${times(v.low)} to ${times(v.high)}`)];
}
const fasterText = (v, why) => v.mean == null ? why : `${times(v.mean)}, ${times(v.low)} to ${times(v.high)}`;

/* rows [[heading, cell, ...], ...]. Of the kind 'arms': on a narrow screen the cells of a row stand below its heading, each with
 * its column's heading; roles are named since a table whose display is not that of a table has none of its own. */
function table(caption, headings, rows, kind) {
  const columns = headings.map(t => h('th', {scope: 'col', role: 'columnheader'}, t));
  const label = i => ({role: 'cell', 'data-label': columns[i + 1].textContent,
    style: `--arm: ${columns[i + 1].querySelector('.swatch')?.style.color ?? 'var(--line)'}`});
  const cells = r => r.slice(1).map((c, i) => h('td', label(i), c));
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    h('table', {class: kind, role: 'table'}, h('thead', {role: 'rowgroup'}, h('tr', {role: 'row'}, columns)),
      h('tbody', {role: 'rowgroup'}, rows.map(r => h('tr', {role: 'row'}, h('th', {scope: 'row', role: 'rowheader'}, r[0]), cells(r))))));
}

/* What the page opens with. texts: of each arm; null: of the first */
const results = texts => h('div', {id: 'result'}, texts.map((t, i) => t == null ? [] : h('p', {}, swatch(i), t)));

/* A command to copy. Where the browser has no clipboard for pages of files, the text is selected. */
function command(text) {
  const options = text.split(' --').flatMap((o, i) => i ? [' ', h('span', {}, '--' + o)] : o); /* a line breaks before one */
  const code = h('code', {}, options), said = h('span', {role: 'status'});
  const copy = async () => {
    getSelection().selectAllChildren(code);
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      done = document.execCommand('copy');
    }
    said.textContent = done ? 'copied' : 'selected: copy it by the keyboard';
  };
  return h('div', {id: 'again'}, h('p', {}, 'The command that makes all of this again: ',
    h('button', {click: copy, id: 'copy'}, 'Copy'), ' ', said), h('pre', {}, code));
}

/* What the page ends with. */
const ending = (entries, ...files) => [h('details', {}, h('summary', {}, 'Settings'), table('settings', ['', ''],
  entries.map(([k, v]) => [k, h('div', {class: 'wide'}, typeof v === 'object' ? JSON.stringify(v) : String(v))]))),
  h('p', {}, 'The figures for programs: ', files.map((f, i) => [i ? ', ' : '', link(f)]), '.')];

/* What is drawn anew when the screen becomes narrow or wide; make(whether it is narrow). */
const narrow = matchMedia('(max-width: 40rem)');
function redrawn(make) {
  let now = make(narrow.matches);
  narrow.addEventListener('change', () => {
    const next = make(narrow.matches);
    now.replaceWith(next);
    now = next;
  });
  return now;
}

/* |a - b| of two pictures or clips of one size, on a canvas; `gain` times that is what is seen. Nothing reads the canvas, since
 * a page of a file may not. */
function subtract(canvas, draw) {
  const at = canvas.getContext('2d');
  at.globalCompositeOperation = 'copy';
  draw(at, 0);
  at.globalCompositeOperation = 'difference';
  draw(at, 1);
}
const amplified = gain => `filter: brightness(${gain})`;

function ticks(lo, hi) {
  const rough = (hi - lo) / 6, unit = 10 ** Math.floor(Math.log10(rough));
  const gap = [1, 2, 5, 10].map(m => m * unit).find(g => g >= rough);
  const list = [];
  for (let i = Math.ceil(lo / gap - 1e-9); i * gap <= hi * (1 + 1e-9); i++) list.push(i * gap);
  return {list, digits: Math.max(0, -Math.floor(Math.log10(gap) + 1e-9))};
}
/* With room beside the values; ticks from least to most. */
function axis(values, least = -Infinity, most = Infinity) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) [lo, hi] = [Math.min(lo, v), Math.max(hi, v)];
  if (!(lo <= hi)) return {lo: 0, hi: 1, list: [], digits: 0};
  const room = (hi - lo || Math.abs(hi) || 1) * 0.06, {list, digits} = ticks(lo - room, hi + room);
  return {lo: lo - room, hi: hi + room, list: list.filter(v => v >= least && v <= most + 1e-9), digits};
}
/* The lines of an axis that goes up, from x1 to x2; y(v). */
const levels = (axis, y, x1, x2) => axis.list.map(v => [s('line', {x1, x2, y1: y(v), y2: y(v)}),
  s('text', {x: x1 - 6, y: y(v) + 4, 'text-anchor': 'end'}, v.toFixed(axis.digits))]);
const legend = names => h('figcaption', {class: 'legend'}, names);

/* ---- clips that play together; watchers are told the frame that is shown ---- */

let frames = 1, fps = 1, frame = 0, playing = false;
const watchers = [];
const videos = [];
function show(i) {
  frame = i;
  for (const w of watchers) w(i);
}
const ready = v => v.tagName === 'IMG' ? v.complete && v.naturalWidth > 0 : v.readyState > 1;
/* Whenever another picture of one of them is there. */
function redraw(list, draw) {
  watchers.push(draw);
  for (const v of list)
    for (const when of ['load', 'seeked', 'loadeddata']) v.addEventListener(when, draw);
}
/* A canvas with the difference to an arm, made of pictures or clips: draw(canvas). */
function differing(list, attributes, name, draw, ...caption) {
  const canvas = h('canvas', {class: 'difference', ...attributes, role: 'img', 'aria-label': `difference of ${name}, amplified`});
  redraw(list, () => list.every(ready) && draw(canvas));
  return h('figure', {}, canvas, h('figcaption', {}, caption));
}
function seek(i) {
  i = Math.max(0, Math.min(frames - 1, i));
  for (const v of videos) v.currentTime = (i + 0.5) / fps;
  show(i);
}
function pause() {
  playing = false;
  for (const v of videos) v.pause();
  seek(frame);
}
function play() {
  if (!videos.length || frames < 2) return;
  if (frame >= frames - 1) seek(0);
  playing = true;
  for (const v of videos) v.play().catch(() => {});
  show(frame);
  requestAnimationFrame(follow);
}
/* The first clip leads; whichever is more than a frame off is brought back to it. */
function follow() {
  if (!playing || !videos.length) return;
  const [first, ...rest] = videos;
  if (first.ended) {
    seek(0);
    for (const v of videos) v.play().catch(() => {});
  } else if (!first.seeking) {
    for (const v of rest)
      if (!v.seeking && !v.ended && Math.abs(v.currentTime - first.currentTime) > 1.5 / fps)
        v.currentTime = first.currentTime;
    show(Math.min(frames - 1, Math.floor(first.currentTime * fps + 1e-3)));
  }
  requestAnimationFrame(follow);
}
const toggle = () => playing ? pause() : play();
const step = by => {
  if (playing) pause();
  seek(frame + by);
};
const ofFrames = {' ': toggle, k: toggle, ',': () => step(-1), '.': () => step(1), ArrowLeft: () => step(-1),
  ArrowRight: () => step(1)};
const KEYS = 'space plays and pauses; arrows, comma and full stop step by a frame';
const keys = {...ofFrames};
addEventListener('keydown', e => {
  const act = keys[e.key];
  const own = e.target.closest('input, select, button, a, summary, .scroll'); /* has a use for such keys itself */
  if (!act || (frames < 2 && e.key in ofFrames) || e.ctrlKey || e.altKey || e.metaKey || (own && (e.key.length > 1 || e.key === ' '))) return;
  e.preventDefault();
  act();
});

function transport() {
  const button = h('button', {click: toggle, id: 'play'}, 'Play');
  const range = h('input', {type: 'range', id: 'frame', min: 0, max: frames - 1, value: 0, 'aria-label': 'frame',
    input: () => seek(+range.value)});
  const where = h('output', {'aria-live': 'off'});
  const speed = h('select', {'aria-label': 'speed', change: () => {
    for (const v of videos) v.playbackRate = +speed.value;
  }}, [1, 0.5, 0.25, 0.1].map(v => h('option', {value: v}, v + '\u00d7')));
  watchers.push(i => {
    button.textContent = playing ? 'Pause' : 'Play';
    range.value = i;
    where.textContent = `frame ${i + 1} of ${frames}`;
  });
  return h('div', {id: 'transport'}, button, h('button', {click: () => step(-1), id: 'back'}, '\u2039 Frame'),
    h('button', {click: () => step(1), id: 'on'}, 'Frame \u203a'), range, where, speed);
}

/* An image, or a clip that plays with the others; or word that the browser does not show it. */
const isImage = file => file.endsWith('.png');
function clip(file, what, image = isImage(file)) {
  const error = () => {
    if (videos.includes(v)) videos.splice(videos.indexOf(v), 1);
    v.replaceWith(h('p', {class: 'alarm'}, 'This browser cannot show ', link(file), '.'));
  };
  const v = image ? h('img', {src: address(file), class: 'clip', alt: `image of ${what}`, error}) :
    h('video', {src: address(file), preload: 'auto', muted: '', playsinline: '', 'aria-label': `clip of ${what}`, error});
  v.muted = true;
  videos.push(v);
  return v;
}

/* Clips that were shown are shown no more. */
function forget() {
  playing = false;
  for (const v of videos) v.removeAttribute('src');
  frames = 1;
  videos.length = watchers.length = 0;
}

/* Left of the line one of a list of pictures or clips, right of it another. */
function swipe(list, names, width, height) {
  const choice = (id, label, n) => h('select', {id, change: draw, 'aria-label': label},
    names.map((name, i) => h('option', {value: i, selected: i === n && ''}, name)));
  const left = choice('left', 'arm on the left', 0), right = choice('right', 'arm on the right', 1);
  const range = h('input', {type: 'range', id: 'line', min: 0, max: 100, value: 50, input: draw,
    'aria-label': 'line between the two arms, per cent'});
  const move = e => {
    if (!(e.buttons & 1)) return;
    range.value = 100 * e.offsetX / canvas.clientWidth;
    draw();
  };
  const canvas = h('canvas', {width, height, pointermove: move, pointerdown: move, role: 'img', 'aria-label': 'both, parted by the line'});
  const at = canvas.getContext('2d');
  function draw() {
    const x = Math.round(width * range.value / 100);
    const take = (n, from, to) => {
      const v = list[n], share = (v.videoWidth ?? v.naturalWidth) / width; /* another size is stretched to this one */
      if (videos.includes(v) && ready(v) && to > from)
        at.drawImage(v, from * share, 0, (to - from) * share, v.videoHeight ?? v.naturalHeight, from, 0, to - from, height);
    };
    take(+left.value, 0, x);
    take(+right.value, x, width);
    const thin = Math.max(1, Math.round(2 * width / canvas.clientWidth));
    ['#000', '#fff'].forEach((colour, i) => { /* seen on any picture */
      at.fillStyle = colour;
      at.fillRect(x + (i - 1) * thin, 0, thin, height);
    });
  }
  redraw(list, draw);
  return h('section', {id: 'swipe'}, h('h2', {}, 'Swipe'), h('p', {}, left, ' left of the line, ', right, ' right of it'),
    range, canvas);
}
