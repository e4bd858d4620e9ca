// What the page says of itself: facts above the picture, and the legend below it.

{
  const verdict = byID("verdict");
  verdict.textContent = violation ? `${kindOf(violation) === K.failure ? "failed" : "property broken"} at ${clock(at[violation], 1e6)}` : "no violation";
  verdict.classList.add(violation ? "bad" : "good");
  const number = n => n.toLocaleString("en");
  const plural = (n, one, more = one + "s") => `${number(n)} ${n === 1 ? one : more}`;
  for (const words of [
    `seed ${data.seed}`, lasting(data.duration), plural(hosts.length, "host"), plural(count, "moment"),
    plural(faults.length + M.kind.filter(kind => kind === K.struck).length, "fault"), plural(data.holds.length, "hold"),
  ]) byID("facts").append(el("li", {}, words));
}

function drawLegend() {
  const legend = byID("legend");
  legend.replaceChildren();
  const entry = (words, paint, wide = 16) => {
    const scale = window.devicePixelRatio || 1;
    const canvas = el("canvas", { "aria-hidden": "true" });
    canvas.width = wide * scale;
    canvas.height = 12 * scale;
    canvas.style.width = wide + "px";
    canvas.style.height = "12px";
    const g = canvas.getContext("2d");
    g.scale(scale, scale);
    paint(g);
    legend.append(el("span", {}, canvas, words));
  };
  const line = (colour, dash, lost) => g => {
    g.strokeStyle = colour;
    g.lineWidth = 1.6;
    g.setLineDash(dash);
    g.beginPath();
    g.moveTo(0, 6);
    g.lineTo(lost ? 16 : 24, 6);
    g.stroke();
    g.setLineDash([]);
    g.beginPath();
    if (lost) { shapes.cross(g, 18, 6, 4); g.stroke(); }
  };
  const seen = new Set(frames.map(f => f.kind));
  classNames.forEach((name, kind) => { if (kind && seen.has(kind)) entry(name, line(classColour(kind), classDash[kind]), 26); });
  if (frames.some(f => f.lost)) entry("lost", line(theme.alarm, [], true), 26);
  for (const [kind, words] of [
    [K.called, "asks"], [K.held, "holds"], [K.unlocked, "unlocks"], [K.holdended, "hold lost"], [K.refused, "refused"],
    [K.fault, "fault"], [K.struck, "brief fault"], [K.role, "role"], [K.site, "fault point"], [K.note, "note"], [K.property, "property"],
  ]) {
    if (!M.kind.includes(kind)) continue;
    entry(words, g => glyph(g, marks[kind][0], theme[marks[kind][1]], marks[kind][2], 8, 6, 4.5));
  }
}
