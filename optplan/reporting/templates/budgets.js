"use strict";

/* Moves the page along the frontier that lies in it: another budget's texts, figures, plan and pictures. Between two
   plans a mixed problem has shares of both; a pure one keeps the lesser, with how far it may be from the best. */
charts.ready.then(function () {
  const { EQUAL, at, digits, fill, formats, keep, tried } = control;
  const { words, plans, bounds, classes, figures: plan } = tried;
  const [least, most] = [plans[0].used, Math.max(plans.at(-1).used, bounds.at(-1)[0])];
  const ways = [];
  const states = plans.map((plan) => [...Object.assign(ways, plan.ways)]);

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
    if (!figure) return;
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
    const mark = figure?.data.find((trace) => trace.name === "this plan");
    const note = figure?.layout.annotations?.find((each) => each.text.startsWith("<b>this plan"));
    if (!mark || !note) return;
    const y = (figures.objective * mark.y[0]) / plan.objective;
    const { xaxis, yaxis, xaxis2 } = figure.layout;
    const right = Math.max(xaxis.range[1], 1.08 * figures.used), grown = right / xaxis.range[1];
    xaxis.range = [xaxis.range[0], right];
    if (xaxis2) xaxis2.range = [xaxis2.range[0], xaxis2.range[1] * grown];
    yaxis.range = [yaxis.range[0], Math.max(yaxis.range[1], 1.2 * y)];
    const part = (figures.used - xaxis.range[0]) / (right - xaxis.range[0]), left = part < 0.5;
    const above = left || (y - yaxis.range[0]) / (yaxis.range[1] - yaxis.range[0]) < 0.4;
    [mark.x, mark.y, mark.hovertext] = [[figures.used], [y], [said]];
    Object.assign(note, { x: figures.used, y, text: `<b>${said}</b>`, ax: left ? 10 : Math.min(40, 150 * (1 - part)), ay: above ? -48 : 48 });
    Object.assign(note, { xanchor: left ? "left" : "right", yanchor: above ? "bottom" : "top", align: left ? "left" : "right" });
  }

  function write(budget) {
    const proof = prove(budget), found = look(budget);
    if (!found) return control.miss(budget < bounds[0][0] * (1 - EQUAL), budget, least);
    document.body.dataset.moved = "along";
    const [badge, lead] = sayProof(found.figures, proof);
    control.judge(badge, badge.startsWith("proven") && !words.untried ? "good" : "fair", `${lead} ${words.evidence}`);
    const figures = { ...found.figures, ...proof, ...control.figuresAt(budget) };
    at("answer").textContent = document.title = fill(words.title, figures);
    const fifth = 1.2 * budget, next = prove(fifth).mixed;
    Object.assign(figures, { next, change: next / figures.objective - 1, gap: Math.max(0, 1 - proof.bound / figures.objective) });
    figures.bound = Math.min(proof.bound, figures.objective);
    figures.money = fill(words.amount, control.figuresAt(fifth));
    for (const [key, , value, note] of words.cards) {
      const card = document.querySelector(`.cards [data-key="${key}"]`);
      if (!card) continue;
      card.querySelector(".value").textContent = fill(value, figures);
      card.querySelector(".note").textContent = fill(key === "price" && figures.less === null ? words.least : note, figures);
    }
    listPlan(document.querySelector("#plan table"), found.ways);
    drawWidths(charts.figures["chart-widths-1"], found.ways);
    mark(figures);
    return `${fill("{objective:duration}", figures)}, ${badge}`;
  }

  document.querySelector("#budgets .scroll").dataset.of = words.stays;
  const mark = (figures) => drawFrontier(charts.figures["chart-budgets-1"], figures, fill("{objective:duration}", figures));
  control.start({ least, most, stops: plans.map((one) => one.used), write, mark });
});
