// The browser side of the web experiments, for k6: each virtual user asks for one page after the other.
// LAB_URL, LAB_PAGE (items or lookups), LAB_MODE, LAB_ROWS (items, or small,large), LAB_LOOKUPS, LAB_SEED
import http from 'k6/http';

export const options = { discardResponseBodies: true };

const rows = __ENV.LAB_ROWS.split(',').map(Number);
const pageItems = 500;
let state = (Number(__ENV.LAB_SEED) * 104729 + __VU * 7919) >>> 0;

// k6's own random numbers cannot be seeded.
function below(limit) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 4294967296) * limit);
}

function itemsPage() {
  return `/items?mode=${__ENV.LAB_MODE}&first=${1 + below(Math.max(1, rows[0] - pageItems))}`;
}

function lookupsPage() {
  const ids = [];
  for (let n = 0; n < Number(__ENV.LAB_LOOKUPS); n++) {
    const row = below(rows[0] + rows[1]);
    ids.push(row < rows[0] ? `s${row + 1}` : `l${row - rows[0] + 1}`);
  }
  return `/lookups?ids=${ids.join(',')}`;
}

export default function () {
  // One name for all pages: k6 would keep a series for each address otherwise.
  http.get(__ENV.LAB_URL + (__ENV.LAB_PAGE === 'items' ? itemsPage() : lookupsPage()), { tags: { name: 'page' } });
}
