// The panel: what matters in the run, or all about the chosen moment. It makes its
// contents from texts, never from markup.

const panel = byID("panel");

// el makes an element. Its children are elements or texts.
function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (k === "click") e.addEventListener("click", v);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v !== undefined) e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

// icon is a moment's mark, as in the picture.
function icon(id) {
  const canvas = el("canvas", { class: "icon", "aria-hidden": "true" });
  const scale = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.round(16 * scale);
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  mark(g, id, 8, 8, isFrame(id) && kindOf(id) !== K.lost ? 6 : 5);
  return canvas;
}

// item is a line of a list: a moment to go to.
function item(id, since) {
  const after = at[id] - since;
  const when = since === undefined ? clock(at[id], 1e3) : after === 0 ? "same time" : (after < 0 ? "−" : "+") + lasting(Math.abs(after));
  const who = hostOf(id) < 0 ? "" : hostName(hostOf(id)) + (M.actor[id - 1] ? "/" + text(M.actor[id - 1]) : "");
  const alarm = verdicts.includes(id) || kindOf(id) === K.lost || kindOf(id) === K.holdended;
  return el("li", {},
    el("button", {
      type: "button", class: "moment" + (id === chosen.id ? " chosen" : "") + (alarm ? " alarming" : ""),
      "data-id": id, "aria-current": id === chosen.id ? "true" : undefined, click: () => choose(id, true),
    }, icon(id), el("span", { class: "when" }, when), el("span", { class: "who" }, who), el("span", { class: "what" }, shorten(says(id)))));
}

function shorten(words) {
  const newline = words.indexOf("\n");
  const one = newline < 0 ? words : words.slice(0, newline) + " …";
  return one.length > 160 ? one.slice(0, 160) + "…" : one;
}

function showPanel() {
  panel.replaceChildren();
  panel.scrollTop = 0;
  if (chosen.id) showMoment(chosen.id); else showStory();
}

// The story: what a reader would want to be told of the run, at most so many of each.
const maxStory = 300;
const untold = id => (kindOf(id) === K.down || kindOf(id) === K.paused) && M.cause[id - 1] && kindOf(M.cause[id - 1]) === K.fault && at[M.cause[id - 1]] === at[id];
const storyKinds = new Set([K.failure, K.property, K.fault, K.struck, K.down, K.paused, K.holdended, K.note, K.site]);

function showStory() {
  const ids = [], led = new Set(); // the first leader of a shard is no news
  for (let id = 1; id <= count && ids.length < maxStory; id++) {
    const leader = kindOf(id) === K.role && M.value[id - 1] === LEADER;
    const log = kindOf(id) === K.note && !M.actor[id - 1];
    if (storyKinds.has(kindOf(id)) && !log && !untold(id) && !(kindOf(id) === K.site && shown[id] === 0) || leader && led.has(shardOf(id))) ids.push(id);
    if (leader) led.add(shardOf(id));
  }
  if (violation) {
    panel.append(el("h2", { class: "bad" }, kindOf(violation) === K.failure ? "Failure" : "Broken property"),
      el("pre", { class: "failure" }, says(violation).replace(/^FAILURE: /, "")),
      el("p", {}, el("button", { type: "button", class: "alarm", click: goToViolation }, "go to it"), " ", el("span", { class: "muted" }, "key v")));
    if (wrong) panel.append(aboutHolds());
    panel.append(el("h2", {}, "How it came to that"), el("ol", { class: "moments", id: "excerpt" }, ...data.excerpt.map(id => item(id))));
  }
  panel.append(el("h2", {}, "What happened"));
  if (ids.length === 0) {
    panel.append(el("p", { class: "muted" }, count ? "No fault, no loss, no election. Click a moment in the picture." : "Nothing."));
  } else {
    panel.append(el("ol", { class: "moments" }, ...ids.map(id => item(id))));
    if (ids.length === maxStory) panel.append(el("p", { class: "muted" }, `The first ${maxStory}; search for more.`));
  }
}

// aboutHolds lists the holds that the violation is about.
function aboutHolds() {
  const since = wrong.together ? ` at once, from ${clock(wrong.from)} on:` : ":";
  return el("div", { class: "wrong" },
    el("p", {}, wrong.together ? "These held " : "It is about these holds of ", el("b", {}, wrong.key.name), since),
    el("ol", { class: "moments" }, ...wrong.holds.map(h => item(h.id))));
}

const maxChain = 120; // moments of a chain that are listed; the first is always

function showMoment(id) {
  const kind = kindOf(id), link = M.link[id - 1];
  const fact = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, ...value));
  const facts = el("dl", { class: "about" }, fact("at", clock(at[id], 1)));
  const lane = hostOf(id);
  facts.append(fact("host", hostName(lane) + (M.actor[id - 1] ? ", " + text(M.actor[id - 1]) : "")));
  if (M.peer[id - 1] >= -1 && isFrame(id)) facts.append(fact(kind === K.sent ? "to" : "from", hostName(M.peer[id - 1])));
  if (shardOf(id) >= 0) facts.append(fact("shard", String(shardOf(id))));
  if (M.term[id - 1]) facts.append(fact("term", text(M.term[id - 1])));
  if (keyOf(id)) facts.append(fact("key", text(keyOf(id))));
  if (M.token[id - 1]) facts.append(fact("token", tokenOf(id)));
  if (kind === K.depth) facts.append(fact("waiting", String(M.value[id - 1])));
  if (link) facts.append(fact("after", lasting(at[id] - at[link])));
  const hold = holdOf.get(id);
  if (hold) facts.append(fact("lasts", hold.end ? lasting(hold.to - hold.from) + (hold.lost ? ", lost" : "") : "to the end"));
  facts.append(fact("moment", `#${id}, ${data.kinds[kind - 1]}`));
  panel.append(
    el("div", { class: "head" }, icon(id), el("h2", {}, kind === K.failure ? "Failure" : shorten(says(id))),
      el("button", { type: "button", class: "close", "aria-label": "Close", title: "Close (esc)", click: () => choose(0) }, "×")),
    facts);
  if (kind === K.failure) panel.append(el("pre", { class: "failure" }, says(id).replace(/^FAILURE: /, "")));
  else if (shorten(says(id)) !== says(id)) panel.append(el("pre", {}, says(id)));
  if (id === violation && wrong) panel.append(aboutHolds());

  const ids = chosen.chain;
  panel.append(el("h3", {}, ids.length > 1 ? `Because of (${ids.length - 1})` : "No cause is known"));
  if (ids.length > 1) { // the nearest first
    const list = el("ol", { class: "moments chain", id: "chain" });
    const until = Math.max(0, ids.length - 1 - maxChain);
    for (let i = ids.length - 2; i >= until; i--) list.append(item(ids[i], at[id]));
    if (until > 1) list.append(el("li", { class: "muted gap" }, `… ${until - 1} more …`));
    if (until > 0) list.append(item(ids[0], at[id]));
    panel.append(list, el("p", {}, el("button", { type: "button", click: showChain }, "show the chain"), " ", el("span", { class: "muted" }, "key c")));
  }
  const most = 40, comes = effects(id, most + 1);
  if (comes.length) {
    panel.append(el("h3", {}, "Led to"),
      el("ol", { class: "moments", id: "effects" }, ...comes.slice(0, most).map(e => item(e, at[id]))));
    if (comes.length > most) panel.append(el("p", { class: "muted" }, `and ${first[id + 1] - first[id] - most} more`));
  }
}
