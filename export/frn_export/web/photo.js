// Photos: decoded to the bytes that the model needs, and drawn with their error map.

const MOST = 16_000_000; // pixels that every browser's canvas supports
const SIDE = 320;

// Return the upright pixels of an image file as RGB bytes, with transparency on white, its full size, and a bitmap to draw.
export async function decode(file) {
  // The canvas is sRGB, so the browser applies colour profiles and the colour chunks of PNGs, as `frn classify` does.
  const bitmap = await createImageBitmap(file, { imageOrientation: "from-image", premultiplyAlpha: "none" });
  const shrink = Math.min(1, Math.sqrt(MOST / (bitmap.width * bitmap.height)));
  const width = Math.max(1, Math.floor(bitmap.width * shrink));
  const height = Math.max(1, Math.floor(bitmap.height * shrink));
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0, width, height);
  const rgba = context.getImageData(0, 0, width, height).data;
  const data = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < data.length; from += 4, to += 3) {
    data[to] = rgba[from];
    data[to + 1] = rgba[from + 1];
    data[to + 2] = rgba[from + 2];
  }
  return { data, width, height, full: { width: bitmap.width, height: bitmap.height }, picture: await thumbnail(bitmap) };
}

// Return pixels whose longer side is at most this, each the mean of a part, as `shrunk` of frn/images/colour.py does.
export function shrunk(pixels, longest) {
  const share = longest / Math.max(pixels.width, pixels.height);
  if (share >= 1) return pixels;
  const [across, down] = [pixels.width, pixels.height].map((length) => {
    const count = Math.max(1, Math.round(share * length));
    return Array.from({ length: count + 1 }, (_, i) => Math.floor((i * length) / count + 0.5));
  });
  const [width, height] = [across.length - 1, down.length - 1];
  const data = new Uint8Array(width * height * 3);
  for (let to = 0; to < data.length; to++) {
    const x = Math.floor(to / 3) % width, y = Math.floor(to / 3 / width);
    let total = 0;
    for (let row = down[y]; row < down[y + 1]; row++) {
      for (let column = across[x]; column < across[x + 1]; column++) total += pixels.data[(row * pixels.width + column) * 3 + (to % 3)];
    }
    data[to] = Math.round(total / ((down[y + 1] - down[y]) * (across[x + 1] - across[x])));
  }
  return { data, width, height };
}

// Return the pixels of a part [left, top, width, height].
export function cut({ data, width }, [left, top, across, down]) {
  const part = new Uint8Array(down * across * 3);
  for (let y = 0; y < down; y++) {
    const start = ((top + y) * width + left) * 3;
    part.set(data.subarray(start, start + across * 3), y * across * 3);
  }
  return { data: part, width: across, height: down };
}

// Return a bitmap of pixels to draw.
export async function pictureOf({ data, width, height }) {
  const image = new ImageData(width, height);
  image.data.fill(255);
  for (let from = 0, to = 0; from < data.length; from += 3, to += 4) image.data.set(data.subarray(from, from + 3), to);
  return thumbnail(await createImageBitmap(image));
}

// Draw a whole photo of this size with a frame around a part.
export function drawFrame(canvas, picture, { width, height }, [left, top, across, down]) {
  const shrink = SIDE / Math.max(width, height);
  [canvas.width, canvas.height] = [width * shrink, height * shrink].map((side) => Math.max(1, Math.round(side)));
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  for (const [colour, line] of [["#000", 6], ["#fff", 3]]) {
    Object.assign(context, { strokeStyle: colour, lineWidth: line });
    context.strokeRect(...[left, top, across, down].map((side) => side * shrink));
  }
}

// Return a copy that is large enough to show and small enough to store.
async function thumbnail(bitmap) {
  const shrink = Math.min(1, (2 * SIDE) / Math.min(bitmap.width, bitmap.height));
  const size = { resizeWidth: Math.max(1, Math.round(bitmap.width * shrink)), resizeHeight: Math.max(1, Math.round(bitmap.height * shrink)) };
  const small = await createImageBitmap(bitmap, { ...size, resizeQuality: "high" });
  bitmap.close();
  return small;
}

// Draw the part of an image that the network saw. With an error map, the image is grey under the colours of the errors.
export function draw(canvas, picture, page, errorMap) {
  canvas.width = canvas.height = SIDE;
  const context = canvas.getContext("2d");
  const box = seen(picture, page.crop);
  context.fillStyle = "#fff";
  context.fillRect(0, 0, SIDE, SIDE);
  context.filter = errorMap ? "grayscale(1)" : "none";
  context.drawImage(picture, box.left, box.top, box.width, box.height, 0, 0, SIDE, SIDE);
  context.filter = "none";
  if (!errorMap) return;
  const [rows, columns] = page.grid;
  const low = Math.min(...errorMap);
  const spread = Math.max(...errorMap) - low;
  const [least, most] = page.ramp.cover;
  errorMap.forEach((error, i) => {
    const level = spread ? (error - low) / spread : 0;
    context.globalAlpha = least + (most - least) * level;
    context.fillStyle = colour(level, page.ramp.colours);
    const [x, y] = [i % columns, Math.floor(i / columns)];
    const [left, top] = [Math.round((x * SIDE) / columns), Math.round((y * SIDE) / rows)];
    const [right, bottom] = [Math.round(((x + 1) * SIDE) / columns), Math.round(((y + 1) * SIDE) / rows)];
    context.fillRect(left, top, right - left, bottom - top);
  });
  context.globalAlpha = 1;
}

function seen({ width, height }, { size, length, square, own }) {
  if (own && width === size && height === size) return { left: 0, top: 0, width, height };
  const share = size / length;
  const [across, down] = square ? [width, height] : [Math.min(width, height), Math.min(width, height)];
  return { left: (width - across * share) / 2, top: (height - down * share) / 2, width: across * share, height: down * share };
}

function colour(level, ramp) {
  const place = level * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  return `rgb(${ramp[low].map((value, i) => Math.round(value + (place - low) * (ramp[low + 1][i] - value))).join(" ")})`;
}
