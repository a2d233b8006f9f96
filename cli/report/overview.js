// Draws the whole recording as one curve, with a frame around the part that the timeline shows. The
// frame can be dragged; a click beside the frame moves it there.
"use strict";

class Overview {
  constructor(place, view) {
    this.place = place;
    this.view = view;
    this.canvas = place.querySelector("canvas");
    place.addEventListener("pointerdown", (event) => this.press(event));
    place.addEventListener("pointermove", (event) => this.drag(event));
    place.addEventListener("pointerup", () => (this.grip = null));
  }

  resize() {
    this.ratio = fitCanvas(this.canvas, this.place.clientWidth, this.place.clientHeight);
    this.curve = null;
  }

  get width() {
    return this.place.clientWidth - MARGIN.left - MARGIN.right;
  }
  positionAt(x) {
    const [first, last] = this.view.extent;
    return first + ((x - MARGIN.left) / this.width) * (last - first);
  }
  xOf(position) {
    const [first, last] = this.view.extent;
    return MARGIN.left + ((position - first) / (last - first)) * this.width;
  }

  press(event) {
    const box = this.place.getBoundingClientRect();
    const position = this.positionAt(event.clientX - box.left);
    const {view} = this;
    if (position < view.from || position > view.to) {
      const half = (view.to - view.from) / 2;
      view.show(position - half, position + half);
    }
    this.grip = position - view.from;
    this.place.setPointerCapture(event.pointerId);
  }
  drag(event) {
    if (this.grip === null || this.grip === undefined) return;
    const box = this.place.getBoundingClientRect();
    const from = this.positionAt(event.clientX - box.left) - this.grip;
    this.view.show(from, from + this.view.to - this.view.from);
  }

  // The curve is drawn once for a size, scope and theme, and kept.
  drawCurve(inks) {
    const {view, ratio} = this;
    const {moments} = view;
    const curve = document.createElement("canvas");
    curve.width = this.canvas.width;
    curve.height = this.canvas.height;
    const context = curve.getContext("2d");
    context.scale(ratio, ratio);
    const height = this.place.clientHeight - 4;
    const most = Math.max(1, moments.peak);
    context.fillStyle = inks.quiet;
    context.globalAlpha = 0.55;
    for (let x = 0; x < this.width && view.recording.events > 0; ++x) {
      const last = view.eventAt(this.positionAt(MARGIN.left + x + 0.999));
      if (last < 0) continue;
      const first = Math.max(0, view.eventAt(this.positionAt(MARGIN.left + x)));
      const bar = (moments.inUse[moments.highestIn(first, last)] / most) * height;
      context.fillRect(MARGIN.left + x, height + 2 - bar, 1, bar);
    }
    context.globalAlpha = 1;
    context.fillStyle = inks.alarm;
    for (const failure of view.recording.report.out_of_memory) {
      context.fillRect(this.xOf(view.positionOf(failure.event)) - 0.5, 2, 1, 6);
    }
    return curve;
  }

  draw(inks) {
    const {view, ratio} = this;
    const key = [view.axis, view.moments.peakEvent, view.moments.peak, inks.surface].join(" ");
    if (this.curve === null || this.key !== key) {
      this.curve = this.drawCurve(inks);
      this.key = key;
    }
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.curve, 0, 0);
    context.save();
    context.scale(ratio, ratio);
    const left = this.xOf(view.from);
    const right = Math.max(left + 3, this.xOf(view.to));
    const height = this.place.clientHeight;
    context.strokeStyle = inks.accent;
    context.lineWidth = 2;
    context.strokeRect(left, 1, right - left, height - 2);
    context.globalAlpha = 0.12;
    context.fillStyle = inks.accent;
    context.fillRect(left, 1, right - left, height - 2);
    context.globalAlpha = 1;
    context.fillRect(this.xOf(view.positionOf(view.event)) - 0.5, 0, 1.5, height);
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = inks.quiet;
    context.fillText("whole", MARGIN.left - 6, height / 2);
    context.restore();
  }
}
