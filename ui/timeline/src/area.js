// The marked area: which tracks it covers, and where it lies once the recording is shown with more in it.

/** The keys of the tracks among some rows that an area reaches over, each once. */
export function keysIn(area, visible) {
  const rows = visible.filter((row) => row.screen < area.bottom && row.screen + row.height > area.top);
  const tracks = rows.filter((row) => row.node.kind !== "group" && row.node.track !== undefined);
  return [...new Set(tracks.map((row) => row.node.key))];
}

/** An area on tracks given by their numbers; null where there is none of them. */
export function onTracks({ start, end, tracks }, rows) {
  const wanted = new Set(tracks);
  const keys = [...rows.byKey.values()].filter((row) => wanted.has(row.node.track)).map((row) => row.node.key);
  return keys.length ? { start, end, keys } : null;
}

/** What the page is told of an area: its times and the numbers of its tracks. */
export function told(area, rows) {
  const tracks = area.keys.map((key) => rows.byKey.get(key)?.node.track).filter((track) => track !== undefined);
  return { start: area.start, end: area.end, tracks };
}

/**
 * An area of one timeline on another of the same recording: the same stretch of its clock, on the tracks that it has too.
 * @param {string} before The instant that the first one's times count from, ns on the recording's clock.
 * @param {string} now The same of the other.
 * @returns null where there is none of those tracks, or it lies behind the end.
 */
export function moved(area, before, now, rows, span) {
  const shift = Number(BigInt(before) - BigInt(now));
  const keys = area.keys.filter((key) => rows.byKey.has(key));
  const found = { ...area, start: area.start + shift, end: area.end + shift, keys };
  return keys.length && found.start < span && found.end > 0 ? found : null;
}
