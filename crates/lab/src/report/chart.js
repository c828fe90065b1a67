"use strict";
{
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = v => v === 0 ? "0" : Math.abs(v) >= 1000 ? v.toLocaleString("en", { maximumFractionDigits: 0 }) : String(+v.toPrecision(3));
  const time = ns => [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].filter(([, of]) => Math.abs(ns) >= of || of === 1)
    .slice(0, 1).map(([unit, of]) => short(ns / of) + " " + unit)[0];
  const shows = { number: short, seconds: s => s ? time(s * 1e9) : "0 s", ns: time, megabytes: v => short(v / 1e6), percent: v => short(v) + "%" };
  const drawn = [];
  const draw = box => {
    const spec = JSON.parse(box.querySelector("script").textContent);
    const [x, y] = [shows[spec.x.show], shows[spec.y.show]];
    const tables = [], series = [{ label: spec.x.label, value: (u, v) => v == null ? "--" : x(v) }], bands = [];
    let below = null;
    spec.series.forEach((s, n) => {
      const colour = () => css("--c" + n % 8), at = series.length;
      const sum = spec.stacked && below ? s.y.map((v, i) => v + below[i]) : s.y;
      const own = new Map(s.x.map((v, i) => [v, s.y[i]]));
      const fill = () => spec.stacked ? `color-mix(in srgb, ${colour()} 80%, transparent)` : undefined;
      series.push({ label: s.name || spec.y.label, stroke: colour, width: spec.stacked ? 0.5 : 1.8, fill, spanGaps: true,
        paths: spec.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined, points: { show: s.x.length < 12 },
        value: (u, v, si, i) => v == null || i == null ? "--" : y(own.get(u.data[0][i]) ?? v) });
      tables.push([s.x, sum]);
      if (spec.stacked && below) bands.push({ series: [at, at - 1], fill });
      if (spec.stacked) below = sum;
      if (s.spread) {
        s.spread.forEach(edge => {
          series.push({ label: "", class: "hidden", stroke: "transparent", width: 0, spanGaps: true, points: { show: false } });
          tables.push([s.x, edge]);
        });
        bands.push({ series: [at + 2, at + 1], fill: () => `color-mix(in srgb, ${colour()} 22%, transparent)` });
      }
    });
    const axis = (of, show, more) => ({ stroke: () => css("--soft"), font: "12px system-ui, sans-serif",
      grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line") },
      ...(of.ticks.length ? { splits: () => of.ticks.map(t => t[0]), values: () => of.ticks.map(t => t[1]) }
        : { values: (u, list) => list.map(v => v == null ? "" : show(v)) }), ...more });
    const decades = (u, at, lo, hi) => Array.from({ length: Math.round(Math.log10(hi / lo)) + 1 }, (_, n) => lo * 10 ** n);
    const last = spec.x.to ?? null;
    const mark = u => {
      if (!spec.mark) return;
      const at = Math.round(u.valToPos(spec.mark[0], "x", true)), { top, height, left, width } = u.bbox, c = u.ctx;
      c.save();
      c.strokeStyle = c.fillStyle = css("--ink");
      c.setLineDash([6, 4]);
      c.beginPath(); c.moveTo(at, top); c.lineTo(at, top + height); c.stroke();
      c.textAlign = at > left + width * .6 ? "right" : "left";
      c.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
      c.fillText(spec.mark[1], at + (c.textAlign === "right" ? -6 : 6), top + 14 * devicePixelRatio);
      c.restore();
    };
    const u = new uPlot({ width: box.clientWidth, height: 230, series, bands, padding: [10, 20, 0, 0],
      scales: { x: { time: false, range: (u, lo, hi) => [lo, last ?? (hi > lo ? hi : lo + 1)] },
        y: spec.y.log ? { distr: 3, range: (u, lo, hi) => [10 ** Math.floor(Math.log10(lo || 1)), 10 ** Math.ceil(Math.log10(hi || 10))] } : { range: (u, lo, hi) => [Math.min(0, lo ?? 0), spec.y.to ?? ((hi ?? 0) * 1.05 || 1)] } },
      axes: [axis(spec.x, x, { label: spec.x.label, labelSize: 16, size: 30, labelFont: "12px system-ui, sans-serif", space: 60 }),
        axis(spec.y, y, { ...(spec.y.log ? { splits: decades, filter: (u, list) => list } : {}), size: (u, list) => Math.max(38, 18 + 7.4 * Math.max(...(list || [""]).map(v => String(v ?? "").length))) })],
      legend: { show: true }, cursor: { y: false }, hooks: { draw: [mark] } }, uPlot.join(tables), box);
    drawn.push(u);
    return u;
  };
  const plots = new Map();
  // A chart that is folded away has no width yet.
  const seen = new ResizeObserver(entries => entries.forEach(({ target }) => {
    const width = target.clientWidth;
    if (!width) return;
    if (!plots.has(target)) plots.set(target, draw(target));
    else if (plots.get(target).width !== width) plots.get(target).setSize({ width, height: 230 });
  }));
  document.querySelectorAll(".plot").forEach(box => seen.observe(box));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(u => u.redraw(false, true)));
}
