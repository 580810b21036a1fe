"use strict";

/* Lets readers sort tables, and has a page that is served follow what it shows. */
(async function () {
  const sorted = {};

  /* Numbers first, with what a table writes around them; what is not known comes last. */
  function read(row, column) {
    const text = row.cells[column].textContent.trim();
    const number = Number.parseFloat(text.replace(/[$,]/g, ""));
    return /^[-$]?[\d.]/.test(text) && !Number.isNaN(number) ? [0, number] : text === "-" || !text ? [2, ""] : [1, text];
  }

  function sort(table, column, down) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [read(row, column), row]);
    rows.sort(([[kind, a]], [[other, b]]) =>
      kind !== other || kind === 2 ? kind - other : (down ? -1 : 1) * (kind ? a.localeCompare(b) : a - b)
    );
    body.append(...rows.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((cell, place) =>
      cell.setAttribute("aria-sort", place !== column ? "none" : down ? "descending" : "ascending")
    );
    sorted[table.caption.textContent.split(" ")[0]] = [column, down];
  }

  function makeSortable() {
    for (const table of document.querySelectorAll("table.sortable")) {
      [...table.tHead.rows[0].cells].forEach((cell, column) => {
        const button = document.createElement("button");
        button.append(...cell.childNodes);
        button.addEventListener("click", () => sort(table, column, cell.getAttribute("aria-sort") === "ascending"));
        cell.append(button);
      });
      const before = sorted[table.caption.textContent.split(" ")[0]];
      if (before) sort(table, ...before);
    }
  }

  makeSortable();

  const live = document.getElementById("live");
  if (!live) return;
  await charts.ready;

  /* What readers have before them stays: charts are drawn anew in place, rows stay sorted, boxes scrolled, parts open. */
  function replace(next) {
    const boxes = [...document.querySelectorAll(".scroll")].map((box) => [box.ariaLabel, box.scrollLeft, box.scrollTop]);
    const focused = document.activeElement && document.activeElement.textContent;
    for (const part of document.querySelectorAll("details[open] > section"))
      next.getElementById(part.id)?.parentElement.setAttribute("open", "");
    for (const place of next.querySelectorAll(".chart")) {
      const drawn = document.getElementById(place.id);
      if (!drawn) continue;
      drawn.style.height = place.style.height;
      place.replaceWith(drawn);
    }
    document.getElementById("main").replaceWith(next.getElementById("main"));
    document.title = next.title;
    makeSortable();
    charts.take(next);
    for (const [label, left, top] of boxes) {
      const box = [...document.querySelectorAll(".scroll")].find((one) => one.ariaLabel === label);
      if (box) box.scrollTo(left, top);
    }
    const button = [...document.querySelectorAll("th button, summary")].find((one) => one.textContent === focused);
    if (button) button.focus({ preventScroll: true });
  }

  let version = null;
  for (;;) {
    do await new Promise((done) => setTimeout(done, 2000)); while (document.hidden);
    try {
      const state = await (await fetch("state")).json();
      live.textContent = state.said;
      live.classList.toggle("warning", state.alarm);
      if (version !== state.version)
        replace(new DOMParser().parseFromString(await (await fetch("page")).text(), "text/html"));
      version = state.version;
    } catch {
      live.textContent = "What serves this page does not answer any more: it stands as it was.";
      live.classList.add("warning");
    }
  }
})();
