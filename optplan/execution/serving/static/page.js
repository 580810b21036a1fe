"use strict";
// Shows /v1/state, anew every few seconds, and /v1/frontier, anew with each table. All text is set as text.
const at = (id) => document.getElementById(id);
const make = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const number = (value, digits = 4) => value == null ? "–" : Number(value.toPrecision(digits)).toLocaleString("en");
const duration = (seconds) => seconds == null ? "–" : seconds < 120 ? `${number(seconds)} s`
  : seconds < 7200 ? `${number(seconds / 60)} min` : `${number(seconds / 3600)} h`;
const moment = (seconds) => new Date(seconds * 1000).toLocaleString();
const NUMBER = "number";
/* A cell is a text, an element, or a text with the class of its cell. */
const row = (cells, className) => {
  const line = make("tr", undefined, className);
  cells.forEach((cell, place) => {
    const [content, style] = Array.isArray(cell) ? cell : [cell];
    const box = make(place ? "td" : "th", typeof content === "string" ? content : undefined, style);
    if (!place) box.scope = "row";
    if (typeof content !== "string") box.append(content);
    line.append(box);
  });
  return line;
};
const draw_part = (svg, name, set) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(set)) element.setAttribute(key, value);
  svg.append(element);
  return element;
};
const phases = (rows) => rows.map((each) => {
  const widths = each.phases.map((p) => {
    const epochs = p.from === p.to ? `epoch ${p.from}` : `epochs ${p.from}–${p.to}`;
    return `${p.gpus}${p.gpu_type ? " " + p.gpu_type : ""} (${epochs})`;
  }).join(", ");
  return rows.length > 1 ? `${number(100 * each.share, 3)} % of jobs: ${widths}` : widths;
}).join("; ");

/* The map of a class, a row for each share of its jobs: the darker, the more GPUs; as in the reports, 64 are darkest. */
const map = (rows) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const epochs = Math.max(...rows.flatMap((each) => each.phases.map((p) => p.to)), 1);
  const [height, set] = [24 / rows.length, { class: "map", viewBox: "0 0 100 24", preserveAspectRatio: "none" }];
  for (const [key, value] of Object.entries({ ...set, "aria-hidden": "true" })) svg.setAttribute(key, value);
  rows.forEach((each, place) => each.phases.forEach((p) => draw_part(svg, "rect", {
    class: "cell", x: 100 * (p.from - 1) / epochs, width: 100 * (p.to - p.from + 1) / epochs, y: place * height,
    height: height * 0.9, "fill-opacity": (0.2 + 0.8 * Math.min(Math.log2(p.gpus) / 6, 1)).toFixed(3),
  })));
  return svg;
};
const KINDS = { published: "good", kept: "good", "over-budget": "bad", failed: "bad" };

let drawn = null;
let line = null;

/* What is wrong now, and how much that matters; nothing where all is well. */
function find_alarm(state, latest, amount) {
  const budget = state.budget;
  const planned = `The widths take ${amount(budget.planned)}, and the budget is ${amount(budget.given)}`;
  if (latest && latest.verdict === "over-budget") {
    return ["bad", `No table keeps the limits: ${latest.notes.join("; ")}. The table from before stays.`];
  }
  if (latest && latest.verdict === "failed") return ["bad", `No widths were found: ${latest.notes.join("; ")}`];
  if (budget.exceeded) return ["bad", `${planned}: ${number(100 * (budget.planned / budget.given - 1), 2)} % more.`];
  if (budget.planned > 1.05 * budget.given) {
    return ["fair", `${planned}; they are made for ${amount(budget.followed)} now, so that the budget holds in the mean.`];
  }
  return null;
}

function show_spent(budget) {
  const svg = at("spent"), most = 1.05 * Math.max(budget.given, budget.planned || 0), to = (value) => 600 * value / most;
  svg.replaceChildren();
  draw_part(svg, "rect", { class: "room", x: 0, y: 0, width: 600, height: 24 });
  const kept = Math.min(budget.planned || 0, budget.given);
  draw_part(svg, "rect", { class: "kept", x: 0, y: 4, width: to(kept), height: 16 });
  if (budget.planned > kept) {
    draw_part(svg, "rect", { class: "beyond", x: to(kept), y: 4, width: to(budget.planned - kept), height: 16 });
  }
  draw_part(svg, "line", { class: "given", x1: to(budget.given), x2: to(budget.given), y1: 0, y2: 24 });
  svg.setAttribute("aria-label", `Planned ${number(budget.planned)} of ${number(budget.given)} ${budget.unit}`);
}

function show(state) {
  const table = state.table, budget = state.budget, latest = state.calculations[0];
  const amount = (value) => value == null ? "–" : `${number(value)} ${budget.unit === "gpu" ? "GPUs" : budget.unit}`;
  const alarm = find_alarm(state, latest, amount);
  at("name").textContent = state.name ? `· ${state.name}` : "";
  at("answer").textContent = table
    ? `${amount(budget.planned)} planned of ${amount(budget.given)}: jobs take ${duration(table.mean_jct_s)} on average`
    : "No table yet";
  document.title = `${alarm && alarm[0] === "bad" ? "⚠ " : ""}${at("answer").textContent}`;
  at("badge").hidden = !latest;
  at("badge").textContent = alarm && alarm[0] === "bad" ? "alarm" : latest ? latest.verdict : "";
  at("badge").className = `badge ${alarm ? alarm[0] : latest ? KINDS[latest.verdict] : ""}`;
  at("standing").className = "";
  at("standing").textContent = table
    ? `Table ${table.number}, made ${moment(table.made_s)}; ${state.events.toLocaleString("en")} events taken`
    : `${state.events.toLocaleString("en")} events taken`;
  at("alarm").hidden = !alarm;
  at("alarm").className = `alarm ${alarm ? alarm[0] : ""}`;
  if (alarm && at("alarm").textContent !== alarm[1]) at("alarm").textContent = alarm[1]; // read out once
  show_spent(budget);
  const cards = [
    ["planned", amount(budget.planned), `of a budget of ${amount(budget.given)}`, budget.exceeded],
    ["mean completion time", table ? duration(table.mean_jct_s) : "–",
      latest && latest.gap != null ? `proven to within ${number(100 * latest.gap, 2)} %` : "nothing is proven of it"],
    ["widths are made for", amount(budget.followed), `${amount(budget.committed)} committed to jobs, in the mean`],
    [budget.debt_h < 0 ? "left" : "debt", `${number(Math.abs(budget.debt_h))} h`, "of the budget, once"],
    ["used by jobs that ended", budget.used_gpus == null ? "–" : `${number(budget.used_gpus)} GPUs`, "on average"],
    ...(budget.needed == null ? [] : [["needed to carry the load", amount(budget.needed), "at least", true]]),
  ];
  at("cards").replaceChildren(...cards.map(([name, value, note, bad]) => {
    const card = make("div", undefined, bad ? "card bad" : "card"), told = make("dd");
    told.append(make("span", value, "value"), " ", make("span", note, "note"));
    card.append(make("dt", name), told);
    return card;
  }));
  at("widths").replaceChildren(...Object.entries(state.classes).map(([name, one]) => {
    const rows = table && table.classes[name];
    return row([
      one.new ? `${name} (new)` : name, [number(one.rate_per_hour), NUMBER], [number(one.size_gpu_hours), NUMBER],
      rows ? map(rows) : "–", rows ? phases(rows) : "1 (not in the table)",
    ]);
  }));
  at("calculations").replaceChildren(...state.calculations.map((one) => row([
    moment(one.at_s), make("span", one.verdict, `badge ${KINDS[one.verdict] || ""}`),
    [one.number == null ? "–" : String(one.number), NUMBER], one.reason,
    [one.planned == null ? "–" : `${number(one.planned)} ${one.unit}`, NUMBER], [duration(one.mean_jct_s), NUMBER],
    [...(one.changes || []), ...(one.notes || [])].join("; "),
  ])));
  if (latest && drawn !== latest.at_s) {
    drawn = latest.at_s;
    fetch("/v1/frontier").then((answer) => answer.ok ? answer.json() : null).then(draw).catch(() => { drawn = null; });
  }
}

function draw(found) {
  if (!found || !found.budgets.length) return;
  line = found;
  const order = found.budgets.map((_, i) => i).sort((a, b) => found.budgets[a] - found.budgets[b]);
  line.budgets = order.map((i) => found.budgets[i]);
  line.times = order.map((i) => found.mean_jct_s[i]);
  const slider = at("slider");
  line.most = Math.min(line.budgets.at(-1), 4 * found.budget);
  slider.disabled = false;
  if (!slider.dataset.touched) {
    slider.value = String(1000 * (found.budget - line.budgets[0]) / Math.max(line.most - line.budgets[0], 1e-9));
  }
  const shown = line.budgets.map((b, i) => [b, line.times[i]]).filter(([b]) => b <= line.most);
  const x = (b) => 90 + 490 * (b - line.budgets[0]) / Math.max(line.most - line.budgets[0], 1e-9);
  const low = Math.min(...shown.map((p) => p[1])), high = shown[0][1];
  const y = (s) => 220 - 200 * (s - low) / Math.max(high - low, 1e-9);
  line.x = x; line.y = y;
  const svg = at("frontier");
  const part = (name, set) => draw_part(svg, name, set);
  svg.replaceChildren();
  part("line", { x1: 90, y1: 220, x2: 580, y2: 220, class: "axis" });
  part("line", { x1: 90, y1: 20, x2: 90, y2: 220, class: "axis" });
  part("polyline", { points: shown.map(([b, s]) => `${x(b)},${y(s)}`).join(" "), class: "line" });
  part("text", { x: 90, y: 240 }).textContent = `${number(line.budgets[0])} ${found.unit}`;
  part("text", { x: 580, y: 240, "text-anchor": "end" }).textContent = `${number(line.most)} ${found.unit}`;
  part("text", { x: 0, y: 17 }).textContent = duration(high);
  part("text", { x: 0, y: 216 }).textContent = duration(low);
  if (found.budget <= line.most) {
    part("line", { x1: x(found.budget), x2: x(found.budget), y1: 20, y2: 220, class: "present" });
    const end = x(found.budget) > 300;
    part("text", { x: x(found.budget) + (end ? -6 : 6), y: 34, "text-anchor": end ? "end" : "start" })
      .textContent = `the budget: ${number(found.budget)} ${found.unit}`;
  }
  line.mark = part("circle", { r: 5, class: "here" });
  slide();
}

function slide() {
  if (!line) return;
  const budget = line.budgets[0] + (line.most - line.budgets[0]) * Number(at("slider").value) / 1000;
  let i = line.budgets.findIndex((b) => b >= budget);
  if (i < 0) i = line.budgets.length - 1;
  const j = Math.max(i - 1, 0);
  const span = line.budgets[i] - line.budgets[j];
  const part = span > 0 ? (budget - line.budgets[j]) / span : 0;
  const seconds = line.times[j] + part * (line.times[i] - line.times[j]);
  at("bought").textContent = `${number(budget)} ${line.unit}: ${duration(seconds)} mean completion time`;
  line.mark.setAttribute("cx", String(line.x(budget)));
  line.mark.setAttribute("cy", String(line.y(seconds)));
}

async function refresh() {
  try {
    const answer = await fetch("/v1/state");
    if (!answer.ok) throw new Error(`the calculator answers ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    at("badge").hidden = true;
    at("standing").className = "lost";
    at("standing").textContent = `Not reached (${error.message}). Jobs keep their last widths.`;
  }
}

at("slider").addEventListener("input", (event) => { event.target.dataset.touched = "1"; slide(); });
refresh();
setInterval(refresh, 5000);
