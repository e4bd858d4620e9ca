// The marks in the lanes, and the chain of causes that is chosen.

function drawMarks(g, x, width, seen, dense) {
  const start = firstAfter(order.length, i => at[order[i]], view.t0 - (view.t1 - view.t0) * .05);
  const last = firstAfter(order.length, i => at[order[i]], view.t1);
  const drawn = new Map();                       // by lane and kind, the last x
  const pending = hosts.map(() => null);         // a label that waits to know its room
  const crowd = last - start > 6000;
  const words = last - start < 120 + 12 * hosts.length && layout.lane >= WORDS;
  const size = Math.max(3, Math.min(5, layout.lane / 5));
  const dim = g.globalAlpha;
  g.font = font(11);
  g.textBaseline = "middle";
  stats.marks = 0;
  const chained = hosts.map(() => []);           // where drawChain is going to write
  for (const id of chosen.chain) if (hostOf(id) >= 0 && !isFrame(id)) chained[hostOf(id)].push(x(at[id]));
  const flush = (lane, until) => {
    const p = pending[lane];
    pending[lane] = null;
    if (p && until - p.x > 66 && !chained[lane].some(c => c > p.x - 260 && c < p.x + 200)) label(g, p.words, p.x + 9, p.y, p.colour, until - p.x - 14);
  };
  for (let i = start; i < last; i++) {
    const id = order[i], lane = hostOf(id), kind = kindOf(id);
    if (lane < 0 || !seen(lane) || kind === K.depth || chosen.inChain[id]) continue;
    const frame = isFrame(id);
    if (frame && (dense || kind === K.lost) && !isFind[id]) continue;
    const [mx, my] = place(id, x);
    const slot = (lane + 1) * 32 + kind;
    if (mx - (drawn.get(slot) ?? -99) < (crowd ? 5 : 1.5) && !isFind[id]) continue;
    drawn.set(slot, mx);
    stats.marks++;
    if (!frame) flush(lane, mx);
    mark(g, id, mx, my, frame ? size * .68 : size);
    if (isFind[id]) ring(g, mx, my, 8.5, theme.warn, 2.5);
    hits.push({ x: mx, y: my, r: frame ? 5 : 8, id });
    if (!frame && words && (kind < K.up || kind > K.resumed)) {
      pending[lane] = { x: mx, y: my, words: brief(id), colour: marks[kind][1] === "alarm" ? theme.alarm : theme.ink };
    }
  }
  pending.forEach((p, lane) => flush(lane, width));
  g.globalAlpha = dim;
}

// lostAt is where the cross of a frame that was lost is: it never gets to its end.
function lostAt(id, x) {
  const sent = M.link[id - 1], lane = hostOf(id);
  if (!sent) return [x(at[id]), lineOf(lane)];
  const x0 = x(at[sent]), y0 = lineOf(hostOf(sent));
  return [x0 + (x(at[id]) - x0) * GONE, y0 + (lineOf(lane) - y0) * GONE];
}

// drawWrong marks, in their lanes, the holds that the violation is about.
function drawWrong(g, x, width) {
  if (!wrong) return;
  g.font = font(11, 700);
  g.textBaseline = "middle";
  for (const h of wrong.holds) {
    const x0 = x(h.from), x1 = x(h.to), y = laneTop(h.lane) + 1, tall = Math.min(15, layout.lane - 2);
    if (x1 < GUTTER || x0 > width) continue;
    g.globalAlpha = .8;
    g.fillStyle = theme.bg;
    g.fillRect(x0, y, x1 - x0, tall);
    if (wrong.together) {
      g.globalAlpha = .5;
      g.fillStyle = hatch(g, theme.alarm, -1);
      g.fillRect(x(wrong.from), y, x(wrong.to) - x(wrong.from), tall);
    }
    g.globalAlpha = 1;
    g.strokeStyle = theme.alarm;
    g.lineWidth = 1.5;
    g.strokeRect(x0, y, Math.max(2, x1 - x0), tall);
    const left = Math.max(x0, GUTTER) + 5;
    label(g, `holds ${h.key.name}, token ${shortToken(h.token)}`, left, y + tall / 2 + .5, theme.alarm, Math.min(x1, width) - left - 4);
    hits.push({ box: true, x0, y0: y, x1, y1: y + tall, id: h.id });
  }
}

// drawLab shows what happened in the lab.
function drawLab(g, x, width) {
  if (!labRow) return;
  g.font = font(11);
  g.textBaseline = "middle";
  const my = markOf(-1);
  let last = -99, named = 0; // a label waits to know its room
  const flush = until => {
    if (named && until - last > 50) label(g, brief(named), last + 9, my, theme.ink, Math.min(160, until - last - 14));
    named = 0;
  };
  const start = firstAfter(order.length, i => at[order[i]], view.t0);
  for (let i = start; i < order.length && at[order[i]] <= view.t1; i++) {
    const id = order[i], mx = x(at[id]);
    if (!inLab(id) || mx - last < 3 && !isFind[id]) continue;
    flush(mx);
    mark(g, id, mx, my, 5);
    if (isFind[id]) ring(g, mx, my, 8.5, theme.warn, 2.5);
    last = mx;
    if (kindOf(id) !== K.failure) named = id;
    hits.push({ x: mx, y: my, r: 8, id });
  }
  flush(width);
}

// brief says what happened in few words, without what the lane says already.
function brief(id) {
  const actor = text(M.actor[id - 1]);
  return (actor ? actor + ": " : "") + says(id);
}

function ring(g, x, y, r, colour, thick) {
  g.beginPath();
  g.arc(x, y, r, 0, 7);
  g.strokeStyle = colour;
  g.lineWidth = thick;
  g.stroke();
}

// place is where a moment is in the picture.
function place(id, x) {
  if (kindOf(id) === K.lost) return lostAt(id, x);
  const lane = hostOf(id);
  return [x(at[id]), isFrame(id) ? lineOf(lane) : markOf(lane)];
}

function drawChain(g, x, width) {
  const ids = chosen.chain;
  if (ids.length === 0) return;
  const near = Math.max(1, firstAfter(ids.length, i => at[ids[i]], view.t0));
  const far = Math.min(ids.length - 1, firstAfter(ids.length, i => at[ids[i]], view.t1));
  for (const [colour, thick] of [[theme.halo, 6], [theme.accent, 2.6]]) {
    g.strokeStyle = colour;
    g.fillStyle = colour;
    g.lineWidth = thick;
    g.lineJoin = "round";
    for (let i = near; i <= far; i++) {
      const [x0, y0] = place(ids[i - 1], x);
      const [x1, y1] = place(ids[i], x);
      g.beginPath();
      g.moveTo(x0, y0);
      g.lineTo(x1, y1);
      g.stroke();
      if (hostOf(ids[i]) !== hostOf(ids[i - 1]) && kindOf(ids[i]) !== K.lost) {
        g.beginPath();
        head(g, x0, y0, x1, y1);
        g.fill();
      }
    }
  }
  g.font = font(11, 600);
  g.textBaseline = "middle";
  const room = hosts.map(() => width); // in each lane, up to where nothing is written
  for (let i = far; i >= near - 1; i--) {
    const id = ids[i], lane = hostOf(id);
    const [mx, my] = place(id, x);
    mark(g, id, mx, my, 5);
    ring(g, mx, my, id === chosen.id ? 10 : 7.5, theme.accent, id === chosen.id ? 3 : 1.6);
    hits.push({ x: mx, y: my, r: 10, id });
    if (lane < 0) continue;
    if (room[lane] - mx > 60 && !isFrame(id) && !wrong?.holds.includes(holdOf.get(id))) label(g, brief(id), mx + 11, layout.lane >= TALL ? my - 12 : my, theme.accent, room[lane] - mx - 20); // above the chain, if there is room
    room[lane] = mx - 8;
  }
  for (const id of effects(chosen.id, 50)) {
    if (at[id] > view.t1 || hostOf(id) < 0) continue;
    const [x0, y0] = place(chosen.id, x), [x1, y1] = place(id, x);
    g.beginPath();
    g.moveTo(x0, y0);
    g.lineTo(x1, y1);
    g.setLineDash([3, 3]);
    g.strokeStyle = theme.accent;
    g.lineWidth = 1.4;
    g.stroke();
    g.setLineDash([]);
    mark(g, id, x1, y1, 4);
    hits.push({ x: x1, y: y1, r: 8, id });
  }
}
