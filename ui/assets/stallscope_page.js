// What the page does without asking the server: figures in tables, the address bar, walking through what was found.

window.dashAgGridFunctions = window.dashAgGridFunctions || {};

window.dashAgGridFunctions.stallscopeDuration = (ns) => {
  if (ns === null || ns === undefined) return "–";
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (Math.abs(ns) < unit) continue;
    const value = ns / unit;
    return `${value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)} ${name}`;
  }
  return `${Math.round(ns)} ns`;
};
window.dashAgGridFunctions.stallscopeSize = (bytes) => {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [bytes, 0];
  while (Math.abs(value) >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return unit ? `${value.toPrecision(3)} ${units[unit]}` : `${value} B`;
};
window.dashAgGridFunctions.stallscopeCount = (count) => (count === null || count === undefined ? "–" : count.toLocaleString("en-US"));
window.dashAgGridFunctions.stallscopeWords = (code) => (code ?? "–").replaceAll("_", " ");
window.dashAgGridFunctions.stallscopeShare = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

/** Rising numbers as an address has them: 0-3.7 */
const ranges = (numbers) => {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    if (parts.length && number <= parts.at(-1)[1] + 1) parts.at(-1)[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(".");
};

window.dash_clientside = window.dash_clientside || {};
window.dash_clientside.stallscope_page = {
  /** Writes the settled view, what is picked and the marked area into the address, so that pasting it shows the same. */
  keep_address: (view, picked, area) => {
    const query = new URLSearchParams(window.location.search);
    if (query.get("view") !== "timeline") return window.dash_clientside.no_update;
    if (view) {
      query.set("start", view[0]);
      query.set("end", view[1]);
    }
    const triggered = window.dash_clientside.callback_context.triggered.map((one) => one.prop_id);
    if (triggered.includes("timeline.area")) {
      for (const name of ["area", "tracks"]) query.delete(name);
      if (area?.tracks.length) {
        query.set("area", `${Math.max(0, area.start)}-${area.end}`);
        query.set("tracks", ranges(area.tracks));
      }
    }
    const asked = triggered.includes("timeline.picked");
    if (asked) for (const name of ["slice", "stall", "line", "at", "counter"]) query.delete(name);
    if (asked && picked?.slice_id) query.set("slice", picked.slice_id);
    if (asked && picked?.stall_id) query.set("stall", picked.stall_id);
    if (asked && picked?.counter !== undefined) for (const name of ["at", "counter"]) query.set(name, picked[name]);
    window.history.replaceState(window.history.state, "", `?${query}`);
    return window.dash_clientside.no_update;
  },

  /** Goes to another address of the page, as a link does. */
  go: (query) => {
    if (query && query !== window.location.search) {
      window.history.pushState({}, "", query);
      window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    }
    return window.dash_clientside.no_update;
  },

  /** Brings the line that the address asks for into sight, else the costliest one of the file. */
  find_line: () => {
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const row = document.querySelector(".code tr.wanted") ?? document.querySelector(".code tr.costliest");
      const box = row?.closest(".scroll");
      if (box) box.scrollTop = row.offsetTop - box.clientHeight / 3;
    }));
    return window.dash_clientside.no_update;
  },

  /** Asks for the newest state of a recording that grows, to show in it what the address bar shows now. */
  ask_newer: (clicks) => {
    const { no_update } = window.dash_clientside;
    return clicks ? [{ search: window.location.search, clicks }, "Opening…", true] : [no_update, no_update, no_update];
  },

  /** Leaves the rows of a table that have the text, and writes it into the address. */
  filter_rows: (text, options) => {
    const query = new URLSearchParams(window.location.search);
    if ((query.get("filter") ?? "") !== (text ?? "")) {
      if (text) query.set("filter", text);
      else query.delete("filter");
      window.history.replaceState(window.history.state, "", `?${query}`);
    }
    return { ...options, quickFilterText: text ?? "" };
  },

  filter_tracks: (text) => text ?? "",

  /** Goes to the next or previous of the slices that a search found; to the first when they arrive. */
  walk_found: (_next, _previous, _submit, found) => {
    const { no_update, callback_context } = window.dash_clientside;
    const by = callback_context.triggered.map((one) => one.prop_id);
    if (!found?.refs.length || (by.includes("found.data") && found.at >= 0)) return [no_update, no_update];
    const step = by.includes("search-previous.n_clicks") ? -1 : 1;
    const at = (found.at + step + found.refs.length) % found.refs.length;
    return [{ pick: found.refs[at], fit: true, at }, { refs: found.refs, at }];
  },
};

// Ctrl-Enter in the text of a query runs it.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "sql-text") {
    event.preventDefault();
    document.getElementById("sql-run")?.click();
  }
});
