// Colours. Stall causes have the only saturated ones (after Okabe and Ito, told apart with colour-blind eyes); slices are
// muted, one hue a kind of work, and names differ in lightness.

export const THEMES = {
  dark: {
    ground: "#14171C", panel: "#1A1E25", group: "#1F252E", line: "#2A303A", rule: "#1E232B", text: "#D7DCE3", dim: "#8B95A3",
    accent: "#4C9BFF", onSlice: "#0D1117", shade: "rgba(0,0,0,0.55)", area: "rgba(76,155,255,0.16)", hatch: "rgba(240,190,80,0.35)",
  },
  light: {
    ground: "#FFFFFF", panel: "#F6F7F9", group: "#EEF1F5", line: "#DDE1E7", rule: "#EEF0F3", text: "#1E242C", dim: "#5D6875",
    accent: "#0B63CE", onSlice: "#10151B", shade: "rgba(255,255,255,0.6)", area: "rgba(11,99,206,0.12)", hatch: "rgba(160,110,0,0.35)",
  },
};

const SLICES = {
  op: [92, 132, 186], python: [134, 147, 163], module: [84, 154, 163], annotation: [120, 132, 178], runtime: [160, 146, 178],
  kernel: [118, 171, 122], graph: [100, 158, 130], memcpy: [196, 162, 98], memset: [178, 154, 112], dma: [196, 162, 98],
  collective: [186, 128, 156], instruction: [118, 171, 122], synchronization: [190, 120, 96], allocation: [186, 178, 110],
  compile: [160, 122, 190], fallback: [200, 110, 110], input: [200, 158, 84], gc: [150, 120, 140], io: [150, 140, 110],
  overhead: [120, 120, 120], other: [140, 144, 150],
};

export const BANDS = {
  compute: [118, 171, 122], communication: [204, 121, 167], data_movement: [196, 162, 98], wait_for_peer: [204, 121, 167],
  input: [230, 159, 0], cpu_fallback: [213, 94, 0], compile: [148, 103, 189], synchronization: [0, 158, 115],
  allocation: [240, 228, 66], launch: [86, 180, 233], dispatch: [0, 114, 178], python: [64, 145, 210], gc: [180, 120, 60],
  io: [150, 110, 60], lock: [220, 60, 120], preempted: [200, 80, 80], overhead: [120, 120, 120], dependency: [140, 150, 160],
  kernel_gap: [110, 118, 128], tail: [96, 102, 110], unknown: [80, 84, 90], stall: [110, 118, 128],
};

const UNKNOWN = [128, 132, 138];

/** 32-bit pixel of a colour in the byte order of image data. */
const pixel = (r, g, b) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

const mixed = (colour, ground, share) => colour.map((value, n) => Math.round(ground[n] + (value - ground[n]) * share));

export function parse(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

export const css = ([r, g, b]) => `rgb(${r},${g},${b})`;

/** The colour of a slice's category, or of a state or cause in a device's band. */
export function colourOf(category, band, theme) {
  const base = (band ? BANDS : SLICES)[category] ?? UNKNOWN;
  return theme === "light" && !band ? mixed(base, [255, 255, 255], 0.82) : base;
}

/** Dark or light text, whichever stands out more on a colour (WCAG's relative luminance; 0.18 is where the two cross). */
export function textOn(colour) {
  const [r, g, b] = colour.map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#0D1117" : "#FFFFFF";
}

/** The pixels of a tile's slices: the hue of the category, lightness by name, dimmed where a block is mostly empty. */
export function pixelsOf(tile, categories, band, theme) {
  const ground = parse(THEMES[theme].ground);
  const hues = categories.map((category) => colourOf(category, band, theme));
  const pixels = new Uint32Array(tile.n);
  for (let n = 0; n < tile.n; n++) {
    const hue = hues[tile.category[n]] ?? UNKNOWN;
    const light = band ? 1 : 0.9 + 0.2 * ((Math.imul(tile.name[n], 2654435761) >>> 24) / 255);
    const share = tile.count[n] > 1 ? 0.35 + 0.65 * Math.min(1, tile.cover[n]) : 1;
    const [r, g, b] = mixed(hue.map((value) => Math.min(255, value * light)), ground, share);
    pixels[n] = pixel(r, g, b);
  }
  return pixels;
}

export function groundPixel(hex) {
  return pixel(...parse(hex));
}
