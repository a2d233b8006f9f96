// Colours and patterns of groups, and canvases of the right size. A group has a pattern beside its
// colour, so that it can be told without colour.
"use strict";

// Colours that most people who see fewer colours can tell apart (after Okabe and Ito), also by
// lightness. All groups that have no colour of their own have the last.
const GROUP_COLOURS = [
  [[86, 156, 214], [62, 120, 178]], [[233, 163, 50], [196, 128, 28]], [[74, 170, 132], [48, 134, 100]],
  [[205, 118, 170], [168, 86, 136]], [[214, 108, 62], [176, 80, 40]], [[150, 140, 214], [116, 104, 180]],
  [[176, 176, 96], [138, 138, 64]], [[160, 160, 160], [124, 124, 124]],
];
// Rows of eight pixels, one bit each.
const PATTERNS = [
  [0, 0, 0, 0, 0, 0, 0, 0],                                  // plain
  [0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01],          // falling lines
  [0x22, 0, 0x88, 0, 0x22, 0, 0x88, 0],                      // points
  [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80],          // rising lines
  [0xff, 0, 0, 0, 0, 0, 0, 0],                               // level lines
  [0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10],          // upright lines
  [0xff, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10],          // a grid
  [0x81, 0x42, 0x24, 0x18, 0x18, 0x24, 0x42, 0x81],          // crosses
];
const WAITING = [0xc3, 0xe1, 0xf0, 0x78, 0x3c, 0x1e, 0x0f, 0x87];  // broad falling lines
const SMALL = [0x11, 0, 0x44, 0, 0x11, 0, 0x44, 0];

function colourNumber([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function numbersOfColour(name) {
  const digits = colourOf(name).slice(1);
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
}

function mixed(a, b, share) {
  return a.map((value, n) => Math.round(value + (b[n] - value) * share));
}

// The colours of the current theme: texts for the canvas, and numbers for its pixels.
class Inks {
  constructor() {
    this.background = numbersOfColour("--surface");
    this.text = colourOf("--text");
    this.quiet = colourOf("--quiet");
    this.line = colourOf("--line");
    this.accent = colourOf("--accent");
    this.alarm = colourOf("--alarm");
    this.taken = colourOf("--taken");
    this.surface = colourOf("--surface");
    this.ground = colourNumber(this.background);
    this.small = [colourNumber(mixed(this.background, [128, 128, 128], 0.45)),
                  colourNumber(mixed(this.background, [128, 128, 128], 0.85))];
    this.groups = GROUP_COLOURS.map(([light, dark]) => this.shades(light, dark));
    this.pale = GROUP_COLOURS.map(([light, dark]) =>
      this.shades(mixed(light, this.background, 0.75), mixed(dark, this.background, 0.75)));
  }

  // Two tones of a group's colour, so that neighbouring blocks differ; each with a colour for the
  // pattern and one for the edge.
  shades(light, dark) {
    const tone = (share) => {
      const base = mixed(light, this.background, share);
      return {base: colourNumber(base), mark: colourNumber(mixed(base, dark, 0.65)),
              edge: colourNumber(mixed(dark, [0, 0, 0], 0.12))};
    };
    return [tone(0), tone(0.16)];
  }

  shadeOf(group, block, pale) {
    return (pale ? this.pale : this.groups)[Math.min(group, LEVELS - 1)][(block * 7919 >> 3) & 1];
  }
  patternOf(group) {
    return PATTERNS[Math.min(group, LEVELS - 1)];
  }
}

// Makes the canvas as large as its place, in the screen's pixels. Clears it.
function fitCanvas(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  return ratio;
}

// A small sample of a group's colour and pattern, for tables.
function swatch(inks, group) {
  const canvas = make("canvas", "", {className: "swatch", width: 24, height: 16});
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  const image = context.createImageData(24, 16);
  const pixels = new Uint32Array(image.data.buffer);
  const shade = inks.shadeOf(group, 0, false);
  const pattern = inks.patternOf(group);
  for (let n = 0; n < pixels.length; ++n) {
    const on = (pattern[Math.floor(n / 24) & 7] >> (n % 24 & 7)) & 1;
    pixels[n] = on ? shade.mark : shade.base;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Marks at round values from low to high, at most about `count`. The step between them is one of
// `bases` times a power of 10, or of 2 if there is only one base.
function roundMarks(low, high, count, bases) {
  const rough = (high - low) / count;
  let step = bases[0];
  const grow = bases.length > 1 ? 10 : 2;
  while (step * bases[bases.length - 1] < rough) step *= grow;
  for (const base of bases) {
    if (step * base >= rough) {
      step *= base;
      break;
    }
  }
  const marks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) marks.push(at);
  return {marks, step};
}
