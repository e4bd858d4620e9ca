// How things look: colours, shapes and patterns. What a colour says, a shape says too.

const theme = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "lane", "lane2", "line", "ink", "muted", "faint", "accent", "alarm", "warn", "fault",
    "c0", "c1", "c2", "c3", "c4", "c5", "h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "leader", "candidate", "learner", "halo"]) {
    theme[name] = style.getPropertyValue("--" + name).trim();
  }
  theme.hatch = {};
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const font = (size, weight = 400) => `${weight} ${size}px ${FONT}`;

const classDash = [[], [], [2, 3], [6, 3], [8, 3, 2, 3], [1, 3]];
const classColour = kind => theme["c" + kind];
const hostColour = lane => theme["h" + (lane < 0 ? 0 : lane % 8)];

// hatch is a pattern of slanted (or, for steps of 0, upright) lines.
function hatch(g, colour, slant = 1) {
  const name = colour + slant;
  if (theme.hatch[name]) return theme.hatch[name];
  const tile = document.createElement("canvas");
  const size = tile.width = tile.height = 8;
  const p = tile.getContext("2d");
  p.strokeStyle = colour;
  p.lineWidth = 1.5;
  for (const x of [-size, 0, size]) {
    p.beginPath();
    p.moveTo(x + (slant ? 0 : size / 2), slant < 0 ? 0 : size);
    p.lineTo(x + (slant ? size : size / 2), slant < 0 ? size : 0);
    p.stroke();
  }
  return theme.hatch[name] = g.createPattern(tile, "repeat");
}

// Shapes by kind: how they are drawn in a square of 2r around x, y.
const shapes = {
  circle(g, x, y, r) { g.arc(x, y, r, 0, 7); },
  square(g, x, y, r) { g.rect(x - r * .85, y - r * .85, r * 1.7, r * 1.7); },
  diamond(g, x, y, r) { poly(g, x, y, r * 1.15, [0, -1, 1, 0, 0, 1, -1, 0]); },
  up(g, x, y, r) { poly(g, x, y, r, [0, -1, 1, .8, -1, .8]); },
  down(g, x, y, r) { poly(g, x, y, r, [0, 1, 1, -.8, -1, -.8]); },
  right(g, x, y, r) { poly(g, x, y, r, [1, 0, -.8, 1, -.8, -1]); },
  cross(g, x, y, r) { g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x + r, y - r); g.lineTo(x - r, y + r); },
  bars(g, x, y, r) { g.rect(x - r * .8, y - r, r * .55, r * 2); g.rect(x + r * .25, y - r, r * .55, r * 2); },
  star(g, x, y, r) {
    const p = [];
    for (let i = 0; i < 10; i++) {
      const s = i % 2 ? .45 : 1.2;
      p.push(s * Math.sin(i * Math.PI / 5), -s * Math.cos(i * Math.PI / 5));
    }
    poly(g, x, y, r, p);
  },
  hexagon(g, x, y, r) { poly(g, x, y, r * 1.1, [1, 0, .5, .87, -.5, .87, -1, 0, -.5, -.87, .5, -.87]); },
  note(g, x, y, r) { poly(g, x, y, r, [-1, -.9, 1, -.9, 1, .5, 0, .5, -.5, 1, -.5, .5, -1, .5]); },
  dot(g, x, y, r) { g.arc(x, y, r * .45, 0, 7); },
  bolt(g, x, y, r) { poly(g, x, y, r * 1.15, [.2, -1, -.7, .2, 0, .2, -.2, 1, .7, -.2, 0, -.2]); },
  flag(g, x, y, r) { poly(g, x, y, r, [-.8, -1, 1, -.45, -.5, .1, -.5, 1, -.8, 1]); },
};

function poly(g, x, y, r, points) {
  for (let i = 0; i < points.length; i += 2) g[i ? "lineTo" : "moveTo"](x + r * points[i], y + r * points[i + 1]);
  g.closePath();
}

const marks = {
  [K.sent]: ["dot", "c0"], [K.arrived]: ["dot", "c0"], [K.lost]: ["cross", "alarm", "open"],
  [K.fault]: ["bolt", "fault"], [K.ended]: ["bolt", "fault", "open"], [K.struck]: ["bolt", "warn"],
  [K.up]: ["up", "ink"], [K.down]: ["down", "ink"], [K.paused]: ["bars", "ink"], [K.resumed]: ["right", "ink"],
  [K.role]: ["flag", "leader"], [K.news]: ["dot", "c5"],
  [K.called]: ["circle", "c1", "open"], [K.refused]: ["square", "warn", "open"],
  [K.held]: ["circle", "c1"], [K.holdended]: ["diamond", "alarm"], [K.unlocked]: ["diamond", "c1", "open"],
  [K.depth]: ["dot", "muted"], [K.note]: ["note", "muted"], [K.property]: ["star", "accent"],
  [K.site]: ["hexagon", "c4", "open"], [K.failure]: ["star", "alarm"],
};

function mark(g, id, x, y, r) {
  const kind = kindOf(id), [shape, colour, open] = marks[kind];
  const own = isFrame(id) && kind !== K.lost ? "c" + M.class[id - 1] : colour;
  glyph(g, shape, theme[own], open, x, y, r);
}

function glyph(g, shape, colour, open, x, y, r) {
  g.beginPath();
  shapes[shape](g, x, y, r);
  if (open) {
    if (shape !== "cross") { g.fillStyle = theme.bg; g.fill(); }
    g.strokeStyle = colour;
    g.lineWidth = 1.7;
    g.stroke();
  } else {
    g.fillStyle = colour;
    g.fill();
  }
}

// label writes text with a halo, cut to a width, and returns how wide it is.
function label(g, words, x, y, colour, most = Infinity, back = theme.halo) {
  const cut = fitted(g, words, most);
  if (!cut) return 0;
  if (back) {
    g.lineWidth = 3;
    g.lineJoin = "round";
    g.strokeStyle = back;
    g.strokeText(cut, x, y);
  }
  g.fillStyle = colour;
  g.fillText(cut, x, y);
  return g.measureText(cut).width;
}

function fitted(g, words, most) {
  const newline = words.indexOf("\n");
  if (newline >= 0) words = words.slice(0, newline) + " …";
  if (words.length > 200) words = words.slice(0, 200) + "…";
  if (most === Infinity || g.measureText(words).width <= most) return words;
  let low = 0, high = words.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (g.measureText(words.slice(0, mid) + "…").width <= most) low = mid; else high = mid - 1;
  }
  return low > 1 ? words.slice(0, low) + "…" : "";
}

// A canvas that is as sharp as the screen. Sizes are in the page's pixels.
class Sheet {
  constructor(name) {
    this.canvas = byID(name);
    this.g = this.canvas.getContext("2d");
    this.width = this.height = 0;
  }
  fit() {
    const scale = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const w = Math.round(width * scale), h = Math.round(height * scale);
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.width = width;
    this.height = height;
    this.g.setTransform(scale, 0, 0, scale, 0, 0);
    this.g.clearRect(0, 0, width, height);
    return this.g;
  }
}
