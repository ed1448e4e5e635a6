// Stores a visitor's classes in the browser, separately for each page.

const open = () =>
  new Promise((resolve, reject) => {
    const request = indexedDB.open("frn", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("classes");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function ask(mode, work) {
  try {
    const database = await open();
    return await new Promise((resolve, reject) => {
      const request = work(database.transaction("classes", mode).objectStore("classes"));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  } catch {
    return undefined; // a private window stores nothing; the page works without it
  }
}

export const load = (key) => ask("readonly", (store) => store.get(key));
export const save = (key, classes) => ask("readwrite", (store) => store.put(classes, key));
export const forget = (key) => ask("readwrite", (store) => store.delete(key));
