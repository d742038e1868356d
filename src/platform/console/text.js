// text.js - texts of agents, shown so that nothing in them can hide; times; values laid out.
import { Exact } from "./api.js";

// Control characters, all spaces but the plain one, and whatever a browser draws as nothing.
const odd = /[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
const oddParts = new RegExp(`(${odd.source})`, "u");
const latin = /\p{Script=Latin}/u;
const lookAlike = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}]/u;

const NAMES = {
  0: "NUL", 7: "bell", 8: "backspace", 9: "tab", 0xA: "line break", 0xD: "carriage return", 0x1B: "escape", 0x7F: "delete",
  0xA0: "no-break space", 0xAD: "soft hyphen", 0x200B: "zero-width space", 0x200C: "zero-width non-joiner", 0x200D: "zero-width joiner",
  0x200E: "left-to-right mark", 0x200F: "right-to-left mark", 0x202A: "left-to-right embedding", 0x202B: "right-to-left embedding",
  0x202C: "pop direction", 0x202D: "left-to-right override", 0x202E: "right-to-left override", 0x2060: "word joiner",
  0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate", 0x2069: "pop isolate",
  0x3000: "wide space", 0xFEFF: "zero-width no-break space",
};

const codeOf = one => "U+" + one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

function mark(one) {
  const name = NAMES[one.codePointAt(0)];
  if (one === "\n") return [m("span.mark", { title: "line break" }, "↵"), "\n"];
  if (one === "\t") return [m("span.mark", { title: "tab" }, "→"), "\t"];
  return m("span.odd", { title: name || "a character that is not visible" }, name ? `${codeOf(one)} ${name}` : codeOf(one));
}

// A word of Latin letters with some of another alphabet in it: each of those is named.
function word(text) {
  if (!latin.test(text) || !lookAlike.test(text)) return text;
  return Array.from(text, one => lookAlike.test(one)
    ? [one, m("span.odd", { title: "a letter of another alphabet in a Latin word" }, codeOf(one))] : one);
}

export function shown(text) {
  text = String(text);
  if (!odd.test(text) && !lookAlike.test(text)) return m("bdi", text);
  return m("bdi", text.split(oddParts).map(part =>
    part.length <= 2 && odd.test(part) ? mark(part) : part.split(/(\s+)/).map(word)));
}

export const hasOdd = text => odd.test(String(text)) || String(text).split(/\s+/).some(one => latin.test(one) && lookAlike.test(one));

// ---- times ----

const UNITS = [["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function length(seconds) {
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) || UNITS[3];
  const count = Math.floor(seconds / size);
  return `${count} ${unit}${unit === "day" && count !== 1 ? "s" : ""}`;
}

export function relative(text, now = Date.now()) {
  const seconds = (Date.parse(text) - now) / 1000;
  return seconds >= 0 ? `in ${length(seconds)}` : `${length(-seconds)} ago`;
}

export const secondsUntil = text => (Date.parse(text) - Date.now()) / 1000;

const clockForm = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayForm = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export function clock(text) {
  const time = new Date(text), today = new Date().toDateString() === time.toDateString();
  return today ? clockForm.format(time) : `${dayForm.format(time)}, ${clockForm.format(time)}`;
}

export const time = text => text ? m("time", { datetime: text, title: text }, clock(text)) : "";

export const count = (number, one, many = one + "s") => `${number} ${number === 1 ? one : many}`;

// ---- values ----

const PART_BYTES = 400, PART_LINES = 8;

// Pieces of a text that fit on a small screen together, so that each can be seen whole.
function pieces(text) {
  const found = [];
  let piece = "", lines = 0;
  for (const line of text.split(/(?<=\n)/)) {
    for (let at = 0; at < line.length || at === 0; at += PART_BYTES) {
      const some = line.slice(at, at + PART_BYTES);
      if (piece && (lines >= PART_LINES || piece.length + some.length > PART_BYTES)) {
        found.push(piece);
        piece = "";
        lines = 0;
      }
      piece += some;
      lines++;
    }
  }
  return [...found, piece];
}

// Pairs of names under which agents send what a text was and what it shall be.
const EDITS = [["old_string", "new_string"], ["old_str", "new_str"], ["oldText", "newText"], ["old_text", "new_text"], ["old", "new"],
  ["before", "after"], ["from", "to"], ["old_content", "new_content"], ["original", "replacement"]];

function editOf(value) {
  return EDITS.find(([a, b]) => typeof value[a] === "string" && typeof value[b] === "string" && (value[a] + value[b]).includes("\n"));
}

// [{path, text}]: all of a value in order, each scalar with the way to it. An edit has {path, edit}.
export function parts(value, path = []) {
  if (typeof value === "string")
    return pieces(value).map((text, at, all) => ({ path, at, text: quoted(value) && all.length === 1 ? JSON.stringify(text) : text, plain: true }));
  if (value instanceof Exact) return [{ path, at: 0, text: value.text }];
  if (value === null || typeof value !== "object") return [{ path, at: 0, text: String(value) }];
  const rows = Object.entries(value);
  if (rows.length === 0) return [{ path, at: 0, text: Array.isArray(value) ? "[] (an empty list)" : "{} (an empty object)" }];
  const edit = Array.isArray(value) ? undefined : editOf(value);
  const found = [];
  for (const [name, inner] of rows) {
    if (edit && name === edit[1]) continue;
    if (edit && name === edit[0]) found.push(...editParts(value, edit, path));
    else found.push(...parts(inner, [...path, Array.isArray(value) ? `[${name}]` : name]));
  }
  return found;
}

// Texts that would look like another type, or like nothing.
const quoted = text => text === "" || text.trim() !== text || /^(-?\d[\d.eE+-]*|true|false|null|[[{].*)$/s.test(text) && !text.includes("\n");

// ---- changes ----

// [{sign, text}] of two texts, line by line, in pieces.
function editParts(value, [before, after], path) {
  const found = [];
  for (const change of Diff.diffLines(value[before], value[after])) {
    const sign = change.added ? "+" : change.removed ? "-" : " ";
    for (const text of pieces(change.value)) found.push({ path: [...path, `${before} → ${after}`], at: found.length, text, sign });
  }
  return found;
}

const SIGNS = { "+": ["ins", "added"], "-": ["del", "removed"], " ": ["span", "same"] };

export function signed(sign, text) {
  const [tag, word] = SIGNS[sign];
  return m(`${tag}.line`, m("span.unseen", `${word}: `), m("span.sign", { "aria-hidden": "true" }, sign), shown(text.replace(/\n$/, "")));
}

export function diffView(before, after) {
  const changes = Diff.diffLines(before, after);
  return m(".diff[tabindex=0][role=group]", { "aria-label": "Changes" }, changes.map((change, at) => {
    if (change.added) return signed("+", change.value);
    if (change.removed) return signed("-", change.value);
    const lines = change.value.replace(/\n$/, "").split("\n"), head = at ? 3 : 0, tail = at < changes.length - 1 ? 3 : 0;
    if (lines.length <= head + tail + 1) return signed(" ", change.value);
    return [head ? signed(" ", lines.slice(0, head).join("\n")) : null, m(".gap", `… ${lines.length - head - tail} lines the same …`),
      tail ? signed(" ", lines.slice(-tail).join("\n")) : null];
  }));
}

export const pathView = path => path.length === 0 ? m("em", "value")
  : path.map((one, at) => [at ? m("span.quiet", " › ") : "", shown(one)]);

// The same value, whatever the order of its members.
export function canonical(value) {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object")
    return `{${Object.keys(value).sort().map(key => JSON.stringify(key) + ":" + canonical(value[key])).join(",")}}`;
  return JSON.stringify(value);
}
