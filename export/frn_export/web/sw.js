// Stores the page for offline use, and isolates it so that its graphs can use several threads.

const CACHE = `frn-${self.registration.scope}-${"DIGEST"}`;
const FILES = ["FILES"];

self.addEventListener("install", (event) => {
  const requests = FILES.map((name) => new Request(name, { cache: "reload" }));
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(requests)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const ours = (name) => name.startsWith(`frn-${self.registration.scope}-`) && name !== CACHE;
  const clean = async () => Promise.all((await caches.keys()).filter(ours).map((name) => caches.delete(name)));
  event.waitUntil(clean().then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || !event.request.url.startsWith(self.registration.scope)) return;
  event.respondWith(answer(event.request));
});

async function answer(request) {
  const found = (await caches.match(request, { cacheName: CACHE, ignoreSearch: true })) ?? (await fetch(request));
  if (!found.ok) return found;
  const headers = new Headers(found.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  return new Response(found.body, { status: found.status, statusText: found.statusText, headers });
}
