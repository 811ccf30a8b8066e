// Quantities for people: numbers with their unit, bytes in binary units.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB"];

/** "1.5 GiB" for bytes, "3 MiB/s" for bytes/s, "2.25 cores" for anything else. */
export function formatQuantity(value, unit) {
  if (!unit.startsWith("bytes")) return `${Number(value.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 6 })} ${unit}`.trim();
  let [amount, power] = [value, 0];
  while (Math.abs(amount) >= 1024 && power < BINARY.length - 1) [amount, power] = [amount / 1024, power + 1];
  return `${power ? Number(amount.toPrecision(3)) : Math.round(amount)} ${BINARY[power]}${unit.slice("bytes".length)}`;
}
