// The page: one connection, its controls, and what the frames of the server say.

const $ = (id) => document.getElementById(id);
const SPEED_MAX = "";
const PART = 1 << 18;
const GROUPED = new Intl.NumberFormat("en");

const state = { socket: null, model: null, playback: null, limits: null, tries: 0, charts: null };

function address() {
  const url = new URL("stream", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const session = sessionStorage.getItem("session");
  if (session) url.searchParams.set("session", session);
  const token = new URLSearchParams(location.search).get("token");
  if (token) url.searchParams.set("token", token);
  return url;
}

function connect() {
  show("connecting", "");
  $("notice").hidden = true;
  const socket = new WebSocket(address());
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => (typeof data === "string" ? hear(JSON.parse(data)) : see(data));
  socket.onclose = ({ code, reason }) => lost(code, reason);
  state.socket = socket;
}

function lost(code, reason) {
  show("disconnected", "lost");
  // The server is away or full: try again, less and less often. Everything else needs a decision.
  if ([1001, 1006, 1012, 1013].includes(code) && state.tries < 8) {
    state.tries += 1;
    show(reason || "reconnecting", "lost");
    setTimeout(connect, Math.min(250 * 2 ** state.tries, 8000));
    return;
  }
  complain(`The connection was closed: ${reason || `code ${code}`}.`, true);
}

function show(text, kind) {
  $("status-text").textContent = text;
  $("status").className = kind;
}

function complain(text, closed = false) {
  $("notice-text").textContent = text;
  $("reconnect").hidden = !closed;
  $("notice").hidden = false;
}

function send(command) {
  if (state.socket?.readyState === WebSocket.OPEN) state.socket.send(JSON.stringify(command));
}

// What the server says.

function hear(message) {
  if (message.type === "hello") greet(message);
  else if (message.type === "error") complain(message.message);
}

function greet({ model, session, limits, playback, events }) {
  sessionStorage.setItem("session", session);
  Object.assign(state, { model, limits, tries: 0 });
  show("live", "live");
  const reads = { events: `${model.sensor?.join("×")} pixels`, tokens: `${model.tokens} tokens`, numbers: `${model.shape.join("×")} numbers` };
  $("model").textContent = model.name;
  $("about").textContent = `reads ${reads[model.kind]}, ${GROUPED.format(model.parameters)} parameters`;
  document.title = `${model.name} – s7 live`;
  if (state.charts && JSON.stringify(model) !== JSON.stringify(state.built)) return location.reload();
  if (!state.charts) build(model);
  $("empty").hidden = events > 0 || playback !== null;
  player(playback);
}

function build(model) {
  const events = $("events");
  let input;
  if (model.kind === "events") input = new EventCanvas(events, ...model.sensor);
  else if (model.kind === "tokens") input = new TokenCanvas(events, model.tokens);
  else {
    const count = Math.min(8, model.shape.reduce((a, b) => a * b, 1));
    events.style.height = "16rem";
    input = new LineChart(events, Array.from({ length: count }, (_, n) => `v${n + 1}`), false);
  }
  $("input-title").textContent = { events: "Events", tokens: "Tokens", numbers: "Input" }[model.kind];
  $("input-key").hidden = model.kind !== "events";
  const scores = new LineChart($("score-chart"), model.names, model.classifier);
  if (!model.classifier) $("scores-title").textContent = "Outputs over time";
  const open = model.states ? new OpenChart($("open-chart"), model.states) : null;
  if (!open) {
    $("open-chart").hidden = true;
    document.querySelector("#selection .key").hidden = true;
    $("selection-note").textContent = "The transition of this model's first layer does not depend on the input.";
  }
  Object.assign(state, { charts: { input, scores, open }, built: model });
  state.rows = model.names.map((name, n) => bar(name, n));
  $("bars").classList.toggle("many", model.names.length > 16);
  $("bars").replaceChildren(...state.rows.map(({ row }) => row));
  requestAnimationFrame(draw);
}

function bar(name, n) {
  const row = document.createElement("li");
  const part = (kind, text = "") => {
    const element = document.createElement("span");
    element.className = kind;
    element.textContent = text;
    return element;
  };
  const fill = document.createElement("div"), track = part("track"), value = part("value", "–");
  fill.className = "fill";
  fill.dataset.series = n;
  track.style.display = "block";
  track.append(fill);
  row.append(part("name", name), track, value);
  return { row, fill, value };
}

function see(data) {
  const size = new DataView(data).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size)));
  const events = new Uint16Array(data.slice(4 + size));
  const { input, scores, open } = state.charts;
  if (about.run !== state.run) for (const chart of [input, scores, open]) chart?.clear();
  state.run = about.run;
  if (about.values) input.add(about.points.map(([time, count], k) => [time, count, about.values[k]]));
  else if (events.length) input.add(events, about.points);
  scores.add(about.points);
  if (open && about.open) open.add(about.points, about.open);
  if (about.events) $("empty").hidden = true;
  if (about.points.length) predict(about.points.at(-1));
  numbers(about);
  player(about.playback);
}

function predict([time, count, scores]) {
  const { names, classifier } = state.model;
  const best = scores.indexOf(Math.max(...scores));
  const [low, high] = classifier ? [0, 1] : state.charts.scores.range();
  $("label").textContent = classifier ? names[best] : scores.length === 1 ? scores[0].toPrecision(4) : "";
  $("label").classList.toggle("long", $("label").textContent.length > 8);
  $("sure").textContent = classifier ? percent(scores[best]) : "";
  const when = time === null ? "" : `${time.toFixed(3)} s, `;
  $("after").textContent = `at ${when}after ${GROUPED.format(count)} events`;
  state.rows.forEach(({ row, fill, value }, n) => {
    fill.style.width = `${(100 * (scores[n] - low)) / (high - low || 1)}%`;
    fill.style.background = `var(--c${(n % SERIES) + 1})`;
    value.textContent = classifier ? percent(scores[n]) : scores[n].toPrecision(4);
    row.classList.toggle("best", classifier && n === best);
  });
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function numbers({ events, rate, lag_ms: lag, latency_ms: latency, dropped }) {
  $("count").textContent = GROUPED.format(events);
  $("rate").textContent = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(rate);
  $("lag").textContent = `${lag.toFixed(lag < 10 ? 1 : 0)} ms`;
  $("latency").textContent = `${latency.toFixed(latency < 10 ? 2 : 0)} ms`;
  $("dropped").textContent = GROUPED.format(dropped);
  $("dropped").classList.toggle("bad", dropped > 0);
  $("lag").classList.toggle("bad", lag > 50);
}

function player(playback) {
  state.playback = playback;
  for (const id of ["play", "replay", "speed", "repeat"]) $(id).disabled = playback === null;
  if (playback === null) return;
  $("play").textContent = playback.playing ? "Pause" : "Play";
  $("speed").disabled = !state.model.timed;
  if (document.activeElement !== $("speed")) {
    const known = [...$("speed").options].find((option) => option.value !== SPEED_MAX && Number(option.value) === playback.speed);
    $("speed").value = known ? known.value : SPEED_MAX;
  }
  $("repeat").checked = playback.repeat;
  $("recording").textContent = playback.name + (playback.over ? ", finished" : "");
}

// How long pixels stay: as long in the recording at any speed, within reason. A pause keeps them.
function memory() {
  if (state.playback === null) return 160;
  if (!state.playback.playing) return Infinity;
  return Math.min(Math.max(160 / (state.playback.speed ?? 1), 80), 2500);
}

function draw(now) {
  const { input, scores, open } = state.charts;
  input.draw(now, memory());
  scores.draw();
  open?.draw();
  requestAnimationFrame(draw);
}

// What the user does.

$("play").onclick = () => send({ type: state.playback.playing ? "pause" : "play" });
$("replay").onclick = () => send({ type: "replay" });
$("speed").onchange = ({ target }) => {
  send({ type: "speed", speed: target.value === SPEED_MAX ? null : Number(target.value) });
  target.blur();
};
$("repeat").onchange = ({ target }) => send({ type: "repeat", repeat: target.checked });
$("reconnect").onclick = () => { state.tries = 0; connect(); };
$("file").onchange = ({ target }) => { if (target.files[0]) upload(target.files[0]); target.value = ""; };

async function upload(file) {
  $("notice").hidden = true;
  if (!file.size) return complain(`${file.name} is empty.`);
  if (file.size > state.limits.upload) {
    return complain(`${file.name} is larger than the limit of ${GROUPED.format(state.limits.upload)} bytes.`);
  }
  send({ type: "upload", name: file.name, size: file.size });
  const part = Math.min(PART, state.limits.message);
  for (let at = 0; at < file.size && state.socket.readyState === WebSocket.OPEN; at += part) {
    state.socket.send(await file.slice(at, at + part).arrayBuffer());
    while (state.socket.bufferedAmount > 8 * part) await new Promise((resume) => setTimeout(resume, 20));
    $("recording").textContent = `uploading ${file.name}, ${percent(Math.min(1, (at + part) / file.size))}`;
  }
}

addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", () => document.body.classList.remove("dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  if (event.dataTransfer.files[0]) upload(event.dataTransfer.files[0]);
});
addEventListener("keydown", (event) => {
  if (event.code !== "Space" || event.target !== document.body || state.playback === null) return;
  event.preventDefault();
  $("play").click();
});
addEventListener("resize", () => Object.values(state.charts ?? {}).forEach((chart) => { if (chart) chart.changed = true; }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  Object.values(state.charts ?? {}).forEach((chart) => { if (chart) chart.changed = chart.active = true; });
});

connect();
