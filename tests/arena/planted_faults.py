#!/usr/bin/env python3
"""Plants one fault after the other in a copy of the arena's sources, builds the model test with it, and
expects the test to fail. A test that passes with a fault in what it tests proves nothing."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# (what is wrong then, file, what stands there, what stands there instead)
FAULTS = [
    ("a freed block does not coalesce with the hole before it", "regions_inline.h",
     "if (previous.state == state) {", "if (false) {"),
    ("a freed block does not coalesce with the hole behind it", "regions_inline.h",
     "} else if (next.state == state) {", "} else if (false) {"),
    ("a block that joins two holes leaves the second one filed", "regions_inline.h",
     "      bins.remove(blocks_, next_index);\n", ""),
    ("a hole that moves down keeps its old start", "regions_inline.h",
     "    next.start = block.start;\n", ""),
    ("a block stays linked after its record is given back", "regions_inline.h",
     "    unlink(block);\n    bins.update(blocks_, block.previous);", "    bins.update(blocks_, block.previous);"),
    ("what remains behind a block begins one granule early", "regions_inline.h",
     "    hole.start = start + granules;\n    hole.granules = behind;",
     "    hole.start = start + granules - 1;\n    hole.granules = behind + 1;"),
    ("what remains behind a block cut from the middle is lost", "regions_inline.h",
     "if (before > 0 && behind > 0) [[unlikely]] {", "if (false) {"),
    ("large blocks are not aligned", "regions_inline.h",
     "const std::uint32_t alignment = alignment_of(granules);", "const std::uint32_t alignment = 1;"),
    ("a retired block counts as free", "regions_inline.h",
     "blocks_[index].state = BlockState::kRetired;", "blocks_[index].state = BlockState::kFree;"),
    ("a landmark whose block lies in another region by now is followed", "regions.cpp",
     "                         block.region == number && block.start", "                         block.start"),
    ("a landmark whose block lies far away by now is followed", "regions.cpp",
     "block.start <= granule &&\n", "true &&\n"),
    ("a block that was gathered is reclaimed, those behind it are not", "arena.cpp",
     "      index = next;\n    }", "      index = kNoBlock;\n    }"),
    ("a block that is gathered stays live", "regions_inline.h",
     "const BlockIndex index = table_.take(address, LiesAt{*this, address});",
     "const BlockIndex index = table_.find(address, LiesAt{*this, address});"),
    ("a size that comes and goes is not told from one that stays", "regions_inline.h",
     "comes_and_goes ? Block::kComesAndGoes : Block::kStays", "Block::kOwnRegion"),
    ("a region whose first block is free counts as empty", "regions.cpp",
     "return first.state == BlockState::kFree && first.next == edge;",
     "return first.state == BlockState::kFree;"),
    ("a hole is taken without a look at its size", "bins.h",
     "hole != kNoBlock && fits(blocks[hole], request)) {\n      return hole;\n    }\n    BlockIndex",
     "hole != kNoBlock) {\n      return hole;\n    }\n    BlockIndex"),
    ("a hole of a larger class is taken without a look at where it starts", "bins.h",
     "while (hole != kNoBlock && !fits(blocks[hole], request))", "while (false)"),
    ("a hole that has shrunk stays in its class", "bins.h",
     "if (size_class != blocks[index].hole.size_class)",
     "if (size_class > blocks[index].hole.size_class)"),
    ("the bit of an empty class stays", "bins.h",
     "word &= ~(std::uint64_t{1} << (hole.size_class % 64));", ""),
    ("the summary bit of an empty word stays", "bins.h",
     "summary_ &= ~(std::uint64_t{1} << (hole.size_class / 64));", ""),
    ("a list forgets its last hole but one", "bins.h",
     "blocks[hole.previous].hole.next = hole.next;", "blocks[hole.previous].hole.next = kNoBlock;"),
    ("the gap in a run of slots is closed with an entry that must not move", "address_table.h",
     "if (((at - home) & mask_) >= ((at - gap) & mask_)) {", "{"),
    ("a gap in a run of slots is left open", "address_table.h",
     "if (((at - home) & mask_) >= ((at - gap) & mask_)) {", "if (false) {"),
    ("a growing address table moves half a run", "address_table.cpp",
     "moved < kMoveAtOnce || old_[next_to_move_].index != kNoBlock", "moved < kMoveAtOnce"),
    ("a growing address table forgets what it has not moved", "address_table.cpp",
     "old_ = std::exchange(slots_, std::move(larger));", "slots_ = std::move(larger);\n  old_ = Slots(4);"),
    ("a record is given to two blocks", "block.h",
     "      first_unused_ = records_[index].next;\n", ""),
    ("a region's number is looked for among the regions that were", "regions.cpp",
     "  by_address_.insert(place, static_cast<std::uint16_t>(number));\n  publish_map();",
     "  publish_map();\n  by_address_.insert(place, static_cast<std::uint16_t>(number));"),
    ("a page that a live block begins in is unmapped", "growth_by_pages.cpp",
     "const std::uint64_t end = round_down(block.end(), page);",
     "const std::uint64_t end = round_up(block.end(), page);"),
    ("what could not be mapped belongs to nobody", "growth_by_pages.cpp",
     "    pool_.regions.settle(block, BlockState::kVacant);\n", ""),
    ("what could not be mapped stays on the budget", "growth_by_pages.cpp",
     "  if (mapped.base == 0) {\n    pool_.budget.give(granted);", "  if (mapped.base == 0) {"),
    ("memory that could not be unmapped is lost", "growth_by_pages.cpp",
     "move.unmapped ? BlockState::kVacant : BlockState::kFree", "BlockState::kVacant"),
    ("a region of one block's is handed out twice", "regions.cpp",
     "  own_holes_.remove(blocks_, hole);\n  blocks_", "  blocks_"),
    ("a region of one block's is filed among the slices' holes", "regions.cpp",
     "block.nature == Block::kOwnRegion ? own_holes_ : bins_", "bins_"),
    ("a region that becomes a slice keeps the block that fills it", "regions.cpp",
     "  region.own = false;\n  block.start = region.first;\n  block.granules = region.granules;\n",
     "  region.own = false;\n"),
    ("a region that becomes a slice is one block's still", "regions.cpp",
     "  region.own = false;\n", ""),
    ("a region in use is given back", "growth_by_regions.cpp",
     "    if (pool_.regions.is_unused(number)) {", "    if (true) {"),
    ("a region is given back twice", "growth_by_regions.cpp",
     "    from.erase(next);\n", ""),
    ("what is given back stays on the budget", "growth_by_regions.cpp",
     "  lock.lock();\n  pool_.budget.release(bytes);\n", "  lock.lock();\n"),
    ("a place is taken that ends before the block does", "regions.cpp",
     "if (behind.state != BlockState::kFree || end > behind.end()) {", "if (false) {"),
    ("what is reclaimed stays on its caller's account", "figure_writer.h",
     ".change(~std::uint64_t{block.granules} + 1, read(*peaks_)))", ".change(0, read(*peaks_)))"),
    ("a caller's part at the peak is that of the last change", "figures.h",
     "      if ((last & ~kIsWatched) != peaks) {\n", "      {\n"),
    ("who watches is not told of what is freed", "figure_writer.h",
     "read(*peaks_)))\n        [[unlikely]] {\n      observer_->changed();", "read(*peaks_)))\n        [[unlikely]] {"),
    ("a reclaimed block is not taken off the figures", "counts.h",
     "      put(figures->granules_retired, granules_retired_);\n      writer_.unused(block, granules_in_use_);\n",
     "      put(figures->granules_retired, granules_retired_);\n"),
    ("a block that comes back is counted twice", "arena.cpp",
     "  pool_.counts.reclaimed(pool_.regions.block(block.index));\n", ""),
    ("memory that was given back is not told of", "counts.cpp",
     "  pool_bytes_ -= bytes;\n  memory_left(base, bytes);\n", "  pool_bytes_ -= bytes;\n"),
    ("pages that were unmapped are not told of", "growth_by_pages.cpp",
     "      pool_.counts.memory_left(move.base, move.bytes);\n", ""),
    ("an abandoned arena's figures stay", "figure_writer.h",
     "    put(figures_->granules_in_use, 0);\n", ""),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="c++", help="the C++ compiler (c++)")
    parser.add_argument("link", nargs="+", help="the model test's object files and what they need")
    parser.add_argument("--only", default="", help="faults whose description contains this")
    arguments = parser.parse_args()

    project = pathlib.Path(__file__).resolve().parents[2]
    survived = 0
    with tempfile.TemporaryDirectory(prefix="cubfc-faults-") as folder:
        work = pathlib.Path(folder)
        shutil.copytree(project / "arena", work / "arena")
        everything = work / "everything.cpp"
        everything.write_text("".join(f'#include "{source}"\n'
                                      for source in sorted((work / "arena").glob("*.cpp"))))

        def passes() -> bool:
            """Builds and runs the test; a crash or a loop without end is a failure, too."""
            binary = str(work / "model_test")
            subprocess.run([arguments.compiler, "-std=c++20", "-O1", "-w", f"-I{work}", str(everything),
                            *arguments.link, "-pthread", "-o", binary], check=True)
            try:
                ended = subprocess.run([binary], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       timeout=60, env={**os.environ, "CUBFC_TEST_SHRINK": "no"})
            except subprocess.TimeoutExpired:
                return False
            return ended.returncode == 0

        for _, name, old, _ in FAULTS:
            found = (work / "arena" / name).read_text().count(old)
            if found != 1:
                print(f"{name}: '{old}' stands there {found} times, not once")
                return 1
        if not passes():
            print("the model test fails without any fault")
            return 1
        for what, name, old, new in FAULTS:
            if arguments.only not in what:
                continue
            path = work / "arena" / name
            original = path.read_text()
            path.write_text(original.replace(old, new))
            caught = not passes()
            path.write_text(original)
            print(f"{'caught' if caught else 'NOT CAUGHT'}: {what}", flush=True)
            survived += not caught
    print(f"{survived} faults were not caught" if survived else "every fault was caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
