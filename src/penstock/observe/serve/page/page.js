// Ask for the figures every two seconds while the page is seen, and show them.
"use strict";

const EVERY_MS = 2000;
const WORST = 8;
const byId = (id) => document.getElementById(id);
let plots = {};
let last = null;
let answeredAtMs = 0;

function plotOptions(series, element, extra) {
  const text = parts.colour("--soft");
  const axis = { stroke: text, grid: { stroke: parts.colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const short = (self, values) => values.map((value) => value === null ? "" : parts.number(value));
  const clock = (self, values) => values.map(parts.clock);
  return {
    width: Math.max(200, element.clientWidth), height: 138, series,
    cursor: { y: false }, legend: { live: true },
    scales: { x: { time: !extra.byNumber }, y: { range: (self, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [{ ...axis, size: 26, space: 84, values: extra.byNumber ? short : clock }, { ...axis, size: 56, values: short }],
  };
}

function line(label, colour, format) {
  const shown = (self, value) => value === null || value === undefined ? "–" : format(value);
  return { label, stroke: parts.colour(colour), width: 2, points: { show: false }, fill: colour === "--one" ? parts.colour("--one") + "1c" : undefined, value: shown };
}

function time() {
  return { label: "at", value: (self, value) => value ? parts.clock(value) : "–" };
}

function phases() {
  const bars = uPlot.paths.bars({ size: [0.8, 40] });
  // Each bar is drawn over the longer one below it, so a value is the difference to the series after it.
  const one = (label, colour, number) => ({
    label, stroke: parts.colour(colour), fill: parts.colour(colour), width: 0, paths: bars, points: { show: false },
    value: (self, value, at, index) => index === null || index === undefined || value === null ? "–"
      : parts.number(value - (number < 3 ? self.data[number + 1][index] : 0)) + " ms",
  });
  return [{ label: "batch", value: (self, value) => value ?? "–" }, one("tasks, rest", "--one", 1), one("splits", "--three", 2), one("offsets", "--two", 3)];
}

function makePlots() {
  for (const plot of Object.values(plots)) plot.destroy();
  const make = (id, series, extra = {}) => new uPlot(plotOptions(series, byId(id), extra), series.map(() => []), byId(id));
  plots = {
    lag: make("plot-lag", [time(), line("lag", "--one", parts.number), line("readable", "--two", parts.number)]),
    rates: make("plot-rates", [time(), line("read", "--one", parts.number), line("written", "--two", parts.number)]),
    skew: make("plot-skew", [time(), line("oldest unread", "--one", parts.duration), line("skew", "--two", parts.duration)]),
    batches: make("plot-batches", phases(), { byNumber: true }),
  };
  for (const canvas of document.querySelectorAll(".plot canvas")) canvas.setAttribute("aria-hidden", "true");
  if (last) showPlots(last);
}

function showPlots(data) {
  const of = (name) => data.history.map((each) => each[name]);
  const at = of("at_ms").map((ms) => ms / 1000);
  plots.lag.setData([at, of("lag_records"), of("readable_records")]);
  plots.rates.setData([at, of("read_per_second"), of("written_per_second")]);
  plots.skew.setData([at, of("lag_seconds"), of("skew_seconds")]);
  const batches = data.batches;
  byId("plot-batches").parentElement.hidden = data.totals["continuous.tasks"] !== undefined;
  plots.batches.setData([
    batches.map((each) => each.number),
    batches.map((each) => each.latest_offset_ms + each.partitions_ms + each.rest_ms),
    batches.map((each) => each.latest_offset_ms + each.partitions_ms),
    batches.map((each) => each.latest_offset_ms),
  ]);
  requestAnimationFrame(showNewest);  // after uPlot has taken the data
}

// Show the newest values in each legend, while the pointer is elsewhere.
function showNewest() {
  for (const plot of Object.values(plots)) {
    if (!(plot.cursor.left >= 0)) plot.setLegend({ idx: plot.data[0].length - 1 });
  }
}

function showHead(data) {
  const report = data.report;
  byId("title").textContent = data.title;
  byId("group").textContent = data.group ? "· group " + data.group : "";
  document.title = (report ? report.health + " · " : "") + data.title + " · penstock";
  const health = byId("health");
  const word = report ? report.health : "no batch yet";
  if (health.textContent !== word) health.textContent = word;
  health.className = "pill " + (report ? parts.tone(report.health) : "");
  const said = data.sentences;
  const reasons = byId("reasons");
  reasons.hidden = said.length === 0;
  reasons.className = "reasons " + (report && parts.tone(report.health) === "bad" ? "" : "warn");
  reasons.replaceChildren(...said.map((text) => parts.element("li", parts.sentence(text))));
}

function showTiles(data) {
  const report = data.report, rates = report && report.rates, totals = data.totals;
  const bad = ["failed", "skipped", "deadLetters", "ignored"].map((name) => totals["decodeErrors." + name]).filter((each) => each !== undefined);
  byId("tiles").replaceChildren(...parts.figureItems([
    ["Lag", parts.number(report && report.lag_records)],
    ["Oldest unread", parts.duration(report && report.lag_seconds)],
    ["Caught up in", parts.duration(rates && rates.catch_up_seconds)],
    ["Read per second", parts.number(rates && rates.read_per_second)],
    ["Written per second", parts.number(rates && rates.written_per_second)],
    ["Event-time skew", parts.duration(report && report.event_time_skew_seconds)],
    ["Idle for", totals.sourceIdleTime ? parts.duration(totals.sourceIdleTime / 1000) : "–"],
    ["Decode errors", bad.length ? parts.number(bad.reduce((sum, each) => sum + each, 0)) : "–", bad.some(Boolean) ? "bad" : ""],
    ...(totals["continuous.tasks"] === undefined ? [] : [
      ["Tasks running", totals["continuous.tasksBegun"] + " of " + totals["continuous.tasks"], totals["continuous.tasksBegun"] < totals["continuous.tasks"] ? "warn" : ""],
      ["Jobs failed", parts.number(totals["continuous.failedJobs"]), totals["continuous.failedJobs"] ? "warn" : ""],
    ]),
  ]));
}

function showMap(data) {
  const rows = data.report ? data.report.topic_partitions : [];
  const most = Math.max(0, ...rows.map((row) => row.lag_records));
  const map = byId("map");
  map.classList.toggle("few", rows.length <= 24);
  while (map.childElementCount > rows.length) map.lastChild.remove();
  while (map.childElementCount < rows.length) map.append(parts.element("i"));
  rows.forEach((row, index) => {
    const cell = map.children[index];
    cell.className = "l" + parts.level(row.lag_records, most) + (row.health === "OK" ? "" : " flag");
    cell.title = row.topic + "-" + row.partition + ": " + parts.number(row.lag_records) + " records, " + row.health;
  });
  const wrong = rows.filter((row) => row.health !== "OK").length;
  const leftOut = data.report ? data.report.topic_partitions_left_out : 0;
  byId("map-note").textContent = rows.length + " shown" + (leftOut ? ", " + leftOut + " with less lag are only in the totals" : "") + (wrong ? ", " + wrong + " not OK (framed)" : "");
  map.setAttribute("aria-label", "Lag of " + rows.length + " topic partitions, at most " + parts.number(most) + " records; " + wrong + " are not OK");
  byId("map-most").textContent = parts.number(most) + " records";
  const worst = [...rows].sort((a, b) => (b.health !== "OK") - (a.health !== "OK") || b.lag_records - a.lag_records).slice(0, WORST);
  parts.rows(byId("worst"), worst.map((row) => [
    row.topic + "-" + row.partition, [parts.number(row.position), "n"], [parts.number(row.high_watermark), "n"],
    [parts.number(row.lag_records), "n"], [parts.duration(row.lag_seconds), "n"], [row.health, "word-" + parts.tone(row.health)],
  ]), 6, "No position is known yet.");
}

function showSinks(data) {
  const made = data.sinks.flatMap((sink) => {
    const totals = sink.totals, gauges = sink.gauges;
    const name = parts.element("p", sink.name + " · " + sink.guarantee, "sinkname");
    if (!sink.has_batches) return [name, parts.figures([
      ["Records", parts.number(totals.records)], ["Transactions", parts.number(totals.transactions)],
    ], "sink")];
    const figures = [
      ["Records", parts.number(totals.records)], ["Bytes", parts.bytes(totals.batch_bytes)],
      ["Compression", sink.compression_ratio === null ? "–" : sink.compression_ratio.toFixed(1) + " to 1"],
      ["Request", totals.requests ? parts.duration(totals.request_ms / totals.requests / 1000) : "–"],
      ["Sent again", parts.number(totals.resends), totals.resends ? "warn" : ""],
      ["Batches", parts.number(sink.batches)], ["Given up", parts.number(sink.failed), sink.failed ? "bad" : ""],
    ];
    if (sink.guarantee === "exactly-once") figures.push(
      ["Transactions open", parts.number(gauges.open_transactions ?? 0)],
      ["Oldest open", sink.oldest_transaction_ms ? parts.duration(sink.oldest_transaction_ms / 1000) : "–"],
      ["Decided, unfinished", parts.number(gauges.unfinished_batches ?? 0), gauges.unfinished_batches ? "bad" : ""],
      ["Replayed tasks", parts.number(totals.replays)],
      ["Commit", gauges.commit_ms === undefined ? "–" : parts.duration(gauges.commit_ms / 1000)],
    );
    return [name, parts.figures(figures, "sink")];
  });
  byId("sinks").replaceChildren(...(made.length ? made : [parts.element("p", "No sink reports here. Set metrics.http.port on the sink to the port of this page.", "none")]));
  const rows = data.report ? data.report.topic_partitions.filter((row) => row.held_back_by) : [];
  parts.rows(byId("holders"), rows.slice(0, WORST).map((row) => {
    const holder = row.held_back_by;
    const open = holder.open_since_ms === null ? null : (data.now_ms - holder.open_since_ms) / 1000;
    return [holder.transactional_id ?? "not shown (producer " + holder.producer_id + ")", row.topic + "-" + row.partition,
      [parts.duration(open), "n"], [parts.number(row.high_watermark - row.last_stable_offset), "n"]];
  }), 4, "None.");
}

function showPromise(data) {
  byId("promise").textContent = data.promise;
  byId("warnings").replaceChildren(...data.warnings.map((text) => parts.element("li", text)));
  byId("options").replaceChildren(...data.options.map(([name, value]) => {
    const row = parts.element("tr"), head = parts.element("th", name);
    head.scope = "row";
    row.append(head, parts.element("td", value));
    return row;
  }));
}

function show(data) {
  last = data;
  showHead(data);
  showTiles(data);
  showPlots(data);
  showMap(data);
  showSinks(data);
  showPromise(data);
}

function showFreshness() {
  const seconds = Math.round((Date.now() - answeredAtMs) / 1000);
  const isLate = seconds > 10;
  byId("fresh").textContent = !answeredAtMs ? "connecting …" : isLate ? "no answer for " + seconds + " s: the query may have ended" : "live";
  byId("fresh").parentElement.classList.toggle("late", isLate && answeredAtMs > 0);
}

async function ask() {
  try {
    if (!document.hidden || !last) {
      const answer = await fetch("page.json", { cache: "no-store" });
      if (answer.ok) {
        show(await answer.json());
        answeredAtMs = Date.now();
      }
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;  // fetch: the driver is gone, which showFreshness says
  } finally {
    showFreshness();
    setTimeout(ask, EVERY_MS);
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", "Use " + (theme === "dark" ? "light" : "dark") + " colours");
  makePlots();
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; makePlots(); } });
setTheme(prefersDark.matches ? "dark" : "light");
ask();
