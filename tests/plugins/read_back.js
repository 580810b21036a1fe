/* What the charts of a page have drawn against the data that lie in the page: how many shapes were compared, and which
   are elsewhere. Boxes and places of the SVG, in pixels, against the data on the scales of the axes; of what lies
   outside the axes only that it does, of stacked bars the lengths, of stacked areas nothing. */
(() => {
  const arrays = {
    f8: Float64Array, f4: Float32Array, i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array,
    i4: Int32Array, u4: Uint32Array,
  };
  function unpack(values) {
    if (!values || !values.bdata) return values;
    return [...new arrays[values.dtype](Uint8Array.from(atob(values.bdata), (one) => one.charCodeAt(0)).buffer)];
  }

  const is = (value) => value !== null && value !== undefined;
  const ends = (values) => [Math.min(...values), Math.max(...values)];
  let compared = 0;
  const wrong = [];

  function compare(id, layout, trace, index, group) {
    const axes = ["x", "y"].map((of) => layout[(trace[of + "axis"] ?? of).replace(of, of + "axis")]);
    const inside = (pixel, axis) => Math.min(Math.max(pixel, 0), axis._length);
    const same = (one, other, axis) => Math.abs(inside(one, axis) - inside(other, axis)) < 1.5;
    const seen = (point) => axes.every((axis, of) => point[of] > -1 && point[of] < axis._length + 1);
    function expect(holds, what) {
      compared += 1;
      if (!holds) wrong.push(`${id}, ${trace.name ?? index}: ${what}`);
    }

    function compareBars(xs, ys) {
      const flat = trace.orientation === "h", axis = axes[flat ? 0 : 1], bases = unpack(trace.base) ?? 0;
      const stacked = !("base" in trace) && ["stack", "relative"].includes(layout.barmode);
      const bars = [...group.querySelectorAll(".point > path")].map((path) => path.getBBox());
      expect(bars.length === xs.length, `${bars.length} bars of ${xs.length}`);
      bars.forEach((bar, place) => {
        const base = Array.isArray(bases) ? bases[place] : bases;
        const [from, to] = [axis.d2p(base), axis.d2p(base + (flat ? xs : ys)[place])];
        const [start, end] = flat ? [bar.x, bar.x + bar.width] : [bar.y + bar.height, bar.y];
        if (Math.abs(from - to) < 1.5) return;
        const isLong = Math.abs(Math.abs(start - end) - Math.abs(from - to)) < 1.5;
        const fits = stacked ? isLong : same(start, from, axis) && same(end, to, axis);
        expect(fits, `bar ${place} is ${[start, end]}, not ${[from, to]}`);
      });
    }

    function compareMarks(points) {
      const due = points.filter(seen);
      const marks = [...group.querySelectorAll(".points path.point")]
        .map((mark) => mark.getAttribute("transform").match(/-?[\d.]+/g).map(Number))
        .filter(seen);
      expect(marks.length === due.length, `${marks.length} marks of ${due.length}`);
      marks.slice(0, due.length).forEach((mark, place) => {
        const fits = mark.every((pixel, of) => same(pixel, due[place][of], axes[of]));
        expect(fits, `mark ${place} is at ${mark}, not ${due[place]}`);
      });
    }

    function compareLine(points, kind) {
      const due = [0, 1].map((of) => ends(points.map((point) => point[of])));
      if (due.every(([least, most]) => most - least < 1.5)) return;
      const boxes = [...group.querySelectorAll(kind)].map((one) => one.getBBox());
      const drawn = [
        ends(boxes.flatMap((one) => [one.x, one.x + one.width])),
        ends(boxes.flatMap((one) => [one.y, one.y + one.height])),
      ];
      const fits = [0, 1].every((of) => [0, 1].every((end) => same(drawn[of][end], due[of][end], axes[of])));
      expect(boxes.length && fits, `the line is in ${drawn}, not ${due}`);
    }

    if (trace.visible === false || trace.stackgroup) return;
    const [xs, ys] = [unpack(trace.x), unpack(trace.y)];
    const [start, step] = [axes[0].d2c(trace.x0 ?? 0), trace.dx ?? 1];
    const points = (xs ?? ys)
      .map((_, place) => [xs ? xs[place] : start + place * step, ys[place], place])
      .filter((point) => point.every(is))
      .map(([x, y, place]) => [axes[0].d2p(x), axes[1].d2p(y), place]);
    const texts = points.filter((point) => seen(point) && (Array.isArray(trace.text) ? trace.text[point[2]] : trace.text));
    const mode = trace.mode ?? "lines+markers";
    if (!group) return points.length && expect(false, "not drawn");
    if (trace.type === "bar") return compareBars(xs, ys);
    if (mode.includes("text")) expect(group.querySelectorAll(".textpoint text").length >= texts.length, "no text");
    if (mode.includes("markers")) compareMarks(points);
    if (mode.includes("lines")) compareLine(points, ".js-line");
    if (mode === "none" && points.length) compareLine(points, ".js-fill");
  }

  for (const [id, figure] of Object.entries(JSON.parse(document.getElementById("figures").textContent))) {
    const chart = document.getElementById(id), groups = {};
    for (const group of chart.querySelectorAll(".scatterlayer .trace, .barlayer .trace"))
      groups[group.__data__[0].trace.index] = group;
    figure.data.forEach((trace, index) => compare(id, chart._fullLayout, trace, index, groups[index]));
  }
  return [compared, wrong];
})()
