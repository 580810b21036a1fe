"use strict";

/* Unpacks plotly.js, draws the charts from the data block of the page, and fits them to the paper while printing. */
(async function () {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (one) => one.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  /* The page's policy names this script by its content. */
  const plotly = document.createElement("script");
  plotly.textContent = await new Response(unpacked).text();
  document.head.append(plotly);

  const figures = JSON.parse(document.getElementById("figures").textContent);
  const ids = Object.keys(figures);

  for (const id of ids) {
    const { data, layout } = figures[id];
    Plotly.newPlot(id, data, layout, { responsive: true, displayModeBar: false, showTips: false });
  }

  function fit(width) {
    for (const id of ids) {
      const size = width === null ? { autosize: true, width: null } : { autosize: false, width: width(id) };
      Plotly.relayout(id, size);
    }
  }

  /* The page is laid out for paper only after this event, so the width has to be known beforehand: an A4 page or a
     letter between the margins that the style sheet sets; figures beside one another have half of it. */
  const paper = 660;
  window.addEventListener("beforeprint", () =>
    fit((id) => (document.getElementById(id).closest(".side-by-side") ? paper / 2 - 12 : paper))
  );
  window.addEventListener("afterprint", () => fit(null));
})();
