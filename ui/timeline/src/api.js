// The server's answers for one recording.

/** @param {string} base Address of the recording's data, without a slash at the end. */
export function api(base) {
  const get = async (path, signal) => {
    const answer = await fetch(`${base}/${path}`, { signal, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer;
  };
  const json = async (path) => (await get(path)).json();
  return {
    meta: () => json("meta"),
    tiles: async (level, index, tracks, signal) =>
      (await get(`tiles?level=${level}&index=${index}&tracks=${tracks.join(",")}`, signal)).arrayBuffer(),
    names: (block) => json(`names?block=${block}`),
    counter: async (track, level, index) => (await get(`counter?track=${track}&level=${level}&index=${index}`)).arrayBuffer(),
    slice: (ref, band) => json(`slice?ref=${ref}&band=${band ? 1 : 0}`),
    near: (ref, way, band) => json(`near?ref=${ref}&way=${way}&band=${band ? 1 : 0}`),
  };
}
