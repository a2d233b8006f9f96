"""The results as JSON, as Markdown with one table for each thing that was looked at, and as a summary."""

import json
import os

import benchmarks


def write(results, folder):
    """Replaces what was there only when all is written."""
    for name, text in (("results.json", json.dumps(results, indent=1) + "\n"), ("results.md", markdown(results))):
        path = os.path.join(folder, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def summary(results):
    lines = [f"{'part':<14}{'seconds':>9}  result"]
    for name, part in results["parts"].items():
        failures = part["failures"]
        lines.append(f"{name:<14}{part['seconds']:>9.1f}  {'holds' if not failures else f'{len(failures)} do not hold'}")
        lines += [f"{'':<25}{line[:200]}" for line in failures]
    return "\n".join(lines)


def markdown(results):
    machine = results["machine"]
    parts = results["parts"]
    text = [f"{machine['gpu']}, driver {machine['driver'] or '–'}, CUDA {machine['cuda'] or '–'}; {machine['processor']}; "
            f"commit {machine['commit']}; {machine['date']}.", ""]
    text += _table(("part", "seconds", "does not hold"),
                   [(name, part["seconds"], len(part["failures"])) for name, part in parts.items()])
    for name, part in parts.items():
        if part["failures"]:
            text += [f"Of {name}, this does not hold:", ""] + [f"- {line}" for line in part["failures"]] + [""]
    if "modes" in parts.get("random", {}):  # else it broke
        text += _random(parts["random"]["modes"])
    if "programs" in parts.get("programs", {}):
        text += _programs(parts["programs"])
    if "device" in parts.get("benchmarks", {}):
        text += _benchmarks(parts["benchmarks"])
    return "\n".join(text)


def _table(head, rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *rows)]
    return [*lines, ""]


def _number(value, digits=3):
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def bytes_text(size):
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_:
            return f"{size / bytes_:g} {unit}"
    return f"{size} B"


def _programs(part):
    rows = part["programs"]
    modes = next((list(row["modes"]) for row in rows if row["modes"]), [])
    lines = []
    for row in rows:
        if "lacking" in row:
            cells = [f"not run: {row['lacking'].splitlines()[-1]}"] + [""] * len(modes)
        else:
            cells = [_verdict(row["modes"][mode]) for mode in modes]
            cells.append(_witness(row.get("witness")))
        lines.append((row["name"], *cells))
    text = ["### Programs", "", "Results with cubfc and without, and, from CUPTI's callbacks, the allocations of the driver's "
            "that cubfc made and those that passed it by.", ""]
    text += _table(("program", *modes, "allocations by cubfc / past it"), lines)
    if part["left_out"]:
        text += [f"Not run, because they need a GPU: {'; '.join(part['left_out'])}.", ""]
    text += ["Two processes on one device, 40% each: " + "; ".join(
        f"{row['name']}: {row.get('lacking') or ('equal' if row['equal'] else '**different**')}"
        for row in part["sharing"]) + ".", ""]
    return text


def _random(modes):
    text = ["### Random programs", "", "Each leaves the bytes that it should.", ""]
    return text + _table(("mode", "programs"), [(mode, row["programs"] or "**failed**") for mode, row in modes.items()])


def _verdict(verdict):
    if "not_run" in verdict:
        return f"not run: {verdict['not_run']}"
    if not verdict["equal"]:
        return "**different**"
    if "not_served" in verdict:
        return "**not served**"
    return "equal" if verdict["exactly"] else "equal as far as it repeats"


def _witness(seen):
    if seen is None:
        return "not seen"
    if seen["errors"]:
        return seen["errors"][0]
    unknown = f" ({seen['unknown']} unknown)" if seen["unknown"] else ""
    return f"{seen['by_cubfc']} / {seen['past_cubfc']}{unknown}"


def _benchmarks(part):
    text = []
    if part["bars"] is None:
        text += ["The software driver has no costs of its own worth measuring: what follows shows only that all of it runs.", ""]
    text += ["### An allocation and its free, ns", ""]
    measured = {mode: figures for mode, figures in part["device"].items() if "pairs" in figures}
    points = sorted({(point["threads"], point["bytes"]) for figures in measured.values() for point in figures["pairs"]})
    text += _table(
        ("size", "threads", *measured),
        [(bytes_text(size), threads, *(_number(benchmarks.pair_ns(part, mode, size, threads)) for mode in measured))
         for threads, size in points])
    text += ["### Allocate, write in the stream, free: ns an iteration for the host / until the device is done", ""]
    text += _table(("mode", "streams", "host", "done", "without allocation"), _loop_rows(measured))
    text += ["### Traces, ns an allocation and its free", ""]
    text += _table(("mode", "trace", "first pass", "repeated", "failed", "sizes divided by"), _trace_rows(measured))
    text += ["### The first allocation, and one that is larger than all before, µs", ""]
    text += _table(("mode", "first", "by size"), _growth_rows(measured))
    idle = part["idle"].get("median")
    text += [f"A program that hardly allocates takes {_number(idle, 4)} of its time under cubfc (median of pairs).", ""]
    text += _pytorch(part)
    if part["bars"]:
        text += ["### Bars", ""]
        text += _table(("what", "measured", "bar", "met"), [
            (bar["what"], _number(bar["value"]),
             f"≥ {bar['least']}" if bar["least"] is not None else f"≤ {bar['most']}",
             {True: "yes", False: "**no**", None: "not measured"}[bar["met"]]) for bar in part["bars"]])
    return text


def _loop_rows(measured):
    for mode, figures in measured.items():
        for point in figures.get("loop", []):
            times = point["allocating"] or {}
            floor = (point["floor"] or {}).get("host_ns_per_iteration")
            yield (mode, point["streams"], _number(times.get("host_ns_per_iteration")),
                   _number(times.get("done_ns_per_iteration")), _number(floor))


def _trace_rows(measured):
    for mode, figures in measured.items():
        for trace in figures.get("trace", []):
            yield (mode, trace["name"], _number(trace["first_pass"]["ns_per_pair"]),
                   _number(trace["repeated_pass"]["ns_per_pair"]), trace["repeated_pass"]["failed_allocations"],
                   trace["sizes_divided_by"])


def _growth_rows(measured):
    def micros(point):
        return _number(point["allocate_ns"] / 1000 if point["allocate_ns"] else None)

    for mode, figures in measured.items():
        if "growth" not in figures:
            continue
        growth = figures["growth"]
        sizes = ", ".join(f"{bytes_text(point['bytes'])}: {micros(point)}" for point in growth["sizes"])
        yield mode, micros(growth["first_allocation"]), sizes


def _pytorch(part):
    text = []
    for key, title in (("pytorch_steps", "PyTorch training"), ("pytorch_pairs", "torch.empty and its end")):
        rows = part.get(key)
        if not rows:
            continue
        if "lacking" in rows:
            text += [f"{title}: not run, or not all of it: {rows['lacking']}", ""]
        rows = {name: row for name, row in rows.items() if name != "lacking"}
        names = list(dict.fromkeys(name for row in rows.values() for name in row["figures"]))
        text += [f"### {title}", ""]
        text += _table(
            ("run", *names, "memory that cubfc took"),
            [(run, *(_number(row["figures"].get(name, {}).get("value")) for name in names),
              bytes_text(row["peak_taken_bytes"]) if row["peak_taken_bytes"] else "–") for run, row in rows.items()])
    return text
