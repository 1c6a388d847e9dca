// The server: `get` and `post` for what is asked once, one websocket for what moves.
import { signal } from "./vendor/signals.js";

// `again`: the same request with the user's yes to the question that the server asks before it goes on.
async function answer(response, again = null) {
  const body = await response.json().catch(() => null);
  if (again && body?.asks && confirm(body.asks)) return again();
  if (!response.ok) throw new Error(body?.error ?? (response.status < 500 ? `The server answered ${response.status}.` : "an error in Studio, see the terminal."));
  return body;
}

export async function get(path, params = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) search.append(name, one);
    }
  }
  const query = search.toString();
  return answer(await fetch(`/api${path}${query ? `?${query}` : ""}`));
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-Studio-Client": client.value ?? "" };
  const again = body.trust ? null : () => post(path, { ...body, trust: true });
  return answer(await fetch(`/api${path}`, { method: "POST", headers, body: JSON.stringify(body) }), again);
}

// ---- the websocket ---------------------------------------------------------------------------------------------

export const connection = signal("connecting"); // connecting | open | lost
export const control = signal(true); // does this window hold the control lease?
export const client = signal(null); // the id that the server gave this window

const waiting = new Map(); // id of a request -> {resolve, reject}
const listeners = new Map(); // type of a push -> functions
const pictureListeners = new Set();
const openListeners = new Set();
let socket = null;
let lastId = 0;
let delay = 500;

function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
  socket.binaryType = "arraybuffer";
  socket.onmessage = (event) => (typeof event.data === "string" ? text(JSON.parse(event.data)) : picture(event.data));
  socket.onclose = () => {
    connection.value = "lost";
    for (const { reject } of waiting.values()) reject(new Error("The connection to the server was lost."));
    waiting.clear();
    setTimeout(connect, delay);
    delay = Math.min(delay * 2, 8000);
  };
}

function text(message) {
  if (message.re !== undefined) {
    const request = waiting.get(message.re);
    waiting.delete(message.re);
    if (request && message.asks && confirm(message.asks)) ask(...request.asked, true).then(request.resolve, request.reject);
    else if (message.error) request?.reject(new Error(message.error));
    else request?.resolve(message);
    return;
  }
  if (message.type === "welcome") {
    client.value = message.client;
    control.value = message.control;
    delay = 500;
    connection.value = "open";
    for (const listener of openListeners) listener();
  }
  if (message.type === "control") control.value = message.mine;
  for (const listener of listeners.get(message.type) ?? []) listener(message);
}

const KINDS = ["frame", "input", "saliency", "activation", "filter"];
const CODECS = ["image/jpeg", "image/png", "grey", "rgb"];

function picture(buffer) {
  const head = new DataView(buffer, 0, 32);
  if (head.getUint32(0) !== 0x47594d31) return; // "GYM1"
  const header = {
    kind: KINDS[head.getUint8(4)], codec: CODECS[head.getUint8(5)], flags: head.getUint16(6),
    session: head.getUint32(8), n: head.getUint32(12), t: head.getUint32(16), seq: head.getUint32(20),
    width: head.getUint16(24), height: head.getUint16(26), index: head.getUint16(28), layer: head.getUint16(30),
  };
  const bytes = new Uint8Array(buffer, 32);
  for (const listener of pictureListeners) listener(header, bytes);
}

/** Ask the server over the websocket; resolves with the answer, rejects with the server's one line. */
export function ask(what, fields = {}, trust = false) {
  return new Promise((resolve, reject) => {
    if (socket?.readyState !== WebSocket.OPEN) return reject(new Error("There is no connection to the server."));
    const id = ++lastId;
    waiting.set(id, { resolve, reject, asked: [what, fields] });
    socket.send(JSON.stringify({ id, do: what, ...fields, ...(trust && { trust }) }));
  });
}

/** Listen to pushes of a type; returns the function that ends it. */
export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(listener);
  return () => listeners.get(type).delete(listener);
}

/** Listen to pictures: (header, bytes). */
export function onPicture(listener) {
  pictureListeners.add(listener);
  return () => pictureListeners.delete(listener);
}

/** Call now if connected, and again after every reconnection: a lost connection loses its subscriptions. */
export function onOpen(listener) {
  openListeners.add(listener);
  if (connection.peek() === "open") listener();
  return () => openListeners.delete(listener);
}

/** An ImageBitmap or ImageData of a picture. */
export async function decode(header, bytes) {
  if (header.codec.startsWith("image/")) return createImageBitmap(new Blob([bytes], { type: header.codec }));
  const image = new ImageData(header.width, header.height);
  const channels = header.codec === "rgb" ? 3 : 1;
  for (let i = 0; i < header.width * header.height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[channels * i + (channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  return image;
}

connect();
