"use strict";
// Drawing: events, scores over time and the openness of states. Colours are those of the page's theme.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const rgb = (name) => {
  const hex = css(name).slice(1);
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
};
const SERIES = 8;
const colourOf = (n) => css(`c${(n % SERIES) + 1}`);
// A second round of colours is dashed.
const dashOf = (n) => (n < SERIES ? [] : [5, 3]);
const FONT = "12px system-ui, sans-serif";
// Charts over time have these margins, so that their axes agree.
const [LEFT, RIGHT] = [42, 56];
// A point is [time in seconds or null, number of events, …].
const spot = (point) => point[0] ?? point[1];

const shortNumber = (value) => new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 }).format(value);

// A canvas in device pixels; returns its context and its size in CSS pixels.
function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const wanted = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wanted[0] || canvas.height !== wanted[1]) [canvas.width, canvas.height] = wanted;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

// Events of a camera: each pixel lights up in the colour of its polarity and fades.
class EventCanvas {
  constructor(canvas, width, height) {
    this.canvas = canvas;
    [canvas.width, canvas.height] = [width, height];
    this.context = canvas.getContext("2d");
    this.image = this.context.createImageData(width, height);
    this.light = [new Float32Array(width * height), new Float32Array(width * height)];
    this.then = performance.now();
    this.active = true;
  }

  add(events) {
    const width = this.canvas.width;
    for (let k = 0; k < events.length; k += 3) {
      const at = events[k] + events[k + 1] * width;
      if (at < this.light[0].length) this.light[events[k + 2] ? 0 : 1][at] = 1;
    }
    this.active = true;
  }

  clear() {
    this.light.forEach((values) => values.fill(0));
    this.active = true;
  }

  // `memory`: milliseconds after which a pixel has faded to a third; Infinity keeps it.
  draw(now, memory) {
    const decay = Math.exp(-(now - this.then) / memory);
    this.then = now;
    if (!this.active) return;
    const [back, brighter, darker] = [rgb("page"), rgb("c1"), rgb("c2")];
    const [up, down] = this.light, data = this.image.data;
    let most = 0;
    for (let at = 0; at < up.length; at += 1) {
      const a = (up[at] *= decay), b = (down[at] *= decay);
      const share = Math.max(a, b), colour = a >= b ? brighter : darker;
      if (share > most) most = share;
      for (let c = 0; c < 3; c += 1) data[4 * at + c] = back[c] + (colour[c] - back[c]) * share;
      data[4 * at + 3] = 255;
    }
    this.context.putImageData(this.image, 0, 0);
    this.active = memory < Infinity && most > 0.01;
  }
}

// Tokens of a model without a sensor: a row per token, a column per answer.
class TokenCanvas extends EventCanvas {
  constructor(canvas, tokens) {
    super(canvas, 240, Math.min(tokens, 350));
    this.tokens = tokens;
  }

  add(events, points) {
    const { width, height } = this.canvas, values = this.light[0], count = Math.min(points.length, width);
    for (let row = 0; row < height; row += 1) {
      values.copyWithin(row * width, row * width + count, (row + 1) * width);
      values.fill(0, (row + 1) * width - count, (row + 1) * width);
    }
    for (let k = 0; k < events.length; k += 3) {
      const row = height - 1 - Math.floor((events[k] / this.tokens) * height);
      values[(row + 1) * width - count + Math.floor((k / events.length) * count)] = 1;
    }
    this.active = true;
  }

  draw(now) { super.draw(now, Infinity); }
}

// Lines over time. Points are [time, number of events, values].
class LineChart {
  constructor(canvas, names, bounded, kept = 600) {
    Object.assign(this, { canvas, names, bounded, kept, points: [], changed: true });
  }

  add(points) {
    this.points.push(...points);
    if (this.points.length > this.kept) this.points.splice(0, this.points.length - this.kept);
    this.changed = true;
  }

  clear() { this.points = []; this.changed = true; }

  range() {
    if (this.bounded) return [0, 1];
    let low = Infinity, high = -Infinity;
    for (const [, , values] of this.points) for (const v of values) if (v !== null) [low, high] = [Math.min(low, v), Math.max(high, v)];
    if (!(low <= high)) return [0, 1];
    const room = (high - low) * 0.05 || 1;
    return [low - room, high + room];
  }

  draw() {
    if (!this.changed) return;
    this.changed = false;
    const [context, width, height] = prepared(this.canvas);
    const [left, right, top, bottom] = [LEFT, RIGHT, 8, 24];
    const [low, high] = this.range();
    const first = this.points.length ? spot(this.points[0]) : 0;
    const last = this.points.length ? spot(this.points.at(-1)) : 1;
    const span = last - first || 1;
    const X = (value) => left + ((value - first) / span) * (width - left - right);
    const Y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
    context.font = FONT;
    context.fillStyle = css("soft");
    context.strokeStyle = css("faint");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const value = low + (high - low) * share, y = Math.round(Y(value)) + 0.5;
      context.beginPath(); context.moveTo(left, y); context.lineTo(width - right, y); context.stroke();
      context.fillText(this.bounded ? value.toFixed(2) : shortNumber(value), left - 6, y);
    }
    if (!this.points.length) return;
    const named = this.points[0][0] === null ? (v) => `${v} events` : (v) => `${v.toFixed(span < 10 ? 2 : 0)} s`;
    context.textBaseline = "alphabetic";
    context.textAlign = "left"; context.fillText(named(first), left, height - 6);
    context.textAlign = "right"; context.fillText(named(last), width - right, height - 6);
    this.names.forEach((name, n) => this.line(context, n, X, Y));
    this.labels(context, width - right, Y, top, height - bottom);
  }

  line(context, n, X, Y) {
    context.strokeStyle = colourOf(n);
    context.setLineDash(dashOf(n));
    context.lineWidth = 1.75;
    context.lineJoin = "round";
    context.beginPath();
    this.points.forEach((point, k) => context[k ? "lineTo" : "moveTo"](X(spot(point)), Y(point[2][n] ?? 0)));
    context.stroke();
    context.setLineDash([]);
  }

  // Names of the highest lines at their ends, moved apart.
  labels(context, x, Y, top, bottom) {
    const values = this.points.at(-1)[2];
    const order = values.map((value, n) => [value ?? 0, n]).sort((a, b) => b[0] - a[0]);
    const shown = order.filter(([value]) => !this.bounded || value > 0.05).slice(0, 5);
    let free = top;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const [value, n] of shown) {
      const y = Math.max(free, Y(value));
      if (y > bottom) break;
      context.fillStyle = colourOf(n);
      context.fillText(this.names[n].slice(0, 8), x + 7, y);
      free = y + 14;
    }
  }
}

// A row per state and a column per event, on the time axis of the scores: warm where a state is more open than on
// average, cool where less.
class OpenChart {
  constructor(canvas, states, kept = 600) {
    Object.assign(this, { canvas, states, kept, changed: true });
    this.buffer = document.createElement("canvas");
    this.clear();
  }

  clear() {
    this.groups = [];
    this.means = new Float64Array(this.states);
    this.seen = 0;
    this.changed = true;
  }

  // As many columns for each point.
  add(points, columns) {
    for (const column of columns) {
      this.seen += 1;
      const share = 1 / Math.min(this.seen, 2000);
      column.forEach((value, n) => { this.means[n] += (value - this.means[n]) * share; });
    }
    const each = columns.length / points.length;
    points.forEach((point, k) => this.groups.push([spot(point), columns.slice(k * each, (k + 1) * each)]));
    if (this.groups.length > this.kept) this.groups.splice(0, this.groups.length - this.kept);
    this.changed = true;
  }

  draw() {
    if (!this.changed) return;
    this.changed = false;
    const [context, width, height] = prepared(this.canvas);
    const wide = Math.max(1, Math.round(width - LEFT - RIGHT));
    [this.buffer.width, this.buffer.height] = [wide, this.states];
    const inner = this.buffer.getContext("2d"), image = inner.createImageData(wide, this.states);
    const colours = [rgb("page"), rgb("c2"), rgb("c1")];
    const columns = this.columns(wide);
    for (let x = 0; x < wide; x += 1) this.paint(image, x, columns[x], colours);
    inner.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.buffer, LEFT, 0, wide, height);
    context.font = FONT;
    context.fillStyle = css("soft");
    context.textAlign = "right";
    context.textBaseline = "top"; context.fillText("short", LEFT - 6, 2);
    context.textBaseline = "bottom"; context.fillText("long", LEFT - 6, height - 2);
  }

  // The column of each pixel: that of a point, spread over the time since the point before.
  columns(wide) {
    const { groups } = this, found = [];
    if (!groups.length) return found;
    const first = groups[0][0], span = groups.at(-1)[0] - first || 1;
    let at = 0;
    for (let x = 0; x < wide; x += 1) {
      const moment = first + ((x + 0.5) / wide) * span;
      while (at < groups.length - 1 && groups[at][0] < moment) at += 1;
      const [end, group] = groups[at], start = at ? groups[at - 1][0] : first;
      const share = end > start ? (moment - start) / (end - start) : 0;
      found.push(group[Math.min(group.length - 1, Math.max(0, Math.floor(share * group.length)))]);
    }
    return found;
  }

  paint(image, x, column, [back, open, closed]) {
    for (let n = 0; n < this.states; n += 1) {
      const value = column ? column[n] - this.means[n] : 0;
      const share = Math.min(1, Math.abs(value) / 1.5), colour = value > 0 ? open : closed;
      const at = 4 * (n * image.width + x);
      for (let c = 0; c < 3; c += 1) image.data[at + c] = back[c] + (colour[c] - back[c]) * share;
      image.data[at + 3] = 255;
    }
  }
}
