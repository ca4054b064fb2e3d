// Keeps the page as new as the control plane, and lets the keys move through a drawing.
'use strict';

let last = 0, timer = 0, busy = false, again = false, shown = '';

const live = (text, good) => {
  const sign = document.getElementById('live');
  if (sign) { sign.textContent = text; sign.className = good ? 'good' : 'bad'; }
};

// Something that finds the same element in the renewed page.
const keyOf = (element) => {
  if (!element || element === document.body) return null;
  if (element.id) return '#' + CSS.escape(element.id);
  const link = element.getAttribute('href');
  return link ? 'main a[href="' + CSS.escape(link) + '"]' : null;
};

// Puts another content in place, and keeps what the viewer has done: focus, typed text, what is
// scrolled and opened.
const replace = (old, fresh) => {
  const focus = keyOf(document.activeElement), typed = document.activeElement;
  const caret = typed && 'selectionStart' in typed ? typed.selectionStart : null;
  const values = [...old.querySelectorAll('input[id], select[id]')].map((one) => [one.id, one.value]);
  const scrolls = [...old.querySelectorAll('.scroll')].map((one) => [one.scrollLeft, one.scrollTop]);
  const open = [...old.querySelectorAll('details')].map((one) => one.open);
  old.innerHTML = fresh;
  old.querySelectorAll('.scroll').forEach((one, at) => {
    if (scrolls[at]) [one.scrollLeft, one.scrollTop] = scrolls[at];
  });
  old.querySelectorAll('details').forEach((one, at) => { if (open[at]) one.open = true; });
  values.forEach(([id, value]) => {
    const one = document.getElementById(id);
    if (one && one.value !== value) one.value = value;
  });
  const found = focus && document.querySelector(focus);
  if (found) {
    found.focus({ preventScroll: true });
    if (caret !== null && found.setSelectionRange) found.setSelectionRange(caret, caret);
  }
};

const renew = async () => {
  if (busy) { again = true; return; }
  busy = true;
  last = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (answer.redirected && new URL(answer.url).pathname === '/sign-in') { location.href = '/sign-in'; return; }
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const fresh = page.querySelector('main'), old = document.querySelector('main');
    if (fresh && old && fresh.innerHTML !== shown) {
      shown = fresh.innerHTML;
      replace(old, shown);
    }
    const state = page.getElementById('state'), own = document.getElementById('state');
    if (state && own) { own.innerHTML = state.innerHTML; }
    live('live', true);
  } catch (error) {
    live('not connected', false);
  } finally {
    busy = false;
    if (again) { again = false; soon(); }
  }
};

// The page says how long it wants to be left alone.
const soon = () => {
  clearTimeout(timer);
  const pause = Number(document.querySelector('main').dataset.pause || 200);
  timer = setTimeout(renew, Math.max(0, last + pause - Date.now()));
};

const follow = () => {
  const main = document.querySelector('main[data-live]');
  if (!main) return;
  shown = main.innerHTML;
  const events = new EventSource('/events');
  let first = main.dataset.live;
  events.onmessage = (event) => { if (event.data !== first) soon(); first = null; };
  events.onopen = () => live('live', true);
  events.onerror = () => live('not connected', false);
};

// The filter of a list acts while it is typed.
document.addEventListener('input', (event) => {
  const form = event.target.closest('form[data-filter]');
  if (!form) return;
  const address = new URL(location.href);
  address.search = new URLSearchParams(new FormData(form)).toString();
  history.replaceState(null, '', address);
  soon();
});

// Arrows move to the nearest box in their direction.
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.closest('input, textarea, select')) {
    const filter = document.querySelector('input[type=search]');
    if (filter) { event.preventDefault(); filter.focus(); }
    return;
  }
  const way = WAYS[event.key], here = event.target.closest && event.target.closest('svg.fabric a');
  if (!way || !here) return;
  const middle = (box) => [box.left + box.width / 2, box.top + box.height / 2];
  const [x, y] = middle(here.getBoundingClientRect());
  let best = null, least = Infinity;
  for (const other of here.closest('svg').querySelectorAll('a')) {
    const [u, v] = middle(other.getBoundingClientRect());
    const ahead = (u - x) * way[0] + (v - y) * way[1];
    const aside = Math.abs((u - x) * way[1]) + Math.abs((v - y) * way[0]);
    if (other !== here && ahead > 2 && ahead + 2 * aside < least) { best = other; least = ahead + 2 * aside; }
  }
  if (best) { event.preventDefault(); best.focus(); }
});

follow();
