"use strict";
const atlas = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const base = atlas.schemes[0] ? atlas.schemes[0].name : "";
const time = ns => ns == null ? "-" : ns < 1e3 ? ns.toFixed(0) + " ns" : ns < 1e6 ? (ns / 1e3).toPrecision(3) + " us"
  : ns < 1e9 ? (ns / 1e6).toPrecision(3) + " ms" : (ns / 1e9).toPrecision(3) + " s";
const bytes = b => b == null ? "-" : b < 1 << 20 ? (b / 1024).toFixed(0) + " KiB" : b < 2 ** 30 ? (b / 2 ** 20).toFixed(1) + " MiB"
  : (b / 2 ** 30).toFixed(2) + " GiB";
const figures = [
  { key: "waf", name: "WAF", show: v => v == null ? "-" : v.toFixed(3) },
  { key: "write_mean_ns", name: "write latency, mean", show: time },
  { key: "write_p99_ns", name: "write latency, 99%", show: time },
  { key: "read_mean_ns", name: "read latency, mean", show: time },
  { key: "read_p99_ns", name: "read latency, 99%", show: time },
  { key: "map_bytes", name: "map memory", show: bytes },
];
const key = r => r.drive + "\n" + r.trace + "\n" + r.scheme;
const found = new Map(atlas.rows.map(r => [key(r), r]));
const ratio = (row, figure) => {
  const first = found.get(row.drive + "\n" + row.trace + "\n" + base);
  const value = row[figure], its = first && first[figure];
  return row.refused || value == null || !its ? null : value / its;
};
const node = (name, text, more) => Object.assign(document.createElement(name), { textContent: text }, more);
const options = (id, list, all) => {
  if (all) at(id).append(new Option(all, ""));
  list.forEach(([value, text]) => at(id).append(new Option(text || value, value)));
};
options("drive", atlas.drives.map(d => [d.name]));
options("figure", figures.map(f => [f.key, f.name]));
options("scheme", atlas.schemes.map(s => [s.name]), "all");
options("trace", atlas.traces.filter(t => !t.refused).map(t => [t.name]), "all");
const short = name => name.replace(/\.(xz|gz|zst)$/, "").replace(/\.[a-z0-9.]+$/i, "");
const sort = { by: "trace", up: true };
const chosen = () => {
  const [drive, scheme, trace, figure] = ["drive", "scheme", "trace", "figure"].map(id => at(id).value);
  return atlas.rows.filter(r => r.drive === drive && (!scheme || r.scheme === scheme) && (!trace || r.trace === trace)
    && (!at("steady").checked || r.steady) && (!at("loses").checked || ratio(r, figure) > 1.02));
};
const why = r => r.scheme + " on " + r.trace + ", " + r.drive + ": " + (r.refused
  || "WAF " + figures[0].show(r.waf) + ", writes " + time(r.write_mean_ns) + ", reads " + time(r.read_mean_ns)
  + (r.steady ? ", steady" : ", not steady: " + r.steady_reason));
function map(rows, figure) {
  at("map-title").textContent = figure.name + " on drive " + at("drive").value + ", as a multiple of " + base;
  const traces = atlas.traces.filter(t => rows.some(r => r.trace === t.name));
  const head = node("tr");
  head.append(node("th", "scheme"), ...traces.map(t => node("th", short(t.name), { title: t.name })));
  const lines = atlas.schemes.filter(s => rows.some(r => r.scheme === s.name)).map(s => {
    const line = node("tr");
    line.append(node("td", s.name, { title: s.line }));
    traces.forEach(t => {
      const row = rows.find(r => r.scheme === s.name && r.trace === t.name);
      const x = row && ratio(row, figure.key);
      const cell = node("td", x == null ? "-" : x.toFixed(2), { title: row ? why(row) : "" });
      if (x == null) cell.className = "none";
      else {
        const depth = Math.min(1, Math.abs(Math.log2(x)));
        cell.className = (x < 1 ? "less" : "more") + (row.steady ? "" : " moving");
        cell.style.setProperty("--depth", Math.round(depth * 60) + "%");
      }
      if (row) cell.onclick = () => { at("map-title").textContent = why(row); };
      line.append(cell);
    });
    return line;
  });
  at("map").replaceChildren(head, ...lines);
}
const columns = [
  ["scheme", "scheme", r => r.scheme], ["trace", "trace", r => short(r.trace)],
  ...figures.map(f => [f.name, f.key, r => r.refused ? "-" : f.show(r[f.key])]),
  ["of the baseline", "ratio", r => r.ratio == null ? "-" : r.ratio.toFixed(2) + "x"],
  ["steady", "steady", r => r.refused ? "-" : r.steady ? "yes" : "no"],
  ["drive", "logical_bytes", r => r.refused ? "-" : bytes(r.logical_bytes)],
  ["requests", "requests", r => r.refused ? "-" : r.requests.toLocaleString("en")],
  ["verified sectors", "verified_sectors", r => r.refused ? "-" : r.verified_sectors.toLocaleString("en")],
  ["why not", "refused", r => r.refused || (r.steady ? "" : r.steady_reason)],
];
function runs(rows, figure) {
  rows = rows.map(r => ({ ...r, ratio: ratio(r, figure.key) }));
  const value = r => r[sort.by] == null || r.refused && sort.by !== "scheme" && sort.by !== "trace" ? null : r[sort.by];
  rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x == null || y == null) return (x == null) - (y == null);
    return (x < y ? -1 : x > y ? 1 : 0) * (sort.up ? 1 : -1);
  });
  at("count").textContent = rows.length.toLocaleString("en") + " rows.";
  const head = node("tr");
  columns.forEach(([name, by]) => {
    const cell = node("th", name, { tabIndex: 0 });
    if (by === sort.by) cell.setAttribute("aria-sort", sort.up ? "ascending" : "descending");
    cell.onclick = () => { sort.up = sort.by === by ? !sort.up : true; sort.by = by; show(); };
    cell.onkeydown = e => { if (e.key === "Enter") cell.onclick(); };
    head.append(cell);
  });
  at("runs").replaceChildren(head, ...rows.map(r => {
    const line = node("tr");
    columns.forEach(([, by, text]) => line.append(node("td", text(r), { className: by === "refused" ? "words" : "" })));
    return line;
  }));
  const quoted = v => v == null ? "" : /[",\n]/.test(v) ? '"' + String(v).replaceAll('"', '""') + '"' : v;
  const keys = ["drive", ...columns.map(c => c[1])];
  at("csv").href = "data:text/csv;charset=utf-8," + encodeURIComponent(
    [keys, ...rows.map(r => keys.map(k => quoted(r[k])))].map(l => l.join(",")).join("\n") + "\n");
}
function show() {
  const figure = figures.find(f => f.key === at("figure").value), rows = chosen();
  map(rows, figure);
  runs(rows, figure);
}
document.querySelector(".filters").oninput = show;
show();
