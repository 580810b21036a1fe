"use strict";

/* One amount to try on a page: dial, number, buttons and link, and what they show. The page has a plan for each of some
   amounts, as parts to put in place of its own; one that is served has others solved for. */
(function () {
  const at = (id) => document.getElementById(id);
  const tried = JSON.parse(at("tried").textContent);
  const { words } = tried;
  const EQUAL = 1e-9;

  /* Figures as optplan.reporting.phrases writes them. */
  const digits = (number, count) => String(Number(number.toPrecision(count)));
  const commas = (number, decimals = 0) =>
    number.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const two = (number) => String(number).padStart(2, "0");
  const formats = {
    cost: (usd) => (usd === 0 ? "$0" : usd < 0.01 ? `$${digits(usd, 3)}` : `$${commas(usd, usd >= 1000 ? 0 : usd >= 1 ? 2 : 3)}`),
    count: (gpus) => `${formats.gpus(gpus)} GPU${formats.gpus(gpus) === "1" ? "" : "s"}`,
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
  };
  const keep = (text) => text.replace(/(?<=\d) (?=(?:ms|s|min|h|d|%|GPUs?)(?!\w))/g, "\u00a0");
  const write = (frame, figures) =>
    frame.replace(/\{(\w+):(\w+)\}/g, (whole, name, format) =>
      format in formats && name in figures ? formats[format](figures[name]) : whole);
  const fill = (frame, figures) => keep(write(frame, figures));

  /* The parts of the page that another plan has in its own way, and the charts that show where it lies. */
  const parts = ["header", ".cards-section", ...tried.parts.map((id) => `#${id}`)];
  const marked = ["chart-budgets-1", "chart-frontier-1"].filter((id) => id in charts.figures);
  const list = () => parts.map((part) => document.querySelector(part)).filter(Boolean);
  const held = [...list().flatMap((part) => [...part.querySelectorAll(".chart")].map((chart) => chart.id)), ...marked];
  const copy = () => structuredClone(Object.fromEntries(held.map((id) => [id, charts.figures[id]])));
  const written = { html: list().map((part) => part.outerHTML).join(""), figures: copy(), title: document.title };
  const figuresAt = (amount) => ({ budget: amount, given: amount * tried.per });
  for (const part of document.querySelectorAll("[data-stays]"))
    part.dataset.of = write(words.stays, figuresAt(tried.own / tried.per));

  /* Puts parts in place of those that are there; charts are drawn anew in their places. */
  function show({ html, figures }) {
    const next = new DOMParser().parseFromString(html, "text/html");
    for (const name of parts) {
      const [part, other] = [document.querySelector(name), next.querySelector(name)];
      if (part) part.hidden = !other;
      if (!part || !other) continue;
      for (const place of other.querySelectorAll(".chart")) {
        const drawn = at(place.id);
        place.replaceChildren();
        if (!drawn) continue;
        drawn.style.height = place.style.height;
        place.replaceWith(drawn);
      }
      part.replaceWith(other);
    }
    Object.assign(charts.figures, structuredClone(figures));
  }

  function restore() {
    show(written);
    delete document.body.dataset.moved;
    document.title = written.title;
  }

  /* Says that there is no plan for an amount: that none keeps it, or that none is known here. */
  function miss(isProven, amount, least) {
    const badge = isProven ? "no plan" : "not known here";
    document.body.dataset.moved = "";
    for (const name of parts.slice(1)) document.querySelector(name)?.setAttribute("hidden", "");
    judge(badge, "bad", fill(words.fewest, figuresAt(least)));
    at("answer").textContent = document.title = fill(isProven ? words.none : words.unknown, figuresAt(amount));
    return badge;
  }

  function judge(badge, kind, lead) {
    const mark = at("lead").querySelector(".badge");
    mark.textContent = keep(badge);
    mark.className = `badge ${kind}`;
    at("lead").replaceChildren(mark, ` ${keep(lead)}`);
  }

  /* Moves the mark of the plan among all, with its label, and the line of what is asked for. */
  function place(state, amount) {
    const chart = marked.find((id) => !at(id).closest("[data-stays]"));
    const { data, layout } = charts.figures[chart] ?? {}, mark = data?.find((trace) => trace.mode === "markers");
    if (!mark || !tried.plan) return;
    const across = mark.x[0] / tried.plan.used;
    const [x, y] = [state.used * across, (state.objective * mark.y[0]) / tried.plan.objective];
    Object.assign(mark, { x: [x], y: [y], hovertext: [state.says] });
    for (const line of (layout.shapes ?? []).filter((shape) => shape.x0 === shape.x1)) line.x0 = line.x1 = amount * across;
    const note = layout.annotations?.find((each) => each.showarrow);
    if (note) label(note, x, y, state.says, layout);
  }

  /* Puts a label where there is room for it, and makes some in the chart for what lies beyond its axes. */
  function label(note, x, y, says, { xaxis, yaxis, xaxis2 }) {
    const grown = Math.max(1, (1.08 * x) / xaxis.range[1]);
    for (const axis of [xaxis, xaxis2].filter(Boolean)) axis.range = [axis.range[0], axis.range[1] * grown];
    yaxis.range = [yaxis.range[0], Math.max(yaxis.range[1], 1.3 * y)];
    const left = x - xaxis.range[0] < (xaxis.range[1] - xaxis.range[0]) / 2, side = left ? "left" : "right";
    Object.assign(note, { x, y, text: `<b>${says}</b>`, ax: left ? 10 : -10, ay: -48 });
    Object.assign(note, { xanchor: side, align: side, yanchor: "bottom" });
  }

  /* Shows the plan of a state for an amount, which may be more than it was made for. */
  function settle(state, amount) {
    show(state);
    document.body.dataset.moved = "";
    at("answer").textContent = document.title = fill(at("answer").textContent, figuresAt(amount));
    if (state.used === undefined) return state.says;
    place(state, amount);
    if (state.holds || amount <= state.amount * (1 + EQUAL)) return `${state.says}, ${state.badge}`;
    judge("best known here", "fair", fill(words.less, figuresAt(state.amount)));
    return `${state.says}, best known here`;
  }

  /* Makes the page move, by buttons from plan to plan; for an amount without one it shows that of the next lesser. */
  function start(states) {
    const stops = states.map((state) => state.amount), around = stops.length < 2 ? 4 : 1;
    const [least, most] = [stops[0] / around, stops.at(-1) * around];
    const [dial, number, says, link] = ["try-range", "try-number", "try-says", "try-link"].map(at);
    const command = at("try-command").textContent, solved = new Map();
    let waiting = 0, now = 0;
    const turn = (stop) => stop && move(stop * tried.per, at("try"));
    const say = (text) => (says.textContent = keep(text));

    function move(amount, source) {
      const wrong = !(amount > 0 && amount < 1e15);
      number.setAttribute("aria-invalid", String(wrong));
      if (wrong) return say("Write a number above zero.");
      const text = digits(amount, 11), own = Math.abs(amount - tried.own) <= EQUAL * tried.own;
      restore();
      now = amount / tried.per;
      const state = solved.get(text) ?? states.findLast((one) => one.amount <= now * (1 + EQUAL));
      const reached = own ? words.own : state ? settle(state, now) : miss(tried.exact, now, stops[0]);
      say(`${fill(words.amount, figuresAt(now))}: ${reached}`);
      held.forEach(charts.redraw);
      if (source !== number) number.value = text;
      if (source !== dial) dial.value = amount;
      dial.setAttribute("aria-valuetext", says.textContent);
      link.href = own ? "#answer" : `#${tried.name}=${text}${tried.unit}`;
      at("try-command").textContent = command.replace(tried.amount, text);
      at("try-reset").disabled = own;
      at("try-solve").disabled = own || solved.has(text);
      /* A browser takes a page's address only so many times in half a minute. */
      clearTimeout(waiting);
      if (source) waiting = setTimeout(() => history.replaceState(null, "", own ? "#" : link.href), 300);
    }

    /* Asks what serves the page for the plan of an amount; the page may have moved on when it comes. */
    async function solve() {
      const asked = now, text = digits(asked * tried.per, 11);
      const after = (done) => Math.abs(now - asked) <= EQUAL * asked && done();
      at("try-solve").disabled = true;
      say(`${fill(words.amount, figuresAt(asked))}: solving …`);
      try {
        const answer = await (await fetch(`solve?amount=${encodeURIComponent(text)}`)).json();
        if (answer.html) solved.set(text, answer);
        after(() => (answer.html ? move(asked * tried.per, at("try")) : say(answer.says)));
      } catch {
        after(() => say("What serves this page does not answer any more: it stands as it was."));
      }
    }

    /* The amount that a link names, in one of the units that it may be in. */
    function follow() {
      const named = new RegExp(`^${tried.name}=([-+\\d.,]*(?:e[+-]?\\d+)?)(.*)$`, "i").exec(charts.named());
      if (!named) return;
      const factor = tried.units[named[2].trim().toLowerCase() || tried.unit];
      if (factor) move(Number(named[1].replaceAll(",", "")) * factor, null);
      else say(`The link's ${tried.name} is in ${named[2]}; this page counts in ${tried.unit}.`);
    }

    const step = 10 ** Math.floor(Math.log10(Math.max(most - least, 1e-3 * most) * tried.per / 50));
    dial.step = step;
    dial.min = step * Math.ceil((least * tried.per) / step - EQUAL);
    dial.max = Math.max(step * Math.ceil((most * tried.per) / step), tried.own);
    at("try-less").addEventListener("click", () => turn(stops.findLast((stop) => stop < now * (1 - EQUAL))));
    at("try-more").addEventListener("click", () => turn(stops.find((stop) => stop > now * (1 + EQUAL))));
    at("try-solve").addEventListener("click", solve);
    at("try-solve").hidden = !tried.serves;
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
  }

  charts.ready.then(() => charts.inflate(tried.states)).then((states) => start(JSON.parse(states)));
})();
