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
const row = (cells, className) => {
  const line = make("tr", undefined, className);
  for (const cell of cells) line.append(make("td", cell));
  return line;
};
const phases = (rows) => rows.map((each) => {
  const widths = each.phases.map((p) => {
    const epochs = p.from === p.to ? `epoch ${p.from}` : `epochs ${p.from}–${p.to}`;
    return `${p.gpus}${p.gpu_type ? " " + p.gpu_type : ""} (${epochs})`;
  }).join(", ");
  return rows.length > 1 ? `${number(100 * each.share, 3)} % of jobs: ${widths}` : widths;
}).join("; ");

let drawn = null;
let line = null;

function show(state) {
  at("name").textContent = state.name ? `of ${state.name}` : "";
  const table = state.table;
  const latest = state.calculations[0];
  const over = latest && latest.verdict === "over-budget";
  at("standing").className = over ? "lost" : "";
  at("standing").textContent = table
    ? `Table ${table.number}, made ${moment(table.made_s)}; ${state.events.toLocaleString("en")} events taken`
    : "No table yet";
  const budget = state.budget;
  const amount = (value) => value == null ? "–" : `${number(value)} ${budget.unit}`;
  if (budget.exceeded) {
    at("standing").className = "lost";
    at("standing").textContent += `. The widths take ${amount(budget.planned)}, and the budget is ${amount(budget.given)}`;
  }
  if (over) at("standing").textContent += `. Since then no table keeps the limits: ${latest.notes.join("; ")}`;
  const facts = [
    ["given", amount(budget.given)],
    ["committed to jobs, in the mean", amount(budget.committed)],
    [budget.debt_h < 0 ? "left" : "debt", `${number(Math.abs(budget.debt_h))} hours of the budget, once`],
    ["widths are made for", amount(budget.followed)],
    ["planned", amount(budget.planned)],
    ["needed to carry the load", amount(budget.needed)],
    ["used by jobs that ended", budget.used_gpus == null ? "–" : `${number(budget.used_gpus)} gpu`],
    ["mean completion time, planned", table ? duration(table.mean_jct_s) : "–"],
    ["proven to within", latest && latest.gap != null ? `${number(100 * latest.gap, 2)} %` : "–"],
  ];
  at("budget").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
  at("budget").className = budget.exceeded ? "lost" : "";
  at("widths").replaceChildren(...Object.entries(state.classes).map(([name, one]) => row([
    one.new ? `${name} (new)` : name, number(one.rate_per_hour), number(one.size_gpu_hours),
    table && table.classes[name] ? phases(table.classes[name]) : "1 (not in the table)",
  ], one.new ? "new" : "")));
  at("calculations").replaceChildren(...state.calculations.map((one) => row([
    moment(one.at_s), one.number == null ? "–" : String(one.number), one.verdict, one.reason,
    one.planned == null ? "–" : `${number(one.planned)} ${one.unit}`, duration(one.mean_jct_s),
    [...(one.changes || []), ...(one.notes || [])].join("; "),
  ], one.verdict)));
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
  const x = (b) => 50 + 530 * (b - line.budgets[0]) / Math.max(line.most - line.budgets[0], 1e-9);
  const low = Math.min(...shown.map((p) => p[1])), high = shown[0][1];
  const y = (s) => 220 - 200 * (s - low) / Math.max(high - low, 1e-9);
  line.x = x; line.y = y;
  const svg = at("frontier");
  const part = (name, set) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(set)) element.setAttribute(key, value);
    svg.append(element);
    return element;
  };
  svg.replaceChildren();
  part("line", { x1: 50, y1: 220, x2: 580, y2: 220, class: "axis" });
  part("line", { x1: 50, y1: 20, x2: 50, y2: 220, class: "axis" });
  part("polyline", { points: shown.map(([b, s]) => `${x(b)},${y(s)}`).join(" "), class: "line" });
  part("text", { x: 50, y: 240 }).textContent = `${number(line.budgets[0])} ${found.unit}`;
  part("text", { x: 580, y: 240, "text-anchor": "end" }).textContent = `${number(line.most)} ${found.unit}`;
  part("text", { x: 56, y: 18 }).textContent = duration(high);
  part("text", { x: 56, y: 216 }).textContent = duration(low);
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
    at("standing").className = "lost";
    at("standing").textContent = `Not reached (${error.message}). Jobs keep their last widths.`;
  }
}

at("slider").addEventListener("input", (event) => { event.target.dataset.touched = "1"; slide(); });
refresh();
setInterval(refresh, 5000);
