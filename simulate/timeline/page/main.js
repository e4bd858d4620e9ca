// What the reader does: keys, the mouse, the fields above the picture.

const live = byID("live"), tip = byID("tip"), stage = byID("lockstage");

let waiting = false;
// draw draws once before the screen shows its next picture, however often it is called.
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawAll();
  });
}
function drawAll() {
  const room = byID("overview").parentElement.clientHeight;
  stage.style.height = keys.length ? locksHeight(room) + "px" : "0";
  drawLanes();
  if (keys.length) drawLocks();
  drawOverview();
}

// window of time

const SHORTEST = 1e3;
function show(t0, t1) {
  const margin = END * .02;
  const span = Math.max(SHORTEST, Math.min(END + 2 * margin, t1 - t0));
  t0 = Math.max(-margin, Math.min(END + margin - span, t0 + (t1 - t0 - span) / 2));
  view.t0 = t0;
  view.t1 = t0 + span;
  draw();
}
const whole = () => show(-END * .02, END * 1.02);
function zoom(factor, t = (view.t0 + view.t1) / 2) {
  const span = Math.max(SHORTEST, (view.t1 - view.t0) * factor);
  const share = (t - view.t0) / (view.t1 - view.t0);
  show(t - span * share, t - span * share + span);
}
function pan(share) {
  const by = (view.t1 - view.t0) * share;
  show(view.t0 + by, view.t1 + by);
}

// see brings a moment into the picture.
function see(id) {
  const span = view.t1 - view.t0;
  if (at[id] < view.t0 + span * .04 || at[id] > view.t1 - span * .04) show(at[id] - span / 2, at[id] + span / 2);
  if (hostOf(id) >= 0) scrollToLane(hostOf(id));
}

function scrollToLane(lane) {
  const height = lanesSheet.canvas.clientHeight;
  layLanes(height);
  const top = layout.head + lane * layout.lane;
  view.top = Math.max(top + layout.lane - height, Math.min(view.top, top - layout.head));
}

// choose selects a moment, or with 0 none.
function choose(id, move = false) {
  for (const i of chosen.chain) chosen.inChain[i] = 0;
  chosen.id = id;
  chosen.chain = id ? chain(id) : [];
  for (const i of chosen.chain) chosen.inChain[i] = 1;
  if (id && move) see(id);
  if (id && keyOf(id)) scrollToKey(keyOf(id));
  showPanel();
  live.textContent = id ? `${clock(at[id])}, ${hostName(hostOf(id))}: ${shorten(says(id))}` : "";
  history.replaceState(null, "", id ? "#" + id : "#");
  draw();
}

function scrollToKey(place) {
  let y = 0;
  for (const k of shownKeys()) {
    if (k.place === place) {
      if (y < view.lockTop) view.lockTop = y;
      if (y + rowHeight(k) > view.lockTop + locksSheet.height) view.lockTop = y + rowHeight(k) - locksSheet.height;
      return;
    }
    y += rowHeight(k);
  }
}

function showChain() {
  const ids = chosen.chain;
  if (ids.length < 2) return;
  const t0 = at[ids[0]], t1 = at[ids[ids.length - 1]], pad = Math.max(SHORTEST, (t1 - t0) * .12);
  show(t0 - pad, t1 + pad);
}

function goToViolation() {
  if (!violation) {
    live.textContent = "No violation in this run";
    return;
  }
  if (shown[violation] === 0 || wrong && filter.key && filter.key !== wrong.key.place) clearFilter();
  // From the call that came last, or, if the holds were not at once, from the first; if
  // it is about no holds, from the last few moments that led to it.
  const t1 = at[violation];
  let t0 = t1;
  if (wrong) {
    const last = wrong.holds.reduce((a, b) => a.from > b.from ? a : b);
    const called = M.link[last.id - 1] || last.id;
    t0 = wrong.together ? at[called] : Math.min(...wrong.holds.map(h => h.from));
  } else {
    t0 = at[chain(violation).at(-12) ?? chain(violation)[0]];
  }
  const span = Math.max(t1 - t0, END / 10000, SHORTEST);
  show(t1 - span * 1.3, t1 + span * .7);
  choose(violation);
  if (!wrong) return;
  scrollToKey(wrong.key.place);
  scrollToLane(wrong.holds[0].lane);
}

function toggleTall() {
  view.tall = !view.tall;
  byID("tall").setAttribute("aria-pressed", String(view.tall));
  if (chosen.id && hostOf(chosen.id) >= 0) scrollToLane(hostOf(chosen.id));
  draw();
}

// fields

function fill(select, name, choices) {
  select.replaceChildren(el("option", { value: "" }, name), ...choices.map(([value, words]) => el("option", { value }, words)));
  select.hidden = choices.length < 2;
}
const maxChoices = 2000;
fill(byID("key"), "all keys", keys.slice(0, maxChoices).map(k => [k.place, k.name]));
fill(byID("shard"), "all shards", shards.map(s => [s, `shard ${s}`]));
fill(byID("host"), "all hosts", hosts.map((name, i) => [i, name]));
for (const [name, none] of [["key", 0], ["shard", -1], ["host", -1]]) {
  byID(name).addEventListener("change", e => setFilter(name, e.target.value === "" ? none : Number(e.target.value)));
}

function setFilter(name, value) {
  filter[name] = value;
  byID(name).value = value === (name === "key" ? 0 : -1) ? "" : String(value);
  refilter();
}

function clearFilter() {
  for (const name of ["key", "shard", "host"]) {
    filter[name] = name === "key" ? 0 : -1;
    byID(name).value = "";
  }
  refilter();
}

function refilter() {
  applyFilter();
  tellFound();
  byID("lanes").setAttribute("aria-label",
    `${hosts.length} hosts, ${order.length} of ${count} moments shown, ${faults.length} faults. Arrow keys walk from moment to moment.`);
  byID("locks").setAttribute("aria-label", `${data.holds.length} holds of ${keys.length} keys`);
  draw();
}

for (const g of groups) {
  if (g.count === 0) continue;
  const button = el("button", {
    type: "button", "aria-pressed": String(g.on), title: g.title, "data-group": g.name,
    click: () => {
      g.on = !g.on;
      button.setAttribute("aria-pressed", String(g.on));
      refilter();
    },
  }, g.name + " ", el("small", {}, g.count.toLocaleString("en")));
  byID("groups").append(button);
}

const search = byID("search");
search.addEventListener("input", () => {
  filter.search = search.value;
  applySearch();
  tellFound();
  draw();
});
search.addEventListener("keydown", e => {
  if (e.key === "Enter") nextFind(e.shiftKey ? -1 : 1);
  if (e.key === "Escape") search.blur();
});
const tellFound = () => { byID("found").textContent = filter.search.trim() ? `${finds.length} found` : ""; };
function nextFind(step) {
  if (finds.length === 0) return;
  let i = chosen.id ? firstAfter(finds.length, n => finds[n], step > 0 ? chosen.id : chosen.id - 1) : firstAfter(finds.length, n => at[finds[n]], view.t0);
  if (step < 0) i--;
  choose(finds[(i + finds.length) % finds.length], true);
}

byID("violation").addEventListener("click", goToViolation);
byID("violation").hidden = !violation;
byID("in").addEventListener("click", () => zoom(.5));
byID("out").addEventListener("click", () => zoom(2));
byID("fit").addEventListener("click", whole);
byID("tall").addEventListener("click", toggleTall);
byID("tall").hidden = hosts.length < 8;
byID("help").addEventListener("click", () => byID("keys").showModal());
byID("copy")?.addEventListener("click", async () => {
  const button = byID("copy");
  try {
    await navigator.clipboard.writeText(data.repeat);
    button.textContent = "copied";
  } catch { // not allowed here: leave it selected
    getSelection().selectAllChildren(byID("repeat"));
    button.textContent = "press ctrl+c";
  }
  setTimeout(() => { button.textContent = "copy"; }, 1500);
});

// keys

addEventListener("keydown", e => {
  if (e.target === search || e.target.tagName === "SELECT" || e.ctrlKey || e.metaKey || e.altKey || byID("keys").open) return;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
  if (step && e.shiftKey) pan(step * .25);
  else if (step) {
    const id = beside(chosen.id, step, step > 0 ? view.t0 : view.t1);
    if (id) choose(id, true);
  } else if (e.key === "ArrowUp") { if (chosen.id && because(chosen.id)) choose(because(chosen.id), true); }
  else if (e.key === "ArrowDown") { if (chosen.id && effects(chosen.id, 1).length) choose(effects(chosen.id, 1)[0], true); }
  else if (e.key === "+" || e.key === "=") zoom(.5);
  else if (e.key === "-") zoom(2);
  else if (e.key === "0") whole();
  else if (e.key === "v") goToViolation();
  else if (e.key === "c") showChain();
  else if (e.key === "t") toggleTall();
  else if (e.key === "/") { search.focus(); search.select(); }
  else if (e.key === "?") byID("keys").showModal();
  else if (e.key === "Escape") { if (chosen.id) choose(0); }
  else return;
  e.preventDefault();
});

// mouse

// hit is the place under the mouse that can be clicked, the nearest one, marks first.
function hit(places, x, y) {
  let best = null, least = 9;
  for (const h of places) {
    let far;
    if (h.box) far = x >= h.x0 && x <= h.x1 && y >= h.y0 && y <= h.y1 ? 7 : 99;
    else if (h.line) far = 2 + distance(x, y, h);
    else far = Math.hypot(x - h.x, y - h.y) <= h.r ? Math.hypot(x - h.x, y - h.y) / 4 : 99;
    if (far <= least) [best, least] = [h, far];
  }
  return best;
}

function distance(x, y, { x0, y0, x1, y1 }) {
  const dx = x1 - x0, dy = y1 - y0;
  const s = Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x0 - s * dx, y - y0 - s * dy);
}

for (const [sheet, places, scroll] of [[lanesSheet, () => hits, "top"], [locksSheet, () => lockHits, "lockTop"]]) {
  const canvas = sheet.canvas;
  let drag = null;
  canvas.addEventListener("pointerdown", e => {
    if (e.button) return;
    drag = { x: e.clientX, y: e.clientY, t0: view.t0, t1: view.t1, scroll: view[scroll], moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (!drag) {
      hover(sheet, places(), e);
      return;
    }
    const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
    drag.moved ||= Math.hypot(dx, dy) > 4;
    if (!drag.moved) return;
    tip.hidden = true;
    canvas.style.cursor = "grabbing";
    view[scroll] = drag.scroll - dy;
    const by = dx / (sheet.width - GUTTER) * (drag.t1 - drag.t0);
    show(drag.t0 - by, drag.t1 - by);
  });
  canvas.addEventListener("pointerup", e => {
    const was = drag;
    drag = null;
    canvas.style.cursor = "";
    if (!was || was.moved) return;
    const h = hit(places(), e.offsetX, e.offsetY);
    if (h?.host !== undefined) setFilter("host", filter.host === h.host ? -1 : h.host);
    else if (h?.key !== undefined) setFilter("key", filter.key === h.key ? 0 : h.key);
    else choose(h ? h.id : 0);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", e => { if (e.offsetX > GUTTER) zoom(.4, timeOf(e.offsetX, sheet.width)); });
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 16 : 1;
    if (e.offsetX < GUTTER || e.altKey) {
      view[scroll] += e.deltaY * unit;
      draw();
    } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      pan((e.deltaX || e.deltaY) * unit / 900);
    } else {
      zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY * unit / 320))), timeOf(e.offsetX, sheet.width));
    }
  }, { passive: false });
}

function hover(sheet, places, e) {
  const h = hit(places, e.offsetX, e.offsetY);
  sheet.canvas.style.cursor = h ? "pointer" : "";
  tip.hidden = !h?.id;
  if (!h?.id) return;
  const lane = hostOf(h.id);
  tip.replaceChildren(el("b", {}, clock(at[h.id])), ` ${hostName(lane)}`, el("br"), shorten(says(h.id)));
  const box = sheet.canvas.closest(".picture").getBoundingClientRect();
  const x = e.clientX - box.left, y = e.clientY - box.top;
  tip.style.left = Math.max(4, Math.min(x + 14, box.width - tip.offsetWidth - 8)) + "px";
  tip.style.top = (y + 18 + tip.offsetHeight > box.height ? y - tip.offsetHeight - 10 : y + 18) + "px";
}

{
  const canvas = overviewSheet.canvas;
  let from = null;
  const time = e => Math.max(0, Math.min(END, (e.offsetX - GUTTER) / (overviewSheet.width - GUTTER) * END));
  canvas.addEventListener("pointerdown", e => { from = time(e); canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", e => {
    const to = time(e);
    if (from !== null && Math.abs(to - from) > END / 200) show(Math.min(from, to), Math.max(from, to));
  });
  canvas.addEventListener("pointerup", e => {
    const to = time(e), span = view.t1 - view.t0;
    if (from !== null && Math.abs(to - from) <= END / 200) show(to - span / 2, to + span / 2);
    from = null;
  });
}

// begin

function restyle() {
  readTheme();
  strip = null;
  drawLegend();
  showPanel();
  draw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
new ResizeObserver(drawAll).observe(byID("overview").parentElement);
addEventListener("hashchange", () => fromHash());
function fromHash() {
  const id = Number(location.hash.slice(1));
  if (Number.isInteger(id) && id >= 1 && id <= count && id !== chosen.id) choose(id, true);
}

readTheme();
refilter();
whole();
restyle();
fromHash();

// What tests may ask.
window.timelinePage = {
  stats, choose, violation,
  chosen: () => chosen.id,
  chain: () => chosen.chain.slice(),
  order: () => Array.from(order),
  window: () => [view.t0, view.t1],
  show,
  // where tells where a moment is in the window of the browser.
  where(id) {
    const box = lanesSheet.canvas.getBoundingClientRect();
    const [x, y] = place(id, t => clampX(xOf(t, lanesSheet.width)));
    return [box.left + x, box.top + y];
  },
};
