// The lanes of the hosts, and the frames between them.

const GUTTER = 116;
const RULER = 24;
const view = { t0: 0, t1: END, top: 0, lockTop: 0, tall: false };
const chosen = { id: 0, chain: [], inChain: new Uint8Array(count + 1) };

const lanesSheet = new Sheet("lanes");
const stats = { frames: 0, arrows: 0, marks: 0, names: [] }; // of the last picture, for tests
let written = []; // where words are already, in the lanes
let named = []; // the frames that have names in the last picture
let hits = []; // what can be clicked in the last picture of the lanes

const xOf = (t, width) => GUTTER + (t - view.t0) / (view.t1 - view.t0) * (width - GUTTER);
const timeOf = (x, width) => view.t0 + (x - GUTTER) / (width - GUTTER) * (view.t1 - view.t0);
const clampX = x => Math.max(-5e3, Math.min(2e4, x));

const maxFaultRows = 4, faultRow = 17;
const GONE = .7; // so much of its way a lost frame gets
const manyArrows = 1200; // more than this become a density
const mostNamed = 50; // more than this have no names, but for those of a chain

// Lanes share the height. Those of many hosts are low, or, if the reader wants them
// tall, more than there is room for.
const LOW = 13, TALL = 40, WORDS = 24; // the least heights; from the last on, words fit in
const layout = { head: 0, lane: 0 };
// What happens in the lab, other than faults, has a row of its own above the lanes.
const inLab = id => hostOf(id) < 0 && kindOf(id) !== K.fault && kindOf(id) !== K.ended;
let labRow = false;
for (let id = 1; id <= count && !labRow; id++) labRow = inLab(id);
function layLanes(height) {
  layout.head = RULER + Math.min(faultRows, maxFaultRows) * faultRow + (faultRows ? 4 : 0) + (labRow ? 18 : 0);
  layout.lane = Math.max(view.tall ? TALL : LOW, Math.min(170, (height - layout.head - 2) / Math.max(1, hosts.length)));
  view.top = Math.max(0, Math.min(view.top, layout.head + layout.lane * hosts.length + 2 - height));
}
const laneTop = lane => layout.head + lane * layout.lane - view.top;
const lineOf = lane => lane < 0 ? layout.head - 9 : laneTop(lane) + layout.lane * .58;
const markOf = lane => lane < 0 ? layout.head - 9 : lineOf(lane) - Math.min(16, layout.lane * .28);

function drawLanes() {
  const g = lanesSheet.fit();
  const { width, height } = lanesSheet;
  layLanes(height);
  hits = [];
  written = [];
  stats.frames++;
  const x = t => clampX(xOf(t, width));
  const low = Math.max(0, Math.floor(view.top / layout.lane));
  const high = Math.min(hosts.length - 1, Math.floor((view.top + height - layout.head) / layout.lane));
  const seen = lane => lane >= low && lane <= high;

  for (let lane = low; lane <= high; lane++) {
    g.fillStyle = lane % 2 ? theme.lane2 : theme.lane;
    g.fillRect(0, laneTop(lane), width, layout.lane);
  }
  g.save();
  g.beginPath();
  g.rect(GUTTER, layout.head, width - GUTTER, height);
  g.clip();
  drawRoles(g, x, width, seen);
  drawFaultTints(g, x, low, high);
  for (let lane = low; lane <= high; lane++) {
    g.fillStyle = theme.line;
    g.fillRect(GUTTER, Math.round(lineOf(lane)), width, 1);
  }
  drawHalts(g, x, seen);
  if (chosen.id) g.globalAlpha = .32;
  const dense = drawFrames(g, x, width, seen);
  drawMarks(g, x, width, seen, dense);
  g.globalAlpha = 1;
  drawWrong(g, x, width);
  g.restore();

  drawHead(g, x, width, dense);
  drawVerdicts(g, x, layout.head, height);
  g.save();
  g.beginPath();
  g.rect(GUTTER, RULER, width - GUTTER, height);
  g.clip();
  drawLab(g, x, width);
  drawChain(g, x, width);
  nameFrames(g, x); // over the chain
  g.restore();
  drawNames(g, low, high, height);
}

function drawRoles(g, x, width, seen) {
  const spans = filter.shard >= 0 ? roleSpans.get(filter.shard) : shards.length === 1 ? roleSpans.get(shards[0]) : leadSpans;
  if (!spans) return;
  g.font = font(10);
  g.textBaseline = "alphabetic";
  spans.visit(view.t0, view.t1, r => {
    if (!seen(r.lane)) return;
    const x0 = Math.max(GUTTER, x(r.from)), x1 = Math.max(x0 + 1, x(r.to));
    const bottom = laneTop(r.lane) + layout.lane;
    let words = "", colour = theme.leader, thick = 5;
    if (r.leads) {
      words = `leads ${r.leads} shard${r.leads === 1 ? "" : "s"}`;
      thick = Math.min(layout.lane / 6, 7, 2 + r.leads * .7);
      g.globalAlpha = Math.min(.1, r.leads * .02);
    } else {
      if (r.role === LEADER) { words = `leader, term ${r.term}`; g.globalAlpha = .13; }
      else if (r.role === CANDIDATE) { words = `candidate, term ${r.term}`; colour = theme.candidate; g.globalAlpha = .16; }
      else if (r.role === LEARNER) { words = "learner"; colour = theme.learner; thick = 2; g.globalAlpha = 0; }
      else { colour = theme.learner; thick = 1; g.globalAlpha = 0; }
    }
    g.fillStyle = colour;
    g.fillRect(x0, bottom - layout.lane, x1 - x0, layout.lane);
    g.globalAlpha = 1;
    g.fillStyle = r.role === CANDIDATE ? hatch(g, colour) : colour;
    g.fillRect(x0, bottom - thick - 1, x1 - x0, thick);
    if (x(r.from) >= GUTTER && words) g.fillRect(x0, bottom - 12, 1.5, 12);
    if (words && x1 - x0 > 46 && layout.lane >= 40) {
      const y = bottom - thick - 4, wide = label(g, words, x0 + 5, y, colour, x1 - x0 - 8);
      written.push([x0 + 5, y - 10, x0 + 5 + wide, y + 3]);
    }
  });
  g.globalAlpha = 1;
}

// drawFaultTints colours the lanes while something is wrong with them: once, however
// much is wrong, and less if it has no end.
function drawFaultTints(g, x, low, high) {
  const until = hosts.map(() => [0, 0]);
  let edges = 0;
  g.fillStyle = theme.fault;
  faultSpans.visit(view.t0, view.t1, f => {
    if (!shown[f.id]) return;
    const all = f.lanes.length === 0;
    if (all && !f.end) return;
    const x0 = x(f.from), x1 = Math.max(x0 + 1, x(f.to));
    for (const lane of all ? range(low, high) : f.lanes) {
      if (lane < low || lane > high) continue;
      const sort = f.end && !all ? 0 : 1, left = Math.max(x0, until[lane][sort]);
      if (x1 > left) {
        g.globalAlpha = sort ? .05 : .12;
        g.fillRect(left, laneTop(lane), x1 - left, layout.lane);
        until[lane][sort] = x1;
      }
      if (sort || edges++ > 60) continue;
      g.globalAlpha = .45;
      g.fillRect(x0, laneTop(lane), 1, layout.lane);
      g.fillRect(x1 - 1, laneTop(lane), 1, layout.lane);
    }
  });
  g.globalAlpha = 1;
}

const range = (low, high) => Array.from({ length: Math.max(0, high - low + 1) }, (_, i) => low + i);

function drawHalts(g, x, seen) {
  g.font = font(10, 600);
  g.textBaseline = "middle";
  haltSpans.visit(view.t0, view.t1, h => {
    if (!seen(h.lane)) return;
    const x0 = Math.max(GUTTER, x(h.from)), x1 = Math.max(x0 + 1, x(h.to));
    const gap = Math.min(3, layout.lane / 10), y = laneTop(h.lane) + gap, tall = layout.lane - 2 * gap;
    g.fillStyle = h.paused ? theme.lane : theme.line;
    g.globalAlpha = .6;
    g.fillRect(x0, y, x1 - x0, tall);
    g.globalAlpha = .5;
    g.fillStyle = hatch(g, theme.muted, h.paused ? 0 : 1);
    g.fillRect(x0, y, x1 - x0, tall);
    g.globalAlpha = 1;
    if (x1 - x0 > 44 && layout.lane >= WORDS) {
      const wide = label(g, h.paused ? "paused" : "down", x0 + 5, y + 7, theme.ink, x1 - x0 - 8);
      written.push([x0 + 5, y, x0 + 5 + wide, y + 14]);
    }
  });
}

function drawVerdicts(g, x, top, height) {
  for (const id of verdicts) {
    if (at[id] < view.t0 || at[id] > view.t1) continue;
    const mx = x(at[id]);
    g.fillStyle = theme.alarm;
    g.fillRect(mx - 1, top, 2, height - top);
    hits.push({ box: true, x0: mx - 4, y0: top, x1: mx + 4, y1: height, id });
  }
}

function drawNames(g, low, high, height) {
  g.fillStyle = theme.bg;
  g.fillRect(0, layout.head, GUTTER, height);
  g.textBaseline = "middle";
  for (let lane = low; lane <= high; lane++) {
    g.fillStyle = hostColour(lane);
    g.fillRect(0, laneTop(lane) + 1, 4, layout.lane - 3);
    g.font = font(Math.min(13, layout.lane - 2), filter.host === lane ? 700 : 600);
    label(g, hosts[lane], 12, laneTop(lane) + layout.lane / 2, filter.host === lane ? theme.accent : theme.ink, GUTTER - 20, null);
    g.fillStyle = theme.line;
    g.fillRect(0, Math.round(laneTop(lane) + layout.lane) - 1, GUTTER, 1);
    hits.push({ box: true, x0: 0, y0: laneTop(lane), x1: GUTTER, y1: laneTop(lane) + layout.lane, host: lane });
  }
  g.fillStyle = theme.line;
  g.fillRect(GUTTER - 1, layout.head, 1, height);
}

function drawHead(g, x, width, dense) {
  g.fillStyle = theme.bg;
  g.fillRect(0, 0, width, layout.head);
  g.save();
  g.beginPath();
  g.rect(GUTTER, 0, width - GUTTER, layout.head);
  g.clip();
  drawRuler(g, x, width);
  g.font = font(11);
  g.textBaseline = "middle";
  const rows = Array.from({ length: Math.min(faultRows, maxFaultRows) }, () => 0); // up to where each is taken
  let more = 0;
  const open = []; // faults without an end, from before the picture
  faultSpans.visit(view.t0, view.t1, f => {
    if (!shown[f.id]) return;
    const begin = x(f.from), x0 = Math.max(GUTTER, begin);
    const wide = Math.min(110, g.measureText(f.label).width + 12);
    const x1 = f.end ? Math.max(x0 + 3, x(f.to)) : Math.min(x(f.to), begin + wide);
    if (x1 < GUTTER) {
      open.push(f);
      return;
    }
    const row = rows.findIndex(taken => taken <= x0);
    if (row < 0) {
      more++;
      return;
    }
    rows[row] = Math.max(x1, x0 + wide) + 2;
    const y = RULER + row * faultRow, tall = faultRow - 3;
    g.fillStyle = theme.fault;
    g.globalAlpha = chosen.inChain[f.id] ? .6 : .28;
    if (f.end) g.fillRect(x0, y, x1 - x0, tall);
    else for (let i = 1; i <= 5; i++) { // it has no end, so the bar fades out
      g.fillRect(x0, y, (x1 - x0) * i / 5, tall);
      g.globalAlpha *= .5;
    }
    g.globalAlpha = 1;
    if (begin >= GUTTER) g.fillRect(x0, y, 2, tall);
    if (f.end) g.fillRect(x1 - 2, y, 2, tall);
    if (isFind[f.id] || f.id === chosen.id) {
      g.strokeStyle = f.id === chosen.id ? theme.accent : theme.warn;
      g.lineWidth = 2;
      g.strokeRect(x0, y, x1 - x0, tall);
    }
    const spills = x1 < x0 + wide; // words over a bar's end need a halo
    label(g, f.label, x0 + 5, y + 7.5, theme.ink, Math.max(x1, x0 + wide) - x0 - 8, spills ? theme.halo : null);
    hits.push({ box: true, x0, y0: y, x1: Math.max(x1, x0 + 6), y1: y + tall, id: f.id });
  });
  for (const f of open.reverse()) { // the latest ones, where a row is empty
    const row = rows.indexOf(0), y = RULER + row * faultRow;
    if (row < 0) {
      more++;
      continue;
    }
    rows[row] = 1;
    label(g, `since ${clock(f.from, 1e8)}: ${f.label}`, GUTTER + 5, y + 7.5, theme.muted, 400, null);
    hits.push({ box: true, x0: GUTTER, y0: y, x1: GUTTER + 200, y1: y + faultRow - 3, id: f.id });
  }
  g.restore();
  if (faultRows) {
    g.font = font(11);
    g.textBaseline = "middle";
    label(g, more ? `faults, ${more} more` : "faults", 12, RULER + 7, theme.muted, GUTTER - 16, null);
  }
  if (labRow) {
    g.font = font(11);
    g.textBaseline = "middle";
    label(g, "lab", 12, markOf(-1), theme.muted, GUTTER - 20, null);
  }
  if (dense) {
    g.font = font(11);
    label(g, "zoom in for frames", 8, RULER / 2, theme.muted, GUTTER, null);
  }
}

function drawRuler(g, x, width) {
  const step = niceStep((view.t1 - view.t0) / Math.max(2, (width - GUTTER) / 110));
  g.font = font(11);
  g.textBaseline = "middle";
  g.font = font(11, 700);
  const flags = verdicts.filter(id => at[id] >= view.t0 && at[id] <= view.t1).map(id => {
    const mx = x(at[id]), words = kindOf(id) === K.failure ? "FAILURE" : "broken";
    const wide = g.measureText(words).width + 10;
    return { id, mx, words, wide, left: mx + wide > width ? mx - wide : mx };
  });
  g.font = font(11);
  for (let t = Math.max(0, Math.ceil(view.t0 / step) * step); t <= view.t1; t += step) {
    const tx = x(t), words = clock(t, step), end = tx + 3 + g.measureText(words).width;
    g.fillStyle = theme.line;
    g.fillRect(Math.round(tx), RULER - 6, 1, 6);
    if (!flags.some(f => f.left < end && tx < f.left + f.wide)) label(g, words, tx + 3, RULER / 2 - 1, theme.muted, 110, null);
  }
  g.fillStyle = theme.line;
  g.fillRect(0, RULER - 1, width, 1);
  g.font = font(11, 700);
  for (const { id, mx, words, wide, left } of flags) {
    g.fillStyle = theme.alarm;
    g.fillRect(left, 2, wide, RULER - 6);
    g.fillRect(mx - 1, 2, 2, RULER);
    label(g, words, left + 5, RULER / 2 - 1, theme.bg, 200, null);
    hits.push({ box: true, x0: left, y0: 0, x1: left + wide, y1: RULER, id });
  }
}

function niceStep(t) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, t)));
  for (const n of [1, 2, 5, 10]) if (n * power >= t) return n * power;
  return 10 * power;
}
