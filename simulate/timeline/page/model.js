// The run as it is: what the page's data says, and what follows from it.

const byID = name => document.getElementById(name);
const data = JSON.parse(byID("data").textContent);
const M = Object.fromEntries(data.fields.map((name, i) => [name, data.moments.map(row => row[i])]));
const count = M.kind.length;
const hosts = data.hosts;

// Kinds by name, as numbers: K.held. "hold ended" is K.holdended.
const K = {};
data.kinds.forEach((name, i) => { K[name.replace(" ", "")] = i + 1; });

const LEADER = 0, CANDIDATE = 1, LEARNER = 3; // roles that look like something
const classNames = ["other", "locks", "leases", "log", "elections", "members"];

const text = place => data.texts[place];

// at[id] is when a moment happened, in nanoseconds; IDs count from 1.
const at = new Float64Array(count + 1);
for (let id = 1; id <= count; id++) at[id] = at[id - 1] + data.waits[id - 1];
const END = data.end;
const OPEN = END * 1.02; // where things end that have no end

const kindOf = id => M.kind[id - 1];
const hostOf = id => M.host[id - 1];
const says = id => text(M.says[id - 1]);
const keyOf = id => M.key[id - 1];
const shardOf = id => M.shard[id - 1];
const tokenOf = id => text(M.token[id - 1]);
const isFrame = id => kindOf(id) <= K.lost;
const because = id => M.cause[id - 1] || M.link[id - 1];
const hostName = lane => lane < 0 ? "the lab" : hosts[lane];

// firstAfter is the number of the first of n sorted things whose value is above t.
function firstAfter(n, value, t) {
  let low = 0, high = n;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (value(mid) > t) high = mid; else low = mid + 1;
  }
  return low;
}

// Spans are things that last, sorted by when they begin. For a window of time, visit
// finds those in it without looking at all: of each block it knows the latest end.
class Spans {
  constructor(items) { // each with from and to
    this.items = items;
    this.latest = [];
    items.forEach((item, i) => {
      const block = i >> 6;
      this.latest[block] = Math.max(this.latest[block] ?? -Infinity, item.to);
    });
  }
  visit(t0, t1, see) {
    const end = firstAfter(this.items.length, i => this.items[i].from, t1);
    for (let block = 0; block << 6 < end; block++) {
      if (this.latest[block] < t0) continue;
      const last = Math.min(end, (block + 1) << 6);
      for (let i = block << 6; i < last; i++) {
        if (this.items[i].to >= t0) see(this.items[i]);
      }
    }
  }
}

// chain lists what led to a moment, the first of it first, and the moment last.
function chain(id) {
  const list = [];
  for (let i = id; i > 0; i = because(i)) list.push(i);
  return list.reverse();
}

// children[first[id]] up to children[first[id + 1]] are the moments that id led to.
const first = new Int32Array(count + 2);
const children = new Int32Array(count);
for (let id = 1; id <= count; id++) first[because(id) + 1]++;
for (let id = 1; id < first.length; id++) first[id] += first[id - 1];
{
  const next = first.slice();
  for (let id = 1; id <= count; id++) children[next[because(id)]++] = id;
}
const effects = (id, most = Infinity) =>
  Array.from(children.subarray(first[id], Math.min(first[id + 1], first[id] + most)));

// Frames: from the sending to what came of it. Those of which nothing is known stay open.
const frames = [];
{
  const over = new Uint8Array(count + 1);
  for (let id = 1; id <= count; id++) {
    const kind = kindOf(id);
    if (kind !== K.arrived && kind !== K.lost) continue;
    const sent = M.link[id - 1] || id;
    over[sent] = 1;
    frames.push({
      id: sent, end: id, from: at[sent], to: at[id], lost: kind === K.lost,
      a: sent === id ? M.peer[id - 1] : hostOf(sent), b: hostOf(id), kind: M.class[sent - 1],
    });
  }
  for (let id = 1; id <= count; id++) {
    if (kindOf(id) === K.sent && !over[id]) {
      frames.push({ id, end: 0, from: at[id], to: at[id], lost: false, a: hostOf(id), b: M.peer[id - 1], kind: M.class[id - 1] });
    }
  }
  frames.sort((f, g) => f.from - g.from || f.id - g.id);
}
const frameSpans = new Spans(frames);

// Faults, and the lanes that they concern: none means all.
const faults = data.faults.map(([begin, end, ...lanes]) => ({
  id: begin, end, from: at[begin], to: end ? at[end] : OPEN, lanes, label: says(begin),
}));
// How many rows they need, of those that end.
let faultRows = faults.length ? 1 : 0;
{
  const free = []; // when each row is free again
  for (const f of faults) {
    let row = free.findIndex(t => t <= f.from);
    if (row < 0) row = free.length;
    free[row] = f.end ? Math.max(f.to, f.from + END / 100) : f.from + END / 30;
    faultRows = Math.max(faultRows, row + 1);
  }
}
const faultSpans = new Spans(faults);

// What a host's process did not do: run.
const halts = [];
// By shard, and by host, the roles of replicas.
const roles = new Map();
{
  const down = hosts.map(() => null), paused = hosts.map(() => null), role = new Map();
  const begin = (open, lane, item) => { if (!open[lane]) halts.push(open[lane] = item); };
  const finish = (open, lane, id) => {
    if (open[lane]) open[lane].to = at[id];
    open[lane] = null;
  };
  for (let id = 1; id <= count; id++) {
    const lane = hostOf(id), kind = kindOf(id);
    if (lane < 0) continue;
    if (kind === K.down) {
      finish(paused, lane, id);
      begin(down, lane, { id, lane, from: at[id], to: OPEN, paused: false });
      for (const of of role.values()) {
        if (of[lane]) of[lane].to = at[id];
        of[lane] = null;
      }
    } else if (kind === K.up) {
      finish(down, lane, id);
    } else if (kind === K.paused) {
      begin(paused, lane, { id, lane, from: at[id], to: OPEN, paused: true });
    } else if (kind === K.resumed) {
      finish(paused, lane, id);
    } else if (kind === K.role) {
      const shard = shardOf(id);
      if (!roles.has(shard)) { roles.set(shard, []); role.set(shard, []); }
      const of = role.get(shard);
      if (of[lane]) of[lane].to = at[id];
      of[lane] = { id, lane, from: at[id], to: END, role: M.value[id - 1], term: text(M.term[id - 1]) };
      roles.get(shard).push(of[lane]);
    }
  }
}
const haltSpans = new Spans(halts);
const shards = [...roles.keys()].sort((a, b) => a - b);
const roleSpans = new Map(shards.map(shard => [shard, new Spans(roles.get(shard))]));

// How many shards each host leads, as steps.
const leads = hosts.map(() => []);
for (const shard of shards) {
  for (const r of roles.get(shard)) {
    if (r.role === LEADER) leads[r.lane].push([r.from, 1], [r.to, -1]);
  }
}
const leadSpans = new Spans(leads.flatMap((steps, lane) => {
  steps.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const spans = [];
  let sum = 0;
  steps.forEach(([t, step], i) => {
    sum += step;
    const to = i + 1 < steps.length ? steps[i + 1][0] : END;
    if (sum > 0 && to > t) spans.push({ lane, from: t, to, leads: sum });
  });
  return spans;
}).sort((a, b) => a.from - b.from));

// Keys: their holds, and how many wait.
const keys = [];
const keyByPlace = new Map();
function key(place) {
  let k = keyByPlace.get(place);
  if (!k) {
    k = { place, name: text(place), holds: [], depths: [], slots: 1, most: 0 };
    keyByPlace.set(place, k);
    keys.push(k);
  }
  return k;
}
const holdOf = new Map(); // by the ID of the moment that began it
for (const [begin, end, slot] of data.holds) {
  const k = key(keyOf(begin));
  const hold = {
    id: begin, end, from: at[begin], to: end ? at[end] : OPEN, slot, key: k,
    lane: hostOf(begin), token: tokenOf(begin), lost: end > 0 && kindOf(end) === K.holdended,
  };
  k.holds.push(hold);
  k.slots = Math.max(k.slots, slot + 1);
  holdOf.set(begin, hold);
}
for (let id = 1; id <= count; id++) {
  if (kindOf(id) !== K.depth) continue;
  const k = key(keyOf(id));
  k.depths.push({ t: at[id], waiting: M.value[id - 1] });
  k.most = Math.max(k.most, M.value[id - 1]);
}
for (const k of keys) k.spans = new Spans(k.holds);
const violation = data.violation[0];
const verdicts = data.verdicts;
// The holds that the violation is about, and from when to when all of them lasted.
let wrong = null;
if (data.violation.length > 1) {
  const holds = data.violation.slice(1).map(id => holdOf.get(id));
  wrong = { holds, key: holds[0].key, from: Math.max(...holds.map(h => h.from)), to: Math.min(...holds.map(h => h.to)) };
  wrong.together = data.atOnce && holds.length > 1 && wrong.from < wrong.to;
}

// Tokens are long, and begin alike: their ends say enough beside a bar.
const alike = data.holds.map(([id]) => tokenOf(id)).reduce((same, token) => {
  let n = 0;
  while (n < same.length && same[n] === token[n]) n++;
  return same.slice(0, n);
}, data.holds.length ? tokenOf(data.holds[0][0]) : "");
const shortToken = token => token.length > 8 && alike.length > 3 ? "…" + token.slice(Math.min(alike.length, token.length - 4)) : token;
// The keys that the violation names come first.
for (const k of keys) k.named = wrong ? wrong.key === k : violation > 0 && says(violation).includes(k.name);
keys.sort((a, b) => b.named - a.named || b.holds.length - a.holds.length || (a.name < b.name ? -1 : 1));

// about[id] is the key that a moment, or what led to it, is about.
const about = new Int32Array(count + 1);
for (let id = 1; id <= count; id++) about[id] = keyOf(id) || about[because(id)];

// A time with as many digits as a step of that size needs.
function clock(t, step = 1e3) {
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / 1e9))));
  return (t / 1e9).toFixed(digits) + " s";
}

function lasting(t) {
  for (const [size, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (t >= size) return Number((t / size).toPrecision(4)) + " " + name;
  }
  return t + " ns";
}
