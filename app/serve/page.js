const $ = id => document.getElementById(id);

/* ---- the server ---- */

/* A number that is too large for JavaScript stays the text that it was. */
const parse = text => JSON.parse(text, (_, v, at) =>
  typeof v === 'number' && Number.isInteger(v) && !Number.isSafeInteger(v) && at?.source ? at.source : v);

/* Whatever needs the key waits for the same dialog. */
let opening = null;
const unlock = () => opening ??= new Promise(done => {
  const lock = $('lock'), key = $('key'), wrong = $('wrong-key');
  lock.onclose = () => opening && lock.showModal();
  $('key-form').onsubmit = async e => {
    e.preventDefault();
    const answer = await fetch('login', {method: 'POST', headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({key: key.value})}).catch(() => null);
    key.value = '';
    wrong.hidden = answer?.ok ?? false;
    wrong.textContent = answer ? 'The key is wrong.' : 'The server does not answer.';
    if (!answer?.ok) return key.focus();
    opening = null;
    lock.close();
    done();
  };
  lock.showModal();
});
const reached = answer => answer.catch(() => {
  throw new Error('The server does not answer.');
});
async function request(path, how) {
  const answer = await reached(fetch(path, how));
  if (answer.ok) return answer;
  if (answer.status === 401) {
    await unlock();
    return request(path, how);
  }
  const error = (await answer.json().catch(() => null))?.error; /* none: the answer is a proxy's */
  throw Object.assign(new Error(error?.message ?? `${answer.status} ${answer.statusText}`), {param: error?.param});
}
const ask = async (path, how) => parse(await reached((await request(path, how)).text()));
const place = (job, what = '') => `jobs/${encodeURIComponent(job.id)}${what}`;
const content = (job, i) => place(job, i ? `/content?index=${i}` : '/content');
/* A screen reader does not read an unchanged status out again. */
function say(text) {
  if ($('status').textContent !== text) $('status').textContent = text;
}
function complain(error) {
  $('problem').hidden = !error;
  $('problem').textContent = error?.message ?? '';
  for (const e of $('order').elements) e.removeAttribute('aria-invalid');
  const field = error?.param && (error.param in ROLES ? $('file') : $('order').elements[error.param]);
  if (!(field instanceof Element)) return;
  field.setAttribute('aria-invalid', true);
  field.closest('details')?.setAttribute('open', '');
  field.focus();
}

/* ---- the form: a field for each option that the server has ---- */

let names = new Set(); /* of options */
const SIDES = ['dense', 'sparge'];
const KINDS = {'': 'automatic: sparse if the clip is long', dense: 'dense: exact', sage: 'quantised: dense, in 8 bits',
  sparge: 'sparse: skips what matters little', both: 'side by side: dense and sparse'};
const word = kind => KINDS[kind]?.split(':')[0] ?? kind;
const LABELS = {cfg_scale: 'Guidance scale', fps: 'Frames per second', output_format: 'Format'};
const HELP = {batch: 'clips, with consecutive seeds'}; /* where the command's help speaks of its files */
const FIRST = ['size', 'frames', 'steps', 'seed', 'model', 'attention'], OWN = [...FIRST, 'prompt', 'width', 'height'];
const label = name => LABELS[name] ?? name[0].toUpperCase() + name.slice(1).replaceAll('_', ' ');

function select(name, choices, attributes = {}) {
  return h('select', {name, ...attributes}, choices.map(([value, text]) => h('option', {value}, text)));
}
function control(o) {
  const usual = o.default == null ? '' : String(o.default), given = {name: o.name, placeholder: usual};
  if (o.choices || o.kind === 'boolean')
    return select(o.name, [['', usual ? `default: ${usual}` : 'default'], ...o.choices?.map(c => [c, c]) ?? [['true', 'yes'], ['false', 'no']]]);
  if (o.kind === 'WIDTHxHEIGHT')
    return h('input', {...given, pattern: '[0-9]+x[0-9]+', title: 'width x height, as in 832x480', spellcheck: 'false'});
  if (o.kind === 'string') return h('input', given);
  if (o.lo == null) return h('input', {...given, pattern: '-?[0-9]+', inputmode: 'numeric', title: 'a whole number'});
  return h('input', {...given, type: 'number', min: o.lo, max: o.hi, step: o.kind === 'integer' ? 1 : 'any'});
}
const field = (text, control, ...help) => h('label', {class: 'field'}, h('span', {}, text), control, help);

function build({options, ...files}) {
  const of = Object.fromEntries(options.map(o => [o.name, o]));
  const models = files.models.map((m, i) => [i ? m : '', m]), loras = files.loras.map(l => [l, l]);
  names = new Set([...Object.keys(of), 'model', 'lora', 'high_noise_lora']);
  const kinds = Object.keys(KINDS).filter(k => !k || k === 'both' || of.attention.choices.includes(k));
  $('fields').append(
    field('Size', control(of.size)), field('Frames', control(of.frames)), field('Steps', control(of.steps)),
    field('Seed', control({...of.seed, default: 'another each time'})),
    field('Model', select('model', models)), field('Attention', select('attention', kinds.map(k => [k, KINDS[k]]))));
  $('more').lastElementChild.append(
    ...loras.length ? ['lora', 'high_noise_lora'].map(n => field(label(n), select(n, loras, {multiple: '', size: Math.min(4, loras.length)}))) : [],
    ...options.filter(o => !OWN.includes(o.name)).map(o => field(label(o.name), control(o), h('small', {}, HELP[o.name] ?? o.help))));
}

/* Pictures and videos to upload, by the names of their fields. */
const inputs = new Map();
const ROLES = {image: 'begins with', last_image: 'ends with', video: 'starts from'};
function take(list) {
  for (const f of list) {
    const video = f.type.startsWith('video/') || /\.(y4m|mkv|mov|avi)$/i.test(f.name);
    inputs.set(video ? 'video' : inputs.has('image') ? 'last_image' : 'image', f);
  }
  draw();
}
function draw() {
  $('inputs').replaceChildren(...[...inputs].map(([role, f]) => {
    const src = URL.createObjectURL(f), seen = () => URL.revokeObjectURL(src);
    const given = {src, load: seen, loadeddata: seen, error: e => e.target.replaceWith(faint('This browser cannot show it.'))};
    const media = role === 'video' ? h('video', {...given, muted: '', 'aria-label': f.name}) : h('img', {...given, alt: f.name});
    const drop = h('button', {type: 'button', 'aria-label': `remove ${f.name}`, click: () => {
      inputs.delete(role);
      draw();
      $('file').focus();
    }}, 'Remove');
    return captioned(media, null, ROLES[role], f.name, drop);
  }));
}
function listen() {
  const drop = $('drop'), over = on => drop.classList.toggle('over', on);
  $('file').addEventListener('change', e => {
    take(e.target.files);
    e.target.value = '';
  });
  const files = e => e.dataTransfer.types.includes('Files'); /* text is for the prompt */
  addEventListener('dragover', e => {
    if (!files(e)) return;
    e.preventDefault();
    over(true);
  });
  addEventListener('dragleave', e => e.relatedTarget || over(false));
  addEventListener('drop', e => {
    if (!files(e)) return;
    e.preventDefault(); /* or the browser would open a file that was dropped beside the frame */
    over(false);
    take(e.dataTransfer.files);
  });
  $('order').addEventListener('submit', e => {
    e.preventDefault();
    order();
  });
  $('order').addEventListener('invalid', e => e.target.closest('details')?.setAttribute('open', ''), true);
  $('order').addEventListener('reset', () => {
    inputs.clear();
    draw();
    complain(null);
  });
  $('prompt').addEventListener('keydown', e => {
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) $('order').requestSubmit();
  });
  $('example').addEventListener('click', () => {
    $('order').reset();
    $('prompt').value = $('prompt').placeholder;
    $('order').elements.attention.value = 'both';
    $('render').focus();
  });
}
const drawn = () => String(crypto.getRandomValues(new Uint32Array(1))[0]);

/* Sends one job, or several of the same seed: all of them or none. list has the settings of each, [[name, value], ...];
   files are by their fields. */
async function submit(list, files) {
  const jobs = [];
  $('render').disabled = true;
  complain(null);
  try {
    for (const settings of list) {
      const form = new FormData();
      for (const [name, value] of [...settings, ...await files]) form.append(name, value);
      jobs.push(await ask('jobs', {method: 'POST', body: form}));
    }
    say(list.length > 1 ? `${list.length} clips are queued.` : 'The clip is queued.');
  } catch (error) {
    say('');
    complain(error);
    for (const job of jobs) await remove(job);
  }
  $('render').disabled = false;
  await refresh();
}
async function order() {
  const settings = [...new FormData($('order'))].filter(([name, v]) => names.has(name) && v !== '');
  if (!settings.some(([name]) => name === 'seed')) settings.push(['seed', drawn()]);
  const both = settings.some(([name, v]) => name === 'attention' && v === 'both');
  const side = kind => settings.map(([name, v]) => [name, name === 'attention' ? kind : v]);
  await submit(both ? SIDES.map(side) : [settings], inputs);
  if ($('problem').hidden) $('queue').scrollIntoView({block: 'nearest'}); /* it is below the form on a phone */
}
const listed = settings => Object.entries(settings).flatMap(([name, v]) => [v].flat().map(v => [name, String(v)]));

/* The uploads of a job. The server does not keep their names, so each has that of its field. */
const filesOf = async job => new Map(await Promise.all(job.inputs.map(async role =>
  [role, new File([await (await request(place(job, `/inputs/${role}`))).blob()], role)])));
async function fillIn(jobs) {
  const {settings} = jobs[0];
  $('order').reset();
  for (const e of $('order').elements) {
    const v = [settings[e.name] ?? []].flat().map(String);
    if (!names.has(e.name)) continue;
    if (e.multiple) for (const o of e.options) o.selected = v.includes(o.value);
    else e.value = v[0] ?? '';
    if (v.length && e.closest('details')) $('more').open = true;
    if (e.name === 'attention' && jobs.length > 1) e.value = 'both';
    if (e.name === 'size' && settings.width) e.value = `${settings.width}x${settings.height}`;
  }
  $('prompt').focus();
  try {
    for (const [role, f] of await filesOf(jobs[0])) inputs.set(role, f);
    draw();
  } catch (error) {
    complain(error);
  }
}
function again(jobs) {
  const seed = drawn();
  return submit(jobs.map(j => listed({...j.settings, seed})), filesOf(jobs[0]));
}

/* ---- jobs: a card for each, or for the two of one order ---- */

const over = job => !['queued', 'in_progress'].includes(job.status);
const cells = new Map(); /* {job, element, and what changes while the job is at work}, by its id */
const cards = new Map(); /* by the id of their first job */
const plural = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
const clock = s => s >= 90 ? `${Math.round(s / 60)} min` : `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
const seconds = (job, stage) => job.files.reduce((n, f) => n + (f.seconds?.[stage] ?? 0), 0);
const bytes = n => n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : `${Math.ceil(n / 1e3)} kB`;
const kindOf = job => job.settings.attention ?? job.made?.attention ?? '';
/* Sparse attention of a short clip is dense. */
const ran = job => job.made?.attention && job.made.attention !== kindOf(job) ? `, ran ${word(job.made.attention)}` : '';
const how = job => word(kindOf(job)) + ran(job);
const colour = job => ({dense: 1, sage: 4, sparge: 2})[kindOf(job)] ?? 0;
const seedOf = job => job.files[0]?.seed ?? job.settings.seed ?? 0;
const STAGES = {load: 'loading the model', text: 'reading the prompt', encode: 'encoding the input', denoise: 'denoising',
  decode: 'decoding'};

/* A button that acts when it is pressed a second time. */
function sure(text, act) {
  const b = h('button', {type: 'button', click: () => {
    if (b.textContent === text) b.textContent = `Really ${text.toLowerCase()}`;
    else act();
  }, blur: () => b.textContent = text}, text);
  return b;
}
async function remove(job) {
  await ask(place(job), {method: 'DELETE'}).catch(e => say(e.message));
  await refresh();
}

function progressText(p) {
  if (!p) return 'starting';
  const left = p.eta == null ? '' : `, ${clock(p.eta)} left`;
  return `${STAGES[p.stage] ?? p.stage}${p.stage === 'denoise' || p.stage === 'decode' ? `, ${p.done} of ${p.total}` : ''}${left}`;
}
function showProgress(cell, p) {
  cell.text.textContent = progressText(p);
  if (p?.total) {
    cell.bar.max = p.total;
    cell.bar.value = p.done;
  }
}

/* A preview is a strip: frames side by side, which are shown one after the other. */
const still = matchMedia('(prefers-reduced-motion: reduce)');
function showPreview(cell, {b64_json: image, frames: count}) {
  const img = cell.img ??= h('img', {alt: 'preview', load: () => {
    cell.view.style.aspectRatio = img.naturalWidth / cell.count / img.naturalHeight;
  }});
  img.src = `data:image/png;base64,${image}`;
  img.style.width = `${100 * count}%`;
  cell.count = count;
  if (!img.isConnected) cell.view.replaceChildren(img);
}
let tick = 0;
function turn() {
  if (!still.matches) tick++;
  for (const c of cells.values()) if (c.img) c.img.style.transform = `translateX(${-100 * (tick % c.count) / c.count}%)`;
}
setInterval(turn, 125);

function size(job) {
  const {made, settings} = job, [width, height] = settings.size?.split('x') ?? [];
  return [made?.width ?? settings.width ?? width, made?.height ?? settings.height ?? height];
}
const shape = job => size(job)[1] ? `aspect-ratio: ${size(job).map(Number).join(' / ')}` : 'aspect-ratio: 1';

const isPicture = file => /\.(png|jpe?g|webp)$/.test(file);
function media(job, i) {
  const style = shape(job), what = `${how(job)}, seed ${job.files[i].seed}: ${job.settings.prompt ?? ''}`;
  const given = {src: content(job, i), style, error: e => e.target.replaceWith(h('p', {class: 'view', style}, 'This browser cannot show it.'))};
  return isPicture(job.files[i].file) ? h('img', {...given, alt: what, loading: 'lazy'}) :
    h('video', {...given, controls: '', loop: '', muted: '', playsinline: '', preload: 'metadata', 'aria-label': what});
}

function flat([key, v]) {
  return v !== null && typeof v === 'object' && !Array.isArray(v) ? Object.entries(v).map(([k, w]) => [`${key}.${k}`, w]) : [[key, v]];
}
function facts(job) {
  const made = job.made ?? job.settings;
  const rows = () => table('settings', ['', ''], Object.entries(made).flatMap(flat).map(([k, v]) =>
    [k, h('div', {class: 'wide'}, Array.isArray(v) ? v.join(', ') : String(v))]));
  const details = h('details', {toggle: () => details.children.length > 1 || details.append(rows())}, h('summary', {}, 'Settings'));
  return details;
}

/* When one of these changes, the job gets another cell; progress only updates the one it has. */
const state = job => JSON.stringify([job.status, job.queue_position, job.error, job.files]);
function makeCell(job) {
  const cell = {job, state: state(job)}, buttons = [];
  const box = (text, style) => cell.view = h('div', {class: 'view', style}, text);
  let shown, lines = [];
  if (job.status === 'queued') {
    shown = box(job.queue_position ? `${plural(job.queue_position, 'clip')} before it` : 'next');
    buttons.push(sure('Cancel', () => remove(job)));
  } else if (job.status === 'in_progress') {
    shown = box('', shape(job));
    cell.text = h('span', {});
    cell.bar = h('progress', {'aria-label': `progress of ${how(job)}: ${job.settings.prompt ?? ''}`, max: 1});
    lines = [cell.text, cell.bar];
    buttons.push(sure('Cancel', () => remove(job)));
    showProgress(cell, job.progress);
  } else if (job.status === 'completed') {
    shown = h('div', {class: 'made'}, job.files.map((_, i) => media(job, i)));
    lines = [`${clock(seconds(job, 'total') - seconds(job, 'load'))}, ${bytes(job.files.reduce((n, f) => n + f.bytes, 0))}`];
    buttons.push(h('button', {type: 'button', 'aria-pressed': 'false', click: () => choose(job), class: 'choose'}, 'Compare'),
      ...job.files.map(({file}, i) =>
        h('a', {href: content(job, i), download: `${job.id.slice(0, 8)}-${file}`}, i ? `Download ${i + 1}` : 'Download')),
      sure('Delete', () => remove(job)));
  } else {
    shown = job.error ? h('p', {class: 'alarm'}, job.error) : box(job.status);
    buttons.push(sure('Delete', () => remove(job)));
  }
  cell.element = captioned(shown, colour(job), how(job), ...lines);
  cell.element.className = 'cell';
  cell.element.dataset.id = job.id;
  cell.element.append(h('div', {class: 'act'}, buttons), over(job) ? facts(job) : '');
  return cell;
}

function about(job) {
  const {made, settings} = job, [w, y] = size(job), frames = made?.frames ?? settings.frames, steps = made?.steps ?? settings.steps;
  return [settings.model ?? made?.model?.file, w && `${w}\u00d7${y}`, frames && plural(frames, 'frame'), steps && plural(steps, 'step'),
    `seed ${seedOf(job)}`, ...job.inputs.map(i => i.replace('_', ' '))].filter(Boolean).join(', ');
}
/* What sparse attention saved. Denoising alone is compared, because the first job may also have loaded the model, and it
   encodes the prompt for both. */
function saved(jobs) {
  const [dense, sparse] = jobs.map(j => seconds(j, 'denoise'));
  if (ran(jobs[1]) || !(dense > 0 && sparse > 0)) return '';
  return h('p', {class: 'saved'}, `Sparse denoised in ${clock(sparse)}, dense in ${clock(dense)}: ${times(dense / sparse)}, by one run of each`);
}
function makeCard(jobs) {
  const pair = jobs.length > 1 && jobs.every(j => j.status === 'completed'), {prompt} = jobs[0].settings;
  const button = (text, act, name) => h('button', {type: 'button', class: name, click: () => act(jobs)}, text);
  return h('li', {class: jobs.length > 1 ? 'card two' : 'card', 'data-id': jobs[0].id}, h('h3', {}, prompt ?? ''),
    h('p', {class: 'about'}, about(jobs.at(-1))), [...new Set(jobs.flatMap(j => j.notices))].map(n => h('p', {class: 'notice'}, n)),
    h('div', {class: 'cells'}, jobs.map(j => cells.get(j.id).element)), pair ? saved(jobs) : '',
    !jobs.every(over) ? '' : h('div', {class: 'act'}, pair ? button('Compare the two', compare, 'both') : '',
      button('Again with another seed', again, 'again'), button('Edit', fillIn, 'edit')));
}

/* Two jobs were ordered side by side if they follow each other and differ in their attention alone. */
const sameBut = job => JSON.stringify(Object.entries({...job.settings, attention: ''}).sort()) + job.inputs;
function grouped(jobs) {
  const groups = [];
  for (const job of jobs.toSorted((a, b) => a.number - b.number)) {
    const last = groups.at(-1);
    const sides = last?.length === 1 && [last[0], job].every((j, i) => j.settings.attention === SIDES[i]);
    if (sides && last[0].number + 1 === job.number && sameBut(last[0]) === sameBut(job)) last.push(job);
    else groups.push([job]);
  }
  return groups;
}

/* Puts elements in this order. Those in their place stay there, because a video that is moved stops. */
function arrange(list, elements) {
  const keep = new Set(elements);
  for (const e of [...list.children]) if (!keep.has(e)) e.remove();
  elements.forEach((e, i) => list.children[i] === e || list.insertBefore(e, list.children[i] ?? null));
}
function showJobs(jobs) {
  const focused = document.activeElement, within = focused.closest('.card')?.dataset.id;
  for (const id of [...cells.keys()]) if (!jobs.some(j => j.id === id)) cells.delete(id);
  for (const job of jobs) {
    const cell = cells.get(job.id);
    if (cell?.state === state(job)) {
      cell.job = job;
      if (cell.bar && watched?.id !== job.id) showProgress(cell, job.progress);
      continue;
    }
    if (cell && !over(cell.job) && over(job)) say(`${job.status}: ${job.settings.prompt ?? ''}`);
    cells.set(job.id, makeCell(job));
  }
  if (chosen && !jobs.some(j => j.id === chosen.id)) chosen = null;
  const groups = grouped(jobs), waiting = [], done = [];
  for (const group of groups) {
    const key = group[0].id, now = group.map(j => cells.get(j.id).state).join() + group.map(j => j.id);
    if (cards.get(key)?.now !== now) cards.set(key, {now, element: makeCard(group)});
    const {element} = cards.get(key);
    if (group.every(over)) done.unshift(element);
    else waiting.push(element);
  }
  for (const key of [...cards.keys()]) if (!groups.some(g => g[0].id === key)) cards.delete(key);
  arrange($('queue'), waiting);
  arrange($('gallery'), done);
  if (within && document.activeElement !== focused) /* its card was removed or moved */
    (focused.isConnected ? focused : cards.get(within)?.element.querySelector('button') ?? $('gallery-title')).focus();
  $('idle').hidden = waiting.length > 0;
  $('bare').hidden = done.length > 0;
  const left = jobs.filter(j => !over(j)).length;
  document.title = left ? `(${left}) sparge-gen` : 'sparge-gen';
}

/* ---- the list of jobs ---- */

/* Follows the job at work alone: a browser has few connections to a server. */
let watched = null;
function watch(job) {
  if (watched?.id === job?.id && watched?.stream.readyState !== 2) return;
  watched?.stream.close();
  watched = job ? {id: job.id, stream: new EventSource(place(job, '/events'))} : null;
  const on = (name, act) => watched?.stream.addEventListener(name, e => {
    const cell = cells.get(job.id);
    if (cell?.bar) act(cell, parse(e.data));
  });
  on('progress', showProgress);
  on('preview', showPreview);
  on('job', (_, now) => over(now) && refresh());
}

const PAGE = 100;
let all = [], pages = 1, busy = null, timer = 0, lost = false;
async function load() {
  const jobs = [];
  for (let page = 0, more = true; more && (page < pages || !over(jobs.at(-1))); page++) {
    const list = await ask(`jobs?order=desc&limit=${PAGE}${jobs.length ? `&after=${jobs.at(-1).id}` : ''}`);
    jobs.push(...list.data);
    more = list.has_more && list.data.length > 0;
    $('older').hidden = !more;
  }
  return jobs;
}
async function look() {
  try {
    all = await load();
    if (lost) say('');
    lost = false;
    watch(all.find(j => j.status === 'in_progress'));
    showJobs(all);
  } catch (error) {
    lost = true;
    say(`${error.message} The page tries again.`);
  }
}
/* Loads the list again, after a load that is under way. */
async function refresh() {
  clearTimeout(timer);
  const before = busy;
  const own = busy = (async () => {
    await before;
    await look();
  })();
  await own;
  if (busy !== own) return;
  busy = null;
  timer = setTimeout(refresh, all.every(over) && !lost ? 10000 : 1500);
}
document.addEventListener('visibilitychange', () => document.hidden ? clearTimeout(timer) : refresh());
$('older').addEventListener('click', () => {
  pages++;
  refresh();
});

/* ---- the comparison of two clips ---- */

const viewer = $('compared');
let chosen = null; /* the first of two */
function choose(job) {
  const first = chosen;
  chosen = first ? null : job;
  say(first ? '' : 'Choose Compare at a second clip.');
  if (first && first.id !== job.id) compare([first, job]);
  for (const b of document.querySelectorAll('button.choose'))
    b.setAttribute('aria-pressed', String(b.closest('.cell').dataset.id === chosen?.id));
}
function compare(jobs) {
  const made = jobs[0].made ?? {}, {width = 256, height = 256} = made;
  const title = j => [how(j), `seed ${seedOf(j)}`, j.settings.prompt ?? ''];
  forget();
  frame = 0;
  frames = made.frames ?? 1;
  fps = made.fps ?? 16;
  for (const v of document.querySelectorAll('.cell video')) v.pause();
  const two = jobs.map(j => clip(content(j, 0), title(j).join(', '), isPicture(j.files[0].file)));
  const names = jobs.map((j, i) => `${i + 1}: ${title(j).slice(0, 2).join(', ')}`);
  const line = swipe(two, names, width, height);
  line.style.maxWidth = `${Math.round(60 * width / height)}vh`; /* so that the whole picture is visible */
  viewer.replaceChildren(h('header', {}, h('h2', {}, 'Two clips'), h('button', {id: 'leave', click: () => viewer.close()}, 'Close')),
    frames > 1 ? transport() : '', h('div', {id: 'players'}, two.map((v, i) => captioned(v, colour(jobs[i]), names[i], title(jobs[i])[2])),
      differing(two, {width, height, style: amplified(GAIN)}, names[1], canvas => subtract(canvas, (at, second) =>
        at.drawImage(two[+second], 0, 0, width, height)), `difference \u00d7${GAIN}; black: equal`)),
    line, faint(`Keys: ${frames > 1 ? `${KEYS}; ` : ''}Escape closes.`));
  viewer.showModal();
  (document.getElementById('play') ?? $('leave')).focus();
  show(0);
}
const GAIN = 8;
viewer.addEventListener('close', () => {
  forget();
  viewer.replaceChildren();
});

(async () => {
  listen();
  build(await ask('options'));
  await refresh();
})().catch(e => say(e.message));
