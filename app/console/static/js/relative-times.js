// Relative times ("3 minutes ago") stay right while the page is open. Their titles have the exact ones.

const UNITS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Infinity],
]);
const words = new Intl.RelativeTimeFormat(document.documentElement.lang);

function update() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("main time[title]")) {
    let amount = (Date.now() - Date.parse(time.getAttribute("datetime") ?? "")) / 1000;
    // What the server has written is right at first.
    if (!(Math.abs(amount) >= 30)) continue;
    const unit = UNITS.find(([, size]) => Math.abs(amount) < size || ((amount /= size), false)) ?? UNITS[5];
    const text = words.format(-Math.trunc(amount), unit[0]);
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(update, 15_000);
