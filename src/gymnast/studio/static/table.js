// A table that draws only the rows in view: a thousand rows cost as much as thirty.
import { Icon, cls, html, useLayoutEffect, useRef, useState } from "./ui.js";

const EXTRA = 8; // rows drawn above and below the view

/**
 * columns: {id, label, title, width, align: "right", sort: row => value, render: row => content, class}
 * rows; rowKey: row => text; sort: {id, down}, onSort; onOpen(row) on click and Enter;
 * selected: Set of keys, onSelect(key, on) and onSelectAll(on) draw boxes.
 * `class: "wide"` on a column hides it on a phone.
 */
export function Table({ label, columns, rows, rowKey, rowHeight = 40, sort, onSort, onOpen, selected, onSelect, onSelectAll, empty, fill = true, rowClass }) {
  const box = useRef();
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, []);
  const sorted = sortRows(rows, columns, sort);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - EXTRA);
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / rowHeight) + EXTRA);
  const gap = (count) => count > 0 && html`<tr class="gap" aria-hidden="true"><td style=${{ height: `${count * rowHeight}px` }}></td></tr>`;

  const move = (event, index) => {
    if (event.target !== event.currentTarget) return;
    const row = sorted[index];
    if (event.key === "Enter") onOpen?.(row);
    else if (event.key === " " && onSelect) onSelect(rowKey(row), !selected.has(rowKey(row)));
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const sibling = event.key === "ArrowDown" ? event.currentTarget.nextElementSibling : event.currentTarget.previousElementSibling;
      if (sibling && !sibling.classList.contains("gap")) sibling.focus();
    } else return;
    event.preventDefault();
  };

  return html`<div class=${cls("table-box", fill && "fill")} ref=${box}><table class="table" aria-label=${label} aria-rowcount=${sorted.length + 1}>
    <colgroup>${onSelect && html`<col style=${{ width: "36px" }} />`}${columns.map((c) => html`<col key=${c.id} class=${c.class} style=${c.width ? { width: c.width } : undefined} />`)}</colgroup>
    <thead><tr>${onSelect && html`<th class="box"><input type="checkbox" aria-label="Select all shown" checked=${rows.length > 0 && rows.every((r) => selected.has(rowKey(r)))}
        onChange=${(e) => onSelectAll?.(e.target.checked)} /></th>`}
      ${columns.map((c) => html`<th key=${c.id} class=${cls(c.align, c.class)} title=${c.title} aria-sort=${sort?.id === c.id ? (sort.down ? "descending" : "ascending") : undefined}>
        ${c.sort && onSort ? html`<button type="button" onClick=${() => onSort({ id: c.id, down: sort?.id === c.id ? !sort.down : true })}>${c.label}
          ${sort?.id === c.id && html`<span class=${cls("sort", !sort.down && "up")}><${Icon} name="down" size=${12} /></span>`}</button>` : c.label}</th>`)}</tr></thead>
    <tbody>${gap(first)}
      ${sorted.slice(first, last).map((row, i) => {
        const key = rowKey(row);
        return html`<tr key=${key} data-key=${key} aria-rowindex=${first + i + 2} tabindex=${onOpen || onSelect ? 0 : undefined} class=${cls(onOpen && "link", selected?.has(key) && "selected", rowClass?.(row))}
          style=${{ height: `${rowHeight}px` }} onKeyDown=${(e) => move(e, first + i)} onClick=${(e) => !e.target.closest("a,button,input,label") && onOpen?.(row)}>
          ${onSelect && html`<td class="box"><input type="checkbox" aria-label="Select ${key}" checked=${selected.has(key)} onChange=${(e) => onSelect(key, e.target.checked)} /></td>`}
          ${columns.map((c) => html`<td key=${c.id} class=${cls(c.align, c.class)}>${c.render ? c.render(row) : row[c.id]}</td>`)}</tr>`;
      })}${gap(sorted.length - last)}</tbody></table>
    ${!sorted.length && empty}</div>`;
}

function sortRows(rows, columns, sort) {
  const column = sort && columns.find((c) => c.id === sort.id);
  if (!column?.sort) return rows;
  const keyed = rows.map((row) => [column.sort(row), row]);
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  keyed.sort(([a], [b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b); // rows without a value stay at the end
    const order = typeof a === "string" ? a.localeCompare(b) : a - b;
    return sort.down ? -order : order;
  });
  return keyed.map(([, row]) => row);
}
