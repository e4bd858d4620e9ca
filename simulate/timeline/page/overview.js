// The whole run in one strip: how much happened, faults, violations, and what part of
// it the picture shows.

const overviewSheet = new Sheet("overview");
let strip = null; // the strip without the window, for this size, theme and filter
const FAULTS = 10;

function drawOverview() {
  const g = overviewSheet.fit();
  const { width, height } = overviewSheet;
  const name = [width, height, window.devicePixelRatio, theme.bg, order.length, filter.key, filter.host, filter.shard].join();
  if (strip?.name !== name) strip = makeStrip(name, width, height);
  g.drawImage(strip.canvas, 0, 0, width, height);
  const x = t => GUTTER + t / END * (width - GUTTER - 1);
  const x0 = Math.max(GUTTER, x(view.t0)), x1 = Math.min(width, Math.max(x0 + 2, x(view.t1)));
  g.fillStyle = theme.bg;
  g.globalAlpha = .62;
  g.fillRect(GUTTER, 0, x0 - GUTTER, height);
  g.fillRect(x1, 0, width - x1, height);
  g.globalAlpha = 1;
  g.strokeStyle = theme.accent;
  g.lineWidth = 1.5;
  g.strokeRect(x0 + .75, .75, Math.max(1, x1 - x0 - 1.5), height - 1.5);
  for (const id of verdicts) {
    g.fillStyle = theme.alarm;
    g.fillRect(x(at[id]) - 1, 0, 2, height);
    g.beginPath();
    shapes.down(g, x(at[id]), 5, 5);
    g.fill();
  }
  if (chosen.id) {
    g.fillStyle = theme.accent;
    g.beginPath();
    shapes.up(g, x(at[chosen.id]), height - 5, 5);
    g.fill();
  }
}

function makeStrip(name, width, height) {
  const canvas = document.createElement("canvas");
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  g.fillStyle = theme.lane;
  g.fillRect(GUTTER, 0, width - GUTTER, height);
  const cells = Math.max(1, Math.floor((width - GUTTER) / 2));
  const cell = t => Math.min(cells - 1, Math.floor(t / END * cells));
  const sums = new Int32Array(cells), lost = new Int32Array(cells), fault = new Int32Array(cells + 1);
  for (const id of order) {
    sums[cell(at[id])]++;
    if (kindOf(id) === K.lost || kindOf(id) === K.holdended || kindOf(id) === K.refused) lost[cell(at[id])]++;
  }
  for (const f of faults) {
    fault[cell(f.from)]++;
    fault[cell(f.to) + 1]--;
  }
  const most = sums.reduce((a, b) => Math.max(a, b), 1);
  let open = 0, mostOpen = 1; // faults at a time
  for (const step of fault) mostOpen = Math.max(mostOpen, open += step);
  open = 0;
  const tall = height - FAULTS - 4;
  for (let i = 0; i < cells; i++) {
    const x = GUTTER + i * 2;
    open += fault[i];
    if (open) {
      g.globalAlpha = .25 + .75 * open / mostOpen;
      g.fillStyle = theme.fault;
      g.fillRect(x, 1, 2, FAULTS - 1);
      g.globalAlpha = 1;
    }
    const h = sums[i] ? Math.max(1.5, tall * Math.sqrt(sums[i] / most)) : 0;
    g.fillStyle = theme.faint;
    g.fillRect(x, height - h, 1.5, h);
    if (lost[i]) {
      g.fillStyle = theme.alarm;
      g.fillRect(x, height - Math.max(2, h * lost[i] / sums[i]), 1.5, Math.max(2, h * lost[i] / sums[i]));
    }
  }
  g.font = font(11);
  g.textBaseline = "middle";
  label(g, "whole run", 12, height / 2, theme.muted, GUTTER, null);
  return { name, canvas };
}
