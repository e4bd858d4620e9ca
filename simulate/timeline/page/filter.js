// What is shown: groups of kinds, a key, a shard, a host.

const groups = [
  { name: "messages", kinds: [K.sent, K.arrived, K.lost], small: 0 },
  { name: "routine", kinds: [K.sent, K.arrived, K.lost], small: 1, title: "heartbeats, renewals, raft's appends, gossip" },
  { name: "calls", kinds: [K.called, K.refused] },
  { name: "holds", kinds: [K.held, K.holdended, K.unlocked] },
  { name: "roles", kinds: [K.role] },
  { name: "faults", kinds: [K.fault, K.ended, K.struck] },
  { name: "processes", kinds: [K.up, K.down, K.paused, K.resumed] },
  { name: "gossip", kinds: [K.news] },
  { name: "queues", kinds: [K.depth] },
  { name: "notes", kinds: [K.note], log: 0 },
  { name: "logs", kinds: [K.note], log: 1, title: "what hosts log, rather than their actors" },
  { name: "sites", kinds: [K.site], title: "fault points in the code that were taken" },
];
const manyRoutine = 400, manyLogs = 60, manySites = 60; // more routine frames, logs and sites than this are hidden at first

// groupOf[id] is the place of a moment's group; verdicts have none, and always show.
const groupOf = new Int8Array(count + 1).fill(-1);
{
  const place = {};
  groups.forEach((g, i) => {
    g.count = 0;
    g.on = true;
    for (const kind of g.kinds) place[kind * 2 + (g.small ?? g.log ?? 0)] = i;
  });
  for (let id = 1; id <= count; id++) {
    const other = kindOf(id) === K.note ? !M.actor[id - 1] : M.small[id - 1];
    groupOf[id] = place[kindOf(id) * 2 + Number(other)] ?? -1;
    if (groupOf[id] >= 0) groups[groupOf[id]].count++;
  }
  groups[1].on = groups[1].count <= manyRoutine;
  for (const g of groups) {
    if (g.log) g.on = g.count <= manyLogs;
    if (g.kinds[0] === K.site) g.on = g.count <= manySites;
  }
}

const filter = { key: 0, shard: -1, host: -1, search: "" };
const shown = new Uint8Array(count + 1); // 1: passes the filter
let order = new Int32Array(0);           // the IDs of what is shown
let finds = [];                          // the IDs of what the search finds in it
const isFind = new Uint8Array(count + 1);

// What frames everything else is shown whatever the key.
const scene = new Set([K.fault, K.ended, K.struck, K.up, K.down, K.paused, K.resumed, K.role, K.note, K.property, K.site, K.failure]);

function passes(id) {
  const group = groupOf[id];
  if (group >= 0 && !groups[group].on) return false;
  const kind = kindOf(id);
  if (filter.shard >= 0 && shardOf(id) >= 0 && shardOf(id) !== filter.shard) return false;
  if (filter.host >= 0 && hostOf(id) !== filter.host && M.peer[id - 1] !== filter.host &&
    !(hostOf(id) < 0 && group !== 0)) return false;
  if (filter.key) {
    if (keyOf(id) ? keyOf(id) !== filter.key : about[id] !== filter.key && !scene.has(kind)) return false;
  }
  return true;
}

function applyFilter() {
  const ids = [];
  for (let id = 1; id <= count; id++) {
    shown[id] = passes(id) ? 1 : 0;
    if (shown[id]) ids.push(id);
  }
  order = Int32Array.from(ids);
  applySearch();
}

function applySearch() {
  const words = filter.search.toLowerCase().split(/\s+/).filter(Boolean);
  isFind.fill(0);
  finds = [];
  if (words.length === 0) return;
  const said = new Map(); // by place, whether the text alone has all words
  for (const id of order) {
    const where = `${hostName(hostOf(id))} ${text(M.actor[id - 1])} ${data.kinds[kindOf(id) - 1]} #${id}`.toLowerCase();
    const place = M.says[id - 1];
    let lower = said.get(place);
    if (lower === undefined) said.set(place, lower = says(id).toLowerCase());
    if (words.every(word => lower.includes(word) || where.includes(word))) {
      finds.push(id);
      isFind[id] = 1;
    }
  }
}

// shownKeys lists the keys whose bars are drawn.
const shownKeys = () => keys.filter(k => (!filter.key || k.place === filter.key) &&
  (filter.shard < 0 || k.holds.length === 0 || shardOf(k.holds[0].id) < 0 || shardOf(k.holds[0].id) === filter.shard));

// beside is the next shown moment before (-1) or after (+1) a moment, or before or after
// a time if there is none; 0 if there is no more.
function beside(id, step, t) {
  let i;
  if (id) {
    i = firstAfter(order.length, n => order[n], step > 0 ? id : id - 1);
  } else {
    i = firstAfter(order.length, n => at[order[n]], t);
  }
  return order[step > 0 ? i : i - 1] ?? 0;
}
