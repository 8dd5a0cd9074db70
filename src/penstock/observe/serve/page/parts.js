// Texts and elements of the page. Invariant: text from Kafka is only ever set as text, never as HTML.
"use strict";

const parts = {
  element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    if (className) made.className = className;
    return made;
  },

  number(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1e9) return (value / 1e9).toFixed(2) + " bn";
    if (size >= 1e7) return (value / 1e6).toFixed(1) + " M";
    if (size > 0 && size < 10 && !Number.isInteger(value)) return value.toFixed(1);
    return Math.round(value).toLocaleString("en-US");
  },

  duration(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 1) return Math.round(seconds * 1000) + " ms";
    if (seconds < 120) return (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + " s";
    if (seconds < 7200) return Math.round(seconds / 60) + " min";
    if (seconds < 172800) return Math.round(seconds / 3600) + " h";
    return Math.round(seconds / 86400) + " days";
  },

  bytes(value) {
    for (const unit of ["B", "KB", "MB", "GB"]) {
      if (value < 1000) return (value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)) + " " + unit;
      value /= 1000;
    }
    return value.toFixed(1) + " TB";
  },

  tone(health) {
    if (health === "OK") return "good";
    return ["UNKNOWN", "FALLING_BEHIND", "BLOCKED_BY_TRANSACTION"].includes(health) ? "warn" : "bad";
  },

  // Named figures: [name, value] or [name, value, tone].
  figures(list, className) {
    const made = parts.element("dl", null, className);
    made.append(...parts.figureItems(list));
    return made;
  },

  figureItems(list) {
    return list.map(([name, value, tone]) => {
      const item = parts.element("div");
      item.append(parts.element("dt", name), parts.element("dd", value, tone ? "word-" + tone : ""));
      return item;
    });
  },

  // Rows of a table; a cell is a text, or [text, class]. Without rows: one sentence.
  rows(body, rows, width, none) {
    body.replaceChildren(...rows.map((cells) => {
      const row = parts.element("tr");
      row.append(...cells.map((cell) => Array.isArray(cell) ? parts.element("td", ...cell) : parts.element("td", cell)));
      return row;
    }));
    if (rows.length === 0) {
      const cell = parts.element("td", none, "none");
      cell.colSpan = width;
      body.append(parts.element("tr"));
      body.lastChild.append(cell);
    }
  },

  // 0 without a lag, else 1 (a thousandth of the largest lag, or less) to 5 (the largest), logarithmic.
  level(lag, most) {
    if (lag <= 0) return 0;
    return Math.max(1, Math.round(5 + 4 * Math.log10(lag / most) / 3));
  },

  sentence(text) {
    return text.charAt(0).toUpperCase() + text.slice(1);
  },

  clock(seconds) {
    return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  },

  colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  },
};
