"use strict";

/* Unpacks plotly.js, draws the charts from the data block of the page, those in folded parts when these are opened, and
   opens everything and fits it to the paper while printing. Other scripts of the page change `charts.figures`, and
   have them drawn again. */
const charts = (function () {
  const read = (page) => JSON.parse(page.getElementById("figures").textContent);
  let figures = read(document);
  const drawn = new Set();
  const place = (id) => document.getElementById(id);

  async function inflate(text) {
    const packed = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  async function unpack() {
    /* The page's policy names this script by its content. */
    const plotly = document.createElement("script");
    plotly.textContent = await inflate(place("plotly").textContent);
    document.head.append(plotly);
    list(document).forEach(draw);
  }

  /* The charts in a part of the page that can be seen, once it is open. */
  function list(part) {
    const found = [...part.querySelectorAll(".chart")].map((chart) => chart.id);
    return found.filter((id) => id in figures && !place(id).closest("details:not([open])"));
  }

  function draw(id) {
    const { data, layout } = figures[id];
    Plotly.react(id, data, layout, { responsive: true, displayModeBar: false, showTips: false });
    drawn.add(id);
  }

  function fit(width) {
    for (const id of drawn) {
      const size = width === null ? { autosize: true, width: null } : { autosize: false, width: width(id) };
      Plotly.relayout(id, size);
    }
  }

  const ready = unpack();
  for (const part of document.querySelectorAll("details")) {
    part.addEventListener("toggle", () =>
      ready.then(() => list(part).forEach((id) => (drawn.has(id) ? Plotly.Plots.resize(place(id)) : draw(id))))
    );
  }

  /* Browsers that do not open what a link leads into. */
  function named() {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  }
  const reveal = () => place(named())?.closest("details")?.setAttribute("open", "");
  window.addEventListener("hashchange", reveal);
  reveal();

  /* The page is laid out for paper only after this event, so the width has to be known beforehand: an A4 page or a
     letter between the margins that the style sheet sets; figures beside one another have half of it. */
  const paper = 660;
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((part) => (part.open = true));
    list(document).filter((id) => !drawn.has(id)).forEach(draw);
    fit((id) => (place(id).closest(".side-by-side") ? paper / 2 - 12 : paper));
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((part) => (part.open = false));
    fit(null);
  });

  return {
    get figures() {
      return figures;
    },
    inflate,
    named,
    ready,
    redraw: (id) => id in figures && place(id)?.closest("details:not([open]), [hidden]") === null && draw(id),
    /* Draws the figures of another page, whose places have taken those of this one. */
    take(page) {
      figures = read(page);
      list(document).forEach(draw);
    },
  };
})();
