// SPDX-License-Identifier: MIT
// page.js - tables that sort, and tooltips at once. The page is whole without it.
"use strict";

function valueOf(row, column) {
	const cell = row.cells[column], text = cell.dataset.v ?? cell.textContent;
	return text !== "" && !isNaN(text) ? Number(text) : text;
}

// Numbers before text, empty cells always last.
function compare(a, b) {
	if (a === "" || b === "")
		return 0;
	if (typeof a === typeof b)
		return typeof a === "number" ? a - b : a.localeCompare(b);
	return typeof a === "number" ? -1 : 1;
}

function sortBy(table, column) {
	const head = table.tHead.rows[0].cells[column], body = table.tBodies[0];
	const rows = [...body.rows].map(row => ({ row, value: valueOf(row, column) }));
	const numbers = rows.some(({ value }) => typeof value === "number");
	const before = head.ariaSort;
	const down = before ? before === "ascending" : numbers;
	rows.sort((a, b) => (a.value === "") - (b.value === "") || (down ? -1 : 1) * compare(a.value, b.value));
	for (const cell of table.tHead.rows[0].cells)
		cell.removeAttribute("aria-sort");
	head.ariaSort = down ? "descending" : "ascending";
	body.append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table")) {
	[...table.tHead.rows[0].cells].forEach((cell, column) => {
		const button = document.createElement("button");
		button.type = "button";
		button.title = "sort";
		button.append(...cell.childNodes);
		button.addEventListener("click", () => sortBy(table, column));
		cell.append(button);
	});
}

// A mark's own <title> is shown beside the pointer at once; it is taken away meanwhile, or the browser would show it
// again later.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
let shown = null;

function hide() {
	if (shown)
		shown.mark.append(shown.title);
	shown = null;
	tip.hidden = true;
}

function place(event) {
	const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
	const below = event.clientY + 18, above = event.clientY - tip.offsetHeight - 10;
	tip.style.left = `${Math.max(x, 8)}px`;
	tip.style.top = `${below + tip.offsetHeight < innerHeight ? below : Math.max(above, 8)}px`;
}

document.addEventListener("pointerover", event => {
	hide();
	let mark = event.target.closest("figure svg *");
	while (mark && !(mark.tagName === "svg" && mark.getAttribute("role"))) {
		const title = [...mark.children].find(child => child.tagName === "title");
		if (title) {
			tip.textContent = title.textContent;
			title.remove();
			shown = { mark, title };
			tip.hidden = false;
			place(event);
			return;
		}
		mark = mark.parentElement;
	}
});
document.addEventListener("pointermove", event => shown && place(event));
document.documentElement.addEventListener("pointerleave", hide);

// On paper nothing is folded.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(fold => { fold.open = true; }));
