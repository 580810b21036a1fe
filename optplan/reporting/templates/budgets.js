"use strict";

/* Moves the page along the frontier that lies in it: another budget's texts, figures, plan and pictures. Between two
   plans a mixed problem has shares of both; a pure one keeps the lesser, with how far it may be from the best. */
charts.ready.then(function () {
  const at = (id) => document.getElementById(id);
  const tried = JSON.parse(at("tried").textContent);
  const { words, plans, bounds, classes } = tried;
  const [least, most] = [plans[0].used, Math.max(plans.at(-1).used, bounds.at(-1)[0])];
  const EQUAL = 1e-9;
  const ways = [];
  const states = plans.map((plan) => [...Object.assign(ways, plan.ways)]);

  /* Figures as optplan.reporting.phrases writes them. */
  const digits = (number, count) => String(Number(number.toPrecision(count)));
  const commas = (number, decimals = 0) =>
    number.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const two = (number) => String(number).padStart(2, "0");
  const formats = {
    change: (above) =>
      Math.abs(above) < 1e-5 ? "the same" : `${formats.share(Math.abs(above))} ${above > 0 ? "longer" : "shorter"}`,
    count: (gpus) => `${formats.gpus(gpus)} GPU${formats.gpus(gpus) === "1" ? "" : "s"}`,
    daily: (usd) => formats.usd(usd * tried.day),
    duration(seconds) {
      if (seconds < 10) return `${digits(seconds, 3)} s`;
      const [s, m, h] = [1, 60, 3600].map((unit) => Math.round(seconds / unit));
      if (seconds < 3599.5) return s < 60 ? `${s} s` : `${Math.floor(s / 60)} min ${two(s % 60)} s`;
      if (seconds < 86370) return `${Math.floor(m / 60)} h ${two(m % 60)} min`;
      return `${Math.floor(h / 24)} d ${two(h % 24)} h`;
    },
    gpus(gpus) {
      if (Math.abs(gpus - Math.round(gpus)) <= EQUAL * Math.max(1, gpus)) return commas(Math.round(gpus));
      return gpus >= 10 ? commas(gpus, 1) : gpus >= 0.1 ? gpus.toFixed(2) : digits(gpus, 2);
    },
    monthly: (usd) => formats.usd(usd * tried.month),
    seconds(seconds) {
      const said = Number(seconds.toPrecision(6));
      if (said >= 1e6) return seconds.toExponential(5).replace(/\.?0*e\+(\d)$/, "e+0$1");
      return said.toLocaleString("en-US", { maximumFractionDigits: 9 });
    },
    share(share) {
      if (share <= EQUAL) return "0 %";
      return share < 1e-5 ? "less than 0.001 %" : `${share < 0.1 ? digits(100 * share, 2) : (100 * share).toFixed(0)} %`;
    },
    small: (seconds) => (seconds === 0 ? "nothing" : seconds < 1e-3 ? "less than 1 ms" : formats.duration(seconds)),
    text: (text) => text,
    two: (number) => number.toFixed(2),
    usd: (usd) => `$${commas(usd, usd >= 100 ? 0 : usd >= 10 || usd.toFixed(3).endsWith("0") ? 2 : 3)}`,
    uses: (types) =>
      Object.entries(types).filter(([, gpus]) => gpus > 0).map(([name, gpus]) => `${formats.gpus(gpus)} ${name}`).join(" + "),
  };
  const keep = (text) => text.replace(/(?<=\d) (?=(?:ms|s|min|h|d|%|GPUs?)(?!\w))/g, "\u00a0");
  const fill = (frame, figures) =>
    keep(frame.replace(/\{(\w+):(\w+)\}/g, (whole, name, format) =>
      format in formats && name in figures ? formats[format](figures[name]) : whole));

  /* What certificates prove at a budget: the highest of their lines, and what a little more and less would change. */
  function prove(budget) {
    const lines = bounds.map(([from, bound, price]) => [bound - price * (budget - from), price]);
    const bound = Math.max(...lines.map(([value]) => value));
    const prices = lines.filter(([value]) => value >= bound * (1 - EQUAL)).map(([, price]) => price);
    const [own, ceiling] = tried.ceiling ?? [0, 0];
    return {
      bound: budget <= own * (1 + EQUAL) ? Math.max(bound, ceiling) : bound,
      mixed: bound,
      more: budget >= most * (1 - EQUAL) ? 0 : Math.min(...prices),
      less: budget <= bounds[0][0] * (1 + EQUAL) ? null : budget > most * (1 + EQUAL) ? 0 : Math.max(...prices),
    };
  }

  function blend(one, other, part) {
    if (typeof one === "number") return one + part * (other - one);
    return Object.fromEntries(Object.keys(one).map((name) => [name, blend(one[name], other[name], part)]));
  }

  /* The figures and the ways of the plan to show within a budget; null where there is none. */
  function look(budget) {
    const place = plans.findLastIndex((plan) => plan.used <= budget * (1 + EQUAL));
    if (place < 0) return null;
    const next = plans[place + 1];
    const part = tried.mixes && next ? (budget - plans[place].used) / (next.used - plans[place].used) : 0;
    const { ways: _, ...figures } = plans[place];
    if (part <= EQUAL) return { figures, ways: states[place] };
    const { ways: __, ...others } = next;
    const mixed = states[place].map((way, number) => {
      const other = states[place + 1][number];
      if (JSON.stringify(way) === JSON.stringify(other)) return way;
      return [...way.map(([share, on]) => [share * (1 - part), on]), ...other.map(([share, on]) => [share * part, on])];
    });
    return { figures: blend(figures, others, part), ways: mixed };
  }

  function sayProof(figures, proof) {
    const gap = Math.max(0, 1 - proof.bound / figures.objective);
    if (gap <= EQUAL) return ["proven optimal", "No plan within this budget can be better: proven."];
    const sizes = 10 ** (Math.min(0, Math.floor(Math.log10(100 * gap))) - (gap < 0.1 ? 1 : 0));
    const most = gap < 1e-5 ? formats.share(gap) : `${digits(Math.ceil(((100 * gap) / sizes) * (1 - EQUAL)) * sizes, 6)} %`;
    const alone = 1 - prove(figures.used).bound / figures.objective <= EQUAL;
    const first = alone ? fill(`Proven optimal for the ${words.used} that it uses. `, figures) : "";
    const than = fill("{bound:duration}", proof);
    const rest = `It is the best known here below this budget; no plan can be better than ${than}, at most ${most} lower.`;
    return [`best known, within ${most} of the bound`, first + rest];
  }

  function cell(tag, text, style, rows) {
    const made = document.createElement(tag);
    made.textContent = keep(text);
    made.className = style;
    if (rows > 1) made.rowSpan = rows;
    if (tag === "th") made.scope = rows === undefined ? "col" : rows > 1 ? "rowgroup" : "row";
    return made;
  }

  /* The ranges of epochs of a way: from which, to which, and the rest. */
  const range = (on, place) => [place ? on[place - 1][0] + 1 : 1, ...on[place]];

  function listPlan(table, found) {
    const shared = found.some((way) => way.length > 1);
    const [name, share, ...others] = words.columns;
    const head = document.createElement("tr");
    head.append(cell("th", name, ""), ...[...(shared ? [share] : []), ...others].map((each) => cell("th", each, "number")));
    table.tHead.replaceChildren(head);
    [...table.tBodies].forEach((body) => body.remove());
    found.slice(0, tried.listed).forEach((way, number) => {
      const body = table.createTBody();
      const rows = way.reduce((sum, [, on]) => sum + on.length, 0);
      way.forEach(([part, on], turn) => on.forEach((_, place) => {
        const [first, last, gpus, type, seconds] = range(on, place);
        const row = body.insertRow();
        if (!turn && !place) row.append(cell("th", classes[number], "", rows));
        if (shared && !place) row.append(cell("td", formats.share(part), "number", on.length));
        row.append(cell("td", first === last ? `${first}` : `${first} to ${last}`, "number"));
        row.append(cell("td", `${formats.gpus(gpus)} ${tried.types[type] ?? ""}`.trim(), "strong number"));
        row.append(cell("td", formats.duration(seconds), "number"));
      }));
    });
  }

  const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (text) => escape(text.length > 24 ? `${text.slice(0, 23)}…` : text);
  function drawWidths(figure, found) {
    const rows = found.flatMap((way, number) =>
      way.map(([part, on]) => [classes[number] + (way.length > 1 ? `, ${formats.share(part)}` : ""), on])).slice(0, 150);
    const bars = rows.flatMap(([, on], row) => on.map((_, place) => [...range(on, place), row, on.at(-1)[0]]));
    const paint = ([, , gpus, type]) => tried.colors[tried.types.length ? type : gpus];
    const size = ([first, last, , , , , epochs]) => (100 * (last - first + 1)) / epochs;
    const bar = figure.data.find((trace) => trace.type === "bar");
    figure.data = [bar, ...figure.data.filter((trace) => trace.type !== "bar")];
    Object.assign(bar, {
      base: bars.map(([first, , , , , , epochs]) => (100 * (first - 1)) / epochs),
      x: bars.map(size),
      y: bars.map(([, , , , , row]) => row),
      text: bars.map((each) => (size(each) >= 6 ? formats.gpus(each[2]) : "")),
      hovertext: bars.map(([first, last, gpus, , seconds]) =>
        `epochs ${first} to ${last}: ${formats.count(gpus)}, ${formats.duration(seconds)}`),
      marker: { ...bar.marker, color: bars.map((each) => paint(each)[0]) },
      textfont: { ...bar.textfont, color: bars.map((each) => paint(each)[1]) },
    });
    const labels = { tickvals: rows.map((_, row) => row), ticktext: rows.map(([name]) => short(name)) };
    figure.layout.yaxis = { ...figure.layout.yaxis, ...labels, range: [rows.length - 0.5, -0.5] };
  }

  function drawFrontier(figure, figures, said) {
    const mark = figure.data.find((trace) => trace.name === "this plan");
    const note = figure.layout.annotations?.find((each) => each.text.startsWith("<b>this plan"));
    if (!mark || !note) return;
    const y = (figures.objective * mark.y[0]) / plan.objective;
    const { xaxis, yaxis, xaxis2 } = figure.layout;
    const right = Math.max(xaxis.range[1], 1.08 * figures.used), grown = right / xaxis.range[1];
    xaxis.range = [xaxis.range[0], right];
    if (xaxis2) xaxis2.range = [xaxis2.range[0], xaxis2.range[1] * grown];
    yaxis.range = [yaxis.range[0], Math.max(yaxis.range[1], 1.2 * y)];
    const left = (figures.used - xaxis.range[0]) / (right - xaxis.range[0]) < 0.5;
    const above = left || (y - yaxis.range[0]) / (yaxis.range[1] - yaxis.range[0]) < 0.4;
    [mark.x, mark.y, mark.hovertext] = [[figures.used], [y], [said]];
    Object.assign(note, { x: figures.used, y, text: `<b>${said}</b>`, ax: left ? 10 : -10, ay: above ? -48 : 48 });
    Object.assign(note, { xanchor: left ? "left" : "right", yanchor: above ? "bottom" : "top", align: left ? "left" : "right" });
  }

  /* What the page was written with, to go back to. */
  const table = document.querySelector("#plan table");
  const cards = document.querySelector(".cards");
  const parts = [at("answer"), at("lead"), cards, table].filter(Boolean);
  const written = parts.map((part) => part.innerHTML);
  const pictures = ["chart-widths-1", "chart-budgets-1"].filter((id) => id in charts.figures);
  const drawn = structuredClone(Object.fromEntries(pictures.map((id) => [id, charts.figures[id]])));
  const plan = tried.figures, title = document.title;

  function restore() {
    parts.forEach((part, place) => (part.innerHTML = written[place]));
    pictures.forEach((id) => (charts.figures[id] = structuredClone(drawn[id])));
    [at("plan"), at("widths"), cards].forEach((part) => part && (part.hidden = false));
    delete document.body.dataset.moved;
    document.title = title;
  }

  function write(budget) {
    const proof = prove(budget), found = look(budget);
    const given = { budget, given: budget * tried.per, cost: budget * tried.usd };
    const none = [at("plan"), at("widths"), cards];
    document.body.dataset.moved = "";
    none.forEach((part) => part && (part.hidden = !found));
    const known = found || budget < bounds[0][0] * (1 - EQUAL);
    const [badge, lead] = found
      ? sayProof(found.figures, proof)
      : [known ? "no plan" : "not known here", fill(words.fewest, { budget: least })];
    const mark = at("lead").querySelector(".badge");
    mark.textContent = keep(badge);
    mark.className = `badge ${!found ? "bad" : badge.startsWith("proven") && !words.untried ? "good" : "fair"}`;
    at("lead").replaceChildren(mark, ` ${keep(`${lead} ${words.evidence}`)}`);
    const figures = { ...found?.figures, ...proof, ...given };
    at("answer").textContent = document.title = fill(found ? words.title : known ? words.none : words.unknown, figures);
    if (!found) return badge;
    const fifth = 1.2 * budget, next = prove(fifth).mixed;
    Object.assign(figures, { next, change: next / figures.objective - 1, gap: Math.max(0, 1 - proof.bound / figures.objective) });
    figures.bound = Math.min(proof.bound, figures.objective);
    figures.money = fill(words.amount, { budget: fifth, cost: fifth * tried.usd });
    for (const [key, , value, note] of words.cards) {
      const card = cards.querySelector(`[data-key="${key}"]`);
      if (!card) continue;
      card.querySelector(".value").textContent = fill(value, figures);
      card.querySelector(".note").textContent = fill(key === "price" && figures.less === null ? words.least : note, figures);
    }
    listPlan(table, found.ways);
    if (pictures.includes("chart-widths-1")) drawWidths(charts.figures["chart-widths-1"], found.ways);
    if (pictures.includes("chart-budgets-1")) drawFrontier(charts.figures["chart-budgets-1"], figures, fill("{objective:duration}", figures));
    return `${fill("{objective:duration}", figures)}, ${badge}`;
  }

  const [dial, number, says, link] = ["try-range", "try-number", "try-says", "try-link"].map(at);
  const command = at("try-command").textContent;
  let waiting = 0, now = 0;
  const turn = (one) => one && move(one.used * tried.per, at("try"));

  function move(amount, source) {
    const wrong = !(amount > 0 && Number.isFinite(amount));
    number.setAttribute("aria-invalid", String(wrong));
    if (wrong) return (says.textContent = "Write a number above zero.");
    const budget = amount / tried.per, own = Math.abs(amount - tried.own) <= EQUAL * tried.own;
    restore();
    now = budget;
    const reached = own ? fill("{objective:duration}, the plan that this page was written for", plan) : write(budget);
    says.textContent = `${fill(words.amount, { budget, cost: budget * tried.usd })}: ${keep(reached)}`;
    pictures.forEach(charts.redraw);
    const text = digits(amount, 11);
    if (source !== number) number.value = text;
    if (source !== dial) dial.value = amount;
    dial.setAttribute("aria-valuetext", says.textContent);
    link.href = own ? "#answer" : `#budget=${text}${tried.unit}`;
    at("try-command").textContent = command.replace(tried.amount, text);
    at("try-reset").disabled = own;
    /* A browser takes a page's address only so many times in half a minute. */
    clearTimeout(waiting);
    if (source) waiting = setTimeout(() => history.replaceState(null, "", own ? "#" : link.href), 300);
  }

  /* The budget that a link names, in the unit of the page or in that of its limits. */
  function follow() {
    const named = /^budget=([-+\d.,]*(?:e[+-]?\d+)?)(.*)$/i.exec(charts.named());
    if (!named) return;
    const amount = Number(named[1].replaceAll(",", ""));
    const factor = { [tried.base]: tried.per, [tried.unit]: 1 }[named[2].trim().toLowerCase() || tried.unit];
    if (factor) move(amount * factor, null);
    else says.textContent = `The link's budget is in ${named[2]}; this page counts in ${tried.unit}.`;
  }

  const step = 10 ** Math.floor(Math.log10(Math.max(most - least, 1e-3 * most) * tried.per / 50));
  dial.step = step;
  dial.min = step * Math.ceil((least * tried.per) / step - EQUAL);
  dial.max = Math.max(step * Math.ceil((most * tried.per) / step), tried.own);
  document.querySelectorAll("[data-stays], #budgets .scroll").forEach((part) => (part.dataset.of = words.stays));
  at("try-less").addEventListener("click", () => turn(plans.findLast((one) => one.used < now * (1 - EQUAL))));
  at("try-more").addEventListener("click", () => turn(plans.find((one) => one.used > now * (1 + EQUAL))));
  dial.addEventListener("input", () => move(Number(dial.value), dial));
  number.addEventListener("input", () => move(number.value === "" ? NaN : Number(number.value), number));
  at("try").addEventListener("submit", (event) => event.preventDefault());
  at("try").addEventListener("reset", (event) => {
    event.preventDefault();
    move(tried.own, at("try"));
  });
  window.addEventListener("hashchange", follow);
  at("try").hidden = false;
  move(tried.own, null);
  follow();
});
