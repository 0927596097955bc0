// The script of a page with a flame chart: search, zoom and movement by keyboard. The
// page is complete without it: it only changes how the chart is shown.
"use strict";
(() => {
  const svg = document.querySelector("#flame svg.figure");
  if (!svg) return;
  const NS = "http://www.w3.org/2000/svg";
  const EDGE = 6, CHAR = 6.63, ROOM = 3;
  const byID = (id) => document.getElementById(id);
  const chart = byID("flame"), what = byID("what"), found = byID("found"), query = byID("query");
  // Ticks and instructions are whole numbers; other times are nanoseconds.
  const counted = { tick: " ticks", instruction: " instructions" }[chart.dataset.unit];
  const whole = Number(chart.dataset.whole); // what shares are shares of
  const length = Number(chart.dataset.length);
  const height = svg.viewBox.baseVal.height;
  let width = svg.viewBox.baseVal.width;
  let lo = 0, hi = length;
  let current = null; // the box that the keyboard is at

  // Boxes stand in the document so that a parent comes before its children.
  const boxes = [], bands = [];
  for (const group of svg.querySelectorAll("g.boxes")) {
    const above = [];
    for (const g of group.children) {
      const [t, d, depth] = g.dataset.t.split(" ").map(Number);
      const title = g.querySelector("title").textContent;
      const b = { g, t, d, depth, title, name: title.split("\n")[0], many: g.classList.contains("many"),
        rect: g.querySelector("rect"), text: g.querySelector("text"), band: bands.length, kids: [] };
      b.y = Number(b.rect.getAttribute("y"));
      b.parent = depth > 0 ? above[depth - 1] : null;
      above[depth] = b;
      if (b.parent) b.parent.kids.push(b);
      boxes.push(b);
    }
    bands.push(boxes.filter((b) => b.band === bands.length));
  }
  const boxOf = new Map(boxes.map((b) => [b.g, b]));
  const marks = [...svg.querySelectorAll("g.mark")].map((g) => ({ g, t: Number(g.dataset.t),
    line: g.querySelector("line"), text: g.querySelector("text") }));
  const ticks = svg.querySelector("g.ticks");
  const gridTop = ticks.querySelector("line") ? ticks.querySelector("line").getAttribute("y1") : "20";

  // Times, as the page writes them.
  const digits = (v) => v === 0 ? "0" : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) :
    v >= 0.01 ? v.toFixed(2) : v.toPrecision(3);
  function took(v) {
    if (counted) return Math.round(v).toLocaleString("en-US") + counted;
    for (const [scale, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
      if (v >= scale) return digits(v / scale) + " " + name;
    }
    return digits(v) + " ns";
  }
  const share = (v) => (100 * v / whole).toFixed(1) + " %";
  const plural = (n, one, many) => n.toLocaleString("en-US") + " " + (n === 1 ? one : many);

  function element(name, attributes, text) {
    const e = document.createElementNS(NS, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  // draw places everything for the times from lo to hi.
  function draw() {
    const scale = (width - 2 * EDGE) / (hi - lo);
    const x = (t) => EDGE + (t - lo) * scale;
    for (const b of boxes) {
      const from = Math.max(x(b.t), EDGE), to = Math.min(x(b.t + b.d), width - EDGE);
      const off = to < from || b.t > hi || b.t + b.d < lo;
      b.g.classList.toggle("off", off);
      if (off) continue;
      const w = Math.max(to - from, 0.4);
      b.rect.setAttribute("x", from.toFixed(2));
      b.rect.setAttribute("width", w.toFixed(2));
      name(b, from, Math.floor((w - 6) / CHAR));
    }
    const named = []; // where names of marks stand; one that would touch another is left out
    for (const m of marks) {
      const at = x(m.t);
      m.g.classList.toggle("off", m.t < lo || m.t > hi);
      m.line.setAttribute("x1", at.toFixed(1));
      m.line.setAttribute("x2", at.toFixed(1));
      if (!m.text) continue;
      const end = at + 8 + 7 * m.text.textContent.length > width;
      m.text.setAttribute("text-anchor", end ? "end" : "start");
      m.text.setAttribute("x", (end ? at - 4 : at + 4).toFixed(1));
      const size = 8 + 7 * m.text.textContent.length, from = end ? at - size : at, y = m.text.getAttribute("y");
      const touches = named.some((n) => n.y === y && from < n.to && n.from < from + size);
      m.text.classList.toggle("off", touches || end && from < 0);
      if (!touches && m.t >= lo && m.t <= hi) named.push({ y, from, to: from + size });
    }
    axis(x);
    byID("reset").disabled = byID("out").disabled = lo === 0 && hi === length;
    byID("range").textContent = lo === 0 && hi === length ? "The whole boot is shown." :
      "Shown: " + took(hi - lo) + " (" + share(hi - lo) + ") from " + took(lo) + ".";
  }

  // name writes into a box as many characters of its name as have room.
  function name(b, x, room) {
    if (room < ROOM) {
      if (b.text) b.text.textContent = "";
      return;
    }
    if (!b.text) {
      b.text = element("text", { y: (b.y + 12).toFixed(0), "aria-hidden": "true" });
      b.g.append(b.text);
    }
    const short = [...b.name];
    b.text.textContent = short.slice(0, room).join("").trim();
    b.text.setAttribute("x", (x + 3).toFixed(2));
  }

  // axis draws lines at round times.
  function axis(x) {
    ticks.replaceChildren();
    const least = (hi - lo) / Math.max(1, Math.floor(width / 110));
    const power = Math.pow(10, Math.floor(Math.log10(least)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least * (1 - 1e-9));
    const [scale, unit] = counted ?
      [hi >= 1e6 ? 1e6 : 1, hi >= 1e6 ? " M" : ""] : hi >= 1e9 ? [1e9, " s"] : hi >= 1e6 ? [1e6, " ms"] :
      hi >= 1e3 ? [1e3, " µs"] : [1, " ns"];
    const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9)));
    let free = 0;
    for (let i = Math.ceil(lo / step); i * step <= hi && ticks.childElementCount < 100; i++) {
      const at = x(i * step), label = (i * step / scale).toFixed(decimals) + unit;
      const half = label.length * 3.6 + 5;
      if (at - half < free || at + half > width) continue;
      free = at + half;
      ticks.append(element("line", { class: "grid", x1: at.toFixed(1), x2: at.toFixed(1), y1: gridTop, y2: height }),
        element("text", { class: "tick", x: at.toFixed(1), y: 12, "text-anchor": "middle" }, label));
    }
  }

  // show changes the times that are shown, within the boot.
  function show(from, to) {
    const least = Math.max(length * 1e-9, counted ? 10 : 1);
    const span = Math.min(Math.max(to - from, least), length);
    lo = Math.min(Math.max(from, 0), length - span);
    hi = lo + span;
    if (span === length) [lo, hi] = [0, length];
    draw();
  }
  const reset = () => show(0, length);
  function zoom(factor, around) {
    const at = around === undefined ? (lo + hi) / 2 : around;
    show(at - (at - lo) * factor, at + (hi - at) * factor);
  }
  const middle = () => current ? Math.min(Math.max(current.t + current.d / 2, lo), hi) : undefined;

  // Keyboard. One box at a time can be reached with Tab; arrows move from it.
  function go(b, focus) {
    if (!b) return;
    if (current) current.g.setAttribute("tabindex", "-1");
    current = b;
    b.g.setAttribute("tabindex", "0");
    if (b.t > hi || b.t + b.d < lo) show(b.t - (hi - lo) / 2, b.t + (hi - lo) / 2);
    if (focus) b.g.focus();
    what.textContent = b.title.replaceAll("\n", " · ");
  }
  function beside(b, by) {
    const row = bands[b.band].filter((o) => o.y === b.y).sort((p, q) => p.t - q.t);
    return row[row.indexOf(b) + by];
  }
  const widest = (list) => list.reduce((best, b) => !best || b.d > best.d ? b : best, null);
  const moves = {
    ArrowRight: (b) => beside(b, 1),
    ArrowLeft: (b) => beside(b, -1),
    ArrowUp: (b) => b.parent,
    ArrowDown: (b) => widest(b.kids.filter((k) => k.t <= hi && k.t + k.d >= lo)),
    PageUp: (b) => bands[b.band - 1] && bands[b.band - 1][0],
    PageDown: (b) => bands[b.band + 1] && bands[b.band + 1][0],
    Home: (b) => bands[b.band][0],
  };
  svg.addEventListener("keydown", (e) => {
    const b = boxOf.get(e.target.closest("g.b"));
    if (!b || e.ctrlKey || e.metaKey || e.altKey) return;
    if (moves[e.key]) go(moves[e.key](b), true);
    else if (e.key === "Enter" || e.key === " ") show(b.t, b.t + b.d);
    else if (e.key === "+" || e.key === "=") zoom(0.5, middle());
    else if (e.key === "-") zoom(2, middle());
    else return;
    e.preventDefault();
  });
  chart.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && e.target !== query) reset();
  });
  svg.addEventListener("focusin", (e) => go(boxOf.get(e.target.closest("g.b")), false));
  svg.addEventListener("mouseover", (e) => {
    const b = boxOf.get(e.target.closest("g.b"));
    if (b) what.textContent = b.title.replaceAll("\n", " · ");
  });

  // Mouse: a click shows a box, a drag shows the times it passes, and the wheel with Ctrl
  // changes the scale.
  const timeAt = (e) => {
    const r = svg.getBoundingClientRect();
    return lo + ((e.clientX - r.left) * width / r.width - EDGE) / (width - 2 * EDGE) * (hi - lo);
  };
  let drag = null;
  svg.addEventListener("pointerdown", (e) => {
    if (e.button !== 0 || e.pointerType === "touch") return;
    drag = { from: timeAt(e), x: e.clientX, box: null };
  });
  svg.addEventListener("pointermove", (e) => {
    if (!drag || Math.abs(e.clientX - drag.x) < 5 && !drag.box) return;
    if (!drag.box) {
      drag.box = svg.appendChild(element("rect", { class: "selection", y: 0, height }));
      svg.setPointerCapture(e.pointerId);
    }
    const scale = (width - 2 * EDGE) / (hi - lo), to = timeAt(e);
    drag.box.setAttribute("x", EDGE + (Math.min(drag.from, to) - lo) * scale);
    drag.box.setAttribute("width", Math.abs(to - drag.from) * scale);
  });
  const drop = (e) => {
    const d = drag;
    drag = null;
    if (!d || !d.box) return;
    d.box.remove();
    dragged = true;
    if (e.type === "pointerup") show(Math.min(d.from, timeAt(e)), Math.max(d.from, timeAt(e)));
  };
  let dragged = false;
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", drop);
  svg.addEventListener("click", (e) => {
    const b = boxOf.get(e.target.closest("g.b"));
    if (dragged || !b) {
      dragged = false;
      return;
    }
    go(b, true);
    if (lo === b.t && hi === b.t + b.d) reset();
    else show(b.t, b.t + b.d);
  });
  svg.addEventListener("wheel", (e) => {
    if (e.ctrlKey) zoom(e.deltaY < 0 ? 0.8 : 1.25, timeAt(e));
    else if (hi - lo < length && Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const by = e.deltaX / width * (hi - lo);
      show(lo + by, hi + by);
    } else return;
    e.preventDefault();
  }, { passive: false });
  byID("in").addEventListener("click", () => zoom(0.5, middle()));
  byID("out").addEventListener("click", () => zoom(2, middle()));
  byID("reset").addEventListener("click", reset);

  // Search. The table of all labels counts every span, also those without a box.
  const rows = [...document.querySelectorAll("#labels tbody tr[data-n]")].map((tr) => ({ tr,
    name: tr.cells[0].textContent, spans: Number(tr.dataset.n), self: Number(tr.dataset.self) }));
  const unlisted = document.querySelector("#labels tr.rest");
  let hits = [];
  function matcher() {
    if (query.value === "") return null;
    if (byID("regexp").checked) return new RegExp(query.value, "i");
    const text = query.value.toLowerCase();
    return { test: (s) => s.toLowerCase().includes(text) };
  }
  function search() {
    let m = null, wrong = "";
    try {
      m = matcher();
    } catch {
      wrong = "This is not a regular expression.";
    }
    query.setAttribute("aria-invalid", wrong ? "true" : "false");
    hits = [];
    let within = 0;
    for (const b of boxes) {
      b.hit = m !== null && !b.many && m.test(b.name);
      b.under = b.parent !== null && (b.parent.hit || b.parent.under);
      b.g.classList.toggle("hit", b.hit);
      b.g.classList.toggle("dim", m !== null && !b.hit);
      if (b.hit) hits.push(b);
      if (b.hit && !b.under) within += b.d;
    }
    let spans = 0, self = 0;
    for (const r of rows) {
      const match = m === null || m.test(r.name);
      r.tr.hidden = !match;
      if (match && m !== null) [spans, self] = [spans + r.spans, self + r.self];
    }
    found.textContent = wrong || (m === null ? "" : report(spans, self, within));
  }
  function report(spans, self, within) {
    const rest = unlisted ? " Labels that the table leaves out are not searched." : "";
    if (spans === 0) return "No span matches." + rest;
    let text = plural(spans, "span matches", "spans match") + ": " + took(self) + " (" + share(self) + ") in " +
      (spans === 1 ? "itself, " : "themselves, ") + (hits.length < spans ? "at least " : "") + took(within) + " (" +
      share(within) + ") with all below " + (spans === 1 ? "it." : "them.");
    if (hits.length < spans) text += " " + plural(spans - hits.length, "is in a dotted box.", "are in dotted boxes.");
    return text + rest;
  }
  query.addEventListener("input", search);
  byID("regexp").addEventListener("change", search);
  byID("search").addEventListener("submit", (e) => {
    e.preventDefault();
    if (hits.length) go(hits[(hits.indexOf(current) + 1) % hits.length], true);
  });

  // The chart is a picture until the script makes it a tree.
  svg.setAttribute("role", "tree");
  for (const b of boxes) {
    b.g.setAttribute("role", "treeitem");
    if (b.text) b.text.setAttribute("aria-hidden", "true"); // the title has the whole name
    b.g.setAttribute("tabindex", "-1");
    b.g.setAttribute("aria-level", b.depth + 1);
  }
  for (const e of document.querySelectorAll(".scripted")) e.hidden = false;
  chart.classList.add("live");
  go(boxes[0], false);
  what.textContent = "";
  function fit() {
    width = Math.max(280, Math.floor(svg.parentElement.clientWidth));
    svg.setAttribute("viewBox", "0 0 " + width + " " + height);
    svg.setAttribute("width", width);
    draw();
  }
  new ResizeObserver(fit).observe(svg.parentElement);
  fit();
  search();
})();
