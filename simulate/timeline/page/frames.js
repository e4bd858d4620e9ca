// The frames between the lanes: arrows, or how many there are.

function drawFrames(g, x, width, seen) {
  const visible = [], chained = [];
  frameSpans.visit(view.t0, view.t1, f => {
    if (shown[f.id] || f.end && shown[f.end]) visible.push(f);
    if (chosen.inChain[f.end]) chained.push(f);
  });
  named = visible.length <= mostNamed ? [...chained, ...visible.filter(f => !chosen.inChain[f.end])] : chained.length <= mostNamed ? chained : [];
  stats.arrows = visible.length;
  if (visible.length > manyArrows) {
    drawDensity(g, x, width, visible, seen);
    return true;
  }
  const alpha = g.globalAlpha * (visible.length > 300 ? .55 : 1);
  for (let kind = 0; kind < classNames.length; kind++) {
    for (const lost of [false, true]) {
      g.beginPath();
      const heads = [];
      for (const f of visible) {
        if (f.kind !== kind || f.lost !== lost || f.a < 0 || f.b < 0 || chosen.inChain[f.id] && chosen.inChain[f.end]) continue;
        const [x0, y0, toX, toY] = ends(f, x), part = lost ? GONE : 1;
        const x1 = x0 + (toX - x0) * part, y1 = y0 + (toY - y0) * part;
        g.moveTo(x0, y0);
        g.lineTo(x1, y1);
        heads.push([x0, y0, x1, y1, f]);
        hits.push({ line: true, x0, y0, x1, y1, id: f.end || f.id });
      }
      if (heads.length === 0) continue;
      g.globalAlpha = alpha * .85;
      g.strokeStyle = lost ? theme.alarm : classColour(kind);
      g.lineWidth = lost ? 1.4 : 1.2;
      g.setLineDash(classDash[kind]);
      g.stroke();
      g.setLineDash([]);
      g.beginPath();
      for (const [x0, y0, x1, y1, f] of heads) {
        if (lost) shapes.cross(g, x1, y1, 4);
        else if (f.end) head(g, x0, y0, x1, y1);
      }
      g.globalAlpha = alpha;
      g.fillStyle = g.strokeStyle;
      if (lost) { g.lineWidth = 2; g.stroke(); } else g.fill();
    }
  }
  g.globalAlpha = chosen.id ? .32 : 1;
  return false;
}

// nameFrames names the frames, those of the chain first.
function nameFrames(g, x) {
  g.font = font(10);
  g.textBaseline = "middle";
  const taken = written.slice();
  stats.names = [];
  for (const f of named) {
    g.globalAlpha = chosen.inChain[f.end] || !chosen.id ? 1 : .32;
    nameFrame(g, f, x, taken);
  }
  g.globalAlpha = 1;
}

// nameFrame writes what is in a frame along it, where nothing is written yet.
function nameFrame(g, f, x, taken) {
  const words = says(f.id).replace(/^-> \S+ ?/, "");
  const [x0, y0, x1, y1] = ends(f, x);
  if (!words || Math.abs(y1 - y0) < 30) return;
  const wide = Math.min(150, g.measureText(words).width);
  for (const s of [.3, .5, .7]) {
    const at = { x: x0 + (x1 - x0) * s + 5, y: y0 + (y1 - y0) * s };
    const box = [at.x, at.y - 7, at.x + wide + 6, at.y + 7];
    if (taken.some(b => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
    taken.push(box);
    stats.names.push(f.id);
    label(g, words, at.x, at.y, f.lost ? theme.alarm : classColour(f.kind), 150);
    return;
  }
}

function ends(f, x) {
  const y0 = lineOf(f.a), y1 = lineOf(f.b);
  return [x(f.from), y0, f.end ? x(f.to) : x(f.from) + 6, f.end ? y1 : y0 + Math.sign(y1 - y0) * 10];
}

function head(g, x0, y0, x1, y1) {
  const far = Math.hypot(x1 - x0, y1 - y0) || 1;
  const ux = (x1 - x0) / far, uy = (y1 - y0) / far, size = 6;
  g.moveTo(x1, y1);
  g.lineTo(x1 - ux * size - uy * 2.6, y1 - uy * size + ux * 2.6);
  g.lineTo(x1 - ux * size + uy * 2.6, y1 - uy * size - ux * 2.6);
  g.closePath();
}

function drawDensity(g, x, width, visible, seen) {
  const cell = 3, cells = Math.ceil((width - GUTTER) / cell) + 1;
  const sums = new Map(); // by lane: all, lost
  for (const f of visible) {
    const lane = f.lost ? f.b : f.a;
    const i = Math.floor((x(f.from) - GUTTER) / cell);
    if (!seen(lane) || i < 0 || i >= cells) continue;
    let s = sums.get(lane);
    if (!s) sums.set(lane, s = { all: new Int32Array(cells), lost: new Int32Array(cells) });
    s.all[i]++;
    if (f.lost) s.lost[i]++;
  }
  let most = 1;
  for (const s of sums.values()) for (const n of s.all) most = Math.max(most, n);
  const tall = layout.lane * .5;
  const size = n => n ? Math.max(1.5, tall * Math.log1p(n) / Math.log1p(most)) : 0;
  for (const [lane, s] of sums) {
    const y = lineOf(lane);
    for (let i = 0; i < cells; i++) {
      if (!s.all[i]) continue;
      const h = size(s.all[i]), lost = h * s.lost[i] / s.all[i];
      g.fillStyle = theme.faint;
      g.fillRect(GUTTER + i * cell, y - h / 2, cell - .6, h);
      if (!s.lost[i]) continue;
      g.fillStyle = theme.alarm;
      g.fillRect(GUTTER + i * cell, y - Math.max(2, lost) / 2, cell - .6, Math.max(2, lost));
    }
  }
}
