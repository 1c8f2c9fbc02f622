// One WebSocket per page. It carries hints, never content: "this topic changed, up to n". Each hint
// becomes a `live:<kind>` event on body, and parts with hx-trigger="live:<kind> from:body" refetch.
// Losing a hint costs nothing: every connect, and every return to the tab, announces all topics.

const BURST = 150; // ms; at most one event per topic in this time, the first of a burst at once
const SILENCE = 45_000; // ms without a word from a server that pings every 20 s
const GRACE = 2_000; // ms offline before the page says so
const LONGEST_WAIT = 15_000; // ms between two attempts to reconnect

const status = document.querySelector("[data-live-status]");
const banner = document.getElementById("not-live");
const bursts = new Map();
let socket, watchdog, retry, grace;
let attempts = 0;
let listening = "";

// What the page listens to: the words of every data-live attribute, on body or in a part.
function topics() {
  const words = [...document.querySelectorAll("[data-live]")].flatMap((part) => part.dataset.live.split(/\s+/));
  return [...new Set(words)].filter(Boolean).sort();
}

function dispatch(topic, upto) {
  const detail = { topic, upto };
  document.body.dispatchEvent(new CustomEvent(`live:${topic.split(":", 1)[0]}`, { detail }));
}

function announce(topic, upto) {
  const burst = bursts.get(topic);
  if (burst) {
    burst.again = true;
    burst.upto = upto;
    return;
  }
  const state = { again: false, upto };
  bursts.set(topic, state);
  dispatch(topic, upto);
  setTimeout(() => {
    bursts.delete(topic);
    if (state.again) announce(topic, state.upto);
  }, BURST);
}

const announceAll = () => topics().forEach((topic) => announce(topic));

function show(state, words, reason) {
  status.dataset.liveStatus = state;
  status.title = reason;
  status.querySelector("span").textContent = words;
}

function say(reason) {
  banner.querySelector("[data-text]").textContent = `Not live: ${reason}`;
  banner.hidden = false;
}

function listen() {
  const wanted = topics();
  if (socket?.readyState !== WebSocket.OPEN || listening === wanted.join(" ")) return;
  listening = wanted.join(" ");
  socket.send(JSON.stringify({ listen: wanted }));
}

function watch() {
  clearTimeout(watchdog);
  watchdog = setTimeout(() => socket?.close(), SILENCE);
}

function opened() {
  attempts = 0;
  listening = "";
  listen();
  watch();
}

function received(event) {
  watch();
  const message = JSON.parse(event.data);
  if (message.topic) announce(message.topic, message.upto);
  if (!message.listening) return;
  // Only now is a change certain to be heard, so this is the moment to catch up: the first time on
  // what happened since the page was drawn, later on what happened while it was not live.
  clearTimeout(grace);
  grace = undefined;
  banner.hidden = true;
  show("live", "Live", "Changes appear by themselves");
  announceAll();
}

function closed(event) {
  if (event.target !== socket) return;
  clearTimeout(watchdog);
  socket = undefined;
  if (event.code === 4401 || event.code === 4403) {
    show("offline", "Offline", "You are signed out");
    say("you are signed out. Reload to sign in again.");
    return;
  }
  if (banner.hidden) show("connecting", "Connecting", "Trying to reach the server");
  grace ??= setTimeout(() => {
    show("offline", "Offline", "Trying to reach the server");
    say("the server cannot be reached. What you see may be out of date; it catches up by itself.");
  }, GRACE);
  const wait = Math.min(LONGEST_WAIT, 250 * 2 ** attempts++);
  retry = setTimeout(connect, wait * (0.5 + Math.random() / 2));
}

function connect() {
  clearTimeout(retry);
  if (socket) return;
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live`);
  socket.addEventListener("open", opened);
  socket.addEventListener("message", received);
  socket.addEventListener("close", closed);
}

function returned() {
  if (document.hidden) return;
  if (!socket) connect();
  else if (socket.readyState === WebSocket.OPEN) announceAll();
}

if (status && topics().length) {
  connect();
  // A part that was swapped in may listen to other topics than the one before it.
  document.addEventListener("htmx:after:swap", listen);
  document.addEventListener("visibilitychange", returned);
  window.addEventListener("online", () => connect());
  window.addEventListener("pageshow", (event) => event.persisted && returned());
}

// The tab says how much waits, so that a hidden one is noticed.
function countInTitle() {
  const count = Number(document.getElementById("inbox-count")?.dataset.count || 0);
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
}
countInTitle();
document.addEventListener("htmx:after:swap", countInTitle);
