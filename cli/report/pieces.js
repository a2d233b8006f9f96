// Draws what is free between the blocks over the whole recording, and the largest piece of it: the
// wider the two are apart, the more is free in small pieces. The values are the report's samples.
"use strict";

class Pieces {
  constructor(place, overview) {
    this.place = place;
    this.overview = overview;
    this.canvas = place.querySelector("canvas");
    this.samples = overview.view.recording.report.samples;
    this.most = Math.max(1, ...this.samples.map((sample) => sample.free_bytes));
  }

  resize() {
    this.ratio = fitCanvas(this.canvas, this.place.clientWidth, this.place.clientHeight);
    this.drawn = "";
  }

  // A path through the samples; each holds until the next.
  path(context, name, height) {
    const {view} = this.overview;
    const yOf = (bytes) => height + 2 - (bytes / this.most) * height;
    context.beginPath();
    context.moveTo(MARGIN.left, height + 2);
    let before = 0;
    for (const sample of this.samples) {
      const x = this.overview.xOf(view.positionOf(sample.event));
      context.lineTo(x, yOf(before));
      context.lineTo(x, yOf(sample[name]));
      before = sample[name];
    }
    context.lineTo(this.overview.xOf(view.extent[1]), yOf(before));
  }

  draw(inks) {
    const key = `${this.overview.view.axis} ${inks.surface}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.save();
    context.scale(this.ratio, this.ratio);
    const height = this.place.clientHeight - 4;
    const right = this.overview.xOf(this.overview.view.extent[1]);
    this.path(context, "free_bytes", height);
    context.lineTo(right, height + 2);
    context.fillStyle = inks.line;
    context.fill();
    this.path(context, "largest_free_bytes", height);
    context.strokeStyle = inks.accent;
    context.lineWidth = 1.5;
    context.stroke();
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = inks.quiet;
    context.fillText("free, in pieces", MARGIN.left - 6, height / 2);
    context.restore();
  }
}
