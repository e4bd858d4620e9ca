// Who holds which key, and how many wait: a row for each key.

const locksSheet = new Sheet("locks");
const SLOT = 18, QUEUE = 14, PAD = 4;
const maxSlots = 8;
let lockHits = [];

const rowHeight = k => PAD * 2 + Math.min(k.slots, maxSlots) * SLOT + (k.most ? QUEUE : 0);

// locksHeight is how much of the picture the rows get.
function locksHeight(room) {
  const wanted = shownKeys().reduce((sum, k) => sum + rowHeight(k), 0) + 2;
  return Math.min(wanted, Math.max(90, room * (hosts.length > 10 ? .28 : .4)));
}

function drawLocks() {
  const g = locksSheet.fit();
  const { width, height } = locksSheet;
  lockHits = [];
  const x = t => clampX(xOf(t, width));
  const rows = shownKeys();
  const content = rows.reduce((sum, k) => sum + rowHeight(k), 0) + 2;
  view.lockTop = Math.max(0, Math.min(view.lockTop, content - height));
  let y = -view.lockTop;
  for (let i = 0; i < rows.length && y < height; i++) {
    const tall = rowHeight(rows[i]);
    if (y + tall > 0) {
      g.fillStyle = i % 2 ? theme.lane2 : theme.lane;
      g.fillRect(0, y, width, tall);
      g.save();
      g.beginPath();
      g.rect(GUTTER, y, width - GUTTER, tall);
      g.clip();
      drawQueue(g, x, rows[i], y + tall - PAD, width);
      drawHolds(g, x, rows[i], y + PAD, width);
      drawWrongHolds(g, x, rows[i], y + PAD, width);
      g.restore();
      drawKey(g, rows[i], y, tall);
    }
    y += tall;
  }
  g.fillStyle = theme.line;
  g.fillRect(GUTTER - 1, 0, 1, height);
  for (const id of verdicts) {
    if (at[id] < view.t0 || at[id] > view.t1) continue;
    g.fillStyle = theme.alarm;
    g.fillRect(x(at[id]) - 1, 0, 2, height);
  }
}

function drawKey(g, k, y, tall) {
  g.fillStyle = theme.bg;
  g.fillRect(0, y, GUTTER, tall);
  g.font = font(12, filter.key === k.place ? 700 : 600);
  g.textBaseline = "middle";
  const colour = k.named ? theme.alarm : filter.key === k.place ? theme.accent : theme.ink;
  label(g, k.name.slice(1, -1), 12, y + PAD + SLOT / 2, colour, GUTTER - 18, null);
  if (k.most) {
    g.font = font(10);
    label(g, `up to ${k.most} wait`, 12, y + tall - PAD - QUEUE / 2, theme.muted, GUTTER - 18, null);
  }
  g.fillStyle = theme.line;
  g.fillRect(0, y + tall - 1, GUTTER, 1);
  lockHits.push({ box: true, x0: 0, y0: y, x1: GUTTER, y1: y + tall, key: k.place });
}

function drawHolds(g, x, k, top, width) {
  g.font = font(11, 500);
  g.textBaseline = "middle";
  const last = []; // by slot: where the last bar ended
  k.spans.visit(view.t0, view.t1, h => {
    const slot = Math.min(h.slot, maxSlots - 1);
    const x0 = x(h.from);
    let x1 = x(h.to);
    if (x1 - (last[slot] ?? -99) < .7) return;
    x1 = Math.max(x1, x0 + 1.5);
    last[slot] = x1;
    const left = Math.max(GUTTER, x0), y = top + slot * SLOT, tall = SLOT - 3;
    const dim = filter.host >= 0 && filter.host !== h.lane ? .25 : 1;
    const colour = hostColour(h.lane);
    g.globalAlpha = .26 * dim;
    g.fillStyle = colour;
    g.fillRect(left, y, x1 - left, tall);
    g.globalAlpha = dim;
    g.fillRect(x0, y, Math.min(3, x1 - x0), tall);
    if (x1 - x0 > 6) {
      g.strokeStyle = colour;
      g.lineWidth = 1;
      g.setLineDash(h.end ? [] : [4, 3]);
      g.strokeRect(x0 + .5, y + .5, x1 - x0 - 1, tall - 1);
      g.setLineDash([]);
      if (h.lost && x1 < width + 20) {
        g.beginPath();
        shapes.cross(g, x1 - 1, y + tall / 2, 4.5);
        g.strokeStyle = theme.alarm;
        g.lineWidth = 2.2;
        g.stroke();
      }
    }
    const room = Math.min(x1, width) - left - 10 - (h.lost ? 6 : 0);
    if (room > 14) label(g, `${shortToken(h.token)} · ${hostName(h.lane)}`, left + 6, y + tall / 2 + .5, theme.ink, room, null);
    if (chosen.inChain[h.id] || chosen.id && chosen.id === h.end || isFind[h.id]) {
      g.strokeStyle = chosen.inChain[h.id] || chosen.id === h.end ? theme.accent : theme.warn;
      g.lineWidth = 2;
      g.strokeRect(x0, y - .5, x1 - x0, tall + 1);
    }
    g.globalAlpha = 1;
    lockHits.push({ box: true, x0: left, y0: y, x1: Math.max(x1, left + 4), y1: y + tall, id: h.id });
  });
}

// drawWrongHolds marks the holds that the violation is about.
function drawWrongHolds(g, x, k, top, width) {
  if (wrong?.key !== k) return;
  g.strokeStyle = theme.alarm;
  g.lineWidth = 2;
  for (const h of wrong.holds) {
    const x0 = x(h.from);
    g.strokeRect(x0, top + Math.min(h.slot, maxSlots - 1) * SLOT - 1, Math.max(2, x(h.to) - x0), SLOT - 1);
  }
  if (!wrong.together) return;
  const x0 = x(wrong.from), x1 = Math.max(x0 + 2, x(wrong.to));
  if (x1 < GUTTER || x0 > width) return;
  const tall = Math.min(k.slots, maxSlots) * SLOT - 3;
  g.globalAlpha = .55;
  g.fillStyle = hatch(g, theme.alarm, -1);
  g.fillRect(x0, top, x1 - x0, tall);
  g.globalAlpha = 1;
  g.font = font(11, 700);
  g.textBaseline = "middle";
  const words = `tokens ${wrong.holds.map(h => shortToken(h.token)).join(" and ")} at once`;
  const wide = g.measureText(words).width + 12, seen = Math.min(x1, width);
  const left = Math.max(GUTTER, seen - x0 > wide + 90 ? seen - wide - 10 : x1 + 6 + wide > width ? x0 - 6 - wide : x1 + 6);
  g.fillStyle = theme.alarm;
  g.fillRect(left, top + tall / 2 - 9, wide, 18);
  label(g, words, left + 6, top + tall / 2 + .5, theme.bg, Infinity, null);
}

function drawQueue(g, x, k, bottom, width) {
  if (!k.most) return;
  const d = k.depths, size = n => n ? 2 + (QUEUE - 4) * n / k.most : 0;
  let i = Math.max(0, firstAfter(d.length, n => d[n].t, view.t0) - 1);
  g.font = font(9.5);
  g.textBaseline = "alphabetic";
  for (; i < d.length && d[i].t <= view.t1; i++) {
    const x0 = Math.max(GUTTER, x(d[i].t)), x1 = Math.min(width, x(i + 1 < d.length ? d[i + 1].t : END));
    if (!d[i].waiting) continue;
    g.globalAlpha = .45;
    g.fillStyle = theme.muted;
    g.fillRect(x0, bottom - size(d[i].waiting), Math.max(1, x1 - x0), size(d[i].waiting));
    g.globalAlpha = 1;
    if (x1 - x0 > 50) label(g, `${d[i].waiting} wait`, x0 + 4, bottom - 2, theme.ink, x1 - x0 - 6);
  }
}
