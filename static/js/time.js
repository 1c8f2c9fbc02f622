// Keeps <time data-when> current, by the server's clock and in the reader's zone; UTC is its title.
// Forms: ago, age, left (a countdown), clock, full. The server wrote the same words at first.

const loadedAt = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const offset = new Date(document.documentElement.dataset.now) - loadedAt;
const serverNow = () => Date.now() + (Math.abs(offset) > 1000 ? offset : 0);

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

function age(seconds) {
  seconds = Math.abs(seconds);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

function left(seconds) {
  if (seconds >= 3600) return age(seconds);
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function words(element, now) {
  const moment = new Date(element.dateTime);
  const seconds = (now - moment) / 1000;
  switch (element.dataset.when) {
    case "clock": {
      const today = new Date(now).toDateString() === moment.toDateString();
      return today ? clock.format(moment) : `${day.format(moment)}, ${clock.format(moment)}`;
    }
    case "full": return full.format(moment);
    case "age": return age(seconds);
    case "left": return left(-seconds);
    default: return seconds >= 0 ? `${age(seconds)} ago` : `in ${age(seconds)}`;
  }
}

function refresh(root) {
  const now = serverNow();
  for (const element of root.querySelectorAll("time[data-when]")) {
    const text = words(element, now);
    if (element.textContent !== text) element.textContent = text;
  }
}

refresh(document);
setInterval(() => document.hidden || refresh(document), 1000);
document.addEventListener("htmx:after:swap", () => refresh(document));
document.addEventListener("visibilitychange", () => document.hidden || refresh(document));
